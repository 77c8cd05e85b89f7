"""Faults in loops, branches, maps and totals found by attack, each held by a test of its whole kind."""

import numpy as np
import pytest

import rune
from rune.constructs.iterate import while_
from rune.constructs.scan import scan as scan_primitive

x3 = np.array([0.3, -0.7, 1.2])
WRAPS = {"eager": lambda f: f, "compiled": rune.jit}


@pytest.fixture(params=WRAPS.values(), ids=WRAPS)
def wrap(request):
    return request.param


# Branches -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pred", [True, False])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64])
def test_a_python_number_takes_the_other_branches_dtype(dtype, pred):
    x, p = np.ones((), dtype)[()], np.bool_(pred)
    one = rune.jit(lambda p, x: rune.cond(p, lambda x: x * 2, lambda x: 3.0, x))(p, x)
    other = rune.jit(lambda p, x: rune.cond(p, lambda x: 3.0, lambda x: x * 2, x))(p, x)
    assert one.dtype == other.dtype == dtype
    assert (one, other) == ((2, 3) if pred else (3, 2))
    assert rune.jit(lambda p: rune.cond(p, lambda: 1, lambda: 2.5))(p) == (1.0 if pred else 2.5)


def test_every_branch_agrees_with_every_other():
    branches = [lambda: 1.5, lambda: np.float32(1), lambda: np.float64(2)]
    with pytest.raises(ValueError, match=r"float64 .* from branches.2., float32 .* from branches.1."):
        rune.jit(lambda k: rune.switch(k, branches))(np.int64(0))


def written(y):
    y[0] = y[1] * 2
    return y


READING = {
    "cond": lambda x: rune.cond(x.shape[0] > 1, written, lambda y: y, x),
    "switch": lambda x: rune.switch(0, [written], x),
    "a row": lambda x: rune.scan(lambda c, r: (c + written(r), None), np.zeros(3), np.stack([x, x]))[0],
    "a mapped row": lambda x: rune.map(written, np.stack([x, x])),
    "until": lambda x: rune.iterate(lambda c: c * 2, x, until=lambda c: np.sum(written(c)) > 9, max_steps=9),
}


@pytest.mark.parametrize("f", READING.values(), ids=READING)
def test_what_a_function_only_reads_it_cannot_write(wrap, f):
    for g in (wrap(f), wrap(rune.grad(lambda x: np.sum(f(x)))), lambda x: wrap(rune.vmap(f))(x[None])):
        with pytest.raises(ValueError, match="read-only"):
            g(np.abs(x3))


def test_a_branch_writes_to_a_copy(wrap):
    f = lambda x: (
        lambda z: np.sum(rune.cond(True, lambda y: written(y * 1), lambda y: y, z) ** 2) + np.sum(z)
    )(x * 1)
    np.testing.assert_allclose(wrap(rune.grad(f))(x3), [1.0, 1 + 10 * x3[1], 1 + 2 * x3[2]])


@pytest.mark.parametrize("pred", [True, False])
@pytest.mark.parametrize("number", [3, 2.5, True, 1j])
def test_python_numbers_are_values_in_and_out_of_a_branch(wrap, pred, number):
    narrow = {int: np.int8, float: np.float32, bool: np.int8, complex: np.complex64}[type(number)](1)
    returned = wrap(lambda p: rune.cond(p, lambda: number, lambda: number))(np.bool_(pred))
    assert returned.dtype == np.asarray(number).dtype
    given = wrap(lambda p, x: rune.cond(p, lambda c: x * c, lambda c: c * x, number))(np.bool_(pred), narrow)
    assert given.dtype == np.result_type(narrow, returned)
    assert (returned, given) == (number, number)


def test_what_a_branch_returns_has_storage_of_its_own(wrap):
    table = np.arange(3.0)
    for branch in (lambda x: x, lambda x: table, lambda x: x[::-1]):
        x = x3.copy()
        y = wrap(lambda x, branch=branch: rune.cond(np.bool_(True), branch, branch, x))(x)
        y[0] = 9.0
        np.testing.assert_array_equal(x, x3)
        np.testing.assert_array_equal(table, np.arange(3.0))


