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


@settings(max_examples=300, deadline=None)
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
