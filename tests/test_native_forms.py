"""Every form of the loop language against a NumPy interpreter of forms."""

import threading

import numpy as np
import pytest

from rune import native
from rune.native.nest import (
    Accumulate,
    Block,
    Branch,
    Check,
    Concatenate,
    Constant,
    Contract,
    Elementwise,
    Host,
    Index,
    Library,
    Loop,
    Reduce,
    Scatter,
    Update,
)
from rune.program import Literal, Type, Var

rng = np.random.default_rng(7)


class Failed(Exception):
    """A check failed: (site, flat position, steps)."""


def failing(site=0):
    return lambda flat, steps: Failed(site, int(flat), tuple(map(int, steps)))


def out_of_range(shape):
    def error(axis, value, lane, steps):
        where = f" (in {', '.join(f'step {k}' for k in steps)})" if steps else ""
        return IndexError(f"index {value} is out of bounds for axis {axis} with size {shape[axis]}{where}")

    return error


class Builder:
    """Writes a block: each method adds a form and gives its result."""

    def __init__(self, *inputs):
        self.inputs = [self.var(*t) for t in inputs]
        self.forms = []

    def var(self, shape, dtype="f8"):
        return Var(Type(np.dtype(dtype), tuple(shape)))

    def add(self, form):
        self.forms.append(form)
        return form.outs[0] if len(form.outs) == 1 else form.outs

    def op(self, name, *xs, dtype=None):
        xs = tuple(x if isinstance(x, (Var, Literal)) else Literal(x) for x in xs)
        shape = np.broadcast_shapes(*(x.type.shape for x in xs))
        dtype = dtype or next(x.type.dtype for x in xs if x.type.shape == shape)
        return self.add(Elementwise((self.var(shape, dtype),), xs, name))

    def index(self, shape, at, *xs, dtype=None, error=None):
        return self.add(Index((self.var(shape, dtype or xs[0].type.dtype),), xs, at, error))

    def reduce(self, x, axes, op="sum", dtype=None):
        shape = [n for d, n in enumerate(x.type.shape) if d not in axes]
        dtype = dtype or ("i8" if op.startswith("arg") else "?" if op in ("any", "all") else x.type.dtype)
        return self.add(Reduce((self.var(shape, dtype),), (x,), op, tuple(axes)))

    def contract(self, a, b, contracting, batch=((), ())):
        (ca, cb), (ba, bb) = contracting, batch
        sa, sb = a.type.shape, b.type.shape
        shape = [sa[d] for d in ba]
        shape += [n for d, n in enumerate(sa) if d not in (*ca, *ba)]
        shape += [n for d, n in enumerate(sb) if d not in (*cb, *bb)]
        return self.add(Contract((self.var(shape, a.type.dtype),), (a, b), contracting, batch))

    def matmul(self, a, b):
        return self.contract(a, b, ((1,), (0,)))

    def accumulate(self, x, axis, op="sum", reverse=False):
        return self.add(Accumulate((self.var(x.type.shape, x.type.dtype),), (x,), op, axis, reverse))

    def concatenate(self, xs, axis):
        shape = list(xs[0].type.shape)
        shape[axis] = sum(x.type.shape[axis] for x in xs)
        return self.add(Concatenate((self.var(shape, xs[0].type.dtype),), tuple(xs), axis))

    def stack(self, xs):
        return self.concatenate([self.index((1,), lambda read, i: read(0, ()), x) for x in xs], 0)

    def slice(self, x, start, stop):
        n = stop - start
        return self.index((n, *x.type.shape[1:]), lambda read, i: read(0, (i[0] + start, *i[1:])), x)

    def item(self, x, *at):
        return self.index((), lambda read, i: read(0, at), x)

    def broadcast(self, x, shape, axes):
        """Axis d of x is axis axes[d] of the result."""
        return self.index(
            shape,
            lambda read, i: read(0, tuple(0 if x.type.shape[d] == 1 else i[a] for d, a in enumerate(axes))),
            x,
        )

    def update(self, x, u, starts, steps=None, op="set"):
        return self.add(
            Update(
                (self.var(x.type.shape, x.type.dtype),),
                (x, u),
                tuple(starts),
                tuple(steps or [1] * len(starts)),
                op,
            )
        )

    def scatter(self, x, u, *index, op="set", fails=True):
        error = out_of_range(x.type.shape) if fails else None
        return self.add(Scatter((self.var(x.type.shape, x.type.dtype),), (x, u, *index), op, error))

    def gather(self, x, k, fails=True):
        size = x.type.shape[0]

        def at(read, i):
            n = len(k.type.shape)
            return read(0, (read.bounded(read(1, i[:n]), size, 0), *i[n:]))

        return self.index(
            (*k.type.shape, *x.type.shape[1:]),
            at,
            x,
            k,
            dtype=x.type.dtype,
            error=out_of_range(x.type.shape) if fails else None,
        )

    def loop(self, step, init, rows, captures, length, reverse=False, kept=0, count=None, until=None):
        n = len(init)
        outs = [self.var(v.type.shape, v.type.dtype) for v in step.outputs[:n]]
        outs += [self.var((length, *v.type.shape), v.type.dtype) for v in step.outputs[n:]]
        outs += [self.var((), "i8")] if until is not None else []
        inputs = (*init, *rows, *captures, *([] if count is None else [count]))
        counted = count is not None
        self.forms.append(
            Loop(tuple(outs), inputs, step, n, len(rows), length, reverse, kept, counted, until)
        )
        return outs

    def branch(self, index, operands, *blocks):
        outs = [self.var(v.type.shape, v.type.dtype) for v in blocks[0].outputs]
        self.forms.append(Branch(tuple(outs), (index, *operands), blocks))
        return outs

    def check(self, ok, error):
        self.forms.append(Check((), (ok,), error))

    def library(self, name, ins, outs, **params):
        return self.add(Library(tuple(self.var(*o) for o in outs), tuple(ins), name, params))

    def constant(self, value):
        return self.add(Constant((self.var(value.shape, value.dtype),), (), value))

    def block(self, *outputs):
        return Block(self.inputs, self.forms, list(outputs))


