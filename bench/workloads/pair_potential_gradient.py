"""The gradient of a softened pair potential by the positions of 1,000 bodies."""

import ctypes

import numpy as np

from bench.workloads import limits, pointer

TOLERANCE = 1e-10


def data():
    return (np.random.default_rng(0).standard_normal((1000, 3)),)


def potential(x, numpy):
    d = x[:, None, :] - x[None, :, :]
    return numpy.sum(1 / numpy.sqrt(numpy.sum(d * d, -1) + 1e-3))


def with_rune(x):
    import rune

    f = rune.jit(rune.grad(lambda x: potential(x, np)))
    return lambda: f(x)


def with_jax(x):
    import jax
    import jax.numpy as jnp

    f, x = jax.jit(jax.grad(lambda x: potential(x, jnp))), jnp.asarray(x)
    return lambda: jax.block_until_ready(f(x))


def with_numpy(x):
    def call():
        d = x[:, None, :] - x[None, :, :]
        r2 = np.sum(d * d, -1) + 1e-3
        return np.sum((-2 * r2**-1.5)[..., None] * d, axis=1)

    return call


def with_c(x):
    f, n = limits().pair_potential_gradient, ctypes.c_long(len(x))
    columns = np.ascontiguousarray(x.T)

    def call():
        gradient = np.empty_like(x)
        f(pointer(columns[0]), pointer(columns[1]), pointer(columns[2]), pointer(gradient), n)
        return gradient

    return call
