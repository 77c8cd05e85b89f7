"""What someone who knows NumPy writes first, and what the messages tell them to write instead."""

import collections
import re
import types

import numpy as np
import pytest

import rune
from rune.structure import STAR, apart

x3 = np.array([0.5, -1.5, 2.0])


class Series:
    """A column of another library: no array, but NumPy can make one of it."""

    __hash__ = None

    def __array__(self, dtype=None, copy=None):
        return x3


def fill(x):
    y = np.zeros(3)
    y[0] = x[0]
    return np.sum(y)


@pytest.mark.parametrize("convert", [float, int, complex])
def test_a_number_is_read_by_item_where_there_is_one_to_read(convert):
    with pytest.raises(rune.TracedValueError, match=r"x\.item\(\) reads the value, without its derivative"):
        rune.grad(lambda x: convert(x[0]) * x[1])(x3)
    for trace in (rune.jit, lambda f: rune.vmap(lambda v: f(v * x3)), lambda f: rune.jit(rune.grad(f))):
        with pytest.raises(
            rune.TracedValueError, match=f"a Python {convert.__name__} cannot hold it"
        ) as raised:
            trace(lambda x: convert(x[0]) * x[1])(x3)
        assert "item" not in str(raised.value)


@pytest.mark.parametrize("transform", [rune.grad, rune.jit])
def test_an_element_stored_in_a_plain_array_is_told_where_to_go(transform):
    with pytest.raises(ValueError) as raised:
        transform(fill)(x3)
    assert "write into rune.asarray(plain) or np.zeros_like(x)" in str(raised.value.__cause__)


@pytest.mark.parametrize("entry", ["grad", "value_and_grad", "jacfwd", "jacrev", "hessian", "vjp"])
def test_parameters_without_a_derivative_are_named_with_what_to_pass(entry):
    f = lambda x: np.sum(x)
    call = (lambda x: rune.vjp(f, x)) if entry == "vjp" else getattr(rune, entry)(f)
    no = rf"^rune\.{entry}: the parameters hold no real or complex array, got "
    for x, rest in [
        (3, r"int 3: pass x\.astype\(float\), or 3\.0 for 3$"),
        (np.arange(3), r"int64 \[3\]: pass x\.astype\(float\), or 3\.0 for 3$"),
        ("a", "str 'a'$"),
        (Series(), r"Series: pass np\.asarray\(x\)$"),
        (
            types.SimpleNamespace(w=x3),
            "SimpleNamespace: make its class a dataclass, or register it with optree$",
        ),
        (np.sin, "ufunc$"),
    ]:
        with pytest.raises(TypeError, match=no + rest):
            call(x)


def test_a_column_of_another_library_is_passed_as_an_array():
    with pytest.raises(TypeError, match=r"^rune\.jit: 0: Series is neither .*: pass np\.asarray\(x\)$"):
        rune.jit(lambda x: x)(Series())


def test_grad_called_at_once_says_how_it_is_called():
    with pytest.raises(TypeError, match=r": write rune\.grad\(f\)\(x\)$"):
        rune.grad(np.sum, x3)


def test_parameters_by_keyword_are_missed_by_position():
    with pytest.raises(
        ValueError, match=r"the function was called with 0 by position: keyword arguments are not"
    ):
        rune.grad(lambda x: np.sum(x))(x=x3)


def test_a_list_of_numbers_is_no_axis():
    with pytest.raises(ValueError, match=r"^rune\.vmap: 0\.0: .* one array as np\.array\(x\)$"):
        rune.vmap(lambda v: v)([1.0, 2.0])
    with pytest.raises(ValueError, match=r"^rune\.scan: xs\.0: .* one array as np\.array\(x\)$"):
        rune.scan(lambda c, v: (c + v, None), 0.0, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"in_axes$"):
        rune.vmap(lambda v: v)(1.0)


