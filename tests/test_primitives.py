"""Laws that hold for every primitive and every scalar function, each over one table of instances."""

import numpy as np
import pytest

import rune
from rune.primitives import contract, correlate, indexing, linalg, map, movement, reduce, special
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


special.load()


def refusing(row):
    """The operands by which a row refuses to be differentiated."""
    return [k for k, p in enumerate(row.partials or ()) if getattr(p, "__name__", "") == "refuse"]


def scalar_rows():
    for row in TABLE.values():
        if row.name in ("cast", "select", "complex"):
            continue
        count = getattr(row.ufunc, "nin", 1)
        # inside the domain of every row: arccosh needs more than 1, arcsin less
        whole, counted = np.ones_like(x), np.ones(x.shape, int)
        base = {
            "arccosh": y, "zeta": y, "ndtri_exp": -x, "yn": whole, "kn": whole, "expn": counted,
            "eval_hermite": counted, "eval_hermitenorm": counted,
        }.get(row.name, x)  # fmt: skip
        args = (base, y, x, x)[:count]
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
        f = lambda *args, op=row.name: map.elementwise(op, *args)
        refused = refusing(row)
        if len(refused) == count:
            continue
        if refused and refused != [count - 1]:  # the first ones are constants, the last is differentiated
            yield row.name, (lambda v, f=f, fixed=args[:-1]: f(*(a[:, :1] for a in fixed), v)), args[-1:]
        elif refused:
            yield row.name, (lambda v, f=f, fixed=args[1:]: f(v, *fixed)), args[:1]
        else:
            yield row.name, f, args


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
    ("correlate", lambda a, v: correlate.correlate(a, v, 0, 0), (x, y[:, :2])),
    ("correlate beyond", lambda a, v: correlate.correlate(a, v, 2, 1), (x, y[:, :3])),
    ("correlate one row", lambda a, v: correlate.correlate(a, v, 3, 3), (x[0], y[0])),
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
    if (
        not smooth(args) or out.dtype.kind != "f" or name in ("nextafter", "cast")
    ):  # these are steps, not smooth
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
    np.testing.assert_allclose(
        pulled, np.sum(ct * dy), rtol=1e-6 if single else 1e-9, atol=1e-6 if single else 1e-11
    )


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


# Complex values: a tangent is a displacement, and the gradient of a real function df/dx - i df/dy.

z = rng.standard_normal((3, 4)) + 1j * rng.standard_normal((3, 4))
w = rng.uniform(0.6, 1.4, (3, 4)) * np.exp(1j * rng.uniform(-1, 1, (3, 4)))
STEPS = {"rint", "select", "cast", "complex", "nextafter"}


def complex_rows():
    for row in TABLE.values():
        if (
            row.name in STEPS or row.name == "ive"
        ):  # ive of a complex number has no complex derivative, and says so
            continue
        f = lambda *args, op=row.name: map.elementwise(op, *args)
        every_args = (
            [(z[0],)] if getattr(row.ufunc, "nin", 1) == 1 else [(z[0], w[0]), (x[0], w[0]), (z[0], y[0])]
        )
        refused = refusing(row)
        for args in every_args:
            try:
                out = f(*args)
            except TypeError:  # NumPy has no complex loop
                continue
            name = f"{row.name} of {', '.join(a.dtype.name for a in args)}"
            if refused == [0] and len(args) == 2:
                yield name, (lambda b, f=f, a=args[0]: f(a, b)), args[1:]
            elif out.dtype.kind in "fc" and not refused:
                yield name, f, args


def complex_primitives():
    for name, f, args in PRIMITIVES:
        if name.startswith(("arg", "any", "cast", "take along", "cumulative max")):
            continue
        if name.startswith(("solve", "cholesky", "triangular")):
            args = tuple(a[:1] for a in args)
        twin = tuple(a + 1j * np.random.default_rng(k).standard_normal(a.shape) for k, a in enumerate(args))
        twin = tuple(a @ a.conj().swapaxes(1, 2) if name == "cholesky" else a for a in twin)
        yield name, f, twin
    yield "complex", lambda a, b: map.elementwise("complex", a, b), (x, y)
    yield "real to complex", lambda a: map.cast(a, np.complex128), (x,)
    yield "complex to real", lambda a: map.cast(a, np.float64), (z,)
    yield "select mixed", lambda a, b: map.elementwise("select", np.arange(4) > 1, a, b), (x, z)


