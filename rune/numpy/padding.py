"""np.pad: constants, edges, reflections, ramps and statistics."""

from __future__ import annotations

from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import asarray, axis_of, dtype_of, operand, shape_of
from rune.numpy.elementwise import round_
from rune.numpy.reductions import mean, reduced
from rune.numpy.register import function
from rune.numpy.shapes import axis_part, rows_of, take_axis
from rune.numpy.statistics import median
from rune.primitives import movement
from rune.primitives.map import cast
from rune.primitives.scalar import e

__all__: list[str] = []


@function("pad")
def pad(array, pad_width, mode="constant", **keywords):
    a = asarray(array)
    n = len(shape_of(a))
    if isinstance(pad_width, dict):
        widths = [(0, 0)] * n
        for axis, width in pad_width.items():
            widths[axis_of(axis, n)] = (width, width) if np.ndim(width) == 0 else tuple(width)
    else:
        widths = np.broadcast_to(pad_width, (n, 2)).tolist()
    widths = [(int(b), int(f)) for b, f in widths]
    if any(k < 0 for pair in widths for k in pair):
        raise ValueError("index can't contain negative values")
    if callable(mode):
        raise TypeError(
            "numpy.pad: a function as mode is not supported for traced values: use np.concatenate"
        )
    if mode == "constant":
        return pad_constant(a, widths, keywords.get("constant_values", 0))
    if mode == "empty":
        return pad_constant(a, widths, 0)
    if mode in ("edge", "wrap", "symmetric", "reflect"):
        if keywords.get("reflect_type", "even") == "odd":
            return pad_odd(a, widths, mode)
        for axis, (before, after) in enumerate(widths):
            if before or after:
                positions = np.pad(np.arange(shape_of(a)[axis]), (before, after), mode=mode)
                a = pad_by(a, axis, positions, before, after, mode)
        return a
    if mode in ("linear_ramp", "maximum", "mean", "median", "minimum"):
        return pad_statistic(a, widths, mode, keywords)
    raise ValueError(f"mode '{mode}' is not supported")


def pad_constant(a: Any, widths: list, values: Any) -> Any:
    n = len(widths)
    if not isinstance(values, Value) and np.ndim(values) == 0 and not isinstance(values, (list, tuple)):
        value = cast(operand(values), dtype_of(a))
        return movement.pad(a, tuple(b for b, _ in widths), tuple(f for _, f in widths), value)
    values = movement.broadcast(cast(asarray(values), dtype_of(a)), (n, 2))
    for axis, (before, after) in enumerate(widths):
        ends = []
        for k, width in enumerate((before, after)):
            shape = tuple(width if j == axis else m for j, m in enumerate(shape_of(a)))
            ends.append(movement.broadcast(take_axis(take_axis(values, 0, axis), 0, k), shape))
        a = movement.concatenate([ends[0], a, ends[1]], axis)
    return a


def pad_by(a: Any, axis: int, positions: np.ndarray, before: int, after: int, mode: str) -> Any:
    """Rows of `a` before and after it: slices where they are runs, a gather where they wind."""
    n = shape_of(a)[axis]
    if n == 0:
        raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
    if mode == "edge":
        row = lambda k, width: movement.broadcast(
            axis_part(a, axis, k, k + 1), tuple(width if j == axis else m for j, m in enumerate(shape_of(a)))
        )
        return movement.concatenate([row(0, before), a, row(n - 1, after)], axis)
    parts = []
    for run in (positions[:before], None, positions[before + n :]):
        if run is None:
            parts.append(a)
        elif len(run):
            steps = np.diff(run)
            if np.all(steps == 1):
                parts.append(movement.part(a, axis, int(run[0]), int(run[-1]) + 1))
            elif np.all(steps == -1):
                parts.append(movement.flip(movement.part(a, axis, int(run[-1]), int(run[0]) + 1), (axis,)))
            else:
                parts.append(rows_of(a, axis, run))
    return movement.concatenate(parts, axis)


def pad_odd(a: Any, widths: list, mode: str) -> Any:
    """reflect_type="odd": 2 * edge - reflection, in as many rounds as the width takes."""
    for axis, (before, after) in enumerate(widths):
        shift = mode == "reflect"
        while before or after:
            m = shape_of(a)[axis]
            b, f = min(before, m - shift), min(after, m - shift)
            if m - shift <= 0:
                return pad(a, widths, mode="edge")
            first, last = axis_part(a, axis, 0, 1), axis_part(a, axis, m - 1, m)
            head = e.sub(e.mul(2, first), movement.flip(axis_part(a, axis, int(shift), b + shift), (axis,)))
            tail = e.sub(e.mul(2, last), movement.flip(axis_part(a, axis, m - f - shift, m - shift), (axis,)))
            a = movement.concatenate([cast(head, dtype_of(a)), a, cast(tail, dtype_of(a))], axis)
            before, after = before - b, after - f
    return a


def pad_statistic(a: Any, widths: list, mode: str, keywords: dict) -> Any:
    lengths = keywords.get("stat_length")
    lengths = (
        [(None, None)] * len(widths)
        if lengths is None
        else np.broadcast_to(lengths, (len(widths), 2)).tolist()
    )
    if any(length is not None and length < 0 for stat in lengths for length in stat):
        raise ValueError("index can't contain negative values")
    if mode in ("maximum", "minimum") and any(length == 0 for stat in lengths for length in stat):
        raise ValueError("stat_length of 0 yields no value for padding")
    ends = np.broadcast_to(keywords.get("end_values", 0), (len(widths), 2))
    for axis, (pair, stat) in enumerate(zip(widths, lengths, strict=True)):
        n = shape_of(a)[axis]
        sides = []
        for side, (width, length) in enumerate(zip(pair, stat, strict=True)):
            shape = tuple(width if j == axis else m for j, m in enumerate(shape_of(a)))
            if mode == "linear_ramp":
                edge = axis_part(a, axis, 0, 1) if side == 0 else axis_part(a, axis, n - 1, n)
                share = np.linspace(0, 1, width, endpoint=False)
                share = share if side == 0 else share[::-1]
                share = share.reshape([-1 if j == axis else 1 for j in range(len(shape))])
                end = float(ends[axis, side])
                row = e.add(end, e.mul(e.sub(edge, end), share))
                if dtype_of(a).kind in "iu":
                    row = e.floor(row)  # as np.linspace makes integers
            else:
                length = n if length is None else min(int(length), n)
                rows = axis_part(a, axis, 0, length) if side == 0 else axis_part(a, axis, n - length, n)
                f = {"mean": mean, "median": median}.get(mode)
                row = f(rows, axis, keepdims=True) if f else reduced(mode[:3], rows, axis, True)
                row = movement.broadcast(row, shape)
            if dtype_of(a).kind in "iu" and dtype_of(row).kind == "f" and mode != "linear_ramp":
                row = round_(row)
            sides.append(cast(row, dtype_of(a)))
        a = movement.concatenate([sides[0], a, sides[1]], axis)
    return a
