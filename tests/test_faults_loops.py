"""Faults in loops, branches, maps and totals found by attack, each held by a test of its whole kind."""

import numpy as np
import pytest

import rune

x3 = np.array([0.3, -0.7, 1.2])
WRAPS = {"eager": lambda f: f, "compiled": rune.jit}


@pytest.fixture(params=WRAPS.values(), ids=WRAPS)
def wrap(request):
    return request.param


# Branches -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pred", [True, False])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64])
def test_a_python_number_takes_the_other_branches_dtype(dtype, pred):
    x, p = np.ones((), dtype)[()], np.bool_(pred)
    one = rune.jit(lambda p, x: rune.cond(p, lambda x: x * 2, lambda x: 3.0, x))(p, x)
    other = rune.jit(lambda p, x: rune.cond(p, lambda x: 3.0, lambda x: x * 2, x))(p, x)
    assert one.dtype == other.dtype == dtype
    assert (one, other) == ((2, 3) if pred else (3, 2))
    assert rune.jit(lambda p: rune.cond(p, lambda: 1, lambda: 2.5))(p) == (1.0 if pred else 2.5)


def test_every_branch_agrees_with_every_other():
    branches = [lambda: 1.5, lambda: np.float32(1), lambda: np.float64(2)]
    with pytest.raises(ValueError, match=r"float64 .* from branches.2., float32 .* from branches.1."):
        rune.jit(lambda k: rune.switch(k, branches))(np.int64(0))


def test_a_branch_does_not_write_what_its_caller_holds():
    def f(x, pred):
        def double(y):
            y[0] = y[1] * 2
            return y

        z = x * 1
        return np.sum(rune.cond(pred(x), double, lambda y: y, z) ** 2) + np.sum(z)

    pred = lambda x: x[0] > 0
    expected = np.array([1.0, 1 + 10 * x3[1], 1 + 2 * x3[2]])
    for g in (rune.grad(f), rune.jit(rune.grad(f), static_argnames="pred")):
        np.testing.assert_allclose(g(x3, pred=pred), expected)


def test_what_a_branch_returns_has_storage_of_its_own(wrap):
    table = np.arange(3.0)
    for branch in (lambda x: x, lambda x: table, lambda x: x[::-1]):
        x = x3.copy()
        y = wrap(lambda x, branch=branch: rune.cond(np.bool_(True), branch, branch, x))(x)
        y[0] = 9.0
        np.testing.assert_array_equal(x, x3)
        np.testing.assert_array_equal(table, np.arange(3.0))


# Totals ---------------------------------------------------------------------------------------------

total = rune.Total("total")


def adds(v):
    def f(c, r):
        total.add(v)
        return c * r, c

    return f


LOOPS = {
    "scan": lambda f, x: rune.scan(f, x, np.arange(1.0, 6.0))[0],
    "checkpoints": lambda f, x: rune.scan(f, x, np.arange(1.0, 6.0), checkpoint_every=2)[0],
    "remat": lambda f, x: rune.scan(lambda c, r: rune.remat(f)(c, r), x, np.arange(1.0, 6.0))[0],
    "map": lambda f, x: rune.map(lambda r: f(x, r)[0], np.arange(1.0, 6.0))[4],
    "vmap": lambda f, x: rune.vmap(lambda r: f(x, r)[0])(np.arange(1.0, 6.0))[4],
    "rows": lambda f, x: [f(x, r)[0] for r in np.arange(1.0, 6.0)][4],
}


@pytest.mark.parametrize("value", [1, True, np.bool_(True), 1.0, np.float32(1)], ids=repr)
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_additions_are_counted_once_whatever_their_dtype(wrap, loop, value):
    zero = np.int64(0) if np.result_type(type(value)).kind in "bi" else 0.0
    run = lambda g: total.collect(zero, lambda: g(lambda x: loop(adds(value), x))(0.5))[1]
    assert run(wrap) == run(lambda f: wrap(rune.grad(f))) == run(lambda f: rune.grad(wrap(f))) == 5
