"""Loops, branches and roots under every transformation: eager and compiled agree with what is known."""

import dataclasses

import numpy as np
import pytest

import rune

every = pytest.mark.parametrize("wrap", [lambda f: f, rune.jit], ids=["eager", "compiled"])
ys = np.array([2.0, -1.0, 3.0, -0.5])
close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


def root_by_steps(a):
    """sqrt(a) by Newton's steps, with a carry that is a dict of a float and an integer."""
    out = rune.iterate(
        lambda c: {"x": (c["x"] + a / c["x"]) / 2, "n": c["n"] + 1},
        {"x": a * 1.0, "n": 0},
        until=lambda c: np.abs(c["x"] ** 2 - a) < 1e-10,
        max_steps=60,
    )
    return out["x"] + 0 * out["n"]


@every
def test_iterate_is_differentiated_in_every_way(wrap):
    a, d1, d2 = 9.0, 1 / 6, -0.25 * 9**-1.5
    close(wrap(root_by_steps)(a), 3)
    close(wrap(rune.grad(root_by_steps))(a), d1)
    close(rune.grad(wrap(root_by_steps))(a), d1)
    close(wrap(rune.grad(rune.grad(root_by_steps)))(a), d2)
    close(wrap(rune.hessian(root_by_steps))(a), d2)
    lanes = np.array([2.0, 4.0, 9.0, 1e4])
    want = 0.5 * lanes**-0.5
    close(wrap(rune.vmap(root_by_steps))(lanes), np.sqrt(lanes))
    close(wrap(rune.vmap(rune.grad(root_by_steps)))(lanes), want)
    close(rune.vmap(wrap(rune.grad(root_by_steps)))(lanes), want)
    close(wrap(rune.grad(lambda xs: np.sum(rune.vmap(root_by_steps)(xs))))(lanes), want)
    close(wrap(rune.jacfwd(rune.vmap(root_by_steps)))(lanes), np.diag(want))
    close(wrap(rune.jacrev(rune.vmap(root_by_steps)))(lanes), np.diag(want))


@every
def test_a_stopped_lane_is_held_bit_for_bit(wrap):
    f = lambda x: rune.iterate(lambda c: c * 1.3 + np.sin(c) ** 2, x, until=lambda c: c > 10, max_steps=100)
    lanes = np.linspace(0.1, 9.9, 13)
    others = lanes.copy()
    others[7] = 1e-9  # runs many steps more, while the rest have stopped
    one, other = wrap(rune.vmap(f))(lanes), wrap(rune.vmap(f))(others)
    same = np.arange(13) != 7
    np.testing.assert_array_equal(one[same], other[same])
    assert one[7] != other[7]


@every
def test_iterate_in_a_scan(wrap):
    xs = np.array([2.0, 4.0, 9.0])
    g = lambda xs: np.sum(rune.scan(lambda c, x: (c + root_by_steps(x), c * root_by_steps(x)), 0.0, xs)[1])
    roots = np.sqrt(xs)
    close(wrap(g)(xs), np.sum(np.cumsum(roots)[:-1] * roots[1:]))
    close(wrap(rune.grad(g))(xs), (roots.sum() - roots) / (2 * roots))


@every
def test_a_linear_fixed_point(wrap):
    A = np.array([[0.5, 0.1], [0.2, 0.3]])
    f = lambda b: np.sum(
        rune.iterate(
            lambda x: A @ x + b,
            np.zeros(2),
            until=lambda x: np.sum((A @ x + b - x) ** 2) < 1e-22,
            max_steps=200,
        )
    )
    b, inverse = np.array([1.0, 2.0]), np.linalg.inv(np.eye(2) - A)
    close(wrap(f)(b), np.sum(inverse @ b))
    close(wrap(rune.grad(f))(b), inverse.sum(0))
    g = lambda b: np.sum(rune.fixed_point(lambda x: A @ x + b, lambda: inverse @ rune.detach(b)))
    close(wrap(rune.grad(g))(b), inverse.sum(0))


@every
def test_branches_in_a_scan(wrap):
    def h(xs):
        step = lambda c, x: (rune.cond(x > 0, lambda c, x: c + np.log(x), lambda c, x: c * x, c, x), c)
        return np.sum(rune.scan(step, 1.0, xs)[1] ** 2)

    central = lambda f, x: np.array([(f(x + e) - f(x - e)) / 2e-6 for e in np.eye(x.size) * 1e-6])
    lanes = np.stack([ys, -ys, ys * 2])
    want = np.stack([central(h, y) for y in lanes])
    loose = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    loose(wrap(rune.grad(h))(ys), want[0])
    loose(wrap(rune.vmap(rune.grad(h)))(lanes), want)  # log of a negative lane is never seen
    loose(wrap(rune.grad(lambda rows: np.sum(rune.vmap(h)(rows))))(lanes), want)
    close(wrap(rune.hessian(h))(ys), rune.hessian(h)(ys))


