"""The gradient of a hidden Markov model's forward pass: 16 states, 8 symbols, 2,000 steps."""

import numpy as np

TOLERANCE = 1e-9


def data(scale=1):
    rng = np.random.default_rng(0)
    return rng.standard_normal((16, 16)), rng.standard_normal((16, 8)), rng.integers(0, 8, 2000 * scale)


def log_sum_exp(x, axis):
    top = np.max(x, axis)
    return np.log(np.sum(np.exp(x - np.expand_dims(top, axis)), axis)) + top


def with_rune(a, b, obs):
    import rune

    def f(theta, obs):
        A = theta["A"] - log_sum_exp(theta["A"], 1)[:, None]
        B = theta["B"] - log_sum_exp(theta["B"], 1)[:, None]

        def step(a, o):
            return log_sum_exp(a[:, None] + A, 0) + B[:, o], None

        a, _ = rune.scan(step, np.zeros(16) - np.log(16.0), obs)
        return log_sum_exp(a, 0)

    g = rune.jit(rune.grad(f))

    def call():
        found = g({"A": a, "B": b}, obs)
        return found["A"], found["B"]

    return call


def with_jax(a, b, obs):
    import jax
    import jax.numpy as jnp

    def f(theta, obs):
        A, B = jax.nn.log_softmax(theta["A"], -1), jax.nn.log_softmax(theta["B"], -1)

        def step(a, o):
            return jax.nn.logsumexp(a[:, None] + A, 0) + B[:, o], None

        a, _ = jax.lax.scan(step, jnp.zeros(16) - jnp.log(16.0), obs)
        return jax.nn.logsumexp(a)

    g = jax.jit(jax.grad(f))
    theta, obs = {"A": jnp.asarray(a), "B": jnp.asarray(b)}, jnp.asarray(obs)

    def call():
        found = jax.block_until_ready(g(theta, obs))
        return found["A"], found["B"]

    return call
