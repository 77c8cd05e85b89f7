"""Wrong calls: each raises what the rules say, crashes nothing, and leaves nothing behind."""

import numpy as np
import pytest

import rune

x3 = np.arange(1.0, 4.0)
ENTRIES = ["grad", "value_and_grad", "jacfwd", "jacrev", "hessian", "vmap", "jit", "program", "explain"]


@pytest.fixture(autouse=True)
def the_next_call_works():
    yield
    np.testing.assert_array_equal(rune.grad(rune.jit(lambda x: np.sum(x * x)))(x3), 2 * x3)
    assert rune.scan(lambda c, x: (c + x, None), 0.0, x3)[0] == 6.0


@pytest.mark.parametrize("entry", ENTRIES)
def test_what_is_no_function_is_refused(entry):
    with pytest.raises(
        TypeError, match=rf"^rune\.{entry}: the first argument must be a function, got float64 \[3\]"
    ):
        getattr(rune, entry)(x3)


@pytest.mark.parametrize("entry", ["jvp", "vjp", "linearize", "scan"])
def test_what_is_no_function_is_refused_with_arguments(entry):
    with pytest.raises(TypeError, match=rf"^rune\.{entry}: the first argument must be a function, got int 3"):
        getattr(rune, entry)(3, (x3,), (x3,))


@pytest.mark.parametrize("entry", ["grad", "value_and_grad", "jacfwd", "jacrev", "hessian"])
def test_parameters_without_an_array_are_refused(entry):
    with pytest.raises(TypeError, match=rf"^rune\.{entry}: the parameters hold no real or complex array"):
        getattr(rune, entry)(lambda x: x)("text")
    with pytest.raises(TypeError, match=rf"^rune\.{entry}: the parameters hold no real or complex array"):
        getattr(rune, entry)(lambda x: x)(np.arange(3))


@pytest.mark.parametrize("bad, kind", [
    (np.ma.masked_array(x3), "masked"), (np.matrix(x3), "matrix"), (np.array(["a"]), "<U1"), (np.array([object()]), "object"),
    (x3.astype(np.longdouble), "longdouble|float128"), (np.array("2020", "M8[D]"), "datetime"),
])  # fmt: skip
def test_arrays_that_are_not_numeric_are_refused_by_name(bad, kind):
    for f in (rune.grad(lambda p: 0.0), rune.jit(lambda p: 0.0), rune.vmap(lambda p: p)):
        with pytest.raises(TypeError, match=rf"^rune\.\w+: 0\.a: .*({kind})"):
            f({"a": bad, "b": x3})


def test_a_static_leaf_that_is_not_hashable_is_named():
    class Plain:
        __hash__ = None

    with pytest.raises(TypeError, match=r"^rune\.jit: 0\.name: Plain is neither"):
        rune.jit(lambda p: p["x"])({"x": x3, "name": Plain()})


@pytest.mark.parametrize("wrap", [lambda f: f, rune.jit], ids=["eager", "compiled"])
def test_a_carry_that_changes_is_refused(wrap):
    run = lambda step, init: wrap(lambda xs: rune.scan(step, init, xs))(x3)
    with pytest.raises(
        ValueError, match=r"^rune\.scan: b: in the carry the step returned, not in the carry it received"
    ):
        run(lambda c, x: ({"a": c["a"], "b": x}, None), {"a": 0.0})
    with pytest.raises(
        ValueError, match=r"^rune\.scan: dtype float64 in the carry the step returned, int64 in the carry"
    ):
        run(lambda c, x: (c + x, None), 0)
    with pytest.raises(TypeError, match=r"^rune\.scan: the step must return \(carry, output\)"):
        run(lambda c, x: c, 0.0)
    with pytest.raises(
        ValueError, match=r"^rune\.scan: b: str 't' in the carry the step returned, str 's' in the"
    ):
        run(lambda c, x: ({**c, "b": "t"}, None), {"a": 0.0, "b": "s"})
    with pytest.raises(
        ValueError, match=r"^rune\.scan: b: float64 \[\] in the carry the step returned, str 's' in"
    ):
        run(lambda c, x: ({**c, "b": x}, None), {"a": 0.0, "b": "s"})
    with pytest.raises(
        ValueError, match=r"^rune\.scan: None in the carry the step returned, float64 \[\] in the carry"
    ):
        run(lambda c, x: (None, None), 0.0)
    with pytest.raises(TypeError, match=r"^rune\.scan: output\.0: set is neither array, number nor hashable"):
        run(lambda c, x: (c, ({1},)), 0.0)