@every
def test_switch_under_a_map_takes_each_lanes_own(wrap):
    f = lambda k, x: rune.switch(k, [lambda x: x * ys, lambda x: np.sqrt(x) * ys, lambda x: x[::-1] * 1.0], x)
    ks, X = np.array([0, 1, 2, -1]), np.abs(np.random.default_rng(0).standard_normal((4, 4)))
    close(wrap(rune.vmap(f))(ks, X), np.stack([f(k, x) for k, x in zip(ks, X, strict=True)]))
    with pytest.raises(IndexError):
        wrap(f)(np.int64(3), X[0])
    with pytest.raises(IndexError):
        wrap(rune.vmap(f))(np.array([0, 1, 5, 2]), X)


@every
def test_roots_of_structures_to_second_order(wrap):
    def r(a):
        def solve():
            x = rune.detach(a)
            for _ in range(50):
                x = (x + rune.detach(a) / x) / 2
            return {"x": x}

        return rune.root(lambda s: {"x": s["x"] * s["x"] - a}, solve)["x"]

    a = np.array([4.0, 9.0])
    close(wrap(rune.vmap(rune.grad(r)))(a), 0.5 * a**-0.5)
    close(wrap(rune.jacrev(rune.jacfwd(r)))(a)[0, 0, 0], -0.25 * 4**-1.5)
    close(wrap(rune.grad(lambda a: np.sum(rune.vmap(r)(a))))(a), 0.5 * a**-0.5)
    mine = lambda matvec, b: b / matvec(np.ones(2))
    by_hand = lambda a: np.sum(rune.root(lambda x: x * x - a, lambda: np.sqrt(rune.detach(a)), mine))
    close(wrap(rune.grad(by_hand))(a), 0.5 * a**-0.5)


@every
def test_totals_count_lanes_and_steps(wrap):
    total = rune.Total("t")

    def f(X):
        def lane(x):
            total.add(1.5)

            def step(c, r):
                total.add(np.where(r > 0, 1, 0))
                return rune.cond(r > 0, lambda c, r: (total.add(10), c + r)[1], lambda c, r: c, c, r), None

            return rune.scan(step, 0.0, x)[0]

        return total.collect(0.0, lambda: np.sum(rune.vmap(lane)(X)))

    X = np.stack([ys, -ys, ys])
    want = 3 * 1.5 + 11 * np.sum(X > 0)
    assert wrap(f)(X)[1] == want
    (_, n), _ = rune.value_and_grad(lambda X: f(X), has_aux=True)(X)
    assert n == want


@every
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [1, 3, 7, 12])
def test_checkpoints_change_no_number(wrap, reverse, n):
    xs = np.linspace(0.5, 1.5, n)
    step = lambda c, x: (np.sin(c) * x + c, c * x)
    plain = lambda xs: rune.scan(step, 1.0, xs, reverse=reverse)
    kept = lambda xs: rune.scan(step, 1.0, xs, reverse=reverse, checkpoint_every=4)
    for got, want in zip(wrap(kept)(xs), plain(xs), strict=True):
        close(got, want)
    loss = lambda f: lambda xs: np.sum(f(xs)[1] ** 2) + f(xs)[0]
    close(wrap(rune.grad(loss(kept)))(xs), rune.grad(loss(plain))(xs))
    close(wrap(rune.hessian(loss(kept)))(xs), rune.hessian(loss(plain))(xs))


def test_checkpoints_keep_little():
    def loss(every):
        step = lambda c, x: (np.tanh(c * x), None)
        return lambda xs: np.sum(rune.scan(step, np.ones(100), xs, checkpoint_every=every)[0])

    xs = np.ones(400)
    whole = rune.explain(rune.grad(loss(None)))(xs)
    some = rune.explain(rune.grad(loss(20)))(xs)
    stored = lambda found: max(loop.steps * loop.kept_bytes for loop in found.loops)
    assert stored(some) * 10 <= stored(whole)


@every
def test_map_and_associative_scan(wrap):
    xs = np.random.default_rng(2).uniform(0.5, 1.5, (11, 3))
    close(wrap(lambda xs: rune.map(lambda x: np.sum(x) * x, xs))(xs), xs.sum(1, keepdims=True) * xs)
    f = lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1])
    for reverse in (False, True):
        for n in (1, 2, 5, 11):
            a, b = xs[:n], xs[:n] + 1
            want, y = [], np.zeros(3)
            order = range(n - 1, -1, -1) if reverse else range(n)
            for k in order:
                y = a[k] * y + b[k]
                want.append(y)
            want = np.stack(want[::-1] if reverse else want)
            close(wrap(lambda a, b, r=reverse: rune.associative_scan(f, (a, b), reverse=r)[1])(a, b), want)
    rune.check_grads(lambda x: np.sum(wrap(lambda x: rune.associative_scan(f, (x, x))[1])(x) ** 2), xs)


