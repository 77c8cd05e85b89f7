"""The softmax of 4096 x 1024, float32."""

import numpy as np

from bench.workloads.attention_gradient import softmax

TOLERANCE = 1e-4


def data(scale=1):
    return ((np.random.default_rng(0).standard_normal((4096 * scale, 1024)) * 0.05).astype(np.float32),)


def with_rune(x):
    import rune

    f = rune.jit(lambda x: softmax(x))
    return lambda: f(x)


def with_jax(x):
    import jax
    import jax.numpy as jnp

    f, x = jax.jit(lambda x: jax.nn.softmax(x, -1)), jnp.asarray(x)
    return lambda: jax.block_until_ready(f(x))


def with_numpy(x):
    return lambda: softmax(x)
