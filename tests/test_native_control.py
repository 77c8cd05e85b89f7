"""Branches, checks, and loops that count or stop, against the interpreter of forms."""

import threading

import numpy as np
import pytest
from test_native_forms import Builder, Failed, check, compiled, failing, random_array, run

from rune import native
from rune.native.nest import Host
from rune.native.unit import STATUS, STEPS
from rune.program import Literal

rng = np.random.default_rng(11)
LIMITS = (0, 1, 3, 6)  # of 6 steps


def integers(*values):
    return [np.array(v, np.int64) for v in values]


# loops that stop ------------------------------------------------------------------------------


def growing(n, in_place, reverse=False, counted=True, until=True, kept=1):
    """x grows by a row and a capture in each step, until its first element passes a limit."""
    step = Builder(((n,),), ((), "i8"), ((n,),), ((n,),), ((), "f8"))
    x, k, row, w, _ = step.inputs
    if in_place:
        one = step.index((1,), lambda read, i: read(0, ()), k)
        new = step.update(
            step.scatter(x, step.gather(w, one), one, op="add"), step.slice(row, 0, 1), (0,), op="add"
        )
    else:
        new = step.op("add", step.op("mul", x, w), row)
    total = step.reduce(step.op("mul", row, w), (0,))
    block = step.block(new, step.op("add", k, 1), total, step.op("sin", row))
    test = Builder(((n,),), ((), "i8"), ((n,),), ((), "f8"))
    x, k, w, top = test.inputs
    stop = test.op("gt", test.op("add", test.item(x, 0), test.item(w, 0)), top, dtype="?")
    b = Builder(((n,),), ((6, n),), ((n,),), ((), "f8"), *([((), "i8")] if counted else []))
    x, rows, w, top = b.inputs[:4]
    outs = b.loop(
        block, [x, Literal(np.int64(0))], [rows], [w, top], 6, reverse, kept,
        b.inputs[4] if counted else None, test.block(stop) if until else None,
    )  # fmt: skip
    return b.block(*outs)


@pytest.mark.parametrize("n", [1, 3, 40, 2000])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_loops_that_count_and_stop(n, in_place, reverse):
    for counted, until in ((True, True), (False, True), (True, False)):
        block = growing(max(n, 6), in_place, reverse, counted, until)
        arrays = [random_array(v.type) for v in block.inputs[:3]]
        for top in (-1.0, 3.0, 5.0, 1e9) if until else (0.0,):
            for count in LIMITS if counted else ((),):
                given = [*arrays, np.array(top), *([np.array(count)] if counted else [])]
                check(block, given)


@pytest.mark.parametrize("count", LIMITS)
def test_rows_beyond_the_count_are_zeros_in_every_dtype(count):
    step = Builder(((2,), "f4"), ((3, 5), "c16"), ((), "?"), ((0,), "f8"), ((7,), "i4"))
    c, *rows = step.inputs
    block = step.block(step.op("neg", c), *rows, c)
    b = Builder(((2,), "f4"), ((6, 3, 5), "c16"), ((6,), "?"), ((6, 0), "f8"), ((6, 7), "i4"), ((), "i8"))
    x, *rows, k = b.inputs
    for reverse in (False, True):
        outs = Builder.loop(b, block, [x], rows, [], 6, reverse, count=k)
        check(b.block(*outs), [*(random_array(v.type) for v in b.inputs[:5]), np.array(count)])
        b.forms.clear()


def test_counts_out_of_range_stay_inside():
    f = native.compile(growing(6, False, until=False), "CCCCC")
    arrays = [random_array(v.type) for v in growing(6, False).inputs[:3]]
    for given, meant in ((-3, 0), (9, 6), (2**62, 6)):
        for x, y in zip(
            f([*arrays, np.array(0.0), np.array(given)]),
            f([*arrays, np.array(0.0), np.array(meant)]),
            strict=True,
        ):
            np.testing.assert_array_equal(x, y)


