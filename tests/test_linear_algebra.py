"""numpy.linalg: every keyword, dtype and shape with NumPy's results, and derivatives of functions that do not
depend on what a factorisation may choose."""

import numpy as np
import pytest

import rune
from rune import linalg

L = np.linalg
rng = np.random.default_rng(8)
SQUARE = [(2, 3, 3), (0, 0), (0, 3, 3)]
WIDE = [(3, 4), (2, 4, 3), (3, 0)]
LARGE = [(2, 5, 9), (9, 5), (30, 26)]  # as loops, and by LAPACK
DTYPES = [np.float64, np.float32, np.complex64, np.int64]
H = lambda a: np.conj(np.swapaxes(a, -1, -2))
apart = lambda a: (
    a + np.sin(np.arange(a.size, dtype=np.float32)).reshape(a.shape)
)  # of equal pivots any may be taken
definite = lambda a: a @ H(a) + 2 * np.eye(a.shape[-1], dtype=a.dtype)


def numbers(shape, dtype):
    x = 2 * rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


VALUES = {
    "svd hermitian": (lambda a: (L.svd(definite(a), hermitian=True).S, L.svd(definite(a), False, False, True)), SQUARE),
    "svd indefinite": (lambda a: (lambda f: (f.U * f.S[..., None, :]) @ f.Vh)(L.svd(a + H(a), hermitian=True)), SQUARE),
    "pinv": (lambda a: L.pinv(a), SQUARE + WIDE),
    "pinv hermitian": (lambda a: L.pinv(definite(a), hermitian=True), SQUARE),
    "pinv of a triangle": (lambda a: L.pinv(definite(a) + np.triu(a, 1), hermitian=True), SQUARE),
    "pinv rtol": (lambda a: L.pinv(a, rtol=0.3), SQUARE + WIDE),
    "rank": (lambda a: L.matrix_rank(a), SQUARE + WIDE),
    "columns along an axis": (lambda a: np.take_along_axis(a, np.zeros((1,) * a.ndim, int), -1), SQUARE),
    "rank tolerances": (lambda a: L.matrix_rank(a, np.full(a.shape[:-2], 0.5)), SQUARE + WIDE),
    "rank hermitian": (lambda a: L.matrix_rank(np.ones_like(a) + np.triu(a, 1), hermitian=True), SQUARE),
    "rank rtol": (lambda a: L.matrix_rank(a, rtol=0.2), SQUARE + WIDE),
    "norm 2": (lambda a: L.norm(a, 2, (-2, -1)), SQUARE + WIDE),
    **{f"cond {p}": (lambda a, p=p: L.cond(a, p), SQUARE) for p in (None, 1, -1, 2, -2, np.inf, -np.inf, "fro")},
    **{
        f"norm {p}": (lambda a, p=p: L.vector_norm(a, ord=p, axis=-1, keepdims=True), SQUARE + WIDE)
        for p in (0, 1, -1, 2, -2, 3, 0.5, np.inf)
    },
    "lu": (lambda a: linalg.lu(apart(a))[1:], SQUARE + WIDE + LARGE),
    "lu permuted": (lambda a: linalg.lu(apart(a), permute_l=True), WIDE),
    "lu permutation": (lambda a: linalg.lu(apart(a))[0], SQUARE[:2] + WIDE[:2]),
    "lu order": (lambda a: linalg.lu(apart(a), p_indices=True)[0], SQUARE[:2] + WIDE[:2]),
    "lu_factor": (lambda a: tuple(linalg.lu_factor(apart(a))), [(2, 3, 3), *WIDE[:2], *LARGE]),
    **{
        f"lu_solve {t}": (lambda a, t=t: linalg.lu_solve(linalg.lu_factor(apart(a)), a[..., :1] + 1, t), [(2, 3, 3), (30, 30)])
        for t in (0, 1, 2)
    },
    "solve_banded": (lambda a: linalg.solve_banded((2, 0), a + 20 * np.eye(3, 1, dtype=np.int8), a[..., :1, :].swapaxes(-1, -2) + 1), [(3, 4), (2, 3, 9)]),
    "solve_sylvester": (lambda a: linalg.solve_sylvester(definite(a), definite(a)[..., :1, :1], a[..., :1]), [(3, 3), (2, 4, 4), (26, 26)]),
    "lstsq": (lambda a: L.lstsq(a, a[:, :1])[::2], [(5, 3), (3, 3), (3, 5)]),
    "lstsq rcond": (lambda a: L.lstsq(a, a[:, 0] + 1, rcond=0.4)[::3], [(5, 3), (3, 3), (3, 5)]),
}  # fmt: skip


