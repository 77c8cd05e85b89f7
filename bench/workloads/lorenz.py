"""A Lorenz orbit by RK4, 10,000 steps: the sum of squares of the last state.

More steps make finer ones and not a longer orbit, which is chaotic and soon tells rounding errors apart.
"""

import ctypes

import numpy as np

from bench.workloads import limits, pointer

TOLERANCE = 1e-5  # rounding grows along the orbit


def data(scale=1):
    """Parameters, the first state, the number of steps and their size."""
    return np.array([10.0, 28.0, 8 / 3]), np.ones(3), 10_000 * scale, 1e-3 / scale


def orbit(p, s0, steps, h, stack, scan):
    """The last state, in terms of a library's `stack` and `scan`."""

    def slope(s):
        x, y, z = s
        return stack([p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z])

    def step(s, _):
        k1 = slope(s)
        k2 = slope(s + h / 2 * k1)
        k3 = slope(s + h / 2 * k2)
        k4 = slope(s + h * k3)
        return s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    s, _ = scan(step, s0, None, length=steps)
    return (s * s).sum()


def python_scan(step, carry, xs, length):
    for _ in range(length):
        carry, _ = step(carry, None)
    return carry, None


def with_rune(p, s0, steps, h):
    import rune

    f = rune.jit(lambda p, s0: orbit(p, s0, steps, h, np.stack, rune.scan))
    return lambda: f(p, s0)


def with_jax(p, s0, steps, h):
    import jax
    import jax.numpy as jnp

    f = jax.jit(lambda p, s0: orbit(p, s0, steps, h, jnp.stack, jax.lax.scan))
    p, s0 = jnp.asarray(p), jnp.asarray(s0)
    return lambda: jax.block_until_ready(f(p, s0))


def with_numpy(p, s0, steps, h):
    return lambda: orbit(p, s0, steps, h, np.stack, python_scan)


def with_c(p, s0, steps, h):
    f, h, n = limits().lorenz, ctypes.c_double(h), ctypes.c_long(steps)
    f.restype = ctypes.c_double
    return lambda: f(pointer(p), h, n)
