"""A law over the table of scalar functions: tangents and cotangents have the dtypes of what they belong to."""

import numpy as np
import pytest

import rune
from rune.primitives import special
from rune.primitives.map import elementwise
from rune.primitives.scalar import TABLE
from rune.value import box, raw

special.load()
DTYPES = [np.float16, np.float32, np.float64, np.complex64, np.complex128]
ROWS = [row for row in TABLE.values() if row.name not in ("select", "cast", "complex") and not row.zero]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_tangents_and_cotangents_keep_the_dtypes(row):
    count = getattr(row.ufunc, "nin", 1)
    f = lambda *args: box(elementwise(row.name, *(raw(a) for a in args)))
    refused = [
        k for k in range(count) if row.partials and getattr(row.partials[k], "__name__", "") == "refuse"
    ]
    for dtype in DTYPES:
        args = [
            np.array([0.3, 0.7, 0.7], dtype),
            np.array([0.4, 0.6, 0.7], dtype),
            np.array([0.4, 0.6, 0.5], dtype),
        ][:count]
        try:
            out = f(*args)
        except TypeError:  # NumPy has no loop of that dtype
            continue
        if out.dtype.kind not in "fc":
            continue
        for k in set(range(count)) - set(refused):
            along = lambda v: f(*args[:k], v, *args[k + 1 :])
            y, dy = rune.jvp(along, (args[k],), (np.ones_like(args[k]),))
            assert (y.dtype, dy.dtype) == (out.dtype, out.dtype)
            if row.native != "special:ive" or dtype in (np.float32, np.float64):
                _, pullback = rune.vjp(along, args[k])
                assert pullback(np.ones_like(out))[0].dtype == dtype
            program = rune.program(lambda v: rune.jvp(along, (v,), (v,)))(args[k])
            assert [t.dtype for t in program.output_types] == [out.dtype] * 2
            if dtype is np.float32:
                for line in str(program).splitlines():
                    assert "float64 [3]" not in line or "cast" in line, line
