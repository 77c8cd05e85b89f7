"""Index arithmetic of loop nests: affine sums of loop counters that fold while they are built.

An *atom* is a counter, or an integer that was computed or read; it has a range.  An `Idx` is
`const + sum(coefficient * atom)`.  Python's integer operators work on it.  Division and remainder
by a constant split exactly where the ranges allow it, so that a reshape of a loop's index usually
costs nothing; otherwise they are computed and become atoms.
"""

from __future__ import annotations


class Value:
    """A value of one LLVM function: its name, dtype code, and the scope that it stands in.

    A complex value has two names (`name` the real part, `im` the imaginary one).  A constant has no
    function.
    """

    __slots__ = ("depth", "fn", "im", "kind", "name")

    def __init__(self, name, kind, depth=0, fn=None, im=None):
        self.name = name
        self.kind = kind
        self.depth = depth
        self.fn = fn
        self.im = im


class Atom(Value):
    """An integer (int64) with a range, one term of an `Idx`."""

    __slots__ = ("hi", "lo", "order", "unit")

    def __init__(self, name, depth, fn, lo, hi, unit):
        super().__init__(name, "i8", depth, fn)
        self.lo = lo
        self.hi = hi
        self.unit = unit
        unit.atoms += 1
        self.order = unit.atoms


class Idx:
    """`const + sum(coefficient * atom)`, terms ordered by atom."""

    __slots__ = ("const", "key", "terms")

    def __init__(self, terms, const):
        self.terms = terms
        self.const = const
        self.key = (const, *((a.order, c) for a, c in terms))

    def __hash__(self):
        return hash(self.key)

    def __eq__(self, other):
        return isinstance(other, Idx) and self.key == other.key

    def __add__(self, other):
        if isinstance(other, Idx):
            if not other.terms:
                return self + other.const
            sums = dict(self.terms)
            for a, c in other.terms:
                sums[a] = sums.get(a, 0) + c
            return affine(sums, self.const + other.const)
        return Idx(self.terms, self.const + int(other))

    __radd__ = __add__

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + (-other)

    def __rsub__(self, other):
        return (-self) + other

    def __mul__(self, c):
        if isinstance(c, Idx):
            raise TypeError("an index may be multiplied by constants only")
        c = int(c)
        if c == 0:
            return 0
        return Idx(tuple((a, k * c) for a, k in self.terms), self.const * c)

    __rmul__ = __mul__

    def __floordiv__(self, c):
        return divided(self, int(c))[0]

    def __mod__(self, c):
        return divided(self, int(c))[1]

    def __divmod__(self, c):
        return divided(self, int(c))


def affine(sums: dict, const: int) -> Idx | int:
    terms = tuple(sorted(((a, c) for a, c in sums.items() if c), key=lambda t: t[0].order))
    return Idx(terms, const) if terms else const


def bounds(i) -> tuple[int, int]:
    """The least and the greatest value that an index can have."""
    if not isinstance(i, Idx):
        return i, i
    lo = hi = i.const
    for a, c in i.terms:
        lo += c * (a.lo if c > 0 else a.hi)
        hi += c * (a.hi if c > 0 else a.lo)
    return lo, hi


def divided(i: Idx, c: int):
    """Quotient and remainder (floor) of an index by a positive constant."""
    if c == 1:
        return i, 0
    whole = {a: k // c for a, k in i.terms if k % c == 0}
    rest = {a: k for a, k in i.terms if k % c}
    remainder = affine(rest, i.const)
    lo, hi = bounds(remainder)
    if lo // c == hi // c:
        return affine(whole, lo // c), remainder - c * (lo // c)
    shift = lo // c
    remainder = remainder - c * shift
    q, r = remainder.terms[0][0].unit.fn.divide(remainder, c)
    return affine(whole, shift) + q, r
