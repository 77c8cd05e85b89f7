"""Linear systems solved by anything, and linear maps that hold loops, branches and calls."""

import numpy as np
import pytest
import scipy.sparse.linalg

import rune

WRAPS = {"eager": lambda f: f, "compiled": rune.jit}
close = lambda a, b, **tol: np.testing.assert_allclose(a, b, **{"rtol": 1e-6, "atol": 1e-8, **tol})
random = np.random.default_rng(0)
M = random.normal(size=(3, 3)) * 0.2 + np.diag([2.0, 3.0, 4.0])  # far from symmetric, and A(x) as well
c3 = np.array([0.3, 0.7, 1.1])


@pytest.fixture(params=WRAPS.values(), ids=WRAPS)
def wrap(request):
    return request.param


# Roots by solvers that are not linear in the right-hand side ------------------------------------------


def steepest(matvec, b):
    """Minimal residuals, step by step: every step length depends on the right-hand side."""

    def step(state):
        x, r = state
        q = matvec(r)
        length = np.sum(np.conj(q) * r) / np.sum(np.conj(q) * q)
        return x + length * r, r - length * q

    small = lambda state: np.sum(np.abs(state[1]) ** 2) <= 1e-26 * np.sum(np.abs(b) ** 2)
    return rune.iterate(step, (b * 0, b), until=small, max_steps=300)[0]


def swept(matvec, b):
    """Richardson's sweeps, in a loop of constant length."""
    return rune.scan(lambda x, _: (x + 0.3 * (b - matvec(x)), None), b * 0, None, length=400)[0]


def preconditioned(matvec, b):
    return steepest(lambda v: matvec(v) / np.diag(M), b / np.diag(M))


def by_scipy(matvec, b):
    operator = scipy.sparse.linalg.LinearOperator((b.size, b.size), matvec, dtype=b.dtype)
    found, info = scipy.sparse.linalg.gmres(operator, b, rtol=1e-13, atol=0.0)
    assert info == 0
    return found


def by_host(matvec, b):
    """The matrix column by column, and the host's solver."""
    columns = rune.vmap(matvec)(np.eye(3))
    return rune.callback(lambda a, b: np.linalg.solve(a.T, b), b * 0, columns, b)


SOLVERS = {
    "dense": None,
    "iterate": steepest,
    "scan": swept,
    "compiled": lambda matvec, b: rune.jit(lambda b: steepest(matvec, b))(b),
    "preconditioned": preconditioned,
    "host": by_host,
}
EAGER = {**SOLVERS, "scipy": by_scipy}


def newton(a):
    x = np.ones(a.shape, a.dtype)
    for _ in range(30):
        x = x - np.linalg.solve(M + np.diag(x), M @ x + x**2 / 2 - a)
    return x


def found(a, solver):
    """x with M x + x²/2 = a."""
    like = np.zeros(3, a.dtype)
    solve = lambda: rune.callback(newton, like, rune.detach(a))
    return rune.root(lambda x: M @ x + x**2 / 2 - a, solve, solver)


def known(a):
    """The same as a fixed number of Newton's steps, differentiated step by step."""
    x = np.ones(3)
    for _ in range(12):
        x = x - np.linalg.solve(M + np.diag(x), M @ x + x**2 / 2 - a)
    return x


a3 = M @ c3 + c3**2 / 2
lanes = np.stack([a3, a3 * 0.5])
loss = lambda f: lambda a: np.sum(c3 * f(a) ** 3)
theirs = loss(known)


