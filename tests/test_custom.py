"""Custom rules under every transformation, with several arguments, structures and no derivative."""

import numpy as np
import pytest

import rune

x = np.array([0.5, 1.5, 2.0])
lanes = np.stack([x, 2 * x])
close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@rune.custom_vjp
def product(p, k):
    """a * b ** k over a dict and an integer; the pullback doubles what it should give."""
    a, b = p["a"], p["b"]
    return {"y": a * b**k, "n": np.int64(3)}, lambda ct: (
        {"a": 2 * ct["y"] * b**k, "b": 2 * ct["y"] * a * k * b ** (k - 1)},
        np.int64(0),
    )


@rune.custom_jvp
def cube(x, y):
    return x**3 + y, lambda dx, dy: 3 * x**2 * dx + dy


def loss(a, b):
    return np.sum(product({"a": a, "b": b}, 2)["y"])


WAYS = {
    "eager": lambda f: f,
    "jit": rune.jit,
    "remat": rune.remat,
    "jit remat": lambda f: rune.jit(rune.remat(f)),
}
ways = pytest.mark.parametrize("wrap", WAYS.values(), ids=WAYS)


@ways
def test_a_pullback_over_a_structure(wrap):
    b = x[::-1].copy()
    ga, gb = rune.grad(wrap(loss), argnums=(0, 1))(x, b)
    close(ga, 2 * b**2)
    close(gb, 4 * x * b)
    ga = rune.vmap(rune.grad(wrap(loss)), in_axes=(0, None))(lanes, b)
    close(ga, np.stack([2 * b**2] * 2))
    ga = rune.grad(lambda rows: np.sum(rune.vmap(wrap(loss), in_axes=(0, None))(rows, b)))(lanes)
    close(ga, np.stack([2 * b**2] * 2))
    gb = rune.grad(lambda b: np.sum(rune.vmap(wrap(loss), in_axes=(0, None))(lanes, b)))(b)
    close(gb, 4 * lanes.sum(0) * b)


@ways
def test_those_around_differentiate_the_rules_code(wrap):
    f = lambda a: loss(a, a)  # the gradient is 2 a^2 + 4 a^2, and the rule's pullback doubles only once
    close(rune.grad(wrap(f))(x), 6 * x**2)
    close(rune.hessian(wrap(f))(x), np.diag(12 * x))
    close(wrap(rune.grad(lambda a: np.sum(rune.grad(f)(a))))(x), 12 * x)
    close(rune.jvp(wrap(rune.grad(f)), (x,), (np.ones(3),))[1], 12 * x)


@ways
def test_a_tangent_map_in_both_modes_at_every_order(wrap):
    f = wrap(lambda x: np.sum(cube(x, 2 * x)))
    close(rune.grad(f)(x), 3 * x**2 + 2)
    close(rune.jvp(f, (x,), (np.ones(3),))[1], np.sum(3 * x**2 + 2))
    close(rune.hessian(f)(x), np.diag(6 * x))
    close(rune.grad(lambda x: np.sum(rune.hessian(f)(x)))(x), np.full(3, 6.0))
    close(rune.vmap(rune.grad(f))(lanes), 3 * lanes**2 + 2)
    close(rune.jit(rune.vmap(rune.grad(f)))(lanes), 3 * lanes**2 + 2)
    close(rune.linearize(f, x)[1](np.ones(3)), np.sum(3 * x**2 + 2))


@pytest.mark.parametrize("compiled", [False, True])
def test_rules_in_loops(compiled):
    def run(x):
        return rune.scan(lambda c, r: (cube(c * 0.1, r), product({"a": c, "b": r}, 2)["y"]), 0.5, x)

    plain = lambda x: rune.scan(lambda c, r: ((c * 0.1) ** 3 + r, c * r**2), 0.5, x)
    wrap = rune.jit if compiled else (lambda f: f)
    close(wrap(rune.grad(lambda x: np.sum(run(x)[0])))(x), rune.grad(lambda x: np.sum(plain(x)[0]))(x))
    # the outputs' pullback doubles: with the carry held, twice the plain gradient
    held = lambda x: np.sum(rune.scan(lambda c, r: (c, product({"a": c, "b": r}, 2)["y"]), 0.5, x)[1])
    close(wrap(rune.grad(held))(x), 2 * x)


@ways
def test_a_linear_function_with_a_transpose(wrap):
    weights = np.array([1.0, 10.0, 100.0])
    shift = rune.custom_transpose(lambda x: np.roll(x, 1), lambda g: np.roll(g, -1))
    f = wrap(lambda x: np.sum(weights * shift(x * x)))
    close(rune.grad(f)(x), np.roll(weights, -1) * 2 * x)
    close(rune.jvp(f, (x,), (np.ones(3),))[1], np.sum(weights * np.roll(2 * x, 1)))
    close(rune.hessian(f)(x), np.diag(np.roll(weights, -1) * 2))
    close(rune.vmap(rune.grad(f))(lanes), np.roll(weights, -1) * 2 * lanes)
    several = rune.custom_transpose(lambda a, b: a + 2 * b, lambda g: (g, 2 * g))
    close(rune.grad(wrap(lambda x: np.sum(several(x, x) ** 2)))(x), 18 * x)


def test_no_derivative_needs_no_rule():
    runs = []

    @rune.custom_vjp
    def f(x):
        runs.append(1)
        return np.sum(x), lambda g: (_ for _ in ()).throw(AssertionError("pulled"))

    assert rune.grad(lambda y: f(x) * y)(2.0) == 4.0
    assert f(x) == 4.0
    assert rune.grad(lambda y: np.sum(f(rune.detach(y))) + np.sum(y))(x).tolist() == [1.0, 1.0, 1.0]


def test_a_rule_reads_under_one_differentiation_and_is_traced_under_jit():
    kinds = []

    @rune.custom_jvp
    def f(x):
        kinds.append(type(x) is np.ndarray)
        return x * 2, lambda dx: dx * 2

    f(x), rune.grad(lambda x: np.sum(f(x)))(x), rune.jvp(f, (x,), (x,))
    assert all(kinds)
    kinds.clear()
    rune.jit(f)(x), rune.vmap(f)(lanes), rune.hessian(lambda x: np.sum(f(x)))(x)
    assert not any(kinds)
