"""Products: dot, matmul and their relatives, all by one contraction of labelled axes."""

from __future__ import annotations

import functools
import math
import re
from typing import Any, NamedTuple

import numpy as np

from rune.numpy.arguments import asarray, axes_of, dtype_of, integer, promote, shape_of
from rune.numpy.elementwise import conjugate, loop_operands
from rune.numpy.register import function
from rune.numpy.shapes import moveaxis
from rune.primitives import movement
from rune.primitives.contract import contract
from rune.primitives.map import cast
from rune.primitives.reduce import reduce
from rune.primitives.scalar import e
from rune.value import tables

__all__ = ["check_inner", "dot", "matmul", "pair", "summed", "tensordot", "times", "vector"]


class Pairing(NamedTuple):
    """How two arrays with labelled axes are multiplied."""

    squeezed: tuple  # per operand, its shape without the axes that broadcast
    summed: tuple  # per operand, the axes then that only it has and the result has not
    aligned: tuple | None  # per operand, the order and shape in which they broadcast, where nothing is summed
    swap: bool  # whether the second operand leads in the contraction
    contracting: tuple
    batch: tuple
    order: tuple  # of the product's axes
    shape: tuple  # of the result, of length 1 where neither operand has the label


def pair(a: Any, la: tuple, b: Any, lb: tuple, out: tuple) -> Any:
    """The product of two arrays with labelled axes (no label twice in one), summed to the labels `out`.

    An axis of length 1 broadcasts against a longer one of its label, as in np.einsum.
    """
    p = pairing(shape_of(a), la, shape_of(b), lb, out)
    a, b = (
        reduce("sum", movement.reshape(x, shape), gone)
        for x, shape, gone in zip((a, b), p.squeezed, p.summed, strict=True)
    )
    if p.aligned is not None:  # an elementwise product, which fuses
        a, b = (
            movement.reshape(movement.permute(x, order), shape)
            for x, (order, shape) in zip((a, b), p.aligned, strict=True)
        )
        c = e.mul(a, b)
    else:
        c = times(*((b, a) if p.swap else (a, b)), p.contracting, p.batch)
    return movement.reshape(movement.permute(c, p.order), p.shape)


@functools.lru_cache(maxsize=1 << 12)
def pairing(sa: tuple, la: tuple, sb: tuple, lb: tuple, out: tuple) -> Pairing:
    size: dict = {}
    for labels, shape in ((la, sa), (lb, sb)):
        for k, n in zip(labels, shape, strict=True):
            if size.get(k, 1) == 1:
                size[k] = n
            elif n not in (1, size[k]):
                raise ValueError(
                    f"operands could not be broadcast together: an axis has lengths {size[k]} and {n}"
                )
    squeezed = lambda labels, shape, other: tuple(
        k for k, n in zip(labels, shape, strict=True) if not (n == 1 and k in other and size[k] != 1)
    )
    la, lb = squeezed(la, sa, lb), squeezed(lb, sb, la)
    shapes = tuple(tuple(size[k] for k in labels) for labels in (la, lb))
    alone = lambda labels, other: tuple(j for j, k in enumerate(labels) if k not in other and k not in out)
    summed = alone(la, lb), alone(lb, la)
    la, lb = (
        tuple(k for j, k in enumerate(ls) if j not in gone) for ls, gone in zip((la, lb), summed, strict=True)
    )
    both = [k for k in la if k in lb]
    over = tuple(k for k in both if k not in out)
    batch = tuple(k for k in both if k in out)
    free_a, free_b = (tuple(k for k in ls if k not in both) for ls in (la, lb))
    where = lambda ls, ks: tuple(ls.index(k) for k in ks)
    swap, aligned = not free_a and bool(free_b), None
    if over:
        labels = batch + free_a + free_b
    else:
        labels = tuple(k for k in out if k in la or k in lb)
        aligned = tuple(
            (where(ls, [k for k in labels if k in ls]), broadcast_to(ls, labels, size)) for ls in (la, lb)
        )
    if swap:
        la, lb = lb, la
    return Pairing(
        squeezed=shapes,
        summed=summed,
        aligned=aligned,
        swap=swap,
        contracting=(where(la, over), where(lb, over)),
        batch=(where(la, batch), where(lb, batch)),
        order=where(labels, [k for k in out if k in labels]),
        shape=tuple(size.get(k, 1) for k in out),
    )