# the interpreter ------------------------------------------------------------------------------

UFUNC = {
    "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "eq": np.equal,
    "lt": np.less, "gt": np.greater, "and": np.bitwise_and,
}  # fmt: skip


def elementwise(form, args):
    if form.op == "select":
        return np.where(*args)
    if form.op == "cast":
        return args[0].astype(form.outs[0].type.dtype)
    return (UFUNC.get(form.op) or getattr(np, form.op))(*args)


class Read:
    def __init__(self, inputs, where=""):
        self.inputs, self.where = inputs, where

    def __call__(self, k, index):
        index = tuple(int(i) for i in index)
        assert all(0 <= i < n for i, n in zip(index, self.inputs[k].shape, strict=True))
        return self.inputs[k][index]

    def bounded(self, value, size, axis, lane=0):
        if not -size <= value < size:
            raise IndexError(f"index {value} is out of bounds for axis {axis} with size {size}{self.where}")
        return int(value) % size


def contract(form, a, b):
    (ca, cb), (ba, bb) = form.contracting, form.batch
    letters = iter("abcdefghijklmnop")
    la, lb = [None] * a.ndim, [None] * b.ndim
    for x, y in [*zip(ba, bb, strict=True), *zip(ca, cb, strict=True)]:
        la[x] = lb[y] = next(letters)
    la = [x or next(letters) for x in la]
    lb = [x or next(letters) for x in lb]
    out = [la[d] for d in ba]
    out += [x for d, x in enumerate(la) if d not in (*ca, *ba)] + [
        x for d, x in enumerate(lb) if d not in (*cb, *bb)
    ]
    return np.einsum(f"{''.join(la)},{''.join(lb)}->{''.join(out)}", a, b)


def run(block, arrays, steps=()):
    """What a block means, by NumPy."""
    env = dict(zip(block.inputs, arrays, strict=True))
    where = f" (in {', '.join(f'step {k}' for k in steps)})" if steps else ""

    def value(x):
        return x.value if isinstance(x, Literal) else env[x]

    for f in block.forms:
        args = [np.asarray(value(x)) for x in f.inputs]
        if isinstance(f, Elementwise):
            r = [elementwise(f, args)]
        elif isinstance(f, Index):
            out = np.empty(f.outs[0].type.shape, f.outs[0].type.dtype)
            for i in np.ndindex(out.shape):
                out[i] = f.at(Read(args, where), i)
            r = [out]
        elif isinstance(f, Reduce):
            if f.op.startswith("arg"):
                r = [getattr(np, f.op)(args[0], axis=f.axes[0])]
            else:
                r = [getattr(np, f.op)(args[0], axis=f.axes)]
        elif isinstance(f, Contract):
            r = [contract(f, *args)]
        elif isinstance(f, Accumulate):
            ufunc = dict(sum=np.add, prod=np.multiply, max=np.maximum, min=np.minimum)[f.op]
            x = np.flip(args[0], f.axis) if f.reverse else args[0]
            x = ufunc.accumulate(x, f.axis)
            r = [np.flip(x, f.axis) if f.reverse else x]
        elif isinstance(f, Concatenate):
            r = [np.concatenate(args, f.axis)]
        elif isinstance(f, Update):
            out = args[0].copy()
            at = tuple(
                slice(s, s + t * (n - 1) + 1 if n else s, t)
                for s, t, n in zip(f.starts, f.steps, args[1].shape, strict=True)
            )
            out[at] = args[1] if f.op == "set" else out[at] + args[1]
            r = [out]
        elif isinstance(f, Scatter):
            out = args[0].copy()
            if f.op == "add":
                for k in np.ndindex(args[2].shape):
                    for d, i in enumerate(args[2:]):
                        Read(args, where).bounded(i[k], out.shape[d], d)
                np.add.at(out, tuple(args[2:]), args[1])
            else:
                for k in np.ndindex(args[2].shape):
                    at = [Read(args, where).bounded(i[k], out.shape[d], d) for d, i in enumerate(args[2:])]
                    out[tuple(at)] = args[1][k]
            r = [out]
        elif isinstance(f, Loop):
            n, m = f.carries, f.carries + f.rows
            count = int(args.pop()) if f.counted else f.length
            carry, rows, captures = args[:n], args[n:m], args[m:]
            stacks = [np.zeros(v.type.shape, v.type.dtype) for v in f.outs[n : len(f.step.outputs)]]
            taken = 0
            for t in range(count)[:: -1 if f.reverse else 1]:
                if f.until is not None and run(f.until, [*carry, *captures], (*steps, t))[0]:
                    break
                got = run(f.step, [*carry, *(x[t] for x in rows), *captures], (*steps, t))
                carry, taken = got[:n], taken + 1
                for s, g in zip(stacks, got[n:], strict=True):
                    s[t] = g
            r = [*carry, *stacks, *([taken] if f.until is not None else [])]
        elif isinstance(f, Branch):
            r = run(f.blocks[int(args[0])], args[1:], steps)
        elif isinstance(f, Check):
            if not args[0].all():
                raise f.error(int(np.argmin(args[0].ravel())), steps)
            r = []
        elif isinstance(f, Library) and f.name == "cholesky":
            try:
                r = [np.linalg.cholesky(args[0])]
            except np.linalg.LinAlgError as error:
                raise np.linalg.LinAlgError(f"{error}{where}") from None
        elif isinstance(f, Constant):
            r = [f.value]
        elif isinstance(f, Host):
            r = f.call(*args)
        else:
            raise NotImplementedError(f)
        for v, x in zip(f.outs, r, strict=True):
            assert np.shape(x) == v.type.shape
            env[v] = np.asarray(x, v.type.dtype)
    return [np.array(value(v)) for v in block.outputs]


