"""A tridiagonal solve by two scans, 100,000 rows."""

import numpy as np

TOLERANCE = 1e-9


def data(scale=1):
    rng = np.random.default_rng(0)
    n = 100_000 * scale
    return rng.random(n), 4 + rng.random(n), rng.random(n), rng.random(n)


def solve(a, b, c, d, scan):
    def forward(carry, row):
        cp, dp = carry
        a, b, c, d = row
        den = b - a * cp
        out = (c / den, (d - a * dp) / den)
        return out, out

    def backward(x, row):
        cp, dp = row
        x = dp - cp * x
        return x, x

    _, rows = scan(forward, (0.0, 0.0), (a, b, c, d))
    return scan(backward, 0.0, rows, reverse=True)[1]


def with_rune(*rows):
    import rune

    f = rune.jit(lambda *rows: solve(*rows, rune.scan))
    return lambda: f(*rows)


def with_jax(*rows):
    import jax
    import jax.numpy as jnp

    f, rows = jax.jit(lambda *rows: solve(*rows, jax.lax.scan)), list(map(jnp.asarray, rows))
    return lambda: jax.block_until_ready(f(*rows))