def test_objectives_that_are_no_scalar_are_refused():
    for f, got in (
        (lambda x: x, r"float64 \[3\]"), (lambda x: np.argmax(x), r"int64 \[\]"), (lambda x: "text", "str 'text'"),
        (lambda x: (x[0], x[1]), "a structure of 2 leaves"), (lambda x: None, "a structure of 0 leaves"), (lambda x: 3, r"int64 \[\]"),
    ):  # fmt: skip
        for transformed in (rune.grad(f), rune.jit(rune.grad(f))):
            with pytest.raises(
                TypeError,
                match=rf"^rune\.grad: the objective must return a real or complex scalar, got {got}",
            ):
                transformed(x3)


def test_argnums_are_checked():
    with pytest.raises(
        ValueError, match=r"^rune\.grad: argnums names argument 2, and the function was called with 1"
    ):
        rune.grad(lambda x: np.sum(x), argnums=2)(x3)
    with pytest.raises(TypeError, match=r"^rune\.grad: argnums must be an int or a tuple of ints, got 'x'"):
        rune.grad(lambda x: np.sum(x), argnums="x")


@pytest.mark.parametrize("read, what", [
    (lambda x: 1.0 if x[0] > 0 else 2.0, "bool"), (lambda x: float(x[0]), "float"), (lambda x: int(x[0]), "int"),
    (lambda x: complex(x[0]), "complex"), (lambda x: x[0].item(), "item"), (lambda x: x.tolist(), "tolist"),
    (lambda x: np.asarray(x), "asarray"), (lambda x: [0, 1, 2][x[0].astype(int)], "index"),
])  # fmt: skip
def test_a_read_of_what_is_not_known_raises(read, what):
    for transform, name in ((rune.jit(read), "jit"), (rune.vmap(read), "vmap")):
        with pytest.raises(
            rune.TracedValueError, match=rf"^{what}: the value is traced by rune\.{name}"
        ) as error:
            transform(np.ones((2, 3)) if name == "vmap" else x3)
        assert len(str(error.value)) > 60


