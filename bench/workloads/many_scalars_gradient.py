"""The gradient of a scan with 32 scalars in its carry, 600 steps."""

import numpy as np

TOLERANCE = 1e-9


def data(scale=1):
    return np.arange(4.0), 600 * scale


def with_rune(ps, steps):
    import rune

    def f(ps):
        def step(c, _):
            return tuple(c[i] + 0.01 * np.sin(c[(i + 1) % 32]) * ps[i % 4] for i in range(32)), None

        c, _ = rune.scan(step, tuple(i * 0.1 for i in range(32)), None, length=steps)
        return sum(x * x for x in c)

    g = rune.jit(rune.grad(f))
    return lambda: g(ps)


def with_jax(ps, steps):
    import jax
    import jax.numpy as jnp

    def f(ps):
        def step(c, _):
            return tuple(c[i] + 0.01 * jnp.sin(c[(i + 1) % 32]) * ps[i % 4] for i in range(32)), None

        c, _ = jax.lax.scan(step, tuple(jnp.float64(i * 0.1) for i in range(32)), None, length=steps)
        return sum(x * x for x in c)

    g, ps = jax.jit(jax.grad(f)), jnp.asarray(ps)
    return lambda: jax.block_until_ready(g(ps))
