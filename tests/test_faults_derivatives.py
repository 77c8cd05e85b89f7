"""Faults in derivatives and custom rules found by attack, each held by a test of its whole kind."""

import numpy as np
import pytest

import rune

x3 = np.array([0.3, -0.7, 1.2])
WRAPS = {"eager": lambda f: f, "compiled": rune.jit}


@pytest.fixture(params=WRAPS.values(), ids=WRAPS)
def wrap(request):
    return request.param


# remat ----------------------------------------------------------------------------------------------

rows = np.arange(10.0).reshape(5, 2, 1)


def reads(x, y):
    """What it does depends on a value that it reads, where it can."""
    try:
        return x * y if x[0] > 0 else y
    except rune.TracedValueError:
        return x * y


CAPTURING = {
    "captured": (lambda x, f: f(lambda y: np.sin(y) * x)(x * 2), 0),
    "captured alone": (lambda x, f: f(lambda y: x * x)(x), 0),
    "captured beside plain arguments": (lambda x, f: f(lambda y: y * x**2)(np.arange(3.0)), 0),
    "a captured composition": (lambda x, f: (lambda w: f(lambda y: np.exp(w) * y)(x))(np.sin(x)), 0),
    "captured under a map": (
        lambda x, f: rune.vmap(lambda t: f(lambda y: np.sum(np.sin(y * t) * x))(x * x))(x),
        0,
    ),
    "a mapped argument": (lambda x, f: rune.vmap(f(lambda y: np.sin(y) * np.sum(x)))(x * x), 0),
    "read": (lambda x, f: f(lambda y: reads(x, y))(x), 0),
    "nested": (lambda x, f: f(lambda y: f(lambda z: z * y * x)(y))(x), 0),
    "a deeper capture": (
        lambda x, f: x * rune.grad(lambda w: np.sum(f(lambda y: np.sin(y * w) * w)(x)))(x),
        0,
    ),
    "segments": (
        lambda x, f: rune.scan(lambda c, r: (np.cos(c) * x + np.sum(r), c), x, rows)[0],
        lambda x, f: rune.scan(lambda c, r: (np.cos(c) * x + np.sum(r), c), x, rows, checkpoint_every=2)[0],
    ),
}


@pytest.mark.parametrize("f, again", CAPTURING.values(), ids=CAPTURING)
def test_what_is_computed_again_may_capture(wrap, f, again):
    kept = lambda x: np.sum(f(x, lambda g: g) ** 2)
    computed = lambda x: np.sum((again or f)(x, rune.remat) ** 2)
    np.testing.assert_allclose(wrap(rune.grad(computed))(x3), rune.grad(kept)(x3))
    np.testing.assert_allclose(wrap(rune.jacfwd(computed))(x3), rune.grad(kept)(x3))
    np.testing.assert_allclose(wrap(rune.hessian(computed))(x3), rune.hessian(kept)(x3), atol=1e-12)
    np.testing.assert_allclose(wrap(rune.jacrev(rune.grad(computed)))(x3), rune.hessian(kept)(x3), atol=1e-12)
    assert np.shape(rune.jvp(computed, (x3,), (np.ones(3),))[1]) == ()


# Custom rules ---------------------------------------------------------------------------------------


@rune.custom_jvp
def with_tangents(x, name):
    return (x * 2, np.int64(3), name), lambda dx, _: (dx * 2, np.int64(0), name)


@rune.custom_vjp
def with_cotangents(x, name):
    return (x * 2, np.int64(3), name), lambda ct: (ct[0] * 2, name)


@pytest.mark.parametrize("rule", [with_tangents, with_cotangents], ids=["jvp", "vjp"])
def test_a_rules_static_results_come_back_as_they_are(wrap, rule):
    def f(x):
        y, n, name = rule(x, "name")
        assert name == "name"
        return np.sum(y * n)

    assert wrap(f)(x3) == np.sum(x3 * 6)
    np.testing.assert_allclose(wrap(rune.grad(f))(x3), np.full(3, 6.0))
    np.testing.assert_allclose(wrap(rune.vmap(f))(np.stack([x3, x3])), np.full(2, np.sum(x3 * 6)))
    np.testing.assert_allclose(wrap(rune.hessian(f))(x3), np.zeros((3, 3)))


