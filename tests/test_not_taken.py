"""A lane that does not take a branch or a step never reports a failure of it; one that does always reports it."""

import numpy as np
import pytest

import rune

table = np.arange(1.0, 4.0)
two = np.arange(1.0, 3.0)
where = lambda x, right, wrong: np.where(x > 0, np.array(right), np.array(wrong))


def check(x):
    rune.check(x > 0, "message")
    return x * x


def scatter(x):
    y = np.zeros(3) * x
    y[where(x, [0, 1], [0, 5])] = x * x
    return np.sum(y * table)


def scatter_add(x):
    y = table * x
    np.add.at(y, where(x, [1, 1], [-9, 0]), x * x)
    return np.sum(y * table)


# Each fails exactly where x is not positive.
EFFECTS = {
    "check": (check, ValueError),
    "gather": (lambda x: x * x * rune.asarray(table)[where(x, 0, 7)], IndexError),
    "gather rows": (
        lambda x: x * np.sum(rune.asarray(np.outer(table, table))[where(x, [0, 1], [1, -9])]),
        IndexError,
    ),
    "scatter": (scatter, IndexError),
    "scatter add": (scatter_add, IndexError),
    "switch": (lambda x: rune.switch(where(x, 1, 5), [np.sin, lambda x: x**3], x), IndexError),
    "iterate": (
        lambda x: rune.iterate(lambda c: c * 1.5, x, until=lambda c: c > 3, max_steps=8),
        ValueError,
    ),
    "cholesky": (lambda x: np.sum(np.linalg.cholesky(np.eye(3) * x + 0.1 * x)) * x, np.linalg.LinAlgError),
    "large cholesky": (lambda x: np.sum(np.linalg.cholesky(np.eye(12) * x)), np.linalg.LinAlgError),
    "solve": (
        lambda x: np.sum(np.linalg.solve(np.eye(3) * np.maximum(x, 0.0), table)),
        np.linalg.LinAlgError,
    ),
    "large solve": (
        lambda x: np.sum(np.linalg.solve(np.eye(12) * np.maximum(x, 0.0), np.ones(12))),
        np.linalg.LinAlgError,
    ),
}

half = lambda x: x * 0.5


def steps(step, n):
    """n steps of a loop that stops on its own, after as many as that."""
    return lambda x: rune.iterate(
        lambda c: (c[0] + step(x), c[1] + 1), (x * 0, 0), until=lambda c: c[1] >= n(x), max_steps=4
    )[0]


# Each runs f of x, or of something with its sign, exactly where `go` is positive.
PLACES = {
    "cond": lambda f, x, go: rune.cond(go > 0, f, half, x),
    "switch": lambda f, x, go: rune.switch(np.where(go > 0, 1, 0), [np.sin, f, np.cos], x),
    "iterate": lambda f, x, go: rune.iterate(
        lambda c: (f(c[0]), -1.0 + 0 * c[1]), (x, go * 1.0), until=lambda c: c[1] <= 0, max_steps=3
    )[0],
    "cond in scan": lambda f, x, go: rune.scan(
        lambda c, r: (c + rune.cond((go > 0) & (r > 1), f, half, x) * r, c), x * 0.1, two
    )[0],
    "scan in cond": lambda f, x, go: rune.cond(
        go > 0, lambda x: rune.scan(lambda c, r: (c + f(x) * r, c), x * 0.1, two)[0], half, x
    ),
    "cond in iterate": lambda f, x, go: steps(
        lambda x: rune.cond(go > 0, f, half, x), lambda x: np.where(x > 1, 2, 3)
    )(x),
    "iterate in cond": lambda f, x, go: rune.cond(go > 0, steps(f, lambda x: 2), half, x),
    "cond in cond": lambda f, x, go: rune.cond(
        go > -2, lambda x: rune.cond(go > 0, f, half, x), lambda x: x * 3, x
    ),
    "vmap in cond": lambda f, x, go: rune.cond(go > 0, lambda x: np.sum(rune.vmap(f)(x * two)), half, x),
    "cond in vmap": lambda f, x, go: np.sum(
        rune.vmap(lambda o: rune.cond(go * o > 0, f, lambda x: x * o, x))(two)
    ),
    "remat in cond": lambda f, x, go: rune.cond(go > 0, rune.remat(f), half, x),
}
ORDERS = {
    "eager": lambda mode, g: rune.vmap(mode(g)),
    "compiled": lambda mode, g: rune.jit(rune.vmap(mode(g))),
    "compiled inside": lambda mode, g: rune.vmap(mode(rune.jit(g))),
}
MODES = {
    "value": lambda g: g,
    "grad": rune.grad,
    "jvp": lambda g: lambda x, go: rune.jvp(lambda x: g(x, go), (x,), (1.0,))[1],
    "hessian": rune.hessian,
}

xs = np.array([1.0, -2.0, 2.0, -1.0])
gos = np.array([1.0, -1.0, 1.0, -2.0])


def holds(place, effect, mode, order):
    f, error = EFFECTS[effect]
    g = lambda x, go: PLACES[place](f, x, go)
    run, one = ORDERS[order](MODES[mode], g), MODES[mode](g)
    expected = np.stack([one(x, go) for x, go in zip(xs, gos, strict=True)])
    np.testing.assert_allclose(run(xs, gos), expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(error) as raised:
        run(xs, np.array([1.0, -1.0, 1.0, 1.0]))
    said = str(raised.value)
    assert error is np.linalg.LinAlgError or "lane 3" in said
    assert error is not IndexError or effect == "switch" or "for axis 0" in said
    assert place != "cond in scan" or order == "eager" or "step 1" in said


@pytest.mark.parametrize("order", ["eager", "compiled"])
@pytest.mark.parametrize("effect", [name for name in EFFECTS if not name.startswith("large")])
@pytest.mark.parametrize("place", PLACES)
def test_a_gradient_fails_in_lanes_that_were_taken_only(place, effect, order):
    holds(place, effect, "grad", order)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mode", ["value", "jvp", "hessian"])
@pytest.mark.parametrize("effect", EFFECTS)
def test_every_mode_fails_in_lanes_that_were_taken_only(effect, mode, order):
    holds("cond", effect, mode, order)
