"""What goes into a transformation and its operations: arrays that stay the caller's, kinds that are refused by name."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import rune


def marked(x, i):
    """It writes into the integers it was given."""
    i[0] = 7
    return np.sum(x[i % 3])


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: rune.grad(lambda p: marked(*p))((x, i)),
        lambda x, i: rune.grad(marked, argnums=(0, 1))(x, i),
        lambda x, i: rune.vjp(marked, x, i)[1](1.0),
        lambda x, i: rune.jvp(marked, (x, i), (x, np.zeros_like(i))),
        lambda x, i: rune.linearize(marked, x, i)[1](x, np.zeros_like(i)),
        lambda x, i: rune.jit(marked)(x, i),
        lambda x, i: rune.grad(rune.jit(marked))(x, i),
        lambda x, i: rune.vmap(marked)(np.stack([x, x]), np.stack([i, i])),
    ],
)
def test_integers_beside_what_is_differentiated_are_the_function_s_own(call):
    i = np.array([0, 1])
    call(np.ones(3), i)
    assert i.tolist() == [0, 1]


REFUSED = {
    "longdouble": np.ones(2, np.longdouble),
    "complex longdouble": np.ones(2, np.clongdouble),
    "objects": np.array([1, None]),
    "strings": np.array(["a", "b"]),
    "bytes": np.array([b"a", b"b"]),
    "dates": np.array(["2020-01-01", "2020-01-02"], "M8[D]"),
    "durations": np.array([1, 2], "m8[s]"),
    "structured": np.zeros(2, [("a", float)]),
    "masked": np.ma.array([1.0, 2.0]),
}


def stored(x, other):
    y = x + 0
    y[...] = other
    return y


USES = {
    "operator": lambda x, other: x + other,
    "ufunc": lambda x, other: np.maximum(x, other),
    "where": lambda x, other: np.where(x > 0, x, other),
    "concatenate": lambda x, other: np.concatenate([x, other]),
    "store": stored,
    "asarray": lambda x, other: rune.asarray(other),
}
ASKED = {
    "astype": lambda x, dtype: x.astype(dtype),
    "zeros_like": lambda x, dtype: np.zeros_like(x, dtype=dtype),
    "sum": lambda x, dtype: np.sum(x, dtype=dtype),
    "cumsum": lambda x, dtype: np.cumsum(x, dtype=dtype),
    "add.reduce": lambda x, dtype: np.add.reduce(x, dtype=dtype),
}
WAYS = {
    "jit": lambda f, x: rune.jit(f)(x),
    "grad": lambda f, x: rune.grad(lambda x: np.sum(f(x)))(x),
    "jvp": lambda f, x: rune.jvp(f, (x,), (x,)),
    "vmap": lambda f, x: rune.vmap(f)(x[None]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_not_computed_with_is_refused_by_name(kind, use, way):
    other = REFUSED[kind]
    with pytest.raises(
        TypeError, match="masked arrays" if kind == "masked" else r"dtype .* is not supported"
    ):
        WAYS[way](lambda x: USES[use](x, other), np.ones(2))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("use", ASKED)
@pytest.mark.parametrize("kind", [k for k in REFUSED if k != "masked"])
def test_dtypes_that_are_not_computed_in_are_refused_by_name(kind, use, way):
    with pytest.raises(TypeError, match=r"dtype .* is not supported"):
        WAYS[way](lambda x: ASKED[use](x, REFUSED[kind].dtype), np.ones(2))


@pytest.mark.parametrize("call", ["p.clip(0, s)", "p.clip(s - 5, s)", "p.clip(max=s)", "np.clip(p, s, None)"])
def test_a_plain_array_is_clipped_by_traced_bounds(call):
    p = np.array([[1.0, 5.0], [-3.0, 2.0]])
    f = lambda s: eval(call, {"np": np, "p": p, "s": s})
    value, change = rune.jvp(f, (1.5,), (1.0,))
    np.testing.assert_array_equal(value, f(1.5))
    np.testing.assert_allclose(change, (f(1.5 + 1e-6) - f(1.5 - 1e-6)) / 2e-6, atol=1e-9)


def test_a_mask_of_clip_is_refused():
    with pytest.raises(TypeError, match=r"clip: where= .* write np\.where"):
        rune.jvp(lambda x: np.clip(x, 0, 1, where=x > 0), (np.ones(2),), (np.ones(2),))


@pytest.mark.parametrize(
    "call", ["x.item(4)", "x.item(-1)", "x.item(1, 2)", "x.item((0, 1))", "x[0, 0].item()"]
)
def test_item_counts_in_c_order(call):
    x = np.arange(6.0).reshape(2, 3)
    found = []
    rune.jvp(lambda x: (found.append(eval(call, {"x": x})), x)[1], (x,), (x,))
    assert found == [eval(call, {"x": x})] and type(found[0]) is float


def test_a_view_in_which_elements_stand_twice_is_written_by_an_index_alone():
    def f(x):
        y = x + 0
        v = sliding_window_view(y, 2, writeable=True)
        v[1, 0] = 5.0
        return y, v

    values, windows = rune.jvp(f, (np.zeros(4),), (np.ones(4),))[0]
    assert values.tolist() == [0, 5, 0, 0] and windows[0].tolist() == [0, 5]
    with pytest.raises(ValueError, match="elements stand twice"):
        rune.jvp(lambda x: np.put(f(x)[1], [0], 1.0), (np.zeros(4),), (np.ones(4),))


@pytest.mark.parametrize(
    "write, kind, message",
    [
        (lambda y: np.diagonal(y).__setitem__(0, 1.0), ValueError, "read-only"),
        (lambda y: np.broadcast_to(y, (2, 3, 3)).__setitem__(0, 1.0), ValueError, "read-only"),
        (lambda y: sliding_window_view(y, 2, axis=0).__setitem__(0, 1.0), ValueError, "read-only"),
        (lambda y: y.imag.__setitem__(0, 1.0), ValueError, "read-only"),
        (lambda y: setattr(y, "imag", 1.0), TypeError, "does not have imaginary part to set"),
        (lambda y: y.__iadd__(1j * y), TypeError, "Cannot cast ufunc 'add' output"),
        (lambda y: np.add.reduce(y, out=y), ValueError, "output parameter"),
    ],
)
def test_writes_that_numpy_refuses_are_refused(write, kind, message):
    with pytest.raises(kind, match=message):
        rune.jvp(lambda x: (write(y := x + 0), y)[1], (np.ones((3, 3)),), (np.ones((3, 3)),))


def test_the_imaginary_part_of_a_real_array_is_zero_whatever_it_holds():
    x = np.array([1.0, np.inf, np.nan])
    for wrap in (lambda f: f, rune.jit):
        np.testing.assert_array_equal(rune.jvp(wrap(lambda x: x.imag), (x,), (x,))[0], np.zeros(3))
