"""What someone who knows NumPy writes first, and what the messages tell them to write instead."""

import numpy as np
import pytest

import rune

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
    with pytest.raises(ValueError, match=r"the function was called with 0 by position$"):
        rune.grad(lambda x: np.sum(x))(x=x3)


def test_a_list_of_numbers_is_no_axis():
    with pytest.raises(ValueError, match=r"^rune\.vmap: 0\.0: .* one array as np\.array\(x\)$"):
        rune.vmap(lambda v: v)([1.0, 2.0])
    with pytest.raises(ValueError, match=r"^rune\.scan: xs\.0: .* one array as np\.array\(x\)$"):
        rune.scan(lambda c, v: (c + v, None), 0.0, [1.0, 2.0])
    with pytest.raises(ValueError, match=r"in_axes$"):
        rune.vmap(lambda v: v)(1.0)


@pytest.mark.parametrize("length", [3.7, 3.0, "3"])
def test_the_length_of_a_scan_is_an_int(length):
    with pytest.raises(TypeError, match=r"^rune\.scan: length must be an int, got (float|str) "):
        rune.scan(lambda c, _: (c + 1, None), 0.0, length=length)
    assert rune.scan(lambda c, _: (c + 1, None), 0.0, length=np.int64(3))[0] == 3.0


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
