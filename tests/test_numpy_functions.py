"""NumPy's functions: compiled and mapped they give what NumPy gives; their derivatives are differences.

A case is an expression over the inputs below.  One law each for values, lanes and derivatives runs
over all of them; a function is covered by adding a line.
"""

import numpy as np
import pytest

import rune

rng = np.random.default_rng(11)
INPUTS = {
    "s": rng.standard_normal(5),
    "v": rng.uniform(0.2, 0.9, 5),
    "w": rng.uniform(1.1, 2.5, 5),
    "m": rng.standard_normal((3, 4)),
    "n": rng.standard_normal((4, 2)),
    "q": rng.standard_normal((3, 3)) + 3 * np.eye(3),
    "t": rng.standard_normal((2, 3, 4)),
    "z": rng.standard_normal(4) + 1j * rng.standard_normal(4),
    "Z": rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3)) + 2 * np.eye(3),
    "f": rng.standard_normal(4).astype(np.float32),
    "h": rng.uniform(0.2, 0.9, 4).astype(np.float16),
    "k": np.array([3, 1, 4, 1, 5]),
    "i": np.array([2, 0, 2]),
    "u": np.array([3, 250, 7], np.uint8),
    "j": np.array([-3, 100, 7], np.int8),
    "b": np.array([True, False, True, True, False]),
    "nan": np.array([1.0, np.nan, -2.0, 0.5, np.inf]),
}

ELEMENTWISE = """
np.add(s, v, dtype=np.float32)
np.add(s, v, out=np.zeros_like(s), where=b)
np.divide(s, v, out=np.ones_like(s), where=v > 0.5)
np.multiply(k, 2.5)
np.add(u, 5)
u + np.uint8(10)
j * 2
j - 2.0
k // 2
k % 3
-k % 3
k ** 2
2 ** k
s ** 3
s ** 2
w ** 0.5
w ** -1
w ** 1
w ** 0
w ** 4
np.power(v, [0.0, 1.0, 2.0, 0.5, 3.0])
np.power(w, k)
f ** 2
f * 2.0 + 1
f * np.float64(2.0)
f + k[:4]
h * 2
1 / w
2 - s
3.0 % w
7 // w
divmod(w, 0.7)
divmod(5.0, w)
np.divmod(k, 2)
np.modf(w)
np.frexp(w)
np.ldexp(s, 3)
abs(s)
+s
-s
~k
k & 3
k | 8
k ^ 5
k << 2
k >> 1
b & True
b | (s > 0)
~b
s < v
s >= 0
s == s
s != v
(s > 0) & (v > 0.5)
np.logical_and(s, v)
np.logical_not(s)
np.invert(b)
np.fabs(s)
np.positive(s)
np.float_power(w, 2)
np.sign(s)
np.heaviside(s, 0.5)
np.degrees(s)
np.radians(s)
np.rint(s)
np.trunc(s * 3)
np.fix(s * 3)
np.round(s, 2)
np.round(k * 7, -1)
s.round(1)
np.clip(s, -0.5, None)
np.clip(s, None, 0.5)
np.clip(s, max=0.5, min=-0.5)
s.clip(-0.3, 0.3)
s.clip(max=0.1)
np.clip(k, 2, 4)
np.clip(f, 0, 1)
np.clip(s, v - 1, v)
np.where(s > 0, s, 0)
np.where(b, k, s)
np.where(f > 0, f, 0)
np.where(b, 1, 2)
np.select([s > 0.5, s < -0.5], [s, s ** 2])
np.select([k > 3, k < 2], [k, -k], 7)
np.piecewise(s, [s < 0, s >= 0], [lambda x: -x, lambda x: x ** 2])
np.piecewise(s, [s < 0], [-1.0, 2.0])
np.nan_to_num(nan)
np.nan_to_num(nan, nan=1.0, posinf=5.0)
np.isnan(nan)
np.isfinite(nan)
np.isinf(nan)
np.isposinf(nan)
np.isneginf(nan)
np.signbit(s)
np.isclose(s, s + 1e-9)
np.allclose(s, s)
np.array_equal(s, v)
np.array_equiv(s, v)
np.real(z)
np.imag(z)
z.real
z.imag
np.abs(z)
np.angle(z)
np.angle(z, deg=True)
np.angle(s)
np.conj(z)
z.conj()
s.conj()
np.exp(1j * s)
z * z
z / (z + 1)
z ** 2
np.sqrt(z)
np.log(z)
np.sin(z)
np.tanh(z)
np.real(s)
np.imag(s)
np.isreal(z)
np.iscomplex(z)
np.sinc(s)
np.sinc(np.zeros(3) * s[0])
np.i0(s)
np.unwrap(s * 4)
np.spacing(w)
np.gcd(k, 6)
np.lcm(k, 6)
np.bitwise_count(k)
np.maximum(s, 0)
np.fmax(s, v)
np.copysign(w, s)
np.nextafter(w, 3.0)
np.hypot(s, v)
np.arctan2(s, v)
np.logaddexp(s, v)
np.remainder(w, 0.3)
np.fmod(-w, 0.3)
np.floor_divide(w, 0.3)
np.square(k)
np.reciprocal(w)
np.sqrt(k)
np.exp(f)
np.exp(h)
np.interp(v, [0.0, 0.5, 1.0], [1.0, 3.0, -2.0])
np.interp(s, np.array([-0.5, 0.0, 0.5]), np.array([1.0, 3.0, -2.0]), left=-7.0, right=9.0)
np.interp(s, np.sort(w) - 2, w)
np.interp(s * 5, np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, -2.0]), period=3.0)
"""

