"""The gradient by its three parameters of a Lorenz orbit by RK4, 10,000 steps of 3 states."""

import ctypes

import numpy as np

from bench.workloads import limits, pointer
from bench.workloads.lorenz import TOLERANCE, data, orbit

__all__ = ["TOLERANCE", "data", "with_c", "with_jax", "with_rune"]


def with_rune(p, s0, steps, h):
    import rune

    f = rune.jit(rune.grad(lambda p, s0: orbit(p, s0, steps, h, np.stack, rune.scan)))
    return lambda: f(p, s0)


def with_jax(p, s0, steps, h):
    import jax
    import jax.numpy as jnp

    f = jax.jit(jax.grad(lambda p, s0: orbit(p, s0, steps, h, jnp.stack, jax.lax.scan)))
    p, s0 = jnp.asarray(p), jnp.asarray(s0)
    return lambda: jax.block_until_ready(f(p, s0))


def with_c(p, s0, steps, h):
    f, h, n = limits().lorenz_gradient, ctypes.c_double(h), ctypes.c_long(steps)

    def call():
        path, gradient = np.empty((steps, 3)), np.empty(3)
        f(pointer(p), h, n, pointer(path), pointer(gradient))
        return gradient

    return call