def test_a_loop_of_no_rows():
    for n in (0, 1):
        step = Builder(((3,),))
        block = step.block(step.op("neg", *step.inputs), *step.inputs)
        test = Builder(((3,),))
        stop = test.block(test.reduce(test.op("gt", *test.inputs, 1.0, dtype="?"), (0,), "any"))
        b = Builder(((3,),))
        check(b.block(*b.loop(block, b.inputs, [], [], n, until=stop)))


@pytest.mark.parametrize("read", [False, True])
def test_a_stack_that_is_only_counted(read):
    """The backward half of a loop that stops: it reads as many rows as were taken, and no others are made."""
    block = growing(6, False, counted=False)
    b = Builder(*((v.type.shape, v.type.dtype) for v in block.inputs))
    x, rows, w, top = b.inputs
    f = block.forms[0]
    last, _, sums, kept, taken = b.loop(f.step, [x, Literal(np.int64(0))], [rows], [w, top], 6, until=f.until)
    before = b.concatenate([b.broadcast(x, (1, 6), (1,)), b.slice(b.op("exp", kept), 0, 5)], 0)
    back = Builder(((6,),), ((6,),), ((),))
    c = back.op("add", back.op("mul", back.inputs[0], 0.5), back.op("mul", back.inputs[1], back.inputs[2]))
    (g,) = b.loop(back.block(c), [last], [before, sums], [], 6, reverse=True, count=taken)
    block = b.block(g, taken, *([b.reduce(kept, (0,)), b.reduce(sums, (0,))] if read else []))
    arrays = [random_array(v.type) for v in b.inputs[:3]]
    for limit in (1e9, -1.0, 3.0):
        check(block, [*arrays, np.array(limit)])
    assert ("memset" in compiled(block, "C").llvm) == read


# branches -------------------------------------------------------------------------------------


def three_blocks(n):
    blocks = []
    for k in range(3):
        b = Builder(((n, n),), ((n,),), ((), "i8"))
        a, x, i = b.inputs
        y = (b.op("sin", x), b.contract(a, x, ((1,), (0,))), x)[k]
        s = (b.reduce(a, (0, 1)), b.item(x, 0), b.reduce(b.op("mul", x, x), (0,)))[k]
        j = (i, b.op("add", i, 1), i)[k]
        blocks.append(b.block(y, s, j, x if k else y, a))
    return blocks


@pytest.mark.parametrize("n", [1, 3, 30])
def test_branches_of_every_shape(n):
    b = Builder(((), "i8"), ((n, n),), ((n,),), ((), "i8"))
    k, a, x, i = b.inputs
    y, s, j, x2, _ = b.branch(k, [b.op("mul", a, 2.0), b.op("exp", x), i], *three_blocks(n))
    block = b.block(y, b.op("add", x2, s), j, s)
    arrays = [random_array(v.type) for v in b.inputs[1:]]
    for index in range(3):
        check(block, [np.array(index), *arrays], rtol=1e-10)
        constant = Builder(*((v.type.shape, v.type.dtype) for v in b.inputs))
        outs = constant.branch(Literal(np.int64(index)), constant.inputs[1:], *three_blocks(n))
        check(constant.block(*outs), [np.array(index), *arrays], rtol=1e-10)


@pytest.mark.parametrize("n", [3, 50])
def test_branches_in_loops_in_branches(n):
    inner = []
    for k in range(2):
        b = Builder(((n,),), ((),))
        x, s = b.inputs
        inner.append(b.block(b.op("mul", x, s) if k else b.op("sub", x, b.op("sin", s)), b.reduce(x, (0,))))
    step = Builder(((n,),), ((), "i8"), ((),))
    x, k, s = step.inputs
    y, t = step.branch(k, [x, s], *inner)
    body = step.block(y, t, y)
    outer = []
    for m in (4, 7):
        b = Builder(((n,),), ((7,), "i8"), ((),))
        x, ks, s = b.inputs
        last, ts, _ = b.loop(body, [x], [b.slice(ks, 0, m)], [s], m, reverse=m == 4)
        outer.append(b.block(last, b.reduce(ts, (0,))))
    b = Builder(((), "i8"), ((n,),), ((7,), "i8"), ((),))
    check_k = b.branch(b.inputs[0], b.inputs[1:], *outer)
    for k in range(2):
        arrays = [np.array(k), rng.random(n), rng.integers(0, 2, 7), np.array(0.7)]
        check(b.block(*check_k), arrays, rtol=1e-10)