def broadcast_to(labels: tuple, to: tuple, size: dict) -> tuple:
    """The shape of axes `labels`, in the order of `to`, of length 1 between where there is none."""
    first = next((j for j, k in enumerate(to) if k in labels), len(to))
    return tuple(size[k] if k in labels else 1 for k in to[first:])  # broadcasting adds what leads


def times(a: Any, b: Any, contracting: tuple, batch: tuple) -> Any:
    """A contraction in the operands' dtype; booleans are joined by `and` and `or`."""
    if dtype_of(a).kind == "b":
        return cast(contract(cast(a, np.int64), cast(b, np.int64), contracting, batch), bool)
    return contract(a, b, contracting, batch)


def summed(x: Any, labels: tuple, keep: set) -> tuple:
    gone = tuple(j for j, k in enumerate(labels) if k not in keep)
    return reduce("sum", x, gone), tuple(k for k in labels if k in keep)


# Matrix products


def matmul(a: Any, b: Any) -> Any:
    a, b = promote(asarray(a), asarray(b))
    na, nb = len(shape_of(a)), len(shape_of(b))
    if not na or not nb:
        which = 0 if not na else 1
        raise ValueError(
            f"matmul: Input operand {which} does not have enough dimensions (has 0, gufunc core with signature (n?,k),(k,m?)->(n?,m?) requires 1)"
        )
    inner = shape_of(a)[-1], shape_of(b)[-2 if nb > 1 else 0]
    if inner[0] != inner[1]:
        raise ValueError(
            f"matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature (n?,k),(k,m?)->(n?,m?) "
            f"(size {inner[1]} is different from {inner[0]})"
        )
    if na <= 2 and nb <= 2:
        if na == 1 < nb:
            return times(b, a, ((0,), (0,)), ((), ()))
        return times(a, b, ((na - 1,), (0,)), ((), ()))
    leads = np.broadcast_shapes(shape_of(a)[: max(na - 2, 0)], shape_of(b)[: max(nb - 2, 0)])
    lead = lambda n: tuple(range(-n, 0))
    la = lead(max(na - 2, 0)) + (("i", "k") if na > 1 else ("k",))
    lb = lead(max(nb - 2, 0)) + (("k", "j") if nb > 1 else ("k",))
    out = lead(len(leads)) + (("i",) if na > 1 else ()) + (("j",) if nb > 1 else ())
    return pair(a, la, b, lb, out)


def gufunc(ufunc: np.ufunc):
    def register(f):
        def answer(
            *args,
            axes=None,
            axis=None,
            keepdims=False,
            dtype=None,
            casting="same_kind",
            order="K",
            subok=True,
        ):
            args = list(map(asarray, args))
            if dtype is not None or casting != "same_kind":
                args = loop_operands(ufunc, args, dtype, casting, None)
            if axis is not None:
                args = [moveaxis(a, axis, -1) for a in args]
            if axes is not None:
                *ins, to = [(k,) if np.ndim(k) == 0 else tuple(k) for k in axes] + (
                    [()] if len(axes) == len(args) else []
                )
                args = [moveaxis(a, k, tuple(range(-len(k), 0))) for a, k in zip(args, ins, strict=True)]
                out = f(*args)
                return moveaxis(out, tuple(range(-len(to), 0)), to) if to else out
            out = f(*args)
            return movement.reshape(out, (*shape_of(out), 1)) if keepdims else out

        tables.ufuncs[ufunc] = answer
        return f

    return register


gufunc(np.matmul)(matmul)


