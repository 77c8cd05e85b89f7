"""Programs of loops, branches, maps and calls inside one another.

A program is the text of a function `f(x, y, z, w, k)`, drawn from a seed: statements over six variables (three
reals, a real, two complex numbers, two float32, an integer, three truths), some of them constructs whose bodies
are again such statements, which also read what the bodies around them held (`x1`, `k2`).  It can be pasted
after `import numpy as np` and `import rune`.

The oracle runs the same text with `plain` in place of `rune`, where a scan is a `for` and a map a loop over its
lanes.  Values must be the plain ones in every way of `VALUES`; the gradient must have the plain slope, found by
finite differences, and be the same in every way of `GRADIENTS`, `TANGENTS` and `CURVATURES`.
"""

import random
from textwrap import indent
from types import SimpleNamespace

import numpy as np
import optree
import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

import rune

STATEMENTS = """
x = np.tanh(W @ x + 0.1 * y)
x = np.where(b, x, 0.5 * x + 0.1)
x = np.sort(x * np.array([1.0, -1.0, 2.0])) * 0.5
x = np.tanh(rune.associative_scan(np.add, x))
x = np.tanh(rune.map(lambda r: r * y + y{e}, x))
x = np.linalg.solve(2 * np.eye(3) + 0.1 * np.outer(x, x), x)
x = x * rune.random.uniform(rune.random.fold_in(rune.random.key({j}), k), (3,))
x = 0.6 * x + 0.3 * np.sin(x{e}) * y{e}
x = 0.5 * x + np.tanh(z[0].real * z[1].imag)
x = rune.custom_jvp(lambda x, y: (0.3 * x * y * y, lambda s, t: 0.3 * y * (s * y + 2 * x * t)))(x, y)
x = rune.custom_vjp(lambda x: (np.sin(x), lambda g: g * np.cos(x)))(x)
x = rune.asarray(x * 1.0); x[k % 3] = np.sin(y); x[1:] *= 0.9
x, y = 0.4 * np.sqrt(x**2 + y**2 + 0.1), np.arctan2(y, 1.1 + x[0] ** 2)
y = 0.8 * y + 0.3 * np.mean(x)
y = 0.5 * y + x[k % 3]
y = 0.5 * y + rune.callback(lambda k: np.float64(0.1 * k), np.float64(0), k)
y = np.tanh(rune.grad(lambda q: np.sum(rune.scan(lambda c, r: (c * q + r, None), x, np.ones(3))[0]))(np.tanh(y)))
d = rune.detach(y); y = rune.fixed_point(lambda v: np.tanh(0.3 * v + y), lambda: settled(d))
z = z * (0.8 + 0.1j) + x[0] * np.exp(1j * y)
z = 0.5 * z + 0.2 * z{e}
w = w * np.float32(0.5) + x[:2].astype(np.float32)
x = 0.5 * x + 0.1 * np.sum(w * np.float32(2))
k = (3 * k + 1) % np.int32(7)
k = (k + k{e}) % np.int32(7)
b = b ^ (np.abs(x) > 0.31)
b = b | b{e}
count.add(np.int64(1) + k); weight.add(0.1 * x[0] * y)
rune.check(np.all(np.abs(x) < 1e8), "x is bounded")
""".strip().splitlines()

WRITES = """
x[{j} % 3] = 0.5 * x[({j} + 1) % 3] + 0.2 * y; z[0] *= 0.5j
x[k % 3] += 0.1; b[0] = k > 3; w[1] *= 0.5
""".strip().splitlines()  # into the carry that a loop handed to its step

