"""Special functions: called by pointer, as `scipy.special.cython_special` exports them.

An operation `special:NAME` is NAME's variant over float64; other dtypes are cast around it.  SciPy is
imported when a program first needs one.
"""

from __future__ import annotations

import functools

from .function import LLVM
from .index import Value
from .math import cast, libm

SPECIAL_BY_LIBM = {"erf": "erf", "erfc": "erfc", "log1p": "log1p", "expm1": "expm1", "cbrt": "cbrt"}


def special(fn, name: str, a: list[Value], out: str) -> Value:
    """A function of `scipy.special.cython_special`, called by pointer in float64."""
    if name in SPECIAL_BY_LIBM and all(x.kind in ("f4", "f8") for x in a):
        return cast(fn, libm(fn, SPECIAL_BY_LIBM[name], *a), out)
    name = {"digamma": "psi"}.get(name, name)
    address, types, extra = special_pointer(name, len(a))
    pointer = fn.unit.extern(("special", name, len(a)), address)
    args = [cast(fn, x, kind) for x, kind in zip(a, types[1:], strict=True)]
    text = ", ".join([f"{LLVM[x.kind]} {fn.name_of(x)}" for x in args] + ["i32 0"] * extra)
    p = fn.unit.load_extern(fn, pointer)
    r = fn.put(f"call {LLVM[types[0]]} {fn.name_of(p)}({text}) #1", types[0], p, *args)
    return cast(fn, r, out)


@functools.lru_cache(None)
def special_pointer(name: str, arity: int):
    """Address and signature (dtype codes) of the variant over float64, and its extra int arguments."""
    import ctypes
    import re

    from scipy.special import cython_special

    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    codes = {"double": "f8", "long": "i8", "int": "i4", "Py_ssize_t": "i8"}
    for key, capsule in cython_special.__pyx_capi__.items():
        if re.sub(r"^__pyx_fuse_[0-9_]+", "", key) != name:
            continue
        signature = get_name(capsule)
        head, _, arguments = signature.decode().partition("(")
        kinds = [re.sub(r"\s*__pyx_skip_dispatch", "", x).strip() for x in arguments.rstrip(")").split(",")]
        extra = arguments.count("__pyx_skip_dispatch")
        types = [head.strip(), *kinds[: len(kinds) - extra]]
        if len(types) == arity + 1 and all(t in codes for t in types) and "double" in types[0]:
            return get_pointer(capsule, signature), tuple(codes[t] for t in types), extra
    raise NotImplementedError(f"scipy exports no float64 function {name} of {arity} arguments")
