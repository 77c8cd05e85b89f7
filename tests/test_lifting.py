"""detach and asarray under every transformation."""

import numpy as np
import pytest

import rune

x3 = np.array([1.0, 2.0, 3.0])
held = lambda x: np.sum(x * rune.detach(x))
WAYS = {
    "grad": rune.grad,
    "jit(grad)": lambda f: rune.jit(rune.grad(f)),
    "grad(jit)": lambda f: rune.grad(rune.jit(f)),
    "jacfwd": rune.jacfwd,
    "jacfwd(jit)": lambda f: rune.jacfwd(rune.jit(f)),
    "vmap(grad)": lambda f: lambda x: rune.vmap(rune.grad(f))(x[None])[0],
    "vmap(grad(jit))": lambda f: lambda x: rune.vmap(rune.grad(rune.jit(f)))(x[None])[0],
    "grad(vmap)": lambda f: rune.grad(lambda x: np.sum(rune.vmap(lambda v: v * rune.detach(v))(x))),
    "grad(scan)": lambda f: rune.jit(
        rune.grad(lambda x: rune.scan(lambda c, v: (c + v * rune.detach(v), None), 0.0, x)[0])
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_detached_value_has_no_derivative(way):
    np.testing.assert_array_equal(way(held)(x3), x3)


def test_it_strips_every_differentiation_and_reads():
    seen = []
    f = lambda x: (seen.append(float(rune.detach(x))), x * rune.detach(x))[1]
    assert rune.grad(lambda x: rune.grad(f)(x) * x)(3.0) == 3.0
    assert seen == [3.0]
    assert rune.detach(x3) is x3


def test_a_plain_array_lifted_takes_traced_indices_and_values():
    def f(x, k):
        table = rune.asarray(np.arange(5.0))
        table[k] = x * x
        return np.sum(table * table) + table[k]

    for way in (rune.grad(f), rune.jit(rune.grad(f)), rune.grad(rune.jit(f))):
        np.testing.assert_allclose(way(3.0, np.int64(2)), 4 * 27 + 6)
    assert type(rune.asarray([1.0])) is np.ndarray


@pytest.mark.parametrize(
    "way", [way for name, way in WAYS.items() if name not in ("grad(vmap)", "grad(scan)")]
)
def test_what_is_lifted_already_keeps_its_derivative(way):
    def f(x):
        y = rune.asarray(x * x)
        y[0] = y[0] * 3.0
        return np.sum(rune.asarray(rune.asarray(y)))

    np.testing.assert_allclose(way(f)(x3), 2 * x3 * [3.0, 1.0, 1.0])
