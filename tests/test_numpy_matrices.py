"""rune.linalg, rune.logsumexp and its kin: SciPy's results, on plain arrays and under every transformation."""

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import rune
from rune import linalg

rng = np.random.default_rng(0)
q = rng.standard_normal((4, 4))
p = q @ q.T + np.eye(4)
b = rng.standard_normal((4, 2))
x = rng.standard_normal(5)
z = rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3))

CASES = {
    "cho_solve": (lambda l, a, b: l.cho_solve(l.cho_factor(a), b), (p, b)),
    "cho_solve_lower": (lambda l, a, b: l.cho_solve(l.cho_factor(a, lower=True), b), (p, b[:, 0])),
    "cho_solve_complex": (lambda l, a: np.real(l.cho_solve(l.cho_factor(a @ a.conj().T), a)), (z,)),
    "triangular": (lambda l, a, b: l.solve_triangular(a, b), (p, b)),
    "triangular_transposed": (lambda l, a, b: l.solve_triangular(a, b, trans=1, lower=True), (p, b)),
    "triangular_unit": (
        lambda l, a, b: l.solve_triangular(a, b, lower=True, unit_diagonal=True),
        (q, b[:, 0]),
    ),
    **{
        f"solve {kind} {lower} {turned}": (
            lambda l, a, b, k=kind, lo=lower, t=turned: np.real(
                l.solve(a, b, lower=lo, assume_a=k, transposed=t)
            ),
            (p + 0.1 * q if kind == "gen" else p, b),
        )
        for kind in ("gen", "pos", "sym", "her", "upper triangular", "lower triangular")
        for lower, turned in ((False, False), (True, False), (False, True))
    },
    "solve complex symmetric": (
        lambda l, a, b: np.real(l.solve(a + 1j * np.ones_like(a), b, assume_a="sym")),
        (p, b),
    ),
    "solve a vector": (lambda l, a, b: l.solve(a, b[:, 0], assume_a="pos"), (p, b)),
    **{
        f"solve_banded {bounds}": (lambda l, a, b, w=bounds: l.solve_banded(w, a[: sum(w) + 1], b), (p, b))
        for bounds in ((1, 1), (2, 1), (0, 3), (3, 0), (0, 0))
    },
    "solve_banded a vector": (lambda l, a, b: l.solve_banded((1, 1), a[:3], b[:, 0]), (p, b)),
    "solve_banded stacked": (lambda l, a, b: l.solve_banded((1, 1), np.stack([a[:3], a[1:]]), b), (p, b)),
    "solve_banded complex": (lambda l, a, b: np.real(l.solve_banded((1, 1), a, b[:3] * (1 + 1j))), (z, b)),
    "solve_banded large": (
        lambda l, a: l.solve_banded((1, 2), np.tile(a, (1, 10)) + [[0], [0], [9], [0]], np.arange(40.0)),
        (q,),
    ),
    **{
        f"solveh_banded {w} {lower}": (
            lambda l, a, b, w=w, lo=lower: l.solveh_banded(
                np.tile(a[:w] / 9, (1, 3)) + (np.arange(w) == (0 if lo else w - 1))[:, None] * 5,
                np.tile(b, (3, 1)),
                lower=lo,
            ),
            (q, b),
        )
        for w in (1, 2, 3)
        for lower in (True, False)
    },
    "solveh_banded complex": (
        lambda l, a: np.real(
            l.solveh_banded(a / 9 + 5 * np.eye(3)[:1].T, a[0], lower=True)
            + l.solveh_banded(a / 9 + 5 * np.eye(3)[2:].T, a[1])
        ),
        (z,),
    ),
    "solve_sylvester": (lambda l, a, b, x: l.solve_sylvester(a, b[:2], np.outer(a[0], x)), (q, b, x[:2])),
    "solve_sylvester stacked": (lambda l, a, b: l.solve_sylvester(np.stack([a, a.T]), b[:2], b), (q, b)),
    "solve_sylvester complex": (lambda l, a: np.real(l.solve_sylvester(a, a @ a, a[0] * a)), (z,)),
    "solve_sylvester large": (
        lambda l, a: l.solve_sylvester(
            np.diag(np.arange(70.0)) + np.pad(a, (0, 66)), a + 9 * np.eye(4), np.ones((70, 4))
        ),
        (q,),
    ),
    **{
        f"lyapunov {name} {method}": (
            lambda l, a, b, m=method: np.real(l.solve_discrete_lyapunov(a, b, m)),
            args,
        )
        for method in (None, "direct", "bilinear")
        for name, args in {"real": (q, p), "complex": (z / 3, z), "stacked": (np.stack([q, q.T]), p)}.items()
    },
    "lyapunov": (lambda l, a, b: l.solve_continuous_lyapunov(a, b), (q, p)),
    "lyapunov complex": (lambda l, a: np.real(l.solve_continuous_lyapunov(a, a @ a)), (z,)),
    "lyapunov large": (
        lambda l, x: l.solve_discrete_lyapunov(l.toeplitz(np.tile(x, 2) / 9), np.eye(10)),
        (x,),
    ),
    "expm": (lambda l, a: l.expm(a), (q,)),
    "expm_large": (lambda l, a: l.expm(a * 10), (q,)),
    "expm_small": (lambda l, a: l.expm(a * 0.01), (q,)),
    "expm_batch": (lambda l, a: l.expm(a), (np.stack([q, q.T * 5]),)),
    "block_diag": (lambda l, a, b: l.block_diag(a, b, b[0]), (p, b)),
    "block_diag_stacked": (lambda l, a, b: l.block_diag(np.stack([a, a.T]), b, b[0, 0]), (p, b)),
    "circulant": (lambda l, x: l.circulant(x), (x,)),
    "circulant_stacked": (lambda l, a: l.circulant(a), (p[:3],)),
    "circulant_number": (lambda l, x: l.circulant(x[1]), (x,)),
    "hankel": (lambda l, x: l.hankel(x), (x,)),
    "hankel_row": (lambda l, x: l.hankel(x[:4], x[1:] * 2), (x,)),
    "toeplitz_stacked": (lambda l, a, x: l.toeplitz(a, x), (p[:3], x)),
    "toeplitz": (lambda l, x: l.toeplitz(x), (x,)),
    "toeplitz_row": (lambda l, x: l.toeplitz(x, x[:3] * 2), (x,)),
}


