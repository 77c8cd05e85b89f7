"""Random numbers from keys.

What each name means is stated in `spec/rune/random/`, and shown by `help`.
"""

from rune import _spec
from rune.random.continuous import (
    exponential,
    laplace,
    multivariate_normal,
    normal,
    truncated_normal,
    uniform,
)
from rune.random.discrete import bernoulli, categorical, choice, integers, permutation, poisson
from rune.random.gammas import beta, dirichlet, gamma
from rune.random.keys import fold_in, key, split

__all__ = [
    "bernoulli", "beta", "categorical", "choice", "dirichlet", "exponential", "fold_in", "gamma",
    "integers", "key", "laplace", "multivariate_normal", "normal", "permutation", "poisson", "split",
    "truncated_normal", "uniform",
]  # fmt: skip

_spec.document(globals())
