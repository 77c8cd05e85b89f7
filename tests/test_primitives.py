"""Laws that hold for every primitive and every scalar function, each over one table of instances."""

import numpy as np
import pytest

import rune
from rune.primitives import contract, indexing, linalg, map, movement, reduce
from rune.primitives.scalar import TABLE
from rune.trace import record
from rune.value import box, raw

rng = np.random.default_rng(17)
x = rng.uniform(0.2, 0.9, (3, 4))
y = rng.uniform(1.1, 1.9, (3, 4))
square = rng.standard_normal((2, 3, 3)) + 3 * np.eye(3)
spd = square @ square.swapaxes(1, 2)
index = np.array([[0, 2], [1, 1]])


def on_boxes(f):
    """A function of values as a function of boxes, for the public transformations."""
    return lambda *args: box(f(*(raw(a) for a in args)))


def scalar_rows():
    for row in TABLE.values():
        if row.name in ("cast", "select", "complex"):
            continue
        count = getattr(row.ufunc, "nin", 1)
        # inside the domain of every row: arccosh needs more than 1, arcsin less
        base = y if row.name == "arccosh" else x
        args = (base,) if count == 1 else (base, y)
        if row.ufunc in (
            np.gcd,
            np.lcm,
            np.left_shift,
            np.right_shift,
            np.bitwise_and,
            np.bitwise_or,
            np.bitwise_xor,
            np.invert,
        ):
            args = tuple(np.arange(1, 13).reshape(3, 4) + k for k in range(count))
        yield row.name, (lambda *args, op=row.name: map.elementwise(op, *args)), args


PRIMITIVES = [
    ("select", lambda a, b: map.elementwise("select", np.arange(4) > 1, a, b), (x, y)),
    ("cast", lambda a: map.cast(map.cast(a, np.float32), np.float64), (x.astype(np.float32).astype(float),)),
    ("broadcasting mul", lambda a, b: map.elementwise("mul", a, b), (x[:, :1], y[0])),
    ("reshape", lambda a: movement.reshape(a, (2, 6)), (x,)),
    ("permute", lambda a: movement.permute(a, (1, 0)), (x,)),
    ("broadcast", lambda a: movement.broadcast(a, (2, 3, 4)), (x[:, :1],)),
    ("slice", lambda a: movement.slice_(a, (1, 0), (3, 4), (1, 2)), (x,)),
    ("flip", lambda a: movement.flip(a, (1,)), (x,)),
    ("concatenate", lambda a, b: movement.concatenate([a, b, a], 1), (x, y)),
    ("update", lambda a, b: movement.update(a, b, (1, 1), (1, 2)), (x, y[:2, :2])),
    ("update add", lambda a, b: movement.update(a, b, (0, 1), (2, 1), op="add"), (x, y[:2, :2])),
    ("pad", lambda a: movement.pad(a, (1, 0), (0, 2)), (x,)),
    ("sum", lambda a: reduce.reduce("sum", a, (0,)), (x,)),
    ("prod", lambda a: reduce.reduce("prod", a, (0, 1)), (x,)),
    ("max", lambda a: reduce.reduce("max", a, (1,)), (x,)),
    ("min", lambda a: reduce.reduce("min", a, (1,)), (x,)),
    ("argmax", lambda a: reduce.reduce("argmax", a, (1,)), (x,)),
    ("any", lambda a: reduce.reduce("any", map.elementwise("gt", a, 0.5), (1,)), (x,)),
    ("cumulative sum", lambda a: reduce.cumulative("sum", a, 1), (x,)),
    ("cumulative sum reversed", lambda a: reduce.cumulative("sum", a, 0, True), (x,)),
    ("cumulative prod", lambda a: reduce.cumulative("prod", a, 1), (x,)),
    ("cumulative max", lambda a: reduce.cumulative("max", a, 1), (x,)),
    ("gather", lambda a: indexing.gather(a, [index]), (x,)),
    ("gather two axes", lambda a: indexing.gather(a, [index, index + 1]), (x,)),
    ("scatter set", lambda a, b: indexing.scatter("set", a, [index], b), (x, rng.standard_normal((2, 2, 4)))),
    (
        "scatter add",
        lambda a, b: indexing.scatter("add", a, [index, index], b),
        (x, rng.standard_normal((2, 2))),
    ),
    ("argsort", lambda a: indexing.argsort(a), (x,)),
    ("take along", lambda a: indexing.take_along(a, indexing.argsort(a), 1), (x,)),
    ("contract", lambda a, b: contract.contract(a, b, ((1,), (1,))), (x, y)),
    ("contract batched", lambda a, b: contract.contract(a, b, ((2,), (1,)), ((0,), (0,))), (square, spd)),
    (
        "contract two axes",
        lambda a, b: contract.contract(a, b, ((2, 1), (0, 2))),
        (square, rng.standard_normal((3, 2, 3))),
    ),
    ("solve", lambda a, b: linalg.solve(a, b), (square, rng.standard_normal((2, 3, 2)))),
    ("cholesky", lambda a: linalg.cholesky(a), (spd,)),
    (
        "triangular solve",
        lambda a, b: linalg.triangular_solve(a, b, True, False),
        (square, rng.standard_normal((2, 3, 2))),
    ),
    (
        "triangular solve transposed",
        lambda a, b: linalg.triangular_solve(a, b, False, True),
        (square, rng.standard_normal((2, 3, 1))),
    ),
]