def test_integer_edge_cases_neither_crash_nor_differ_from_numpy():
    for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64):
        info = np.iinfo(dtype)
        x = np.array([info.min, info.min, info.max, 7, 0], dtype)
        y = np.array([0, -1 if info.min else 1, 0, 64, 0]).astype(dtype)
        f = lambda x, y: (x // y, x % y, x << y, x >> y, np.fmod(x, y))
        with np.errstate(all="ignore"):
            for got, want in zip(rune.jit(f)(x, y), f(x, y), strict=True):
                np.testing.assert_array_equal(got, want)


def test_traced_indices_out_of_range_raise_and_negative_ones_wrap():
    table = np.arange(5.0)
    f = rune.jit(lambda t, i: t[i])
    assert f(table, np.int64(-1)) == 4.0
    np.testing.assert_array_equal(f(table, np.array([0, -5, 4])), [0.0, 0.0, 4.0])
    for bad in (np.int64(5), np.int64(-6), np.array([0, 99]), np.array([np.iinfo(np.int64).min])):
        with pytest.raises(IndexError, match="out of bounds"):
            f(table, bad)

    def write(t, i):
        y = t * 1.0
        y[i] = 7.0
        return y

    with pytest.raises(IndexError, match="out of bounds"):
        rune.jit(write)(table, np.int64(9))
    with pytest.raises(IndexError, match="out of bounds"):
        rune.grad(f)(table, np.int64(9))
    with pytest.raises(IndexError, match="out of bounds"):
        rune.vmap(f, in_axes=(None, 0))(table, np.array([1, 9]))


@pytest.mark.parametrize("entry", ["jacfwd", "jacrev"])
def test_results_without_a_derivative_are_refused(entry):
    for f, what in (
        (np.argmax, "dtype int64"),
        (lambda x: {"s": "text", "y": x}, r"str 'text'"),
        (lambda x: {"b": x > 0}, "dtype bool"),
    ):
        with pytest.raises(TypeError, match=rf"^rune\.{entry}: (\w+: )?a result of {what} has no derivative"):
            getattr(rune, entry)(f)(x3)


def test_hvp_names_itself():
    with pytest.raises(ValueError, match=r"^rune\.hvp: 0: shape \[2\] in the tangent, \[3\] in the primal"):
        rune.hvp(lambda x: np.sum(x**2))(x3, np.ones(2))
    with pytest.raises(TypeError, match=r"^rune\.hvp: the objective must return a real or complex scalar"):
        rune.hvp(lambda x: x)(x3, x3)


@pytest.mark.parametrize("dtype", ["i1", "i8", "u1", "u4", "u8"])
@pytest.mark.parametrize("n", [2, 200])
def test_an_index_of_no_branch_is_named_by_switch(dtype, n):
    choose = lambda k: rune.switch(k, [lambda x, j=j: x + j for j in range(n)], 0.5)
    dtype = np.dtype(dtype)
    good = [0, n // 2, n - 1] + ([-1, -n] if dtype.kind == "i" else [])
    bad = [n, np.iinfo(dtype).max] + ([-n - 1, np.iinfo(dtype).min] if dtype.kind == "i" else [])
    fits = lambda ks: [
        k for k in ks if np.iinfo(dtype).min <= k <= np.iinfo(dtype).max and (k not in bad or not -n <= k < n)
    ]
    one, many = rune.jit(choose), rune.jit(rune.vmap(choose))
    for k in fits(good):
        assert choose(dtype.type(k)) == one(dtype.type(k)) == 0.5 + k % n
    for k in fits(bad):
        for f in (choose, one):
            with pytest.raises(
                IndexError, match=rf"^rune\.switch: the index is out of range for {n} branches$"
            ):
                f(dtype.type(k))
        with pytest.raises(IndexError, match=rf"^rune\.switch: .* for {n} branches \(in lane 1\)$"):
            many(np.array([0, k], dtype))
    loop = rune.jit(lambda ks: rune.scan(lambda c, k: (c + choose(k), None), 0.0, ks)[0])
    if worst := fits(bad)[:1]:
        with pytest.raises(IndexError, match=r"\(in step 2\)$"):
            loop(np.array([0, 1, *worst], dtype))


@pytest.mark.parametrize("option", ["static_argnames", "consumes"])
def test_an_option_that_holds_no_names_is_refused(option):
    for names, said in ((0, "int 0"), ([0], "int 0"), (("x", 1.5), "float 1.5")):
        with pytest.raises(TypeError, match=rf"^rune\.jit: {option} takes names of arguments, not {said}$"):
            rune.jit(lambda x: x, **{option: names})


@pytest.mark.parametrize("static, said", [
    (x3, r"float64 \[3\]: leave it out of static_argnames"), ([1], "list: pass a tuple or a frozenset"),
    ({"a": 1}, "dict: pass a tuple or a frozenset"), ((1, [2]), "tuple: pass"), ({3}, "set: pass"),
])  # fmt: skip
def test_a_static_argument_without_a_hash_is_named(static, said):
    f = rune.jit(lambda x, how: x, static_argnames="how")
    for call in (lambda: f(x3, static), lambda: f(x3, how=static)):
        with pytest.raises(
            TypeError, match=rf"^rune\.jit: how: a static argument must be hashable, got {said}"
        ):
            call()


def test_options_and_outputs_of_loops_that_do_not_fit():
    step = lambda c, x: (c, x)
    for reverse in ("no", np.ones(2), None, 1.0):
        with pytest.raises(TypeError, match=r"^rune\.scan: reverse must be True or False, got "):
            rune.scan(step, 0.0, x3, reverse=reverse)
    for wrap in (lambda f: f, rune.jit):
        with pytest.raises(ValueError, match=r"^rune\.iterate: max_steps must be an int below 2\*\*63"):
            wrap(lambda x: rune.iterate(lambda c: c, x, until=lambda c: c > 0, max_steps=10**30))(-1.0)
        with pytest.raises(ValueError, match=r"^rune\.scan: length must be an int below 2\*\*63"):
            wrap(lambda x: rune.scan(step, x, None, length=10**30))(-1.0)
    with pytest.raises(
        ValueError, match=r"^rune\.scan: output\.a: shape \[1\] from one step, \[2\] from another"
    ):
        rune.scan(lambda c, x: (c + 1, {"a": np.zeros(int(c) + 1), "b": x}), 0, x3)