def test_small_branches_of_a_loop_live_in_registers():
    blocks = []
    for op in ("sin", "neg", "tanh"):
        b = Builder(((3,),), ((3,),))
        blocks.append(b.block(b.op("add", b.op(op, b.inputs[0]), b.inputs[1])))
    step = Builder(((3,),), ((), "i8"), ((3,),))
    x, k, w = step.inputs
    (y,) = step.branch(k, [x, w], *blocks)
    b = Builder(((3,),), ((100,), "i8"), ((3,),))
    (last,) = b.loop(step.block(y), [b.inputs[0]], [b.inputs[1]], [b.inputs[2]], 100)
    block = b.block(last)
    check(block, [rng.random(3), rng.integers(0, 3, 100), rng.random(3)], rtol=1e-9)
    f = native.compile(block, "CCC")
    assert f.report.loops[0].carries == ("registers",) and f.report.branches == [3]
    assert "alloca" not in f.llvm


# failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (200,), (30, 20), (4, 0)], ids=str)
def test_checks(shape):
    b = Builder((shape,), (shape,))
    x, y = b.inputs
    z = b.op("mul", b.op("exp", x), y)
    b.check(b.op("gt", z, 0.0, dtype="?"), failing())
    block = b.block(z)
    arrays = [random_array(v.type) for v in b.inputs]
    check(block, arrays)
    for _ in range(3):
        if x.type.size:
            arrays[1].flat[rng.integers(x.type.size)] = -1.0
            check(block, arrays)


def test_a_check_fuses_with_what_it_reads():
    b = Builder(((1000,),))
    z = b.op("exp", b.inputs[0])
    b.check(b.op("isfinite", z, dtype="?"), failing())
    f = native.compile(b.block(z), "C")
    (kernel,) = f.report.kernels
    assert kernel.results == 2 and f.report.checks == 1
    x = np.zeros(1000)
    f([x])
    x[77] = np.inf
    with pytest.raises(Failed, match="77"):
        f([x])


def test_failures_come_in_order():
    """Of several failures the first in the program is raised, whatever is fused and moved."""
    b = Builder(((300,),), ((300,), "i8"), ((300,), "i8"))
    x, i, j = b.inputs
    first = b.op("exp", x)
    y = b.gather(x, i)
    b.check(b.op("gt", first, 0.0, dtype="?"), failing(1))
    z = b.gather(x, j)
    b.check(b.op("lt", x, 2.0, dtype="?"), failing(2))
    block = b.block(first, b.op("add", y, z), b.op("sin", y))
    good = [np.zeros(300), np.arange(300), np.arange(300)]
    check(block, good)
    nan, large = np.full(300, np.nan), np.full(300, 3.0)
    bad = np.full(300, 300)
    for xs in (good[0], nan, large):
        for one in (good[1], bad):
            for two in (good[2], bad):
                check(block, [xs, one, two])


@pytest.mark.parametrize("n", [2, 6, 40])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)], ids=str)
def test_factorisations_fail_in_order(n, order):
    step = Builder(((n, n),), ((),), ((1,), "i8"), ((n,),))
    a, row, k, x = step.inputs
    outs = [a]
    for which in order:
        if which == 0:
            outs.append(step.library("cholesky", [step.op("mul", a, row)], [((n, n),)]))
        elif which == 1:
            step.check(step.op("lt", row, 2.0, dtype="?"), failing())
        else:
            outs.append(step.gather(x, k))
    b = Builder(((n, n),), ((4,),), ((1,), "i8"), ((n,),))
    block = b.block(*b.loop(step.block(*outs), [b.inputs[0]], [b.inputs[1]], b.inputs[2:], 4))
    a = np.eye(n) + 0.01
    for rows in ([1, 1, 1, 1], [1, 3, 1, 1], [1, -1, 3, 1], [1, 3, -1, 1]):
        for at in (0, n):
            check(block, [a, np.array(rows, float), np.array([at]), rng.random(n)])


