"""A law over random step functions: eager, compiled, mapped, differentiated once and twice agree."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rune

W = np.random.default_rng(3).standard_normal((3, 3)) * 0.4
table = np.linspace(-1.0, 1.0, 7)

# Each makes a new vector of 3 from one or two that there are, the row's integer k, and what is captured.
OPERATIONS = {
    "add": lambda a, b, k: a + b,
    "mul": lambda a, b, k: a * b * 0.5,
    "sub": lambda a, b, k: a - 0.3 * b,
    "tanh": lambda a, b, k: np.tanh(a),
    "sin": lambda a, b, k: np.sin(a),
    "exp": lambda a, b, k: np.exp(-(a**2)),
    "divide": lambda a, b, k: a / (1.5 + b**2),
    "matmul": lambda a, b, k: W @ a,
    "sum": lambda a, b, k: a * np.mean(b),
    "where": lambda a, b, k: np.where(a > b, a, 0.5 * b),
    "roll": lambda a, b, k: np.roll(a, 1) + b,
    "reverse": lambda a, b, k: a[::-1] * 0.9,
    "gather": lambda a, b, k: a + rune.asarray(table)[k],
    "element": lambda a, b, k: a * b[k % 3],
    "cond": lambda a, b, k: rune.cond(k > 2, lambda a, b: a * 0.7 + b, lambda a, b: a - np.cos(b), a, b),
    "solve": lambda a, b, k: np.linalg.solve(np.outer(a, a) + 2 * np.eye(3), b),
}


def written(a, b, k):
    c = rune.asarray(a * 1.0)
    c[k % 3] = b[0] * 2.0
    c[1:] += b[:2]
    return c * 0.5


OPERATIONS["write"] = written
steps = st.lists(
    st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 9), st.integers(0, 9)),
    min_size=2,
    max_size=8,
)
places = st.integers(0, 9)


def loop(operations, carry_from, output_from, reverse, p):
    """A scan whose step applies the operations to (carry, row, p), one after the other."""

    def step(carry, row):
        values = [carry, row["x"], p]
        for name, i, j in operations:
            values.append(OPERATIONS[name](values[-1 - i % len(values)], values[j % len(values)], row["k"]))
        bounded = np.tanh(values[-1 - carry_from % len(values)]) + 0.1 * carry
        return bounded, values[-1 - output_from % len(values)]

    def run(init, xs):
        return rune.scan(step, init, {"x": xs, "k": np.array([0, 3, 1, 5])}, reverse=reverse)

    return run


def agree(operations, carry_from, output_from, reverse):
    rng = np.random.default_rng(len(operations))
    init, xs, p = rng.uniform(0.3, 1.0, 3), rng.uniform(-1.0, 1.0, (4, 3)), rng.uniform(0.5, 1.0, 3)
    v = rng.standard_normal(3)

    def loss(p, init, xs):
        last, path = loop(operations, carry_from, output_from, reverse, p)(init, xs)
        return np.sum(last * v) + np.sum(np.sin(path))

    close = lambda a, b, tol=1e-9: np.testing.assert_allclose(a, b, rtol=tol, atol=tol)
    close(rune.jit(loss)(p, init, xs), loss(p, init, xs))
    gradient = rune.grad(loss, argnums=(0, 1, 2))
    want = gradient(p, init, xs)
    for way in (rune.jit(gradient), rune.grad(rune.jit(loss), argnums=(0, 1, 2))):
        for got, w in zip(way(p, init, xs), want, strict=True):
            close(got, w)
    along = rune.jvp(loss, (p, init, xs), (v, v, xs))[1]
    close(along, np.sum(want[0] * v) + np.sum(want[1] * v) + np.sum(want[2] * xs), 1e-8)
    close(rune.jvp(rune.jit(loss), (p, init, xs), (v, v, xs))[1], along, 1e-8)
    lanes = np.stack([p, 0.9 * p])
    mapped = rune.vmap(loss, in_axes=(0, None, None))
    close(rune.jit(mapped)(lanes, init, xs), [loss(q, init, xs) for q in lanes])
    close(
        rune.jit(rune.vmap(rune.grad(loss), in_axes=(0, None, None)))(lanes, init, xs),
        [rune.grad(loss)(q, init, xs) for q in lanes],
    )
    hessian = rune.hessian(rune.jit(loss))(p, init, xs)
    close(hessian, hessian.T, 1e-7)
    twice = rune.jit(lambda p: rune.jvp(lambda p: rune.grad(loss)(p, init, xs), (p,), (v,))[1])
    close(hessian @ v, twice(p), 1e-7)


@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(steps, places, places, st.booleans())
def test_random_steps(operations, carry_from, output_from, reverse):
    agree(operations, carry_from, output_from, reverse)


@pytest.mark.long
@settings(max_examples=500, derandomize=False, suppress_health_check=list(HealthCheck))
@given(steps, places, places, st.booleans())
def test_many_random_steps(operations, carry_from, output_from, reverse):
    agree(operations, carry_from, output_from, reverse)
