"""The native call: a builtin function that checks plain arrays and runs a program without Python.

`direct(executable, ...)` gives a `METH_FASTCALL` builtin.  It compares each argument's type, dtype,
dimensions, shape and flags with what the program was compiled for, allocates the results, runs the
program and returns them.  Whatever differs, or fails, goes to `fallback`, an ordinary callable,
which must be right on its own.  One function, compiled once per process, serves all programs: what
it compares with stands in a table, the data of the array that is the builtin's `self`.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from . import jit
from .unit import STATUS

MOST = 48  # arguments or results; more go through Python
RELEASE = 1 << 15  # elements read and written from which the GIL is released
KEEP = 64 << 20  # bytes of the largest workspace: it is kept for the next call, of whatever program
POOL = np.zeros(1, np.int64)  # the workspace that no call uses; its first word is its size
# words of the table
(INPUTS, OUTPUTS, MAIN, EXTERNS, SIZE, ARRAY, FALLBACK, SINGLE, FREES, WORKSPACE, NEW, RETURN, SAVE, RESTORE, TUPLE,
 VECTORCALL, MALLOC, FREE, DECREF, HEADER) = range(20)  # fmt: skip

TEXT = """
define ptr @call(ptr %self, ptr %args, i64 %nargs) nounwind {{
entry:
  %objs = alloca [{most} x ptr]
  %outs = alloca [{most} x ptr]
  %cells = alloca [{most} x [3 x ptr]]
  %status = alloca [{status} x i64]
  %self.data = getelementptr i8, ptr %self, i64 16
  %t = load ptr, ptr %self.data
  %nin = load i64, ptr %t
  %count = icmp eq i64 %nargs, %nin
  br i1 %count, label %arguments, label %other
arguments:
  %array.p = getelementptr i64, ptr %t, i64 {ARRAY}
  %array = load ptr, ptr %array.p
  %spec0 = getelementptr i64, ptr %t, i64 {HEADER}
  %any = icmp ne i64 %nin, 0
  br i1 %any, label %argument, label %allocate
argument:
  %i = phi i64 [ 0, %arguments ], [ %i.next, %accepted ]
  %spec = phi ptr [ %spec0, %arguments ], [ %spec.next, %accepted ]
  %o.p = getelementptr ptr, ptr %args, i64 %i
  %o = load ptr, ptr %o.p
  %type.p = getelementptr i8, ptr %o, i64 8
  %type = load ptr, ptr %type.p
  %slot = getelementptr ptr, ptr %objs, i64 %i
  %want.p = getelementptr i64, ptr %spec, i64 1
  %want = load ptr, ptr %want.p
  %number = icmp eq ptr %type, %want
  %rest = getelementptr i64, ptr %spec, i64 4
  br i1 %number, label %scalar, label %is.array
scalar:
  %cell = getelementptr [3 x ptr], ptr %cells, i64 %i
  %cell.data = getelementptr ptr, ptr %cell, i64 2
  %value = getelementptr i8, ptr %o, i64 16
  store ptr %value, ptr %cell.data
  store ptr %cell, ptr %slot
  br label %accepted
is.array:
  %right = icmp eq ptr %type, %array
  br i1 %right, label %described, label %other
described:
  store ptr %o, ptr %slot
  %descr.p = getelementptr i8, ptr %o, i64 56
  %descr = load ptr, ptr %descr.p
  %nd.p = getelementptr i8, ptr %o, i64 24
  %nd = load i32, ptr %nd.p
  %flags.p = getelementptr i8, ptr %o, i64 64
  %flags = load i32, ptr %flags.p
  %want.nd.p = getelementptr i64, ptr %spec, i64 2
  %want.nd = load i64, ptr %want.nd.p
  %want.flags.p = getelementptr i64, ptr %spec, i64 3
  %want.flags64 = load i64, ptr %want.flags.p
  %want.flags = trunc i64 %want.flags64 to i32
  %nd64 = sext i32 %nd to i64
  %c1 = icmp eq ptr %descr, %want
  %c2 = icmp eq i64 %nd64, %want.nd
  %have = and i32 %flags, %want.flags
  %c3 = icmp eq i32 %have, %want.flags
  %c12 = and i1 %c1, %c2
  %c123 = and i1 %c12, %c3
  br i1 %c123, label %shaped, label %other
shaped:
  %dims.p = getelementptr i8, ptr %o, i64 32
  %dims = load ptr, ptr %dims.p
  br label %dim
dim:
  %d = phi i64 [ 0, %shaped ], [ %d.next, %dim.same ]
  %more = icmp ult i64 %d, %want.nd
  br i1 %more, label %dim.check, label %dims.done
dim.check:
  %n.p = getelementptr i64, ptr %dims, i64 %d
  %n = load i64, ptr %n.p
  %m.p = getelementptr i64, ptr %rest, i64 %d
  %m = load i64, ptr %m.p
  %equal = icmp eq i64 %n, %m
  br i1 %equal, label %dim.same, label %other
dim.same:
  %d.next = add i64 %d, 1
  br label %dim
dims.done:
  br label %accepted
accepted:
  %length.p = getelementptr i64, ptr %spec, i64 2
  %length = load i64, ptr %length.p
  %spec.next = getelementptr i64, ptr %rest, i64 %length
  %i.next = add i64 %i, 1
  %last = icmp eq i64 %i.next, %nin
  br i1 %last, label %allocate, label %argument
allocate:
  %q0 = phi ptr [ %spec0, %arguments ], [ %spec.next, %accepted ]
  %nout.p = getelementptr i64, ptr %t, i64 {OUTPUTS}
  %nout = load i64, ptr %nout.p
  %new.p = getelementptr i64, ptr %t, i64 {NEW}
  %new = load ptr, ptr %new.p
  br label %out
out:
  %k = phi i64 [ 0, %allocate ], [ %k.next, %made ]
  %q = phi ptr [ %q0, %allocate ], [ %q.next, %made ]
  %out.more = icmp ult i64 %k, %nout
  br i1 %out.more, label %make, label %ready
make:
  %num64 = load i64, ptr %q
  %num = trunc i64 %num64 to i32
  %ond.p = getelementptr i64, ptr %q, i64 1
  %ond = load i64, ptr %ond.p
  %ond32 = trunc i64 %ond to i32
  %odims = getelementptr i64, ptr %q, i64 2
  %a = call ptr %new(ptr %array, i32 %ond32, ptr %odims, i32 %num, ptr null, ptr null, i32 0, i32 0, ptr null)
  %null = icmp eq ptr %a, null
  br i1 %null, label %memory, label %made
made:
  %a.p = getelementptr ptr, ptr %outs, i64 %k
  store ptr %a, ptr %a.p
  %k.next = add i64 %k, 1
  %q.next = getelementptr i64, ptr %odims, i64 %ond
  br label %out
ready:
  %size.p = getelementptr i64, ptr %t, i64 {SIZE}
  %size = load i64, ptr %size.p
  %ws.slot.p = getelementptr i64, ptr %t, i64 {WORKSPACE}
  %ws.slot = load ptr, ptr %ws.slot.p
  %some = icmp ne i64 %size, 0
  br i1 %some, label %take, label %run
take:
  %kept = atomicrmw xchg ptr %ws.slot, ptr null seq_cst
  %none = icmp eq ptr %kept, null
  br i1 %none, label %fetch, label %measure
measure:
  %kept.size = load i64, ptr %kept
  %fits = icmp uge i64 %kept.size, %size
  br i1 %fits, label %run, label %exchange
exchange:
  %free0.p = getelementptr i64, ptr %t, i64 {FREE}
  %free0 = load ptr, ptr %free0.p
  call void %free0(ptr %kept)
  br label %fetch
fetch:
  %malloc.p = getelementptr i64, ptr %t, i64 {MALLOC}
  %malloc = load ptr, ptr %malloc.p
  %padded = add i64 %size, 128
  %fetched = call ptr %malloc(i64 %padded)
  %dry = icmp eq ptr %fetched, null
  br i1 %dry, label %memory, label %fetched.one
fetched.one:
  store i64 %size, ptr %fetched
  br label %run
run:
  %ws = phi ptr [ null, %ready ], [ %kept, %measure ], [ %fetched, %fetched.one ]
  %ws.i = ptrtoint ptr %ws to i64
  %ws.up = add i64 %ws.i, 127
  %ws.al = and i64 %ws.up, -64
  %ws.aligned = inttoptr i64 %ws.al to ptr
  call void @llvm.memset.p0.i64(ptr %status, i8 0, i64 {status_bytes}, i1 false)
  %main.p = getelementptr i64, ptr %t, i64 {MAIN}
  %main = load ptr, ptr %main.p
  %externs.p = getelementptr i64, ptr %t, i64 {EXTERNS}
  %externs = load ptr, ptr %externs.p
  %frees.p = getelementptr i64, ptr %t, i64 {FREES}
  %frees64 = load i64, ptr %frees.p
  %frees = icmp ne i64 %frees64, 0
  br i1 %frees, label %free.run, label %hold.run
free.run:
  %save.p = getelementptr i64, ptr %t, i64 {SAVE}
  %save = load ptr, ptr %save.p
  %thread = call ptr %save()
  %code1 = call i32 %main(ptr %objs, ptr %outs, ptr %ws.aligned, ptr %externs, ptr %status)
  %restore.p = getelementptr i64, ptr %t, i64 {RESTORE}
  %restore = load ptr, ptr %restore.p
  call void %restore(ptr %thread)
  br label %after
hold.run:
  %code2 = call i32 %main(ptr %objs, ptr %outs, ptr %ws.aligned, ptr %externs, ptr %status)
  br label %after
after:
  %had = icmp ne ptr %ws, null
  br i1 %had, label %put, label %judge
put:
  %other.ws = atomicrmw xchg ptr %ws.slot, ptr %ws seq_cst
  %surplus = icmp ne ptr %other.ws, null
  br i1 %surplus, label %drop, label %judge
drop:
  %free.p = getelementptr i64, ptr %t, i64 {FREE}
  %free = load ptr, ptr %free.p
  call void %free(ptr %other.ws)
  br label %judge
judge:
  %failed = load i64, ptr %status
  %ok = icmp eq i64 %failed, 0
  br i1 %ok, label %finish, label %discard
finish:
  %single.p = getelementptr i64, ptr %t, i64 {SINGLE}
  %single = load i64, ptr %single.p
  %one = icmp ne i64 %single, 0
  %return.p = getelementptr i64, ptr %t, i64 {RETURN}
  %return = load ptr, ptr %return.p
  br i1 %one, label %give, label %several
give:
  %first = load ptr, ptr %outs
  %r = call ptr %return(ptr %first)
  ret ptr %r
several:
  %tuple.p = getelementptr i64, ptr %t, i64 {TUPLE}
  %tuple = load ptr, ptr %tuple.p
  %all = call ptr %tuple(i64 %nout)
  %no.tuple = icmp eq ptr %all, null
  br i1 %no.tuple, label %memory, label %fill
fill:
  %j = phi i64 [ 0, %several ], [ %j.next, %filled ]
  %fill.more = icmp ult i64 %j, %nout
  br i1 %fill.more, label %filled, label %full
filled:
  %x.p = getelementptr ptr, ptr %outs, i64 %j
  %x = load ptr, ptr %x.p
  %y = call ptr %return(ptr %x)
  %item0 = getelementptr i8, ptr %all, i64 24
  %item = getelementptr ptr, ptr %item0, i64 %j
  store ptr %y, ptr %item
  %j.next = add i64 %j, 1
  br label %fill
full:
  ret ptr %all
memory:
  %made.count = phi i64 [ %k, %make ], [ %nout, %fetch ], [ %nout, %several ]
  br label %discard
discard:
  %n.discard = phi i64 [ %made.count, %memory ], [ %nout, %judge ]
  %decref.p = getelementptr i64, ptr %t, i64 {DECREF}
  %decref = load ptr, ptr %decref.p
  br label %decrefs
decrefs:
  %e = phi i64 [ 0, %discard ], [ %e.next, %decref.one ]
  %e.more = icmp ult i64 %e, %n.discard
  br i1 %e.more, label %decref.one, label %other
decref.one:
  %z.p = getelementptr ptr, ptr %outs, i64 %e
  %z = load ptr, ptr %z.p
  call void %decref(ptr %z)
  %e.next = add i64 %e, 1
  br label %decrefs
other:
  %fallback.p = getelementptr i64, ptr %t, i64 {FALLBACK}
  %fallback = load ptr, ptr %fallback.p
  %vectorcall.p = getelementptr i64, ptr %t, i64 {VECTORCALL}
  %vectorcall = load ptr, ptr %vectorcall.p
  %slow = call ptr %vectorcall(ptr %fallback, ptr %args, i64 %nargs, ptr null)
  ret ptr %slow
}}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