REDUCTIONS = """
np.sum(k)
np.sum(b)
np.sum(u)
np.sum(j)
np.sum(f)
np.sum(h)
np.sum(z)
np.sum(m, axis=-1)
np.sum(t, axis=(0, -1))
np.sum(t, axis=(0, 2), keepdims=True)
np.sum(t, ())
np.sum(m, dtype=np.float32)
np.sum(m, where=m > 0, axis=0)
np.sum(m, initial=5.0, axis=1)
np.sum(m, where=np.array([True, False, True, True]))
t.sum(-1, keepdims=True)
sum(s)
np.prod(m, axis=0)
np.prod(k)
np.prod(m, where=m > 0)
np.max(m)
np.max(m, axis=(0, 1))
np.max(m, axis=0, keepdims=True)
np.max(k)
np.max(m, initial=0.5)
np.max(m, where=m > 0, initial=-1.0)
m.min(1)
np.amin(t, (1, 2))
np.any(m > 1)
np.all(m > -3, axis=1)
np.any(k)
m.any(0)
np.mean(k)
np.mean(f)
np.mean(h)
np.mean(m, axis=1, keepdims=True)
np.mean(m, where=m > 0)
np.mean(z)
np.mean(m, dtype=np.float32)
np.var(m)
np.var(m, axis=0, ddof=1)
np.var(z)
np.var(k)
np.var(m, where=m > 0)
np.var(m, correction=1)
np.std(np.zeros(3) * s[0])
np.max(z)
np.min(Z, axis=0)
np.std(m, axis=1, keepdims=True)
np.std(f)
np.ptp(m, axis=1)
np.argmax(m)
np.argmax(m, axis=1)
np.argmin(m, axis=0, keepdims=True)
m.argmax(0)
np.argmax(nan)
np.count_nonzero(m > 0)
np.count_nonzero(m > 0, axis=1)
np.cumsum(m)
np.cumsum(m, axis=0)
np.cumsum(k)
np.cumsum(b)
m.cumsum(1)
np.cumprod(m, axis=1)
np.cumulative_sum(s)
np.cumulative_sum(m, axis=1, include_initial=True)
np.cumulative_prod(s, include_initial=True)
np.nansum(nan)
np.nanprod(nan)
np.nanmean(nan[:4])
np.nanvar(nan[:4])
np.nanstd(nan[:4])
np.nanmax(nan)
np.nanmin(nan)
np.nanargmax(nan)
np.nanargmin(nan)
np.nancumsum(nan)
np.nanmedian(nan)
np.nanquantile(nan[:4], 0.3)
np.average(m)
np.average(m, axis=0, weights=[1, 2, 3])
np.average(m, weights=np.abs(m))
np.average(m, axis=1, weights=np.arange(1.0, 5.0), returned=True)
np.average(k)
np.median(m)
np.median(m, axis=0)
np.median(m, axis=(0, 1), keepdims=True)
np.median(s)
np.median(k)
np.median(nan)
np.quantile(m, 0.3)
np.quantile(m, [0.1, 0.5], axis=1)
np.quantile(s, 0.4, method="lower")
np.quantile(k, 0.4, method="nearest")
np.quantile(f, [0.1, 0.7])
np.quantile(f, 0.7)
np.percentile(f, 40, method="hazen")
np.nanquantile(f, 0.25)
np.quantile(s, 0.4, method="higher")
np.quantile(s, 0.4, method="nearest")
np.quantile(s, 0.4, method="midpoint")
np.quantile(s, 0.4, method="median_unbiased")
np.quantile(s, 0.4, method="hazen")
np.quantile(s, 0.4, method="weibull")
np.quantile(s, 0.4, method="inverted_cdf")
np.quantile(s, 0.4, method="averaged_inverted_cdf")
np.quantile(s, 0.4, method="closest_observation")
np.quantile(s, 0.4, method="interpolated_inverted_cdf")
np.quantile(s, 0.4, method="normal_unbiased")
np.percentile(m, 30, axis=1)
np.percentile(m, [0, 100])
np.diff(m)
np.diff(m, axis=0)
np.diff(s, prepend=0.0)
np.diff(s, prepend=v[:2], append=1)
np.diff(b)
np.ediff1d(s)
np.ediff1d(s, to_begin=0.0, to_end=[1.0, 2.0])
np.trapezoid(m, axis=0)
np.trapezoid(s, w)
np.trapezoid(m, dx=0.5)
np.gradient(s)
np.gradient(m)
np.gradient(m, 0.5, axis=1)
np.gradient(m, 0.5, 2.0)
np.gradient(s, np.cumsum(w))
np.gradient(s, edge_order=2)
np.gradient(s, np.cumsum(w), edge_order=2)
np.cov(m)
np.cov(m, rowvar=False)
np.cov(s, v)
np.cov(m, bias=True)
np.cov(m, aweights=[1.0, 2.0, 3.0, 4.0])
np.cov(m, fweights=[1, 2, 3, 4])
np.corrcoef(m)
np.corrcoef(s, v)
np.add.reduce(m)
np.add.reduce(m, axis=None)
np.multiply.reduce(m, 1)
np.maximum.reduce(m, axis=(0, 1))
np.subtract.reduce(m)
np.logaddexp.reduce(s)
np.logaddexp.reduce(m, axis=1, keepdims=True)
np.logaddexp2.reduce(s)
np.logical_and.reduce(m > -1, axis=1)
np.bitwise_or.reduce(k)
np.bitwise_and.reduce(k)
np.hypot.reduce(s)
np.fmax.reduce(nan)
np.add.accumulate(m, axis=1)
np.multiply.accumulate(s)
np.minimum.accumulate(m, axis=1)
np.logaddexp.accumulate(s)
np.subtract.accumulate(s)
np.divide.accumulate(w)
np.add.outer(s, v)
np.subtract.outer(m, s)
np.maximum.outer(s, v)
np.power.outer(w, v)
np.add.reduceat(s, [0, 3, 1])
np.add.reduceat(m, [0, 2], axis=1)
np.multiply.reduceat(s, [0, 2, 4])
np.histogram(s, bins=[-2.0, 0.0, 0.5, 3.0])
np.histogram(s, bins=4)
np.histogram(s, bins=4, range=(-1, 1), density=True)
np.histogram(s, bins=[-3.0, 0.0, 3.0], weights=v)
np.histogram2d(s, v, bins=[2, 3])
np.histogram_bin_edges(s, 3)
np.bincount(k, minlength=8)
np.bincount(k, weights=s, minlength=7)
np.digitize(s, [-0.5, 0.0, 0.5])
np.digitize(s, [0.5, 0.0, -0.5], right=True)
np.searchsorted(np.sort(s), v)
np.searchsorted([0.0, 0.5, 1.0], v, side="right")
np.sort(w).searchsorted(1.5)
"""

