"""Rows of `math` for truth and order: logical operations and comparisons of every class of dtype."""

from __future__ import annotations

from .math import I, and_, cmp, constant, not_, num, or_, parts, row, select, truth


@row("add maximum logical_or or fmax", "b")
def _(op, fn, a, b):
    return or_(fn, a, b)


@row("mul minimum logical_and and fmin", "b")
def _(op, fn, a, b):
    return and_(fn, a, b)


@row("logical_xor xor ne", "b")
def _(op, fn, a, b):
    return I(fn, "xor", a, b)


@row("not logical_not", "b")
def _(op, fn, a):
    return not_(fn, a)


@row("and or xor", "iu")
def _(op, fn, a, b):
    return I(fn, op, a, b)


@row("not", "iu")
def _(fn, a):
    return I(fn, "xor", a, num(-1, a))


@row("logical_and", "iufc")
def _(fn, a, b):
    return and_(fn, truth(fn, a), truth(fn, b))


@row("logical_or", "iufc")
def _(fn, a, b):
    return or_(fn, truth(fn, a), truth(fn, b))


@row("logical_xor", "iufc")
def _(fn, a, b):
    return I(fn, "xor", truth(fn, a), truth(fn, b))


@row("logical_not", "iufc")
def _(fn, a):
    return not_(fn, truth(fn, a))


COMPARE = {
    "f": dict(eq="oeq", ne="une", lt="olt", le="ole", gt="ogt", ge="oge"),
    "i": dict(eq="eq", ne="ne", lt="slt", le="sle", gt="sgt", ge="sge"),
    "u": dict(eq="eq", ne="ne", lt="ult", le="ule", gt="ugt", ge="uge"),
}
COMPARE["b"] = COMPARE["u"]


@row("eq ne lt le gt ge", "biuf")
def _(op, fn, a, b):
    if {a.kind[0], b.kind[0]} == {"i", "u"}:
        return compare_signs(fn, op, a, b)
    return cmp(fn, COMPARE[a.kind[0]][op], a, b)


def compare_signs(fn, op, a, b):
    """int64 beside uint64, which NumPy compares by value: what is negative is less than all else."""
    x = a if a.kind[0] == "i" else b
    negative = cmp(fn, "slt", x, num(0, x))
    known = constant(op == "ne" or ((op[0] == "l") == (x is a) and op != "eq"), "b1")
    return select(fn, negative, known, cmp(fn, COMPARE["u"][op], a, b))


@row("eq ne lt le gt ge", "c")
def _(op, fn, a, b):
    (ar, ai), (br, bi) = parts(fn, a), parts(fn, b)
    eq = and_(fn, cmp(fn, "oeq", ar, br), cmp(fn, "oeq", ai, bi))
    if op == "eq":
        return eq
    if op == "ne":
        return not_(fn, eq)
    # NumPy orders by real part, then imaginary; a NaN in any part that is looked at gives False
    strict = COMPARE["f"][op[0] + "t"]
    first = cmp(fn, strict, ar, br)
    ordered = cmp(fn, "ord", ai, bi)
    tie = and_(fn, cmp(fn, "oeq", ar, br), cmp(fn, COMPARE["f"][op], ai, bi))
    return or_(fn, and_(fn, first, ordered), tie)