COUNTS = {
    "length": (0, lambda n: rune.scan(lambda c, _: (c + 1, None), 0.0, length=n)[0]),
    "checkpoint_every": (1, lambda n: rune.scan(lambda c, r: (c + 1, r), 0.0, x3, checkpoint_every=n)[0]),
    "max_steps": (0, lambda n: rune.iterate(lambda c: c + 1, 0.0, until=lambda c: c > 2, max_steps=n)),
}


@pytest.mark.parametrize("what", COUNTS)
def test_what_counts_steps_is_an_int_of_any_kind(what):
    least, run = COUNTS[what]
    for n in (3.7, 3.0, "3", np.float64(3), [3]):
        with pytest.raises(TypeError, match=rf"^rune\.\w+: {what} must be an int, got (float|str|list)"):
            run(n)
    with pytest.raises(ValueError, match=rf"^rune\.\w+: {what} must be an int of at least {least}, got"):
        run(least - 1)
    for n in (3, np.int64(3), np.uint8(3)):
        assert run(n) == 3.0
    with pytest.raises(rune.TracedValueError, match="static_argnames"):
        rune.jit(run)(np.int64(3))


def test_the_order_of_polygamma_is_known():
    with pytest.raises(rune.TracedValueError, match=r"^rune\.polygamma: the order n is traced by rune\.jit"):
        rune.jit(lambda n: rune.polygamma(n, 1.0))(np.int64(1))
    np.testing.assert_allclose(rune.jit(rune.polygamma)(1, 1.0), np.pi**2 / 6)


@pytest.mark.parametrize("like, said", [(np.float64, "like: type float64"), ((0.0, "a"), "1: str 'a'")])
def test_a_type_is_no_array_like_the_result(like, said):
    for wrap in (lambda f: f, rune.jit):
        with pytest.raises(
            TypeError, match=rf"^rune\.callback: {said} has no shape and dtype: give an array"
        ):
            wrap(lambda x: rune.callback(np.sum, like, x))(x3)


def test_a_start_in_the_place_of_the_solver_is_named():
    for entry in (rune.root, rune.fixed_point):
        with pytest.raises(
            TypeError,
            match=rf"^rune\.{entry.__name__}: the second argument must be a function, got float 0\.5",
        ):
            entry(np.cos, 0.5)


def test_a_root_found_on_the_host_compiles_and_maps():
    def cube_root(a):
        host = lambda a: np.cbrt(a)
        return rune.root(lambda x: x**3 - a, lambda: rune.callback(host, np.float64(0), rune.detach(a)))

    want = 1 / 12
    assert rune.grad(cube_root)(8.0) == pytest.approx(want)
    assert rune.jit(rune.grad(cube_root))(8.0) == pytest.approx(want)
    np.testing.assert_allclose(rune.vmap(rune.grad(cube_root))(np.array([8.0, 8.0])), want)


def test_a_string_passes_through_the_branches_of_a_compiled_function():
    layer = {"w": x3, "act": "tanh"}
    double = lambda c: {**c, "w": 2 * c["w"]}
    f = lambda p, c: rune.cond(p > 0, double, lambda c: c, c)
    for run in (f, rune.jit(f)):
        for p, factor in ((1.0, 2), (-1.0, 1)):
            out = run(p, layer)
            assert out["act"] == "tanh"
            np.testing.assert_array_equal(out["w"], factor * x3)
    lanes = rune.vmap(lambda p: f(p, layer)["w"])(np.array([1.0, -1.0]))
    np.testing.assert_array_equal(lanes, [2 * x3, x3])
    rename = lambda c: {**c, "act": "relu"}
    for other in (rename, lambda c: {**c, "act": c["w"][0]}):
        with pytest.raises(
            ValueError, match=r"^rune\.cond: act: .* from on_(true|false), .* the same from every branch$"
        ):
            rune.jit(lambda p, other=other: rune.cond(p > 0, other, lambda c: c, layer))(1.0)