SHAPES = """
m.reshape(4, 3)
m.reshape((2, -1))
m.reshape(-1)
m.reshape(3, 2, 2, order="F")
np.reshape(m, -1, order="F")
m.ravel()
m.flatten("F")
np.ravel(t)
m.flat[3]
t.T
t.mT
np.matrix_transpose(t)
t.transpose(1, 0, 2)
t.transpose((2, 1, 0))
np.permute_dims(t, (1, 2, 0))
np.transpose(m)
np.swapaxes(t, 0, -1)
t.swapaxes(1, 2)
np.moveaxis(t, [0, 1], [-1, 0])
np.rollaxis(t, 2)
np.squeeze(m[None, :, None])
np.squeeze(m[None, :, None], axis=0)
np.expand_dims(m, -1)
np.expand_dims(m, (0, 3))
np.atleast_1d(s[0])
np.atleast_2d(s, m)
np.atleast_3d(m)
np.broadcast_to(s, (2, 3, 5))
np.broadcast_to(s[0], 3)
np.broadcast_arrays(s[:, None], v)
np.concatenate([m, m * 2], axis=1)
np.concatenate((m, q[:, :2]), -1)
np.concatenate([m, m], axis=None)
np.concatenate([k, s])
np.concatenate([f, f.astype(np.float64)])
np.concatenate([s, v], dtype=np.float32)
np.concat([s, v])
np.stack([s, v])
np.stack([s, v], axis=-1)
np.stack([s[0], 1.0, v[2]])
np.stack(m)
np.hstack([s, v])
np.hstack([m, m])
np.vstack([s, v])
np.dstack([s, v])
np.column_stack([s, v])
np.column_stack([s, np.outer(s, v)])
np.block([[m, m], [m * 2, m]])
np.block([s, v])
np.block([[q, np.zeros((3, 2))], [np.ones((2, 3)), np.eye(2)]])
np.append(s, 1.0)
np.append(m, m, axis=0)
np.split(m, 2, axis=1)
np.split(s, [1, 3])
np.array_split(s, 3)
np.hsplit(m, 2)
np.vsplit(m, 3)
np.dsplit(t, 2)
np.unstack(m)
np.unstack(m, axis=1)
np.tile(s, 2)
np.tile(m, (2, 1))
np.tile(m, (2, 1, 3))
np.repeat(m, 2)
np.repeat(m, [1, 0, 2], axis=0)
m.repeat(3, 1)
np.flip(m)
np.flip(m, 0)
np.flipud(m)
np.fliplr(m)
np.rot90(m)
np.rot90(m, 2)
np.rot90(m, 3)
np.rot90(t, -1, (1, 2))
np.roll(m, 1)
np.roll(m, -1, axis=0)
np.roll(m, (1, 2), axis=(0, 1))
np.delete(s, 1)
np.delete(m, [0, 2], axis=1)
np.delete(s, slice(1, 3))
np.insert(s, 2, 9.0)
np.insert(s, [1, 3], v[:2])
np.insert(m, 1, m[0], axis=0)
np.insert(m, 1, 5.0, axis=1)
np.resize(s, (2, 4))
np.pad(m, 1)
np.pad(m, ((0, 1), (2, 0)), constant_values=5.0)
np.pad(s, (1, 2), constant_values=(1.0, 2.0))
np.pad(s, 2, mode="edge")
np.pad(s, 3, mode="reflect")
np.pad(s, 7, mode="reflect")
np.pad(s, 2, mode="reflect", reflect_type="odd")
np.pad(s, 3, mode="symmetric")
np.pad(s, 3, mode="symmetric", reflect_type="odd")
np.pad(s, 7, mode="wrap")
np.pad(m, 1, mode="wrap")
np.pad(s, 2, mode="linear_ramp", end_values=1.0)
np.pad(s, 2, mode="mean")
np.pad(s, 2, mode="maximum", stat_length=2)
np.pad(s, 2, mode="minimum")
np.pad(s, 2, mode="median")
np.pad(k, 2, mode="mean")
np.pad(m, {1: (1, 2)})
np.tril(m)
np.tril(t, -1)
np.triu(m, 1)
np.triu(s)
np.diag(s)
np.diag(s, 2)
np.diag(s, -1)
np.diag(m)
np.diag(m, 1)
np.diagflat(n)
np.diagonal(m, -1)
np.diagonal(t, 0, 1, 2)
t.diagonal(1, 0, 2)
np.linalg.diagonal(t)
np.trace(q)
np.trace(m, 1)
t.trace(0, 1, 2)
np.trace(k.reshape(5, 1))
np.linalg.trace(t[:, :, :3])
np.meshgrid(s, v)
np.meshgrid(s, v, indexing="ij")
np.meshgrid(s, v, w, sparse=True)
np.zeros_like(s)
np.ones_like(m, dtype=np.float32)
np.full_like(s, 2.5)
np.full_like(k, 7)
np.empty_like(s) * 0
np.ones_like(s, shape=(2, 2))
np.copy(m)
m.copy()
s.astype(np.float32)
s.astype(int)
k.astype(float)
s.astype(complex)
np.astype(s, np.float32)
np.linspace(s[0], s[1], 7)
np.linspace(s[:2], v[:2], 3)
np.linspace(s[:2], v[:2], 3, axis=1)
np.linspace(s[0], s[1], 5, endpoint=False)
np.linspace(s[0], s[1], 5, retstep=True)
np.logspace(v[0], v[1], 4)
np.geomspace(w[0], w[1], 5)
np.vander(s)
np.vander(s, 3, increasing=True)
np.lib.stride_tricks.sliding_window_view(s, 3)
np.lib.stride_tricks.sliding_window_view(m, (2, 2))
np.apply_along_axis(np.cumsum, 1, m)
np.apply_along_axis(np.sum, 0, m)
np.apply_along_axis(lambda r: np.outer(r, r), 1, m)
np.apply_over_axes(np.sum, t, (0, 2))
np.unravel_index(k, (2, 3))
np.ravel_multi_index((i, i), (3, 3))
np.packbits(b)
np.unpackbits(u)
"""