HELD = "x{d}, y{d}, z{d}, w{d}, k{d}, b{d} = x, y, z, w, k, b"
ONE, TWO, THREE = (
    f"def {name}(x, y, z, w, k, b):\n BODY\n    return x, y, z, w, k, b\n" for name in ("one", "two", "three")
)
SCAN = """
def step(state, row):
    x, y, z, w, k, b = state
    x = 0.9 * x + 0.1 * row["r"] * (row["i"] + 1)
    BODY
    return (x, y, z, w, k, b), {{"x": x * 1.0, "by": (y, row["r"])}}
xs = {{"r": np.linspace(0.2, 0.6, {n})[:, None] * x, "i": np.arange({n})}}
(x, y, z, w, k, b), out = rune.scan(step, (x, y, z, w, k, b), xs, reverse={r}, checkpoint_every=KEPT)
y = np.tanh(y + 0.1 * np.sum(out["x"] * np.sin(out["by"][1])) + 0.05 * np.sum(out["by"][0]))
"""
ITERATE = """
def step(state):
    (x, y, z, w, k, b), j = state
    BODY
    return (x, y, z, w, k, b), j + 1
until = lambda state: (state[1] >= (k{d} + {j}) % 4) | (state[0][4] == 5)
(x, y, z, w, k, b), j = rune.iterate(step, ((x, y, z, w, k, b), np.int64(0)), until=until, max_steps=4)
y = y * (1 + 0.01 * j)
"""
VMAP = """
def lane(x, z, k, y):
    w, b = w{d}, b{d}
    y = y + 0.1 * rune.lane_index("axis{d}")
    BODY
    return x, y, z, k, b
xs, zs = np.linspace(1.0, 0.4, {n})[:, None] * x, np.linspace(1j, 2, {n})[:, None] * z
lanes = rune.vmap(lane, in_axes=(0, 0, 0, None), axis_name="axis{d}")
x, y, z, k, b = lanes(xs, zs, k + np.arange({n}, dtype=np.int32), y)
x, y, z = np.tanh(np.sum(x, 0)), np.tanh(np.sum(y)), 0.3 * np.sum(z, 0)
k, b = (np.sum(k) % 7).astype(np.int32), np.any(b, 0)
"""
CONSTRUCTS = [
    SCAN.replace("KEPT", "None"),
    SCAN.replace("KEPT", "{m}"),
    ITERATE,
    VMAP,
    ONE + TWO + "x, y, z, w, k, b = rune.cond({pred}, one, two, x, y, z, w, k, b)",
    ONE
    + TWO
    + THREE
    + "x, y, z, w, k, b = rune.switch((k + {j}) % 3, [one, two, three], x, 0.9 * y, z, w, k, b)",
    ONE + "x, y, z, w, k, b = rune.jit(one)(x, y, z, w, k, b)",
    ONE + "x, y, z, w, k, b = rune.remat(one)(x, y, z, w, k, b)",
    ONE
    + "(x, y, z, w, k, b), t = weight.collect(0.0, lambda: one(x{d}, y{d}, z{d}, w{d}, k{d}, b{d}))\ny = y + t",
]
FUNCTION = """
W = np.array([[0.8, -1.0, 0.2], [-0.2, -0.2, -0.1], [-0.8, -0.1, -0.3]])
count, weight = rune.Total("count"), rune.Total("weight")
def settled(y):
    step = lambda v: np.tanh(0.3 * v + y)
    return rune.iterate(step, 0 * y, until=lambda v: np.abs(step(v) - v) < 1e-14, max_steps=100)
def f(x, y, z, w, k):
    x, z, w, b = x * 1.0, z * 1.0, w * 1, x > 0
    def run():
        return one(x, y, z, w, k, b)
    return weight.collect(0.0, lambda: count.collect(np.int64(0), run))
"""


def drawn(source, template, d, depth):
    """A template's text, which stands in d bodies; constructs stand in it to that depth."""
    pick = lambda among: among[source.randrange(len(among))]
    numbers = {
        "d": d, "e": source.randint(1, max(d, 1)), "j": source.randrange(6), "n": source.randrange(5),
        "m": source.randrange(1, 4), "r": source.random() < 0.3,
        "pred": pick(["k % 2 == 0", "b[1]", "x[0] > 0.123"]),
    }  # fmt: skip

    def body(writes):
        lines = [held := HELD.format(d=d + 1)]
        for _ in range(source.randrange(1, 4)):
            if depth and source.random() < 0.55:
                lines += [held, drawn(source, pick(CONSTRUCTS), d + 1, depth - 1)]
                writes = []  # what a construct returns may be read-only
            else:
                lines.append(drawn(source, pick(STATEMENTS + 3 * writes), d + 1, depth))
        return indent("\n".join(lines), "    ")

    writes = WRITES if "def step" in template else []
    lines = template.strip().splitlines()
    return "\n".join(body(writes) if "BODY" in line else line.format(**numbers) for line in lines)


