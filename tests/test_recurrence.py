"""rune.associative_scan and rune.map: running combinations and results row by row, in every way they are run."""

import numpy as np
import optree
import pytest

import rune

every = pytest.mark.parametrize("wrap", [lambda f: f, rune.jit], ids=["eager", "compiled"])
rng = np.random.default_rng(12)


def one_by_one(f, xs, reverse=False):
    """The definition: y[0] = x[0], y[k] = f(y[k-1], x[k]), a row at a time."""
    row = lambda k: optree.tree_map(lambda x: x[k : k + 1], xs)
    order = list(range(len(optree.tree_leaves(xs)[0])))[:: -1 if reverse else 1]
    done = [row(order[0])]
    for k in order[1:]:
        done.append(f(done[-1], row(k)))
    return optree.tree_map(lambda *ys: np.concatenate(ys), *done[:: -1 if reverse else 1])


matrices = lambda n: rng.standard_normal((n, 2, 2))
affine = lambda one, other: {"a": one["a"] * other["a"], "b": one["b"] * other["a"] + other["b"]}
OPERATIONS = {  # associative ones, of which only the first two commute
    "sum": (np.add, lambda n: rng.standard_normal((n, 3))),
    "maximum": (np.maximum, lambda n: rng.standard_normal(n)),
    "product of matrices": (np.matmul, matrices),
    "other way round": (lambda a, b: b @ a, matrices),
    "affine maps": (affine, lambda n: {"a": rng.standard_normal(n), "b": rng.standard_normal((n,))}),
    "the last": (lambda a, b: b, lambda n: rng.standard_normal(n)),
    "the first": (lambda a, b: a, lambda n: rng.standard_normal(n)),
}
operation = pytest.mark.parametrize("name", OPERATIONS)


def agree(got, want):
    optree.tree_map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12), got, want)


@every
@operation
def test_running_combinations(name, wrap):
    f, make = OPERATIONS[name]
    for n in [1, 2, 3, 4, 7, 8, 21]:
        xs = make(n)
        for reverse in (False, True):
            got = wrap(lambda xs, reverse=reverse: rune.associative_scan(f, xs, reverse=reverse))(xs)
            agree(got, one_by_one(f, xs, reverse))


@every
@operation
def test_no_rows_stay_none(name, wrap):
    f, make = OPERATIONS[name]
    got = wrap(lambda xs: rune.associative_scan(f, xs))(make(0))
    assert [x.shape for x in optree.tree_leaves(got)] == [x.shape for x in optree.tree_leaves(make(0))]


@every
@pytest.mark.parametrize("axis", [1, 2, -1, -3, np.int64(1)])
def test_rows_along_any_axis(axis, wrap):
    x = rng.standard_normal((2, 3, 4))
    got = wrap(lambda x: rune.associative_scan(np.add, x, axis=axis))(x)
    np.testing.assert_allclose(got, np.cumsum(x, axis), rtol=1e-12)
    got = wrap(lambda x: rune.associative_scan(np.add, x, axis=axis, reverse=True))(x)
    np.testing.assert_allclose(got, np.flip(np.cumsum(np.flip(x, axis), axis), axis), rtol=1e-12)


@operation
def test_derivatives_are_those_of_the_loop(name):
    f, make = OPERATIONS[name]
    xs, along = make(7), make(7)
    weight = np.arange(1.0, 8.0)

    def objective(run):
        total = lambda y: np.sum(weight * np.sum(np.sin(np.reshape(y, (7, -1))), axis=1))
        return lambda xs: sum(map(total, optree.tree_leaves(run(f, xs))))

    ours, loop = objective(rune.associative_scan), objective(one_by_one)
    want = rune.grad(loop)(xs)
    for g in (rune.grad(ours), rune.jit(rune.grad(ours)), rune.grad(rune.jit(ours))):
        agree(g(xs), want)
    want = rune.jvp(loop, (xs,), (along,))
    agree(rune.jvp(ours, (xs,), (along,)), want)
    agree(rune.jit(lambda x, d: rune.jvp(ours, (x,), (d,)))(xs, along), want)
    agree(rune.hvp(ours)(xs, along), rune.hvp(loop)(xs, along))
    lanes = optree.tree_map(lambda x, y: np.stack([x, y]), xs, along)
    got = rune.jit(rune.vmap(rune.grad(ours)))(lanes)
    agree(optree.tree_map(lambda x: x[1], got), rune.grad(loop)(along))


