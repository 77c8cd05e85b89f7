"""The traced value: views and writes give what NumPy's arrays give; what would lose a derivative raises."""

import copy
import operator
import pickle
import subprocess
import sys

import numpy as np
import pytest

import rune

rng = np.random.default_rng(3)
m = rng.standard_normal((3, 4))
s = rng.standard_normal(5)
t = rng.standard_normal((2, 3, 4))
q = rng.standard_normal((3, 3))


def fresh(x):
    """A writeable copy: of a plain array, and of a traced one."""
    return np.zeros_like(x) + x


WRITES = """
y[0] = x[1]
y[-1, 2] = 5.0
y[1:, ::2] = x[:2, 1:3]
y[::-1] = x
y[::-2, 1] = [1.0, 2.0]
y[2:0:-1, ::-1] = x[:2]
y[...] = 2.0
y[:] = x[0]
y[()] = x * 2
y[..., 1] = x[:, 0] * 3
y[None, 1] = 1.0
y[:, None, 1] = x[:, None, 0]
y[[0, 2]] = x[:2]
y[[0, 2], [1, 3]] = x[0, :2]
y[:, [0, 2]] = x[:, 1:3]
y[1:, [0, 3]] = x[:2, :2] ** 2
y[::-1, [1, 2]] = x[:, 2:]
y[[0, 1, 0], 2] = x[:, 0]
y[[[0], [2]], [1, 3]] = x[:2, :2]
y[y > 0] = 0.0
y[y > 0] *= 2.0
y[y > 0] = -y[y > 0]
y[x[:, 0] > 0] = 1.0
y[x[:, 0] > 0] += 1.0
y[:, np.array([True, False, True, False])] = 3.0
y[np.array([True, False, True])] = x[:2]
y[np.ix_([0, 2], [1, 3])] = x[:2, :2]
y[1] += x[0]
y[1:, 2] *= x[0, 0]
y[[0, 2]] -= 1.0
y += x
y *= 2
y /= x + 10
y -= x[0]
y **= 2
y //= 0.3
y %= 0.3
v = y[1]; v[0] = 7.0
v = y[1]; v += x[0]
v = y.T; v[0] = x[:, 2]
v = y.T[::-1]; v[1:, 0] = 9.0
v = y.ravel(); v[5] = 7.0
v = y.reshape(2, 6); v[1] *= 3
v = y.T.ravel(); v[0] = 100.0
v = y.T.ravel(); y[0] = 100.0; y += np.sum(v)
v = y[:, ::2]; w = v[1:]; w[...] = x[1:, 1::2]
v = y[[0, 1]]; v[0] = 100.0
v = y[1]; y[1] = 0.0; y[0] = v
v = y[::-1, 1:]; y[0] = 2.0; y[2, 1:] = v[2]
v = y.copy(); v[0] = 100.0
v = y.flatten(); v[0] = 100.0
v = y * 1.0; v[0] = 100.0
a, b, c = y; a[0] = 4.0; b += c
for row in y: row[1] = np.sum(row)
for row in y: row += 1.0
v = y.diagonal(); y[0, 0] = 50.0; y[1] = np.sum(v)
v = np.split(y, 2, axis=1); v[1][0] = 3.0
v = np.moveaxis(y, 0, 1); v[2] = 1.0
v = np.squeeze(y[None]); v[0, 0] = 8.0
v = y.swapaxes(0, 1)[1:3]; v *= 2
v = np.atleast_3d(y); v[0, 0, 0] = 3.0
y.flat[3] = 2.0
y.flat = 3.0
y.fill(2.0)
y.sort()
y.sort(axis=0)
y[0].sort()
np.add.at(y, [0, 1, 0], x)
np.add.at(y, ([0, 1, 0], [1, 1, 1]), 2.0)
np.subtract.at(y, [0, 0], 1.0)
np.multiply.at(y, ([0, 0], [1, 1]), 3.0)
np.maximum.at(y, (slice(None), [0, 0, 1]), 0.5)
np.negative.at(y, [0, 2])
np.add.at(y[1:], [0, 1, 0], x)
np.add.at(y, 1, x[0])
np.copyto(y, x[0])
np.copyto(y, 0.0, where=x > 0)
np.put(y, [1, 5, -1], x[0, :3])
np.put(y, [1, 50], 1.0, mode="clip")
y.put([0, 1], [5.0, 6.0])
np.put_along_axis(y, np.argmax(x, 1)[:, None], 99.0, axis=1)
np.fill_diagonal(y, x[0, :3])
np.fill_diagonal(y[:, :3], 4.0)
np.putmask(y, x > 0, x * 10)
np.place(y, np.arange(12).reshape(3, 4) % 2 == 0, [1.0, 2.0])
np.sin(x, out=y)
np.add(x, 1.0, out=y)
np.add(x, 1.0, out=y, where=x > 0)
np.sum(x, axis=0, out=y[1])
np.cumsum(x, axis=1, out=y)
np.cumsum(x, 1, None, y)
np.sum(x, 0, None, y[2])
x.sum(0, None, y[1])
y[:, 0] = np.max(a=x, axis=1) + np.sum(a=x)
np.divmod(x, 0.3, out=(y, None))
np.matmul(x[:, :3], x, out=y)
np.clip(x, -0.1, 0.1, out=y)
np.concatenate([x[:1], x[1:]], out=y)
np.einsum('ii->i', y[:, :3])[...] = 5.0
np.einsum('iji->ji', y[None, :, :1])[0] = x[0, 0]
""".strip().splitlines()