# Lanes that do not take a branch or a step ----------------------------------------------------------


def checked(x):
    rune.check(x > -3, "not taken")
    return x


table = np.arange(3.0)
ones = np.arange(1.0, 3.0)
MAY_FAIL = {
    "check": checked,
    "constant": lambda x: (rune.check(np.bool_(True), "constant"), x * 2)[1],
    "scan": lambda x: rune.scan(lambda c, r: (checked(c) * r, c), x, ones)[0],
    "scan in scan": lambda x: rune.scan(
        lambda c, _: (rune.scan(lambda d, r: (checked(d) * r, d), c, ones)[0], c), x, ones
    )[0],
    "iterate": lambda x: rune.iterate(lambda c: checked(c) * 2, x, until=lambda c: c > 3, max_steps=5),
    "iterate out of steps": lambda x: rune.iterate(lambda c: c * 2, x, until=lambda c: c > 3, max_steps=5),
    "cond": lambda x: rune.cond(x > 100, lambda x: x, checked, x),
    "switch": lambda x: rune.switch(x.astype(np.int64), [np.sin, checked], x),
    "index": lambda x: x * rune.asarray(table)[x.astype(np.int64)],
    "jit": rune.jit(lambda x: checked(x) ** 2),
    "remat": rune.remat(lambda x: checked(x) ** 2),
    "custom_jvp": rune.custom_jvp(lambda x: (checked(x), lambda dx: dx)),
    "custom_vjp": rune.custom_vjp(lambda x: (checked(x), lambda ct: ct)),
    "vmap": lambda x: np.sum(rune.vmap(checked)(x * ones)),
    "cholesky": lambda x: np.sum(np.linalg.cholesky(x * np.eye(2))),
    "solve": lambda x: np.sum(np.linalg.solve((x + 9) * np.eye(2), ones)),
    "inv": lambda x: np.sum(np.linalg.inv((x + 9) * np.eye(2))),
}


@pytest.mark.parametrize("f", MAY_FAIL.values(), ids=MAY_FAIL)
def test_a_branch_not_taken_does_not_fail(wrap, f):
    xs = np.array([1.0, -9.0])
    g = lambda x: rune.cond(x > 0, f, lambda x: x * 0.5, x)
    each = lambda h: np.stack([h(x) for x in xs])
    np.testing.assert_allclose(wrap(rune.vmap(g))(xs), each(g))
    np.testing.assert_allclose(wrap(rune.grad(lambda xs: np.sum(rune.vmap(g)(xs))))(xs), each(rune.grad(g)))

    np.testing.assert_allclose(rune.vmap(rune.grad(g))(xs), each(rune.grad(g)))


@pytest.mark.parametrize("f", MAY_FAIL.values(), ids=MAY_FAIL)
def test_what_is_captured_fails_only_where_it_is_used(wrap, f):
    g = lambda x: rune.cond(x > 0, lambda y: f(x) * y, lambda y: y * 0.5, x)
    looped = lambda x: rune.iterate(lambda c: c + f(x) ** 2 + 1, x, until=lambda c: c < 0, max_steps=3)
    for x in (1.0, -9.0):
        plain = f(np.float64(x)) * x if x > 0 else x * 0.5
        np.testing.assert_allclose(wrap(g)(np.float64(x)), plain)
        np.testing.assert_allclose(wrap(rune.grad(g))(np.float64(x)), rune.grad(g)(np.float64(x)))
    assert wrap(looped)(np.float64(-9.0)) == -9.0