INDEXING = """
m[1]
m[-1, 2]
m[1:, ::2]
m[::-1]
m[::-2, ::-1]
m[2:0:-1, 1]
m[5:]
m[..., 1]
m[None]
m[:, None, 1]
t[0, ..., 1]
t[..., None]
m[np.array([0, 2])]
m[[0, 2, 1], [1, 1, 3]]
m[[[0, 1], [2, 0]]]
m[:, [0, 2]]
m[1:, [0, 0]]
t[0, :, [1, 2]]
t[:, [0, 2], 1]
t[[0, 1], :, [1, 2]]
t[[0, 1], 1, [1, 2]]
t[:, [[0], [1]], [0, 2]]
t[None, [0, 1], :, None]
m[[True, False, True]]
m[:, np.array([True, False, True, True])]
m[np.ix_([0, 2], [1, 3])]
s[np.array(2)]
s[np.int64(-1)]
s[np.argmax(s)]
m[np.argmin(m[:, 0])]
m[:, np.argmin(m[0])]
m[np.argsort(m[:, 0])]
m[np.argmax(m, 0), np.arange(4)]
m[i]
m[i, i]
m[i, 1:]
t[i % 2, :, i]
s[k - 1]
s[-k]
s[i][::-1]
np.take(m, [0, 2], axis=1)
np.take(m, 5)
np.take(m, i)
np.take(m, [5, -7], mode="wrap")
np.take(m, [50, -7], mode="clip")
m.take(i, 0)
np.take(m, [[0, 1], [1, 2]], 1)
np.take_along_axis(m, np.argsort(m, 0), 0)
np.take_along_axis(m, np.argmax(m, 1)[:, None], 1)
np.take_along_axis(s, k - 1, None)
np.sort(m)
np.sort(m, axis=0)
np.sort(m, axis=None)
np.sort(nan)
np.sort(k)
np.argsort(s)
np.argsort(m, axis=0)
np.argsort(-s, kind="stable")
np.lexsort((s, k))
np.partition(s, 2)[2]
np.choose(i, [s[:3], v[:3], w[:3]])
np.choose([0, 1, 0], [s[:3], 1.0])
np.compress([True, False, True], m, axis=0)
m.compress([True, False, True, True], 1)
np.extract([True, False, True, False, True], s)
np.isin(k, [1, 4])
np.ix_([0, 1], [1, 2])[0] * s[0]
[x * 2 for x in s]
list(s)
len(m) * s
tuple(m)
np.array_split(s, 2)[0][0]
"""

