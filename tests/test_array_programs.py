"""Programs of NumPy statements over a few arrays: views, writes through them, writes that see other views.

A program is drawn statement by statement and run by NumPy as it is drawn; a statement that NumPy refuses
is left out.  Run on traced arrays it must leave in every name, stale views too, what NumPy leaves there,
with its dtype; the derivatives of all of them must be those of finite differences where there are such,
and the same in both modes.
"""

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

import rune

SHAPES = [(3,), (4,), (5,), (2, 3), (3, 4), (3, 3), (1, 3), (0, 3), (2, 1, 3), (2, 2, 2), (2, 3, 4)]
BELOW = {"b": "b", "i": "bi", "f": "bif", "c": "bifc"}  # kinds that are stored into a kind without a warning

VIEWS = """
{v}[{basic}]
{v}[{basic}]
{v}[{basic}]
{v}.T
{v}.mT
{v}.ravel()
{v}.reshape(-1)
{v}.reshape({v}.shape[::-1])
{v}.swapaxes({ax}, {ay})
{v}.transpose()
{v}.squeeze()
{v}.view()
{v}.view({v}.dtype)
np.einsum('...i->i...', {v})
np.einsum('ij->ji', {v})
np.einsum({v}, [0, 1, 1], [1, 0])
np.einsum('i...->i', {v})
{v}.real
{v}.imag
{v}.conj()
{v}.diagonal()
{v}.astype({v}.dtype, copy=False)
{v}.flatten()
{v}.copy()
{v}.repeat(2)
{v}.clip(-1, 1)
{v}.take([0], 0)
np.real({v})
np.imag({v})
np.ravel({v}, 'F')
np.diagonal({v}, 1)
np.diag({v})
np.linalg.diagonal({v})
np.matrix_transpose({v})
np.moveaxis({v}, {ax}, {ay})
np.rollaxis({v}, {ax})
np.flip({v}, {ax})
np.rot90({v}, 3)
np.expand_dims({v}, {ax})
np.atleast_1d({v})
np.atleast_2d({v})
np.atleast_3d({v}, {w})[0]
np.atleast_2d({w}, {v})[1]
np.broadcast_to({v}, (2, *{v}.shape))
np.broadcast_arrays({v}, {v})[1]
np.array_split({v}, 2)[1]
np.array_split({v}, 2, axis=-1)[0]
np.unstack({v})[0]
np.astype({v}, {v}.dtype, copy=False)
np.nan_to_num({v}, copy=False)
np.roll({v}, 1)
np.delete({v}, 0, 0)
np.where({m}, {v}, {e})
sliding_window_view({v}, 2, axis=0)
next(iter({v}))
""".strip().splitlines()

WRITES = """
{v}[{i}] = {t}
{v}[{i}] = {t}
{v}[{i}] = {t}
{v}[{i}] {op} {t}
{v}[{i}] {op} {t}
{v}[{m}] = {s}
{v}[{m}] {op} {s}
_m = {m}; {v}[_m] = -{v}[_m]
np.{ufunc}.at({v}, {m}, {s})
{v} {op} {e}
{v} {op} {e}
np.{ufunc}.at({v}, {i}, fresh(np.broadcast_to({t}, {shape})))
np.{ufunc}.at({v}, {i}, fresh(np.broadcast_to({t}, {shape})))
{v}, {w} = {w}, {v}
{v}[0], {v}[-1] = {v}[-1], {v}[0]
{v}[[0, -1]] = {v}[[-1, 0]]
{v}[1:] = {v}[:-1]
{v}[:-1] += {v}[1:]
{v}[:] = {v}[::-1]
{v} += {v}.T
{v} *= {v}[::-1]
{v} @= {v}
{v}.T[0] = {s}
{v}.ravel()[0] = {s}
{v}.reshape(-1)[::2] *= 2
{v}[{i}][...] = {t}
{v}[{i}][0] = {s}
{v}[..., 0][...] = {s}
{v}.real = {s}
{v}.imag = {s}
{v}.real[{i}] = {s}
{v}.imag[{i}] += {s}
{v}.real += {v}.imag
{v}.flat = {s}
{v}.flat = {w}.flatten()
{v}.flat[1] = {s}
{v}.flat[::2] = {s}
{v}.flat[:2] *= 2
{v}.T.flat[0] = {s}
{v}.flat[1:][...] = {s}
for row in {v}: row += 1
for row in {v}: row[0] = {s}
for k, row in enumerate({v}): {v}[k] = row * 2
{v}.fill({s})
{v}.sort({ax})
{v}[::2].sort(0)
{v}.put([0, -1], {s})
np.put({v}, [1, 0], {w})
np.put({v}, [50, -50], {s}, 'clip')
np.put_along_axis({v}, np.argmax({v}, {ax}, keepdims=True), {s}, {ax})
np.copyto({v}, {e})
np.copyto({v}, {e}, where={m})
np.copyto({v}.T, {v})
np.fill_diagonal({v}, {s})
np.fill_diagonal({v}, {w}.ravel(), wrap=True)
np.putmask({v}, {m}, {s})
np.putmask({v}, {m}, {e})
np.nan_to_num({v}, copy=False)
np.negative({v}, out={v})
np.add({v}, {e}, out={v})
np.add({v}[1:], {v}[:-1], out={v}[:-1])
np.multiply({v}, {e}, out={v}, where={m})
np.cumsum({v}, {ax}, out={v})
np.add.accumulate({v}, {ax}, None, {v})
np.maximum.accumulate({v}, {ax}, out={v})
np.clip({v}, -1, 1, out={v})
np.round({v}, 1, out={v})
np.sum({v}, {ax}, out={v}[0])
np.sum({v}[0], out={v}[..., 0])
{v}.max(0, {v}[0])
np.matmul({v}, {v}, out={v})
np.stack([{v}[0], {v}[-1]], out={v}[:2])
np.divmod({v}, 0.7, out=({v}, None))
""".strip().splitlines()