@pytest.mark.parametrize("transform", [lambda f: f, rune.grad, lambda f: rune.grad(rune.jit(f))])
def test_a_host_called_on_a_captured_value_is_called_in_every_step(wrap, transform):
    calls = []
    host = lambda x: calls.append(x) or np.float64(1.0)
    called = lambda x: rune.callback(host, np.float64(0), rune.detach(x))
    loops = {
        "scan": (lambda x: rune.scan(lambda c, _: (c + called(x), None), x, None, length=3)[0], 3),
        "iterate": (
            lambda x: rune.iterate(lambda c: c + called(x), x, until=lambda c: c > 5, max_steps=9),
            4,
        ),
        "cond": (lambda x: rune.cond(x > 5, lambda c: c + called(x), lambda c: c, x), 0),
    }
    for f, times in loops.values():
        calls.clear()
        wrap(transform(f))(2.0)
        assert len(calls) == times


@pytest.mark.parametrize("f", MAY_FAIL.values(), ids=MAY_FAIL)
def test_the_compiled_derivative_of_a_branch_not_taken_does_not_fail(f):
    xs = np.array([1.0, -9.0])
    g = rune.grad(lambda x: rune.cond(x > 0, f, lambda x: x * 0.5, x))
    np.testing.assert_allclose(rune.jit(rune.vmap(g))(xs), np.stack([g(x) for x in xs]))


def test_a_lane_that_stopped_does_not_fail(wrap):
    def f(x):
        def step(c):
            rune.check(c < 5, "large")
            return c * 2

        return rune.iterate(step, x, until=lambda c: c > 7, max_steps=9)

    xs = np.array([60.0, 1.0, 4.0])
    np.testing.assert_allclose(wrap(rune.vmap(f))(xs), [60, 8, 8])
    np.testing.assert_allclose(wrap(rune.vmap(rune.grad(f)))(xs), [1, 8, 2])
    with pytest.raises(ValueError, match=r"large.*lane 1"):
        wrap(rune.vmap(f))(np.array([60.0, 5.0]))


def test_a_branch_that_always_fails_fails_where_it_is_taken(wrap):
    def fails(x):
        rune.check(np.bool_(False), "always")
        return x

    f = wrap(rune.vmap(lambda x: rune.cond(x > 0, fails, np.sin, x)))
    np.testing.assert_allclose(f(-np.ones(3)), np.sin(-np.ones(3)))
    with pytest.raises(ValueError, match=r"always.*lane 1"):
        f(np.array([-1.0, 1.0]))


DERIVED = {
    "jit": rune.jit,
    "jit of grad": lambda f: rune.jit(rune.grad(f)),
    "grad of jit": lambda f: rune.grad(rune.jit(f)),
    "jit of jvp": lambda f: rune.jit(lambda x: rune.jvp(f, (x,), (x * 0 + 1,))[1]),
    "hessian": lambda f: rune.jit(rune.hessian(f)),
    "vmap of jit": lambda f: lambda x: rune.vmap(rune.jit(f))(np.stack([x, x]))[0],
    "jit of vmap of grad": lambda f: lambda x: rune.jit(rune.vmap(rune.grad(f)))(np.stack([x, x]))[0],
}
ALWAYS_FAIL = {
    "check": lambda x: (rune.check(False, "always"), x)[1],
    "host": lambda x: x + rune.callback(lambda: 1 / 0, np.float64(0)),
    "switch": lambda x: x * rune.switch(rune.detach(x * 0).astype(np.int64) + 5, [np.sin, np.cos], x),
    "scan": lambda x: rune.scan(lambda c, k: (ALWAYS_FAIL["check"](c), None), x, np.arange(3))[0],
    "jit": rune.jit(lambda x: ALWAYS_FAIL["check"](x) ** 2),
    "remat": rune.remat(lambda x: ALWAYS_FAIL["check"](x) ** 2),
}


