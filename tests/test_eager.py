"""The short way of eager reverse mode gives what the general way gives, bit for bit."""

import gc
import itertools
import weakref

import numpy as np
import pytest

import rune
from rune import derivatives
from rune.jvp import Forward
from rune.linear import Recorder
from rune.primitives import special
from rune.primitives.scalar import TABLE

special.load()
ROWS = [name for name, row in TABLE.items() if isinstance(row.ufunc, np.ufunc) and row.ufunc.nin <= 2]
POINTS = [-2.5, -1.0, -0.75, -0.0, 0.0, 0.25, 0.75, 1.0, 1.5, 3.0]


def both_ways(monkeypatch, f, *args):
    """The cotangents of `f` the short way and the general way, or the error of each."""
    found = []
    for short in (True, False):
        with monkeypatch.context() as m:
            if not short:
                m.setattr(derivatives, "Tape", Recorder)
                m.setattr(derivatives, "Eager", lambda name, snapshots, recorder: Forward(name, snapshots))
            try:
                y, pullback = rune.vjp(f, *args)
                found.append((y, *pullback(np.full_like(y, 1.5))))
            except (TypeError, ValueError) as error:
                found.append(error)
    return found


def same(a, b):
    if isinstance(a, Exception) or isinstance(b, Exception):
        assert type(a) is type(b)
        return
    for x, y in zip(a, b, strict=True):
        assert (
            type(x) is type(y) and np.shape(x) == np.shape(y) and np.asarray(x).dtype == np.asarray(y).dtype
        )
        np.testing.assert_array_equal(x, y)
        for a, b in ((np.real(x), np.real(y)), (np.imag(x), np.imag(y))):
            zeros = np.asarray(a) == 0
            np.testing.assert_array_equal(np.signbit(a)[zeros], np.signbit(b)[zeros])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("op", ROWS)
def test_rows(op, dtype, monkeypatch):
    row = TABLE[op]
    pairs = np.array(list(itertools.product(POINTS, POINTS)), dtype)
    x, y = pairs[:, 0].copy(), pairs[:, 1].copy()
    if row.ufunc.nin == 1:
        same(*both_ways(monkeypatch, row.ufunc, x))
        same(*both_ways(monkeypatch, row.ufunc, x[7]))
        return
    same(*both_ways(monkeypatch, row.ufunc, x, y))
    same(*both_ways(monkeypatch, lambda x: row.ufunc(x, y), x))
    same(*both_ways(monkeypatch, lambda y: row.ufunc(x, y), y))
    for c in (2.5, 2, -0.0, 0, x[3], x[6]):
        same(*both_ways(monkeypatch, lambda x: row.ufunc(x, c), x))
        same(*both_ways(monkeypatch, lambda x: row.ufunc(c, x), x))


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: x + x * y - y / x,
        lambda x, y: x**2 + y**3 + x**0.5 - 2.0 / y,
        lambda x, y: np.sum(x) * y - x[0] * y,
        lambda x, y: x * np.ones((3, 1)) + y,
        lambda x, y: abs(x - y) + (-x) ** 3 + np.floor(x) * y,
        lambda x, y: np.where(x > y, x * y, np.maximum(x, y)),
        lambda x, y: x.astype(np.float32) * y + (x * 1j).imag,
        lambda x, y: x * 2 if (x < y).all() else y * True,
    ],
)
def test_expressions(f, monkeypatch):
    x, y = np.linspace(0.5, 1.5, 5), np.linspace(-1.0, 2.0, 5)
    same(*both_ways(monkeypatch, f, x, y))


