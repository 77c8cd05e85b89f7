"""Random keys: the published vectors, one law for every draw, distributions, derivatives, errors."""

import concurrent.futures
import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy import special, stats

import rune
from rune import random
from rune.random import discrete, exact, gaussian
from rune.random.keys import BLOCK, threefry

u32 = np.uint32
KEY = random.key(20)
A23 = np.array([[0.4, 2.0, 9.0], [1.0, 30.0, 0.05]])

# Draws of every kind.
DRAWS = {
    "key": lambda k: random.key(k[0]),
    "split": lambda k: random.split(k, 5),
    "split by default": lambda k: random.split(k),
    "fold_in": lambda k: random.fold_in(k, 5),
    "fold_in, traced": lambda k: random.fold_in(k, k[1]),
    "uniform": lambda k: random.uniform(k, 100),
    "uniform, a scalar": lambda k: random.uniform(k),
    "uniform, empty": lambda k: random.uniform(k, (0, 3)),
    "uniform, two axes": lambda k: random.uniform(k, (20, 100), 0.1, 0.7),
    "uniform, arrays": lambda k: random.uniform(k, (3, 4), 0.1, np.linspace(0.2, 5.0, 4)),
    "uniform, float32": lambda k: random.uniform(k, (50,), 0.1, 0.7, np.float32),
    "uniform, float16": lambda k: random.uniform(k, (50,), dtype=np.float16),
    "normal": lambda k: random.normal(k, (3, 50)),
    "normal, a scalar": lambda k: random.normal(k),
    "normal, float32": lambda k: random.normal(k, (50,), np.float32),
    "truncated_normal": lambda k: random.truncated_normal(k, (50,), -1.0, 3.0),
    "exponential": lambda k: random.exponential(k, (50,), 3.0),
    "laplace": lambda k: random.laplace(k, (50,), 3.0, 2.0),
    "gamma": lambda k: random.gamma(k, (2, 3), A23),
    "gamma, a scalar": lambda k: random.gamma(k, (), 2.5),
    "gamma, empty": lambda k: random.gamma(k, (0,), 2.5),
    "beta": lambda k: random.beta(k, None, A23, 2.0),
    "dirichlet": lambda k: random.dirichlet(k, (4, 2), A23),
    "multivariate_normal": lambda k: random.multivariate_normal(k, (9,), [0.4, 2.0], [[2, 0.5], [0.5, 1]]),
    "multivariate_normal, several": lambda k: random.multivariate_normal(k, (2,), np.zeros(2), np.stack([np.eye(2), 4 * np.eye(2)])),
    "integers": lambda k: random.integers(k, (50,), 0, 7),
    "integers, wide": lambda k: random.integers(k, (50,), -(2**63), 2**62),
    "integers, all": lambda k: random.integers(k, (50,), -(2**63), 2**63),
    "integers, uint8": lambda k: random.integers(k, (50,), 0, 256, np.uint8),
    "integers, arrays": lambda k: random.integers(k, (3, 2), 0, np.array([5, 2**40])),
    "bernoulli": lambda k: random.bernoulli(k, (50,), 0.3),
    "categorical": lambda k: random.categorical(k, (50,), np.log([0.1, 0.2, 0.7])),
    "categorical, many": lambda k: random.categorical(k, (50,), np.zeros(100)),
    "categorical, an axis": lambda k: random.categorical(k, None, np.log(A23), axis=0),
    "permutation": lambda k: random.permutation(k, 30),
    "permutation, rows": lambda k: random.permutation(k, A23),
    "permutation, an axis": lambda k: random.permutation(k, A23, axis=-1),
    "choice": lambda k: random.choice(k, (2, 3), 10),
    "choice, rows": lambda k: random.choice(k, (4,), A23),
    "choice, an axis": lambda k: random.choice(k, (2, 2), A23, axis=1),
    "choice without": lambda k: random.choice(k, (2, 3), np.arange(10.0), replace=False),
    "choice, weights": lambda k: random.choice(k, (2, 3), 7, p=np.arange(7.0) / 21),
    "choice without, weights": lambda k: random.choice(k, (3,), 7, replace=False, p=np.arange(1.0, 8.0) / 28),
    "poisson": lambda k: random.poisson(k, (40,), np.linspace(0.0, 50.0, 40)),
    "poisson, a scalar": lambda k: random.poisson(k, (), 30.0),
}  # fmt: skip

for name, draw in {
    "uniform": lambda k, t: random.uniform(k, (300,), -1.0, np.linspace(0.0, 3.0, 300), t),
    "normal": lambda k, t: random.normal(k, (3000,), t),
    "truncated_normal": lambda k, t: random.truncated_normal(k, (300,), np.linspace(-3, 8, 300), 9.0, t),
    "exponential": lambda k, t: random.exponential(k, (300,), 3.0, t),
    "laplace": lambda k, t: random.laplace(k, (300,), 1.0, 0.3, t),
    "gamma": lambda k, t: random.gamma(k, (300,), np.geomspace(1e-3, 1e4, 300), 2.0, t),
    "beta": lambda k, t: random.beta(k, (300,), 0.5, np.geomspace(1e-2, 1e3, 300), t),
    "dirichlet": lambda k, t: random.dirichlet(k, (100,), np.full(20, 0.7), t),
}.items():
    for t in (np.float16, np.float32, np.float64):
        DRAWS[f"many of {name}, {t.__name__}"] = lambda k, t=t, draw=draw: draw(k, t)

every = pytest.mark.parametrize("name", DRAWS)