PRODUCTS = """
m @ n
t @ n
m[0] @ n
m @ n[:, 0]
s @ v
t @ np.swapaxes(t, 1, 2)
t[:, None] @ n
k @ k
b @ b
np.array([1.0, 2.0, 3.0]) @ m
m @ [1.0, 2.0, 3.0, 4.0]
[1.0, 2.0, 3.0] @ m
np.matmul(m, n)
np.matmul(t, n, axes=[(-2, -1), (-2, -1), (-1, -2)])
np.dot(s, v)
np.dot(m, n)
np.dot(t, n)
np.dot(t, np.stack([n, n]))
np.dot(m, 2.0)
np.dot(f, 2.0)
m.dot(n)
z @ z
Z @ Z
np.vdot(s, v)
np.vdot(z, z)
np.vdot(m, m)
np.vecdot(m, m)
np.vecdot(z, z)
np.vecdot(m, m, axis=0)
np.matvec(t, n[:, 0])
np.vecmat(m[:, 0], m)
np.inner(s, v)
np.inner(m, t)
np.inner(m, 3.0)
np.outer(s, v)
np.outer(m, s)
np.tensordot(m, n, 1)
np.tensordot(s, v, 0)
np.tensordot(t, m, axes=([1, 2], [0, 1]))
np.tensordot(t, t, axes=((0, 2), (0, 2)))
np.tensordot(m, n, axes=(1, 0))
np.kron(m, n)
np.kron(s, v)
np.kron(m, s)
np.cross(m[:, :3], q)
np.cross(m[0, :3], q)
np.cross(m[:, :3], q, axis=0)
np.linalg.cross(m[:, :3], q)
np.linalg.outer(s, v)
np.linalg.vecdot(m, m)
np.linalg.matmul(m, n)
np.linalg.tensordot(m, n, axes=1)
np.einsum("ij,jk->ik", m, n)
np.einsum("ij,jk", m, n)
np.einsum("ij->ji", m)
np.einsum("ij->", m)
np.einsum("ij->j", m)
np.einsum("ii", q)
np.einsum("ii->i", q)
np.einsum("iij->j", t[:, :2])
np.einsum("ij,ij->i", m, m)
np.einsum("i,j->ij", s, v)
np.einsum("i,i", s, v)
np.einsum("...ij,jk->...ik", t, n)
np.einsum("...i,...i->...", m, m)
np.einsum("bij,bkj->bik", t, t)
np.einsum("ij,jk,kl->il", m, n, n.T)
np.einsum("ij,ik,jl->kl", m, m, n)
np.einsum(m, [0, 1], n, [1, 2], [0, 2])
np.einsum(m, [0, 1], n, [1, 2])
np.einsum("i,ij,j->", m[:, 0], m, n[:, 0])
np.einsum("ij,ij,ij->ij", m, m, m)
np.einsum("ij,jk->ik", m, n, optimize=True)
np.einsum("ij,kj->", m, m)
np.einsum("i,->i", s, v[0])
np.linalg.multi_dot([m, n, n.T])
np.linalg.multi_dot([m[0], n, n.T])
np.linalg.multi_dot([s, np.outer(s, v), v])
np.convolve(s, v)
np.convolve(s, v[:2], "same")
np.convolve(s[:2], v, "valid")
np.correlate(s, v)
np.correlate(s, v[:2], "same")
np.correlate(s[:3], v, "full")
np.correlate(z, z, "full")
np.polyval(s, v)
np.polyval(s, 2.0)
np.polyadd(s, v[:2])
np.polysub(s, v[:2])
np.polymul(s, v[:2])
np.polyder(s)
np.polyder(s, 2)
np.polyint(s)
np.polyint(s, 2, k=[1.0, 2.0])
np.poly(s[:3])
np.polydiv(s, w[:2])
np.polyfit(v, s, 2)
np.polyfit(v, s, 1, w=w)
np.polyfit(v, np.outer(s, v), 1)
"""

