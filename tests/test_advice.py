"""What a call that cannot take traced values says to write instead, and that this gives NumPy's result."""

import math

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.special
import scipy.stats

import rune

X = np.array([0.5, 1.5, 2.5])
GENERATOR = np.random.default_rng(0)

# What is written, the advice, and what is written by it.
INSTEAD = {
    "array": (lambda x: np.array([x[0], x[1]]), "np.array([a, b], like=x)", lambda x: np.array([x[0], x[1]], like=x)),
    "array, stacked": (lambda x: np.array([x, x]), "np.stack([a, b])", lambda x: np.stack([x, x])),
    "over several lines": (
        lambda x: np.array(
            [
                x[0],
                x[1],
            ]
        ),
        "np.array([a, b], like=x)",
        lambda x: np.array([x[0], x[1]], like=x),
    ),
    "asarray": (lambda x: np.asarray(x) * 2, "rune.asarray(x)", lambda x: rune.asarray(x) * 2),
    "asarray of a list": (lambda x: np.asarray([x[0], 2]), "rune.asarray(x)", lambda x: rune.asarray([x[0], 2])),
    "mean": (lambda x: np.mean([x[0], x[1]]), "np.mean(np.stack(list))", lambda x: np.mean(np.stack([x[0], x[1]]))),
    "sum": (lambda x: np.sum([v for v in x if True]), "np.sum(np.stack(list))", lambda x: np.sum(np.stack(list(x)))),
    "a ufunc": (lambda x: np.sin([x[0]]), "np.sin(np.stack(list))", lambda x: np.sin(np.stack([x[0]]))),
    "det": (
        lambda x: np.linalg.det([[x[0], 0.0], [0.0, x[1]]]),
        "np.linalg.det(np.stack(list))",
        lambda x: np.linalg.det(np.array([[x[0], 0.0], [0.0, x[1]]], like=x)),
    ),
    "r_": (lambda x: np.r_[x, 1.0], "np.hstack([a, b])", lambda x: np.hstack([x, 1.0])),
    "c_": (lambda x: np.c_[x, x], "np.column_stack([a, b])", lambda x: np.column_stack([x, x])),
    "full": (lambda x: np.full(2, x[0]), "np.full(n, x, like=x)", lambda x: np.full(2, x[0], like=x)),
    "full_like": (
        lambda x: np.full_like(np.ones(2), x[0]),
        "np.full(plain.shape, x, like=x)",
        lambda x: np.full((2,), x[0], like=x),
    ),
    "arange": (
        lambda x: np.arange(x[0], x[0] + 3),
        "start + step * np.arange(n)",
        lambda x: x[0] + np.arange(3),
    ),
    "vectorize": (lambda x: np.vectorize(lambda v: v * v)(x), "rune.vmap(f)(x)", lambda x: rune.vmap(lambda v: v * v)(x)),
    "ndenumerate": (
        lambda x: sum(v * i[0] for i, v in np.ndenumerate(x)),
        "((i, x[i]) for i in np.ndindex(x.shape))",
        lambda x: sum(v * i[0] for i, v in ((i, x[i]) for i in np.ndindex(x.shape))),
    ),
    "Polynomial": (
        lambda x: np.polynomial.Polynomial(x)(0.5),
        "np.polyval(c[::-1], x)",
        lambda x: np.polyval(x[::-1], 0.5),
    ),
    "take": (
        lambda x: np.take(np.arange(9.0), x.astype(int)),
        "np.take(rune.asarray(plain), i)",
        lambda x: np.take(rune.asarray(np.arange(9.0)), x.astype(int)),
    ),
    "solve": (
        lambda x: scipy.linalg.solve(np.diag(x), x),
        "rune.linalg.solve",
        lambda x: rune.linalg.solve(np.diag(x), x),
    ),
    "another of SciPy": (
        lambda x: scipy.linalg.sqrtm(np.diag(x)),
        "rune.callback",
        lambda x: rune.callback(lambda a: scipy.linalg.sqrtm(a), np.zeros((3, 3)), np.diag(rune.detach(x))),
    ),
    "a solver of SciPy": (
        lambda x: scipy.optimize.brentq(lambda t: t**3 - x[0], 0.0, 2.0),
        "rune.root",
        lambda x: rune.root(
            lambda t: t**3 - x[0],
            lambda: rune.callback(lambda a: np.float64(scipy.optimize.brentq(lambda t: t**3 - a, 0, 2, xtol=1e-15)), 0.0, rune.detach(x[0])),
        ),
    ),
    "logpdf": (
        lambda x: scipy.stats.norm.logpdf(x),
        "scipy.special (gammaln, ndtr, log_ndtr, xlogy)",
        lambda x: -(x**2) / 2 - np.log(2 * np.pi) / 2,
    ),
    "pmf": (
        lambda x: scipy.stats.poisson.pmf(2, x),
        "scipy.special (gammaln, ndtr, log_ndtr, xlogy)",
        lambda x: np.exp(scipy.special.xlogy(2, x) - x - scipy.special.gammaln(3)),
    ),
    "array2string": (lambda x: (np.array2string(x), x)[1], "write str(x)", lambda x: (str(x), x)[1]),
    "unique": (
        lambda x: np.sum(np.unique(np.round(x))),
        "np.diff(s) != 0",
        lambda x: (s := np.sort(np.round(x)))[0] + np.sum(s[1:], where=np.diff(s) != 0),
    ),
    "nonzero": (
        lambda x: np.sum(x[np.nonzero(x > 1)]),
        "a reduction with where=mask",
        lambda x: np.sum(x, where=x > 1),
    ),
    "a scalar type": (lambda x: np.float32(x), "x.astype(np.float32)", lambda x: x.astype(np.float32)),
    "fromiter": (
        lambda x: np.fromiter((v for v in x), float),
        "np.fromiter(items, float, like=x)",
        lambda x: np.fromiter((v for v in x), float, like=x),
    ),
    "math.sin": (lambda x: math.sin(x[0]), "np.sin", lambda x: np.sin(x[0])),
    "math.lgamma": (lambda x: math.lgamma(x[0]), "scipy.special.gammaln", lambda x: scipy.special.gammaln(x[0])),
    "logsumexp": (scipy.special.logsumexp, "rune.logsumexp(x)", rune.logsumexp),
    "expm": (lambda x: scipy.linalg.expm(np.diag(x)), "rune.linalg.expm", lambda x: rune.linalg.expm(np.diag(x))),
    "max": (lambda x: max(x), "np.max(x)", np.max),
    "min of two": (lambda x: min(x[0], x[1]), "np.minimum(x, y)", lambda x: np.minimum(x[0], x[1])),
    "sorted": (lambda x: sorted(x)[0], "np.sort(x)", lambda x: np.sort(x)[0]),
    "any": (lambda x: x * any(x > 1), "np.any(x)", lambda x: x * np.any(x > 1)),
    "format": (lambda x: (f"{x[0]:.3f}", x)[1], "f'{x}'", lambda x: (f"{x[0]}", x)[1]),
}  # fmt: skip