RULES = {
    "jvp": lambda x: rune.custom_jvp(lambda y: (y * x, lambda dy: dy * x)),
    "vjp": lambda x: rune.custom_vjp(lambda y: (y * x, lambda ct: ct * x)),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_that_captures_what_is_differentiated_is_refused(wrap, rule):
    f = lambda x: np.sum(rule(x)(x * 2))
    for g in (wrap(rune.grad(f)), rune.grad(wrap(f)), lambda x: wrap(rune.vmap(rune.grad(f)))(x[None])):
        with pytest.raises(TypeError, match=r"^rune.custom_.*captures a value that is differentiated"):
            g(x3)
    held = lambda x: np.sum(rule(rune.detach(x))(x * 2))
    np.testing.assert_allclose(wrap(rune.grad(held))(x3), 2 * x3)
    np.testing.assert_allclose(rune.grad(wrap(held))(x3), 2 * x3)
    plain = lambda x, w: np.sum(rule(w)(x * 2))
    np.testing.assert_allclose(rune.jit(rune.grad(plain))(x3, x3), 2 * x3)


def test_a_transpose_returns_the_arguments_shapes(wrap):
    wrong = rune.custom_transpose(lambda x: np.roll(x, 1), lambda ct: ct[:2])
    with pytest.raises(ValueError, match=r"rune.custom_transpose: 0: .* returned by the transpose"):
        wrap(rune.grad(lambda x: np.sum(wrong(x))))(x3)


# Results, positions and checks ----------------------------------------------------------------------


def test_static_leaves_of_a_result_have_no_cotangent(wrap):
    f = lambda x: {"y": x * 2, "name": "name", "n": 3, "none": None}

    def pulled(x):
        y, pullback = rune.vjp(f, x)
        assert y["name"] == "name"
        return pullback({**y, "y": np.ones(3)})

    np.testing.assert_array_equal(wrap(pulled)(x3)[0], np.full(3, 2.0))


@pytest.mark.parametrize("entry", [rune.grad, rune.value_and_grad, rune.jacfwd, rune.jacrev, rune.hessian])
@pytest.mark.parametrize("argnums", [(0, 0), (0, -2), (1, 0, 1)])
def test_a_position_is_named_once(entry, argnums):
    with pytest.raises(ValueError, match=r"argnums names argument . more than once"):
        entry(lambda x, y: x * y, argnums)(1.0, 2.0)


COMPLEX = {
    "real": lambda z: np.sum(np.abs(z) ** 2 * np.real(z)),
    "imaginary": lambda z: np.sum(np.imag(np.exp(z))),
    "holomorphic": lambda z: np.sum(z**3),
}


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("f", COMPLEX.values(), ids=COMPLEX)
def test_gradients_by_complex_arguments_are_checked(f, order):
    z = np.array([0.3 + 0.2j, -1 + 0.5j])
    rune.check_grads(f, z, modes=("reverse", "forward"), order=order)
    wrong = rune.custom_jvp(lambda z: (f(z), lambda dz: rune.jvp(f, (z,), (dz * 1j,))[1]))
    with pytest.raises(AssertionError, match=r"^rune.check_grads: along direction 0 of order 1"):
        rune.check_grads(wrong, z, order=order)


# What a repeated function captures --------------------------------------------------------------------


def rebound(wrap, x):
    for weight in (1.5, 0.5, 2.0):
        x = wrap(lambda x: np.sin(weight * x))(x)
    return x


def written_into(wrap, x):
    weight = np.array([1.0, 2.0, 3.0])
    x = wrap(lambda x: np.sin(weight * x))(x)
    weight[:] = 7.0
    return x


def held(wrap, x):
    held = {"weight": 2.0}
    x = wrap(lambda x: np.sin(held["weight"] * x))(x)
    held["weight"] = 7.0
    return x


def steps(wrap, x):
    n = 3
    step, until = lambda s: (np.sin(s[0]), s[1] + 1), lambda s: s[1] >= n
    x = wrap(lambda x: rune.iterate(step, (x, 0), until=until, max_steps=5)[0])(x)
    n = 1
    return x


def read(wrap, x):
    weight = 2.0
    x = wrap(lambda x: np.sin(weight * x) if np.sum(x) > 0 else x)(x)
    weight = 7.0
    return x


@pytest.mark.parametrize("f", [rebound, written_into, held, steps, read])
def test_what_runs_again_in_the_backward_pass_is_what_ran(f):
    x = np.array([0.3, 0.7, -0.2])
    loss = lambda wrap: lambda x: np.sum(f(wrap, x) ** 2)
    same, repeated = loss(lambda f: f), loss(rune.remat)
    np.testing.assert_allclose(rune.grad(repeated)(x), rune.grad(same)(x), rtol=1e-12)
    np.testing.assert_allclose(rune.vjp(repeated, x)[1](1.0)[0], rune.grad(same)(x), rtol=1e-12)
    if f is not read:  # whose branch hangs on a value
        np.testing.assert_allclose(rune.hessian(repeated)(x), rune.hessian(same)(x), rtol=1e-9)
        np.testing.assert_allclose(rune.jit(rune.grad(repeated))(x), rune.grad(same)(x), rtol=1e-12)