def random_array(t):
    if t.dtype.kind == "b":
        return rng.random(t.shape) < 0.5
    if t.dtype.kind in "iu":
        return rng.integers(0, 5, t.shape).astype(t.dtype)
    x = rng.uniform(0.5, 1.5, t.shape)
    if t.dtype.kind == "c":
        x = x + 1j * rng.standard_normal(t.shape)
    return x.astype(t.dtype)


def strided(x):
    """The same array, neither contiguous nor of positive strides."""
    if not x.ndim:
        return x
    big = np.zeros(tuple(2 * n + 1 for n in x.shape), x.dtype)
    view = big[tuple(slice(1, None, 2) for _ in x.shape)][::-1]
    view[...] = x
    return view


def compiled(block, layout):
    """The native code of a block, for one layout of all its arguments; made once."""
    known = vars(block).setdefault("compiled", {})
    if layout not in known:
        known[layout] = native.compile(block, layout * len(block.inputs))
    return known[layout]


def same_failure(got, expected) -> bool:
    """Whether two failures say the same; an index that depends on no step is tested before the loop."""
    if isinstance(got, IndexError):
        return str(expected).startswith(str(got).removesuffix(")"))
    return str(got) == str(expected)


def check(block, arrays=None, rtol=1e-12):
    arrays = [random_array(v.type) for v in block.inputs] if arrays is None else arrays
    try:
        expected = run(block, arrays)
    except (IndexError, np.linalg.LinAlgError, Failed) as error:
        expected = error
    for layout in "CS":
        given = arrays if layout == "C" else [strided(x) for x in arrays]
        copies = [x.copy() for x in given]
        f = compiled(block, layout)
        if isinstance(expected, Exception):
            with pytest.raises(type(expected)) as caught:
                f(given)
            assert same_failure(caught.value, expected)
            continue
        got = f(given)
        for g, e in zip(got, expected, strict=True):
            assert g.dtype == e.dtype and g.shape == e.shape
            tol = {"f2": 1e-2, "f4": 2e-5, "c8": 2e-5}.get(e.dtype.str[1:], rtol)
            np.testing.assert_allclose(g, e, rtol=tol, atol=tol)
        for x, y in zip(given, copies, strict=True):
            np.testing.assert_array_equal(x, y)
        for i, g in enumerate(got):
            assert not any(np.shares_memory(g, x) for x in [*given, *got[:i]] if g.size)
    return expected


SHAPES = [(), (3,), (100,), (7, 5), (40, 30), (2, 3, 4), (0,), (4, 0, 2), (1, 70), (70, 1), (300, 3)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


@shapes
def test_elementwise_chain(shape):
    b = Builder((shape,), (shape,))
    x, y = b.inputs
    z = b.op("mul", b.op("add", x, y), b.op("exp", x))
    check(b.block(z, b.op("sub", z, 1.0), x, z))


@shapes
@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "any", "all"])
def test_reduce_every_axis(shape, op):
    if 0 in shape and op in ("max", "min"):
        return
    for dtype in ("f8", "f4", "f2", "i4", "c16", "?"):
        if (dtype == "?" and op in ("sum", "prod")) or (
            dtype in ("c16", "f2") and shape == (40, 30) and op == "prod"
        ):
            continue
        b = Builder((shape, dtype))
        (x,) = b.inputs
        axes = {(), tuple(range(len(shape))), *((d,) for d in range(len(shape)))}
        axes |= {tuple(e for e in range(len(shape)) if e != d) for d in range(len(shape))}
        axes.discard(())
        check(b.block(*(b.reduce(x, a, op) for a in sorted(axes))))


@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("shape", [(5,), (100,), (7, 5), (40, 30), (3, 4, 50)], ids=str)
def test_arg_reduce(shape, op):
    for dtype in ("f8", "i4", "c16"):
        b = Builder((shape, dtype))
        (x,) = b.inputs
        a = random_array(x.type)
        if dtype == "f8":
            a.flat[3] = a.flat[5 % a.size] = np.nan
        check(b.block(*(b.reduce(x, (d,), op) for d in range(len(shape)))), [a])


def test_sums_of_producers_share_a_nest():
    b = Builder(((50, 60),), ((60,),))
    x, y = b.inputs
    z = b.op("mul", x, b.broadcast(y, (50, 60), (1,)))
    block = b.block(b.reduce(z, (0,)), b.reduce(z, (1,)), b.reduce(z, (0, 1)), z)
    check(block)
    report = native.compile(block, "CC").report
    assert len(report.kernels) == 1 and report.workspace == 0


def test_long_sums_are_blocked():
    b = Builder(((1_000_003,), "f4"))
    (x,) = b.inputs
    a = rng.random(1_000_003).astype("f4")
    (s,) = native.compile(b.block(b.reduce(x, (0,))), "C")([a])
    assert abs(s - a.astype("f8").sum()) < 0.05


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8", "i8", "?", "f2"])
@pytest.mark.parametrize(
    "m,k,n", [(2, 3, 4), (7, 1, 5), (20, 30, 40), (64, 50, 33), (1, 40, 20), (20, 40, 1), (3, 0, 2)]
)
def test_contract(dtype, m, k, n):
    if dtype in ("f2", "?") and m * n * k > 30000:
        return
    b = Builder(((m, k), dtype), ((k, n), dtype), ((k, m), dtype), ((n, k), dtype))
    p, q, pt, qt = b.inputs
    check(
        b.block(
            b.contract(p, q, ((1,), (0,))),
            b.contract(pt, q, ((0,), (0,))),
            b.contract(p, qt, ((1,), (1,))),
            b.contract(pt, qt, ((0,), (1,))),
        ),
        rtol=1e-10,
    )