def written(line):
    """A function that makes a writeable copy of x, runs the statement and returns the copy."""
    scope = {"np": np, "fresh": fresh}
    exec(f"def f(x):\n    y = fresh(x)\n    {line}\n    return y", scope)
    return scope["f"]


@pytest.mark.parametrize("line", WRITES)
def test_writes_are_numpys(line):
    f = written(line)
    want = f(m)
    weight = rng.standard_normal(m.shape)
    objective = lambda x: np.sum(weight * f(x))
    lanes = np.stack([m, m * 1.01])
    each = np.stack([f(x) for x in lanes])
    np.testing.assert_allclose(rune.jit(f)(m), want, rtol=1e-12)
    np.testing.assert_allclose(rune.vmap(f)(lanes), each, rtol=1e-12)
    np.testing.assert_allclose(rune.jit(rune.vmap(f))(lanes), each, rtol=1e-12)
    d = rng.standard_normal(m.shape)
    slope = (objective(m + 1e-6 * d) - objective(m - 1e-6 * d)) / 2e-6
    for gradient in (rune.grad(objective), rune.jit(rune.grad(objective)), rune.grad(rune.jit(objective))):
        np.testing.assert_allclose(np.sum(gradient(m) * d), slope, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(rune.jvp(objective, (m,), (d,))[1], slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("wrap", [rune.jit, lambda f: lambda z: rune.vmap(f)(z[None])[0]])
def test_parts_of_complex_numbers_are_written(wrap):
    def f(z):
        y = z * 1
        y.real[1] = 5.0
        y.imag = 2.0
        y.real *= 2
        return y

    z = np.array([1 + 1j, 2 - 1j])
    np.testing.assert_array_equal(wrap(f)(z), f(z))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, np.uint8, bool, complex])
def test_a_write_keeps_the_dtype(dtype):
    def f(x):
        y = x.astype(dtype)
        y[0] = 1.75
        y[1:3] = x[1:3]
        return y

    got = rune.jit(f)(s)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, f(s), rtol=1e-6)