@pytest.mark.parametrize("solver", EAGER.values(), ids=EAGER)
def test_a_root_by_any_solver_on_values(solver):
    f = loss(lambda a: found(a, solver))
    close(f(a3), theirs(a3))
    close(rune.jvp(f, (a3,), (c3,))[1], rune.jvp(theirs, (a3,), (c3,))[1])
    close(rune.grad(f)(a3), rune.grad(theirs)(a3))
    for jacobian in (rune.jacfwd, rune.jacrev):
        close(jacobian(lambda a: found(a, solver))(a3), jacobian(known)(a3))
    close(rune.hessian(f)(a3), rune.hessian(theirs)(a3))
    close(rune.hvp(f)(a3, c3), rune.hvp(theirs)(a3, c3))
    close(
        rune.grad(lambda a: np.sum(rune.grad(f)(a) ** 2))(a3),
        rune.hessian(theirs)(a3) @ rune.grad(theirs)(a3) * 2,
    )
    along = rune.linearize(f, a3)[1]
    close([along(c3), along(2 * c3)], np.array([1, 2]) * rune.jvp(theirs, (a3,), (c3,))[1])


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_a_root_by_any_solver_is_compiled_and_mapped(solver):
    f = loss(lambda a: found(a, solver))
    gradient = rune.grad(theirs)(a3)
    each = np.stack([rune.grad(theirs)(a) for a in lanes])
    close(rune.jit(rune.grad(f))(a3), gradient)
    close(rune.grad(rune.jit(f))(a3), gradient)
    close(rune.jvp(rune.jit(f), (a3,), (c3,))[1], c3 @ gradient)
    close(rune.vmap(rune.grad(f))(lanes), each)
    close(rune.jit(rune.vmap(rune.grad(f)))(lanes), each)
    close(rune.grad(lambda rows: np.sum(rune.vmap(f)(rows)))(lanes), each)
    close(rune.jit(rune.grad(lambda rows: np.sum(rune.vmap(f)(rows))))(lanes), each)
    close(rune.jit(rune.hessian(f))(a3), rune.hessian(theirs)(a3))
    close(rune.hessian(rune.jit(f))(a3), rune.hessian(theirs)(a3))
    close(rune.jit(rune.jacrev(lambda a: found(a, solver)))(a3), rune.jacrev(known)(a3))


@pytest.mark.parametrize("solver", EAGER.values(), ids=EAGER)
def test_a_root_keeps_its_dtype(solver):
    def f(a):
        solve = lambda: rune.callback(lambda a: newton(a).astype(a.dtype), a * 0, rune.detach(a))
        return np.sum(rune.root(lambda x: M.astype(x.dtype) @ x + x**2 / 2 - a, solve, solver) ** 2)

    single = a3.astype(np.float32)
    for wrap in WRAPS.values() if solver is not by_scipy else [WRAPS["eager"]]:
        gradient = wrap(rune.grad(f))(single)
        assert gradient.dtype == np.float32
        close(gradient, rune.grad(lambda a: np.sum(known(a) ** 2))(a3), rtol=1e-4)


def steps(a, holomorphic):
    z = a * 0
    for _ in range(200):
        z = z - 0.2 * ((M + 0.1j * M.T) @ z + z * z / 2 + (0 if holomorphic else 0.3 * np.conj(z)) - a)
    return z


REAL = ("dense", "scan")  # solvers that also take a map that is linear over the real numbers only
COMPLEX = [(name, True) for name in ("dense", "iterate", "scan", "host")] + [(name, False) for name in REAL]


@pytest.mark.parametrize("name, holomorphic", COMPLEX)
def test_a_complex_root(wrap, name, holomorphic):
    def f(a):
        conjugate = lambda z: 0 if holomorphic else 0.3 * np.conj(z)
        residual = lambda z: (M + 0.1j * M.T) @ z + z * z / 2 + conjugate(z) - a
        solve = lambda: rune.callback(lambda a: steps(a, holomorphic), a * 0, rune.detach(a))
        z = rune.root(residual, solve, SOLVERS[name])
        return np.sum(np.abs(z) ** 2 * c3) + np.sum(np.imag(z))

    rune.check_grads(wrap(f), a3 + 0.2j, modes=("reverse", "forward"), order=2, tol=1e-5)


def pair(a, solver):
    """2 p + q = a[0], 3 q - p² = a[1], in a structure of a float64 and a float32."""

    def solve():
        p = rune.detach(a[0]) * 0
        for _ in range(60):
            p = (rune.detach(a[0]) - (rune.detach(a[1]) + p * p) / 3) / 2
        return {"p": p, "q": ((rune.detach(a[1]) + p * p) / 3,)}

    residual = lambda s: {
        "p": s["p"] * 2 + s["q"][0] - a[0],
        "q": (s["q"][0] * 3 - s["p"] ** 2 - a[1],),
    }
    return rune.root(residual, solve, solver)


def sweep_pair(matvec, b):
    def step(x, _):
        r = matvec(x)
        less = lambda x, b, r: x + 0.3 * (b - r)
        return {"p": less(x["p"], b["p"], r["p"]), "q": (less(x["q"][0], b["q"][0], r["q"][0]),)}, None

    return rune.scan(step, {"p": b["p"] * 0, "q": (b["q"][0] * 0,)}, None, length=200)[0]