@every
def test_progress_is_drawn_and_changes_nothing(wrap, capsys):
    pytest.importorskip("tqdm")
    run = lambda xs: rune.scan(lambda c, x: (c + x, None), 0.0, xs, progress="summing")[0]
    assert wrap(run)(np.ones(250)) == 250.0
    assert "summing" in capsys.readouterr().err
    close(wrap(rune.grad(run))(np.ones(250)), np.ones(250))


@every
def test_a_check_names_its_step(wrap):
    def run(xs):
        return rune.scan(lambda c, x: (rune.check(x > 0, "not positive"), (c + x, None))[1], 0.0, xs)[0]

    with pytest.raises(ValueError, match="not positive"):
        wrap(run)(ys)
    with pytest.raises(ValueError, match=r"not positive \(in step 1\)"):
        rune.jit(run)(ys)
    with pytest.raises(ValueError, match=r"not positive.*lane 1"):
        wrap(rune.vmap(run))(np.stack([np.abs(ys), ys]))
    taken = lambda x: rune.cond(x > 0, lambda x: x, lambda x: (rune.check(x > -1, "deep"), x)[1], x)
    assert wrap(taken)(2.0) == 2.0
    with pytest.raises(ValueError, match="deep"):
        wrap(taken)(-2.0)
    np.testing.assert_array_equal(wrap(rune.vmap(taken))(np.array([5.0, -0.5])), [5.0, -0.5])


@dataclasses.dataclass
class Body:
    position: np.ndarray
    steps: int = 0
    name: str = "body"


@pytest.mark.parametrize("wrap", [lambda f: f, rune.jit, lambda f: lambda x: rune.vmap(f)(np.stack([x, x]))])
@pytest.mark.parametrize("every", [None, 2])
def test_static_leaves_ride_along(wrap, every):
    def f(x):
        def step(body, row):
            assert body.name == "earth" and row["kind"] == "rows"
            after = dataclasses.replace(body, position=body.position + row["x"], steps=body.steps + 1)
            return after, {"at": after.position, "unit": "m"}

        rows = {"x": np.arange(5.0), "kind": "rows"}
        last, out = rune.scan(step, Body(x, 0, "earth"), rows, checkpoint_every=every)
        assert last.name == "earth" and out["unit"] == "m"
        stopped = rune.iterate(
            lambda b: dataclasses.replace(b, position=b.position / 2),
            last,
            until=lambda b: b.position.sum() < 1,
            max_steps=50,
        )
        assert stopped.name == "earth"
        return last.position, last.steps, out["at"], stopped.position

    x = np.array([1.0, 2.0])
    want = [x + 10, 5, x + np.cumsum(np.arange(5.0))[:, None], (x + 10) / 32]
    for got, expected in zip(wrap(f)(x), want, strict=True):
        np.testing.assert_allclose(got, np.broadcast_to(expected, np.shape(got)))


def effects(calls, total):
    """A step that checks, counts, indexes and calls the host, in itself and in a branch."""

    def host(x):
        calls.append(x)
        return np.float64(0)

    def noted(x):
        total.add(1.0)
        rune.check(x > -9, "small")
        rune.callback(host, np.float64(0), rune.detach(x))
        return rune.asarray(np.arange(3.0))[(x * 0).astype(int)]

    def step(c, x):
        c = c * np.sin(x) + noted(x)
        return rune.cond(x > 2, lambda c: c + noted(c), lambda c: c * x, c), c

    return step


@pytest.mark.parametrize("every", [None, 1, 3, 7])
def test_what_is_computed_again_repeats_no_effect(every):
    calls, total, xs = [], rune.Total("t"), np.arange(1.0, 8.0)
    step = effects(calls, total)
    f = lambda xs: rune.scan(step, 1.0, xs, checkpoint_every=every)[0]
    remat = lambda xs: rune.scan(rune.remat(step), 1.0, xs)[0]
    for g in (f, remat, rune.remat(f)):
        for h in (g, rune.grad(g), rune.hessian(g), lambda xs, g=g: rune.grad(rune.jit(g))(xs)):
            calls.clear()
            counted = total.collect(0.0, lambda h=h: rune.jit(h)(xs))[1]
            assert counted == len(calls) == 7 + 5