KNOWN = """
{v}[np.nonzero({m})] = {s}
{v}[tuple(np.argwhere({m}).T)] = {s}
np.place({v}, {m}, {w}.flatten()[:2])
{v} = np.trim_zeros({v})
""".strip().splitlines()  # where values are known: not under jit and vmap

OPERATORS = {
    "f": ["+=", "-=", "*=", "/=", "//=", "%="],
    "c": ["+=", "-=", "*=", "/="],
    "i": ["+=", "-=", "*=", "//=", "%=", "&=", "|=", "^="],
    "b": ["&=", "|=", "^="],
}
UFUNCS = {
    "f": ["add", "subtract", "multiply", "maximum", "minimum", "divide"],
    "c": ["add", "subtract", "multiply"],
    "i": ["add", "subtract", "multiply", "maximum", "bitwise_or"],
    "b": ["logical_or", "logical_and", "add"],
}
NUMBERS = {
    "f": ["2.0", "0.5", "-1.5", "3", "True", "np.float32(0.3)", "np.int64(2)"],
    "c": ["2.0", "1j", "0.5 - 2j", "3"],
    "i": ["2", "-1", "3", "True", "np.int8(2)"],
    "b": ["True", "False"],
}


def fresh(x):
    """A writeable copy in C order, of a plain array and of a traced one."""
    return np.array(x, order="C") if isinstance(x, (np.ndarray, np.generic)) else np.zeros_like(x) + x


SCOPE = {"np": np, "fresh": fresh, "sliding_window_view": sliding_window_view}


def run(lines, arguments):
    """What the names hold after the statements."""
    scope = SCOPE | arguments
    for line in lines:
        exec(line, scope)
    return {
        k: v
        for k, v in scope.items()
        if k not in SCOPE and not k.startswith("_") and isinstance(v, (np.ndarray, np.generic))
    }