def refused(f, x=X):
    """The refusal that `f` meets under jit, which NumPy may have wrapped."""
    with pytest.raises(ValueError) as raised:
        rune.jit(f)(x)
    error = raised.value
    return error if isinstance(error, rune.TracedValueError) else error.__cause__


@pytest.mark.parametrize("name", INSTEAD)
def test_the_advice_for_a_call_gives_what_numpy_gives(name):
    written, advice, better = INSTEAD[name]
    error = refused(written)
    assert isinstance(error, rune.TracedValueError)
    last = str(error).rpartition("; ")[2]
    assert advice in last
    assert "write into rune.asarray(plain)" not in str(
        error
    )  # what is known of the call stands for the general
    np.testing.assert_allclose(better(X), written(X), rtol=1e-14)  # and outside every transformation
    for way in (rune.jit(better), lambda x: rune.jvp(better, (x,), (x,))[0]):
        np.testing.assert_allclose(way(X), written(X), rtol=1e-14)


NUMBERS = np.array([0.5, -1.5, 2.0, 4.0])
MASKED = dict.fromkeys(("all", "any", "mean", "prod", "std", "sum", "var"), "") | {
    "max": ", initial=-np.inf",
    "min": ", initial=np.inf",
}


@pytest.mark.parametrize("name", MASKED)
def test_a_reduction_of_what_a_mask_selects_is_sent_to_the_reduction_that_takes_the_mask(name):
    by_function = lambda x: getattr(np, name)(x[x > 0])
    by_method = lambda x: getattr(x[x > 0], name)()
    advice = f"np.{name}(x, where=mask{MASKED[name]})"
    better = eval(f"lambda x, mask: {advice}", {"np": np})
    for written in (by_function, by_method):
        assert str(refused(written, NUMBERS)).endswith(f"write {advice}")
        np.testing.assert_allclose(
            rune.jit(lambda x: better(x, x > 0))(NUMBERS), written(NUMBERS), rtol=1e-14
        )
    if name in ("all", "any"):
        return
    by_mask = rune.jit(rune.grad(lambda x: better(x, x > 0)))(NUMBERS)
    np.testing.assert_allclose(by_mask, rune.grad(by_function)(NUMBERS), rtol=1e-14)


GENERAL = {
    "an operand": lambda x: np.ones(2) * [x[0], x[1]],
    "a method": lambda x: np.ones((2, 2)).dot([x[0], x[1]]),
    "an element of a call": lambda x: np.zeros(3)[x[0].astype(int)],
    "an iterator": lambda x: np.nditer(x),
    "a number": lambda x: float(x[0]),
    "a branch": lambda x: x if x[0] > 0 else -x,
}


@pytest.mark.parametrize("name", GENERAL)
def test_a_call_beside_the_one_refused_gives_no_advice(name):
    assert "; for " not in str(refused(GENERAL[name]))


def test_code_without_a_source_is_refused_in_general():
    scope = {"np": np}
    exec("f = lambda x: np.array([x[0], x[1]])", scope)
    assert "; for " not in str(refused(scope["f"]))
    assert "np.stack" in str(refused(scope["f"]))


@pytest.mark.parametrize("draw", [lambda x: np.random.normal(x[0]), lambda x: GENERATOR.normal(x[0])])
def test_a_draw_is_sent_to_runes_generators(draw):
    assert "write rune.random, as rune.random.normal(key, ...)" in str(refused(draw))
