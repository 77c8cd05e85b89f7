"""What a backward pass keeps: the plans that must come out, and laws of the cut."""

import numpy as np

from rune.cut import plan
from rune.primitives.linalg import cholesky_
from rune.primitives.map import map_
from rune.program import Equation, Program, Type, Var

f64 = np.dtype(np.float64)


def var(*shape):
    return Var(Type(f64, shape))


def apply(op, out, *inputs):
    return Equation(map_, inputs, {"op": op}, (out,))


def test_what_is_at_hand_is_free():
    y, z, s = var(5, 5), var(5, 5), var(5, 5)
    program = Program([y, z], [apply("add", s, y, z)], [])
    found = plan(program, [s], {id(y), id(z)})
    assert found.stored == [] and found.repeated == program.equations


def test_the_narrow_place_is_stored():
    """Where much is read, and the carry is wide, a scalar between them is cheapest."""
    carry, total = var(100), var()
    reads = [var() for _ in range(3)]
    sum_ = Equation(cholesky_, (carry,), {}, (total,))  # stands for any operation that is not repeated
    program = Program(
        [carry],
        [sum_, *(apply(op, r, total) for op, r in zip(("sin", "cos", "exp"), reads, strict=True))],
        [],
    )
    found = plan(program, reads, set())
    assert found.stored == [total] and found.bytes == 8
    assert len(found.repeated) == 3


def test_of_equal_cuts_the_one_that_repeats_least_is_taken():
    carry, a, b = var(), var(), var()
    program = Program([carry], [apply("sin", a, carry), apply("exp", b, a)], [])
    found = plan(program, [b], set())
    assert found.stored == [b] and found.repeated == []


def test_a_factorisation_is_stored_and_never_repeated():
    carry, l, r = var(3, 3), var(3, 3), var(3, 3)
    program = Program([carry], [Equation(cholesky_, (carry,), {}, (l,)), apply("exp", r, l)], [])
    found = plan(program, [r, l], set())
    assert found.stored == [l]
    assert [e.primitive for e in found.repeated] == [map_]
