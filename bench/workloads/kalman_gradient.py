"""The gradient of a Kalman filter's likelihood by its process noise: 4 states, 2 observations, 1,000 steps."""

import numpy as np

TOLERANCE = 1e-9


def data(scale=1):
    rng = np.random.default_rng(0)
    A = np.eye(4) + 0.01 * rng.standard_normal((4, 4))
    return 0.1, rng.standard_normal((1000 * scale, 2)), A, rng.standard_normal((2, 4))


def likelihood(q, ys, A, H, np, scan):
    Q, R = np.eye(4) * q, np.eye(2)

    def step(carry, y):
        x, P = carry
        x = A @ x
        P = A @ P @ A.T + Q
        S = H @ P @ H.T + R
        e = y - H @ x
        K = np.linalg.solve(S, H @ P).T
        ll = -0.5 * (e @ np.linalg.solve(S, e) + np.linalg.slogdet(S)[1])
        return (x + K @ e, P - K @ H @ P), ll

    _, ll = scan(step, (np.zeros(4), np.eye(4)), ys)
    return np.sum(ll)


def with_rune(q, ys, A, H):
    import rune

    f = rune.jit(rune.grad(lambda q, ys: likelihood(q, ys, A, H, np, rune.scan)))
    return lambda: f(q, ys)


def with_jax(q, ys, A, H):
    import jax
    import jax.numpy as jnp

    A, H, ys = jnp.asarray(A), jnp.asarray(H), jnp.asarray(ys)
    f = jax.jit(jax.grad(lambda q, ys: likelihood(q, ys, A, H, jnp, jax.lax.scan)))
    return lambda: jax.block_until_ready(f(q, ys))
