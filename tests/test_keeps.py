"""What loops keep for their backward pass: bytes per step beyond rows, captures and results."""

import numpy as np
import pytest

import rune

rng = np.random.default_rng(3)
W = rng.standard_normal((4, 4)) * 0.3
us = rng.standard_normal((7, 4))


def running_sum(xs):
    def step(c, x):
        c = c + x
        return c, c

    return np.sum(rune.scan(step, 0.0, xs)[1] ** 2)


def lorenz(s, p):
    x, y, z = s
    return np.stack([p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z])


def orbit(p):
    def step(s, _):
        h = 1e-3
        k1 = lorenz(s, p)
        k2 = lorenz(s + h / 2 * k1, p)
        k3 = lorenz(s + h / 2 * k2, p)
        k4 = lorenz(s + h * k3, p)
        return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return np.sum(rune.scan(step, np.ones(3), None, length=5)[0] ** 2)


def product(x):
    z = np.ones((5, 5))
    ys = np.ones(3)
    return np.mean(rune.scan(lambda c, y: (c + x * (y + z), None), np.zeros((5, 5)), ys)[0])


def recurrent(keep_h):
    def f(w):
        def step(h, u):
            h = np.tanh(w @ h + u)
            return h, h if keep_h else None

        h, path = rune.scan(step, np.zeros(4), us)
        return np.sum(h) + (np.sum(path**2) if keep_h else 0.0)

    return f


def factored(x):
    def step(p, a):
        p = a @ p @ a.T + np.diag(x)
        L = np.linalg.cholesky(p)
        return p, np.sum(np.log(np.diag(L)))

    return np.sum(rune.scan(step, np.eye(4), np.stack([W, W]))[1])


def narrow(x):
    """Much is read and the carry is wide, but all of it follows from one sum."""

    def step(c, _):
        s = np.sum(c)
        return c + np.sin(s) * np.cos(s) * np.exp(-s), None

    return np.sum(rune.scan(step, x, None, length=4)[0])


CASES = {
    "running sum": (running_sum, (np.ones(9),), 0),
    "RK4 of the Lorenz system": (orbit, (np.array([10.0, 28.0, 8 / 3]),), 24),
    "a product with a captured matrix": (product, (2.0,), 0),
    "tanh of an affine map, an output": (recurrent(True), (W,), 0),
    "tanh of an affine map, not an output": (recurrent(False), (W,), 32),
    "a scalar between a wide carry and what is read": (narrow, (np.linspace(0, 1, 100),), 8),
}


@pytest.mark.parametrize("f, args, want", CASES.values(), ids=CASES)
def test_bytes_per_step(f, args, want):
    forward, *backward = rune.explain(rune.value_and_grad(f))(*args).loops
    assert forward.kept_bytes == want
    assert all(loop.kept_bytes == 0 for loop in backward)
    np.testing.assert_allclose(rune.jit(rune.grad(f))(*args), rune.grad(f)(*args), rtol=1e-9, atol=1e-12)


def test_a_factor_is_stored_and_not_computed_again():
    x = np.ones(4)
    program = rune.program(rune.grad(factored))(x)
    assert str(program).count("Cholesky [") == 1
    found = rune.explain(rune.grad(factored))(x)
    assert found.loops[0].kept_bytes == 4 * 4 * 8
    np.testing.assert_allclose(rune.jit(rune.grad(factored))(x), rune.grad(factored)(x), rtol=1e-9)


@pytest.mark.parametrize(
    "mode",
    {
        "grad": lambda f: rune.grad(f),
        "of a map": lambda f: rune.grad(lambda x: np.sum(rune.vmap(f)(np.stack([x, x])))),
        "of a tangent": lambda f: rune.grad(lambda x: rune.jvp(f, (x,), (x,))[1]),
        "second": lambda f: rune.grad(lambda x: np.sum(rune.grad(f)(x) ** 2)),
    }.items(),
    ids=lambda item: item[0],
)
def test_what_is_computed_again_is_so_in_every_derivation(mode):
    """remat's step keeps its carry only, though a factor is otherwise stored."""

    def loop(x):
        @rune.remat
        def step(c, _):
            L = np.linalg.cholesky(np.eye(6) * (2.0 + c * c))
            return np.sin(np.sum(L * x[:6, None]) + c), None

        return rune.scan(step, x[0], None, length=3)[0]

    numbers = {"of a map": 2, "of a tangent": 2, "second": 3}.get(mode[0], 1)
    x = np.linspace(0.1, 0.7, 7)
    loops = rune.explain(mode[1](loop))(x).loops
    assert max(found.kept_bytes for found in loops) <= 8 * numbers
