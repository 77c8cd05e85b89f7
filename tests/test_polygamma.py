"""polygamma by order: SciPy's own converts its argument, rune's takes traced values."""

import numpy as np
import pytest
import scipy.special as sp

import rune

x = np.array([0.7, 1.5, 3.2, 20.0])
orders = pytest.mark.parametrize("n", [0, 1, 2, 5, np.array([0, 1, 2, 3])], ids=str)


@orders
def test_values(n):
    f = lambda x: rune.polygamma(n, x)
    want = sp.polygamma(n, x)
    np.testing.assert_array_equal(f(x), want)
    np.testing.assert_allclose(rune.jit(f)(x), want, rtol=1e-13)
    np.testing.assert_allclose(rune.vmap(f)(np.stack([x, x]))[1], want, rtol=1e-13)


@orders
def test_the_derivative_is_the_next_order(n):
    f = lambda x: np.sum(rune.polygamma(n, x))
    for way in (rune.grad(f), rune.jit(rune.grad(f)), rune.grad(rune.jit(f))):
        np.testing.assert_allclose(way(x), sp.polygamma(np.asarray(n) + 1, x), rtol=1e-12)


def test_the_dtype_stays_and_scipys_own_names_it():
    assert rune.grad(lambda x: np.sum(rune.polygamma(2, x)))(np.float32([1.5])).dtype == np.float32
    with pytest.raises(rune.TracedValueError, match=r"write rune\.polygamma\(n, x\)"):
        rune.jit(lambda x: sp.polygamma(1, x))(x)