def cores(ufunc: np.ufunc, *args: Any) -> None:
    """NumPy's check of the dimensions that the ufunc's signature names, as in `(n),(n,m)->(m)`."""
    sizes: dict[str, int] = {}
    for k, core in enumerate(re.findall(r"\((.*?)\)", ufunc.signature)[: len(args)]):
        names, shape = core.split(","), shape_of(args[k])
        where = f"{ufunc.__name__}: Input operand {k}"
        if len(shape) < len(names):
            raise ValueError(
                f"{where} does not have enough dimensions (has {len(shape)}, gufunc core with signature "
                f"{ufunc.signature} requires {len(names)})"
            )
        for j, (name, n) in enumerate(zip(names, shape[len(shape) - len(names) :], strict=True)):
            if sizes.setdefault(name, n) != n:
                raise ValueError(
                    f"{where} has a mismatch in its core dimension {j}, with gufunc signature {ufunc.signature} "
                    f"(size {n} is different from {sizes[name]})"
                )


def vecdot(x1: Any, x2: Any) -> Any:
    a, b = promote(asarray(x1), asarray(x2))
    cores(np.vecdot, a, b)
    n = max(len(shape_of(a)), len(shape_of(b)))
    lead = lambda x: tuple(range(-len(shape_of(x)), -1))
    return pair(conjugate(a), (*lead(a), "k"), b, (*lead(b), "k"), tuple(range(-n, -1)))


if hasattr(np, "vecdot"):
    gufunc(np.vecdot)(vecdot)
if hasattr(np, "matvec"):

    @gufunc(np.matvec)
    def matvec(x1, x2):
        cores(np.matvec, x1, x2)
        out = matmul(x1, movement.reshape(x2, (*shape_of(x2), 1)))
        return movement.reshape(out, shape_of(out)[:-1])

    @gufunc(np.vecmat)
    def vecmat(x1, x2):
        cores(np.vecmat, x1, x2)
        out = matmul(conjugate(movement.reshape(x1, (*shape_of(x1)[:-1], 1, shape_of(x1)[-1]))), x2)
        return movement.reshape(out, (*shape_of(out)[:-2], shape_of(out)[-1]))


@function("linalg.matmul")
def linalg_matmul(x1, x2, /):
    return matmul(x1, x2)


@function("linalg.vecdot")
def linalg_vecdot(x1, x2, /, *, axis=-1):
    return vecdot(moveaxis(x1, axis, -1), moveaxis(x2, axis, -1))


@function("dot", method="dot")
def dot(a, b, out=None):
    a, b = promote(asarray(a), asarray(b))
    na, nb = len(shape_of(a)), len(shape_of(b))
    if not na or not nb:
        return e.mul(a, b)
    check_inner("shapes {} and {} not aligned", a, -1, b, -2 if nb > 1 else 0)
    la = (*(("a", k) for k in range(na - 1)), "k")
    lb = (*(("b", k) for k in range(nb - 2)), "k", "j") if nb > 1 else ("k",)
    return pair(a, la, b, lb, la[:-1] + tuple(k for k in lb if k != "k"))


def check_inner(message: str, a: Any, i: int, b: Any, j: int) -> None:
    m, n = shape_of(a)[i], shape_of(b)[j]
    if m != n:
        sa, sb = (str(shape_of(x)).replace(" ", "") for x in (a, b))
        raise ValueError(
            f"{message.format(sa, sb)}: {m} (dim {i % len(shape_of(a))}) != {n} (dim {j % len(shape_of(b))})"
        )


@function("inner")
def inner(a, b, /):
    a, b = promote(asarray(a), asarray(b))
    na, nb = len(shape_of(a)), len(shape_of(b))
    if not na or not nb:
        return e.mul(a, b)
    check_inner("shapes {} and {} not aligned", a, -1, b, -1)
    la = (*(("a", k) for k in range(na - 1)), "k")
    lb = (*(("b", k) for k in range(nb - 1)), "k")
    return pair(a, la, b, lb, la[:-1] + lb[:-1])


