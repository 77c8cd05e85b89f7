"""The workloads, a file each, and the peers.

A workload is a module with

- a docstring that says what is computed,
- `TOLERANCE`: how far results may differ, as a part of the largest element,
- `data()`, or `data(scale)` where the length of a loop can grow: the arguments, as NumPy arrays,
- `with_rune(*data)`, and `with_jax`, `with_numpy`, `with_c`, `with_autograd` where they make sense: each makes a call
  without arguments that returns the result when it is there (an array or a tuple of arrays).

JAX runs with 64-bit numbers, compiled, on inputs that are on its device.  The limits in C are
`bench/limits.c`, which gcc compiles when they are first asked for.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import inspect
import pkgutil
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import ModuleType

import numpy as np

__all__ = ["PEERS", "Missing", "has", "limits", "load", "names", "pointer", "prepare", "scales"]

PEERS = ("rune", "jax", "numpy", "c", "autograd")
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")
SOURCE = Path(__file__).parent.parent / "limits.c"


class Missing(Exception):
    """A peer that cannot run here; the message says what to install."""


def names() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(__path__))


def load(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")


def has(workload: ModuleType, peer: str) -> bool:
    return hasattr(workload, f"with_{peer}")


def scales(workload: ModuleType) -> bool:
    """Whether the workload has a loop whose length can grow."""
    return bool(inspect.signature(workload.data).parameters)


def prepare(peer: str) -> None:
    """Load a peer, outside every measurement; raises `Missing`."""
    if peer == "jax":
        try:
            import jax
        except ImportError:
            raise Missing("JAX is not installed (pip install -e '.[bench]')") from None
        jax.config.update("jax_enable_x64", True)
        jax.block_until_ready(jax.numpy.zeros(1) + 1)  # its backend starts here
    elif peer == "autograd":
        try:
            import autograd.numpy  # noqa: F401
        except ImportError:
            raise Missing("autograd is not installed (pip install -e '.[bench]')") from None
    elif peer == "c":
        limits()
    elif peer == "rune":
        import rune

        rune.jit(lambda x: x + 1)(np.ones(1))  # its compiler loads here


@functools.cache
def limits() -> ctypes.CDLL:
    """`limits.c`, compiled for this machine and kept in the temporary directory."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise Missing("gcc is not installed")
    text = SOURCE.read_bytes()
    version = subprocess.check_output([compiler, "--version"])
    name = hashlib.sha256(text + version + " ".join(FLAGS).encode()).hexdigest()[:16]
    library = Path(tempfile.gettempdir()) / f"rune-bench-{name}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory() as scratch:
            fresh = Path(scratch) / library.name
            subprocess.run([compiler, *FLAGS, str(SOURCE), "-o", str(fresh), "-lm"], check=True)
            shutil.move(fresh, library)
    return ctypes.CDLL(str(library))


def pointer(x: np.ndarray) -> ctypes.c_void_p:
    """The address of a contiguous array's first element."""
    assert x.flags.c_contiguous
    return ctypes.c_void_p(x.ctypes.data)