@pytest.mark.parametrize("n", [4, 300])
def test_nothing_is_called_after_a_failure(n):
    called = []

    def call(x):
        called.append(float(x[0]))
        return [x]

    step = Builder(((n,),), ((1,), "i8"))
    x, k = step.inputs
    (y,) = (step.add(Host((step.var((n,)),), (x,), call, "host")),)
    y = step.op("add", y, step.broadcast(step.gather(x, k), (n,), (0,)))
    b = Builder(((n,),), ((5, 1), "i8"))
    f = native.compile(b.block(*b.loop(step.block(y), [b.inputs[0]], [b.inputs[1]], [], 5)), "CC")
    f([np.ones(n), np.zeros((5, 1), np.int64)])
    assert called == [1.0, 2.0, 4.0, 8.0, 16.0]
    called.clear()
    with pytest.raises(IndexError, match=r"\(in step 1\)"):
        f([np.ones(n), np.array([[0], [n], [0], [0], [0]])])
    assert called == [1.0, 2.0]


def test_the_first_of_many_chunks_that_fail_is_named():
    n = 2_000_000
    b = Builder(((n,),), ((n,), "i8"))
    x, k = b.inputs
    f = native.compile(b.block(b.op("sin", b.gather(x, k))), "CC")
    assert "first_failure" in f._text  # chunks for the pool of threads
    where = np.arange(n)[::-1].copy()
    np.testing.assert_allclose(f([where / n, where])[0], np.sin(np.arange(n) / n))
    where[[17, 900_000, 1_999_999]] = n + 1, n + 2, n + 3
    for first in (n + 1, n + 2, n + 3):
        for _ in range(5):
            with pytest.raises(IndexError, match=f"index {first} is out"):
                f([where / n, where])
        where[np.argmax(where == first)] = 0


def test_what_is_not_read_fails():
    b = Builder(((30,),), ((20,), "i8"))
    x, k = b.inputs
    b.gather(x, k)
    y = b.gather(b.op("neg", x), k)
    one = Builder(((30,),), ((20,),))
    other = Builder(((30,),), ((20,),))
    (z,) = b.branch(
        Literal(np.int64(0)),
        [x, y],
        one.block(one.op("sin", one.inputs[0])),
        other.block(other.op("sin", other.inputs[0])),
    )
    check(b.block(z), [rng.random(30), np.arange(20)])
    check(b.block(z), [rng.random(30), np.arange(20) + 11])


def test_what_is_read_in_part_fails():
    b = Builder(((30,),), ((20,), "i8"))
    x, k = b.inputs
    y = b.op("mul", b.gather(x, k), 2.0)
    block = b.block(b.slice(y, 0, 10))
    other = Builder(((30,),), ((20,), "i8"))
    x, k = other.inputs
    covered = other.block(other.op("sin", other.update(other.gather(x, k), other.slice(x, 0, 18), (2,))))
    for last in (29, 30):
        check(block, [rng.random(30), np.append(np.arange(19), last)])
        check(covered, [rng.random(30), np.append(np.arange(19), last)])


@pytest.mark.parametrize("first", [False, True])
def test_an_index_that_depends_on_no_step_fails_in_order(first):
    step = Builder(((20,),), ((),), ((1,), "i8"))
    x, row, k = step.inputs
    if first:
        y = step.item(step.gather(x, k), 0)
    step.check(step.op("lt", row, 1.0, dtype="?"), failing())
    if not first:
        y = step.item(step.gather(x, k), 0)
    b = Builder(((20,),), ((5,),), ((1,), "i8"))
    block = b.block(
        *b.loop(step.block(x, step.op("add", y, row)), [b.inputs[0]], [b.inputs[1]], [b.inputs[2]], 5)
    )
    for k in (3, 20):
        for rows in ([0, 0, 0, 0, 0], [2, 0, 0, 0, 0], [0, 0, 3, 0, 0]):
            check(block, [rng.random(20), np.array(rows, float), np.array([k])])