@pytest.mark.parametrize("transform", DERIVED.values(), ids=DERIVED)
@pytest.mark.parametrize("f", ALWAYS_FAIL.values(), ids=ALWAYS_FAIL)
def test_what_fails_whatever_it_is_given_fails_in_the_step_that_takes_it(transform, f):
    def loop(at):
        step = lambda c, k: (rune.cond(k == at, f, lambda c: c * 1.5, c), None)
        return lambda x: rune.scan(step, x, np.arange(4))[0]

    np.testing.assert_allclose(
        transform(loop(at=9))(2.0), transform(lambda x: x * 1.5**4)(2.0), err_msg="not taken"
    )
    with pytest.raises((ValueError, IndexError, ZeroDivisionError)) as failed:
        transform(loop(at=2))(2.0)
    assert failed.type is ZeroDivisionError or "step 2" in str(failed.value)


CONSTANT_LOOPS = {
    "of a linear step": lambda x: rune.scan(lambda c, _: (c * 0.5, None), x, None, length=5)[0],
    "over constants": lambda x: x * rune.scan(lambda c, r: (c * 0.5 + r, None), 1.0, np.arange(5.0))[0],
    "until a constant": lambda x: x * rune.iterate(lambda c: c * 2, 1.0, until=lambda c: c > 9, max_steps=5),
    "in a scan": lambda x: rune.scan(
        lambda c, _: (CONSTANT_LOOPS["over constants"](c), None), x, None, length=2
    )[0],
}


@pytest.mark.parametrize("transform", DERIVED.values(), ids=DERIVED)
@pytest.mark.parametrize("f", CONSTANT_LOOPS.values(), ids=CONSTANT_LOOPS)
def test_no_step_of_a_derived_loop_is_python_s(transform, f, monkeypatch):
    want = transform(lambda x: x * (f(2.0) / 2.0))(2.0)  # each of them is linear

    def evaluate(*_):
        raise AssertionError("Python took the steps")

    for primitive in (type(scan_primitive), type(while_)):
        monkeypatch.setattr(primitive, "evaluate", evaluate)
    np.testing.assert_allclose(transform(f)(2.0), want)


# Arrays that are written in place -------------------------------------------------------------------

WRITES = {
    "one place": lambda c, k: c.__setitem__(k % 7, c[k % 7] * 0.5 + 1),
    "from another": lambda c, k: c.__setitem__(k % 7, np.sin(c[(3 * k) % 7])),
    "a product": lambda c, k: c.__setitem__(k % 7, c[k % 7] * c[(k + 1) % 7]),
    "a slice": lambda c, k: c.__setitem__(slice(0, 2), c[2:4] * 0.5),
    "a slice onto itself": lambda c, k: c.__setitem__(slice(1, 3), np.cos(c[0:2])),
    "two writes": lambda c, k: (c.__setitem__(k % 7, 2 * c[0]), c.__setitem__(1, c[k % 7])),
}


def writing(write, m):
    def step(c, k):
        write(c, k)
        return c, None

    return lambda x: np.sum(rune.scan(step, x, np.arange(9))[0] * np.arange(1, m + 1))


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_the_gradient_of_a_write_in_a_step_copies_no_array(write):
    m = 4096
    f, x = writing(write, m), np.linspace(0.5, 1.0, m)
    gradient = rune.grad(f)
    np.testing.assert_allclose(rune.jit(gradient)(x), gradient(x))
    lanes = np.stack([x, x[::-1]])
    np.testing.assert_allclose(rune.jit(rune.vmap(gradient))(lanes), np.stack([gradient(x) for x in lanes]))
    written = sum(rune.explain(gradient)(x).buffers)
    assert written < 2 * x.nbytes  # the cotangent alone, and no copy or search of it


INSIDE = {
    "scan": lambda write: rune.scan(lambda c, r: (write(c), None), 0.0, np.ones(3)),
    "iterate": lambda write: rune.iterate(lambda c: write(c) + 1, 0.0, until=lambda c: c >= 3, max_steps=5),
    "cond": lambda write: rune.cond(False, write, lambda c: c, 0.0),
    "switch": lambda write: rune.switch(1, [write, lambda c: c], 0.0),
    "map": lambda write: rune.map(write, np.ones(3)),
    "vmap": lambda write: rune.vmap(write)(np.ones(3)),
}