LINALG = """
np.linalg.solve(q, m[:, 0])
np.linalg.solve(q, m)
np.linalg.solve(np.stack([q, q.T]), m)
np.linalg.solve(q, np.stack([m, m * 2]))
np.linalg.solve(Z, m.astype(complex))
np.linalg.solve(Z, m)
np.linalg.inv(q)
np.linalg.inv(Z)
np.linalg.inv(np.stack([q, q.T]))
np.linalg.det(q)
np.linalg.det(q[:2, :2])
np.linalg.det(np.pad(q, 1) + np.eye(5))
np.linalg.det(np.stack([q, q.T]))
np.linalg.det(Z)
np.linalg.slogdet(q)[1]
np.linalg.slogdet(-q)[0]
np.linalg.slogdet(np.pad(q, 1) + np.eye(5)).logabsdet
np.linalg.slogdet(Z)[1]
np.linalg.cholesky(q @ q.T)
np.linalg.cholesky(q @ q.T, upper=True)
np.linalg.cholesky(Z @ Z.conj().T)
np.linalg.eigvalsh(q @ q.T)
np.linalg.eigvalsh(q @ q.T, UPLO="U")
np.linalg.eigvalsh(Z @ Z.conj().T)
np.linalg.eigh(q @ q.T)[0]
np.abs(np.linalg.eigh(q @ q.T).eigenvectors)
np.linalg.svd(m, compute_uv=False)
np.linalg.svdvals(t)
np.abs(np.linalg.svd(m, full_matrices=False)[0])
np.abs(np.linalg.svd(m.T, full_matrices=False)[2])
np.abs(np.linalg.svd(Z)[1])
np.abs(np.linalg.svd(Z)[0])
np.abs(np.linalg.svd(m, full_matrices=False).Vh)
np.linalg.qr(q)[0]
np.linalg.qr(m.T)[1]
np.linalg.qr(m)[1]
np.linalg.qr(m, "r")
np.linalg.qr(Z)[1]
np.linalg.qr(t)[1]
np.linalg.pinv(m)
np.linalg.pinv(t)
np.linalg.lstsq(m.T, n, rcond=None)[0]
np.linalg.lstsq(m.T, n[:, 0], rcond=None)[0]
np.linalg.lstsq(m.T, n, rcond=None)[1]
np.linalg.matrix_power(q, 5)
np.linalg.matrix_power(q, -2)
np.linalg.matrix_power(q, 0)
np.linalg.matrix_rank(q)
np.linalg.cond(q)
np.linalg.cond(q, 1)
np.linalg.cond(q, "fro")
np.linalg.norm(m)
np.linalg.norm(s)
np.linalg.norm(s, 1)
np.linalg.norm(s, 3)
np.linalg.norm(s, np.inf)
np.linalg.norm(s, -np.inf)
np.linalg.norm(s, 0)
np.linalg.norm(s, 0.5)
np.linalg.norm(m, "fro")
np.linalg.norm(m, "nuc")
np.linalg.norm(m, 2)
np.linalg.norm(m, -2)
np.linalg.norm(m, 1)
np.linalg.norm(m, np.inf)
np.linalg.norm(m, axis=0)
np.linalg.norm(m, 1, axis=1, keepdims=True)
np.linalg.norm(t, axis=(1, 2))
np.linalg.norm(t, "nuc", axis=(0, 2))
np.linalg.norm(t, 1, axis=(0, 2), keepdims=True)
np.linalg.norm(t)
np.linalg.norm(z)
np.linalg.norm(f)
np.linalg.norm(k)
np.linalg.vector_norm(m)
np.linalg.vector_norm(m, axis=1, ord=1)
np.linalg.matrix_norm(t)
np.linalg.matrix_norm(t, ord=1, keepdims=True)
np.linalg.tensorsolve(np.eye(6).reshape(2, 3, 6) + 0.1, t[:, :, 0])
np.linalg.tensorinv(np.eye(6).reshape(2, 3, 6) * w[0], ind=2)
np.sort(np.abs(np.linalg.eigvals(q)))
np.abs(np.linalg.eig(q)[1])
np.sort(np.abs(np.linalg.eigvals(Z)))
np.sort(np.abs(np.roots(w)))
"""