ERRORS = [
    (
        lambda y: y.__setitem__(slice(None), np.ones(2)),
        ValueError,
        r"could not broadcast input array from shape \(2,\) into shape \(5,\)",
    ),
    (lambda y: y.__setitem__(7, 1.0), IndexError, "index 7 is out of bounds for axis 0 with size 5"),
    (lambda y: y[[0, 9]], IndexError, "index 9 is out of bounds for axis 0 with size 5"),
    (lambda y: y[0, 0], IndexError, "too many indices for array: array is 1-dimensional, but 2 were indexed"),
    (lambda y: y[..., ...], IndexError, "single ellipsis"),
    (lambda y: y["a"], IndexError, "only integers"),
    (lambda y: y[np.ones(3, bool)], IndexError, "boolean index did not match"),
    (lambda y: y[[0, 1], [0]], IndexError, "too many indices"),
    (lambda y: y.__setitem__(0, 1j), TypeError, "complex"),
    (lambda y: operator.iadd(y, 1j), TypeError, "same_kind"),
    (lambda y: operator.iadd(y, np.ones((2, 5))), ValueError, "non-broadcastable output operand"),
    (lambda y: y.reshape(2, 2), ValueError, r"cannot reshape array of size 5 into shape \(2, ?2\)"),
    (lambda y: y @ np.ones(3), ValueError, "matmul: Input operand 1 has a mismatch"),
    (lambda y: np.broadcast_to(y, (2, 5)).__setitem__(0, 1.0), ValueError, "read-only"),
    (lambda y: np.diagonal(y[None]).__setitem__(0, 1.0), ValueError, "read-only"),
    (lambda y: np.concatenate([y, y[None]]), ValueError, "dimension"),
    (lambda y: np.sum(y, axis=3), np.exceptions.AxisError, "axis 3 is out of bounds"),
    (lambda y: y.nothing, AttributeError, "nothing"),
    (lambda y: setattr(y, "shape", (5, 1)), AttributeError, "reshape"),
    (lambda y: len(y[0]), TypeError, "unsized"),
    (lambda y: list(y[0]), TypeError, "0-d"),
    (lambda y: y * np.ma.masked_array([1.0] * 5), TypeError, "masked"),
    (lambda y: y[:, None] * np.matrix([1.0] * 5), TypeError, "matrix"),
    (lambda y: y + np.ones(5, object), TypeError, "object"),
    (lambda y: y + np.ones(5, np.longdouble), TypeError, "not supported"),
    (lambda y: pickle.dumps(y), rune.TracedValueError, "pickle"),
    (lambda y: hash(y), TypeError, "unhashable"),
    (lambda y: np.save("/dev/null", y), TypeError, "numpy.save has no rule"),
]


@pytest.mark.parametrize("f, kind, message", ERRORS, ids=[e[2] for e in ERRORS])
@pytest.mark.parametrize("transform", [rune.jit, rune.grad])
def test_errors_are_numpys(transform, f, kind, message):
    with pytest.raises(kind, match=message):
        transform(lambda x: (f(fresh(x)), np.sum(x))[1])(s)


def test_shapes_that_depend_on_values_work_where_values_are_known():
    def f(x):
        chosen = x[x > 0]
        return (
            np.sum(chosen**2) + np.sum(np.unique(x)) + x[np.nonzero(x)[0]][0] + np.sum(np.union1d(x, x * 2))
        )

    up = np.array([0.5, -1.0, 2.0])
    padded = np.array([0.0, 1.0, 0.0, 2.0, 0.0, 0.0])
    for trim in ("fb", "f", "b"):
        g = rune.grad(lambda x: np.sum(np.trim_zeros(x, trim) * np.trim_zeros(padded, trim)))
        np.testing.assert_array_equal(g(padded), padded)
    np.testing.assert_allclose(rune.grad(f)(up), 2 * up * (up > 0) + 1 + np.array([1, 0, 0]) + 3)
    for reading in (
        lambda x: x[x > 0],
        np.unique,
        np.nonzero,
        np.flatnonzero,
        np.argwhere,
        lambda x: np.compress(x > 0, x),
    ):
        with pytest.raises(rune.TracedValueError, match=r"traced by rune\.jit.*write "):
            rune.jit(lambda x: np.sum(reading(x)))(up)


def test_a_selection_takes_scalars_and_goes_back_where_it_came_from():
    def f(x):
        y = fresh(x)
        y[y > 0.1] = np.sqrt(y[y > 0.1]) * 2 + 1
        return y

    g = rune.jit(rune.grad(lambda x: np.sum(f(x))))
    np.testing.assert_allclose(rune.jit(f)(s), f(s))
    assert np.all(np.isfinite(g(s)))
    bad = [
        lambda x: x[x > 0] + np.ones(2),
        lambda x: np.sum(x[x > 0]),
        lambda x: x[x > 0] + x[x > 1],
        lambda x: x[x > 0].mean(),
        lambda x: np.asarray(x[x > 0]),
    ]
    for h in bad:
        with pytest.raises(rune.TracedValueError, match=r"^boolean index: the value is traced by rune\.jit"):
            rune.jit(h)(s)


def test_traced_indices():
    k = np.array([3, 0, -1])

    def f(x, k):
        y = fresh(x)
        y[k[0]] = 5.0
        y[k[1:]] += x[k[:2]]
        y[1:][k[1]] = 2.0
        return y[k], y[k[0]], y[None, k], y[:, None][k, 0], np.take(x, k[2])

    for got, want in zip(rune.jit(f)(s, k), f(s, k), strict=True):
        np.testing.assert_allclose(got, want)
    with pytest.raises(IndexError):
        rune.jit(lambda x, k: x[k])(s, np.array(7))


