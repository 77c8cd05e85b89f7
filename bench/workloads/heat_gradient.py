"""The gradient of 100 steps of a heat stencil on 256 x 256."""

import numpy as np

TOLERANCE = 1e-9


def data(scale=1):
    return np.random.default_rng(0).random((256, 256)), 100 * scale


def loss(u, steps, np, scan):
    def step(u, _):
        inner = u[1:-1, 1:-1]
        inner = inner + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner)
        return np.pad(inner, 1), None

    u, _ = scan(step, u, None, length=steps)
    return np.sum(u * u)


def with_rune(u, steps):
    import rune

    f = rune.jit(rune.grad(lambda u: loss(u, steps, np, rune.scan)))
    return lambda: f(u)


def with_jax(u, steps):
    import jax
    import jax.numpy as jnp

    f, u = jax.jit(jax.grad(lambda u: loss(u, steps, jnp, jax.lax.scan))), jnp.asarray(u)
    return lambda: jax.block_until_ready(f(u))
