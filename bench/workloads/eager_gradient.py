"""The gradient, not compiled, of 200 elementwise operations on ten elements: the cost of differentiating itself."""

import numpy as np

TOLERANCE = 1e-10


def data():
    return (np.linspace(0.1, 1.0, 10),)


def chain(x, numpy):
    """Ten operations, twenty times, and a sum."""
    y = x
    for _ in range(20):
        z = numpy.exp(-x)
        y = y * z + 0.5
        w = numpy.sin(y) - x
        x = x / (w * w + 1.5)
        y = numpy.tanh(y)
    return numpy.sum(y)


def with_rune(x):
    import rune

    f = rune.grad(lambda x: chain(x, np))
    return lambda: f(x)


def with_autograd(x):
    import autograd
    import autograd.numpy

    f = autograd.grad(lambda x: chain(x, autograd.numpy))
    return lambda: f(x)
