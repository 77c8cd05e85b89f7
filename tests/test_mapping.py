"""Mapping: what is mapped and where lanes go, one law over NumPy's functions, and lanes that see each other."""

import collections
import dataclasses

import numpy as np
import optree
import pytest
from test_numpy_functions import CASES, function, parts, tolerance

import rune

every = pytest.mark.parametrize("wrap", [lambda f: f, rune.jit], ids=["eager", "compiled"])
close = dict(rtol=1e-10, atol=1e-12)


# One law: a mapped function is the function of every lane


def lane(x, k):
    """An input of lane k, other in every lane."""
    if x.dtype.kind in "fc":
        return (x * (1 + 0.01 * k)).astype(x.dtype)
    return x[::-1] if k % 2 else x


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")
def test_mapped_operands_of_every_kind_are_the_stacked_lanes(case):
    f, args = function(case)
    count, alone = len(args), [(k,) for k in range(len(args))]
    for mapped in {(*range(count),), *alone}:
        each = [parts(f(*(lane(x, k) if j in mapped else x for j, x in enumerate(args)))) for k in range(3)]
        for axis in (0, -1):
            stacked = lambda x: np.stack([lane(x, k) for k in range(3)], axis)
            given = [stacked(x) if j in mapped else x for j, x in enumerate(args)]
            axes = tuple(axis if j in mapped else None for j in range(count))
            try:
                got = parts(rune.vmap(f, axes, axis)(*given))
            except rune.TracedValueError as error:
                # a plain operand that is asked to hold a lane, which no protocol hands to rune
                if len(mapped) == count or "a plain array cannot hold it" not in str(error):
                    raise
                continue
            for x, *lanes in zip(got, *each, strict=True):
                want = np.stack(lanes, axis)
                assert x.shape == want.shape
                assert x.dtype == want.dtype or "eig" in case or "roots" in case
                np.testing.assert_allclose(x, want, **tolerance(*args, x))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore")
def test_a_map_has_as_many_equations_for_many_lanes_as_for_few(case):
    f, args = function(case)
    program = lambda n: rune.program(rune.vmap(f))(*(np.stack([lane(x, k) for k in range(n)]) for x in args))
    assert len(str(program(2)).splitlines()) == len(str(program(9)).splitlines())


@every
def test_no_lanes_give_empty_results(wrap):
    for case in CASES[:: 7 if wrap is rune.jit else 1]:
        f, args = function(case)
        with np.errstate(all="ignore"):
            want = parts(f(*args))
        got = parts(wrap(rune.vmap(f))(*(np.zeros((0, *x.shape), x.dtype) for x in args)))
        assert [x.shape for x in got] == [(0, *np.shape(x)) for x in want], case


# Constructs under a map


@rune.custom_jvp
def tangent_rule(x):
    return 2 * np.sin(x), lambda t: 2 * t * np.cos(x)


@rune.custom_vjp
def pullback_rule(x):
    return 2 * np.sin(x), lambda ct: 2 * ct * np.cos(x)


def cube_root(a):
    def newton():
        step = lambda x: x - (x**3 - a) / (3 * x * x)
        return rune.iterate(step, np.float64(1.0), until=lambda x: np.abs(x**3 - a) < 1e-13, max_steps=99)

    return rune.root(lambda x: x**3 - a, newton)


def counted(x):
    total = rune.Total("seen")

    def f():
        total.add(np.sum(x))
        return 2 * x

    return total.collect(np.float64(0.0), f)


def checked(x):
    rune.check(np.all(x > 0), "positive numbers")
    return x * x


grow = lambda c, r: (c * np.sin(r) + r, c * r)
CONSTRUCTS = {
    "cond": lambda x: rune.cond(x[0] > 0.8, np.sin, np.square, x),
    "switch": lambda x: rune.switch((2 * x[0]).astype(int), [np.sin, np.square, np.negative, np.cos], x),
    "scan": lambda x: rune.scan(grow, np.float64(0.5), x),
    "scan, reverse": lambda x: rune.scan(grow, np.float64(0.5), x, reverse=True),
    "scan, checkpoints": lambda x: rune.scan(grow, np.float64(0.5), x, checkpoint_every=2),
    "iterate": lambda x: rune.iterate(lambda c: 1.3 * c, x[0], until=lambda c: c > 3, max_steps=50),
    "iterate in scan": lambda x: rune.scan(
        lambda c, r: (
            rune.iterate(lambda c: 1.5 * c, c * 0.1 + r, until=lambda c: c > 2, max_steps=30),
            c,
        ),
        np.float64(1.0),
        x,
    ),
    "cond in scan": lambda x: rune.scan(
        lambda c, r: (rune.cond(r > 0.8, lambda c: 1.1 * c, lambda c: c + r, c), None), np.float64(1.0), x
    ),
    "scan in cond": lambda x: rune.cond(
        x[0] > 0.8, lambda x: rune.scan(lambda c, r: (c * r, None), 1.0, x)[0], np.sum, x
    ),
    "root": lambda x: cube_root(x[0] + 1),
    "custom_jvp": tangent_rule,
    "custom_vjp": pullback_rule,
    "remat": rune.remat(lambda x: np.tanh(x @ np.ones(4)) * x),
    "a compiled call": rune.jit(lambda x: np.tanh(x) * np.sum(x)),
    "map": lambda x: rune.map(lambda r: np.sin(r) * np.sum(x), x),
    "associative_scan": lambda x: rune.associative_scan(np.multiply, x),
    "Total": counted,
    "check": checked,
    "detach": lambda x: rune.detach(x) * x,
    "random": lambda x: rune.random.gamma(rune.random.key((x[0] * 1e6).astype(int)), (3,), x[1]),
}
construct = pytest.mark.parametrize("name", CONSTRUCTS)
rng = np.random.default_rng(3)
XS, DS = rng.uniform(0.3, 1.5, (2, 5, 4))