@pytest.mark.parametrize("batch,m,k,n", [(1, 301, 200, 230), (9, 64, 70, 130), (2, 600, 64, 100)])
def test_large_products_in_threads(batch, m, k, n):
    b = Builder(((batch, m, k),), ((batch, n, k),), ((batch, m, n),))
    x, y, z = b.inputs
    p = b.contract(x, y, ((2,), (2,)), ((0,), (0,)))
    arrays = [rng.random(v.type.shape) for v in b.inputs]
    got = native.compile(b.block(p, b.op("add", b.contract(x, y, ((2,), (2,)), ((0,), (0,))), z)), "CCC")(
        arrays
    )
    expected = arrays[0] @ arrays[1].swapaxes(1, 2)
    np.testing.assert_allclose(got[0], expected, rtol=1e-12)
    np.testing.assert_allclose(got[1], expected + arrays[2], rtol=1e-12)


def test_contract_batches_and_views():
    b = Builder(((5, 20, 30),), ((30, 5, 40),), ((40, 30),), ((6,),))
    x, y, z, v = b.inputs
    check(
        b.block(
            b.contract(x, y, ((2,), (0,)), ((0,), (1,))),
            b.contract(x, b.index((30, 40), lambda read, i: read(0, (i[1], i[0])), z), ((2,), (0,))),
            b.contract(x, b.op("exp", z), ((2,), (1,))),
            b.contract(v, v, ((), ())),
            b.contract(v, v, ((0,), (0,))),
            b.contract(x, x, ((0, 1, 2), (0, 1, 2))),
            b.contract(x, y, ((0, 2), (1, 0))),
        ),
        rtol=1e-10,
    )


@shapes
@pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
def test_accumulate(shape, op):
    for dtype in ("f8", "i4"):
        b = Builder((shape, dtype))
        (x,) = b.inputs
        outs = [b.accumulate(x, d, op, r) for d in range(len(shape)) for r in (False, True)]
        check(b.block(x, *outs))