instances = [*scalar_rows(), *PRIMITIVES]
every = pytest.mark.parametrize("name, f, args", instances, ids=[name for name, _, _ in instances])
close = dict(rtol=1e-10, atol=1e-12)


def directions(args):
    r = np.random.default_rng(5)
    return tuple(r.standard_normal(a.shape).astype(a.dtype) for a in args)


def smooth(args):
    return all(a.dtype.kind == "f" for a in args)


@every
def test_the_type_rule_says_what_evaluation_gives(name, f, args):
    want = f(*args)
    program, _ = record(
        "test", [rune.program(lambda a: a)(a).inputs[0].type for a in args], lambda inputs: [f(*inputs)]
    )
    (t,) = program.output_types
    assert (t.dtype, t.shape) == (want.dtype, want.shape)
    assert str(program).startswith("program (%0")


@every
def test_compiled_is_evaluated(name, f, args):
    np.testing.assert_allclose(rune.jit(on_boxes(f))(*args), f(*args), **close)


@every
def test_the_tangent_is_the_central_difference(name, f, args):
    out = f(*args)
    if not smooth(args) or out.dtype.kind != "f" or name in ("nextafter", "cast"):  # these are steps, not smooth
        return
    d, eps = directions(args), 1e-6
    want = (
        f(*(a + eps * v for a, v in zip(args, d, strict=True)))
        - f(*(a - eps * v for a, v in zip(args, d, strict=True)))
    ) / (2 * eps)
    _, got = rune.jvp(on_boxes(f), args, d)
    np.testing.assert_allclose(got, want, rtol=3e-6, atol=1e-7)


@every
def test_the_transpose_is_the_adjoint_of_the_tangent(name, f, args):
    if not smooth(args) or f(*args).dtype.kind != "f":
        return
    d = directions(args)
    y, pullback = rune.vjp(on_boxes(f), *args)
    ct = np.random.default_rng(6).standard_normal(np.shape(y))
    _, dy = rune.jvp(on_boxes(f), args, d)
    pulled = sum(np.sum(g * v) for g, v in zip(pullback(ct), d, strict=True))
    single = name == "cast"  # through float32
    np.testing.assert_allclose(pulled, np.sum(ct * dy), rtol=1e-6 if single else 1e-9, atol=1e-6 if single else 1e-11)


@every
def test_mapped_is_the_loop(name, f, args):
    scale = [1, 2] if args[0].dtype.kind != "f" else [1.0, 0.99, 1.02]
    for axes in {(0,) * len(args), (0, *(None,) * (len(args) - 1)), (*(None,) * (len(args) - 1), 0)}:
        lanes = [
            np.stack([a * s for s in scale]).astype(a.dtype) if axis == 0 else a
            for a, axis in zip(args, axes, strict=True)
        ]
        each = [
            f(*(a[k] if axis == 0 else a for a, axis in zip(lanes, axes, strict=True)))
            for k in range(len(scale))
        ]
        for wrap in (lambda g: g, rune.jit):
            got = wrap(rune.vmap(on_boxes(f), in_axes=axes))(*lanes)
            np.testing.assert_allclose(got, np.stack(each), **close)


@every
def test_the_gradient_is_the_same_compiled(name, f, args):
    if not smooth(args) or f(*args).dtype.kind != "f":
        return
    weight = np.random.default_rng(7).standard_normal(f(*args).shape)
    objective = lambda *args: np.sum(weight * on_boxes(f)(*args))
    every_one = tuple(range(len(args)))
    want = rune.grad(objective, argnums=every_one)(*args)
    for way in (
        rune.jit(rune.grad(objective, argnums=every_one)),
        rune.grad(rune.jit(objective), argnums=every_one),
    ):
        for g, w in zip(way(*args), want, strict=True):
            np.testing.assert_allclose(g, w, **close)