def stacked(f, *rows):
    return optree.tree_map(lambda *xs: np.stack(xs), *[f(*row) for row in zip(*rows)])


def agree(got, want):
    optree.tree_map(lambda x, y: np.testing.assert_allclose(x, y, **close), got, want)


def objective(f):
    return lambda x: sum(np.sum(np.sin(1.3 * y)) for y in optree.tree_leaves(f(x)))


@construct
def test_constructs_are_mapped(name):
    f = CONSTRUCTS[name]
    want = stacked(f, XS)
    for g in (rune.vmap(f), rune.jit(rune.vmap(f)), rune.vmap(rune.jit(f))):
        agree(g(XS), want)
    two = np.stack([XS, DS])
    agree(rune.jit(rune.vmap(rune.vmap(f)))(two), stacked(rune.vmap(f), two))
    agree(rune.vmap(rune.vmap(f, in_axes=-1))(np.swapaxes(two, 1, 2)), stacked(rune.vmap(f), two))


@construct
def test_derivatives_of_constructs_are_mapped(name):
    f = objective(CONSTRUCTS[name])
    total = lambda xs: np.sum(rune.vmap(f)(xs))
    want = stacked(rune.grad(f), XS)
    for g in (rune.vmap(rune.grad(f)), rune.jit(rune.vmap(rune.grad(f))), rune.vmap(rune.grad(rune.jit(f)))):
        agree(g(XS), want)
    for g in (rune.grad(total), rune.jit(rune.grad(total)), rune.grad(rune.jit(total))):
        agree(g(XS), want)
    if name == "custom_vjp":
        return
    along = lambda x, d: rune.jvp(f, (x,), (d,))
    for g in (rune.vmap(along), rune.jit(rune.vmap(along))):
        agree(g(XS, DS), stacked(along, XS, DS))
    agree(rune.jit(rune.vmap(rune.hessian(f)))(XS), stacked(rune.hessian(f), XS))


@every
def test_the_host_is_called_once_per_lane_and_for_no_lane_not_at_all(wrap):
    seen = []

    def host(a):
        seen.append(float(a))
        return 2 * a

    f = wrap(rune.vmap(lambda x: rune.callback(host, np.float64(0.0), x)))
    np.testing.assert_array_equal(f(np.arange(3.0)), [0.0, 2.0, 4.0])
    assert seen == [0.0, 1.0, 2.0]
    assert f(np.zeros(0)).shape == (0,) and len(seen) == 3


def test_a_mapped_compiled_call_is_compiled_once():
    f = rune.jit(lambda x: np.sum(x * x))
    for _ in range(2):
        rune.vmap(f)(XS)
        rune.vmap(rune.vmap(f))(np.stack([XS, DS]))
    stats = f.stats()
    assert (stats.traces, stats.compiles) == (1, 2)


# Where lanes come from and go to


@dataclasses.dataclass
class Line:
    slope: object
    offset: object


Pair = collections.namedtuple("Pair", "x y")