def program(seed, depth):
    source = random.Random(seed)
    return drawn(source, ONE, 0, depth) + "\n" + FUNCTION.strip()


class Tally:
    """What rune.Total does; `quiet` while a function runs for its shapes alone."""

    quiet = False

    def __init__(self, name):
        self.sums = []

    def add(self, v):
        if not Tally.quiet:
            self.sums[-1] = self.sums[-1] + v

    def collect(self, zero, f):
        self.sums.append(zero)
        return f(), self.sums.pop()


def own(tree):
    return optree.tree_map(lambda x: np.array(x)[()], tree)


def row(tree, k):
    return optree.tree_map(lambda x: x[k], tree)


def stack(results):
    return optree.tree_map(lambda *xs: np.stack(xs), *results)


def rows_of(f, xs, order):
    """f(k, row) for every row, in that order, stacked; of no rows, nothing of what f gives for zeros."""
    results = {k: own(f(k, row(xs, k))) for k in order}
    if results:
        return stack([results[k] for k in sorted(results)])
    before, Tally.quiet = Tally.quiet, True
    result = own(f(0, optree.tree_map(lambda x: np.zeros(x.shape[1:], x.dtype)[()], xs)))
    Tally.quiet = before
    return optree.tree_map(lambda x: np.zeros((0, *x.shape), x.dtype), result)


def scan(step, init, xs, *, reverse=False, checkpoint_every=None):
    carry, n = own(init), len(optree.tree_leaves(xs)[0])

    def output(_, x):
        nonlocal carry
        after, out = step(own(carry), x)
        carry = own(after) if n else carry
        return out

    outputs = rows_of(output, xs, range(n)[::-1] if reverse else range(n))
    return carry, outputs


def iterate(step, init, *, until, max_steps):
    carry = own(init)
    while not until(carry):
        carry = own(step(carry))
    return carry


def vmap(f, in_axes, axis_name):
    def lane(k, args):
        plain.lane[axis_name] = k
        return f(*args)

    def mapped(*args):
        n = len(args[0])
        alike = lambda x: np.broadcast_to(x, (n, *np.shape(x)))
        args = [x if axis == 0 else alike(x) for x, axis in zip(args, in_axes, strict=True)]
        return rows_of(lane, tuple(args), range(n))

    return mapped


plain = SimpleNamespace(
    scan=scan, iterate=iterate, vmap=vmap, lane={}, lane_index=lambda name: plain.lane[name],
    cond=lambda pred, yes, no, *args: own((yes if pred else no)(*own(args))),
    switch=lambda index, branches, *args: own(branches[int(index)](*own(args))),
    jit=lambda f: f, remat=lambda f: f, detach=lambda x: x, fixed_point=lambda f, solve: solve(),
    custom_jvp=lambda rule: lambda *args: rule(*args)[0], custom_vjp=lambda rule: lambda *args: rule(*args)[0],
    grad=lambda f: lambda q: f(q + 1e-30j).imag / 1e-30,
    map=lambda f, xs: np.stack([f(x) for x in xs]), associative_scan=lambda f, xs: f.accumulate(xs),
    callback=lambda host, like, *args: host(*args), check=lambda ok, message: None,
    asarray=np.array, random=rune.random, Total=Tally,
)  # fmt: skip

X, Y, Z = np.array([0.4, 0.9, -0.6]), np.float64(0.7), np.array([0.3 + 0.2j, -0.5 + 0.4j])
V = np.array([0.5, -0.25], np.float32)
LANES = [(X * a, Y * a, Z * a, V * np.float32(a), np.int32(k)) for a, k in ((1.0, 3), (0.8, 4), (-0.5, 0))]
ALONG = X[::-1] * 0.9, np.float64(0.6), Z[::-1] * (1 - 0.5j), V[::-1] * np.float32(2), np.int32(0)


def objective(f):
    """A real number that every real and complex result of f enters."""

    def loss(*args):
        ((x, y, z, w, _, _), _), t = f(*args)
        return np.sum(x * X) + 1.3 * y + np.sum((z * Z).real) + np.sum(w * V) + 0.7 * t

    return loss


