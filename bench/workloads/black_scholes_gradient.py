"""The gradient of 1,000,000 options' value by the price of what they are on."""

import numpy as np

from bench.workloads.black_scholes import TOLERANCE, data, value

__all__ = ["TOLERANCE", "data", "with_jax", "with_rune"]


def with_rune(*args):
    import scipy.special

    import rune

    f = rune.jit(rune.grad(lambda *args: value(*args, np, scipy.special.erf)))
    return lambda: f(*args)


def with_jax(*args):
    import jax
    import jax.numpy as jnp

    f = jax.jit(jax.grad(lambda *args: value(*args, jnp, jax.scipy.special.erf)))
    args = [jnp.asarray(x) for x in args]
    return lambda: jax.block_until_ready(f(*args))