class Program:
    """Statements drawn one by one, with what NumPy holds in every name after them."""

    def __init__(self, source, kinds="fdDib", known=True):
        self.random, self.known, self.lines, self.arguments = source, known, [], {}
        for k in range(self.pick([2, 3])):
            kind = self.pick(kinds) if k else "d"
            numbers = np.random.default_rng(source.randrange(1000))
            x = numbers.standard_normal(self.pick(SHAPES))
            if kind == "D":
                x = x + 1j * numbers.standard_normal(x.shape)
            x = np.rint(x * 2) if kind == "i" else x > 0 if kind == "b" else x
            self.arguments[f"x{k}"] = x.astype(kind if kind != "b" else bool)
        self.state = {k: x.copy() for k, x in self.arguments.items()}
        for k in self.arguments:
            self.append(f"{k.replace('x', 'a')} = fresh({k})")
        for k in range(6):
            self.append(self.statement(f"v{k}"))

    def append(self, line):
        arguments = {k: x.copy() for k, x in self.arguments.items()}
        try:
            state = run([*self.lines, line], arguments)
        except (ValueError, TypeError, IndexError, AttributeError, StopIteration):
            return  # NumPy refuses the statement
        if all(np.size(x) < 200 and x.dtype.kind in "bifc" for x in state.values()):
            self.lines.append(line)
            self.state = state

    def text(self):
        given = [f"{k}: {x.dtype} {list(x.shape)}" for k, x in self.arguments.items()]
        return "\n".join([", ".join(given), *self.lines])

    def pick(self, among):
        return among[self.random.randrange(len(among))]

    def name(self, kinds="bifc", shape=None):
        found = [
            k
            for k, x in self.state.items()
            if isinstance(x, np.ndarray) and x.ndim and x.dtype.kind in kinds
            and (shape is None or fits(x.shape, shape))
        ]  # fmt: skip
        return self.pick(found) if found else None

    def statement(self, new):
        v = self.name()
        x = self.state[v]
        kind, i = x.dtype.kind, self.index(x.shape)
        try:
            t = np.shape(x[eval(i, SCOPE | self.state)])
        except IndexError:
            i, t = "...", x.shape
        parts = {
            "v": v, "w": self.name(BELOW[kind]) or v, "i": i, "basic": self.basic(x.shape),
            "ax": self.random.randrange(-x.ndim, x.ndim), "ay": self.random.randrange(-x.ndim, x.ndim),
            "t": self.value(t, kind), "shape": t, "e": self.value(x.shape, kind), "m": self.mask(x.shape),
            "op": self.pick(OPERATORS[kind]), "ufunc": self.pick(UFUNCS[kind]),
            "s": self.pick(["2", "0.5", "1"] if kind in "fc" else ["1"]),
        }  # fmt: skip
        chance = self.random.random()
        if chance < 0.3 or not x.flags.writeable:
            return f"{new} = " + self.pick(VIEWS).format(**parts)
        if chance < 0.35:
            return f"{new} = fresh({self.pick(VIEWS).format(**parts)})"
        return self.pick(KNOWN if self.known and chance > 0.95 else WRITES).format(**parts)

    def value(self, shape, kind):
        """An expression that may be stored into an array of that shape and kind."""
        chance = self.random.random()
        n = self.name(BELOW[kind], shape if chance > 0.6 else None)
        if chance < 0.2 or n is None:
            return self.pick(NUMBERS[kind])
        given = self.state[n].dtype.kind
        scale = {"b": "{}", "i": self.pick(["{}", "-{}"])}.get(
            given, self.pick(["{}", "{} * 0.5", "np.sin({})"])
        )
        form = (
            self.pick(["np.sum({})", "np.max({})"]) if chance < 0.3 and kind != "b" else "np.resize({}, %r)"
        )
        return scale.format(n if chance > 0.6 else (form % (shape,) if "%" in form else form).format(n))

    def mask(self, shape):
        other = self.name("fi")
        return self.pick([f"np.resize([True, False, False], {shape})", f"(np.resize({other}, {shape}) > 0)"])

    def index(self, shape):
        """The text of a tuple that indexes an array of that shape, in any way NumPy has."""
        chance, axes = self.random.random(), shape[: self.random.randrange(len(shape) + 1)]
        if chance < 0.35:
            return f"({self.basic(shape)},)"
        if chance < 0.45:
            bits = [self.random.random() < 0.5 for _ in range(int(np.prod(axes)))]
            return f"(np.array({bits}, bool).reshape({axes}),)"
        if chance < 0.5:
            return f"({self.mask(shape) if self.known else np.resize([True, False, False], shape).tolist()},)"
        if chance < 0.57 and axes and all(axes):
            return f"np.ix_({', '.join(str(self.places(n, 2)) for n in axes)})"
        if chance < 0.63:
            return self.pick(["([],)", "(True,)", "(False,)", "(..., True)", "()"])
        count = self.pick([1, 2, 3])
        parts = [self.part(n, count) for n in axes]
        for part in ("None", "..."):
            if self.random.random() < 0.2:
                parts.insert(self.random.randrange(len(parts) + 1), part)
        return f"({''.join(p + ', ' for p in parts)})".replace(":", "slice(None)") if parts else "(...,)"

    def part(self, n, count):
        if not n:
            return ":"
        return self.pick([
            ":", "slice(None, None, -1)", str(self.places(n, count)), str(self.places(n, 1)),
            f"[{self.places(n, count)}, {self.places(n, count)}]", str(self.places(n, 1)[0]),
            f"np.array({self.places(n, 1)[0]})", f"np.int64({self.places(n, 1)[0]})",
            str([k % 2 == 0 for k in range(n)]),
        ])  # fmt: skip

    def places(self, n, count):
        return [self.random.randrange(-n, n) for _ in range(count)]

    def basic(self, shape):
        parts = []
        for n in shape[: self.random.randrange(len(shape) + 1)]:
            if n and self.random.random() < 0.4:
                parts.append(str(self.places(n, 1)[0]))
            else:
                start, stop = (self.pick([None, None, self.random.randrange(-n - 1, n + 1)]) for _ in "ab")
                parts.append(f"slice({start}, {stop}, {self.pick([None, None, 1, 2, -1, -2])})")
        for part in ("None", "..."):
            if self.random.random() < 0.3:
                parts.insert(self.random.randrange(len(parts) + 1), part)
        return ", ".join(parts) or "..."

    def function(self):
        names = list(self.state)

        def f(*xs):
            scope = SCOPE | dict(zip(self.arguments, xs, strict=True))
            for line in self.lines:
                exec(line, scope)
            return tuple(scope[k] for k in names)

        return f, tuple(self.arguments.values()), [self.state[k] for k in names]

    def differences(self, along):
        """Central differences of every name along a direction, NaN where two steps disagree."""

        def change(h):
            ends = []
            for sign in (h, -h):
                moved = {
                    k: x + sign * t if x.dtype.kind in "fc" else x.copy()
                    for (k, x), t in zip(self.arguments.items(), along, strict=True)
                }
                ends.append(run(self.lines, moved))
            return {k: (ends[0][k] - ends[1][k]) / (2 * h) for k in ends[0] if inexact(ends[0][k])}

        coarse, fine = change(1e-5), change(5e-6)
        return {
            k: np.where(np.abs(coarse[k] - fine[k]) < 1e-5 * (1 + np.abs(fine[k])), fine[k], np.nan)
            for k in fine
        }