def same(name, got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    if "multivariate" in name:  # made with products and a factor of BLAS and LAPACK
        np.testing.assert_allclose(got, want, rtol=1e-12)
    else:
        np.testing.assert_array_equal(got, want)


# The generator


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_the_published_vectors(counter, key, words):
    run = lambda k, c: np.stack(threefry(k[0], k[1], c[0], c[1]))
    for f in (run, rune.jit(run)):
        assert tuple(f(np.array(key, u32), np.array(counter, u32))) == words


def test_a_seed_is_the_key_in_two_words():
    assert random.key(5).tolist() == [0, 5]
    assert random.key((3 << 32) + 5).tolist() == [3, 5]
    assert random.key(-1).tolist() == random.key(np.int32(-1)).tolist() == [2**32 - 1, 2**32 - 1]
    assert random.key(0).dtype == u32
    np.testing.assert_array_equal(rune.jit(random.key)(np.int64(-7)), random.key(-7))


def test_children_are_independent_of_their_number_and_of_what_the_parent_draws():
    np.testing.assert_array_equal(random.split(KEY, 5)[:2], random.split(KEY))
    keys = np.concatenate([random.split(KEY, 1000), [random.fold_in(KEY, k) for k in range(1000)]])
    assert len(np.unique(keys, axis=0)) == 2000
    words = np.stack(threefry(KEY[0], KEY[1], u32(0), np.arange(2000, dtype=u32)), axis=-1)
    assert len(np.unique(np.concatenate([keys, words]), axis=0)) == 4000
    bits = np.unpackbits((keys[:, 0] ^ keys[:, 1]).view(np.uint8))
    assert abs(bits.mean() - 0.5) < 0.01


# What draws are computed with: functions that have one value each


def arguments_of(name, dtype):
    r, limits = np.random.default_rng(1), np.finfo(dtype)
    wide = np.exp(r.uniform(np.log(limits.tiny), np.log(limits.max), 20_000))
    near = r.uniform(0.5, 2.0, 5_000)
    return {
        "log": np.concatenate([wide, near]).astype(dtype),
        "exp": np.concatenate([np.log(wide), near, -near, [0.0, 1e3, -1e3, np.inf, -np.inf, np.nan]]).astype(dtype),
        "probability": np.concatenate([r.uniform(-5, 5, 20_000), [np.inf, -np.inf, np.nan, 0.0, -6.0]]).astype(dtype),
        "quantile": np.concatenate([np.sqrt(wide[wide < 1.0]), near / 2.001, -near / 2.001 + 1]).astype(dtype),
    }[name]  # fmt: skip


EXACT = {
    "log": (exact.log, np.log, 1.0),
    "exp": (exact.exp, np.exp, 1.0),
    "probability": (gaussian.probability, special.ndtr, 60.0),  # SciPy rounds x / sqrt(2): x**2 units
    "quantile": (gaussian.quantile, special.ndtri, 20.0),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", EXACT)
def test_functions_of_draws_are_exact_everywhere(name, dtype):
    f, reference, units = EXACT[name]
    x = arguments_of(name, dtype)
    got = f(x)
    wide = np.float64 if reference in (special.ndtr, special.ndtri) else np.longdouble
    with np.errstate(all="ignore"):
        want = reference(x.astype(wide))
        normal = (np.abs(want) >= np.finfo(dtype).tiny) & (np.abs(want) <= np.finfo(dtype).max)
        assert np.all(np.abs(got - want)[normal] <= units * np.spacing(np.abs(got[normal])))
        np.testing.assert_array_equal(got[~normal], want.astype(dtype)[~normal])
    np.testing.assert_array_equal(rune.jit(f)(x), got)
    np.testing.assert_array_equal(rune.jit(rune.vmap(f))(x), got)
    np.testing.assert_array_equal(rune.jit(lambda x: rune.map(f, x))(x[:100]), got[:100])
    np.testing.assert_array_equal([f(v) for v in x[:100]], got[:100])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_powers_of_two_are_exact(dtype):
    limits = np.finfo(dtype)
    k = np.arange(limits.minexp - limits.nmant, limits.maxexp)
    powers = np.ldexp(dtype(1), k)
    np.testing.assert_array_equal(rune.jit(lambda k: np.ldexp(dtype(1), k))(k), powers)
    x = np.concatenate([powers, -powers * dtype(1.5), [0.0, -0.0, np.inf, -np.inf, np.nan]]).astype(dtype)
    for got, want in zip(rune.jit(np.frexp)(x), np.frexp(x), strict=True):
        np.testing.assert_array_equal(got, want)


# One law: the same numbers eagerly, compiled and mapped


@every
def test_compiled(name):
    draw = DRAWS[name]
    same(name, rune.jit(draw)(KEY), draw(KEY))


@every
def test_mapped(name):
    draw = DRAWS[name]
    keys = random.split(KEY, 3)
    want = np.stack([draw(k) for k in keys])
    same(name, rune.vmap(draw)(keys), want)
    same(name, rune.jit(rune.vmap(draw))(keys), want)


@every
def test_in_a_loop(name):
    draw = DRAWS[name]
    keys = random.split(KEY, 2)
    want = np.stack([draw(k) for k in keys])
    same(name, rune.jit(lambda keys: rune.map(draw, keys))(keys), want)


def test_rows_of_a_scan():
    def walk(key):
        def step(carry, sub):
            key, x = carry
            key, own = random.split(key)
            x = x + random.normal(own) + random.gamma(sub, (), 1.5)
            return (key, x), x

        return rune.scan(step, (key, 0.0), random.split(key, 20))[1]

    np.testing.assert_array_equal(rune.jit(walk)(KEY), walk(KEY))


@pytest.mark.parametrize("f", [random.uniform, random.normal, random.exponential])
def test_an_element_depends_on_its_place_alone(f):
    long = f(KEY, (BLOCK + 100,))  # more than plain NumPy draws at once
    np.testing.assert_array_equal(long[:7], f(KEY, (7,)))
    np.testing.assert_array_equal(long[: BLOCK + 50].reshape(2, -1), f(KEY, (2, BLOCK // 2 + 25)))
    np.testing.assert_array_equal(rune.jit(lambda k: f(k, (BLOCK + 100,)))(KEY), long)


def test_traced_bounds_draw_what_plain_ones_do():
    draw = lambda low, high: random.integers(KEY, (100,), low, high)
    for low, high in ((0, 7), (-5, 2**40), (-(2**63), 2**63 - 1)):
        low, high = np.int64(low), np.int64(high)
        np.testing.assert_array_equal(rune.vmap(draw)(low[None], high[None])[0], draw(low, high))


@pytest.mark.parametrize("wrap", [lambda f: f, rune.jit], ids=["eager", "compiled"])
def test_threads_draw_what_one_does(wrap):
    f = wrap(
        lambda k: (random.normal(k, (40_000,)), random.poisson(k, (500,), 20.0), random.permutation(k, 99))
    )
    keys = random.split(KEY, 8)
    want = [f(k) for k in keys]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for got, expected in zip(pool.map(f, keys), want, strict=True):
            for x, y in zip(got, expected, strict=True):
                np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("mean", [10.0, 17.5, 60.0, 250.0])
def test_the_probability_of_a_count(mean):
    k = np.arange(0.0, 4 * mean)
    direct = k * np.log(mean) - mean - special.gammaln(k + 1)
    np.testing.assert_allclose(
        discrete.log_probability(k, np.full_like(k, mean)), direct, rtol=1e-12, atol=1e-12
    )


def test_scalars_are_numpys():
    assert type(random.uniform(KEY)) is np.float64
    assert type(random.normal(KEY, dtype=np.float32)) is np.float32
    assert type(random.gamma(KEY, (), 2.0, dtype=np.float16)) is np.float16
    assert type(random.poisson(KEY, (), 2.0)) is type(random.integers(KEY, (), 0, 5)) is np.int64
    assert type(random.bernoulli(KEY)) is np.bool_


# Distributions


CONTINUOUS = {
    "uniform": (lambda k, n: random.uniform(k, n), stats.uniform()),
    "uniform, scaled": (lambda k, n: random.uniform(k, n, 2.0, 5.0), stats.uniform(2, 3)),
    "normal": (lambda k, n: random.normal(k, n), stats.norm()),
    "normal, float32": (lambda k, n: random.normal(k, n, np.float32), stats.norm()),
    "truncated_normal": (lambda k, n: random.truncated_normal(k, n), stats.truncnorm(-2, 2)),
    "truncated_normal, a tail": (
        lambda k, n: random.truncated_normal(k, n, 5.0, np.inf),
        stats.truncnorm(5, np.inf),
    ),
    "truncated_normal, both": (lambda k, n: random.truncated_normal(k, n, -1, 9), stats.truncnorm(-1, 9)),
    "exponential": (lambda k, n: random.exponential(k, n, 2.0), stats.expon(scale=2)),
    "laplace": (lambda k, n: random.laplace(k, n, 1.0, 2.0), stats.laplace(1, 2)),
    "gamma": (lambda k, n: random.gamma(k, n, 2.5, 3.0), stats.gamma(2.5, scale=3)),
    "gamma, small": (lambda k, n: random.gamma(k, n, 0.05), stats.gamma(0.05)),
    "gamma, large": (lambda k, n: random.gamma(k, n, 1e4), stats.gamma(1e4)),
    "beta": (lambda k, n: random.beta(k, n, 0.5, 2.0), stats.beta(0.5, 2)),
    "dirichlet": (lambda k, n: random.dirichlet(k, n, [1.0, 2.0, 0.5])[:, 1], stats.beta(2, 1.5)),
    "multivariate_normal": (
        lambda k, n: random.multivariate_normal(k, n, [1.0, 2.0], [[2.0, 1.0], [1.0, 3.0]]) @ [1, 1],
        stats.norm(3, 7**0.5),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name):
    draw, distribution = CONTINUOUS[name]
    assert stats.kstest(np.float64(draw(KEY, 20_000)), distribution.cdf).pvalue > 1e-4


DISCRETE = {
    "integers": (lambda k, n: random.integers(k, n, -3, 4), stats.randint(-3, 4)),
    "integers, an odd width": (
        lambda k, n: random.integers(k, n, 0, 3 * 2**62, np.uint64) >> np.uint64(62),
        stats.randint(0, 3),
    ),
    "bernoulli": (lambda k, n: random.bernoulli(k, n, 0.3), stats.bernoulli(0.3)),
    "categorical": (
        lambda k, n: random.categorical(k, n, np.log([0.1, 0.2, 0.7])),
        stats.rv_discrete(values=([0, 1, 2], [0.1, 0.2, 0.7])),
    ),
    "choice": (
        lambda k, n: random.choice(k, n, 3, p=[2, 1, 1]),
        stats.rv_discrete(values=([0, 1, 2], [0.5, 0.25, 0.25])),
    ),
    "poisson, few": (lambda k, n: random.poisson(k, n, 3.0), stats.poisson(3)),
    "poisson, fewest of the many": (lambda k, n: random.poisson(k, n, 10.0), stats.poisson(10)),
    "poisson, many": (lambda k, n: random.poisson(k, n, 300.0), stats.poisson(300)),
    "poisson, a million": (lambda k, n: random.poisson(k, n, 1e6), stats.poisson(1e6)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name):
    draw, distribution = DISCRETE[name]
    n = 20_000
    x = draw(KEY, n)
    cuts = np.unique(distribution.ppf(np.linspace(0.02, 0.98, 20)))
    expected = n * np.diff(np.r_[0.0, distribution.cdf(cuts), 1.0])
    found = np.diff(np.r_[0, [np.sum(x <= c) for c in cuts], n])
    possible = expected > 1e-6
    assert np.all(found[~possible] == 0)
    assert stats.chisquare(found[possible], expected[possible]).pvalue > 1e-4


def test_orders_are_equally_likely():
    keys = random.split(KEY, 6000)
    orders = rune.vmap(lambda k: random.permutation(k, 3))(keys)
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 6 and stats.chisquare(counts).pvalue > 1e-4
    pairs = rune.vmap(lambda k: random.choice(k, (2,), 3, replace=False, p=[0.5, 0.3, 0.2]))(keys)
    # first 0, then 1: 0.5 * 0.3 / 0.5
    assert abs(np.mean((pairs[:, 0] == 0) & (pairs[:, 1] == 1)) - 0.3) < 0.03


@pytest.mark.parametrize("mean", [1e10, 1e14, 1e16, 1e18])
def test_counts_of_a_large_mean_are_nearly_normal(mean):
    x = random.poisson(KEY, (50_000,), mean)
    assert stats.kstest((x - np.int64(mean)) / np.sqrt(mean), "norm").pvalue > 1e-4


def test_draws_with_no_place_are_empty():
    assert random.categorical(KEY, None, np.zeros((0, 3))).shape == (0,)
    assert random.choice(KEY, (0,), 0).shape == random.permutation(KEY, 0).shape == (0,)
    assert random.permutation(KEY, np.zeros((0, 3))).shape == (0, 3)
    assert random.dirichlet(KEY, (0,), np.ones(3)).shape == (0, 3)
    assert random.split(KEY, 0).shape == (0, 2)


def test_bounds_hold():
    x = random.uniform(KEY, (1000,), -60000.0, 60000.0, np.float16)  # the width is beyond float16
    assert x.min() < -50000 and x.max() > 50000
    wide = rune.vmap(lambda high: random.uniform(KEY, (3,), -1e308, high))(np.array([1.0, 1e308]))
    assert np.all(wide[0] < 1.0) and np.all(np.isnan(wide[1]))
    x = random.uniform(KEY, (100_000,), 1.0, np.nextafter(1.0, 2.0))
    assert np.all(x == 1.0)
    x = random.uniform(KEY, (100_000,), -1.0, 3.0, np.float16)
    assert x.min() >= -1.0 and x.max() < 3.0
    assert random.uniform(KEY, (), 2.0, 2.0) == 2.0
    assert np.isnan(random.uniform(KEY, (), 0.0, np.nan))
    x = random.truncated_normal(KEY, (1000,), 8.0, 8.5)
    assert x.min() >= 8.0 and x.max() <= 8.5 and np.ptp(x) > 0.2
    assert random.truncated_normal(KEY, (), 40.0, 50.0) == 40.0
    assert set(random.choice(KEY, (1000,), 4, p=[0.0, 1.0, 0.0, 1.0])) == {1, 3}
    assert set(random.categorical(KEY, (1000,), [-np.inf, 0.0, -np.inf])) == {1}


@pytest.mark.filterwarnings("error")
def test_parameters_at_the_edge():
    assert random.gamma(KEY, (), 0.0) == 0.0 and random.gamma(KEY, (), np.inf) == np.inf
    assert np.isnan(random.gamma(KEY, (), np.nan))
    assert np.isnan(rune.vmap(lambda a: random.gamma(KEY, (), a))(np.array([-1.0]))[0])
    assert random.beta(KEY, (), 1e-300, 1.0) == 0.0 and random.beta(KEY, (), 1.0, 1e-300) == 1.0
    assert random.dirichlet(KEY, (), [1e-300, 1.0]).tolist() == [0.0, 1.0]
    assert random.poisson(KEY, (), 0.0) == 0
    poisson = rune.vmap(lambda lam: random.poisson(KEY, (), lam))
    assert poisson(np.array([-1.0, np.nan, np.inf, 0.0])).tolist() == [-1, -1, -1, 0]


# Derivatives


REPARAMETRISED = {
    "uniform": lambda p: random.uniform(KEY, (9,), p[0], p[1] + 2),
    "truncated_normal": lambda p: random.truncated_normal(KEY, (9,), p[0] - 2, p[1]),
    "truncated_normal, above": lambda p: random.truncated_normal(KEY, (9,), p[1], p[0] + p[1]),
    "exponential": lambda p: random.exponential(KEY, (9,), p[0]),
    "laplace": lambda p: random.laplace(KEY, (9,), p[0], p[1]),
    "multivariate_normal": lambda p: random.multivariate_normal(
        KEY, (9,), p[:2], np.eye(2) * p[2] + p[0] * np.ones((2, 2))
    ),
}


@pytest.mark.parametrize("wrap", [lambda f: f, rune.jit], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", REPARAMETRISED)
@pytest.mark.filterwarnings("ignore:rune.random")
def test_derivatives_against_central_differences(name, wrap):
    objective = wrap(lambda p: np.sum(REPARAMETRISED[name](p) ** 3))
    p = np.array([1.3, 0.8, 2.0])
    rune.check_grads(objective, p, modes=("reverse", "forward"), order=2, tol=1e-4)


@pytest.mark.filterwarnings("ignore:rune.random")
def test_the_implicit_derivative_of_gamma_keeps_the_probability():
    a = np.repeat([0.05, 0.3, 0.9, 1.0, 2.5, 4.0, 7.0, 30.0, 1000.0], 20)
    draw = lambda a: random.gamma(KEY, a.shape, a)
    x = draw(a)
    below, above = special.gammainc(a, x), special.gammaincc(a, x)
    along = lambda a: np.where(below < 0.5, special.gammaincinv(a, below), special.gammainccinv(a, above))
    h = 1e-4 * a
    slope = (8 * (along(a + h) - along(a - h)) - (along(a + 2 * h) - along(a - 2 * h))) / (12 * h)
    total = lambda a: np.sum(draw(a))
    for f in (rune.grad(total), rune.jit(rune.grad(total)), rune.grad(rune.jit(total))):
        np.testing.assert_allclose(f(a), slope, rtol=1e-8)
    np.testing.assert_allclose(rune.jvp(draw, (a,), (np.ones_like(a),))[1], slope, rtol=1e-8)
    h = 1e-3 * a
    curve = (16 * (along(a + h) + along(a - h)) - along(a + 2 * h) - along(a - 2 * h) - 30 * x) / (12 * h * h)
    second = rune.grad(lambda a: np.sum(rune.grad(total)(a)))(a)
    np.testing.assert_allclose(second, curve, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(
        rune.jit(rune.grad(lambda a: np.sum(rune.grad(total)(a))))(a), second, rtol=1e-8
    )


def test_gradients_of_averages_estimate_those_of_expectations():
    n = 20_000
    mean = lambda f: rune.grad(lambda a: np.mean(f(a)))
    assert abs(mean(lambda a: random.gamma(KEY, n, a))(0.5) - 1.0) < 0.03
    # a / (a + 2) has derivative 2 / (a + 2)**2
    assert abs(mean(lambda a: random.beta(KEY, n, a, 2.0))(0.7) - 2 / 2.7**2) < 0.01
    share = lambda a: random.dirichlet(KEY, n, a)[:, 0]
    got = mean(share)(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(got, [5 / 36, -1 / 36, -1 / 36], atol=0.005)
    # a count has no derivative: of lam * count by lam it is the count
    assert rune.grad(lambda lam: lam * random.poisson(KEY, (), lam))(3.0) == random.poisson(KEY, (), 3.0)


def test_gradients_per_lane():
    keys, a = random.split(KEY, 4), np.array([0.3, 1.0, 5.0, 40.0])
    f = rune.grad(lambda a, k: random.gamma(k, (), a))
    want = [f(x, k) for x, k in zip(a, keys)]
    np.testing.assert_allclose(rune.vmap(f)(a, keys), want, rtol=1e-11)
    np.testing.assert_allclose(rune.jit(rune.vmap(f))(a, keys), want, rtol=1e-11)


# Calls that are wrong


WRONG = {
    "an int for a key": (lambda: random.uniform(0), TypeError, "uniform: a key is a uint32 array of shape [2], got int 0"),
    "floats for a key": (lambda: random.normal(np.zeros(2)), ValueError, "normal: a key is a uint32 array of shape [2], got float64 [2]"),
    "keys for a key": (lambda: random.split(random.split(KEY, 3)), ValueError, "split: a key is a uint32 array of shape [2], got uint32 [3, 2]: map over keys"),
    "a float seed": (lambda: random.key(1.5), TypeError, "key: the seed must be an integer"),
    "a boolean seed": (lambda: random.key(True), TypeError, "key: the seed must be an integer"),
    "a long seed": (lambda: random.key(1 << 64), ValueError, "key: the seed 18446744073709551616 has more"),
    "a seed per row": (lambda: random.key(np.arange(3)), ValueError, "key: one seed gives one key"),
    "fold_in of a float": (lambda: random.fold_in(KEY, 0.5), TypeError, "fold_in: k must be an integer"),
    "fold_in below 0": (lambda: random.fold_in(KEY, -1), ValueError, "fold_in: k is -1"),
    "fold_in of several": (lambda: random.fold_in(KEY, np.arange(2)), ValueError, "fold_in: k is one number"),
    "fewer than no keys": (lambda: random.split(KEY, -1), ValueError, "split: n: -1, where it must be at least 0"),
    "a real number of keys": (lambda: random.split(KEY, 2.0), TypeError, "split: n: an int is needed, got float 2.0"),
    "more than one key draws": (lambda: random.normal(KEY, (2**33,)), ValueError, "normal: shape: 8589934592 numbers"),
    "a dtype for a shape": (lambda: random.normal(KEY, np.float32), TypeError, "normal: shape: an int or a tuple of ints is needed, got type float32"),
    "no dtype": (lambda: random.uniform(KEY, (), dtype="single!"), TypeError, "uniform: dtype: str 'single!' is no dtype"),
    "a masked bound": (lambda: random.uniform(KEY, (2,), np.ma.array([0.0, 1.0], mask=[0, 1]), 2.0), TypeError, "uniform: low: masked arrays"),
    "a masked array of things": (lambda: random.permutation(KEY, np.ma.array([0.0, 1.0], mask=[0, 1])), TypeError, "permutation: x: masked arrays"),
    "no width": (lambda: random.uniform(KEY, (), 0.0, np.inf), ValueError, "uniform: high: the width from low to high is beyond float64"),
    "too wide": (lambda: random.uniform(KEY, (), -1e308, 1e308), ValueError, "uniform: high: the width"),
    "a probability that is none": (lambda: random.bernoulli(KEY, (), np.nan), ValueError, "bernoulli: p: nan, where it must be between 0 and 1"),
    "a mean that is none": (lambda: random.poisson(KEY, (), np.nan), ValueError, "poisson: lam: nan"),
    "a logit that is none": (lambda: random.categorical(KEY, (), [0.0, np.nan]), ValueError, "categorical: logits: a greatest one is needed"),
    "no logit above the least": (lambda: random.categorical(KEY, (), [-np.inf, -np.inf]), ValueError, "categorical: logits: a greatest one is needed"),
    "no such axis of logits": (lambda: random.categorical(KEY, (), np.zeros(3), axis=2), ValueError, "categorical: logits: axis 2 is out of bounds"),
    "a weight that is none": (lambda: random.choice(KEY, (), 2, p=[np.nan, 1.0]), ValueError, "choice: p: nan"),
    "no weight": (lambda: random.choice(KEY, (), 2, p=[0.0, 0.0]), ValueError, "choice: p: 1 of the weights must be above 0"),
    "too few weights": (lambda: random.choice(KEY, (2,), 2, replace=False, p=[0.0, 1.0]), ValueError, "choice: p: 2 of the weights must be above 0"),
    "no such axis of things": (lambda: random.choice(KEY, (2,), np.ones(3), axis=1), ValueError, "choice: a: axis 1 is out of bounds"),
    "a word to choose from": (lambda: random.choice(KEY, (2,), "abc"), TypeError, "choice: a: an int or an array is needed, got str 'abc'"),
    "a boolean bound": (lambda: random.integers(KEY, (), False, 5), TypeError, "integers: low: an integer is needed, got bool False"),
    "an axis of another kind": (lambda: random.permutation(KEY, np.ones(3), axis="rows"), TypeError, "permutation: axis: an int is needed"),
    "a parameter for a shape": (lambda: random.categorical(KEY, np.zeros(3), ()), TypeError, "categorical: shape: an int or a tuple of ints is needed, got float64 [3]"),
    "a real length": (lambda: random.normal(KEY, (2, 0.5)), TypeError, "normal: shape: an int or a tuple"),
    "a wide parameter": (lambda: random.gamma(KEY, (2,), np.ones(3)), ValueError, "gamma: a: shape [3] does not broadcast to the draw's shape [2]"),
    "parameters that differ": (lambda: random.beta(KEY, None, np.ones(3), np.ones(2)), ValueError, "beta: shapes that do not broadcast: a [3], b [2]"),
    "a negative length": (lambda: random.uniform(KEY, (2, -1)), ValueError, "uniform: shape: a negative length"),
    "an integer dtype": (lambda: random.normal(KEY, (2,), np.int64), TypeError, "normal: dtype int64"),
    "a complex bound": (lambda: random.uniform(KEY, (), 0.0, 1j), TypeError, "uniform: high: a real array is needed"),
    "a word for a bound": (lambda: random.uniform(KEY, (), "a"), TypeError, "uniform: low: a real array is needed"),
    "bounds that cross": (lambda: random.uniform(KEY, (), 2.0, 1.0), ValueError, "uniform: low: 2.0, which is above high: 1.0"),
    "a negative scale": (lambda: random.exponential(KEY, (), -1.0), ValueError, "exponential: scale: -1, where it must be at least 0"),
    "a probability above 1": (lambda: random.bernoulli(KEY, (), 1.5), ValueError, "bernoulli: p: 1.5, where it must be between 0 and 1"),
    "a negative mean": (lambda: random.poisson(KEY, (), [1.0, -2.0]), ValueError, "poisson: lam: "),
    "no integer between": (lambda: random.integers(KEY, (), 7, 7), ValueError, "integers: low: 7, which is not below high: 7"),
    "a bound out of range": (lambda: random.integers(KEY, (), 0, 257, np.uint8), ValueError, "integers: high: "),
    "a real bound": (lambda: random.integers(KEY, (), 0, 7.0), TypeError, "integers: high: an integer is needed"),
    "no category": (lambda: random.categorical(KEY, (), np.zeros(0)), ValueError, "categorical: logits: no category"),
    "nothing to choose": (lambda: random.choice(KEY, (2,), 0), ValueError, "choice: a: nothing"),
    "more than there are": (lambda: random.choice(KEY, (5,), 4, replace=False), ValueError, "choice: 5 of 4 things without replacement"),
    "weights of others": (lambda: random.choice(KEY, (5,), 4, p=[0.5, 0.5]), ValueError, "choice: p: shape [2], where there are 4 things"),
    "no order of a float": (lambda: random.permutation(KEY, 2.5), TypeError, "permutation: "),
    "an axis that is not there": (lambda: random.permutation(KEY, np.ones(3), axis=1), ValueError, "rune.random.permutation: x"),
    "a matrix that is none": (lambda: random.multivariate_normal(KEY, (), [0.0], [1.0]), ValueError, "multivariate_normal: cov: shape [1]"),
    "a mean of another length": (lambda: random.multivariate_normal(KEY, (), np.zeros(3), np.eye(2)), ValueError, "multivariate_normal: mean: shape [3]"),
    "no covariance": (lambda: random.multivariate_normal(KEY, (), np.zeros(2), -np.eye(2)), np.linalg.LinAlgError, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    call, kind, message = WRONG[name]
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind or kind is ValueError
    text = str(caught.value)
    assert message in text and (not message or text.startswith("rune.random."))


TRACED = {
    "bounds that cross": (lambda high: random.integers(KEY, (2,), 0, high), np.int64(3), np.int64(0), "integers: low: not below high"),
    "a bound beyond the dtype": (lambda high: random.integers(KEY, (2,), 0, high, np.uint8), np.int64(256), np.int64(257), "integers: high: out of the range from 1 to 256, for uint8"),
    "an unsigned bound": (lambda high: random.integers(KEY, (2,), 0, high), np.uint64(5), np.uint64(2**63 + 5), "integers: high: out of the range"),
    "a probability": (lambda p: random.bernoulli(KEY, (2,), p), 0.5, np.nan, "bernoulli: p: NaN"),
    "logits": (lambda logits: random.categorical(KEY, (2,), logits), np.zeros(2), np.array([0.0, np.nan]), "categorical: logits: a greatest one is needed"),
    "weights": (lambda p: random.choice(KEY, (2,), 2, p=p), np.ones(2), np.array([2.0, -1.0]), "choice: p: 1 of the weights"),
    "weights of different things": (lambda p: random.choice(KEY, (2,), 2, False, p), np.ones(2), np.array([2.0, 0.0]), "choice: p: 2 of the weights"),
}  # fmt: skip


@pytest.mark.parametrize("name", TRACED)
@pytest.mark.filterwarnings("ignore:rune.random")
def test_traced_parameters_that_give_no_draw(name):
    draw, good, bad, message = TRACED[name]
    np.testing.assert_array_equal(rune.jit(draw)(good), draw(good))
    with pytest.raises(ValueError, match="^rune.random." + message):
        rune.jit(draw)(bad)
    for wrap in (lambda f: f, rune.jit):
        with pytest.raises(ValueError, match="^rune.random." + message + r".* \(in lane 1\)$"):
            wrap(rune.vmap(draw))(np.stack([good, bad, good]))


@pytest.mark.parametrize("dtype", "bhilBHIL")
def test_integers_of_every_dtype_reach_their_bounds(dtype):
    limits = np.iinfo(dtype)
    least, most, n = int(limits.min), int(limits.max), 20_000
    draw = lambda key, low, high: random.integers(key, (n,), low, high, dtype)
    x = draw(KEY, least, most + 1)
    assert x.dtype == dtype
    np.testing.assert_array_equal(rune.jit(lambda key: draw(key, least, most + 1))(KEY), x)
    share = (x.astype(float) - least) / (float(most) - least)
    assert stats.kstest(share, "uniform").pvalue > 1e-4 or np.dtype(dtype).itemsize == 1
    assert set(draw(KEY, most - 1, most + 1)) == {most - 1, most} and set(draw(KEY, most, most + 1)) == {most}
    assert set(draw(KEY, least, least + 2)) == {least, least + 1}
    x = draw(KEY, least, most)
    assert x.max() < most
    np.testing.assert_array_equal(rune.jit(draw)(KEY, x.dtype.type(least), x.dtype.type(most)), x)
    x = random.integers(KEY, (100, 2), [least, most], [np.int8(1), most + 1], dtype)
    assert np.all(x[:, 0] < 1) and np.all(x[:, 1] == most)


# A draw that is one constant of a compiled program


normal, fold, split = random.normal, random.fold_in, random.split
jit, vmap, grad, scan = rune.jit, rune.vmap, rune.grad, rune.scan
walk = lambda x, keys: scan(lambda c, k: (c + normal(k), None), x, keys)[0]
carried = lambda key, x, after=lambda k: fold(k, 1): scan(
    lambda c, _: ((after(c[0]), c[1] + normal(c[0])), None), (key, x), None, length=3
)[0][1]
until = lambda key, x: rune.iterate(
    lambda c: (fold(c[0], 1), c[1] + normal(c[0]) ** 2), (key, x), until=lambda c: c[1] > 3, max_steps=500
)[1]
CONSTANT = {  # all are the same in every call
    "a captured key": lambda: jit(lambda x: x + normal(KEY))(1.0),
    "a key of its own": lambda: jit(lambda x: x + normal(split(random.key(3))[1]))(1.0),
    "a static seed": lambda: jit(lambda x, seed: x + normal(random.key(seed)), static_argnames="seed")(1.0, seed=3),
    "a function in a function": lambda: jit(lambda x: jit(lambda y: y + normal(KEY))(x))(1.0),
    "a gradient": lambda: grad(jit(lambda x: x * normal(KEY)))(1.0),
    "a compiled gradient": lambda: jit(grad(lambda x: x * normal(KEY)))(1.0),
    "mapped keys": lambda: jit(lambda x: vmap(normal)(split(KEY, 3)) * x)(1.0),
    "a mapped call": lambda: vmap(jit(lambda x: x + normal(KEY)))(np.ones(3)),
    "by the lane's place": lambda: jit(vmap(lambda x: x + normal(fold(KEY, rune.lane_index("b"))), axis_name="b"))(np.ones(3)),
    "in a loop": lambda: jit(lambda x: scan(lambda c, _: (c + normal(KEY), None), x, None, length=3))(1.0),
    "rows of a loop": lambda: jit(lambda x: walk(x, split(KEY, 3)))(1.0),
    "by the step's place": lambda: jit(lambda x: scan(lambda c, k: (c + normal(fold(KEY, k)), None), x, np.arange(3)))(1.0),
    "carried": lambda: jit(lambda x: carried(KEY, x))(1.0),
    "carried until": lambda: jit(lambda x: until(KEY, x))(1.0),
    "rows of a loop in a loop": lambda: jit(lambda x: scan(lambda c, k: (walk(c, split(k, 2)), None), x, split(KEY, 3)))(1.0),
    "rows made of a carried key": lambda: jit(lambda x: scan(lambda c, _: ((fold(c[0], 1), walk(c[1], split(c[0], 2))), None), (KEY, x), None, length=3))(1.0),
    "a row in a branch": lambda: jit(lambda x: scan(lambda c, k: (rune.cond(c > 0, lambda c: c + normal(k), np.sin, c), None), x, split(KEY, 3)))(1.0),
    "a map of rows": lambda: jit(lambda x: x + rune.map(normal, split(KEY, 3)))(1.0),
}  # fmt: skip
DIFFERING = {  # another in every call, or no program that is kept
    "an argument": lambda: jit(lambda k, x: x + normal(split(k)[0]))(KEY, 1.0),
    "a part of one": lambda: jit(lambda s: normal(s["key"]))({"key": KEY}),
    "by a number": lambda: jit(lambda k: normal(fold(KEY, k)))(u32(3)),
    "a traced seed": lambda: jit(lambda seed: normal(random.key(seed)))(np.int64(3)),
    "of a function around": lambda: jit(lambda k, x: jit(lambda y: y + normal(k))(x))(KEY, 1.0),
    "a gradient": lambda: jit(grad(lambda x, k: x * random.gamma(k, (), x)))(2.0, KEY),
    "a Hessian": lambda: jit(rune.hessian(lambda x, k: np.sum(x * random.gamma(k, (2,), x))))(np.ones(2), KEY),
    "a mapped call": lambda: vmap(jit(normal))(split(KEY, 3)),
    "mapped keys": lambda: jit(lambda k: vmap(normal)(split(k, 3)))(KEY),
    "rows of a loop": lambda: jit(lambda k, x: walk(x, split(k, 3)))(KEY, 1.0),
    "numbers that are rows": lambda: jit(lambda ks: scan(lambda c, k: (c + normal(fold(KEY, k)), None), 0.0, ks))(np.arange(3, dtype=u32)),
    "carried": lambda: jit(carried)(KEY, 1.0),
    "carried until": lambda: jit(until)(KEY, 1.0),
    "carried, and mixed with an argument": lambda: jit(lambda x, i: carried(KEY, x, lambda k: fold(k, i)))(1.0, u32(3)),
    "in a branch": lambda: jit(lambda k, x: rune.cond(x > 0, lambda: normal(k), lambda: 0.0))(KEY, 1.0),
    "of the host": lambda: jit(lambda x: x + normal(rune.callback(lambda: KEY, np.zeros(2, u32))))(1.0),
    "plain": lambda: grad(lambda x: x * normal(KEY))(1.0),
    "a plain loop": lambda: carried(KEY, 1.0),
    "a plain loop of no rows": lambda: walk(1.0, split(KEY, 0)),
    "checkpoints": lambda: grad(lambda x: scan(lambda c, k: (c * normal(k), None), x, split(KEY, 8), checkpoint_every=3)[0])(1.0),
    "a plain map": lambda: vmap(lambda x: x + normal(KEY))(np.ones(3)),
    "a loop in a plain map": lambda: vmap(lambda x: until(KEY, x))(np.ones(3)),
    "a branch in a plain map": lambda: vmap(lambda x: rune.cond(x > 0, lambda x: x + normal(KEY), np.sin, x))(np.ones(3)),
    "a rule in a plain map": lambda: vmap(rune.custom_jvp(lambda x: (x * normal(KEY), lambda t: t)))(np.ones(3)),
    "a root in a plain map": lambda: vmap(lambda a: rune.root(lambda x: x - a * normal(KEY), lambda: a * normal(KEY)))(np.ones(3)),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTANT)
def test_a_constant_key_is_reported(name):
    with pytest.warns(
        UserWarning, match=r"^rune\.random\.normal: the key does not depend on the arguments"
    ) as caught:
        CONSTANT[name]()
    assert all(one.filename == __file__ for one in caught)


@pytest.mark.parametrize("name", DIFFERING)
@pytest.mark.filterwarnings("error")
def test_a_key_that_differs_is_not_reported(name):
    DIFFERING[name]()


def test_a_constant_key_is_reported_once_per_line():
    def f(x):
        return x + random.normal(KEY, (3,))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        rune.jit(f)(np.zeros(3))
        rune.jit(f)(np.zeros((2, 3)))
    (one,) = caught
    assert one.filename == __file__ and one.lineno == f.__code__.co_firstlineno + 1


def test_drawing_loads_no_scipy():
    code = (
        "import sys, rune; k = rune.random.key(1); r = rune.random; "
        "[f(k, (3,)) for f in (r.uniform, r.normal, r.exponential, r.laplace, r.bernoulli)]; "
        "r.gamma(k, (3,), 0.5); r.poisson(k, (3,), 20.0); r.permutation(k, 4); "
        "print([m for m in ('llvmlite', 'scipy') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