def leaves(x):
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.filterwarnings("ignore:Diagonal number .* is exactly zero")
@pytest.mark.parametrize("name", VALUES)
def test_values_are_numpys(name):
    f, shapes = VALUES[name]
    for dtype in DTYPES:
        for shape in shapes:
            a = numbers(shape, dtype)
            tolerance = (
                dict(rtol=2e-3, atol=2e-3)
                if dtype in (np.float32, np.complex64)
                else dict(rtol=1e-8, atol=1e-9)
            )
            with np.errstate(all="ignore"):
                try:
                    want = leaves(f(a))
                except np.linalg.LinAlgError as error:
                    with pytest.raises(np.linalg.LinAlgError, match=str(error)):
                        rune.jit(f)(a)
                    continue
            for got, w in zip(leaves(rune.jit(f)(a)), want, strict=True):
                assert got.shape == np.shape(w)
                assert got.dtype == w.dtype
                np.testing.assert_allclose(got, w, **tolerance)
            if dtype not in (np.float64, np.complex64):
                continue
            for got, w in zip(leaves(rune.jit(rune.vmap(f))(np.stack([a, a]))), want, strict=True):
                np.testing.assert_allclose(got, np.stack([w, w]), **tolerance)


@pytest.mark.parametrize("p", [None, 1, -1, 2, -2, np.inf, "fro"])
def test_the_condition_of_a_singular_matrix_is_infinite(p):
    stacked = np.stack([np.zeros((2, 2)), np.eye(2), np.full((2, 2), np.nan), np.ones((2, 2))])
    for a in (stacked[:2], stacked[3:]) if p in (None, 2, -2) else (stacked,):
        with np.errstate(all="ignore"):
            want = L.cond(a, p)
        np.testing.assert_array_equal(rune.jit(lambda a: L.cond(a, p))(a) > 1e15, want > 1e15)
        np.testing.assert_array_equal(np.isnan(rune.jit(lambda a: L.cond(a, p))(a)), np.isnan(want))


