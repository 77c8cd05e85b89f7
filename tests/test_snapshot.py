"""Plain arrays that are written after an operation has read them."""

import numpy as np
import pytest

import rune

x3 = np.array([1.0, 2.0, 3.0])


def with_a_buffer(x):
    """A work buffer used again, as NumPy code has them."""
    total, work = 0.0, np.empty(3)
    for k in range(4):
        work[:] = k + 1
        total = total + np.sum(x * work) * np.sum(x)
    return total


def in_a_scan(x):
    work = np.zeros(3)

    def step(c, row):
        work[:] = 2.0
        c = c + np.sum(row * work)
        work[:] = 0.0
        return c, None

    return rune.scan(step, 0.0, np.stack([x, x]))[0]


WAYS = {
    "grad": rune.grad, "jit(grad)": lambda f: rune.jit(rune.grad(f)), "grad(jit)": lambda f: rune.grad(rune.jit(f)),
    "vmap(grad)": lambda f: lambda x: rune.vmap(rune.grad(f))(x[None])[0],
    "jacfwd": rune.jacfwd, "jacrev": rune.jacrev, "vjp": lambda f: lambda x: rune.vjp(f, x)[1](1.0)[0],
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_buffer_used_again_gives_what_numpy_gives(way):
    np.testing.assert_allclose(way(with_a_buffer)(x3), np.full(3, 120.0))
    np.testing.assert_allclose(way(in_a_scan)(x3), np.full(3, 4.0))
    assert rune.jit(with_a_buffer)(x3) == with_a_buffer(x3) == 360.0


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_large_array_that_changes_is_refused(way):
    def f(x):
        work = np.ones(100_000)
        y = np.sum(x[0] * work)
        work[:] = 2.0
        return y + np.sum(work * x[0])

    with pytest.raises(
        ValueError,
        match=r"^rune\.\w+: an array of float64 \[100000\] was written after the function had used it",
    ):
        way(f)(x3)


def test_what_outlives_its_call_is_the_callers_to_change():
    x = x3.copy()
    _, pullback = rune.vjp(lambda x: np.sum(x**3), x)
    _, along = rune.linearize(lambda x: x**3, x)
    x[:] = 0.0
    np.testing.assert_allclose(pullback(1.0)[0], 3 * x3**2)
    np.testing.assert_allclose(along(np.ones(3)), 3 * x3**2)


def test_a_large_capture_is_bound_and_not_copied():
    big = np.ones(1_000_000)
    f = rune.jit(lambda x: x * big)
    f(2.0)
    constant = next(e for e in rune.program(lambda x: x * big)(2.0).equations if "value" in e.params)
    assert constant.params["value"] is big
