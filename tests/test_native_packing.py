"""Small arrays are packed into vectors: what is read from one was stored before."""

import itertools

import numpy as np
import pytest

import rune


@pytest.mark.parametrize(
    "shape, count, dtype",
    itertools.product(
        [(6,), (2, 3), (2, 1, 3), (3, 1, 1, 2)], [2, 4, 5, 8], [np.int64, np.int32, np.float64]
    ),
)
def test_elements_chosen_from_a_small_array_that_is_also_used_whole(shape, count, dtype):
    i = np.arange(1, 7).astype(dtype).reshape(shape)
    x = np.linspace(1.0, 2.0, count)
    places = np.arange(count) * 5 % 6

    def f(x, i):
        return x * i.reshape(-1)[places], x / np.resize(i, x.shape), i + 1

    for got, want in zip(rune.jit(f)(x, i), f(x, i), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-15)