Point = collections.namedtuple("Point", "x y")
APART = {  # trees whose structures differ, and what is said of the first place
    "a leaf and a list": (1.0, [1.0, 2.0], "float 1.0 here, list there"),
    "a list and a tuple": ([1.0], (1.0,), "list here, tuple there"),
    "a named tuple": (Point(1.0, 2.0), (1.0, 2.0), "Point here, tuple there"),
    "nothing": (None, x3, "None here, float64 [3] there"),
    "an entry more": ({"a": 1.0, "b": 2.0}, {"a": 1.0}, "b: here, not there"),
    "an entry less": ([1.0], [1.0, 2.0], "1: there, not here"),
    "inside": ({"a": [1.0, (2.0,)]}, {"a": [1.0, [2.0]]}, "a.1: tuple here, list there"),
    "an order": (
        collections.OrderedDict(a=1.0, b=2.0),
        collections.OrderedDict(b=1.0, a=2.0),
        f"{collections.OrderedDict(a=STAR, b=STAR)} here, {collections.OrderedDict(b=STAR, a=STAR)} there",
    ),
}


@pytest.mark.parametrize("name", APART)
def test_structures_that_differ_are_told_apart_at_the_first_place(name):
    one, other, said = APART[name]
    assert apart(one, other, "here", "there") == said
    within = f"p.{said}" if re.match(r"[\w.]+: ", said) else f"p: {said}"
    assert apart({"p": one}, {"p": other}, "here", "there") == within


ONE, OTHER = {"a": [1.0, (2.0,)]}, {"a": [1.0, [2.0]]}


@pytest.mark.parametrize("call, said", [
    (lambda: rune.scan(lambda c, r: (ONE, r), OTHER, x3), "rune.scan: a.1: tuple in the carry the step returned, list in the carry it received"),
    (lambda: rune.iterate(lambda c: ONE, OTHER, until=lambda c: False, max_steps=1), "rune.iterate: a.1: tuple in the carry the step returned, list in the carry it received"),
    (lambda: rune.jvp(lambda p: p["a"][0], (OTHER,), (ONE,)), "rune.jvp: 0.a.1: tuple in the tangent, list in the primal"),
    (lambda: rune.linearize(lambda p: p["a"][0], OTHER)[1](ONE), "rune.linearize: 0.a.1: tuple in the tangent, list in the primal"),
    (lambda: rune.hvp(lambda p: p["a"][0] ** 2)(OTHER, ONE), "rune.hvp: 0.a.1: tuple in the tangent, list in the primal"),
    (lambda: rune.vjp(lambda x: OTHER, x3)[1](ONE), "rune.vjp: a.1: tuple in the cotangent, list in the result"),
    (lambda: rune.grad(lambda x, n: np.sum(rune.custom_vjp(lambda x, n: (x * n, lambda g: (g * n, None)))(x, n)))(x3, 2.0), "rune.custom_vjp: 1: None returned by the pullback, an array or number expected"),
    (lambda: rune.grad(lambda x: np.sum(rune.custom_vjp(lambda x: (x * 1, lambda g: (g,)))(x)))(x3), "rune.custom_vjp: 0: tuple returned by the pullback, an array or number expected"),
    (lambda: rune.jit(lambda p: rune.cond(p, lambda: OTHER, lambda: ONE))(np.bool_(True)), "rune.cond: a.1: list from on_true, tuple from on_false"),
    (lambda: rune.vmap(lambda k: rune.switch(k, [lambda: OTHER, lambda: ONE]))(np.arange(2)), "rune.switch: a.1: tuple from branches[1], list from branches[0]"),
])  # fmt: skip
def test_every_entry_point_tells_structures_apart(call, said):
    with pytest.raises(ValueError) as raised:
        call()
    assert str(raised.value) == said


