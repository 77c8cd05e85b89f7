"""A compiled program that can be called, and how it is compiled.

The native function is `i32 main(args, outs, workspace, externs, status)`: tables of array objects,
the call's own workspace, the table of externs and the words of status (`unit`).  `main` reads data
pointers (and strides, where the layout asks for them) out of the array objects.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
import threading
import weakref

import numpy as np

from . import jit, math
from .consume import CONSUMED, taken
from .emit import Emission
from .index import Value
from .report import Report
from .source import Buffer
from .unit import (
    CHECK,
    EIGENVALUES,
    HOST,
    INDEX,
    NOT_FINITE,
    NOT_POSITIVE,
    SINGULAR,
    SINGULAR_VALUES,
    STATUS,
    STEPS,
    Unit,
)

DATA, STRIDES = 16, 40  # bytes into NumPy's array object (its C API fixes them)
FRAMES = 10_000
KEEP = 64 << 20  # workspaces up to this many bytes in all are kept between calls


def compile(block, layouts, name: str = "main", threads: int | None = None) -> Executable:
    """Native code for a block, for one layout ("C", "S" or "O") of each input."""
    with jit.LOCK, deep():
        jit.target()
        unit = emit(block, layouts, name, threads)
        text = unit.text()
        module = jit.optimise(text)
        obj = jit.target().machine.emit_object(module)
        tracker = jit.link(obj, name)
        module.close()
    return Executable(unit, text, obj, tracker, block, layouts)


@contextlib.contextmanager
def deep():
    """Room for the emitter, which calls itself for every value that is computed where it is read.

    What it makes lives until the code is there: a collector that looks for garbage meanwhile finds none, and
    takes a third of the time of a large program.
    """
    limit, collecting = sys.getrecursionlimit(), gc.isenabled()
    sys.setrecursionlimit(max(limit, FRAMES))
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
        sys.setrecursionlimit(limit)


def emit(block, layouts, name: str, threads: int | None) -> Unit:
    unit = Unit(name, threads)
    unit.report = Report(name)
    with entry(unit) as fn:
        args, outs = (Value(n, "p", 0, fn) for n in ("%args", "%outs"))
        unit.workspace_pointer = Value("%workspace", "p", 0, fn)
        unit.externs_pointer = Value("%externs", "p", 0, fn)
        unit.status = Value("%status", "p", 0, fn)

        def field(table, k, offset):
            p = fn.put(f"getelementptr ptr, ptr {table.name}, i64 {k}", "p", table)
            obj = fn.put(f"load ptr, ptr {p.name}", "p", p)
            q = fn.put(f"getelementptr i8, ptr {obj.name}, i64 {offset}", "p", obj)
            return fn.put(f"load ptr, ptr {q.name}", "p", q)

        sources = {}
        for k, (v, layout) in enumerate(zip(block.inputs, layouts, strict=True)):
            base = field(args, k, DATA)
            strides = None
            if layout == "S" and v.type.shape:
                table = field(args, k, STRIDES)
                strides = []
                for d in range(len(v.type.shape)):
                    p = fn.put(f"getelementptr i64, ptr {table.name}, i64 {d}", "p", table)
                    strides.append(fn.put(f"load i64, ptr {p.name}", "i8", p))
            b = Buffer(
                base, math.kind_of(v.type.dtype), v.type.shape, byte_strides=strides, maybe_product=False
            )
            b.where = "argument"
            sources[v] = b
        targets = [
            Buffer(field(outs, k, DATA), math.kind_of(v.type.dtype), v.type.shape)
            for k, v in enumerate(block.outputs)
        ]
        consumed = [v for v, layout in zip(block.inputs, layouts, strict=True) if layout == CONSUMED]
        emission = Emission(unit, block, sources, targets, False, consumed)
        emission.run()
    position = {v: k for k, v in enumerate(block.inputs)}
    unit.spent = {position[x]: emission.consumed[x] for x in emission.spent}
    unit.report.taken = {out: k for k, out in unit.spent.items() if out is not None}
    unit.report.workspace, unit.report.buffers = unit.workspace.end, unit.workspace.taken
    return unit


UNSOLVED = {
    EIGENVALUES: "Eigenvalues did not converge",
    SINGULAR_VALUES: "SVD did not converge",
    NOT_FINITE: "Array must not contain infs or NaNs",
}


class entry:
    """The main function of a unit."""

    def __init__(self, unit):
        self.unit = unit

    def __enter__(self):
        from .function import Function

        unit = self.unit
        fn = unit.fn = Function(unit, "main", None, "i32")
        return fn

    def __exit__(self, kind, *_):
        if kind is not None:
            return
        fn = self.unit.fn
        fn.params = [(f"ptr noalias %{n}", None) for n in ("args", "outs", "workspace", "externs", "status")]
        self.unit.functions.append(fn.text(linkage=""))


class Workspaces:
    """Memory for the calls of all executables: taken by a call, given back after it, and reused.

    Appending to a list and popping from it are atomic, so calls from several threads share one pool.
    """

    def __init__(self):
        self.free: list = []

    def take(self, size: int) -> tuple:
        """(size, address aligned to a cache line, the array that owns the memory), of `size` or more bytes."""
        try:
            workspace = self.free.pop()
            if workspace[0] >= size:
                return workspace
        except IndexError:
            pass
        memory = np.empty(size + 64, np.uint8)
        return size, -(-memory.ctypes.data // 64) * 64, memory

    def give(self, workspace: tuple) -> None:
        if sum(size for size, _, _ in self.free) + workspace[0] <= KEEP:
            self.free.append(workspace)


WORKSPACES = Workspaces()


class Executable:
    """Native code of one program for one layout of its arguments."""

    def __init__(self, unit, text, obj, tracker, block, layouts):
        self._tracker, self._text, self._object = tracker, text, obj
        self._main = jit.PROTOTYPE(tracker["main"])
        self.report = unit.report
        self._size = unit.report.workspace
        self._types = [(v.type.shape, v.type.dtype) for v in block.inputs]
        self._layouts = tuple(layouts)
        self._results = [(v.type.shape, v.type.dtype) for v in block.outputs]
        self._inputs, self._outputs = len(block.inputs), len(block.outputs)
        self._raised: dict = {}  # thread -> the exception of a host call
        self._held: list = []
        self._checks = unit.checks
        self._spent = unit.spent  # input whose storage is written to -> the result that has it, or None
        self._externs = (ctypes.c_void_p * max(1, len(unit.externs)))(*map(self._resolve, unit.externs))
        self._arguments = ctypes.c_void_p * max(1, self._inputs)
        self._outs = ctypes.c_void_p * max(1, self._outputs)

    def _resolve(self, item) -> int:
        from . import blas, threads

        if isinstance(item, int):
            return item
        what = item[0]
        if what == "array":
            self._held.append(item[1])
            return item[1].ctypes.data
        if what == "pointer":
            return blas.pointer(item[1])
        if what == "threads":
            return threads.pointer(item[1])
        callback = jit.CALLBACK(host_callback(weakref.ref(self), *item[1:]))
        self._held.append(callback)
        return ctypes.cast(callback, ctypes.c_void_p).value

    def __call__(self, arrays) -> list:
        in_place = self.report.taken
        outs = [
            arrays[in_place[k]] if k in in_place else np.empty(shape, dtype)
            for k, (shape, dtype) in enumerate(self._results)
        ]
        workspace = WORKSPACES.take(self._size)
        status = (ctypes.c_int64 * STATUS)()
        self._main(
            self._arguments(*map(id, arrays)), self._outs(*map(id, outs)), workspace[1], self._externs, status
        )
        WORKSPACES.give(workspace)
        for k, out in self._spent.items():  # also where the call failed: it may have written to them
            new = taken(arrays[k])
            if out is not None:
                outs[out] = new
        if status[0]:
            self._fail(status)
        return outs

    def captures(self, array) -> bool:
        """Whether an array may share its storage with one that the program captured."""
        return any(np.may_share_memory(array, x) for x in self._held if isinstance(x, np.ndarray))

    def direct(self, fallback, single: bool = False, numbers: tuple = ()):
        """A builtin that runs the program on plain arrays (see `dispatch.direct`), or None."""
        from .dispatch import direct

        return direct(self, fallback, single, numbers)

    def _fail(self, status) -> None:
        code, value, lane, site = status[:4]
        if code == HOST:
            raise self._raised.pop(threading.get_ident())
        self._raised.pop(threading.get_ident(), None)
        steps = tuple(status[STEPS : STEPS + status[STEPS - 1]])
        if code == CHECK:
            raise self._checks[site](value, steps)
        if code == INDEX:
            raise self._checks[site](value, lane, steps)
        where = f" (in {', '.join(f'step {k}' for k in steps)})" if steps else ""
        if code == NOT_POSITIVE:
            raise np.linalg.LinAlgError(f"Matrix is not positive definite{where}")
        if code == SINGULAR:
            raise np.linalg.LinAlgError(f"Singular matrix{where}")
        if code in UNSOLVED:
            raise np.linalg.LinAlgError(UNSOLVED[code] + where)
        raise RuntimeError(f"native code failed with status {code}")

    @property
    def llvm(self) -> str:
        """The optimised LLVM text."""
        with jit.LOCK:
            return str(jit.optimise(self._text))

    @property
    def asm(self) -> str:
        """The machine code, as assembly text."""
        with jit.LOCK:
            return jit.target().machine.emit_assembly(jit.optimise(self._text))


def host_callback(executable, call, name, inputs, outputs):
    """Python behind a native pointer: nothing may be raised through it."""

    def view(pointer, dtype, shape):
        count = int(np.prod(shape, dtype=np.int64))
        raw = (ctypes.c_byte * max(1, count * dtype.itemsize)).from_address(pointer)
        return np.frombuffer(raw, dtype, count).reshape(shape)

    def run(table):
        try:
            pointers = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))
            arrays = [view(pointers[k], *t).copy() for k, t in enumerate(inputs)]
            results = call(*arrays)
            if len(results) != len(outputs):
                raise ValueError(f"{name}: gave {len(results)} results, expected {len(outputs)}")
            for k, (r, (dtype, shape)) in enumerate(zip(results, outputs, strict=True)):
                r = np.asarray(r)
                if r.shape != tuple(shape) or r.dtype != dtype:
                    raise ValueError(
                        f"{name}: result {k} is {r.dtype} {list(r.shape)}, expected {dtype} {list(shape)}"
                    )
                view(pointers[len(inputs) + k], dtype, shape)[...] = r
        except BaseException as error:  # raised again after the native call has returned
            executable()._raised[threading.get_ident()] = error
            return 1
        return 0

    return run