@pytest.mark.parametrize("n", [3, 70])
def test_only_the_block_that_runs_fails(n):
    one = Builder(((n,),), ((), "i8"))
    x, k = one.inputs
    at = one.index((1,), lambda read, i: read(0, ()), k)
    first = one.block(one.scatter(x, one.gather(x, at), at, op="add"))
    two = Builder(((n,),), ((), "i8"))
    x, k = two.inputs
    two.check(two.op("gt", x, 0.0, dtype="?"), failing(2))
    second = two.block(two.op("neg", x))
    three = Builder(((n,),), ((), "i8"))
    third = three.block(three.op("sin", three.inputs[0]))
    step = Builder(((n,),), ((), "i8"), ((), "i8"))
    (y,) = step.branch(step.inputs[1], [step.inputs[0], step.inputs[2]], first, second, third)
    b = Builder(((n,),), ((6,), "i8"), ((), "i8"))
    x, ks, k = b.inputs
    block = b.block(*b.loop(step.block(y, y), [x], [ks], [k], 6))
    for which in ([2, 2, 2, 2, 2, 2], [0, 1, 2, 0, 1, 0], [1, 2, 0, 1, 2, 1], [2, 0, 2, 0, 2, 1]):
        for k in (0, -1, n, -n - 1):
            for value in (1.0, -1.0):
                x = np.full(n, value)
                check(block, [x, *integers(which, k)])


@pytest.mark.parametrize("n", [2, 60])
def test_checks_in_nested_loops_name_their_steps(n):
    inner = Builder(((n,),), ((),), ((),))
    c, row, top = inner.inputs
    new = inner.op("add", c, row)
    inner.check(inner.op("lt", new, top, dtype="?"), failing(7))
    inner_block = inner.block(new)
    step = Builder(((n,),), ((5,),), ((),))
    (last,) = step.loop(inner_block, [step.inputs[0]], [step.inputs[1]], [step.inputs[2]], 5, reverse=True)
    b = Builder(((n,),), ((4, 5),), ((),))
    block = b.block(*b.loop(step.block(last), [b.inputs[0]], [b.inputs[1]], [b.inputs[2]], 4))
    rows = np.ones((4, 5))
    for top in (0.5, 3.5, 10.0, 17.5, 100.0):
        check(block, [np.zeros(n), rows, np.array(top)])


def test_loops_inside_more_loops_than_the_status_has_room_for():
    b = Builder(((2,),))
    b.check(b.op("lt", b.inputs[0], 1.0, dtype="?"), failing())
    block = b.block(b.op("add", b.inputs[0], 0.0))
    for _ in range(13):
        b = Builder(((2,),))
        block = b.block(*b.loop(block, b.inputs, [], [], 2))
    f = native.compile(block, "C")
    f([np.zeros(2)])
    with pytest.raises(Failed) as caught:
        f([np.ones(2)])
    assert caught.value.args == (0, 0, (0,) * (STATUS - STEPS))


def test_a_test_that_fails():
    step = Builder(((), "i8"), ((5,),))
    block = step.block(step.op("add", step.inputs[0], 1))
    test = Builder(((), "i8"), ((5,),))
    k, x = test.inputs
    at = test.index((1,), lambda read, i: read(0, ()), k)
    stop = test.block(test.item(test.op("gt", test.gather(x, at), 0.0, dtype="?"), 0))
    b = Builder(((), "i8"), ((5,),))
    block = b.block(*b.loop(block, [b.inputs[0]], [], [b.inputs[1]], 8, until=stop))
    for start, x in ((0, [0, 0, 0, 1, 0]), (2, [0, 0, 0, 0, 0]), (-7, [0, 0, 0, 0, 0])):
        check(block, [*integers(start), np.array(x, float)])