@pytest.mark.parametrize("solver", [None, sweep_pair], ids=["dense", "sweeps"])
def test_a_root_of_a_structure(wrap, solver):
    def f(a):
        s = pair(a, solver)
        return s["p"] ** 2 + 3 * s["q"][0]

    a = np.array([0.5, 0.3])
    rune.check_grads(wrap(f), a, modes=("reverse", "forward"), order=2, tol=1e-5)
    close(wrap(rune.vmap(rune.grad(f)))(np.stack([a, 2 * a])), [rune.grad(f)(a), rune.grad(f)(2 * a)])


@pytest.mark.parametrize("solver", [None, steepest], ids=["dense", "iterate"])
def test_a_root_in_loops_branches_and_fixed_points(wrap, solver):
    twice = lambda a: np.sum(rune.scan(lambda c, s: (found(c * s, solver), None), a, np.array([1.0, 0.9]))[0])
    close(wrap(rune.grad(twice))(a3), rune.grad(lambda a: np.sum(known(0.9 * known(a))))(a3))
    one = lambda a: rune.cond(a[0] > 0, lambda a: np.sum(found(a, solver)), lambda a: np.sum(a), a)
    far = np.stack([a3, a3 * -1e3])  # no root, and no solve, where the lane does not take it
    expected = [rune.grad(lambda a: np.sum(known(a)))(a3), np.ones(3)]
    close(wrap(rune.vmap(rune.grad(one)))(far), expected)
    close(wrap(rune.grad(lambda rows: np.sum(rune.vmap(one)(rows))))(far), expected)
    image = lambda a, x: x - 0.2 * (M @ x + x**2 / 2 - a)
    solve = lambda a: lambda: rune.callback(newton, np.zeros(3), rune.detach(a))
    fixed = lambda a: np.sum(rune.fixed_point(lambda x: image(a, x), solve(a), solver) ** 2)
    close(wrap(rune.grad(fixed))(a3), rune.grad(lambda a: np.sum(known(a) ** 2))(a3))


def test_a_solver_may_capture_what_is_detached(wrap):
    scaled = lambda d: lambda matvec, b: steepest(lambda v: matvec(v) / d, b / d)
    f = lambda a: np.sum(found(a, scaled(rune.detach(a))) ** 2)
    theirs = lambda a: np.sum(known(a) ** 2)
    close(wrap(rune.grad(f))(a3), rune.grad(theirs)(a3))
    close(rune.grad(wrap(f))(a3), rune.grad(theirs)(a3))
    close(wrap(rune.hessian(f))(a3), rune.hessian(theirs)(a3))
    close(wrap(rune.vmap(rune.grad(f)))(lanes), np.stack([rune.grad(theirs)(a) for a in lanes]))
    moving = lambda a: np.sum(found(a, scaled(a)) ** 2)
    with pytest.raises(TypeError, match=r"^rune.root: linear_solve captures a value that is differentiated"):
        rune.jvp(wrap(moving), (a3,), (a3,))
    with pytest.raises((TypeError, rune.TracedValueError)) as raised:
        rune.grad(wrap(moving))(a3)
    told = [str(raised.value), *getattr(raised.value, "__notes__", ())]
    assert any(line.startswith("rune.root: linear_solve") for line in told)


def test_a_solver_that_reads_is_asked_for_only_by_derivatives():
    f = lambda a: np.sum(found(a, by_scipy) ** 2)
    close(rune.jit(f)(a3), f(a3))
    close(rune.vmap(f)(lanes), [f(a) for a in lanes])
    close(rune.jit(rune.vmap(f))(lanes), [f(a) for a in lanes])
    for g in (rune.jit(rune.grad(f)), rune.grad(rune.jit(f)), lambda a: rune.vmap(rune.grad(f))(a[None])):
        with pytest.raises(rune.TracedValueError, match=r"^asarray: the value is traced by rune.root"):
            g(a3)


WRONG_SOLVES = {
    "a structure": (lambda matvec, b: (b,), r"tuple returned by linear_solve, an array or number expected"),
    "a shape": (lambda matvec, b: b[:2], r"float64 \[2\] returned by linear_solve, float64 \[3\] expected"),
    "a dtype": (
        lambda matvec, b: b + 1j,
        r"complex128 \[3\] returned by linear_solve, float64 \[3\] expected",
    ),
    "nothing": (lambda matvec, b: None, r"None returned by linear_solve, an array or number expected"),
    "a shape given": (
        lambda matvec, b: matvec(b[:2]),
        r"float64 \[2\] given to matvec, float64 \[3\] expected",
    ),
    "a structure given": (
        lambda matvec, b: matvec({"x": b}),
        r"dict given to matvec, an array or number expected",
    ),
}