FOURIER = """
np.fft.fft(s)
np.fft.fft(z)
np.fft.fft(m, axis=0)
np.fft.fft(s, 8)
np.fft.fft(s, 3, norm="ortho")
np.fft.fft(np.tile(s, 8))
np.fft.fft(s, 17)
np.fft.fft(s, 67)
np.fft.ifft(s, 134)
np.fft.fft(m, 48, axis=0)
np.fft.fft(f, 97)
np.fft.fft(s, 3000)[::500]
np.fft.rfft(s, 101)
np.fft.irfft(z, 96)
np.fft.fft(f)
np.fft.ifft(z, norm="forward")
np.fft.ifft(m)
np.fft.rfft(s)
np.fft.rfft(m, axis=0, norm="ortho")
np.fft.irfft(z)
np.fft.irfft(z, 5)
np.fft.irfft(z, 7, norm="ortho")
np.fft.hfft(z)
np.fft.ihfft(s)
np.fft.fft2(m)
np.fft.ifft2(t)
np.fft.fftn(t)
np.fft.fftn(t, (2, 4), (0, 2))
np.fft.ifftn(t, axes=(0, 1))
np.fft.rfft2(m)
np.fft.rfftn(t)
np.fft.irfft2(np.fft.rfft2(m))
np.fft.irfftn(np.fft.rfftn(t), s=(2, 3, 4), axes=(0, 1, 2))
np.fft.fftshift(m)
np.fft.fftshift(s, axes=0)
np.fft.ifftshift(s)
"""

FAMILIES = [ELEMENTWISE, REDUCTIONS, SHAPES, INDEXING, PRODUCTS, LINALG, FOURIER]
CASES = [line for family in FAMILIES for line in family.strip().splitlines()]
STEPS = "np.floor np.rint np.trunc np.fix // sign heaviside spacing nextafter matrix_rank norm(s, 0)"


def function(case):
    """The expression as a function of the inputs it names, and the inputs."""
    code = compile(case, case, "eval")
    names = [n for n in INPUTS if n in names_in(code)]
    return eval(f"lambda {', '.join(names)}: ({case})", {"np": np}), [INPUTS[n] for n in names]


def names_in(code):
    found = set(code.co_names)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            found |= names_in(constant)
    return found


def parts(x):
    return list(x) if isinstance(x, (tuple, list)) else [x]


def tolerance(*arrays):
    narrow = min(
        (np.finfo(a.dtype).precision for a in map(np.asarray, arrays) if a.dtype.kind in "fc"), default=15
    )
    rtol = {15: 1e-11, 6: 2e-5, 3: 5e-3}[narrow]
    return dict(rtol=rtol, atol=rtol)


case = pytest.mark.parametrize("case", CASES)


