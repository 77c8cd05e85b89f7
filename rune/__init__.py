"""rune differentiates, maps and compiles functions of NumPy arrays.

The public names.  What each means is stated in `spec/rune/`, and shown by `help`.
"""

import rune.numpy  # noqa: F401  (fills the tables that traced values read)
from rune import _spec, linalg, random
from rune.branches import cond, switch
from rune.checking import check_grads
from rune.checks import check
from rune.constructs.custom import custom_jvp, custom_transpose, custom_vjp
from rune.constructs.host import callback
from rune.constructs.remat import remat
from rune.constructs.root import fixed_point, root
from rune.derivatives import grad, hessian, hvp, jacfwd, jacrev, jvp, linearize, value_and_grad, vjp
from rune.explain import explain, program
from rune.jit import jit
from rune.level import TracedValueError
from rune.lifting import asarray, detach
from rune.loops import iterate, map, scan
from rune.numpy.special import log_softmax, logsumexp, polygamma, softmax
from rune.recurrence import associative_scan
from rune.totals import Total
from rune.vmap import lane_index, lanes, vmap

__all__ = [
    "Total", "TracedValueError", "asarray", "associative_scan", "callback", "check", "check_grads", "cond", "custom_jvp", "custom_transpose",
    "custom_vjp", "detach", "explain", "fixed_point", "grad", "hessian", "hvp", "iterate", "jacfwd", "jacrev", "jit", "jvp", "lane_index", "lanes",
    "linalg", "linearize", "log_softmax", "logsumexp", "map", "polygamma", "program", "random", "remat", "root", "scan", "softmax", "switch",
    "value_and_grad", "vjp", "vmap",
]  # fmt: skip

_spec.document(globals())
