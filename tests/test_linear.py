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