@pytest.mark.parametrize("xs, path", [
    (range(3), "xs: range"), (zip([1.0], [2.0]), "xs: zip"), (("a", range(3)), "xs.0: str 'a'"),
])  # fmt: skip
def test_rows_that_are_no_array_are_named(xs, path):
    for name, call in (
        ("scan", lambda: rune.scan(lambda c, x: (c, x), 0.0, xs)),
        ("map", lambda: rune.map(lambda x: x, xs)),
    ):
        with pytest.raises(ValueError) as raised:
            call()
        assert str(raised.value).startswith(f"rune.{name}: {path}")
        assert "np.arange(n) for range(n)" in str(raised.value)


@pytest.mark.parametrize("f, said", [
    (lambda x: x, "got float64 [3]: sum it, or take rune.jacrev"),
    (lambda x: (np.sum(x), x), "got a structure of 2 leaves: rune.grad(f, has_aux=True) takes (objective, aux)"),
])  # fmt: skip
def test_an_objective_of_several_numbers_is_told_what_else_there_is(f, said):
    for entry in ("grad", "value_and_grad", "hessian"):
        with pytest.raises(TypeError) as raised:
            getattr(rune, entry)(f)(x3)
        assert (
            str(raised.value) == f"rune.{entry}: the objective must return a real or complex scalar, {said}"
        )


@pytest.mark.parametrize("wrap", [lambda f: f, rune.jit, lambda f: rune.vmap(f, axis_size=1, in_axes=None)])
def test_a_host_is_handed_what_is_no_array_as_it_is(wrap):
    heard = []
    tree = {"label": "loss", "value": x3, "none": None, "kind": np.sum}

    def f(x):
        rune.callback(lambda *args: heard.append(args), None, "at", tree | {"value": x}, 3)
        return x

    wrap(f)(x3)
    ((word, given, count),) = heard
    assert word == "at" and count == 3 and given.keys() == tree.keys()
    assert given["label"] == "loss" and given["none"] is None and given["kind"] is np.sum
    np.testing.assert_array_equal(given["value"], x3)
    with pytest.raises(TypeError, match=r"^rune\.callback: 0: set is neither array, number nor hashable"):
        wrap(lambda x: rune.callback(print, None, {1}, x))(x3)


@pytest.mark.parametrize("wrap", [lambda f: f, rune.jit])
def test_a_real_parameter_has_no_complex_derivative(wrap):
    wave = lambda t: np.exp(1j * t)
    pair = {"z": np.complex128(1 + 2j), "scale": 2.0}
    no = "holds no derivative of a complex result: take np.real or np.imag of the result, or rune.jacfwd"
    for entry in ("grad", "value_and_grad", "hessian", "jacrev"):
        with pytest.raises(TypeError, match=rf"^rune\.{entry}: 0: float64 \[\] {no}"):
            wrap(getattr(rune, entry)(wave))(0.5)
        with pytest.raises(TypeError, match=rf"^rune\.{entry}: 0\.scale: float64 \[\] {no}"):
            wrap(getattr(rune, entry)(lambda p: p["z"] * p["scale"]))(pair)
    assert np.isclose(wrap(rune.jacfwd(wave))(0.5), 1j * np.exp(0.5j))
    assert np.isclose(wrap(rune.grad(lambda t: np.real(wave(t))))(0.5), -np.sin(0.5))
    assert np.isclose(wrap(rune.grad(lambda z: z**2))(1 + 2j), 2 + 4j)


def test_a_slice_that_starts_at_a_traced_index_is_told_how_to_be_read():
    table = np.arange(10.0)
    with pytest.raises(rune.TracedValueError, match=re.escape("x[i + np.arange(n)] for x[i : i + n]")):
        rune.jit(lambda x, i: x[i : i + 3])(table, np.int64(4))
    np.testing.assert_array_equal(rune.jit(lambda x, i: x[i + np.arange(3)])(table, np.int64(4)), table[4:7])
