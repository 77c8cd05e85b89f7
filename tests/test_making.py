"""NumPy's functions that make arrays, asked with `like=x`: what they make holds traced values."""

import numpy as np
import pytest

import rune

X = np.array([1.0, 2.5, -3.0])
WAYS = {
    "jvp": lambda f: lambda x: rune.jvp(f, (x,), (np.ones_like(x),))[0],
    "jit": rune.jit,
    "vmap": lambda f: lambda x: rune.vmap(f)(np.stack([x, x]))[1],
    "jit of vmap": lambda f: lambda x: rune.jit(rune.vmap(f))(np.stack([x, x]))[1],
    "jit of jvp": lambda f: rune.jit(lambda x: rune.jvp(f, (x,), (np.ones_like(x),))[0]),
}


def filled(x):
    y = np.empty((2, 3), like=x)
    for k in range(3):
        y[0, k] = x[k] ** 2
    y[1] = x
    return y


MADE = {
    "array": lambda x: np.array([x[0], x[1], 2.0], like=x),
    "array of rows": lambda x: np.array([x, 2 * x], like=x),
    "array, nested": lambda x: np.array([[x[0], 1], [2, x[2]]], like=x),
    "array, dtype": lambda x: np.array([x[0], x[1]], np.float32, like=x),
    "array, ndmin": lambda x: np.array([x[0], x[1]], ndmin=3, like=x),
    "array, plain": lambda x: np.array([[1, 2], [3, 4]], ndmin=3, like=x),
    "asarray": lambda x: np.asarray(x, like=x),
    "asarray, dtype": lambda x: np.asarray(x, np.float32, like=x),
    "ascontiguousarray": lambda x: np.ascontiguousarray(x, like=x),
    "require": lambda x: np.require(x, requirements=["C"], like=x),
    "full": lambda x: np.full((2, 2), x[1], like=x),
    "full, dtype": lambda x: np.full(2, x[1], np.complex64, like=x),
    "full, plain": lambda x: np.full(2, 3, like=x),
    "zeros": lambda x: np.zeros((2, 3), like=x),
    "ones": lambda x: np.ones(3, np.float32, like=x),
    "eye": lambda x: np.eye(3, k=1, like=x),
    "identity": lambda x: np.identity(2, like=x),
    "tri": lambda x: np.tri(3, like=x),
    "arange": lambda x: np.arange(1.0, 4.0, like=x),
    "arange of ints": lambda x: np.arange(3, like=x),
    "fromiter": lambda x: np.fromiter((v * v for v in x), float, like=x),
    "fromiter, count": lambda x: np.fromiter((v * v for v in x), float, 2, like=x),
    "fromfunction": lambda x: np.fromfunction(lambda i, j: i * x + j, (2, 3), like=x),
    "empty, filled": filled,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MADE)
def test_what_is_made_like_a_traced_value_is_what_numpy_makes(name, way):
    want, got = MADE[name](X), WAYS[way](MADE[name])(X)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_what_is_made_holds_derivatives():
    np.testing.assert_allclose(rune.grad(lambda x: np.sum(filled(x)))(X), 2 * X + 1)
    nested = lambda x: np.linalg.det(np.array([[x[0], 1.0], [1.0, x[1]]], like=x))
    for gradient in (rune.grad(nested), rune.jit(rune.grad(nested))):
        np.testing.assert_allclose(gradient(X), [X[1], X[0], 0.0])
    hold = lambda x: np.asarray(x, like=x)
    np.testing.assert_array_equal(rune.jacfwd(hold)(X), np.eye(3))


CONVERTED = {
    "asarray": lambda y: np.asarray(y, like=y),
    "asarray, its dtype": lambda y: np.asarray(y, float, like=y),
    "asarray of a view": lambda y: np.asarray(y[1:], like=y),
    "require": lambda y: np.require(y, like=y),
    "asarray, another dtype": lambda y: np.asarray(y, np.float32, like=y),
    "asarray, a copy": lambda y: np.asarray(y, copy=True, like=y),
    "array": lambda y: np.array(y, like=y),
}


@pytest.mark.parametrize("name", CONVERTED)
@pytest.mark.parametrize("way", WAYS)
def test_a_write_into_what_was_converted_goes_where_numpys_does(name, way):
    def written(x):
        y = x.copy()
        CONVERTED[name](y)[0] = 5.0
        return y

    np.testing.assert_array_equal(WAYS[way](written)(X), written(X))


@pytest.mark.parametrize("name", ["arange", "eye", "tri", "identity"])
def test_a_shape_that_depends_on_values_is_refused(name):
    with pytest.raises(rune.TracedValueError, match=rf"^numpy\.{name}: the value is traced by rune\.jit; "):
        rune.jit(lambda x: getattr(np, name)(x[0], like=x))(X)


def test_an_iterator_that_ends_early_is_an_error_as_numpys():
    with pytest.raises(ValueError, match="iterator too short"):
        rune.jit(lambda x: np.fromiter((v for v in x), float, 5, like=x))(X)
