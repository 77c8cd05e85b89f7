"""Consumed arguments: a result has their storage, what it computes is the same, and no name reads them after."""

import gc
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rune

N = 40


def spent(x) -> bool:
    """Whether an array was consumed, and then raises whatever is done with it."""
    if x.dtype.names != ("consumed by rune.jit",):
        return False
    tries = [
        lambda: x + 1, lambda: np.sum(x), lambda: x[0], lambda: x[1:], lambda: len(x), lambda: list(x), lambda: np.exp(x),
        lambda: x.reshape(2, -1), lambda: np.asarray(x) * 2.0, lambda: x @ x, lambda: x.__setitem__(..., 1.0),
        lambda: rune.grad(lambda x: np.sum(x))(x), lambda: rune.jit(np.sin)(x), lambda: np.where(True, x, 1.0),
    ]  # fmt: skip
    for read in tries:
        with pytest.raises((TypeError, ValueError, IndexError)):
            read()
    return True


STATEMENTS = [
    "{a} = {b} * 2 + {c}", "{a} = np.exp(-abs({b}))", "{a} = {b}[::-1] + {c}", "{a} = np.where({b} > 0, {c}, {a})", "{a} = {b} - {b}.mean()",
    "{a} = {b}.copy(); {a}[3] = 5.0", "{a} = {b}.copy(); {a}[2:9] += {c}[1:8]", "{a} = {b}.copy(); np.add.at({a}, [1, 1, 30], {c}[:3])",
    "{a} = np.cumsum({b})", "{a} = np.concatenate([{b}[20:], {c}[:20]])", "{a} = np.roll({b}, 3) * {c}", "{a} = np.sort({b})", "{a} = {b}",
    "{a} = scanned({b}, {c})", "{a} = rune.cond({b}[0] > 0, lambda u, v: set_one(u, 4), lambda u, v: u, {b}, {c})", "{a} = {b} * {c}[5]",
    "{a} = ({b}.reshape(8, 5) @ {c}.reshape(5, 8)).ravel()[:40]", "{a} = {b}.reshape(8, 5).T.ravel()", "{a} = np.repeat({b}[:20], 2)",
    "{a} = {b} + {c}.reshape(8, 5).sum(0)[2]", "{a} = ({b}.reshape(8, 5) - {c}.reshape(8, 5).max(1, keepdims=True)).ravel()",
    "{a} = {b} + ({b}.reshape(8, 5) @ {c}.reshape(5, 8)).ravel()[:40]", "{a} = heated({b})",
]  # fmt: skip


def set_one(u, k):
    u = u.copy()
    u[k] = 9.0
    return u


def scanned(x, rows):
    def step(c, row):
        k, v = row
        c = c.copy()
        c[k] += v
        return c, None

    return rune.scan(step, x, (np.arange(N)[::-1].copy(), rows))[0]


def heated(x):
    return rune.scan(lambda u, _: (u + 0.1 * (np.roll(u, 1) - u), None), x, None, length=3)[0]


@st.composite
def programs(draw):
    names = ("x", "y", "z")
    pick = st.sampled_from(names)
    lines = [
        draw(st.sampled_from(STATEMENTS)).format(a=draw(pick), b=draw(pick), c=draw(pick))
        for _ in range(draw(st.integers(1, 6)))
    ]
    results = draw(
        st.lists(st.sampled_from(["x", "y", "z", "x.sum()", "y[7]", "z[:5]"]), min_size=1, max_size=3)
    )
    body = "\n    ".join([*lines, f"return {', '.join(results)},"])
    return f"def f(x, y, z):\n    {body}", draw(st.sets(pick, min_size=1))


@settings(max_examples=60)
@given(programs())
def test_results_are_those_of_a_call_that_consumes_nothing(program):
    text, names = program
    scope = {"np": np, "rune": rune, "scanned": scanned, "heated": heated, "set_one": set_one}
    exec(text, scope)
    make = lambda: {n: np.random.default_rng(k).standard_normal(N) for k, n in enumerate("xyz")}
    want = rune.jit(scope["f"])(**make())
    args, before = make(), make()
    got = rune.jit(scope["f"], consumes=tuple(names))(**args)
    for a, b in zip(got, want, strict=True):
        # what is computed over another array may be vectorised otherwise
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=text)
    for n, x in args.items():
        if n not in names or not spent(x):
            np.testing.assert_array_equal(x, before[n], text)
    owners = [r for r in got if isinstance(r, np.ndarray)]
    assert not any(np.may_share_memory(a, b) for k, a in enumerate(owners) for b in owners[:k]), text


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * 2 + 1,
        lambda x: x,
        lambda x: set_one(x, 3),
        lambda x: (x.sum(), x - 1),
        lambda x: scanned(x, np.ones(N)),
        lambda x: np.where(x > 0, x, 0.0),
        lambda x: {"a": np.sin(x)},
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i4"])
def test_a_result_has_the_storage_of_what_it_replaces(f, dtype):
    if dtype == "c16" and f(np.ones(N, "c16")) is not None and "where" in f.__code__.co_names:
        pytest.skip("complex numbers have no order")
    x = np.arange(-3, N - 3).astype(dtype)
    want, address = f(x.copy()), x.ctypes.data
    got = rune.jit(f, consumes="x")(x)
    leaves = lambda r: list(r.values()) if isinstance(r, dict) else list(r) if isinstance(r, tuple) else [r]
    same = [a for a in leaves(got) if np.ndim(a) and a.dtype == dtype]
    if same:
        assert spent(x) and same[0].ctypes.data == address and same[0].flags.owndata
    for a, b in zip(leaves(got), leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[:, ::-1] * 2 + x,
        lambda x: np.cross(x, x[:, [1, 2, 0]]),
        lambda x: x * x.sum(1, keepdims=True),
        lambda x: np.roll(x, 1, axis=1) - x,
        lambda x: np.roll(x, 1, axis=0) - x,
        lambda x: (x[:, ::-1] + 1, x.sum(0)),
        lambda x: (x - x.mean(0), x.max(1)),
    ],
)
@pytest.mark.parametrize("n", [3, 20, 1000, 300_000])
def test_rows_of_three_are_read_before_they_are_written(f, n):
    x = np.random.default_rng(0).standard_normal((n, 3))
    want = rune.jit(f)(x)
    got = rune.jit(f, consumes="x")(x)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_a_state_that_is_replaced_stays_where_it_is():
    step = rune.jit(
        lambda state, force: {"x": state["x"] + 0.1 * state["v"], "v": state["v"] + 0.1 * force},
        consumes="state",
    )
    state = {"x": np.zeros(1000), "v": np.ones(1000)}
    places = {k: a.ctypes.data for k, a in state.items()}
    for _ in range(5):
        state = step(state, np.full(1000, -1.0))
    assert {k: a.ctypes.data for k, a in state.items()} == places
    np.testing.assert_allclose(state["v"], 0.5)