@pytest.mark.parametrize("solver, message", WRONG_SOLVES.values(), ids=WRONG_SOLVES)
def test_a_wrong_linear_solve_is_told_both_sides(wrap, solver, message):
    f = lambda a: np.sum(found(a, solver))
    for g in (wrap(rune.grad(f)), lambda a: rune.jvp(wrap(f), (a,), (a,))):
        with pytest.raises(ValueError, match="^rune.root: " + message):
            g(a3)


# Tangent maps that hold loops, branches and calls ------------------------------------------------------

r3 = np.array([0.5, -1.0, 2.0])
W = np.arange(9.0).reshape(3, 3)


def filled(dx):
    y = np.zeros_like(dx)
    y[1] = dx[0] * 2
    y[0] += dx[2]
    return y


def checked(c, k):
    rune.check(k > -5, "small")
    return c * k, None


join = lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1])
below3 = lambda c: c[0] >= 3
# r -> a map that is linear in dx, though not by its form alone
MAPS = {
    "scan": lambda r: lambda dx: rune.scan(lambda c, k: (c * k + dx, c * 2), dx, r)[1].sum(0),
    "scan from zero": lambda r: lambda dx: rune.scan(lambda c, k: (c * k + dx, c), np.zeros(3), r)[0],
    "scan from zeros_like": lambda r: (
        lambda dx: rune.scan(lambda c, k: (c * k + dx, c), np.zeros_like(dx) + np.zeros_like(r), r)[0]
    ),
    "scan that counts": lambda r: (
        lambda dx: rune.scan(lambda c, k: ((c[0] + 1, c[1] * k * c[0]), None), (1, dx), r)[0][1]
    ),
    "scan of a known value": lambda r: (
        lambda dx: rune.scan(
            lambda c, k: ((np.sin(c[0]) + 1, c[1] * np.exp(c[0]) * k), c[1] * c[0]), (0.3, dx), r
        )[1].sum(0)
    ),
    "scan over the tangent": lambda r: (
        lambda dx: rune.scan(lambda c, k: (c * 0.5 + k * r, c[0]), np.zeros(3), dx, reverse=True)[0]
    ),
    "scan in segments": lambda r: (
        lambda dx: rune.scan(lambda c, k: (W @ c * k, None), dx, r, checkpoint_every=2)[0]
    ),
    "scan in scan": lambda r: (
        lambda dx: rune.scan(
            lambda c, k: (rune.scan(lambda d, j: (d * j + c, None), c * k, r)[0], None), dx, r
        )[0]
    ),
    "scan with a check": lambda r: lambda dx: rune.scan(checked, dx, r)[0],
    "iterate that counts": lambda r: (
        lambda dx: rune.iterate(lambda c: (c[0] + 1, c[1] * 2 * r), (0, dx), until=below3, max_steps=5)[1]
    ),
    "iterate of a known value": lambda r: (
        lambda dx: rune.iterate(
            lambda c: (c[0] * 1.5, c[1] * c[0] * r), (1.0, dx), until=below3, max_steps=5
        )[1]
    ),
    "call": lambda r: lambda dx: rune.jit(lambda r, dx: dx * np.sum(r))(r, dx),
    "call of which a part is known": lambda r: (
        lambda dx: (lambda pair: pair[0] * pair[1])(rune.jit(lambda dx: (dx * np.sum(r), np.exp(r)))(dx))
    ),
    "cond": lambda r: lambda dx: rune.cond(r[0] > 1, lambda d: d * 2, lambda d: d @ W, dx),
    "cond with a zero": lambda r: lambda dx: rune.cond(r[0] > 0, lambda d: d * r, lambda d: np.zeros(3), dx),
    "cond of which a part is known": lambda r: (
        lambda dx: (lambda pair: pair[0] * pair[1])(
            rune.cond(r[0] > 1, lambda d: (d * 2, r * 2), lambda d: (d @ W, np.sin(r)), dx)
        )
    ),
    "switch": lambda r: lambda dx: rune.switch(r[0].astype(int), [lambda d: d * r, lambda d: d @ W], dx),
    "map": lambda r: lambda dx: rune.map(lambda k: k * 2 * r[1], dx),
    "vmap of scan": lambda r: (
        lambda dx: rune.vmap(lambda a, b: rune.scan(lambda c, k: (c * k + a, None), a, r)[0] * b)(dx, r)
    ),
    "remat": lambda r: rune.remat(lambda dx: dx * np.sum(np.sin(r))),
    "associative scan": lambda r: lambda dx: rune.associative_scan(join, (r, dx))[1],
    "another rule": lambda r: rune.custom_jvp(lambda dx: (dx * 2, lambda d: d * 2)),
    "another transpose": lambda r: rune.custom_transpose(lambda dx: np.roll(dx, 1), lambda d: np.roll(d, -1)),
    "an array filled in place": lambda r: filled,
}


