"""The gradient of the sum of squares of a running sum, a scan over 100,000 rows."""

import ctypes

import numpy as np

from bench.workloads import limits, pointer

TOLERANCE = 1e-10


def data(scale=1):
    return (np.random.default_rng(0).random(100_000 * scale),)


def with_rune(xs):
    import rune

    def running_sum(xs):
        def step(acc, row):
            total = acc + row
            return total, total

        _, sums = rune.scan(step, np.float64(0.0), xs)
        return np.sum(sums * sums)

    f = rune.jit(rune.grad(running_sum))
    return lambda: f(xs)


def with_jax(xs):
    import jax
    import jax.numpy as jnp

    def running_sum(xs):
        def step(acc, row):
            total = acc + row
            return total, total

        _, sums = jax.lax.scan(step, jnp.float64(0.0), xs)
        return jnp.sum(sums * sums)

    f, xs = jax.jit(jax.grad(running_sum)), jnp.asarray(xs)
    return lambda: jax.block_until_ready(f(xs))


def with_numpy(xs):
    return lambda: np.cumsum(2 * np.cumsum(xs)[::-1])[::-1]


def with_c(xs):
    f, sums, n = limits().running_sum_gradient, np.empty_like(xs), ctypes.c_long(xs.size)

    def call():
        gradient = np.empty_like(xs)
        f(pointer(xs), pointer(sums), pointer(gradient), n)
        return gradient

    return call
