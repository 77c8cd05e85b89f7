"""The gradient of a network of two layers, 784-256-10, batch 128, float32."""

import numpy as np

TOLERANCE = 1e-3


def data(scale=1):
    rng = np.random.default_rng(0)
    f32 = lambda *shape: (rng.standard_normal(shape) * 0.05).astype(np.float32)
    return ((f32(784, 256), f32(256)), (f32(256, 10), f32(10))), f32(128 * scale, 784), f32(128 * scale, 10)


def with_rune(params, x, y):
    import rune

    def loss(params, x, y):
        (w1, b1), (w2, b2) = params
        z = np.tanh(x @ w1 + b1) @ w2 + b2
        top = np.max(z, -1, keepdims=True)
        log_softmax = z - top - np.log(np.sum(np.exp(z - top), -1, keepdims=True))
        return -np.mean(np.sum(y * log_softmax, -1))

    f = rune.jit(rune.grad(loss))
    return lambda: f(params, x, y)


def with_jax(params, x, y):
    import jax
    import jax.numpy as jnp

    def loss(params, x, y):
        (w1, b1), (w2, b2) = params
        return -jnp.mean(jnp.sum(y * jax.nn.log_softmax(jnp.tanh(x @ w1 + b1) @ w2 + b2), -1))

    f = jax.jit(jax.grad(loss))
    params, x, y = jax.tree.map(jnp.asarray, (params, x, y))
    return lambda: jax.block_until_ready(f(params, x, y))