def slope(loss):
    """The central difference of the plain loss along ALONG, or None where two steps disagree."""
    *inexact, k = LANES[0]
    at = lambda h: loss(*(a + np.float64(h) * t for a, t in zip(inexact, ALONG, strict=False)), k)
    coarse, fine = ((at(h) - at(-h)) / (2 * h) for h in (1e-5, 5e-6))
    return fine if abs(coarse - fine) < 1e-5 * max(1, abs(fine)) else None


WAYS = {
    "jit": rune.jit,
    "vmap": rune.vmap,
    "grad": lambda f: rune.grad(f, argnums=(0, 1, 2, 3)),
    "total": lambda f: lambda *args: np.sum(rune.vmap(f)(*args)),
    "by_x": rune.grad,
    "along": lambda f: lambda *args: rune.jvp(f, args, ALONG[: len(args)])[1],
    "hessian": lambda f: lambda x: rune.hessian(f)(x) @ ALONG[0],
    "dot": lambda f: lambda x: np.sum(f(x) * ALONG[0]),
}
VALUES = ["jit(f)", "vmap(f)", "jit(vmap(f))", "vmap(jit(f))"]
GRADIENTS = [
    "jit(grad(f))", "grad(jit(f))", "jit(grad(jit(f)))", "vmap(grad(f))", "jit(vmap(grad(f)))",
    "grad(total(f))", "jit(grad(total(f)))",
]  # fmt: skip
TANGENTS = ["along(f)", "jit(along(f))", "along(jit(f))"]
CURVATURES = [
    "along(by_x(f))", "by_x(along(f))", "by_x(dot(by_x(f)))", "jit(along(by_x(f)))", "along(jit(by_x(f)))",
    "jit(hessian(f))",
]  # fmt: skip


def agree(got, want, way, tolerance):
    """The same structure, shapes and dtypes, and numbers that differ by rounding."""
    assert optree.tree_structure(got) == optree.tree_structure(want), way
    for x, y in zip(optree.tree_leaves(got), optree.tree_leaves(want), strict=True):
        assert (np.asarray(x).dtype, np.shape(x)) == (np.asarray(y).dtype, np.shape(y)), way
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=way)


def check(text, some):
    """The law, in the ways that `some` takes of each list."""
    note(text)
    by_hand, scope = {"np": np, "rune": plain}, {"np": np, "rune": rune}
    exec(text, by_hand)
    exec(text, scope)
    f, loss = scope["f"], objective(scope["f"])
    tolerance = 1e-3 if "float32" in text else 1e-7

    def in_way(way, f, *args):
        return eval(way, WAYS | {"f": f})(*args)

    def hold(f, ways, wants):
        for way in some(ways):
            mapped = "vmap" in way or "total" in way
            args, want = (stack(LANES), stack(wants)) if mapped else (LANES[0], wants[0])
            agree(in_way(way, f, *args), want, way, tolerance)

    values = [own(by_hand["f"](*lane)) for lane in LANES]
    agree(f(*LANES[0]), values[0], "eager", tolerance)
    hold(f, VALUES, values)
    gradients = [in_way("grad(f)", loss, *lane) for lane in LANES]
    hold(loss, GRADIENTS, gradients)
    forward = sum(np.sum((g * t).real) for g, t in zip(gradients[0], ALONG, strict=False))
    expected = None if "float32" in text else slope(objective(by_hand["f"]))
    if expected is not None:
        agree(forward, expected, "differences", 1e-4)
    if "custom_vjp" not in text:  # which has no forward derivative
        hold(loss, TANGENTS, [forward])
        of_x = lambda x: loss(x, *LANES[0][1:])
        first, *others = ((way, in_way(way, of_x, X)) for way in some(CURVATURES))
        for way, curvature in others:
            agree(curvature, first[1], f"{way} and {first[0]}", 10 * tolerance)


seeds = st.integers(0, 2**32 - 1)
quick = settings(suppress_health_check=list(HealthCheck))


@pytest.mark.filterwarnings("ignore")
@settings(quick, max_examples=28, phases=[Phase.generate])
@given(seeds, st.integers(1, 2))
def test_nested_control_flow(seed, depth):
    check(program(seed, depth), lambda ways: random.Random(seed).sample(ways, 2))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@settings(quick, max_examples=150, derandomize=False, phases=[Phase.generate])
@given(seeds, st.integers(1, 3))
def test_nested_control_flow_in_every_way(seed, depth):
    check(program(seed, depth), lambda ways: ways)
