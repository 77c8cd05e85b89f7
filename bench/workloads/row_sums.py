"""The row sums of 4096 x 4096, float32."""

import numpy as np

TOLERANCE = 1e-4


def data(scale=1):
    return ((np.random.default_rng(0).standard_normal((4096 * scale, 4096)) * 0.05).astype(np.float32),)


def with_rune(x):
    import rune

    f = rune.jit(lambda x: np.sum(x, 1))
    return lambda: f(x)


def with_jax(x):
    import jax
    import jax.numpy as jnp

    f, x = jax.jit(lambda x: x.sum(1)), jnp.asarray(x)
    return lambda: jax.block_until_ready(f(x))


def with_numpy(x):
    return lambda: np.sum(x, 1)