@pytest.mark.parametrize("f, args", CASES.values(), ids=CASES)
def test_scipys_results_and_their_derivatives(f, args):
    want = f(scipy.linalg, *args)
    ours = lambda *args: f(linalg, *args)
    close = dict(rtol=1e-9, atol=1e-12 * np.abs(want).max())
    np.testing.assert_array_equal(ours(*args), want)
    np.testing.assert_allclose(rune.jit(ours)(*args), want, **close)
    lanes = [np.stack([v, v * 1.01]) for v in args]
    each = np.stack([f(scipy.linalg, *(v[k] for v in lanes)) for k in range(2)])
    np.testing.assert_allclose(rune.vmap(ours)(*lanes), each, **close)
    weight = rng.standard_normal(want.shape)
    directions = [rng.standard_normal(v.shape) for v in args]
    total = lambda l: lambda *args: np.sum(weight * f(l, *args))
    ends = [total(scipy.linalg)(*(v + h * d for v, d in zip(args, directions))) for h in (1e-6, -1e-6)]
    every = tuple(range(len(args)))
    for gradient in (rune.grad(total(linalg), every), rune.jit(rune.grad(total(linalg), every))):
        got = sum(np.sum(g * d).real for g, d in zip(gradient(*args), directions))
        np.testing.assert_allclose(got, (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-6 * np.abs(want).max())


def test_a_matrix_that_is_not_positive_definite():
    with pytest.raises(np.linalg.LinAlgError):
        rune.jit(lambda a: linalg.cho_factor(a)[0])(-p)


def test_systems_of_bands_that_have_no_solution():
    ab = np.ones((3, 4))
    ab[1:] = 0
    for f in (rune.jit, lambda f: lambda ab: rune.linearize(f, ab)[0]):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            f(lambda ab: linalg.solve_banded((1, 1), ab, b))(ab)
    either = lambda ab: rune.cond(
        ab[1, 0] > 0, lambda ab: linalg.solve_banded((1, 1), ab, b), lambda ab: b, ab
    )
    x = rune.vmap(either)(np.stack([ab, p[:3]]))  # the lane that does not solve does not fail
    np.testing.assert_allclose(x, np.stack([b, scipy.linalg.solve_banded((1, 1), p[:3], b)]))
    with pytest.raises(
        ValueError, match=r"rune\.linalg\.solve_banded: ab has 3 diagonals, l_and_u \(2, 1\) makes 4"
    ):
        rune.jit(lambda ab: linalg.solve_banded((2, 1), ab, b))(ab)
    with pytest.raises(ValueError, match=r"rune\.linalg\.solve_banded: ab has 4 columns, b shape \(3, 2\)"):
        rune.jit(lambda ab: linalg.solve_banded((1, 1), ab, b[:3]))(ab)


@pytest.mark.parametrize("lower", [True, False])
def test_bands_of_a_matrix_that_is_not_positive_definite(lower):
    f = lambda ab: linalg.solveh_banded(ab, b, lower=lower)
    for g in (rune.jit(f), rune.jit(rune.vmap(f)), lambda ab: rune.linearize(f, ab)[0]):
        with pytest.raises(np.linalg.LinAlgError):
            g(-np.ones((2, 2, 4)))
    with pytest.raises(ValueError, match=r"rune\.linalg\.solveh_banded: ab has 4 columns, b shape \(3, 2\)"):
        rune.jit(lambda ab: linalg.solveh_banded(ab, b[:3]))(np.ones((2, 4)))


def test_hankel_matrices_come_of_vectors():
    with pytest.raises(ValueError, match=r"rune\.linalg\.hankel: r: shape \[4, 4\], one axis is needed"):
        rune.jit(linalg.hankel)(p[0], p)


def test_scipys_own_functions_name_the_replacement():
    calls = {name: lambda f, a: f(a, b) for name in linalg.__all__ if name.startswith("solve")}
    calls |= {
        "cho_solve": lambda f, a: f((a, True), b),
        "lu_solve": lambda f, a: f((a, np.arange(4)), b),
        "solve_banded": lambda f, a: f((1, 2), a, b),
        "solve_sylvester": lambda f, a: f(a, a, a),
        "solve_continuous_lyapunov": lambda f, a: f(a, a),
        "solve_discrete_lyapunov": lambda f, a: f(a, a),
    }
    for name in linalg.__all__:
        if name == "block_diag":
            continue  # it is made of NumPy's functions
        call = calls.get(name, lambda f, a: f(a))
        with pytest.raises(rune.TracedValueError, match=rf"rune\.linalg\.{name}"):
            rune.jit(lambda a: call(getattr(scipy.linalg, name), a))(p)


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax"])
def test_sums_of_exponentials(name):
    ours, scipys = getattr(rune, name), getattr(scipy.special, name)
    for x in (
        np.array([[0.1, 900.0, -3.0], [1.0, 2.0, 2.0]]),
        np.array([-np.inf, 1.0]),
        np.float32([1.0, 2.0]),
    ):
        for axis in (None, -1, 0):
            want = scipys(x, axis=axis)
            got = rune.jit(lambda x: ours(x, axis))(x)
            assert np.asarray(got).dtype == np.asarray(want).dtype
            np.testing.assert_allclose(got, want, rtol=1e-6 if x.dtype == np.float32 else 1e-13)
            np.testing.assert_allclose(ours(x, axis=axis), want)
    with pytest.raises(rune.TracedValueError, match=rf"rune\.{name}"):
        rune.jit(scipys)(np.ones(3))


def test_weighted_sums_of_exponentials():
    weights, x = np.array([1.0, -2.0, 0.0]), np.array([0.3, 2.0, 5.0])
    got = rune.jit(lambda x: rune.logsumexp(x, b=weights, return_sign=True))(x)
    np.testing.assert_allclose(got, scipy.special.logsumexp(x, b=weights, return_sign=True))


def cofactors(a):
    n = len(a)
    minor = lambda i, j: (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1))
    return np.array([[minor(i, j) for j in range(n)] for i in range(n)])