def test_copies_are_independent():
    def f(x):
        a, b = copy.copy(x), copy.deepcopy(x)
        a[0], b[1] = 1.0, 2.0
        return np.stack([x, a, b])

    want = np.stack([s, s, s])
    want[1, 0], want[2, 1] = 1.0, 2.0
    np.testing.assert_array_equal(rune.jit(f)(s), want)


def test_augmented_assignment_rebinds_only_what_is_unshared():
    def view_of_another(x):
        y = np.zeros((2, 3))
        z = y[0]
        z += x
        return np.sum(y)

    def in_a_closure(x):
        y = np.zeros(3)
        keep = [y]
        y += x
        return np.sum(keep[0])

    def of_a_row(x):
        y = np.zeros((2, 3))
        y[0] += x
        return np.sum(y)

    x = s[:3]
    for f in (view_of_another, in_a_closure, of_a_row):
        with pytest.raises((rune.TracedValueError, ValueError)) as error:
            rune.grad(f)(x)
        assert any(isinstance(e, rune.TracedValueError) for e in (error.value, error.value.__cause__))

    def reshaped(x):
        y = np.arange(3.0).reshape(3, 1)
        y += x[:, None]
        y @= np.ones((1, 1))
        return np.sum(y * y)

    np.testing.assert_allclose(rune.grad(reshaped)(x), 2 * (x + np.arange(3)))

    def cast(x):
        y = np.zeros(3, np.float32)
        y += x
        assert y.dtype == np.float32
        return np.sum(y)

    np.testing.assert_allclose(rune.grad(cast)(x), np.ones(3))

    def no_cast(x):
        y = np.zeros(3, int)
        y += x
        return np.sum(y)

    with pytest.raises(TypeError, match="same_kind"):
        rune.grad(no_cast)(x)


def test_properties():
    def f(x):
        assert x.shape == (2, 3, 4) and x.ndim == 3 and x.size == 24 and x.nbytes == 192 and x.itemsize == 8
        assert x.dtype == np.float64 and x.strides == (96, 32, 8) and x.flags.c_contiguous and x.base is None
        assert np.shape(x) == (2, 3, 4) and np.ndim(x) == 3 and np.size(x, 1) == 3 and len(x) == 2
        assert np.result_type(x, np.float32) == np.float64 and np.can_cast(x, complex)
        assert (
            x.__array_namespace__().sin is np.sin
            and x.device == "cpu"
            and x.to_device("cpu").shape == x.shape
        )
        return x

    rune.jit(f)(t)
    rune.grad(lambda x: np.sum(f(x)))(t)


def test_printing_reads_where_it_can():
    seen = []
    rune.grad(lambda x: (seen.append((str(x), repr(x), f"{x[0]:.2f}", np.array_str(x))), np.sum(x))[1])(
        np.array([1.5, 2.0])
    )
    assert seen == [("[1.5 2. ]", "[1.5 2. ]", "1.50", "[1.5 2. ]")]
    rune.jit(lambda x: (seen.append(repr(x)), x)[1])(s)
    assert seen[1] == "<float64 [5] traced by rune.jit>"