SMOOTH = {
    "inv": (L.inv, (3, 3)),
    "solve": (lambda a: L.solve(a, a[..., :2] ** 2), (3, 3)),
    "solve stacked": (lambda a: L.solve(a, a[0] ** 2), (2, 3, 3)),
    "solve_banded": (lambda a: linalg.solve_banded((1, 1), a, a[0] ** 2), (3, 4)),
    "solve_banded stacked": (lambda a: linalg.solve_banded((0, 2), a, a[0, :1].T ** 2), (2, 3, 4)),
    "solveh_banded": (lambda a: linalg.solveh_banded(a + 30 * np.eye(3, 1), a[0] ** 2, lower=True), (3, 4)),
    "solveh_banded upper": (lambda a: linalg.solveh_banded(a + 30 * np.eye(2)[1:].T, a[:, 0, :, None] ** 2), (2, 2, 4)),
    "solve_sylvester": (lambda a: linalg.solve_sylvester(a, np.cos(a[:2, :2]), a[:, :2] ** 2), (3, 3)),
    "det": (L.det, (5, 5)),
    "slogdet": (lambda a: L.slogdet(a)[1], (5, 5)),
    "cholesky": (lambda a: L.cholesky(definite(a)), (3, 3)),
    "cholesky upper": (lambda a: L.cholesky(definite(a), upper=True), (3, 3)),
    "eigh": (lambda a: (lambda f: (f[1] * np.sin(f[0])) @ H(f[1]))(L.eigh(a)), (3, 3)),
    "eigh upper": (lambda a: (lambda f: (f[1] * np.sin(f[0])) @ H(f[1]))(L.eigh(a, "U")), (3, 3)),
    "eigvalsh": (L.eigvalsh, (3, 3)),
    "eig": (lambda a: (lambda f: (f[1] * np.sin(f[0])) @ L.inv(f[1]))(L.eig(a)), (3, 3)),
    "eigvals": (lambda a: np.sum(L.eigvals(a) ** 3), (3, 3)),
    "svd": (lambda a: (lambda f: (f[0] * np.sin(f[1])) @ f[2])(L.svd(a, False)), (3, 4)),
    "svd values": (L.svdvals, (4, 3)),
    "svd null space": (lambda a: (lambda f: H(f[2][2:]) @ f[2][2:])(L.svd(a)), (2, 5)),
    "svd complement": (lambda a: (lambda f: f[0][:, 2:] @ H(f[0][:, 2:]))(L.svd(a)), (5, 2)),
    "svd full": (lambda a: (lambda f: (f[0][:, :2] * np.sin(f[1])) @ f[2])(L.svd(a)), (5, 2)),
    "svd hermitian": (lambda a: (lambda f: (f[0] * np.sin(f[1])) @ f[2])(L.svd(a + H(a), hermitian=True)), (3, 3)),
    "qr": (lambda a: (lambda f: f[0] @ np.sin(f[1]))(L.qr(a)), (4, 3)),
    "qr wide": (lambda a: (lambda f: f[0] @ np.sin(f[1]))(L.qr(a)), (3, 4)),
    "qr complete": (lambda a: (lambda f: f[0][:, 2:] @ H(f[0][:, 2:]))(L.qr(a, "complete")), (4, 2)),
    "qr complete factors": (lambda a: (lambda f: f[0][:, :2] @ np.sin(f[1][:2]))(L.qr(a, "complete")), (4, 2)),
    "r": (lambda a: L.qr(a, "r"), (4, 3)),
    "lu": (lambda a: (lambda f: np.sin(f[1]) @ np.cos(f[2]))(linalg.lu(a)), (4, 4)),
    "lu stacked": (lambda a: (lambda f: np.sin(f[0]) @ np.cos(f[1]))(linalg.lu(a, permute_l=True)), (2, 3, 3)),
    "lu tall": (lambda a: (lambda f: np.sin(f[0]) @ np.cos(f[1]))(linalg.lu(a, permute_l=True)), (5, 3)),
    "lu wide": (lambda a: (lambda f: np.sin(f[1]) @ np.cos(f[2]))(linalg.lu(a)), (3, 5)),
    "lu of a column": (lambda a: linalg.lu(a)[1], (4, 1)),
    "lu of a row": (lambda a: linalg.lu(a)[2], (1, 4)),
    **{
        f"lu_solve {t}": (lambda a, t=t: linalg.lu_solve(linalg.lu_factor(a), a[:, :2] ** 2, t), (3, 3))
        for t in (0, 1, 2)
    },
    "pinv": (L.pinv, (4, 3)),
    "pinv wide": (L.pinv, (3, 4)),
    "pinv rank": (lambda a: L.pinv(a[:, :1] @ a[:1], rtol=1e-8), (3, 3)),
    "lstsq": (lambda a: L.lstsq(a, a[:, 0] ** 2)[0], (4, 3)),
    "lstsq wide": (lambda a: L.lstsq(a, a[:, :2] ** 2)[0], (3, 4)),
    "power": (lambda a: L.matrix_power(a, -3), (3, 3)),
    "multi_dot": (lambda a: L.multi_dot([a, a.T, a]), (3, 4)),
    "tensorsolve": (lambda a: L.tensorsolve(a.reshape(2, 2, 4), a[:2, :2]), (4, 4)),
    "tensorinv": (lambda a: L.tensorinv(a.reshape(2, 2, 4)), (4, 4)),
    **{f"norm {p}": (lambda a, p=p: L.norm(a, p, axis=0), (3, 4)) for p in (1, 2, 3, -1, np.inf, 0.5)},
    **{f"matrix norm {p}": (lambda a, p=p: L.matrix_norm(a, ord=p), (2, 3, 3)) for p in ("fro", "nuc", 1, 2, -2)},
    **{f"cond {p}": (lambda a, p=p: L.cond(a, p), (3, 3)) for p in (None, 1, -2, "fro")},
}  # fmt: skip


FACTORISED = ("inv", "solve", "lu", "det", "slogdet", "cholesky", "eig", "svd", "qr", "r", "pinv", "lstsq")
CASES = [(name, np.float64) for name in SMOOTH]
CASES += [(name, np.complex128) for name in SMOOTH if name.startswith(FACTORISED)]


@pytest.mark.parametrize("name, dtype", CASES)
def test_derivatives(name, dtype):
    """Tangents are differences, pullbacks their adjoints, and the second derivative along a line a difference of the first."""
    f, shape = SMOOTH[name]
    a, d = numbers(shape, dtype), numbers(shape, dtype)
    weight = numbers(np.shape(f(a)), np.complex128)
    g = lambda t: np.sum((weight * f(a + t * d)).real)
    h = 1e-5
    slope = (g(h) - g(-h)) / (2 * h)
    close = dict(rtol=1e-5, atol=1e-5 * abs(g(0.0)))
    first = rune.grad(g)
    np.testing.assert_allclose(rune.jvp(g, (0.0,), (1.0,))[1], slope, **close)
    np.testing.assert_allclose(first(0.0), slope, **close)
    bend = (first(h) - first(-h)) / (2 * h)
    close = dict(rtol=1e-4, atol=1e-5 * max(abs(bend), abs(slope)))
    np.testing.assert_allclose(rune.jacfwd(first)(0.0), bend, **close)
    both = rune.jit(rune.vmap(rune.value_and_grad(first)))(np.zeros(2))
    np.testing.assert_allclose(both[0], [first(0.0)] * 2, rtol=1e-8)
    np.testing.assert_allclose(both[1], [bend] * 2, **close)


