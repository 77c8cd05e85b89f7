"""Random numbers from keys: the same numbers eagerly, compiled and mapped.

A *key* is a uint32 array of shape [2]. A draw is a function of its key: the same key gives the same
numbers, and nothing is remembered between calls. So a program draws as a plain call does, a lane of a
map draws with its own key, and a loop hands keys on like any other array.

>>> import numpy as np
>>> import rune
>>> key = rune.random.key(0)
>>> rune.random.uniform(key, (3,))
array([0.41845711, 0.21629545, 0.96532146])
>>> rune.jit(rune.random.uniform, static_argnames="shape")(key, shape=(3,))
array([0.41845711, 0.21629545, 0.96532146])

**One key, one draw.** Two draws with one key are the same numbers, or are made of the same numbers.
`split` and `fold_in` make independent keys of a key; draw with each of them once.

**Signatures.** Every draw is called with the key, then the shape of the result, then the parameters
of the distribution. Parameters broadcast to the shape. The shape is an int or a tuple of ints; ``None``
stands for the shape that the parameters broadcast to. A draw with shape ``()`` is a NumPy scalar. Under
`rune.jit` a shape is static; keys and parameters may be traced.

**Element by element.** An element of a draw depends on the key, on its place in the result in C order
and on its own parameters, and on nothing else: ``uniform(key, (5,))[:3]`` is ``uniform(key, (3,))``.

**The same numbers everywhere.** A draw has the same bits eagerly, compiled, mapped and in a loop, whatever
the machine and its libraries: it is made of operations that IEEE's arithmetic rounds in one way, with a
logarithm, an exponential and a normal distribution of its own made of those. Only `multivariate_normal`
is made with products and a factorisation of BLAS and LAPACK, and agrees within their rounding.

**Derivatives.** Real draws are differentiable in their parameters, in both modes and at every order:
the derivative is that of the draw with the key held fixed (*reparametrised*), so the gradient of an
average over draws estimates the gradient of the expectation. Integers and booleans have none.

>>> rune.grad(lambda scale: np.mean(rune.random.exponential(key, 1000, scale)))(2.0)
np.float64(1.044...)

The expectation is ``scale``, so the gradient is about 1.

**A constant key.** A draw inside `rune.jit` from a key that does not depend on the arguments is one
constant of the program: every call sees the same numbers. It is reported by a ``UserWarning`` that
names the draw, once per line of the caller's; in a loop too, whose rows and carries are constant where
they are made of constants.

**Dtypes.** Real draws are float64 unless ``dtype`` says float32 or float16.

**The generator** is Threefry-2x32-20 (Salmon, Moraes, Dror and Shaw, 2011), counter-based: its bits are
those of the published vectors. It is not for cryptography.

**Errors** begin with the function's name. A key that is no array, and a parameter that holds no real
numbers, is a ``TypeError``; a key of another dtype or shape, shapes that do not broadcast, and a plain
parameter out of range are a ``ValueError``. A real draw whose parameter is NaN, or is traced and out of
range, is NaN. Integers have no NaN: `integers`, `categorical`, `choice` and `bernoulli` raise the
``ValueError`` for traced parameters too, after the call ran; `poisson` gives -1.

>>> rune.random.normal(0, (3,))
Traceback (most recent call last):
TypeError: rune.random.normal: a key is a uint32 array of shape [2], got int 0: make one with rune.random.key(seed)
"""

from typing import Any

import numpy as np

__all__ = [
    "bernoulli",
    "beta",
    "categorical",
    "choice",
    "dirichlet",
    "exponential",
    "fold_in",
    "gamma",
    "integers",
    "key",
    "laplace",
    "multivariate_normal",
    "normal",
    "permutation",
    "poisson",
    "split",
    "truncated_normal",
    "uniform",
]

# ------------------------------------------------------------------------------------------------
# Keys
# ------------------------------------------------------------------------------------------------

def key(seed: Any) -> Any:
    """The key of a seed: its upper and its lower 32 bits.

    >>> rune.random.key(7)
    array([0, 7], dtype=uint32)

    A seed is an integer of at most 64 bits; a negative one counts from 2**64. It may be traced.

    Raises:
        TypeError: ``rune.random.key: the seed must be an integer, got float``.
        ValueError: a seed of more than 64 bits; an array of several.
    """