# in place -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [4, 60])
def test_an_element_is_read_before_and_after_it_is_written(n):
    step = Builder(((n,),), ((), "i8"))
    c, k = step.inputs
    at = step.index((1,), lambda read, i: read(0, ()), k)
    before = step.gather(c, at)
    new = step.scatter(c, step.op("add", before, 1.0), at)
    after = step.gather(new, at)
    b = Builder(((n,),), ((5,), "i8"))
    outs = b.loop(
        step.block(new, before, after, step.op("add", after, before)), [b.inputs[0]], [b.inputs[1]], [], 5
    )
    check(b.block(*outs), [rng.random(n), np.array([1, 3, 1, -2, 1])])


@pytest.mark.parametrize("n", [4, 60])
def test_a_carry_that_some_steps_write(n):
    one = Builder(((n,),), ((), "i8"))
    x, k = one.inputs
    at = one.index((1,), lambda read, i: read(0, ()), k)
    blocks = [
        one.block(one.scatter(x, one.op("mul", one.gather(x, at), 3.0), at)),
    ]
    two = Builder(((n,),), ((), "i8"))
    blocks.append(two.block(two.inputs[0]))
    step = Builder(((n,),), ((), "i8"), ((), "i8"))
    c, which, k = step.inputs
    (new,) = step.branch(which, [c, k], *blocks)
    b = Builder(((n,),), ((5,), "i8"), ((5,), "i8"))
    block = b.block(*b.loop(step.block(new, step.item(new, 1)), [b.inputs[0]], b.inputs[1:], [], 5))
    check(block, [rng.random(n), np.array([0, 1, 0, 0, 1]), np.array([1, 3, 1, -2, 1])])


# random blocks --------------------------------------------------------------------------------


KINDS = "svmiw"  # scalar, vector, matrix, integer, five rows