complex_instances = [*complex_rows(), *complex_primitives()]
every_complex = pytest.mark.parametrize(
    "name, f, args", complex_instances, ids=[name for name, _, _ in complex_instances]
)


def parts(f, args):
    """The central differences of f by the real and imaginary part of each element of each argument."""
    eps = 1e-6
    for k, a in enumerate(args):
        for unit in (1, 1j) if a.dtype.kind == "c" else (1,):
            for at in np.ndindex(a.shape):
                d = np.zeros(a.shape, a.dtype)
                d[at] = unit
                up, down = (f(*args[:k], a + s * eps * d, *args[k + 1 :]) for s in (1, -1))
                yield k, at, unit, d, (up - down) / (2 * eps)


@every_complex
def test_complex_derivatives_are_those_by_both_parts(name, f, args):
    function = on_boxes(f)
    if name == "cholesky":  # the factor is that of the Hermitian part, which differences must not leave
        hermitian = lambda a: (a + np.conj(np.swapaxes(a, 1, 2))) / 2
        f, function = (
            lambda a: rune.primitives.linalg.cholesky(hermitian(a)),
            lambda a: np.linalg.cholesky(hermitian(a)),
        )
    out = f(*args)
    r = np.random.default_rng(9)
    weight = r.standard_normal(out.shape) + (
        1j * r.standard_normal(out.shape) if out.dtype.kind == "c" else 0
    )
    objective = lambda *args: np.sum(np.real(weight * function(*args)))
    forward = lambda d, k: rune.jvp(lambda v: function(*args[:k], v, *args[k + 1 :]), (args[k],), (d,))[1]
    want = [np.zeros(a.shape, a.dtype) for a in args]
    ways = forward, rune.jit(forward, static_argnames=("k",))
    for n, (k, at, unit, d, change) in enumerate(parts(f, args)):
        want[k][at] += np.sum(np.real(weight * change)) * (1 if unit == 1 else -1j)
        for way in ways if n % 5 == 0 else ways[:1]:
            np.testing.assert_allclose(way(d, k=k), change, rtol=2e-6, atol=1e-7)
    each = tuple(range(len(args)))
    for gradient in (rune.grad(objective, argnums=each), rune.jit(rune.grad(objective, argnums=each))):
        for g, v, a in zip(gradient(*args), want, args, strict=True):
            assert g.dtype == a.dtype
            np.testing.assert_allclose(g, v, rtol=2e-6, atol=1e-7)


CUTS = [
    *((np.arcsin, s * 2.0) for s in (1, -1)),
    *((np.arccos, s * 2.0) for s in (1, -1)),
    *((np.arctanh, s * 2.0) for s in (1, -1)),
    *((np.arccosh, v) for v in (0.5, -0.5, -2.0)),
    *((np.arcsinh, s * 2.0j) for s in (1, -1)),
    *((np.arctan, s * 2.0j) for s in (1, -1)),
    *((f, -2.0) for f in (np.log, np.sqrt, np.log2, np.log10)),
    (np.log1p, -3.0),
]


@pytest.mark.parametrize("f, at", CUTS, ids=lambda c: getattr(c, "__name__", str(c)))
def test_on_a_branch_cut_the_sign_of_zero_names_the_side(f, at):
    for side in (1.0, -1.0):
        if isinstance(at, complex):
            there, beside = complex(np.copysign(0.0, side), at.imag), complex(side * 1e-9, at.imag)
        else:
            there, beside = complex(at, np.copysign(0.0, side)), complex(at, side * 1e-9)
        there, beside = np.array([there]), np.array([beside])
        np.testing.assert_allclose(f(there), f(beside), rtol=1e-7)
        slope = lambda v: rune.jvp(f, (v,), (np.ones(1, complex),))[1]
        want = slope(beside)
        np.testing.assert_allclose(slope(there), want, rtol=1e-7, atol=1e-12)
        np.testing.assert_allclose(rune.jit(slope)(there), want, rtol=1e-7, atol=1e-12)