def test_what_may_be_read_elsewhere_is_not_consumed():
    f = rune.jit(lambda x, y: x * 2 + y[0], consumes="x")
    base = np.arange(2.0 * N)
    x = base[:N]
    want = x * 2 + x[0]
    np.testing.assert_array_equal(f(x, x), want)  # the same array twice
    np.testing.assert_array_equal(f(x, base[5:]), x * 2 + 5)  # storage of another
    np.testing.assert_array_equal(base, np.arange(2.0 * N))
    own = np.arange(float(N))
    np.testing.assert_array_equal(f(own, own[1:]), own * 2 + 1)
    frozen = np.arange(float(N))
    frozen.flags.writeable = False
    f(frozen, own)
    np.testing.assert_array_equal(frozen, own)
    strided = np.arange(2.0 * N)[::2]
    f(strided, own)
    np.testing.assert_array_equal(strided, 2 * own)


@pytest.mark.parametrize("n", [N, 20_000])  # copied, and bound by reference
def test_a_captured_array_is_not_consumed(n):
    table = np.arange(float(n))
    f = rune.jit(lambda x: x + table, consumes="x")
    np.testing.assert_array_equal(f(table), 2 * np.arange(float(n)))
    np.testing.assert_array_equal(f(np.ones(n)), 1 + np.arange(float(n)))


def test_a_view_of_a_consumed_array_outlives_every_name():
    x = np.arange(float(N))
    row, window = x[3:5], memoryview(x)
    y = rune.jit(lambda x: x + 1, consumes="x")(x)
    del x
    gc.collect()
    assert row.tolist() == [4.0, 5.0] and window[0] == 1.0
    y[3] = -1.0
    del y
    gc.collect()
    assert row.tolist() == [-1.0, 5.0]


def test_a_call_that_fails_has_consumed():
    def f(x, k):
        x = x.copy()
        x[k] = 1.0
        return x

    x = np.zeros(N)
    with pytest.raises(IndexError):
        rune.jit(f, consumes="x")(x, np.int64(N))
    assert spent(x)


def test_a_transformation_consumes_nothing():
    f = rune.jit(lambda x: np.sin(x), consumes="x")
    x = np.linspace(0, 1, N)
    np.testing.assert_allclose(rune.grad(lambda x: f(x).sum() + f(x).sum())(x), 2 * np.cos(x))
    np.testing.assert_allclose(rune.vmap(f)(np.stack([x, x]))[1], np.sin(x))
    np.testing.assert_allclose(rune.jit(lambda y: f(y) + f(y))(x), 2 * np.sin(x))
    np.testing.assert_allclose(rune.grad(lambda s: s * f(x).sum())(1.0), np.sin(x).sum())
    assert not spent(x)


def test_arguments_are_named_as_python_names_them():
    def f(a, n, *rest, scale=2.0, **named):
        return a * n, [r * scale for r in rest], named["b"] + 1

    arrays = lambda: [np.ones(N) for _ in range(5)]
    g = rune.jit(f, static_argnames="n", consumes=("rest", "named"))
    a, r0, r1, b, _ = arrays()
    g(a, 3, r0, r1, b=b)
    assert [spent(x) for x in (a, r0, r1, b)] == [False, True, True, True]
    a, b, r0, _, _ = arrays()
    rune.jit(f, consumes="a")(n=2, a=a, b=b)
    assert spent(a) and not spent(b)

    class Model:
        @rune.jit(consumes="x")
        def step(self, x):
            return x + 1

    Model().step(b)
    assert spent(b)


def test_options_survive_a_pickle_and_are_checked():
    f = pickle.loads(pickle.dumps(rune.jit(scaled, consumes="x", threads=1)))
    x = np.ones(N)
    f(x)
    assert spent(x)
    for option in ("consumes", "static_argnames"):
        with pytest.raises(
            ValueError, match=rf"rune\.jit: {option} names 'z', which is no argument of scaled"
        ):
            rune.jit(scaled, **{option: "z"})
        with pytest.raises(TypeError, match=rf"rune\.jit: {option} takes names of arguments, not int 0"):
            rune.jit(scaled, **{option: (0,)})
    with pytest.raises(ValueError, match="'x' is in static_argnames and in consumes"):
        rune.jit(scaled, static_argnames="x", consumes="x")


def scaled(x):
    return x * 3.0