def test_movement():
    b = Builder(((6, 8),), ((30, 40),))
    for x in b.inputs:
        m, n = x.type.shape
        flat = b.index((m * n,), lambda read, i, n=n: read(0, (i[0] // n, i[0] % n)), x)
        back = b.index((n, m), lambda read, i, m=m: read(0, (i[0] * m + i[1],)), flat)
        turned = b.index((n, m), lambda read, i, m=m: read(0, (m - 1 - i[1], i[0])), x)
        thirds = b.index((m // 2, n // 2), lambda read, i: read(0, (2 * i[0] + 1, 2 * i[1])), x)
        split = b.index((2, m * n // 2), lambda read, i, h=m * n // 2: read(0, (i[0] * h + i[1],)), flat)
        check(b.block(flat, back, b.op("add", back, turned), thirds, split))


@pytest.mark.parametrize("n", [3, 50])
def test_concatenate_inside_other_forms(n):
    b = Builder(((n, 3),), ((n, 5),))
    x, y = b.inputs
    z = b.concatenate([x, b.op("exp", y), x], 1)
    w = b.concatenate([z, z], 0)
    check(b.block(b.op("add", z, z), b.reduce(b.op("mul", w, w), (0,)), w))


@pytest.mark.parametrize("op", ["set", "add"])
@pytest.mark.parametrize("n", [4, 40])
def test_update(op, n):
    b = Builder(((2 * n, n),), ((n - 1, n),), ((n - 1, n - 1),))
    x, u, v = b.inputs
    y = b.update(x, u, (1, 0), (2, 1), op)
    z = b.update(b.op("neg", y), v, (0, 1), (1, 1), op)
    check(b.block(z, b.op("add", x, y), y, b.reduce(z, (0, 1))))
    b = Builder(((2 * n, n),), ((n - 1, n - 1),))
    x, v = b.inputs
    y = b.op("exp", x)
    check(b.block(b.update(b.update(y, v, (0, 1), op=op), v, (2, 0), op=op)))


@pytest.mark.parametrize("op", ["set", "add"])
@pytest.mark.parametrize("n", [5, 60])
def test_scatter_and_gather(op, n):
    k = rng.integers(-n, n, (7,))
    b = Builder(((n, 3),), ((7, 3),), ((7,), "i8"), ((7,), "i8"), ((7,),))
    x, u, i, j, w = b.inputs
    y = b.scatter(x, u, i, op=op)
    z = b.scatter(y, w, i, j, op=op)
    arrays = [random_array(x.type), random_array(u.type), k, rng.integers(-3, 3, (7,)), random_array(w.type)]
    check(b.block(b.gather(x, i), b.op("exp", b.gather(z, i)), z, y), arrays)
    b = Builder(((n, 3),), ((7, 3),), ((7,), "i8"))
    x, u, i = b.inputs
    y = b.scatter(b.op("exp", x), b.op("mul", u, u), i, op=op)
    check(b.block(b.scatter(y, b.gather(y, i), i, op=op)), arrays[:3])


def test_failures_and_recovery():
    b = Builder(((5,),), ((3,), "i8"))
    x, k = b.inputs
    f = native.compile(b.block(b.gather(x, k)), "CC")
    a = rng.random(5)
    for bad in ([0, 7, 1], [0, -6, 9]):
        with pytest.raises(IndexError, match=f"index {bad[1]} is out of bounds for axis 0 with size 5"):
            f([a, np.array(bad)])
    np.testing.assert_array_equal(f([a, np.array([0, -1, 4])])[0], a[[0, -1, 4]])


@pytest.mark.parametrize("what", ["gather", "scatter"])
@pytest.mark.parametrize("n, rest", [(5, ()), (5, (3,)), (0, ()), (0, (3,)), (0, (100_000,))])
def test_an_index_out_of_range_touches_nothing_outside(n, rest, what):
    """A form that fails says so; one whose indices were found right is held inside, in an empty array too."""
    for fails in (True, False):
        b = Builder(((n, *rest),), ((3, *rest),), ((3,), "i8"))
        x, u, k = b.inputs
        y = b.gather(x, k, fails) if what == "gather" else b.scatter(x, u, k, op="add", fails=fails)
        f = native.compile(b.block(y), "CCC")
        arrays = [random_array(x.type), random_array(u.type), np.array([0, 7, -9])]
        if fails:
            with pytest.raises(IndexError, match=f"index {7 if n else 0} is out of bounds for axis 0"):
                f(arrays)
        else:
            assert np.isfinite(f(arrays)[0]).all()


def running_sum(n):
    step = Builder(((),), ((),))
    total = step.op("add", *step.inputs)
    b = Builder(((n,),))
    last, sums = b.loop(step.block(total, total), [Literal(0.0)], b.inputs, [], n)
    return b, last, sums


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_loop_running_sum(n):
    b, last, sums = running_sum(n)
    s = b.reduce(b.op("mul", sums, sums), (0,))
    back = Builder(((),), ((),))
    c = back.op("add", back.inputs[0], back.op("mul", back.inputs[1], 2.0))
    _, g = b.loop(back.block(c, c), [Literal(0.0)], [sums], [], n, reverse=True)
    check(b.block(s, last, g), rtol=1e-10)


@pytest.mark.parametrize("n", [3, 6, 40])
def test_loop_of_matrices(n):
    step = Builder(((n, n),), ((n, n),), ((n,),))
    h, a, x = step.inputs
    new = step.op("sin", step.op("add", step.matmul(a, h), step.broadcast(x, (n, n), (1,))))
    b = Builder(((n, n),), ((5, n, n),), ((n,),))
    outs = b.loop(step.block(new, h, step.reduce(new, (0,))), [b.inputs[0]], [b.inputs[1]], [b.inputs[2]], 5)
    check(b.block(*outs), rtol=1e-8)


@pytest.mark.parametrize("n", [4, 60])
@pytest.mark.parametrize("op", ["set", "add"])
def test_loop_that_writes_one_place(n, op):
    step = Builder(((n,),), ((), "i8"), ((n,),))
    c, k, x = step.inputs
    one = step.index((1,), lambda read, i: read(0, ()), k)
    value = step.op("add", step.op("mul", step.gather(c, one), 2.0), step.op("sin", step.gather(x, one)))
    new = step.scatter(c, value, one, op=op)
    b = Builder(((n,),), ((4,), "i8"), ((n,),))
    outs = b.loop(step.block(new), [b.inputs[0]], [b.inputs[1]], [b.inputs[2]], 4)
    check(b.block(*outs), [rng.random(n), np.array([1, 3, 1, -2]), rng.random(n)])


@pytest.mark.parametrize("n", [2, 50])
def test_carries_that_change_places(n):
    step = Builder(((n,),), ((n,),), ((n,),))
    p, q, r = step.inputs
    b = Builder(((n,),), ((n,),), ((3, n),))
    x, y, rows = b.inputs
    outs = b.loop(step.block(q, step.op("add", p, r), p, r), [x, y], [rows], [], 3)
    check(b.block(*outs))


@pytest.mark.parametrize("n", [3, 50])
def test_nested_loops(n):
    inner = Builder(((n,),), ((n,),), ((),))
    c, row, s = inner.inputs
    new = inner.op("add", inner.op("mul", c, s), row)
    inner_block = inner.block(new, inner.reduce(new, (0,)))
    step = Builder(((n,),), ((4, n),), ((),))
    c, rows, s = step.inputs
    last, sums = step.loop(inner_block, [c], [rows], [s], 4, reverse=True)
    b = Builder(((n,),), ((5, 4, n),), ((),))
    outs = b.loop(
        step.block(step.op("sin", last), sums, last), [b.inputs[0]], [b.inputs[1]], [b.inputs[2]], 5
    )
    check(b.block(*outs))


def doubling(limit, counted=False, reverse=False):
    """c -> 2 c + row, which stops where c > the captured limit; outputs c."""
    step = Builder(((2,),), ((2,),), ((),))
    c, row, _ = step.inputs
    new = step.op("add", step.op("mul", c, 2.0), row)
    test = Builder(((2,),), ((),))
    first = test.item(test.inputs[0], 0)
    until = test.block(test.op("gt", first, test.inputs[1], dtype="?"))
    b = Builder(((2,),), ((6, 2),), ((),), *([((), "i8")] if counted else []))
    outs = [b.var((2,)), b.var((6, 2))] + ([] if counted else [b.var((), "i8")])
    loop = Loop(
        tuple(outs),
        tuple(b.inputs),
        step.block(new, c),
        1,
        1,
        6,
        reverse,
        0,
        counted,
        None if counted else until,
    )
    b.forms.append(loop)
    return b.block(*outs)


def test_loops_that_stop():
    f = native.compile(doubling(6), "CCC")
    x, rows = np.array([1.0, 3.0]), np.arange(12.0).reshape(6, 2)
    for top in (-1.0, 1.0, 30.0, 1e9):
        c, stack, taken = x, np.zeros((6, 2)), 0
        for row in rows:
            if c[0] > top:
                break
            stack[taken] = c
            c = 2 * c + row
            taken += 1
        last, got, n = f([x, rows, np.array(top)])
        np.testing.assert_array_equal(last, c)
        np.testing.assert_array_equal(got, stack)
        assert n == taken


@pytest.mark.parametrize("reverse", [False, True])
def test_counted_loops(reverse):
    f = native.compile(doubling(6, True, reverse), "CCCC")
    x, rows = np.array([1.0, 3.0]), np.arange(12.0).reshape(6, 2)
    for n in (0, 1, 4, 6):
        c, stack = x, np.zeros((6, 2))
        for k in range(n)[:: -1 if reverse else 1]:
            stack[k] = c
            c = 2 * c + rows[k]
        last, got = f([x, rows, np.array(0.0), np.array(n)])
        np.testing.assert_array_equal(last, c)
        np.testing.assert_array_equal(got, stack)


@pytest.mark.parametrize("n", [3, 100])
def test_branches(n):
    def choice(op):
        b = Builder(((n,),), ((),))
        x, s = b.inputs
        return b.block(b.op(op, x), b.op("mul", s, 2.0) if op != "sin" else s)

    b = Builder(((), "i8"), ((n,),), ((),))
    k, x, s = b.inputs
    y, t = b.var((n,)), b.var(())
    b.forms.append(Branch((y, t), (k, b.op("exp", x), s), tuple(map(choice, ("sin", "neg", "sqrt")))))
    f = native.compile(b.block(b.op("add", y, t), y), "CCC")
    a = rng.random(n)
    for i, u in enumerate((np.sin, np.negative, np.sqrt)):
        got = f([np.array(i), a, np.array(1.5)])
        np.testing.assert_allclose(got[1], u(np.exp(a)), rtol=1e-13)
        np.testing.assert_allclose(got[0], u(np.exp(a)) + (1.5 if i == 0 else 3.0), rtol=1e-13)


def test_checks_say_where():
    def error(flat, steps):
        return ValueError(f"element {flat} in step {steps}")

    step = Builder(((3,),), ((3,),))
    c, row = step.inputs
    new = step.op("add", c, row)
    step.forms.append(Check((), (step.op("lt", new, 5.0, dtype="?"),), error))
    b = Builder(((3,),), ((4, 3),))
    (last,) = b.loop(step.block(new), [b.inputs[0]], [b.inputs[1]], [], 4)
    f = native.compile(b.block(last), "CC")
    rows = np.ones((4, 3))
    np.testing.assert_array_equal(f([np.zeros(3), rows])[0], [4, 4, 4])
    rows[2, 1] = 9
    with pytest.raises(ValueError, match=r"^element 1 in step \(2,\)$"):
        f([np.zeros(3), rows])
    b = Builder(((10, 10),))
    b.forms.append(Check((), (b.op("lt", b.inputs[0], 5.0, dtype="?"),), error))
    f = native.compile(b.block(b.inputs[0]), "C")
    x = np.zeros((10, 10))
    np.testing.assert_array_equal(f([x])[0], x)
    x[4, 7] = x[8, 1] = 6
    with pytest.raises(ValueError, match=r"^element 47 in step \(\)$"):
        f([x])


def test_rows_that_are_computed():
    step = Builder(((3,),), ((3,),))
    new = step.op("add", *step.inputs)
    b = Builder(((3,),), ((50, 3),))
    x, rows = b.inputs
    rows = b.op("exp", rows)
    check(b.block(*b.loop(step.block(new, new), [b.op("sin", x)], [rows], [], 50)))


def test_constants_are_bound_by_reference():
    a = rng.random((20, 4))
    b = Builder(((20, 4),))
    f = native.compile(b.block(b.op("add", b.inputs[0], b.constant(a))), "C")
    x = rng.random((20, 4))
    np.testing.assert_array_equal(f([x])[0], x + a)
    a[3] = 7.0
    np.testing.assert_array_equal(f([x])[0], x + a)


def solve_block(n, k, batch=(), dtype="f8", transpose=False):
    b = Builder(((*batch, n, n), dtype), ((*batch, n, k), dtype))
    a, y = b.inputs
    lu, perm = b.library("lu", [a], [((*batch, n, n), dtype), ((*batch, n), "i8")], check=True)
    x = b.library("lu_solve", [lu, perm, y], [((*batch, n, k), dtype)], transpose=transpose)
    c = Builder(((*batch, n, n), dtype), ((*batch, n, k), dtype))
    low = c.library("cholesky", c.inputs[:1], [((*batch, n, n), dtype)])
    return b.block(lu, perm, x), c.block(low)


sizes = pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 16, 30, 70])


@sizes
@pytest.mark.parametrize("dtype", ["f8", "c16", "f4", "c8"])
@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_factorisations(n, dtype, batch):
    tol = 1e-9 if np.dtype(dtype).itemsize == 16 or dtype == "f8" else 2e-3
    a = rng.standard_normal((*batch, n, n)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        a = a + (1j * rng.standard_normal((*batch, n, n))).astype(dtype)
    y = rng.standard_normal((*batch, n, 2)).astype(dtype)
    for transpose in (False, True):
        solve, factor = solve_block(n, 2, batch, dtype, transpose)
        lu, perm, x = native.compile(solve, "CC")([a, y])
        permuted = np.take_along_axis(a, perm[..., None], -2)
        low = np.tril(lu, -1) + np.eye(n)
        np.testing.assert_allclose(low @ np.triu(lu), permuted, rtol=tol, atol=tol)
        left = np.swapaxes(a, -1, -2) if transpose else a
        np.testing.assert_allclose(left @ x, y, rtol=tol * 100, atol=tol * 100)
    spd = a @ np.swapaxes(a, -1, -2).conj() + n * np.eye(n, dtype=dtype)
    garbage = np.triu(np.full((n, n), 7.0), 1).astype(dtype)
    (low,) = native.compile(factor, "CC")([np.tril(spd) + garbage, y])
    np.testing.assert_allclose(low, np.linalg.cholesky(spd), rtol=tol, atol=tol)


@sizes
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_triangular_solve(n, dtype):
    from scipy.linalg import solve_triangular

    a = random_array(Type(np.dtype(dtype), (n, n))) + n * np.eye(n)
    y = random_array(Type(np.dtype(dtype), (n, 3)))
    for lower in (False, True):
        for transpose in (False, True):
            for unit in (False, True):
                b = Builder(((n, n), dtype), ((n, 3), dtype))
                x = b.library(
                    "triangular_solve",
                    b.inputs,
                    [((n, 3), dtype)],
                    lower=lower,
                    transpose=transpose,
                    unit=unit,
                )
                m = a / (4 * n) if unit else a
                (x,) = native.compile(b.block(x), "CC")([m, y])
                e = solve_triangular(m, y, lower=lower, trans=int(transpose), unit_diagonal=unit)
                np.testing.assert_allclose(x, e, rtol=1e-9, atol=1e-9)


@sizes
def test_factorisations_that_fail(n):
    f, g = (native.compile(b, "CC") for b in solve_block(n, 2))
    y = rng.random((n, 2))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        f([np.zeros((n, n)), y])
    with pytest.raises(np.linalg.LinAlgError, match="Matrix is not positive definite"):
        g([-np.eye(n), y])
    np.testing.assert_allclose(f([2 * np.eye(n), y])[2], y / 2)
    np.testing.assert_allclose(g([4 * np.eye(n), y])[0], 2 * np.eye(n))


@pytest.mark.parametrize("shape", [(1,), (5,), (8, 9), (3, 100), (4, 0), (1000,)], ids=str)
@pytest.mark.parametrize("dtype", ["f8", "i4", "c16", "?", "u1", "f2"])
def test_argsort(shape, dtype):
    b = Builder((shape, dtype))
    order = b.library("argsort", b.inputs, [(shape, "i8")])
    x = np.round(3 * rng.standard_normal(shape)).astype(dtype)
    if x.size > 5 and dtype in ("f8", "c16"):
        x.flat[2] = x.flat[4] = np.nan
    (got,) = native.compile(b.block(order), "C")([x])
    np.testing.assert_array_equal(got, np.argsort(x, axis=-1, kind="stable"))


def test_host_calls():
    def call(x, k):
        if k < 0:
            raise KeyError("negative")
        return [np.sort(x), np.int64(k + 1)]

    step = Builder(((50,),), ((), "i8"))
    y, k = step.add(Host((step.var((50,)), step.var((), "i8")), tuple(step.inputs), call, "sorter"))
    b = Builder(((50,),), ((3,), "i8"))
    last, ks = b.loop(step.block(step.op("neg", y), k), [b.inputs[0]], [b.inputs[1]], [], 3)
    block = b.block(last, ks)
    f = native.compile(block, "CC")
    assert f.report.host_calls == ["sorter"]
    x = rng.random(50)
    with pytest.raises(KeyError, match="negative"):
        f([x, np.array([1, -1, 2])])
    for g, e in zip(f([x, np.array([1, 2, 3])]), run(block, [x, np.array([1, 2, 3])]), strict=True):
        np.testing.assert_array_equal(g, e)


def test_threads_call_one_executable():
    b = Builder(((1000,),))
    x = b.op("exp", b.inputs[0])
    block = b.block(b.accumulate(b.op("mul", b.accumulate(x, 0), x), 0))
    f = native.compile(block, "C")
    arrays = [rng.random(1000) for _ in range(4)]
    expected = [run(block, [a])[0] for a in arrays]
    failed = []

    def work(k):
        for _ in range(200):
            if not np.allclose(f([arrays[k]])[0], expected[k]):
                failed.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_products_never_lose_their_difference():
    """x*x - y*y is 0 at x = y whatever is fused."""
    for n in (1, 4, 1000):
        b = Builder(((n,),), ((n,),))
        x, y = b.inputs
        d = b.op("sub", b.op("mul", x, x), b.op("mul", y, y))
        a = rng.random(n)
        assert not native.compile(b.block(d), "CC")([a, a.copy()])[0].any()


OPS1 = ["sin", "tanh", "neg"]
OPS2 = ["add", "mul", "maximum", "sub"]


def random_forms(r, b, n, m, count):
    """Adds random forms to a builder; gives all of its values."""
    pool = list(b.inputs)

    def of(shape):
        choices = [v for v in pool if v.type.shape == shape]
        return choices[r.integers(len(choices))]

    for _ in range(count):
        kind = r.integers(14)
        s = [(n, m), (n, m), (m,), (n,)][r.integers(4)]
        x = of(s)
        if kind == 0:
            y = b.op(OPS1[r.integers(3)], x) if r.integers(3) else b.op("sin", x)
        elif kind in (1, 2):
            y = b.op(OPS2[r.integers(4)], x, of(s))
        elif kind == 3:
            axis = int(r.integers(2))
            y = b.reduce(of((n, m)), (axis,), ["sum", "max"][r.integers(2)])
        elif kind == 4:
            axis = int(r.integers(2))
            y = b.broadcast(of(((n,), (m,))[axis]), (n, m), (axis,))
        elif kind == 5:
            back = lambda read, i, s=s: read(0, tuple(k - 1 - j for j, k in zip(i, s, strict=True)))
            y = b.index(s, back, x)
        elif kind == 6:
            y = b.accumulate(x, int(r.integers(len(s))), "sum", bool(r.integers(2)))
        elif kind == 7:
            half = s[0] // 2
            y = b.concatenate([b.slice(x, half, s[0]), b.slice(of(s), 0, half)], 0)
        elif kind == 8:
            u = b.slice(of(s), 0, max(1, s[0] // [2, s[0]][r.integers(2)]))
            at = (s[0] - u.type.shape[0],) + (0,) * (len(s) - 1)
            y = b.update(x, u, at, op=["set", "add"][r.integers(2)])
        elif kind == 9:
            y = b.contract(of((n, m)), of((m,)), ((1,), (0,)))
        elif kind == 10:
            y = b.op("select", b.op("lt", x, of(s), dtype="?"), x, of(s), dtype="f8")
        elif kind == 11:  # x + a (b' c): products of matrices, added
            a, c, d = of((n, m)), of((n, m)), of((n, m))
            y = b.op("add", of((n, m)), b.matmul(a, b.contract(c, d, ((0,), (0,)))))
        elif kind == 12:  # a row normalised
            a = of((n, m))
            y = b.op("sub", a, b.broadcast(b.reduce(a, (1,), "max"), (n, m), (0,)))
        else:
            a, k = of((n, m)), b.op("cast", b.op("mul", b.op("sin", of((n,))), float(n - 1)), dtype="i8")
            y = (
                b.scatter(a, of((n, m)), k, op=["set", "add"][r.integers(2)])
                if r.integers(2)
                else b.gather(a, k)
            )
        # values stay near 1, so that errors stay near the last bits
        scaled = b.op("mul", y, 1 / (n * m)) if kind in (3, 6, 9, 11) else y
        pool.append(b.op("sin", scaled) if kind in (3, 6, 8, 9, 11, 12, 13) else y)
    return pool


def random_sizes(r, seed):
    """A few elements, some tens, or many lanes of a short axis."""
    low, high = [((10, 10), (60, 60)), ((1, 1), (12, 12)), ((20, 2), (60, 5))][seed % 3]
    return [int(k) for k in r.integers(low, high)]


@pytest.mark.parametrize("seed", range(25))
def test_random_blocks(seed):
    r = np.random.default_rng(seed)
    n, m = random_sizes(r, seed)
    b = Builder(((n, m),), ((n, m),), ((m,),), ((n,),))
    pool = random_forms(r, b, n, m, 14)
    outs = [pool[i] for i in r.integers(4, len(pool), 3)] + [pool[-1]]
    check(b.block(*outs), rtol=1e-8)


@pytest.mark.parametrize("seed", range(25))
def test_random_loops(seed):
    """Steps of random forms: every carry may be kept, updated, exchanged, read late or put out."""
    r = np.random.default_rng(1000 + seed)
    n, m = random_sizes(r, seed)
    types = [(n, m), (n, m), (m,), (n,)]  # carried; then a row of each of two, then a capture
    step = Builder(*[(t,) for t in types], ((n, m),), ((n,),), ((n, m),))
    pool = random_forms(r, step, n, m, 9)

    def pick(shape):
        choices = [v for v in pool if v.type.shape == shape]
        late = choices[-3:] if r.integers(4) else choices
        return late[r.integers(len(late))]

    outs = [pick(t) for t in types] + [pick((n, m)), pick((m,)), pick((n,))]
    b = Builder(*[(t,) for t in types], ((4, n, m),), ((4, n),), ((n, m),))
    results = b.loop(step.block(*outs), b.inputs[:4], b.inputs[4:6], b.inputs[6:], 4, bool(r.integers(2)))
    check(b.block(*results), rtol=1e-6)


@pytest.mark.parametrize("n", [5, 12, 40])
def test_products_that_are_transposed_and_added(n):
    b = Builder(((n, 30),), ((30, 2 * n),), ((2 * n, n),), ((n, 2 * n),))
    x, y, s, t = b.inputs
    turned = b.index((2 * n, n), lambda read, i: read(0, (i[1], i[0])), b.matmul(x, y))
    u = b.op("add", b.op("exp", t), b.matmul(x, y))
    check(
        b.block(b.op("add", turned, s), b.op("add", b.matmul(x, y), t), u, b.matmul(x, u) if n == 15 else u),
        rtol=1e-10,
    )


@pytest.mark.parametrize("n", [3, 12, 40])
@pytest.mark.parametrize("reads", [False, True])
def test_a_carry_that_products_are_added_to(n, reads):
    step = Builder(((n, n),), ((n, n),), ((n, n),))
    c, row, w = step.inputs
    p = step.contract(row, w, ((0,), (1,)))
    if reads:
        p = step.matmul(step.op("sin", c), p)
    p = step.op("add", step.op("add", p, step.matmul(row, row)), step.matmul(w, row)) if reads else p
    new = step.op("add", c, step.op("mul", p, 1e-3) if reads else p)
    b = Builder(((n, n),), ((4, n, n),), ((n, n),))
    outs = b.loop(step.block(new, *([c] if reads else [])), [b.inputs[0]], [b.inputs[1]], [b.inputs[2]], 4)
    check(b.block(*outs), rtol=1e-6)


@pytest.mark.parametrize("shape", [(1_000_003,), (1000, 700), (700, 1000), (5000, 77, 3)], ids=str)
def test_large_nests_in_threads(shape):
    b = Builder((shape,), (shape,))
    x, y = b.inputs
    z = b.op("mul", b.op("sin", x), b.op("exp", y))
    u = b.concatenate([b.slice(z, 1, shape[0]), b.slice(x, 0, 1)], 0)
    axes = {tuple(range(len(shape))), (0,), (len(shape) - 1,)}
    outs = [
        z,
        b.op("add", u, z),
        *(b.reduce(b.op("mul", z, z), a) for a in sorted(axes)),
        b.reduce(z, (0,), "max"),
    ]
    f = native.compile(b.block(*outs), "CC")
    arrays = [rng.random(shape), rng.random(shape)]
    s = np.sin(arrays[0]) * np.exp(arrays[1])
    up = np.concatenate([s[1:], arrays[0][:1]])
    expected = [s, up + s, *(np.sum(s * s, axis=a) for a in sorted(axes)), s.max(0)]
    first = f(arrays)
    for g, e in zip(first, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-12)
    for _ in range(5):
        for g, h in zip(f(arrays), first, strict=True):
            np.testing.assert_array_equal(g, h)


def test_a_forked_child_computes():
    import os

    b = Builder(((2_000_000,),))
    f = native.compile(b.block(b.op("exp", b.inputs[0])), "C")
    x = rng.random(2_000_000)
    f([x])
    child = os.fork()
    if child == 0:
        os._exit(0 if np.allclose(f([x])[0], np.exp(x)) else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("shape", [(200, 64), (3, 40, 100), (4096, 130), (70, 70, 3)], ids=str)
def test_nests_that_share_their_rows(shape):
    """Softmax, its gradient and a normalisation: rows of several nests in one loop."""
    b = Builder((shape,), (shape,))
    x, g = b.inputs
    last = (len(shape) - 1,)
    lead = tuple(range(len(shape) - 1))
    wide = lambda v: b.broadcast(v, shape, lead)
    m = b.reduce(x, last, "max")
    e = b.op("exp", b.op("sub", x, wide(m)))
    s = b.reduce(e, last)
    y = b.op("div", e, wide(s))
    back = b.op("mul", y, b.op("sub", g, wide(b.reduce(b.op("mul", g, y), last))))
    mean = b.op("div", b.reduce(x, last), float(shape[-1]))
    var_ = b.reduce(b.op("square", b.op("sub", x, wide(mean))), last)
    z = b.op("div", b.op("sub", x, wide(mean)), wide(b.op("sqrt", b.op("add", var_, 1e-5))))
    for outs in ((y,), (y, back), (z,), (s, back, z), (back, m)):
        check(b.block(*outs), rtol=1e-10)