def fits(shape, into):
    return len(shape) <= len(into) and all(map(lambda a, b: a in (1, b), shape[::-1], into[::-1]))


def inexact(x):
    return np.asarray(x).dtype.kind in "fc"


def direction(x, seed):
    numbers = np.random.default_rng(seed)
    t = numbers.standard_normal(np.shape(x)) + 1j * numbers.standard_normal(np.shape(x))
    dtype = np.asarray(x).dtype
    return (t if dtype.kind == "c" else t.real if dtype.kind == "f" else 0 * t.real).astype(dtype)


def agree(got, want, single):
    """Same shapes, dtypes and numbers, as far as the precision goes."""
    assert len(got) == len(want)
    for x, y in zip(map(np.asarray, got), map(np.asarray, want), strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        scale = np.abs(y[np.isfinite(y)]).max(initial=1.0) if inexact(y) else 1.0
        bound = (1e-3 if single else 1e-8) * float(min(scale, 1e6))
        np.testing.assert_allclose(x, y, rtol=bound, atol=bound)


def differentiated(program):
    note(program.text())
    f, args, want = program.function()
    single = any(x.dtype.itemsize < (16 if x.dtype.kind == "c" else 8) for x in [*args, *want] if inexact(x))
    along = tuple(direction(x, k) for k, x in enumerate(args))
    values, changes = rune.jvp(f, args, along)
    agree(values, want, single)
    if not single:
        found = program.differences(along)
        for name, value, change in zip(program.state, want, changes, strict=True):
            if name in found and np.shape(found[name]) == np.shape(change):
                smooth = np.isfinite(found[name]) & (np.abs(value) < 1e3) & (np.abs(found[name]) < 1e3)
                np.testing.assert_allclose(change[smooth], found[name][smooth], rtol=1e-3, atol=1e-3)
    back, pull = rune.vjp(f, *args)
    agree(back, want, single)
    weights = tuple(direction(y, k) for k, y in enumerate(want))
    gradients = pull(weights)
    forward = [np.sum(w * d) for w, d in zip(weights, changes, strict=True) if inexact(w)]
    reverse = [np.sum(g * t) for g, t in zip(gradients, along, strict=True) if inexact(t)]
    size = 1 + sum(np.sum(np.abs(w * d)) for w, d in zip(weights, changes, strict=True) if inexact(w))
    if np.isfinite(size):
        assert abs(np.real(sum(forward) - sum(reverse))) <= (1e-3 if single else 1e-7) * size
    return f, args, along, want, values, changes, single


MODES = {
    "jit": lambda f, args, along: rune.jit(f)(*args),
    "vmap": lambda f, args, along: [
        y[1] for y in rune.vmap(f)(*(np.stack([x[::-1], x]) for x in args))
    ],
    "jit of jvp": lambda f, args, along: rune.jit(lambda x, t: rune.jvp(f, x, t)[0])(args, along),
}  # fmt: skip

quick = settings(suppress_health_check=list(HealthCheck))
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.filterwarnings("ignore")
@settings(quick, max_examples=400)
@given(seeds)
def test_arrays_hold_what_numpy_s_hold_after_any_statements(seed):
    with np.errstate(all="ignore"):
        differentiated(Program(random.Random(seed)))


@pytest.mark.filterwarnings("ignore")
@settings(quick, max_examples=30)
@given(seeds)
def test_compiled_and_mapped_arrays_hold_what_numpy_s_hold(seed):
    with np.errstate(all="ignore"):
        program = Program(random.Random(seed), known=False)
        f, args, along, want, _, changes, single = differentiated(program)
        for mode in MODES.values():
            agree(mode(f, args, along), want, single)
        agree(rune.jit(lambda x, t: rune.jvp(f, x, t)[1])(args, along), changes, single)
