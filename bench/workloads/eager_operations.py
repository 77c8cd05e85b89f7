"""The gradient, not compiled, of operations that are not elementwise, on fifty elements.

Indexing, joining, products, reductions, moves, broadcasting, choices and a linear system, ten times each:
what each costs beside NumPy's own time.
"""

import numpy as np

TOLERANCE = 1e-10
N = 50


def data():
    rows = np.arange(N)
    return np.linspace(0.1, 1.0, N), np.exp(-np.abs(rows[:, None] - rows) / 10.0) + np.eye(N)


def operations(x, a, numpy):
    total = 0.0
    for i in range(10):
        table = numpy.reshape(x, (5, 10))
        total = total + x[i] * numpy.sum(x[i : i + 3])
        total = total + numpy.sum(numpy.concatenate([x, x]))
        total = total + numpy.sum(numpy.dot(a, x) * numpy.einsum("ij,j->i", a, x))
        total = total + numpy.max(numpy.sum(table, axis=1))
        total = total + numpy.sum(numpy.transpose(table))
        total = total + numpy.sum(numpy.reshape(x, (N, 1)) * x)
        total = total + numpy.sum(numpy.where(x > 0.5, x, x * x))
        total = total + numpy.sum(numpy.linalg.solve(a, x))
        total = total + numpy.mean(x) * numpy.var(x)
    return total


def with_rune(x, a):
    import rune

    f = rune.grad(lambda x: operations(x, a, np))
    return lambda: f(x)


def with_autograd(x, a):
    import autograd
    import autograd.numpy

    f = autograd.grad(lambda x: operations(x, a, autograd.numpy))
    return lambda: f(x)
