"""Random programs: every way to a derivative gives the same, and mapped is looped.

A program is Python text, made instruction by instruction: values v0, v1... over NumPy's and SciPy's
functions, each kept where it is finite and of moderate size.  What fails is printed as that text, and
becomes a case of FOUND.  `pytest -m long` runs 2,000 programs.
"""

import contextlib

import numpy as np
import pytest
import scipy.special as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rune

SHAPES = [(), (3,), (1,), (2, 3), (3, 2), (3, 3), (2, 1, 3)]
DTYPES = ["float64", "float64", "float64", "float32", "complex128"]

UNARY = [
    "np.sin({x})", "np.cos({x})", "np.tanh({x})", "np.exp(np.tanh({x}))", "np.square({x})", "-{x}", "{x} * 0.7", "2.0 - {x}",
    "{x} ** 3", "np.expm1(np.sin({x}))", "np.conj({x})", "np.real({x})", "np.imag({x} * 2)", "{x} / 3", "np.sinh(np.sin({x}))",
    "np.reshape({x}, -1)", "np.transpose({x})", "{x}[..., None]", "{x}[None]", "np.sum({x})", "np.mean({x}, axis=0)", "np.sum({x}, axis=-1)",
    "{x}[::-1]", "{x}[1:]", "{x}[..., :2]", "{x}[0]", "np.cumsum({x}, axis=0)", "np.roll({x}, 1, axis=0)", "np.flip({x}, -1)", "{x}[[0, 1, 0]]",
    "np.concatenate([{x}, 2 * {x}], axis=0)", "np.stack([{x}, {x} * {x}], axis=-1)", "np.pad({x}, 1)", "np.tile({x}, 2)", "{x} @ np.swapaxes({x}, -1, -2)",
    "np.diff({x}, axis=0)", "np.outer({x}, {x})", "np.prod({x}, axis=0)", "np.broadcast_to({x}, (2,) + np.shape({x}))", "np.moveaxis({x}, 0, -1)",
    "np.linalg.inv(bounded({x}) + 6 * np.eye(3))", "np.linalg.solve(bounded({x}) + 6 * np.eye(3), np.ones(3))", "np.trace({x})", "np.tril({x})",
    "updated({x})", "np.einsum('i...->...', {x})", "np.where(np.arange(3) > 0, {x}, 0.5)", "np.repeat({x}, 2, axis=0)", "np.array([1.0, 2.0, -1.0]) @ {x}",
    "scanned({x})", "np.float32(1.5) * {x}", "np.angle(2 + {x} * 0.1j)", "np.abs({x} + (3 + 1j))", "np.exp(0.3j * {x})", "np.sqrt(4 + np.square(np.sin({x})))",
]  # fmt: skip
REAL = [  # not of complex numbers
    "np.log1p(np.square({x}))", "np.arctan({x})", "sp.expit({x})", "sp.erf({x})", "np.arcsinh({x})", "np.max({x}, axis=0)", "np.min({x})", "np.sort({x}, axis=-1)",
    "sp.gammaln(1.5 + np.square({x}))", "np.abs({x})", "np.clip({x}, -1.0, 0.8)", "np.maximum({x}, 0.3)", "np.sqrt(1 + np.square({x}))", "sp.log_ndtr({x})",
    "np.linalg.cholesky({x} @ np.swapaxes({x}, -1, -2) + np.eye(3))", "np.median({x}, axis=0)", "np.linalg.norm({x})", "np.cbrt(2 + np.sin({x}))", "sp.j0({x})",
    "np.logaddexp.reduce({x}, axis=0)", "np.var({x}, axis=0)", "np.interp({x}, [-1.0, 0.1, 2.0], [0.5, -1.0, 1.0])", "{x} % 0.7", "np.cumprod(np.tanh({x}), axis=0)",
]  # fmt: skip
BINARY = [
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / (2 + np.square(np.sin({y})))", "np.matmul({x}, {y})", "np.concatenate([{x}, {y}], axis=-1)",
    "np.where(np.real({x}) > 0.1, {x}, {y})", "np.dot({x}, {y})", "np.multiply.outer({x}, {y})", "np.stack([{x}, {y}])", "written({x}, {y})",
]  # fmt: skip
REAL2 = [
    "np.maximum({x}, {y})", "np.arctan2({x}, 2 + np.square({y}))", "np.logaddexp({x}, {y})", "np.hypot({x}, 1 + {y})", "(1 + np.square({x})) ** {y}",
    "np.minimum({x}, {y})", "sp.xlogy({x}, 1 + np.square({y}))", "np.copysign({x}, {y})",
]  # fmt: skip