@every
def test_axes_are_trees_over_the_arguments(wrap):
    at = np.arange(3.0)
    line = lambda p: p.slope * 2.0 + p.offset
    ordered = collections.OrderedDict([("z", at), ("a", np.ones(3))])  # its order is not that of its names
    cases = [
        (rune.vmap(line, in_axes=(Line(0, None),)), (Line(at, 1.0),), 2 * at + 1),
        (rune.vmap(lambda p: p.x + p.y, in_axes=(Pair(0, None),)), (Pair(at, 1.0),), at + 1),
        (rune.vmap(lambda p: p.x + p.y, in_axes=((0, None),)), (Pair(at, 1.0),), at + 1),
        (rune.vmap(lambda d: d["z"] + np.sum(d["a"]), in_axes=({"a": None, "z": 0},)), (ordered,), at + 3),
        (rune.vmap(lambda d: d["w"], in_axes=({"w": np.int64(-1), "none": None},)), ({"w": at, "none": None},), at),
        (rune.vmap(lambda x: Line(x, 1.0), out_axes=Line(0, None)), (at,), Line(at, 1.0)),
        (rune.vmap(lambda x: {"x": np.stack([x, -x]), "y": x}, out_axes={"x": 1, "y": 0}), (at,),
         {"x": np.stack([at, -at]), "y": at}),
    ]  # fmt: skip
    for f, args, want in cases:
        got = wrap(f)(*args)
        if isinstance(want, Line):
            got, want = (got.slope, got.offset), (want.slope, want.offset)
        agree(got, want)


@every
def test_keywords_are_mapped_along_their_first_axis_where_they_have_one(wrap):
    f = wrap(rune.vmap(lambda x, *, y, flag=True: x * y["w"] + y["b"] if flag else x))
    x = np.arange(3.0)
    np.testing.assert_array_equal(f(x, y={"w": x, "b": 1.0}), x * x + 1)
    np.testing.assert_array_equal(f(x, y={"w": x, "b": 1.0}, flag=False), x)