class Table(np.ndarray):
    """Words that the native call reads, and the objects that must live as long as they."""


class MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    )  # fmt: skip


@functools.lru_cache(None)
def entry() -> tuple:
    """The native call of this process: (its method definition, what must live as long)."""
    words = {k: v for k, v in globals().items() if k.isupper() and isinstance(v, int)}
    with jit.LOCK:
        module = jit.optimise(TEXT.format(most=MOST, status=STATUS, status_bytes=8 * STATUS, **words))
        tracker = jit.link(jit.target().machine.emit_object(module), "dispatch", "call")
        module.close()
    definition = MethodDef(b"compiled", tracker["call"], 0x80, None)  # METH_FASTCALL
    return definition, tracker


@functools.lru_cache(None)
def api() -> dict:
    """Addresses of the functions of Python, NumPy and libc that the native call uses."""
    python = ctypes.pythonapi
    get = python.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    from numpy._core import _multiarray_umath

    numpy = ctypes.cast(get(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))

    def address(f) -> int:
        return ctypes.cast(f, ctypes.c_void_p).value or 0

    libc = ctypes.CDLL(None)
    return {
        ARRAY: id(np.ndarray), NEW: numpy[93], RETURN: numpy[76], SAVE: address(python.PyEval_SaveThread),
        RESTORE: address(python.PyEval_RestoreThread), TUPLE: address(python.PyTuple_New),
        VECTORCALL: address(python.PyObject_Vectorcall), MALLOC: address(libc.malloc), FREE: address(libc.free),
        DECREF: address(python.Py_DecRef),
    }  # fmt: skip