def vector(x: Any) -> Any:
    x = asarray(x)
    return movement.reshape(x, (math.prod(shape_of(x)),))


@function("vdot")
def vdot(a, b, /):
    return dot(conjugate(vector(a)), vector(b))


@function("outer")
def outer(a, b, out=None):
    a, b = promote(vector(a), vector(b))
    return e.mul(movement.reshape(a, (*shape_of(a), 1)), b)


@function("linalg.outer")
def linalg_outer(x1, x2, /):
    one, two = (len(shape_of(asarray(x))) for x in (x1, x2))
    if (one, two) != (1, 1):
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are x1.ndim={one} and x2.ndim={two}."
        )
    return outer(x1, x2)


@function("tensordot", "linalg.tensordot")
def tensordot(a, b, axes=2):
    a, b = promote(asarray(a), asarray(b))
    na, nb = len(shape_of(a)), len(shape_of(b))
    if np.ndim(axes) == 0:
        n = integer(axes)
        over = tuple(range(na - n, na)), tuple(range(n))
    else:
        of_a, of_b = axes
        over = axes_of(of_a, na), axes_of(of_b, nb)
    if len(over[0]) != len(over[1]) or any(
        shape_of(a)[i] != shape_of(b)[j] for i, j in zip(*over, strict=True)
    ):
        raise ValueError("shape-mismatch for sum")
    la = tuple(("k", over[0].index(k)) if k in over[0] else ("a", k) for k in range(na))
    lb = tuple(("k", over[1].index(k)) if k in over[1] else ("b", k) for k in range(nb))
    return pair(a, la, b, lb, tuple(k for k in la + lb if k[0] != "k"))


@function("kron")
def kron(a, b):
    a, b = promote(asarray(a), asarray(b))
    n = max(len(shape_of(a)), len(shape_of(b)))
    full = lambda x: (1,) * (n - len(shape_of(x))) + shape_of(x)
    sa, sb = full(a), full(b)
    a = movement.reshape(a, tuple(m for n_ in sa for m in (n_, 1)))
    b = movement.reshape(b, tuple(m for n_ in sb for m in (1, n_)))
    return movement.reshape(e.mul(a, b), tuple(i * j for i, j in zip(sa, sb, strict=True)))


@function("cross")
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = promote(asarray(a), asarray(b))
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if shape_of(a)[-1] not in (2, 3) or shape_of(b)[-1] not in (2, 3):
        raise ValueError("incompatible dimensions for cross product\n(dimension must be 2 or 3)")
    part = lambda x, k: movement.part(x, len(shape_of(x)) - 1, k, k + 1)
    both = shape_of(a)[-1], shape_of(b)[-1]
    times_ = lambda i, j: e.mul(part(a, i), part(b, j))
    if both == (2, 2):
        out = e.sub(times_(0, 1), times_(1, 0))
        return movement.reshape(out, shape_of(out)[:-1])
    if both == (3, 3):
        rows = [
            e.sub(times_(1, 2), times_(2, 1)),
            e.sub(times_(2, 0), times_(0, 2)),
            e.sub(times_(0, 1), times_(1, 0)),
        ]
    elif both == (3, 2):
        rows = [e.neg(times_(2, 1)), times_(2, 0), e.sub(times_(0, 1), times_(1, 0))]
    else:
        rows = [times_(1, 2), e.neg(times_(0, 2)), e.sub(times_(0, 1), times_(1, 0))]
    out = movement.concatenate(rows, len(shape_of(rows[0])) - 1)
    return moveaxis(out, -1, axisc)


@function("linalg.cross")
def linalg_cross(x1, x2, /, *, axis=-1):
    sizes = [shape_of(asarray(x))[axis] for x in (x1, x2)]
    if sizes != [3, 3]:
        raise ValueError(
            f"Both input arrays must be (arrays of) 3-dimensional vectors, but they are {sizes[0]} and {sizes[1]} dimensional instead."
        )
    return cross(x1, x2, axis=axis)
