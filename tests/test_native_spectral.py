"""LAPACK's factorisations in compiled code: NumPy's own results, signs and all, and NumPy's errors."""

import numpy as np
import pytest

import rune

rng = np.random.default_rng(4)


def matrices(shape, dtype):
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


FACTORS = {
    "eigh": (lambda a: tuple(np.linalg.eigh(a)), True),
    "eigh_upper": (lambda a: tuple(np.linalg.eigh(a, "U")), True),
    "eig": (lambda a: tuple(np.asarray(x, np.result_type(x, np.complex64)) for x in np.linalg.eig(a)), True),
    "svd": (lambda a: tuple(np.linalg.svd(a, full_matrices=False)), False),
    "svd_full": (lambda a: tuple(np.linalg.svd(a)), False),
    "svd_values": (lambda a: (np.linalg.svd(a, compute_uv=False),), False),
    "qr": (lambda a: tuple(np.linalg.qr(a)), False),
    "qr_complete": (lambda a: tuple(np.linalg.qr(a, "complete")), False),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.complex64])
@pytest.mark.parametrize("name", FACTORS)
def test_factors_are_numpys(name, dtype):
    f, square = FACTORS[name]
    traced = {"eig": lambda a: tuple(np.linalg.eig(a))}.get(name, f)
    single = np.dtype(dtype).itemsize in (4,) or dtype == np.complex64
    shapes = [(1, 1), (3, 3), (2, 4, 4), (40, 40), (0, 3, 3)]
    if not square:
        shapes += [(5, 3), (3, 5), (30, 50), (2, 50, 30)]
    for shape in shapes:
        a = matrices(shape, dtype)
        for want, got in zip(f(a), rune.jit(traced)(a), strict=True):
            assert got.shape == want.shape and got.dtype == want.dtype
            if single:  # signs are decided by rounding
                got, want = np.sort(np.abs(got), None), np.sort(np.abs(want), None)
            np.testing.assert_allclose(got, want, rtol=0, atol=2e-3 if single else 1e-10)


def test_a_layout_is_read_right():
    a = matrices((6, 6), float)
    for view in (a.T, a[::2, ::2], a[::-1]):
        np.testing.assert_allclose(rune.jit(np.linalg.eigvalsh)(view), np.linalg.eigvalsh(view), atol=1e-12)


def test_in_a_loop():
    a = matrices((5, 4, 4), float)

    def f(a):
        return rune.scan(
            lambda c, m: (c + np.linalg.eigh(m + m.T)[1] @ c, np.linalg.svd(m)[1]), np.ones(4), a
        )

    for got, want in zip(rune.jit(f)(a), f(a), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)
    L = lambda a: np.sum(f(a)[1] ** 3)
    d = matrices(a.shape, float)
    slope = (L(a + 1e-6 * d) - L(a - 1e-6 * d)) / 2e-6
    np.testing.assert_allclose(np.sum(rune.jit(rune.grad(L))(a) * d), slope, rtol=1e-5)


@pytest.mark.parametrize(
    "f, message",
    [
        (np.linalg.eigvalsh, "Eigenvalues did not converge"),
        (lambda a: np.linalg.svd(a)[1], "SVD did not converge"),
        (np.linalg.eigvals, "Array must not contain infs or NaNs"),
    ],
)
def test_failures_are_numpys(f, message):
    for transform in (rune.jit, lambda f: rune.jit(rune.vmap(f))):
        bad = np.full((3, 3), np.nan)
        with pytest.raises(np.linalg.LinAlgError, match=message):
            transform(f)(bad if transform is rune.jit else bad[None])
    with pytest.raises(np.linalg.LinAlgError, match=r"Eigenvalues did not converge \(in step 2\)"):
        steps = np.stack([np.eye(3), np.eye(3), np.full((3, 3), np.nan)])
        rune.jit(lambda s: rune.scan(lambda c, a: (c, np.linalg.eigvalsh(a)), 0.0, s)[1])(steps)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (0, 3), (2, 3, 0), (2, 0, 3), (0, 4, 3)])
def test_empty_matrices(shape, dtype):
    """What has no elements is not read: factors of empty matrices are identities, and no memory is written."""
    a = np.zeros(shape, dtype)
    for f in (
        lambda a: tuple(np.linalg.qr(a)),
        lambda a: tuple(np.linalg.qr(a, "complete")),
        lambda a: tuple(np.linalg.svd(a)),
        lambda a: tuple(np.linalg.svd(a, False)),
        lambda a: (np.linalg.svdvals(a),),
    ):
        for got, want in zip(rune.jit(f)(a), f(a), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