def with_map(m):
    """y -> y, with a map of its own that depends on r."""
    return rune.custom_jvp(lambda y, r: (y * 1.0, lambda dy, dr: m(r)(dy)))


@pytest.mark.parametrize("m", MAPS.values(), ids=MAPS)
def test_a_tangent_map_that_is_linear_by_its_equations(m):
    f, s = with_map(m), np.array([1.0, 2.0, 3.0])
    matrix = np.stack([m(r3)(v) for v in np.eye(3)], 1)
    loss = lambda y, r: s @ f(y, r)
    close(rune.jacfwd(f)(c3, r3), matrix)
    for g in (rune.jacrev(f), rune.jit(rune.jacrev(f)), rune.jacrev(rune.jit(f))):
        close(g(c3, r3), matrix)
    for g in (rune.grad(loss), rune.jit(rune.grad(loss)), rune.grad(rune.jit(loss))):
        close(g(c3, r3), s @ matrix)
    close(rune.vmap(rune.grad(loss))(np.stack([c3] * 2), np.stack([r3] * 2)), [s @ matrix] * 2)
    by_r = rune.jacfwd(lambda r: np.stack([m(r)(v) for v in np.eye(3)]) @ s)(r3)
    close(rune.jacfwd(rune.grad(loss), 1)(c3, r3), by_r)
    close(rune.jit(rune.jacrev(rune.grad(loss), 1))(c3, r3), by_r)


KNOWN = "with a value not known to be zero"
NOT_LINEAR = {
    "add a number": (lambda r: lambda dx: dx + 1, f"add {KNOWN}"),
    "add a value": (lambda r: lambda dx: dx + r, f"add {KNOWN}"),
    "where": (lambda r: lambda dx: np.where(r > 0, dx, 1.0), f"select {KNOWN}"),
    "concatenate": (lambda r: lambda dx: np.concatenate([dx[:1], np.ones(2)]), f"concatenate {KNOWN}"),
    "scan of exp": (lambda r: lambda dx: rune.scan(lambda c, k: (np.exp(c), c), dx, r)[0], "exp"),
    "scan in scan": (
        lambda r: (
            lambda dx: rune.scan(
                lambda c, _: (rune.scan(lambda d, k: (d * d * k, None), c, r)[0], None), dx, r
            )[0]
        ),
        "mul",
    ),
    "scan from one": (lambda r: lambda dx: rune.scan(lambda c, k: (c * k + dx, c), np.ones(3), r)[0], KNOWN),
    "cond by the tangent": (
        lambda r: lambda dx: rune.cond(dx[0] > 0, lambda d: d, lambda d: 2 * d, dx),
        "gt",
    ),
    "iterate by the tangent": (
        lambda r: lambda dx: rune.iterate(lambda c: c * 2, dx, until=lambda c: np.sum(c) > 3, max_steps=90),
        "gt",
    ),
    "call": (lambda r: rune.jit(lambda dx: dx + 1), f"add {KNOWN}"),
    "call of a product": (lambda r: rune.jit(lambda dx: dx * dx), "mul"),
    "integers": (lambda r: lambda dx: dx.astype(int) * 1.0, "cast to int64"),
    "integers in a call": (lambda r: rune.jit(lambda dx: dx.astype(int) * 1.0), "cast to int64"),
    "a constant": (lambda r: lambda dx: np.ones(3), "a value that depends on no"),
    "a host": (lambda r: lambda dx: rune.callback(lambda d: d * 2, np.zeros(3), dx), "host"),
}


@pytest.mark.parametrize("m, what", NOT_LINEAR.values(), ids=NOT_LINEAR)
def test_a_tangent_map_that_is_not_linear_is_told_why(wrap, m, what):
    f = with_map(m)
    loss = lambda y, r: np.sum(f(y, r))
    mapped = rune.vmap(rune.grad(loss))
    for g in (wrap(rune.grad(loss)), rune.grad(wrap(loss)), lambda y, r: wrap(mapped)(y[None], r[None])):
        with pytest.raises(
            TypeError, match=rf"^rune\..*: a custom_jvp tangent map .*{what}.* tangent.*not linear"
        ):
            g(c3, r3)