def bounded(x):
    return x / (2 + np.square(np.abs(x + 3)))


def updated(x):
    y = np.zeros_like(x)
    y[...] = x
    y[0] += 2 * x[-1]
    return y


def written(x, y):
    out = np.zeros_like(x) + 0 * y
    out[:1] = np.sin(x[:1])
    np.add.at(out, [0, 0], y[0])
    return out


def scanned(x):
    return rune.scan(lambda c, r: (np.tanh(c + r), c * r), np.zeros_like(x[0]), x)[1]


NAMES = dict(np=np, sp=sp, bounded=bounded, updated=updated, written=written, scanned=scanned)


@st.composite
def programs(draw):
    """The text of a program, the shapes and dtypes of its arguments, and a seed for their values."""
    arguments = draw(
        st.lists(st.tuples(st.sampled_from(SHAPES), st.sampled_from(DTYPES)), min_size=1, max_size=3)
    )
    seed = draw(st.integers(0, 10**6))
    lines, values = [], dict(enumerate(values_of(arguments, seed)))
    wanted, used = draw(st.integers(5, 30)), set()
    for _ in range(3 * wanted):
        if len(lines) == wanted:
            break
        recent = st.integers(0, len(values) - 1).map(
            lambda k: len(values) - 1 - k
        )  # the shrunk one is the last
        a, b = draw(recent), draw(recent)
        complex_ = any(np.iscomplexobj(values[k]) for k in (a, b))
        pool = UNARY + BINARY if complex_ else UNARY + REAL + BINARY + REAL2
        template = draw(st.sampled_from(pool))
        text = template.format(x=f"v{a}", y=f"v{b}")
        if "axis" in text and not np.ndim(values[a]):  # NumPy takes axis 0 of a scalar here and not there
            continue
        with (
            contextlib.suppress(ValueError, IndexError, TypeError, np.linalg.LinAlgError),
            np.errstate(all="ignore"),
        ):
            out = eval(text, NAMES | {f"v{k}": v for k, v in values.items()})
            if np.size(out) in range(1, 49) and np.all(np.abs(out) < 50) and np.all(np.isfinite(out)):
                lines.append(f"v{len(values)} = {text}")
                values[len(values)] = out
                used |= {a, b} if "{y}" in template else {a}
    head = ", ".join(f"v{k}" for k in range(len(arguments)))
    rest = ", ".join(f"np.ravel(np.real(v{k}) + np.imag(v{k}))" for k in values if k not in used)
    return "\n    ".join([f"def f({head}):", *lines, f"return np.concatenate([{rest}])"]), arguments, seed


def values_of(arguments, seed, lanes=()):
    rng = np.random.default_rng(seed)
    for shape, dtype in arguments:
        x = rng.standard_normal((*lanes, *shape))
        yield (x + 1j * rng.standard_normal((*lanes, *shape)) if dtype == "complex128" else x).astype(dtype)[
            ()
        ]


def close(got, want, digits, what):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, what
    scale = 1 + np.max(np.abs(want), initial=0, where=np.isfinite(want))
    near = np.abs(got - want) <= 10.0**-digits * scale
    assert np.all(near | ~np.isfinite(want)), f"{what}: {got} and {want}"