class Random:
    """A block at random: branches, loops of every kind and checks, in one another."""

    def __init__(self, r, n):
        self.r, self.n = r, n
        self.sites = 0
        self.kinds = {
            "s": ((), "f8"),
            "v": ((n,), "f8"),
            "m": ((n, 3), "f8"),
            "i": ((), "i8"),
            "w": ((5, n), "f8"),
        }

    def pick(self, b, kind):
        shape, dtype = self.kinds[kind]
        known = [v for v in b.pool if v.type.shape == shape and v.type.dtype == np.dtype(dtype)]
        return known[self.r.integers(len(known))]

    def block(self, kinds, outs, depth):
        """A block with inputs and outputs of the kinds."""
        b = Builder(*(self.kinds[k] for k in kinds))
        b.pool = list(b.inputs)
        for kind in KINDS:
            if kind not in kinds:
                shape, dtype = self.kinds[kind]
                value = np.dtype(dtype).type(self.r.integers(0, 3))
                b.pool.append(b.index(shape, lambda read, i: read(0, ()), Literal(value), dtype=dtype))
        for _ in range(self.r.integers(2, 6)):
            self.form(b, depth)
        return b.block(*(self.pick(b, k) for k in outs))

    def form(self, b, depth):
        r, n = self.r, self.n
        kind = r.integers(14 if depth else 9)
        if kind == 0:
            b.pool.append(b.op(["sin", "neg"][r.integers(2)], self.pick(b, "svmw"[r.integers(4)])))
        elif kind == 1:
            k = "svm"[r.integers(3)]
            b.pool.append(b.op(["add", "mul", "maximum"][r.integers(3)], self.pick(b, k), self.pick(b, k)))
        elif kind == 2:
            b.pool.append(b.reduce(b.op("sin", self.pick(b, "v")), (0,), ["sum", "max"][r.integers(2)]))
            b.pool.append(b.reduce(self.pick(b, "w"), (0,), ["sum", "max"][r.integers(2)]))
        elif kind == 3:
            b.pool.append(b.reduce(self.pick(b, "m"), (1,)))
        elif kind == 4:
            b.pool.append(b.op("sin", b.broadcast(self.pick(b, "v"), (n, 3), (0,))))
        elif kind == 5:
            k = self.pick(b, "i")
            if r.integers(4):
                k = b.op("mod", k, np.int64(n))
            at = b.index((1,), lambda read, i: read(0, ()), k)
            x = self.pick(b, "v")
            if r.integers(2):
                b.pool.append(b.item(b.gather(x, at), 0))
            else:
                u = b.op("add", b.gather(x, at), 1.0)
                b.pool.append(b.scatter(x, u, at, op=["set", "add"][r.integers(2)]))
        elif kind == 6:
            b.pool.append(b.op("add", self.pick(b, "i"), np.int64(r.integers(1, 3))))
        elif kind == 7:
            x = self.pick(b, "svmw"[r.integers(4)])
            self.sites += 1
            ok = b.op("lt", x, float(r.choice([0.3, 1.2, 2.0, 5.0, 1e3, 1e3])), dtype="?")
            b.check(ok, failing(self.sites))
        elif kind == 8:
            x = self.pick(b, "v")
            if r.integers(2):
                u = b.slice(self.pick(b, "v"), 0, 1)
                b.pool.append(b.update(x, u, (int(r.integers(n)),), op=["set", "add"][r.integers(2)]))
            else:
                u = b.broadcast(b.op("sin", x), (1, n), (1,))
                x = self.pick(b, "w")
                b.pool.append(b.update(x, u, (int(r.integers(5)), 0), op=["set", "add"][r.integers(2)]))
        elif kind in (9, 10):
            kinds = [*KINDS[: r.integers(1, 6)], *r.choice(list(KINDS), 2)]
            outs = r.choice(list(KINDS), r.integers(0, 4))
            blocks = [self.block(kinds, outs, depth - 1) for _ in range(r.integers(1, 4))]
            index = b.op("mod", self.pick(b, "i"), np.int64(len(blocks)))
            b.pool += b.branch(index, [self.pick(b, k) for k in kinds], *blocks)
        else:
            carries = list(r.choice(list(KINDS), r.integers(0, 4)))
            captures = list(r.choice(list(KINDS), r.integers(0, 3)))
            rows = int(r.integers(2))
            length = int(r.choice([0, 1, 2, 5]))
            stacks = list(r.choice(list("svi"), r.integers(0, 3)))
            more = int(r.integers(2))
            step = self.block(
                [*carries, *("i" * rows), *("v" * more), *captures], [*carries, *stacks], depth - 1
            )
            until = None
            if r.integers(2):
                test = self.block([*carries, *captures], ["s"], 0)
                (s,) = test.outputs
                stop = Builder()
                stop.forms = test.forms
                stop.inputs = test.inputs
                test = stop.block(stop.op("gt", s, float(r.choice([0.1, 1.0, 2.0, 1e3])), dtype="?"))
                until = test
            count = None
            if r.integers(2):
                count = b.op("mod", self.pick(b, "i"), np.int64(length + 1))
            given = []
            if rows:
                i = self.pick(b, "i")
                given = [b.index((length,), lambda read, j, i=i: read(0, ()), i)]
            if more:
                w = self.pick(b, "w")
                given.append(w if length == 5 else b.slice(w, 0, length))
            outs = b.loop(
                step, [self.pick(b, k) for k in carries], given, [self.pick(b, k) for k in captures], length,
                bool(r.integers(2)), 0, count, until,
            )  # fmt: skip
            outs, more = outs[: len(carries)], outs[len(carries) :]
            if until is not None:
                outs, more = [*outs, more[-1]], more[:-1]
            b.pool += outs
            for x in more:
                if x.type.dtype == np.float64 and length:
                    b.pool.append(b.reduce(x, (0,)))
                elif length:
                    b.pool.append(b.item(x, int(r.integers(length))))


def random_case(seed):
    r = np.random.default_rng(seed)
    n = int(r.choice([2, 3, 5, 30, 80]))
    block = Random(r, n).block(KINDS, KINDS, 3)
    arrays = [np.array(r.uniform(0.2, 0.9, v.type.shape)) for v in block.inputs]
    arrays[KINDS.index("i")] = np.array(r.integers(0, 4))
    return block, arrays