@case
def test_compiled(case):
    f, args = function(case)
    with np.errstate(all="ignore"):
        want, got = parts(f(*args)), parts(rune.jit(f)(*args))
    assert len(want) == len(got)
    for x, y in zip(want, got):
        x = np.asarray(x)
        assert np.shape(y) == x.shape
        assert np.asarray(y).dtype == x.dtype or "eig" in case or "roots" in case
        np.testing.assert_allclose(y, x, **tolerance(*args, x))


@case
def test_mapped(case):
    f, args = function(case)
    lanes = [np.stack([x, (x * (1.01 if x.dtype.kind in "fc" else 1)).astype(x.dtype)]) for x in args]
    with np.errstate(all="ignore"):
        each = [parts(f(*(x[k] for x in lanes))) for k in range(2)]
        for way in (rune.vmap(f), rune.jit(rune.vmap(f))):
            for got, *want in zip(parts(way(*lanes)), *each, strict=True):
                np.testing.assert_allclose(got, np.stack(want), **tolerance(*args, got))


def smooth(case, args):
    return any(x.dtype.kind in "fc" for x in args) and not any(w in case for w in STEPS.split())


def objective(case):
    """A real weighted sum of what a case gives, as a function of its floating inputs; they, and directions."""
    f, args = function(case)
    if any(x.dtype in (np.float32, np.float16) for x in args) or "float32" in case or "nan" in case:
        pytest.skip("differences need float64")
    at = tuple(k for k, x in enumerate(args) if x.dtype.kind in "fc")
    moved = [args[k] for k in at]
    rng = np.random.default_rng(5)
    random = lambda x: (
        rng.standard_normal(x.shape) + (1j * rng.standard_normal(x.shape) if x.dtype.kind == "c" else 0)
    )
    directions = tuple(random(x) for x in moved)
    weights = [random(np.asarray(y)) if np.asarray(y).dtype.kind in "fc" else None for y in parts(f(*args))]
    if all(w is None for w in weights):
        pytest.skip("no part has a derivative")

    def total(*moved):
        full = list(args)
        for k, x in zip(at, moved):
            full[k] = x
        return sum(np.real(np.sum(w * y)) for w, y in zip(weights, parts(f(*full))) if w is not None)

    return total, tuple(moved), directions


def along(gradient, directions):
    return lambda *moved: sum(np.sum(g * d).real for g, d in zip(gradient(*moved), directions))


def slope(f, moved, directions, eps=1e-5):
    ends = [f(*(x + h * d for x, d in zip(moved, directions))) for h in (eps, -eps)]
    return (ends[0] - ends[1]) / (2 * eps)


differentiable = pytest.mark.parametrize("case", [c for c in CASES if smooth(c, function(c)[1])])


@differentiable
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_derivatives(case):
    f, moved, directions = objective(case)
    want, every = slope(f, moved, directions), tuple(range(len(moved)))
    close = dict(rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(rune.jvp(f, moved, directions)[1], want, **close)
    for gradient in (rune.grad(f, argnums=every), rune.jit(rune.grad(f, argnums=every))):
        np.testing.assert_allclose(along(gradient, directions)(*moved), want, **close)


@differentiable
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_second_derivatives(case):
    f, moved, directions = objective(case)
    every = tuple(range(len(moved)))
    first = along(rune.grad(f, argnums=every), directions)
    want = slope(first, moved, directions)
    close = dict(rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(rune.jvp(first, moved, directions)[1], want, **close)
    twice = along(rune.grad(first, argnums=every), directions)
    np.testing.assert_allclose(twice(*moved), want, **close)


NARROW = {"f": np.float32, "c": np.complex64}


@differentiable
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_single_precision_stays_single(case):
    """Results, tangents and gradients of float32 have the dtypes that NumPy's results have."""
    f, args = function(case)
    args = [x.astype(NARROW.get(x.dtype.kind, x.dtype)) for x in args]
    at = [k for k, x in enumerate(args) if x.dtype.kind in "fc"]

    def floating(*moved):
        full = list(args)
        for k, x in zip(at, moved):
            full[k] = x
        return [y for y in parts(f(*full)) if getattr(y, "dtype", np.dtype(int)).kind in "fc"]

    moved = tuple(args[k] for k in at)
    want = [y.dtype for y in floating(*moved)]
    ys, tangents = rune.jvp(floating, moved, moved)
    assert [t.dtype for t in tangents] == [y.dtype for y in ys]
    assert [y.dtype for y in ys] == want or "eig" in case or "roots" in case
    _, pullback = rune.vjp(floating, *moved)
    assert [g.dtype for g in pullback([np.ones_like(y) for y in ys])] == [x.dtype for x in moved]
