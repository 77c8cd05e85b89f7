"""Every ufunc's methods and keywords on traced values: NumPy's numbers and dtypes, and what NumPy refuses is refused."""

import numpy as np
import pytest

import rune

UFUNCS = {f.__name__: f for f in vars(np).values() if isinstance(f, np.ufunc) and f.signature is None}
FOLDED = [
    name
    for name, f in UFUNCS.items()
    # NumPy's own vector loops of these two are wrong where the result is also the first operand
    if (f.nin, f.nout) == (2, 1) and name not in ("arctan2", "power")
]
MANY = [name for name, f in UFUNCS.items() if f.nout == 2 and name != "frexp"]

ARRAYS = {
    "float64": np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]]),
    "float32": np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]], np.float32),
    "complex128": np.array([[1.5 + 1j, -2.0, 3.0j], [0.5, 4.0, -1.0]]),
    "empty": np.zeros((0, 3)),
    "int64": np.array([[3, 1, 2], [7, 5, 4]]),
    "uint8": np.array([[3, 1, 200], [7, 5, 100]], np.uint8),
    "bool": np.array([[True, False, True], [True, True, False]]),
}

CALLS = """
f.reduce(x)
f.reduce(x, axis=1)
f.reduce(x, axis=-1, keepdims=True)
f.reduce(x, axis=0, initial=2)
f.reduce(x, axis=(0,), keepdims=True, initial=1)
f.reduce(x, axis=1, initial=2, where=[True, False, True])
f.reduce(x, axis=1, where=[True, False, True])
f.reduce(x, axis=1, dtype="f8")
f.reduce(x, axis=5)
f.accumulate(x)
f.accumulate(x, axis=-1)
f.accumulate(x, axis=1, dtype="f8")
f.accumulate(x, axis=None)
f.reduceat(x, [0, 1])
f.reduceat(x, [0, 2, 1], axis=1)
f.reduceat(x, [])
f.reduceat(x, [0, 5])
f.outer(x, x[0])
f.outer(x, 2)
f(x, x, dtype="f4")
f(x, x, dtype="f4", casting="unsafe")
f(x, x, casting="no")
f(x, x, casting="most")
f(x, x, order="Z")
f(x, x, more=1)
f(x, x, signature="dd->d")
f(x, x, where=[True, False, True], out=y)
f(x, x[:, :1], out=y)
f(x, 2, out=y[:, ::-1])
f(x, x, out=y[0])
f.at(y, [0, 0], 2)
f.at(y, ([0, 1, 0], [1, 1, 1]), x[0])
""".strip().splitlines()

# What NumPy cannot compute in the dtype asked for is computed all the same, or in another dtype.
LENIENT = ("dtype", "casting", "signature")


def answer(call, name):
    def run(x):
        y = np.zeros_like(x) + x
        result = eval(call, {"np": np, "f": UFUNCS[name], "x": x, "y": y})
        return (*(result if isinstance(result, tuple) else (result,)), y)

    return run


def jvp(f, x):
    return rune.jvp(f, (x,), (np.zeros_like(x),))[0]


def vmap(f, x):
    return tuple(None if y is None else y[1] for y in rune.vmap(f)(np.stack([x, x])))


def same(call, name, x):
    """NumPy's answer; what only the numbers or dtypes of a place that NumPy refuses would show is left out."""
    f = answer(call, name)
    way = jvp if x.dtype.kind in "fc" else vmap
    refused = None
    try:
        want = f(x.copy())
    except Exception as error:
        refused = error
    if refused is not None:
        if not any(word in call for word in LENIENT):
            with pytest.raises(Exception) as caught:
                way(f, x)
            kinds = type(refused), type(caught.value)
            assert issubclass(*kinds) or issubclass(*kinds[::-1]) or not x.size
        return
    for a, b in zip(want, way(f, x), strict=True):
        assert np.shape(a) == np.shape(b)
        if a is not None:
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_allclose(b, a, rtol={2: 5e-3, 4: 1e-5}.get(a.dtype.itemsize, 1e-12))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("call", CALLS)
def test_the_methods_of_ufuncs_of_two_operands(call, kind):
    for name in FOLDED:
        if name != "ldexp":  # its second operand is an integer
            same(call, name, ARRAYS[kind])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MANY)
def test_several_results_are_written_where_the_mask_says(name):
    a = ", ".join(["x"] * UFUNCS[name].nin)
    for call in (f"f({a}, out=(y, None))", f"f({a}, where=x > 1, out=(y, y + 0))"):
        same(call, name, ARRAYS["float64"])


@pytest.mark.parametrize("name, x", [("power", [[2.0, 3.0, 2.0]]), ("arctan2", [[1.5, -2.0, 3.0]])])
def test_a_fold_runs_from_first_to_last(name, x):
    f, (a, b, c) = UFUNCS[name], x[0]
    got = rune.jvp(lambda x: f.reduce(x, axis=1, initial=1.25), (np.array(x),), (np.zeros((1, 3)),))[0]
    np.testing.assert_allclose(got, [f(f(f(1.25, a), b), c)])