@pytest.mark.parametrize("n", [3, 8, 30])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_no_number_hangs_or_passes_for_a_result(n, bad):
    """Where an element is not finite, compiled code raises NumPy's kind of error or gives what is not finite."""
    a = numbers((n, n), np.float64)
    a[0, -1] = bad
    asked = [L.eigvals, L.eigvalsh, L.svdvals, L.pinv, L.cholesky, L.slogdet, L.qr, rune.grad(L.det)]
    asked += [linalg.lu_factor, lambda a: linalg.solve_sylvester(a, a, a)]
    for f in asked:
        lower = a.T if f in (L.eigvalsh, L.cholesky) else a  # these read the lower triangle
        try:
            found = rune.jit(f)(lower)
        except np.linalg.LinAlgError:
            continue
        assert not all(np.all(np.isfinite(x)) for x in leaves(found))


def test_lu_of_a_singular_matrix_has_a_derivative_where_the_last_pivot_is_zero():
    """No pivot divides by the last one of a square matrix."""
    a = np.array([[1.0, 2.0], [2.0, 4.0]])
    (_, dl, du), (_, l, u) = (rune.jvp(linalg.lu, (a,), (np.eye(2),))[k] for k in (1, 0))
    np.testing.assert_array_equal(u, [[2.0, 4.0], [0.0, 0.0]])
    # P dA = dL U + L dU, of P dA = [[0, 1], [1, 0]]
    np.testing.assert_allclose(dl @ u + l @ du, [[0.0, 1.0], [1.0, 0.0]])
    gradient = rune.grad(lambda a: linalg.lu(a)[2][1, 1])(a)  # of a01 - a00 a11 / a10
    np.testing.assert_allclose(gradient, [[-2.0, 1.0], [1.0, -0.5]])


def test_plain_factors_solve_for_traced_right_hand_sides():
    factors = linalg.lu_factor(numbers((2, 3, 3), np.float64))
    b = numbers((3,), np.float64)
    want = linalg.lu_solve(factors, b)
    for f in (
        rune.jit(lambda b: linalg.lu_solve(factors, b)),
        lambda b: rune.linearize(lambda b: linalg.lu_solve(factors, b), b)[0],
    ):
        np.testing.assert_allclose(f(b), want)
    back = rune.grad(lambda b: np.sum(linalg.lu_solve(factors, b)))(b)
    np.testing.assert_allclose(back, linalg.lu_solve(factors, np.ones(3), 1).sum(0))


@pytest.mark.parametrize(
    "exchanges, b, trans, error, message",
    [
        (np.arange(3.0), np.ones(3), 0, TypeError, "piv: float64"),
        (np.arange(2), np.ones(3), 0, ValueError, r"piv has shape \(2,\), lu \(3, 3\)"),
        (np.arange(3), np.ones(4), 0, ValueError, r"lu has shape \(3, 3\), b \(4,\)"),
        (np.arange(3), np.ones(3), "T", ValueError, "trans is 'T': use 0, 1"),
        (np.array([1, 3, 2]), np.ones(3), 0, IndexError, "index 3 is out of bounds"),
    ],
)
def test_what_lu_solve_may_not_be_given(exchanges, b, trans, error, message):
    for f in (rune.jit, rune.vmap, lambda f: lambda b: rune.grad(lambda b: np.sum(f(b)))(b)):
        lanes = b[None] if f is rune.vmap else b
        with pytest.raises(error, match=message):
            f(lambda b: linalg.lu_solve((np.eye(3), exchanges), b, trans))(lanes)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
@pytest.mark.parametrize("n", [3, 8, 30])
def test_cholesky_of_what_is_not_finite_is_numpys(n, dtype):
    """NumPy raises where a pivot is not positive, and NaN is a result."""
    compiled = rune.jit(L.cholesky)
    for at in [(0, 0), (n - 1, n - 1), (2, 1), (n - 1, 0)]:
        for bad in (np.nan, np.inf, -np.inf):
            a = definite(numbers((n, n), dtype))
            a[at] = bad
            with np.errstate(all="ignore"):
                try:
                    want = L.cholesky(a)
                except np.linalg.LinAlgError as error:
                    with pytest.raises(np.linalg.LinAlgError, match=str(error)):
                        compiled(a)
                    continue
            np.testing.assert_array_equal(np.isfinite(compiled(a)), np.isfinite(want))
