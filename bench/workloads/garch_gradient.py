"""The gradient of a GARCH(1,1) likelihood by its three parameters, 10,000 steps."""

import numpy as np

TOLERANCE = 1e-9


def data(scale=1):
    return (np.random.default_rng(0).standard_normal(10_000 * scale),)


def likelihood(p, r, np, scan):
    w, a, b = p

    def step(s, x):
        s = w + a * x * x + b * s
        return s, 0.5 * (np.log(s) + x * x / s)

    return np.sum(scan(step, np.float64(1.0), r)[1])


def with_rune(r):
    import rune

    f = rune.jit(rune.grad(lambda p, r: likelihood(p, r, np, rune.scan)))
    return lambda: f((0.1, 0.1, 0.8), r)


def with_jax(r):
    import jax
    import jax.numpy as jnp

    f, r = jax.jit(jax.grad(lambda p, r: likelihood(p, r, jnp, jax.lax.scan))), jnp.asarray(r)
    return lambda: jax.block_until_ready(f((0.1, 0.1, 0.8), r))