def direct(executable: Any, fallback: Callable, single: bool = False, numbers: tuple = ()) -> Callable | None:
    """A builtin that runs an executable on plain arrays, or None where only Python can.

    `single` returns the only result itself, else a tuple.  `numbers` names positions of 0-d float64
    inputs that a Python float (and nothing else) stands for.  0-d results are NumPy scalars.  Where
    the arguments are others, or the program fails, `fallback(*args)` answers.
    """
    types, results, layouts = executable._types, executable._results, executable._layouts
    if len(types) > MOST or len(results) > MOST or executable.report.host_calls or executable._size > KEEP:
        return None  # NumPy's large arrays are of huge pages, which cost less to touch for the first time
    words: list[int] = [0] * HEADER
    for slot, value in api().items():
        words[slot] = value
    size = executable._size
    for k, ((shape, dtype), layout) in enumerate(zip(types, layouts, strict=True)):
        if k in numbers:
            words += [1, id(float), 0, 0]
            continue
        descr = np.dtype(dtype.str)
        words += [0, id(descr), len(shape), 0x100 | (1 if layout == "C" else 0), *shape]
    for shape, dtype in results:
        words += [dtype.num, len(shape), *shape]
    elements = sum(int(np.prod(shape)) for shape, _ in (*types, *results))
    work = elements + 1000 * len(executable.report.library_calls)
    work += sum(100 * loop.steps for loop in executable.report.loops)
    with jit.LOCK:  # made once: what another thread made at the same time would die with its caller
        definition, _ = entry()
    words[INPUTS], words[OUTPUTS], words[MAIN] = len(types), len(results), executable._tracker["main"]
    words[EXTERNS], words[SIZE] = ctypes.addressof(executable._externs), size
    words[FALLBACK], words[SINGLE], words[FREES] = id(fallback), int(single), int(work > RELEASE)
    words[WORKSPACE] = POOL.ctypes.data
    table = np.array(words, np.int64).view(Table)
    table.held = (executable, fallback)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(definition), table, None)
