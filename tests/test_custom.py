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


TWICE = {
    "grad of grad": lambda f: rune.grad(rune.grad(f)),
    "jvp of grad": lambda f: lambda x: rune.jvp(rune.grad(f), (x,), (1.0,))[1],
    "grad of jvp": lambda f: rune.grad(lambda x: rune.jvp(f, (x,), (1.0,))[1]),
    "hessian": rune.hessian,
    "a map": lambda f: lambda x: rune.vmap(rune.grad(rune.grad(f)))(np.stack([x, x]))[0],
    "jvp of a compiled gradient": lambda f: lambda x: rune.jvp(rune.jit(rune.grad(f)), (x,), (1.0,))[1],
}
ALONE = {
    "the first": (lambda x: cube(x * x, 2.0), lambda x: 30 * x**4),
    "the second": (lambda x: cube(2.0, x**3), lambda x: 6 * x),
    "a product": (lambda x: scaled(x, 2.0), lambda x: 0.0),
    "a product by the second": (lambda x: scaled(2.0, x) ** 2, lambda x: 8.0),
    "what is detached": (lambda x: scaled(x, rune.detach(x)), lambda x: 0.0),
}


@rune.custom_jvp
def scaled(x, y):
    return x * y, lambda dx, dy: dx * y + x * dy


@ways
@pytest.mark.parametrize("f, want", ALONE.values(), ids=ALONE)
@pytest.mark.parametrize("twice", TWICE.values(), ids=TWICE)
def test_a_tangent_map_of_which_one_argument_moves(wrap, twice, f, want):
    close(twice(wrap(f))(1.5), want(1.5))
    close(wrap(twice(f))(1.5), want(1.5))


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


# Rules that hold loops, buffers, other rules and transformations ---------------------------------------

is_map = lambda kind: kind is rune.custom_jvp


def by_scan(kind):
    def rule(x):
        sums, _ = rune.scan(lambda c, r: (c + r * np.arange(3.0), None), np.zeros(3), x)
        k = sums[1]
        back = lambda g: g * 2 * k * np.ones(3)
        return np.sum(x) ** 2, (lambda d: 2 * np.sum(d) * k) if is_map(kind) else back

    return kind(rule)


def by_iterate(kind):
    def rule(x):
        total = np.sum(x)
        small = lambda c: np.abs(c * c - total) < 1e-13
        k = rune.iterate(lambda c: (c + total / c) / 2, 1.0, until=small, max_steps=50)
        return k, (lambda d: np.sum(d) / 2 / k) if is_map(kind) else (lambda g: g / 2 / k * np.ones(3))

    return kind(rule)


def by_buffer(kind):
    def rule(x):
        y = rune.asarray(np.zeros(3))
        y[0], y[1:] = x[0], x[1:] ** 2
        slope = rune.asarray(np.ones(3))
        slope[1:] = 2 * x[1:]
        return np.sum(y), (lambda d: np.sum(slope * d)) if is_map(kind) else (lambda g: g * slope)

    return kind(rule)


def by_gradient(kind):
    def rule(x):
        y, slope = rune.value_and_grad(lambda x: np.sum(x**3))(x)
        return y, (lambda d: np.sum(d * slope)) if is_map(kind) else (lambda g: g * slope)

    return kind(rule)


def by_another(kind):
    inner = kind(lambda x: (np.sin(x), lambda d: d * np.cos(x)))

    def rule(x):
        slope = np.cos(x) * x + np.sin(x)
        return np.sum(inner(x) * x), (lambda d: np.sum(d * slope)) if is_map(kind) else (lambda g: g * slope)

    return kind(rule)


HOLDING = {
    "scan": (by_scan, lambda x: np.sum(x) ** 2),
    "iterate": (by_iterate, lambda x: np.sqrt(np.sum(x))),
    "buffer": (by_buffer, lambda x: x[0] + np.sum(x[1:] ** 2)),
    "gradient": (by_gradient, lambda x: np.sum(x**3)),
    "another rule": (by_another, lambda x: np.sum(np.sin(x) * x)),
}
kinds = pytest.mark.parametrize("kind", [rune.custom_jvp, rune.custom_vjp], ids=["jvp", "vjp"])


@kinds
@pytest.mark.parametrize("make, plain", HOLDING.values(), ids=HOLDING)
def test_a_rule_may_hold_anything(make, plain, kind):
    f = make(kind)
    each = np.stack([rune.grad(plain)(row) for row in lanes])
    for value in (f, rune.jit(f)):
        close(value(x), plain(x))
    for gradient in (
        rune.grad(f),
        rune.jit(rune.grad(f)),
        rune.grad(rune.jit(f)),
        rune.grad(rune.remat(f)),
        rune.jit(rune.grad(rune.remat(f))),
        rune.grad(lambda x: rune.cond(x[0] > 0, f, lambda x: 0 * np.sum(x), x)),
    ):
        close(gradient(x), each[0])
    close(rune.vmap(rune.grad(f))(lanes), each)
    close(rune.jit(rune.vmap(rune.grad(f)))(lanes), each)
    close(rune.grad(lambda rows: np.sum(rune.vmap(f)(rows)))(lanes), each)
    for hessian in (rune.hessian(f), rune.jit(rune.hessian(f))):
        close(hessian(x), rune.hessian(plain)(x))
    twice = lambda f: rune.grad(lambda x: np.sum(rune.grad(f)(x) ** 2))
    close(twice(f)(x), twice(plain)(x))
    looped = lambda f: lambda x: rune.scan(lambda c, s: (c + f(x * s), None), 0.0, np.array([1.0, 2.0]))[0]
    for wrap in (lambda g: g, rune.jit):
        close(wrap(rune.grad(looped(f)))(x), rune.grad(looped(plain))(x))