def split(key: Any, n: int = 2) -> Any:
    """``n`` keys made of a key, as a uint32 array of shape [n, 2].

    >>> key = rune.random.key(7)
    >>> key, sub = rune.random.split(key)
    >>> sub
    array([ 971335342, 1244876459], dtype=uint32)

    The rows serve as rows of a scan, and as lanes of a map. The first rows do not depend on ``n``.
    """

def fold_in(key: Any, k: Any) -> Any:
    """A key made of a key and a number, at least 0 and less than 2**32, which may be traced.

    >>> rune.random.fold_in(rune.random.key(7), 3)
    array([2381011018, 2977805872], dtype=uint32)

    It serves where a number tells draws apart, as the step of a loop or the index of a layer does. It is
    no row of `split`. A traced number counts modulo 2**32.

    Raises:
        TypeError: ``rune.random.fold_in: k must be an integer, got float``.
        ValueError: ``rune.random.fold_in: k is -1, and must be at least 0 and less than 2**32``.
    """

# ------------------------------------------------------------------------------------------------
# Real numbers
# ------------------------------------------------------------------------------------------------

def uniform(key: Any, shape: Any = (), low: Any = 0.0, high: Any = 1.0, dtype: Any = np.float64) -> Any:
    """Uniform numbers at least ``low`` and less than ``high``.

    >>> rune.random.uniform(rune.random.key(7), (2, 2), 10.0, 20.0)
    array([[18.44106945, 10.45412585],
           [12.24984626, 10.64385605]])

    Between 0 and 1 they are the multiples of 2**-53 (float32: 2**-24, float16: 2**-11), each equally
    likely. Where ``low`` and ``high`` are equal the draw is that number.

    Raises:
        ValueError: ``rune.random.uniform: high: the width from low to high is beyond float64``.
        ValueError: ``rune.random.uniform: low: 2.0, which is above high: 1.0``.
    """

def normal(key: Any, shape: Any = (), dtype: Any = np.float64) -> Any:
    """Numbers of the standard normal distribution.

    >>> x = 5.0 + 2.0 * rune.random.normal(rune.random.key(7), (1000,))
    >>> print(f"{np.mean(x):.1f} {np.std(x):.1f}")
    5.0 2.0

    Each is the inverse distribution function of 53 random bits, exact in both tails (to 8.3 standard
    deviations).
    """

def truncated_normal(
    key: Any, shape: Any = (), low: Any = -2.0, high: Any = 2.0, dtype: Any = np.float64
) -> Any:
    """Numbers of the standard normal distribution that lie between ``low`` and ``high``.

    >>> rune.random.truncated_normal(rune.random.key(7), (3,), 3.0, np.inf)
    array([3.05124879, 3.84085861, 3.42828269])

    A bound may be infinite. An interval beyond 37 standard deviations has no probability in float64:
    there the draw is the bound that lies nearer to 0 (float32: beyond 12).
    """

def exponential(key: Any, shape: Any = (), scale: Any = 1.0, dtype: Any = np.float64) -> Any:
    """Numbers of the exponential distribution with mean ``scale``.

    >>> rune.random.exponential(rune.random.key(7), (3,), np.array([1.0, 10.0, 100.0]))
    array([  0.16947608,  30.91966007, 149.17232094])
    """

def laplace(key: Any, shape: Any = (), loc: Any = 0.0, scale: Any = 1.0, dtype: Any = np.float64) -> Any:
    """Numbers of the Laplace distribution: ``loc`` plus or minus an exponential one of mean ``scale``.

    >>> rune.random.laplace(rune.random.key(7), (3,), 100.0)
    array([ 99.83052392, 103.09196601, 101.49172321])
    """

def gamma(key: Any, shape: Any, a: Any, scale: Any = 1.0, dtype: Any = np.float64) -> Any:
    """Numbers of the gamma distribution with shape parameter ``a``, times ``scale``.

    >>> key = rune.random.key(7)
    >>> np.mean(rune.random.gamma(key, (1000,), 3.0))
    np.float64(2.970...)
    >>> rune.grad(lambda a: np.mean(rune.random.gamma(key, (1000,), a)))(3.0)
    np.float64(0.995...)

    The expectation is ``a``, so the gradient is about 1.

    **By rejection** (Marsaglia and Tsang, 2000), in logarithms, so that a small ``a`` does not underflow
    before it must. The derivative by ``a`` is the implicit one (Figurnov, Mohamed and Mnih, 2018): that
    of the number that keeps its probability, with a relative error below 1e-8.
    """

