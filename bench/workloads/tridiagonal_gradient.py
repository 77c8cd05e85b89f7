"""The gradient of a tridiagonal solve's sum of squares by all four diagonals, 100,000 rows."""

import numpy as np

from bench.workloads.tridiagonal import TOLERANCE, data, solve

__all__ = ["TOLERANCE", "data", "with_jax", "with_rune"]


def with_rune(*rows):
    import rune

    f = rune.jit(rune.grad(lambda *rows: np.sum(solve(*rows, rune.scan) ** 2), argnums=(0, 1, 2, 3)))
    return lambda: f(*rows)


def with_jax(*rows):
    import jax
    import jax.numpy as jnp

    f = jax.jit(jax.grad(lambda *rows: jnp.sum(solve(*rows, jax.lax.scan) ** 2), (0, 1, 2, 3)))
    rows = list(map(jnp.asarray, rows))
    return lambda: jax.block_until_ready(f(*rows))
