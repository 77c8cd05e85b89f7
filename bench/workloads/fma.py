"""a + b * c over 16 Mi float32."""

import numpy as np

TOLERANCE = 1e-5


def data(scale=1):
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((1 << 24) * scale, dtype=np.float32) for _ in range(3))


def with_rune(a, b, c):
    import rune

    f = rune.jit(lambda a, b, c: a + b * c)
    return lambda: f(a, b, c)


def with_jax(a, b, c):
    import jax
    import jax.numpy as jnp

    f = jax.jit(lambda a, b, c: a + b * c)
    a, b, c = map(jnp.asarray, (a, b, c))
    return lambda: jax.block_until_ready(f(a, b, c))


def with_numpy(a, b, c):
    return lambda: a + b * c