three, two = np.ones(3), np.ones(2)
WRONG = {
    "no function": (lambda: rune.vmap(3), TypeError, "the first argument must be a function, got int 3"),
    "an axis that is real": (lambda: rune.vmap(np.sin, 1.0)(three), TypeError, "in_axes: an axis is an int or None, got float 1.0"),
    "a boolean axis": (lambda: rune.vmap(np.sin, (True,))(three), TypeError, "in_axes.0: an axis is an int or None, got bool True"),
    "too many axes": (lambda: rune.vmap(np.sin, (0, 0))(three), ValueError, "in_axes: axes for 2 entries, where there is 1 entry: give"),
    "too few axes": (lambda: rune.vmap(np.add, (0,))(three, three), ValueError, "in_axes: axes for 1 entry, where there are 2 entries: give"),
    "axes of other names": (lambda: rune.vmap(lambda d: d["a"], ({"b": 0},))({"a": three}), ValueError, "in_axes.0: axes for b, where there is a"),
    "axes of a leaf": (lambda: rune.vmap(np.sin, ((0, 0),))(three), ValueError, "in_axes.0: axes for 2 entries, where there is float64 [3]: give"),
    "axes of other results": (lambda: rune.vmap(lambda x: (x, x), 0, (0, 0, 0))(three), ValueError, "out_axes: axes for 3 entries, where there are 2 entries: give"),
    "no such axis": (lambda: rune.vmap(np.sin, 1)(three), ValueError, "0: float64 [3] has no axis 1 to map over"),
    "a number": (lambda: rune.vmap(np.add)(three, 2.0), ValueError, "1: float64 [] has no axis 0 to map over"),
    "a word": (lambda: rune.vmap(lambda x, s: x)(three, "a"), ValueError, "1: str 'a' has no axis 0 to map over"),
    "two sizes": (lambda: rune.vmap(np.add)(two, three), ValueError, "1: 3 rows along axis 0, 0: 2"),
    "two sizes in trees": (lambda: rune.vmap(lambda d: d["a"])({"a": two, "b": (two, three)}), ValueError, "0.b.1: 3 rows along axis 0, 0.a: 2"),
    "a keyword of another size": (lambda: rune.vmap(lambda x, y: x)(two, y=three), ValueError, "y: 3 rows along axis 0, 0: 2"),
    "a size and another": (lambda: rune.vmap(np.sin, axis_size=4)(two), ValueError, "0: 2 rows along axis 0, axis_size: 4"),
    "a size that is real": (lambda: rune.vmap(np.sin, None, axis_size=4.0)(two), TypeError, "axis_size must be an int, got float 4.0"),
    "a size below 0": (lambda: rune.vmap(np.sin, None, axis_size=-1)(two), ValueError, "axis_size must be at least 0, got -1"),
    "nothing mapped": (lambda: rune.vmap(np.sin, None)(two), ValueError, "no argument is mapped"),
    "lanes that go nowhere": (lambda: rune.vmap(lambda x: {"p": x}, 0, None)(two), ValueError, "result.p: out_axes is None for what differs from lane to lane"),
    "lanes that go too far": (lambda: rune.vmap(lambda x: (x,), 0, 2)(two), ValueError, "result.0: out_axes has axis 2, of 1 with the mapped one"),
    "a masked array": (lambda: rune.vmap(np.sin)(np.ma.array(two)), TypeError, "0: masked arrays"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls(name):
    call, kind, message = WRONG[name]
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind and str(caught.value).startswith(f"rune.vmap: {message}")


# Lanes that see each other


all_lanes = lambda x: rune.lanes(x, "batch")
place = lambda: rune.lane_index("batch")
NAMED = {  # the function of a lane, and that of all lanes
    "centred": (lambda x: x - np.mean(all_lanes(x), axis=0), lambda xs: xs - np.mean(xs, axis=0)),
    "shares": (lambda x: np.exp(x) / np.sum(np.exp(all_lanes(x)), 0), lambda xs: np.exp(xs) / np.sum(np.exp(xs), 0)),
    "the next lane": (lambda x: all_lanes(x)[(place() + 1) % 5] * x, lambda xs: np.roll(xs, -1, 0) * xs),
    "its double": (lambda x: (2 * all_lanes(x))[place()] * x, lambda xs: 2 * xs * xs),
    "products": (lambda x: all_lanes(x) @ x, lambda xs: xs @ xs.T),
    "by its place": (lambda x: x * (place() + 1.0), lambda xs: xs * np.arange(1.0, 6.0)[:, None]),
    "sums of sums": (lambda x: np.sum(all_lanes(np.sum(all_lanes(x), 0) * x), 0), lambda xs: np.ones((5, 1)) * np.sum(xs, 0) ** 2),
    "in a compiled call": (rune.jit(lambda x: x - np.mean(all_lanes(x), axis=0)), lambda xs: xs - np.mean(xs, axis=0)),
    "in a loop": (
        lambda x: rune.scan(lambda c, r: (c * r + np.mean(all_lanes(c * r)), None), 1.0, x)[0],
        lambda xs: rune.scan(lambda c, r: (c * r + np.mean(c * r), None), np.ones(5), xs.T)[0],
    ),
    "in a branch": (
        lambda x: rune.cond(x[0] > 0.8, np.sin, np.square, x) * np.sum(all_lanes(x)),
        lambda xs: np.where(xs[:, :1] > 0.8, np.sin(xs), xs**2) * np.sum(xs),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_named_maps_and_their_derivatives(name):
    f, whole = NAMED[name]
    mapped = rune.vmap(f, axis_name="batch")
    weight = np.random.default_rng(8).standard_normal(np.shape(whole(XS)))
    pairs = [(lambda xs, g=g: np.sum(weight * g(xs) ** 2)) for g in (mapped, whole)]
    inner = rune.vmap(lambda x: rune.vmap(lambda s: f(s * x))(np.array([1.0, 2.0])), axis_name="batch")
    for wrap in (lambda f: f, rune.jit):
        agree(wrap(mapped)(XS), whole(XS))
        agree(wrap(rune.vmap(mapped))(np.stack([XS, DS])), np.stack([whole(XS), whole(DS)]))
        agree(wrap(inner)(XS), np.stack([whole(XS), whole(2 * XS)], 1))
        for derivative in (
            lambda f: rune.grad(f)(XS),
            lambda f: rune.jvp(f, (XS,), (DS,)),
            lambda f: rune.hvp(f)(XS, DS),
            lambda f: rune.jvp(rune.grad(f), (XS,), (DS,))[1],
        ):
            got, want = (derivative(wrap(g)) for g in pairs)
            agree(got, want)


def test_what_lanes_share_can_be_read_and_returned_once():
    def f(x):
        everyone = rune.lanes(x, "batch")
        if np.max(everyone) > 2:  # it is known: no lane tells it apart
            return everyone
        return -everyone

    got = rune.vmap(f, out_axes=None, axis_name="batch")(np.arange(4.0))
    assert type(got) is np.ndarray
    np.testing.assert_array_equal(got, np.arange(4.0))
    np.testing.assert_array_equal(
        rune.vmap(f, axis_name="batch")(np.arange(2.0)), -np.tile(np.arange(2.0), (2, 1))
    )


@every
def test_names_find_the_innermost_map_of_that_name(wrap):
    inner = rune.vmap(lambda y: np.sum(rune.lanes(y, "n")) + rune.lane_index("n"), axis_name="n")
    np.testing.assert_array_equal(
        wrap(rune.vmap(lambda x: inner(x * np.arange(2.0)), axis_name="n"))(np.arange(3.0)),
        np.arange(3.0)[:, None] + np.arange(2),
    )


def test_a_map_without_a_name_is_not_found():
    for f in (
        lambda x: rune.lanes(x, None),
        lambda x: rune.lanes(x, "other"),
        lambda x: rune.lane_index(None),
    ):
        with pytest.raises(
            NameError, match=r"^rune\.lane.*: no running map is named (None|'other'): give it to"
        ):
            rune.vmap(f)(np.ones(2))