PLAIN = np.linspace(-1.0, 2.0, 36).reshape(6, 6)
MASK = np.array([True, False, True, True, False, False])
OPERATIONS = {
    "slices": lambda x: x[1:4] * x[::-2],
    "integers": lambda x: x[2] * x[-1] + x[None, 3:][0],
    "arrays of integers": lambda x: x[[0, 0, 5, -1]] * x[MASK][0],
    "reads that overlap": lambda x: np.stack([x[k : k + 3] * x[k] for k in range(4)]),
    "moves": lambda x: np.transpose(np.reshape(x, (2, 3))) + np.reshape(x, (3, 2))[::-1],
    "new axes": lambda x: np.squeeze(x[:, None] - x[None]),
    "joined with known": lambda x: np.concatenate([x, PLAIN[0].astype(x.dtype), x[:1]]),
    "stacked with known": lambda x: np.stack([np.ones_like(x), x, x * x]),
    "contraction with known": lambda x: PLAIN.astype(x.dtype) @ x,
    "contraction": lambda x: np.reshape(x, (2, 3)) @ np.reshape(x, (3, 2)),
    "einsum": lambda x: np.einsum("ij,i,j->j", PLAIN.astype(x.dtype), x, x),
    "outer": lambda x: np.outer(x, x),
    "sums": lambda x: np.sum(np.reshape(x, (2, 3)), axis=1, keepdims=True) * np.sum(x),
    "products": lambda x: np.prod(np.reshape(x, (2, 3)), axis=0) + np.prod(x),
    "extremes": lambda x: np.max(np.reshape(x, (2, 3)), axis=0) - np.min(x),
    "running": lambda x: np.cumsum(x) * np.cumprod(x),
    "moments": lambda x: np.mean(x) + np.var(x) * np.std(x),
    "choice": lambda x: np.where(MASK, x, x * x),
    "choice beside known": lambda x: np.where(MASK, x, 1.0) + np.where(MASK, 0.0, x),
    "norm": lambda x: x / np.linalg.norm(x),
    "written": lambda x: (y := np.zeros_like(x), y.__setitem__(slice(1, 3), x[:2]), y * x)[2],
    "casts": lambda x: x.astype(np.float64) * np.float32(0.5),
    "complex": lambda x: np.real((x + 1j * x[::-1]) ** 2) + np.imag(x * 2j) + np.imag(x),
    "system": lambda x: np.linalg.solve(np.diag(x * x + 1.0) + 0.1, x),
    "softmax": lambda x: np.exp(x - np.max(x)) / np.sum(np.exp(x - np.max(x))),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations(operation, dtype, monkeypatch):
    same(*both_ways(monkeypatch, OPERATIONS[operation], np.array([0.5, -0.25, 1.5, -0.0, 0.0, 2.0], dtype)))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations_forward(operation):
    """What is recorded is pushed forward to the tangent that forward mode gives."""
    f, x = OPERATIONS[operation], np.array([0.5, -0.25, 1.5, -0.75, 0.25, 2.0])
    v = np.array([1.0, -2.0, 0.5, 0.25, 3.0, -1.0])
    dy = rune.jvp(f, (x,), (v,))[1]
    along = rune.linearize(f, x)[1](v)
    np.testing.assert_allclose(along, dy, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", [name for name in ROWS if TABLE[name].ufunc.nin == 2])
def test_rows_of_operands_that_broadcast(op, dtype, monkeypatch):
    f, x = TABLE[op].ufunc, np.array(POINTS, dtype)
    same(*both_ways(monkeypatch, lambda x: f(x[:, None], x), x))
    same(*both_ways(monkeypatch, lambda x: f(x, x[3]), x))
    same(*both_ways(monkeypatch, lambda x: f(x[:2, None], PLAIN[:2, :1].astype(dtype)), x))


def test_cotangents_are_written_where_nothing_else_holds_them():
    """Reads add to one array in place, which is neither the caller's nor one that another tangent has."""
    x, ct = np.arange(4.0), np.ones(4)
    f = lambda x: (x, x[1:], x[[0, 0]], x * 2.0)
    (_, pullback), cts = rune.vjp(f, x), (ct, np.ones(3), np.ones(2), ct)
    first, second = pullback(cts)[0], pullback(cts)[0]
    np.testing.assert_array_equal(first, [5.0, 4.0, 4.0, 4.0])
    np.testing.assert_array_equal(second, first)
    np.testing.assert_array_equal(ct, np.ones(4))


def test_every_reading_of_the_record():
    f = lambda x: np.sin(x) * x / (1.5 + x * x) - 0.5
    x, v = np.linspace(0.1, 1.0, 4), np.arange(4.0)
    jacobian = rune.jacfwd(f)(x)
    np.testing.assert_allclose(rune.jacrev(f)(x), jacobian, rtol=1e-14)
    np.testing.assert_allclose(rune.linearize(f, x)[1](v), jacobian @ v, rtol=1e-14)
    np.testing.assert_allclose(rune.jvp(f, (x,), (v,))[1], jacobian @ v, rtol=1e-14)
    h = rune.hessian(lambda x: np.sum(f(x) ** 2))(x)
    np.testing.assert_allclose(rune.hvp(lambda x: np.sum(f(x) ** 2))(x, v), h @ v, rtol=1e-12)
    pullback = rune.vjp(f, x)[1]
    np.testing.assert_array_equal(pullback(v)[0], pullback(v)[0])
    np.testing.assert_allclose(
        rune.grad(lambda v: np.sum(pullback(v * v)[0]))(v), 2 * v * jacobian.sum(1), rtol=1e-14
    )


def test_levels_of_two_gradients_meet():
    inner = lambda x: rune.grad(lambda y: np.sum(x * y * y))(np.ones(3))
    np.testing.assert_array_equal(rune.grad(lambda x: np.sum(inner(x) * x))(np.full(3, 2.0)), np.full(3, 8.0))


def test_a_gradient_leaves_nothing_to_the_garbage_collector():
    held = []

    def f(x):
        y = np.exp(x)
        constant = np.ones(3)
        held.append(weakref.ref(constant))
        return np.sum(y * constant)

    gc.collect()
    gc.disable()
    try:
        rune.grad(f)(np.ones(3))
        assert held[0]() is None
    finally:
        gc.enable()


def test_a_gradient_inside_a_tangent_map_takes_the_tangent_around_as_known():
    square = rune.custom_jvp(
        lambda x: (x * x, lambda dx: rune.grad(lambda z: np.dot(np.reshape(z * z, (1, 3)), dx)[0])(x))
    )
    x = np.array([1.0, 2.0, -3.0])
    np.testing.assert_array_equal(rune.grad(lambda x: np.sum(square(x) * x))(x), 3 * x * x)
