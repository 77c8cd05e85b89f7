"""numpy.fft: NumPy's own results bit for bit, every length, axis, norm and layout, compiled and mapped."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rune

rng = np.random.default_rng(6)
ONE_AXIS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
SEVERAL = ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]


def numbers(shape, name, dtype=np.float64):
    x = rng.standard_normal(shape)
    real = name.startswith(("rfft", "ihfft"))
    return (x if real else x + 1j * rng.standard_normal(shape)).astype(
        dtype if real else np.result_type(dtype, np.complex64)
    )


def same(got, want):
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@settings(max_examples=60)
@given(st.data())
def test_every_length_axis_norm_and_layout(data):
    name = data.draw(st.sampled_from(ONE_AXIS))
    shape = tuple(data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 8]), min_size=0, max_size=2)))
    axis = data.draw(st.integers(0, len(shape)))
    shape = (*shape[:axis], data.draw(st.sampled_from([1, 2, 3, 4, 7, 12, 67, 5000])), *shape[axis:])
    n = data.draw(st.sampled_from([None, 1, 2, 5, 6, 4099]))
    norm = data.draw(st.sampled_from([None, "backward", "ortho", "forward"]))
    x = numbers(shape, name, data.draw(st.sampled_from([np.float64, np.float32])))
    x = data.draw(st.sampled_from([lambda x: x, np.asfortranarray, lambda x: np.flip(x, 0)]))(x)
    f = lambda x: getattr(np.fft, name)(x, n, axis - len(shape), norm)
    try:
        want = f(x)
    except ValueError as error:  # an inverse of one element gives none
        with pytest.raises(ValueError, match=str(error).split("(")[0]):
            rune.jit(f)(x)
        return
    same(rune.jit(f)(x), want)
    lanes = rune.jit(rune.vmap(f))(np.stack([x, 2 * x]))  # several at once are vectors: other roundings
    close = dict(rtol=0, atol=4e3 * np.finfo(want.dtype).eps)
    np.testing.assert_allclose(lanes, np.stack([want, f(2 * x)]), **close)


@pytest.mark.parametrize("name", SEVERAL)
def test_several_axes(name):
    for shape, axes, s in (
        ((4, 5), (0, 1), None),
        ((3, 4, 6), (2, 0), (5, 4)),
        ((3, 4, 6), (-2, -1), None),
    ):
        x = numbers(shape, name)
        f = lambda x: getattr(np.fft, name)(x, s=s, axes=axes)
        np.testing.assert_allclose(rune.jit(f)(x), f(x), rtol=0, atol=1e-12)
        lanes = np.stack([x, 2 * x])
        np.testing.assert_allclose(rune.jit(rune.vmap(f, 0, 1))(lanes)[:, 1], f(2 * x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ONE_AXIS)
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_derivatives(name, n):
    """A transform is linear: its tangent is the transform of the tangent, and its pullback the adjoint."""
    f = lambda x: getattr(np.fft, name)(x, n, 1, "ortho")
    x, dx = numbers((2, 6, 3), name), numbers((2, 6, 3), name)
    for apply in (lambda g: g, rune.jit):
        y, dy = apply(lambda x, dx: rune.jvp(f, (x,), (dx,)))(x, dx)
        same(y, f(x))
        same(dy, f(dx))
        ct = rng.standard_normal(y.shape) + (1j * rng.standard_normal(y.shape) if y.dtype.kind == "c" else 0)
        back = apply(lambda x: rune.vjp(f, x)[1](ct)[0])(x)
        assert back.dtype == x.dtype
        np.testing.assert_allclose(np.sum(back * dx).real, np.sum(ct * dy).real, rtol=1e-12)
    curvature = rune.jit(rune.hessian(lambda s: np.sum(np.abs(f(s * x)) ** 2)))(1.5)
    np.testing.assert_allclose(curvature, 2 * np.sum(np.abs(f(x)) ** 2))


def test_in_a_loop_without_the_host():
    x = rng.standard_normal((3, 40))

    def filtered(x):
        step = lambda carry, row: (np.fft.irfft(np.fft.rfft(carry + row) * 0.5, 40), np.fft.fft(carry)[:2])
        return rune.scan(step, np.zeros(40), x)

    for got, want in zip(rune.jit(filtered)(x), filtered(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-13)
    assert "host" not in str(rune.explain(filtered)(x))
    gradient = rune.jit(rune.grad(lambda x: np.sum(filtered(x)[0] ** 2)))
    assert "host" not in str(rune.explain(gradient)(x))
    rune.check_grads(lambda x: np.sum(filtered(x)[0] ** 2), x, modes=("reverse", "forward"))
