"""Checking a gradient against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.arguments import array_leaves, callable_, inexact
from rune.derivatives import grad, jvp
from rune.structure import describe, flatten

__all__ = ["check_grads"]

NAME = "rune.check_grads"
MODES = ("forward", "reverse")
GOLDEN = 0.6180339887498949


def check_grads(f, *args, modes=("reverse",), order=1, eps=1e-4, tol=1e-2):
    callable_(NAME, f)
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    for mode in modes:
        if mode not in MODES:
            raise TypeError(f'{NAME}: modes names {mode!r}: the modes are "forward" and "reverse"')
    leaves, tree = array_leaves(NAME, args)
    moving = [inexact(x) for x in leaves]
    if not any(moving):
        raise TypeError(f"{NAME}: the arguments hold no real or complex array")
    points = [np.asarray(x) for x, m in zip(leaves, moving, strict=True) if m]

    def at(values: list) -> tuple:
        given = iter(values)
        return tree.build([next(given) if m else x for x, m in zip(leaves, moving, strict=True)])

    def checked(objective, level: int) -> None:
        for which in (0, 1):
            along = [direction(x, which, k) for k, x in enumerate(points)]
            moved = lambda sign, along=along: objective(
                *at([x + sign * eps * d for x, d in zip(points, along, strict=True)])
            )
            difference = (moved(+1) - moved(-1)) / (2 * eps)
            real = not np.iscomplexobj(difference)
            numeric = difference.item()
            for mode in modes:
                exact = by_mode(mode, objective, args, moving, along)
                exact = exact.real if real else exact  # of a real function's gradient: its real part
                if abs(exact - numeric) > tol * max(1.0, abs(exact), abs(numeric)) or np.isnan(exact):
                    raise AssertionError(
                        f"{NAME}: along direction {which} of order {level}, {mode} mode gives {exact:.9g} "
                        f"and central differences give {numeric:.9g}"
                    )
        if level < order:
            checked(weighted_gradient(objective, args, moving), level + 1)

    checked(scalar(f), 1)


def scalar(f):
    """The objective, whose result must be one real or complex scalar."""

    def objective(*args: Any) -> Any:
        y = f(*args)
        t = np.shape(y)
        if t != () or np.asarray(y.item() if hasattr(y, "item") else y).dtype.kind not in "fc":
            raise TypeError(f"{NAME}: the objective must return a real or complex scalar, got {describe(y)}")
        return y

    return objective


def direction(x: np.ndarray, which: int, k: int) -> np.ndarray:
    """A fixed direction of x's shape and dtype, of irregular components between -1 and 1."""
    n = np.arange(1, x.size + 1) + 31 * k + 101 * which
    real = 2 * ((n * GOLDEN * (which + 1)) % 1) - 1
    if x.dtype.kind == "c":
        real = real + 1j * (2 * ((n * GOLDEN**2 + 0.3) % 1) - 1)
    return real.reshape(x.shape).astype(x.dtype)


def by_mode(mode: str, f: Any, args: tuple, moving: list[bool], along: list) -> Any:
    """The derivative of `f` along a direction, by forward mode or as a product with the gradient."""
    if mode == "forward":
        zero = iter(along)
        tangents = flatten(args)[1].build(
            [next(zero) if m else x for x, m in zip(flatten(args)[0], moving, strict=True)]
        )
        return jvp(f, args, tangents)[1].item()
    gradient = flatten(grad(f, argnums=tuple(range(len(args))))(*args))[0]
    parts = [g for g, m in zip(gradient, moving, strict=True) if m]
    return sum(np.sum(g * d) for g, d in zip(parts, along, strict=True)).item()


def weighted_gradient(f: Any, args: tuple, moving: list[bool]) -> Any:
    """A scalar function of the gradient of `f`: its sum with fixed weights, to be checked in turn."""

    def objective(*args: Any) -> Any:
        gradient = flatten(grad(f, argnums=tuple(range(len(args))))(*args))[0]
        parts = [g for g, m in zip(gradient, moving, strict=True) if m]
        total = 0.0
        for k, g in enumerate(parts):
            weight = direction(np.empty(np.shape(g), g.dtype), 1, k + 7)
            total = total + np.sum(np.real(g * weight))
        return total

    return objective
