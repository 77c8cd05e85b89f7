"""A Hessian-vector product of logistic regression, 10,000 x 50."""

import numpy as np

TOLERANCE = 1e-9


def data(scale=1):
    rng = np.random.default_rng(0)
    return (
        rng.standard_normal((10_000 * scale, 50)),
        rng.integers(0, 2, 10_000 * scale) * 1.0,
        np.zeros(50),
        np.ones(50),
    )


def with_rune(X, y, w, v):
    import rune

    loss = lambda w: np.mean(np.logaddexp(0, X @ w) - y * (X @ w))
    f = rune.jit(lambda w, v: rune.jvp(rune.grad(loss), (w,), (v,))[1])
    return lambda: f(w, v)


def with_jax(X, y, w, v):
    import jax
    import jax.numpy as jnp

    X, y, w, v = map(jnp.asarray, (X, y, w, v))
    loss = lambda w: jnp.mean(jnp.logaddexp(0, X @ w) - y * (X @ w))
    f = jax.jit(lambda w, v: jax.jvp(jax.grad(loss), (w,), (v,))[1])
    return lambda: jax.block_until_ready(f(w, v))
