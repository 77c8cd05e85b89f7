"""The table of support agrees with what the functions do."""

import numpy as np
import pytest
from test_numpy_functions import CASES, function

import rune
from rune.native import nest
from rune.numpy.support import names, support

TABLE = support()
KIND = {name: kind for kind, listed in TABLE.items() for name in listed}


def test_every_function_stands_once():
    assert sorted(KIND) == sorted(name for name, _ in names())
    assert sum(map(len, TABLE.values())) == len(KIND)
    assert not [name for name, why in TABLE["refused"].items() if why == "no rule"]


def used(case):
    """The functions that a case names, below numpy."""
    return [name for name in KIND if f"np.{name}(" in case or f"np.{name}." in case]


def calls_the_host(f, args):
    from rune.lower import lower

    return any(isinstance(form, nest.Host) for form in lower(rune.program(f)(*args)).forms)


def test_native_functions_call_no_host():
    wrong = [
        case
        for case in CASES
        if used(case)
        and all(KIND[name] == "native" for name in used(case))
        and calls_the_host(*function(case))
    ]
    assert not wrong


@pytest.mark.parametrize("name", [n for n in TABLE["known"] if n != "place"])
def test_functions_that_need_values_say_so(name):
    f = getattr(np, name)
    args = ([True, False, True],) if name in ("compress", "extract") else ()
    x = np.array([1.0, 0.0, 2.0])
    call = (
        (lambda x: f(x > 0, x)) if args else (lambda x: f(x, np.ones(2)) if "1d" in name else f(x * (1 + 0j)))
    )
    rune.grad(lambda x: (call(x), np.sum(x))[1])(x)
    for transform in (rune.jit, lambda f: lambda x: rune.vmap(f)(x[None])):
        with pytest.raises(rune.TracedValueError, match=r"traced by rune\.(jit|vmap)"):
            transform(lambda x: (call(x), np.sum(x))[1])(x)
