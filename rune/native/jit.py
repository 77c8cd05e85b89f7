"""LLVM: the machine that code is made for, its optimiser, and the one library of linked code.

There is one ORC `LLJIT` for the process; a program is emitted to an object, linked there under a
name of its own, and unlinked when nothing holds it.  One lock covers everything LLVM does; a thread that
forks waits for it, since a child would find it held by a thread that it has not.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import itertools
import os
import sys
import threading
from typing import Any

LOCK = threading.RLock()
_forking = contextlib.ExitStack()


def hold() -> None:
    """Before a fork: no other thread is inside LLVM, nor frees what it made, which llvmlite's own lock covers."""
    _forking.enter_context(LOCK)
    lib = getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None)
    if lib is not None:
        _forking.enter_context(lib._lock)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=hold, after_in_parent=_forking.close, after_in_child=_forking.close)
_serial = itertools.count()


@dataclasses.dataclass
class Target:
    machine: Any
    features: dict
    libmvec: Any  # the library, or None
    jit: Any


@functools.lru_cache(None)
def target() -> Target:
    """The host, once."""
    import llvmlite.binding as llvm

    with LOCK:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = dict(llvm.get_host_cpu_features())
        # LLVM 22 packs loads of a small array into one gather, and moves it before the stores of what it reads.
        unused = ["+prefer-no-gather"] if llvm.get_default_triple().startswith("x86_64") else []
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(),
            features=",".join([*(("+" if on else "-") + name for name, on in features.items()), *unused]),
            opt=2,
            reloc="pic",
            jit=True,
        )
        libmvec = None
        if llvm.get_default_triple().startswith("x86_64"):
            try:
                llvm.load_library_permanently("libmvec.so.1")
                libmvec = ctypes.CDLL("libmvec.so.1")
            except RuntimeError:
                libmvec = None
        with contextlib.suppress(RuntimeError):  # another libc: its functions are in the process already
            llvm.load_library_permanently("libm.so.6")
        return Target(machine, features, libmvec, llvm.create_lljit_compiler(machine, use_jit_link=False))


LEVEL = 1  # of optimisation: level 2 takes a sixth longer, and no workload of the benchmark is faster
SLP_LINES = 5000  # the packing of scalars takes time that grows with the square of a function's length


def optimise(text: str):
    """The parsed and optimised module, in a context of its own."""
    packing = text.count("\n") <= SLP_LINES
    try:
        return passed(text, packing)
    except RuntimeError:
        # LLVM's packing of scalars can leave an instruction before its operands, which would end the process later.
        if not packing:
            raise
        return passed(text, packing=False)


def passed(text: str, packing: bool):
    import llvmlite.binding as llvm

    machine = target().machine
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()  # an invalid module would end the process in a pass
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=LEVEL)
    options.loop_vectorization = True
    options.slp_vectorization = packing
    options.loop_interleaving = True
    options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    llvm.newpassmanagers.NewPassManager._dispose(passes)  # llvmlite hides it behind one that frees nothing
    passes.detach()
    module.verify()
    return module


def link(obj: bytes, name: str, *symbols: str):
    """The resource tracker of a linked object; it holds the code while it lives."""
    import llvmlite.binding as llvm

    library = f"{name}.{next(_serial)}"
    builder = llvm.JITLibraryBuilder().add_object_img(obj).add_current_process()
    for symbol in symbols or ("main",):
        builder.export_symbol(symbol)
    return builder.link(target().jit, library)


PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