def test_scipys_array_api_mode():
    """SciPy's Python functions work on traced values where its array API mode was on before import."""
    code = """
import os
os.environ["SCIPY_ARRAY_API"] = "1"
import numpy as np, rune, scipy.special as sp, scipy.stats
m = np.array([[0.1, 2.0, -1.0], [3.0, 0.5, 1.0]])
for f in (sp.logsumexp, sp.softmax, sp.log_softmax, scipy.stats.zscore, lambda x, axis: sp.expit(x)):
    g = lambda x: f(x, axis=-1)
    np.testing.assert_allclose(rune.jit(g)(m), g(m), rtol=1e-12)
    np.testing.assert_allclose(rune.vmap(g)(m), g(m), rtol=1e-12)
    L = lambda x: np.sum(np.asarray([1.0, -2.0, 0.5]) * g(x) ** 2) if g(m).ndim > 1 else np.sum(g(x) ** 2)
    d = np.cos(m)
    slope = (L(m + 1e-6 * d) - L(m - 1e-6 * d)) / 2e-6
    np.testing.assert_allclose(np.sum(rune.grad(L)(m) * d), slope, rtol=1e-6, atol=1e-8)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_array_api_namespace_makes_arrays_that_can_be_written():
    def f(x):
        xp = x.__array_namespace__(api_version="2024.12")
        y = xp.zeros(3)
        y[0] = x[1]
        return (
            xp.asarray([x[0], 2.0, y[0]])
            + y
            + xp.full(3, x[2])
            + xp.astype(xp.ones(3), x.dtype) * xp.asarray(x)[0]
        )

    x = np.array([1.0, 2.0, 3.0])
    want = [1 + 2 + 3 + 1, 2 + 3 + 1, 2 + 3 + 1]
    np.testing.assert_array_equal(rune.jit(f)(x), want)
    np.testing.assert_array_equal(rune.grad(lambda x: np.sum(f(x)))(x), [4.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="array API version 2030"):
        rune.jit(lambda x: x.__array_namespace__(api_version="2030.01"))(x)


def test_arrays_made_inside_a_transformation_take_its_values():
    def inner(x):
        def loss(w):
            y = np.zeros_like(x)
            y[0] = w
            y[1:] = y[1:] + x[1:] * w
            z = x * 0
            z[:] = y * w
            return np.sum(z)

        return rune.grad(loss)(2.0)

    want = 4.0 + 4.0 * np.sum(s[1:])
    np.testing.assert_allclose(rune.jit(inner)(s), want)
    np.testing.assert_allclose(rune.vmap(inner)(np.stack([s, s * 2])), [want, 4.0 + 8.0 * np.sum(s[1:])])

    def leaking(x):
        y = x * 1

        def loss(w):
            y[0] = w
            return np.sum(y)

        return rune.grad(loss)(2.0)

    with pytest.raises(rune.TracedValueError, match=r"an array of rune\.jit is written inside rune\.grad"):
        rune.jit(leaking)(s)


def random_index(rng, shape):
    """Slices, ints, new axes, an ellipsis, integer arrays that broadcast, and masks."""
    parts, k, dots = [], 0, False
    together = tuple(rng.integers(1, 4, rng.integers(0, 3)))
    while k < len(shape) and rng.random() < 0.85:
        kind, n = rng.random(), shape[k]
        if kind < 0.3:
            start, stop = (None if rng.random() < 0.4 else int(rng.integers(-n - 2, n + 3)) for _ in range(2))
            parts.append(slice(start, stop, rng.choice([None, 2, 3, -1, -2])))
        elif kind < 0.45:
            parts.append(int(rng.integers(-n, n)))
        elif kind < 0.6:
            parts.append(None if kind < 0.53 or dots else Ellipsis)
            dots = dots or parts[-1] is Ellipsis
            continue
        elif kind < 0.88:
            parts.append(rng.integers(-n, n, [1 if rng.random() < 0.2 else m for m in together]))
        else:
            parts.append(rng.random(shape[k : k + 2]) < 0.5)
            k += len(shape[k : k + 2]) - 1
        k += 1
    return tuple(parts)


@pytest.mark.parametrize("seed", range(60))
def test_random_indices_are_numpys(seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rng.integers(1, 5, rng.integers(1, 5)))
    index = random_index(rng, x.shape)
    try:
        want = x[index]
    except IndexError:
        with pytest.raises(IndexError):
            rune.jit(lambda x: x[index])(x)
        return
    values = rng.standard_normal(np.shape(want))

    def write(x):
        y = fresh(x)
        y[index] = values * np.sum(x)
        z = y[::-1]
        z[index] *= 2.0
        np.add.at(y, index, values)
        return y

    lanes = np.stack([x, x + 1])
    np.testing.assert_array_equal(rune.jit(lambda x: x[index])(x), want)
    np.testing.assert_array_equal(rune.vmap(lambda x: x[index])(lanes), np.stack([x[index] for x in lanes]))
    np.testing.assert_allclose(rune.jit(write)(x), write(x), rtol=1e-9)
    np.testing.assert_allclose(rune.vmap(write)(lanes), np.stack([write(x) for x in lanes]), rtol=1e-9)
    d, weight = rng.standard_normal((2, *x.shape))
    L = lambda x: np.sum(weight * write(x))
    slope = (L(x + 1e-6 * d) - L(x - 1e-6 * d)) / 2e-6
    np.testing.assert_allclose(np.sum(rune.grad(L)(x) * d), slope, rtol=1e-5, atol=1e-5)