@pytest.mark.parametrize("n", [3, 4, 6, 30])
def test_determinants_of_singular_matrices_differentiate(n):
    """The derivative of the determinant is the cofactor matrix, also where there is no inverse.

    So it is where a pivot before the last is 0: in a matrix of whole numbers, in one with columns of zeros.
    """
    gradient = rune.grad(lambda a: np.linalg.det(a).real)
    compiled = rune.jit(gradient)
    for lost in range(min(n, 4) + 1):
        spread = rng.standard_normal((n, n - lost)) @ rng.standard_normal((n - lost, n)) / np.sqrt(n)
        whole = np.diag([1.0] * (n - lost) + [0.0] * lost)
        first = np.diag([0.0] * lost + [1.0] * (n - lost))
        numbers = np.round(2 * spread)
        numbers[:, n - lost :] = 0
        for a in (spread, whole, first, numbers, spread + 1j * whole):
            want, sizes = cofactors(a), np.linalg.svdvals(a)
            close = dict(rtol=1e-7, atol=1e-9 * np.prod(sizes[sizes > 1e-9]))
            np.testing.assert_allclose(gradient(a), want, **close)
            np.testing.assert_allclose(compiled(a), want, **close)


@pytest.mark.parametrize("lost", [0, 1, 2, 3, 4])
def test_higher_derivatives_of_determinants(lost):
    """Along a line the determinant is a polynomial: its derivatives are those of a fit."""
    n = 5
    a = rng.standard_normal((n, n - lost)) @ rng.standard_normal((n - lost, n))
    d = rng.standard_normal((n, n))
    f = lambda t: np.linalg.det(a + t * d)
    t = np.cos(np.pi * (np.arange(n + 1) + 0.5) / (n + 1))
    fit = np.polynomial.Polynomial.fit(t, [f(s) for s in t], n, domain=[-1, 1], window=[-1, 1])
    scale = np.abs(fit.coef).max()
    for transform in (lambda f: f, rune.jit):
        g = f
        for order in range(1, 4):
            g = rune.grad(g) if order % 2 else rune.jacfwd(g)
            np.testing.assert_allclose(transform(g)(0.0), fit.deriv(order)(0.0), atol=1e-9 * scale)


def test_logarithms_of_determinants():
    for a in (q, z, np.stack([q, 2 * p])):
        n = a.shape[-1]
        gradient = lambda a: np.sum(np.linalg.slogdet(a)[1])
        for apply in (rune.grad(gradient), rune.jit(rune.grad(gradient))):
            np.testing.assert_allclose(apply(a), np.swapaxes(np.linalg.inv(a), -1, -2), rtol=1e-9)
        along = rng.standard_normal(a.shape)
        sign = lambda t: np.linalg.slogdet(a + t * along)[0]
        slope = (sign(1e-6) - sign(-1e-6)) / 2e-6
        np.testing.assert_allclose(rune.jit(rune.jacfwd(sign))(0.0), slope, atol=1e-7 * n)