@kinds
def test_a_rule_counts_every_execution_once(kind):
    total = rune.Total("runs")
    f = kind(lambda x: ((total.add(1.0), x**2)[1], lambda d: 2 * x * d))
    looped = lambda x: rune.scan(lambda c, _: (f(c), None), x, None, length=3)[0]
    pair = np.array([2.0, 3.0])
    for g, at, runs in (
        (f, 2.0, 1),
        (rune.jit(f), 2.0, 1),
        (rune.grad(f), 2.0, 1),
        (rune.jit(rune.grad(f)), 2.0, 1),
        (rune.grad(rune.jit(f)), 2.0, 1),
        (rune.grad(rune.grad(f)), 2.0, 1),
        (rune.grad(rune.remat(f)), 2.0, 1),
        (rune.jit(rune.grad(rune.remat(f))), 2.0, 1),
        (rune.vmap(f), pair, 2),
        (rune.vmap(rune.grad(f)), pair, 2),
        (rune.grad(looped), 2.0, 3),
        (rune.jit(rune.grad(looped)), 2.0, 3),
    ):
        assert total.collect(0.0, lambda g=g, at=at: g(at))[1] == runs
    inside = lambda x: np.prod(np.stack(total.collect(0.0, lambda: f(x))))
    assert rune.grad(inside)(2.0) == rune.jit(rune.grad(inside))(2.0) == 4.0


@kinds
def test_a_captured_value_is_refused_in_what_the_rule_differentiates(kind):
    def f(x):
        inner = lambda y: np.sum(rune.grad(lambda w: np.sum(w * w * x * y))(y))
        return kind(lambda y: (inner(y), lambda d: np.sum(d) if is_map(kind) else d * np.ones(3)))(x * 2)

    for gradient in (rune.grad(f), rune.jit(rune.grad(f)), rune.grad(rune.jit(f))):
        with pytest.raises(TypeError, match=r"^rune.custom_.*captures a value that is differentiated"):
            gradient(x)


WRONG_RETURNS = {
    "no pair": (lambda x: x, TypeError, r"the rule must return \(result, a function\), got float64 \[3\]"),
    "no function": (lambda x: (x, x), TypeError, r"the rule must return \(result, a function\), got tuple"),
    "a structure": (
        lambda x: (x * 1, lambda d: (d, d)),
        ValueError,
        r"tuple returned by .*, an array or number expected",
    ),
    "nothing": (lambda x: (x * 1, lambda d: None), ValueError, r"None returned by the"),
    "a shape": (
        lambda x: (x * 1, lambda d: d[:2]),
        ValueError,
        r"float64 \[2\] returned by .*, float64 \[3\] exp",
    ),
    "a dtype": (
        lambda x: (x * 1, lambda d: d * 1j),
        ValueError,
        r"complex128 \[3\] returned by .*, float64 \[3\] exp",
    ),
    "a text": (
        lambda x: (x * 1, lambda d: "d"),
        ValueError,
        r"str 'd' returned by .*, float64 \[3\] expected",
    ),
}


@kinds
@ways
@pytest.mark.parametrize("rule, error, message", WRONG_RETURNS.values(), ids=WRONG_RETURNS)
def test_what_a_rule_returned_is_told_beside_what_was_expected(rule, error, message, kind, wrap):
    f = kind(rule)
    with pytest.raises(error, match=rf"^rune.{kind.__name__}: (0: )?{message}"):
        wrap(rune.grad(lambda x: np.sum(f(x))))(x)


@ways
@pytest.mark.parametrize("wrong", ["a structure", "nothing", "a shape", "a dtype", "a text"])
def test_what_a_transpose_returned_is_told_beside_what_was_expected(wrap, wrong):
    rule, error, message = WRONG_RETURNS[wrong]
    f = rune.custom_transpose(lambda x: x * 2, lambda d: rule(d)[1](d))
    with pytest.raises(error, match=rf"^rune.custom_transpose: (0: )?{message}"):
        wrap(rune.grad(lambda x: np.sum(f(x))))(x)


weights = np.array([1.0, 2.0])
through = lambda x: rune.scan(lambda c, k: (c * k, None), x, weights)[0]
TRANSPOSES = {
    "a loop": (lambda x: rune.custom_transpose(through, through)(x), 2),
    "a loop from zero": (
        lambda x: rune.custom_transpose(
            lambda x: rune.scan(lambda c, k: (c + k * x, None), np.zeros(3), weights)[0],
            lambda g: rune.scan(lambda c, k: (c + k * g, None), np.zeros(3), weights)[0],
        )(x),
        3,
    ),
    "static leaves": (
        lambda x: rune.custom_transpose(
            lambda p: {"y": p["x"] * 2, "name": "b", "n": None, "k": 3},
            lambda g: {"x": g["y"] * 2, "name": "a", "n": None},
        )({"x": x, "name": "a", "n": None})["y"],
        2,
    ),
}


@ways
@pytest.mark.parametrize("f, factor", TRANSPOSES.values(), ids=TRANSPOSES)
def test_a_linear_function_may_hold_anything(wrap, f, factor):
    square = wrap(lambda x: np.sum(f(x) ** 2))
    close(rune.grad(square)(x), 2 * factor**2 * x)
    close(rune.jvp(square, (x,), (x,))[1], 2 * factor**2 * x @ x)
    close(rune.vmap(rune.grad(square))(lanes), 2 * factor**2 * lanes)
    close(rune.hessian(square)(x), np.diag([2.0 * factor**2] * 3))
