"""The value of 1,000,000 options by Black and Scholes: log, exp and erf, summed."""

import numpy as np

TOLERANCE = 1e-9


def data(scale=1):
    unit = np.random.default_rng(0).random((3, 1_000_000 * scale))
    return 50 + 100 * unit[0], 50 + 100 * unit[1], 0.1 + 1.9 * unit[2], 0.02, 0.3


def value(S, K, T, r, v, np, erf):
    d1 = (np.log(S / K) + (r + v * v / 2) * T) / (v * np.sqrt(T))
    d2 = d1 - v * np.sqrt(T)
    normal = lambda x: 0.5 * (1 + erf(x / 2**0.5))
    return np.sum(S * normal(d1) - K * np.exp(-r * T) * normal(d2))


def with_rune(*args):
    import scipy.special

    import rune

    f = rune.jit(lambda *args: value(*args, np, scipy.special.erf))
    return lambda: f(*args)


def with_jax(*args):
    import jax
    import jax.numpy as jnp

    f = jax.jit(lambda *args: value(*args, jnp, jax.scipy.special.erf))
    args = [jnp.asarray(x) for x in args]
    return lambda: jax.block_until_ready(f(*args))
