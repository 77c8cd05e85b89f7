"""The gradient of attention by queries, keys and values: 8 heads, 512 x 64, float32."""

import numpy as np

TOLERANCE = 1e-3


def data(scale=1):
    rng = np.random.default_rng(0)
    return tuple((rng.standard_normal((8, 512 * scale, 64)) * 0.05).astype(np.float32) for _ in range(3))


def loss(q, k, v, np, softmax):
    s = np.einsum("hqd,hkd->hqk", q, k) / 8
    return np.sum(np.einsum("hqk,hkd->hqd", softmax(s), v) ** 2)


def softmax(x):
    e = np.exp(x - np.max(x, -1, keepdims=True))
    return e / np.sum(e, -1, keepdims=True)


def with_rune(q, k, v):
    import rune

    f = rune.jit(rune.grad(lambda q, k, v: loss(q, k, v, np, softmax), argnums=(0, 1, 2)))
    return lambda: f(q, k, v)


def with_jax(q, k, v):
    import jax
    import jax.numpy as jnp

    f = jax.jit(jax.grad(lambda q, k, v: loss(q, k, v, jnp, jax.nn.softmax), (0, 1, 2)))
    q, k, v = map(jnp.asarray, (q, k, v))
    return lambda: jax.block_until_ready(f(q, k, v))