@pytest.mark.parametrize("inside", INSIDE.values(), ids=INSIDE)
@pytest.mark.parametrize("value", [1.0, "row"])
@pytest.mark.parametrize("transform", [rune.jit, lambda f: rune.jit(rune.grad(f))], ids=["jit", "jit grad"])
def test_an_array_of_the_function_around_is_not_written_in_a_step_branch_or_lane(transform, inside, value):
    def f(x):
        y = x * 1.0

        def write(c):
            y[0] += c if value == "row" else value
            return c

        inside(write)
        return np.sum(y)

    with pytest.raises(rune.TracedValueError, match="is written inside rune"):
        transform(f)(x3)


# Totals ---------------------------------------------------------------------------------------------

total = rune.Total("total")


def adds(v):
    def f(c, r):
        total.add(v)
        return c * r, c

    return f


LOOPS = {
    "scan": lambda f, x: rune.scan(f, x, np.arange(1.0, 6.0))[0],
    "checkpoints": lambda f, x: rune.scan(f, x, np.arange(1.0, 6.0), checkpoint_every=2)[0],
    "remat": lambda f, x: rune.scan(lambda c, r: rune.remat(f)(c, r), x, np.arange(1.0, 6.0))[0],
    "map": lambda f, x: rune.map(lambda r: f(x, r)[0], np.arange(1.0, 6.0))[4],
    "vmap": lambda f, x: rune.vmap(lambda r: f(x, r)[0])(np.arange(1.0, 6.0))[4],
    "rows": lambda f, x: [f(x, r)[0] for r in np.arange(1.0, 6.0)][4],
}


@pytest.mark.parametrize("value", [1, True, np.bool_(True), 1.0, np.float32(1)], ids=repr)
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_additions_are_counted_once_whatever_their_dtype(wrap, loop, value):
    zero = np.int64(0) if np.result_type(type(value)).kind in "bi" else 0.0
    run = lambda g: total.collect(zero, lambda: g(lambda x: loop(adds(value), x))(0.5))[1]
    assert run(wrap) == run(lambda f: wrap(rune.grad(f))) == run(lambda f: rune.grad(wrap(f))) == 5


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_additions_are_differentiated_wherever_they_are_made(wrap, loop):
    def f(x):
        def step(c, r):
            total.add(c * c * r * x)
            return c * r + x, c

        return total.collect(0.0, lambda: loop(step, x))[1]

    h = 1e-5
    np.testing.assert_allclose(wrap(rune.grad(f))(0.5), (f(0.5 + h) - f(0.5 - h)) / (2 * h), rtol=1e-6)
    second = (rune.grad(f)(0.5 + h) - rune.grad(f)(0.5 - h)) / (2 * h)
    np.testing.assert_allclose(wrap(rune.grad(rune.grad(f)))(0.5), second, rtol=1e-6)
    along = wrap(lambda x: rune.jvp(f, (x,), (1.0,))[1])
    np.testing.assert_allclose(along(0.5), rune.grad(f)(0.5))


@pytest.mark.parametrize("transform", [*DERIVED.values(), rune.grad], ids=[*DERIVED, "grad"])
@pytest.mark.parametrize("k", [0, 1])
def test_what_is_computed_again_adds_what_the_branch_it_takes_adds(transform, k):
    one, other = rune.Total("one"), rune.Total("other")

    def adds(y):
        one.add(y)
        other.add(2 * y)
        return y**2

    def loss(x):
        captures = lambda y: rune.map(lambda r: r * x, y * ones)[0]
        body = rune.remat(lambda y: captures(y) + rune.switch(k, [np.sin, adds], y))
        (result, a), b = other.collect(0.0, lambda: one.collect(0.0, lambda: body(x)))
        return result + a**2 + 3 * b

    plain = [lambda x: x**2 + np.sin(x), lambda x: 3 * x**2 + 6 * x]
    np.testing.assert_allclose(transform(loss)(0.7), transform(plain[k])(0.7))


# Errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("xs", [np.float64(1), (np.ones(2), np.ones(3)), None, (), ["a"]], ids=repr)
def test_a_map_s_errors_are_its_own(wrap, xs):
    with pytest.raises((ValueError, TypeError), match=r"^rune.map: "):
        wrap(lambda: rune.map(lambda row: row, xs))()


@pytest.mark.parametrize(
    "result", [{1, 2}, bytearray(b"x"), np.array(["text"])], ids=["set", "bytes", "text"]
)
def test_a_step_s_error_under_a_map_is_the_map_s(wrap, result):
    with pytest.raises(TypeError, match=r"^rune.map: output: "):
        wrap(lambda xs: rune.map(lambda row: result, xs))(np.ones(2))


@pytest.mark.parametrize("length, error", [(-1, ValueError), (2.5, TypeError), ("3", TypeError)])
def test_a_length_is_a_count(length, error):
    with pytest.raises(error, match=r"rune.scan: length must be an int"):
        rune.scan(lambda c, _: (c, c), 0.0, None, length=length)


@pytest.mark.parametrize("axis", [2, 5, -3])
def test_a_mapped_axis_of_a_result_exists(wrap, axis):
    with pytest.raises(ValueError, match=r"rune.vmap: .*out_axes.* axis"):
        wrap(rune.vmap(lambda x: x * 2, out_axes=axis))(np.ones((2, 3)))


def test_a_static_leaf_among_those_of_all_lanes_is_what_it_is(wrap):
    f = lambda x: rune.lanes({"x": x, "name": "a text", "none": None}, "batch")
    got = wrap(rune.vmap(f, axis_name="batch", out_axes=None))(x3)
    assert got["name"] == "a text" and got["none"] is None
    np.testing.assert_array_equal(got["x"], x3)


# Lanes that do not take a loop ------------------------------------------------------------------------

twice = {"length": 2, "checkpoint_every": 1}
FAILING = {
    "index": lambda x, k: np.sin(x) * x[k % 3],
    "solve": lambda x, k: np.linalg.solve(np.diag(x**2) + 2 * np.eye(3), x),
    "callback": lambda x, k: np.sin(x) * rune.callback(lambda k: np.float64(k), np.float64(0), k),
}
REPEATED = {
    "remat": rune.remat,
    "checkpoints": lambda f: lambda x, k: rune.scan(lambda c, _: (f(c, k), None), x, **twice)[0],
}
LOOPS = {
    "scan": lambda f: lambda x, k: rune.scan(lambda c, _: (f(c, k), None), x, length=3)[0],
    "iterate": lambda f: (
        lambda x, k: rune.iterate(
            lambda s: (f(s[0], k), s[1] + 1), (x, 0), until=lambda s: s[1] > k % 3, max_steps=4
        )[0]
    ),
}
TAKEN = {
    "cond": lambda f: lambda x, k: rune.cond(k == 4, f, lambda x, k: x, x, k),
    "switch": lambda f: lambda x, k: rune.switch(k % 2, [f, lambda x, k: x], x, k),
    "steps": LOOPS["iterate"],
}


@pytest.mark.parametrize("taken", TAKEN.values(), ids=TAKEN)
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("repeat", REPEATED.values(), ids=REPEATED)
@pytest.mark.parametrize("f", FAILING.values(), ids=FAILING)
def test_a_gradient_of_lanes_that_take_a_loop_or_not_is_each_lanes_own(f, repeat, loop, taken):
    whole = taken(loop(repeat(f)))
    gradient = rune.grad(lambda x, k: np.sum(whole(x, k) * x3))
    xs, ks = np.stack([x3, 0.5 * x3, -x3]), np.array([3, 4, 0])
    want = [gradient(x, k) for x, k in zip(xs, ks, strict=True)]
    for mapped in (rune.vmap(gradient), rune.jit(rune.vmap(gradient))):
        np.testing.assert_allclose(mapped(xs, ks), want, rtol=1e-8)