def inner(us, vs):
    return sum(np.sum(np.real(np.asarray(u) * v)) for u, v in zip(us, vs, strict=True))


def agree(text, arguments, seed):
    scope = dict(NAMES)
    exec(text, scope)
    f = scope["f"]
    single = any(dtype == "float32" for _, dtype in arguments) or "float32" in text
    exact, near = (3, 2) if single else (8, 5)
    args, d, u = (tuple(values_of(arguments, seed + k)) for k in range(3))
    each = tuple(range(len(args)))
    out = f(*args)
    weight = np.random.default_rng(seed).standard_normal(np.shape(out))
    objective = lambda *args: np.sum(weight * f(*args))
    forward = lambda *args: rune.jvp(f, args, d)
    gradient = rune.value_and_grad(objective, argnums=each)

    y, dy = forward(*args)
    close(y, out, exact, "the primal of jvp and the function")
    assert (y.dtype, dy.dtype) == (out.dtype, out.dtype)
    value, g = gradient(*args)
    close(inner(g, d), np.sum(weight * dy), exact, "reverse and forward")
    assert [np.result_type(v) for v in g] == [np.result_type(a) for a in args]
    y, linear = rune.linearize(f, *args)
    close(linear(*d), dy, exact, "linearize and jvp")
    y, pullback = rune.vjp(f, *args)
    for a, b in zip(pullback(weight.astype(np.asarray(y).dtype)[()]), g, strict=True):
        close(a, b, exact, "vjp and grad")

    lanes = tuple(values_of(arguments, seed + 3, (2,)))
    looped = np.stack([f(*(a[k] for a in lanes)) for k in range(2)])
    close(rune.vmap(f)(*lanes), looped, exact, "mapped and looped")

    # One compiled function for all, since compiling takes longest.
    everything = lambda args, lanes: (forward(*args), gradient(*args), rune.vmap(f)(*lanes))
    (cy, cdy), (cvalue, cg), mapped = rune.jit(everything)(args, lanes)
    for a, b in [(cy, out), (cdy, dy), (cvalue, value), (mapped, looped), *zip(cg, g, strict=True)]:
        close(a, b, exact, "compiled and eager")
        assert np.asarray(a).dtype == np.asarray(b).dtype

    # Differences in double precision; where two steps disagree the program stands at a kink.
    wide = [np.asarray(v).astype(np.result_type(v, np.float64)) for v in (*args, *d)]
    x, dx = wide[: len(args)], wide[len(args) :]
    with np.errstate(all="ignore"):
        change = lambda eps: (
            (
                f(*(a + eps * v for a, v in zip(x, dx, strict=True)))
                - f(*(a - eps * v for a, v in zip(x, dx, strict=True)))
            )
            / (2 * eps)
        )
        coarse, fine = change(1e-5), change(1e-6)
    if np.all(np.abs(coarse - fine) <= 1e-6 * (1 + np.abs(fine))):
        close(dy, fine, near, "forward and central differences")

    slopes = rune.grad(objective, argnums=each)
    along = lambda v: rune.jvp(slopes, args, v)[1]
    close(inner(along(d), u), inner(along(u), d), exact - 1, "second derivatives and their transpose")


FOUND = [
    (  # the tangent of a float32 minimum was float64
        "def f(v0):\n    v1 = np.minimum(v0, v0)\n    v2 = np.pad(v1, 1)\n    return v2",
        [((3, 2), "float32")],
        265829,
    ),
]


@pytest.mark.parametrize("text, arguments, seed", FOUND)
def test_programs_that_once_disagreed(text, arguments, seed):
    agree(text, arguments, seed)


def law(count):
    once = settings(max_examples=count, suppress_health_check=list(HealthCheck))
    return lambda test: once(given(programs())(test))


@law(100)
def test_every_way_to_a_derivative_agrees(program):
    agree(*program)


@pytest.mark.long
@law(2000)
def test_every_way_to_a_derivative_agrees_at_length(program):
    agree(*program)