def test_the_program_grows_with_the_logarithm_of_the_rows():
    lines = lambda n: len(
        str(rune.program(lambda x: rune.associative_scan(np.add, x))(np.ones(n))).splitlines()
    )
    assert lines(1 << 14) - lines(1 << 13) == lines(1 << 8) - lines(1 << 7) < 40


@pytest.mark.parametrize("n", [0, 1, 2])
def test_results_are_the_callers_own(n):
    x = np.ones((n, 2))
    for y in (rune.associative_scan(np.add, x), rune.map(lambda row: row, x)):
        assert not np.shares_memory(x, y)
        y[...] = 5.0
    assert np.all(x == 1.0)


@every
def test_a_map_is_the_stacked_rows(wrap):
    xs = {"a": rng.standard_normal((6, 3)), "k": np.arange(6)}
    f = lambda row: {"s": np.sum(row["a"]) * row["k"], "t": (row["a"], 2)}
    rows = [f({"a": a, "k": k}) for a, k in zip(xs["a"], xs["k"])]
    want = optree.tree_map(lambda *ys: np.stack(ys), *rows)
    agree(wrap(lambda xs: rune.map(f, xs))(xs), want)
    got = wrap(lambda a: rune.map(lambda row: np.sum(row), a))(np.zeros((0, 3)))
    assert got.shape == (0,)
    objective = lambda a: np.sum(np.sin(rune.map(lambda row: np.sum(row * row), a)))
    agree(wrap(rune.grad(objective))(xs["a"]), 2 * xs["a"] * np.cos(np.sum(xs["a"] ** 2, 1))[:, None])
    program = lambda n: str(rune.program(lambda a: rune.map(np.sum, a))(np.ones((n, 3))))
    assert len(program(3).splitlines()) == len(program(300).splitlines())


ones = np.ones((3, 2))
scan = rune.associative_scan
WRONG = {
    "no function": (lambda: scan(3, ones), TypeError, "associative_scan: the first argument must be a function"),
    "a number": (lambda: scan(np.add, 2.0), ValueError, "associative_scan: float 2.0 has no rows"),
    "a number in a tree": (lambda: scan(np.add, {"h": 2.0}), ValueError, "associative_scan: h: float 2.0 has no rows"),
    "nothing": (lambda: scan(np.add, ()), ValueError, "associative_scan: give xs with rows"),
    "two lengths": (lambda: scan(lambda a, b: a, (ones, np.ones(4))), ValueError, "associative_scan: 1: 4 rows, 0: 3"),
    "another structure": (lambda: scan(lambda a, b: (a, b), ones), ValueError, "associative_scan: f returned a structure other than"),
    "another shape": (lambda: scan(lambda a, b: {"h": np.sum(a["h"])}, {"h": ones}), ValueError, "associative_scan: h: shape [] in what f returned, [1, 2] in its arguments"),
    "no such axis": (lambda: scan(np.add, ones, axis=2), ValueError, "associative_scan: float64 [3, 2] has no axis 2"),
    "an axis that is real": (lambda: scan(np.add, ones, axis=1.0), TypeError, "associative_scan: axis must be an int, got float 1.0"),
    "a masked array": (lambda: scan(np.add, np.ma.array(ones)), TypeError, "associative_scan: masked arrays"),
    "a map of nothing": (lambda: rune.map(np.sum, None), ValueError, "map: give xs with rows"),
    "a map of a number": (lambda: rune.map(np.sum, 2.0), ValueError, "map: xs: float64 [] has no rows"),
    "a map of two lengths": (lambda: rune.map(lambda r: r[0], (ones, np.ones(4))), ValueError, "map: xs.1: 4 rows, xs.0: 3"),
    "a map by no function": (lambda: rune.map(3, ones), TypeError, "map: the first argument must be a function"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    call, kind, message = WRONG[name]
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind and str(caught.value).startswith(f"rune.{message}")
