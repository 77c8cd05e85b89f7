"""Calls from NumPy's own documentation that rune answered otherwise, each kind as a law."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rune

X = np.array([0.3, 1.7, 2.2, 0.9, 1.1])
Y = np.array([1.2, 0.1, 2.9, 1.6, 0.4])


@st.composite
def insertions(draw):
    """An array, what np.insert takes as its places, and values that fit there or do not."""
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    axis = draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    n = int(np.prod(shape)) if axis is None else shape[axis]
    place = st.integers(-n, n)
    obj = draw(
        st.one_of(
            place,
            st.lists(place, max_size=3),
            st.builds(slice, st.integers(0, n), st.integers(0, n)),
            st.lists(st.booleans(), min_size=n, max_size=n).map(np.array),
        )
    )
    values = draw(st.lists(st.integers(1, 3), max_size=3))
    return (
        np.arange(float(np.prod(shape))).reshape(shape),
        obj,
        -1.0 - np.arange(np.prod(values)).reshape(values),
        axis,
    )


@settings(max_examples=300)
@given(insertions())
def test_insert(case):
    array, obj, values, axis = case
    insert = lambda a, v: np.insert(a, obj, v, axis)
    traced = lambda a, v: rune.jvp(insert, (a, v), (np.ones_like(a), np.zeros_like(v)))
    try:
        want = insert(array, values)
    except (ValueError, IndexError) as error:
        with pytest.raises(type(error)):
            traced(array, values)
        return
    got, tangent = traced(array, values)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(tangent, want >= 0)


EDGES = (np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 1.5, 3.0]))
BINS = {
    "two sets of edges": EDGES,
    "a list of them": list(EDGES),
    "edges and a number": (EDGES[0], 3),
    "edges of both": EDGES[0],
    "two edges": [2, 4],
    "a number": 3,
    "one in a list": [3],
    "a row of edges each": np.array([[0.0, 1.0, 2.0], [0.0, 1.5, 3.0]]),
}


def edges_in(bins):
    return [b for b in (bins if isinstance(bins, (list, tuple)) else [bins]) if isinstance(b, np.ndarray)]


CASES = [
    (name, edges)
    for name in BINS
    for edges in ("known", "traced")
    if edges == "known" or edges_in(BINS[name])
]


@pytest.mark.parametrize(("bins", "edges"), CASES)
def test_histograms_of_pairs(bins, edges):
    given = BINS[bins]

    known = edges_in(given)
    try:
        want = np.histogram2d(X, Y, bins=given)
    except ValueError:
        with pytest.raises(ValueError):
            rune.vmap(lambda x, y: np.histogram2d(x, y, bins=given))(X[None], Y[None])
        return
    for way in (rune.jit, lambda f: lambda *args: rune.jvp(f, args, args)[0]):
        if edges == "traced":
            if isinstance(given, (list, tuple)):
                got = way(lambda x, y, *b: np.histogram2d(x, y, bins=[*b, *given[len(b) :]]))(X, Y, *known)
            else:
                got = way(lambda x, y, b: np.histogram2d(x, y, bins=b))(X, Y, given)
        else:
            got = way(lambda x, y: np.histogram2d(x, y, bins=given))(X, Y)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-14)


VIEWS = {
    "itself": lambda x: x,
    "a part": lambda x: x[1:],
    "the other part": lambda x: x[:1],
    "every other": lambda x: x[::2],
    "the others": lambda x: x[1::2],
    "another shape": lambda x: x.reshape(5, 1),
    "a copy": lambda x: x.copy(),
    "an operation": lambda x: x + 1,
}


@pytest.mark.parametrize("ask", [np.shares_memory, np.may_share_memory])
@pytest.mark.parametrize("one", VIEWS)
@pytest.mark.parametrize("other", VIEWS)
def test_what_shares_memory(ask, one, other):
    f = lambda x: x * float(ask(VIEWS[one](x), VIEWS[other](x)))
    np.testing.assert_array_equal(rune.jvp(f, (X,), (X,))[0], f(X))


NAN, INF = np.nan, np.inf
ROWS = np.array([[0.6, NAN, 0.3, NAN], [0.5, -0.9, NAN, 0.2], [NAN, NAN, NAN, 0.1], [NAN, NAN, NAN, NAN]])

AS_NUMPY = {
    "interp beside infinities": (lambda x, xp, fp: np.interp(x, xp, fp), np.array([0.5, NAN]), np.array([-INF, INF]), np.array([9.0, 9.0])),
    "interp to infinities": (lambda x, xp, fp: np.interp(x, xp, fp), np.array([0.5, 1.5, 2.5]), np.arange(4.0), np.array([1.0, -INF, -INF, 3.0])),
    "interp of complex numbers": (lambda x, fp: np.interp(x, [0.0, 1.0, 2.0], fp, left=-1j), np.array([-1.0, 0.5, 1.75, 3.0]), np.array([1j, 2.0, 3 - 1j])),
    "nanvar of too few": (lambda x: np.nanvar(x, axis=1, ddof=2), ROWS),
    "nanstd of too few": (lambda x: np.nanstd(x, axis=1, ddof=1), ROWS),
    "var of too few": (lambda x: np.var(x, axis=1, ddof=3), ROWS[1:2, :2]),
    "nanmedian": (lambda x: np.nanmedian(x, axis=1), ROWS),
    "nanmedian of infinities": (lambda x: np.nanmedian(x, axis=1), np.array([[INF, NAN], [INF, INF], [-INF, INF], [1.0, INF]])),
    "nanmedian of all": (lambda x: np.nanmedian(x, keepdims=True), ROWS),
    "put_along_axis": (lambda x, v: filled_along(x, v), np.zeros((3, 4, 1)), np.arange(10.0).reshape(1, 2, 5)),
    "digitize by falling bins": (lambda x, b: x * np.digitize(x, b), np.arange(-3.0, 4.0), np.array([2.0, 0.5, -1.0])),
    "digitize by falling bins, right": (lambda x, b: x * np.digitize(x, b, right=True), np.arange(-3.0, 4.0), np.array([2.0, 1.0, -1.0])),
    "digitize by known falling bins": (lambda x: x * np.digitize(x, [2.0, 1.0, -1.0]), np.arange(-3.0, 4.0)),
    "digitize by known falling bins, right": (lambda x: x * np.digitize(x, [2.0, 1.0, -1.0], right=True), np.arange(-3.0, 4.0)),
    "isclose by lists of tolerances": (lambda x: x * np.isclose(x, [2.0, 2.0, 2.1], rtol=[0.0, 0.1, 0.0], atol=[0.3, 0.0, 0.01]), np.array([2.2, 2.3, 2.2])),
    "allclose by lists of tolerances": (lambda x: x * np.allclose(x, 2.0, rtol=[0.0, 0.1], atol=[0.3, 0.0]), np.array([2.2, 2.15])),
    "isclose of a float32 and a number": (lambda x: x * np.isclose(x, 1 - 2**-40, rtol=0, atol=0), np.float32([1.0, 2.0])),
    "isclose of integers and a number": (lambda x: x * np.isclose(x.astype(int), 2), np.array([1.0, 2.0])),
    "digitize by rising bins": (lambda x, b: x * np.digitize(x, b), np.arange(-3.0, 4.0), np.array([-1.0, 1.0, 2.0])),
    "digitize by one": (lambda x, b: x * np.digitize(x, b), np.arange(-3.0, 4.0), np.array([1.0])),
    "unwrap": (lambda x: np.unwrap(x), np.array([0.0, 3.5, -3.0, 7.0, np.pi + 7.0])),
    "corrcoef in float32": (lambda x: np.corrcoef(x, dtype=np.float32), ROWS[:2, :3] * 0 + np.arange(6.0).reshape(2, 3) ** 2),
    "cov in complex64": (lambda x: np.cov(x, dtype=np.complex64), np.arange(6.0).reshape(2, 3) ** 2),
}  # fmt: skip


def filled_along(x, v):
    y = x.copy()
    np.put_along_axis(y, np.arange(10).reshape(1, 2, 5) % 4, v, axis=1)
    return y


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", AS_NUMPY)
def test_what_numpys_tests_say(name):
    f, *args = AS_NUMPY[name]
    want = f(*args)
    ways = {
        "jvp": lambda: rune.jvp(f, tuple(args), tuple(args))[0],
        "jit": lambda: rune.jit(f)(*args),
        "vmap": lambda: rune.vmap(f)(*(np.stack([a, a]) for a in args))[1],
    }
    for way, run in ways.items():
        got = run()
        assert got.dtype == want.dtype, way
        np.testing.assert_allclose(got, want, rtol=64 * np.finfo(want.dtype).eps, err_msg=way)


@pytest.mark.parametrize(
    ("steps", "period"), [([0, 75, 150, 225, 45], 255), ([0, 2, 4, 7, 9], 4), ([0, 5, -5, 5], 10)]
)
def test_unwrap_of_integers(steps, period):
    f = lambda p: np.unwrap(p, period=period)
    want = f(np.array(steps))
    for got in (rune.jit(f)(np.array(steps)), rune.vmap(f)(np.array([steps]))[0]):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


REFUSED = {
    "gradient, one array for two axes": lambda x: np.gradient(np.outer(x, x), np.arange(5.0)),
    "cov, weights that are no counts": lambda x: np.cov(x, fweights=[1.5] * 5),
    "cov, weights in a table": lambda x: np.cov(x, aweights=np.ones((5, 1))),
    "cov, too few weights": lambda x: np.cov(x, fweights=[1, 2]),
    "cov, negative weights": lambda x: np.cov(x, aweights=[1, 2, 3, 4, -1]),
    "pad by a negative length": lambda x: np.pad(x, 2, mode="mean", stat_length=-1),
    "pad by the maximum of none": lambda x: np.pad(x, 2, mode="maximum", stat_length=0),
    "linalg.cross in the plane": lambda x: np.linalg.cross(x[:2], x[:2]),
    "vsplit of one axis": lambda x: np.vsplit(x[:4], 2),
    "dsplit of two": lambda x: np.dsplit(np.outer(x, x), 5),
    "hsplit of none": lambda x: np.hsplit(x[0], 1),
    "ediff1d of other kinds": lambda x: np.ediff1d((x > 1).astype(int), to_end=x),
    "a falling range": lambda x: np.histogram(x, range=(1.0, 0.0)),
    "an endless range": lambda x: np.histogram(x, range=(0.0, np.inf)),
    "put_along_axis of a table": lambda x: np.put_along_axis(x.copy(), np.zeros((2, 2), int), 1.0, None),
    "put_along_axis of other axes": lambda x: np.put_along_axis(x.copy(), np.zeros((1, 1), int), 1.0, 0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses_is_refused(name):
    with pytest.raises((TypeError, ValueError, RuntimeError)) as numpys:
        REFUSED[name](X)
    for way in (rune.jit, rune.vmap):
        with pytest.raises(type(numpys.value)):
            way(REFUSED[name])(X if way is rune.jit else X[None])


METHODS = [
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "nearest", "lower", "higher", "midpoint",
]  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_quantiles_at_every_hundredth(method):
    shares = np.linspace(0, 1, 101)
    for n in range(1, 12):
        f = lambda x: np.quantile(x, shares, method=method)
        np.testing.assert_allclose(
            rune.jvp(f, (np.arange(n) ** 2.0,), (np.ones(n),))[0], f(np.arange(n) ** 2.0), atol=1e-12
        )


@pytest.mark.parametrize("ends", [0, (3, -4), ((-7, 8),)])
@pytest.mark.parametrize("numbers", [[-5, -3], [5, 3], [-5.0, 2.0]])
def test_ramps_of_integers_are_floors(numbers, ends):
    f = lambda a: np.pad(a, (3, 4), "linear_ramp", end_values=ends)
    np.testing.assert_allclose(rune.vmap(f)(np.array([numbers]))[0], f(np.array(numbers)), rtol=1e-13)