def beta(key: Any, shape: Any, a: Any, b: Any, dtype: Any = np.float64) -> Any:
    """Numbers of the beta distribution: x / (x + y) of two gamma draws x and y for ``a`` and ``b``.

    >>> np.mean(rune.random.beta(rune.random.key(7), (1000,), 3.0, 1.0))
    np.float64(0.751...)
    """

def dirichlet(key: Any, shape: Any, alpha: Any, dtype: Any = np.float64) -> Any:
    """Vectors of the Dirichlet distribution, along a last axis that the result has beside ``shape``.

    ``alpha`` has the parameters along its last axis; its other axes broadcast to ``shape``.

    >>> rune.random.dirichlet(rune.random.key(7), (2,), [1.0, 2.0, 3.0]).shape
    (2, 3)
    """

def multivariate_normal(key: Any, shape: Any, mean: Any, cov: Any, dtype: Any = np.float64) -> Any:
    """Vectors of the normal distribution, along a last axis that the result has beside ``shape``.

    ``mean`` has shape [..., n] and ``cov`` [..., n, n]; the axes before broadcast to ``shape``. Of ``cov``
    the lower triangle is read.

    >>> rune.random.multivariate_normal(rune.random.key(7), (5,), np.zeros(2), np.eye(2)).shape
    (5, 2)

    Raises:
        numpy.linalg.LinAlgError: where a matrix is not positive definite.
    """

# ------------------------------------------------------------------------------------------------
# Integers, choices and orders
# ------------------------------------------------------------------------------------------------

def integers(key: Any, shape: Any, low: Any, high: Any, dtype: Any = np.int64) -> Any:
    """Integers at least ``low`` and less than ``high``, each equally likely.

    >>> rune.random.integers(rune.random.key(7), (8,), 1, 7)
    array([6, 1, 2, 1, 1, 6, 4, 5])

    The bounds may be any that the dtype allows, ``high`` one more. The probabilities of two numbers
    differ by less than one part in 2**32.

    Raises:
        ValueError: ``rune.random.integers: high: out of the range from 1 to 256, for uint8``.
        ValueError: ``rune.random.integers: low: 7, which is not below high: 7``.
    """

def bernoulli(key: Any, shape: Any = (), p: Any = 0.5) -> Any:
    """Booleans that are true with probability ``p``.

    >>> rune.random.bernoulli(rune.random.key(7), (4,), np.array([0.0, 0.5, 0.5, 1.0]))
    array([False,  True,  True,  True])
    """

def categorical(key: Any, shape: Any, logits: Any, axis: int = -1) -> Any:
    """Categories, as int64 indices: k with a probability in proportion to ``exp(logits[k])``.

    The categories lie along ``axis``; the other axes of ``logits`` broadcast to ``shape``. A logit of
    minus infinity is never drawn; one at least is finite, and none is NaN.

    >>> rune.random.categorical(rune.random.key(7), (6,), np.log([0.5, 0.5, 1e-300]))
    array([1, 0, 0, 0, 0, 1])
    """

def choice(key: Any, shape: Any, a: Any, replace: bool = True, p: Any = None, axis: int = 0) -> Any:
    """Things drawn from ``a``: rows of an array along ``axis``, or numbers below an int.

    With ``p`` the k-th is drawn in proportion to ``p[k]``. Without replacement all are different, and
    with ``p`` they are as if drawn one after another.

    >>> rune.random.choice(rune.random.key(7), (3,), np.array([10, 20, 30, 40]), replace=False)
    array([20, 40, 30])

    Raises:
        ValueError: ``rune.random.choice: 5 of 4 things without replacement``.
    """

def permutation(key: Any, x: Any, axis: int = 0) -> Any:
    """The numbers below ``x`` in a random order, or the rows of an array ``x`` along ``axis``.

    >>> sorted(rune.random.permutation(rune.random.key(7), 5).tolist())
    [0, 1, 2, 3, 4]
    """

def poisson(key: Any, shape: Any, lam: Any) -> Any:
    """Counts of the Poisson distribution with mean ``lam``, as int64.

    >>> rune.random.poisson(rune.random.key(7), (4,), np.array([0.0, 1.0, 10.0, 1000.0]))
    array([  0,   0,   7, 938])

    Means below 10 are drawn by adding up probabilities, others by transformed rejection (Hoermann,
    1993).
    """