@pytest.mark.parametrize("seed", range(60))
def test_random_blocks(seed):
    block, arrays = random_case(seed)
    check(block, arrays, rtol=1e-9)


def writing(r, n, depth):
    """A block (array, integer, number) -> the same: a chain of writes, with reads of old and new arrays."""
    b = Builder(((n,),), ((), "i8"), ((),))
    arrays, k, s = [b.inputs[0]], b.inputs[1], b.inputs[2]
    for _ in range(r.integers(1, 5)):
        old = arrays[-1] if r.integers(6) else arrays[r.integers(len(arrays))]
        kind = r.integers(8 if depth else 4)
        if kind == 0:
            s = b.op("sin", b.op("add", s, b.item(old, int(r.integers(n)))))
        elif kind == 1:
            at = b.index((1,), lambda read, i: read(0, ()), b.op("mod", k, np.int64(n)))
            value = b.op("add", b.broadcast(s, (1,), ()), b.gather(arrays[r.integers(len(arrays))], at))
            arrays.append(b.scatter(old, value, at, op=["set", "add"][r.integers(2)]))
            s = b.op("sin", b.op("add", s, b.item(b.gather(arrays[-1], at), 0)))
        elif kind == 2:
            at = int(r.integers(n))
            value = b.op("cos", b.broadcast(s, (1,), ()))
            arrays.append(b.update(old, value, (at,), op=["set", "add"][r.integers(2)]))
        elif kind == 3:
            k = b.op("add", k, np.int64(r.integers(1, 4)))
            total = b.reduce(b.op("mul", old, arrays[r.integers(len(arrays))]), (0,))
            s = b.op("sin", b.op("mul", total, 1e-3))
        elif kind < 6:
            blocks = [writing(r, n, depth - 1) for _ in range(r.integers(1, 4))]
            index = b.op("mod", k, np.int64(len(blocks)))
            array, k, s = b.branch(index, [old, k, s], *blocks)
            arrays.append(array)
        else:
            step = writing(r, n, depth - 1)
            until = None
            if r.integers(2):
                test = Builder(((n,),), ((), "i8"), ((),))
                x = test.item(test.inputs[0], int(r.integers(n)))
                until = test.block(test.op("gt", test.op("add", x, test.inputs[2]), 1.5, dtype="?"))
            count = b.op("mod", k, np.int64(4)) if r.integers(2) else None
            outs = b.loop(step, [old, k, s], [], [], 3, bool(r.integers(2)), 0, count, until)
            array, k, s = outs[:3]
            arrays.append(array)
    return b.block(arrays[-1] if r.integers(5) else arrays[r.integers(len(arrays))], k, s)


@pytest.mark.parametrize("seed", range(30))
def test_random_writes(seed):
    r = np.random.default_rng(seed)
    n = int(r.choice([3, 20, 40, 300]))
    block = writing(r, n, 3)
    check(block, [r.uniform(0.1, 0.9, n), np.array(r.integers(0, 9)), np.array(0.5)], rtol=1e-9)


def test_eight_threads():
    blocks = [random_case(seed) for seed in range(100, 112)]
    blocks += [(growing(n, True), None) for n in (6, 500)]
    work = []
    for block, arrays in blocks:
        if arrays is None:
            arrays = [random_array(v.type) for v in block.inputs[:3]] + [np.array(3.0), np.array(5)]
        try:
            expected = run(block, arrays)
        except (IndexError, Failed) as error:
            expected = error
        work.append((native.compile(block, "C" * len(arrays)), arrays, expected))
    wrong = []

    def calls(k):
        for j in range(300):
            f, arrays, expected = work[(j + k) % len(work)]
            try:
                got = f(arrays)
            except Exception as error:
                if type(error) is not type(expected):
                    wrong.append((k, error))
            else:
                if isinstance(expected, Exception) or not all(
                    np.allclose(g, e, rtol=1e-9, atol=1e-9, equal_nan=True)
                    for g, e in zip(got, expected, strict=True)
                ):
                    wrong.append((k, j))

    threads = [threading.Thread(target=calls, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
