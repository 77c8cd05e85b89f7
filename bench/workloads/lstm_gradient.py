"""The gradient of an LSTM: 100 steps, batch 32, 64 inputs, 128 hidden, float32."""

import numpy as np

TOLERANCE = 2e-3


def data(scale=1):
    rng = np.random.default_rng(0)
    f32 = lambda *shape: (rng.standard_normal(shape) * 0.05).astype(np.float32)
    return (f32(64, 512) * 2, f32(128, 512) * 2, f32(512) * 0), f32(100 * scale, 32, 64) * 20


def with_rune(params, xs):
    import rune

    sigmoid = lambda x: 1 / (1 + np.exp(-x))

    def loss(params, xs):
        wx, wh, b = params

        def step(carry, x):
            h, s = carry
            i, f, g, o = np.split(x @ wx + h @ wh + b, 4, -1)
            s = sigmoid(f) * s + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(s)
            return (h, s), h

        zero = np.zeros((xs.shape[1], wh.shape[0]), xs.dtype)
        return np.sum(rune.scan(step, (zero, zero), xs)[1] ** 2)

    f = rune.jit(rune.grad(loss))
    return lambda: f(params, xs)


def with_jax(params, xs):
    import jax
    import jax.numpy as jnp

    def loss(params, xs):
        wx, wh, b = params

        def step(carry, x):
            h, s = carry
            i, f, g, o = jnp.split(x @ wx + h @ wh + b, 4, -1)
            s = jax.nn.sigmoid(f) * s + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(s)
            return (h, s), h

        zero = jnp.zeros((xs.shape[1], wh.shape[0]), xs.dtype)
        return jnp.sum(jax.lax.scan(step, (zero, zero), xs)[1] ** 2)

    f = jax.jit(jax.grad(loss))
    params, xs = tuple(map(jnp.asarray, params)), jnp.asarray(xs)
    return lambda: jax.block_until_ready(f(params, xs))
