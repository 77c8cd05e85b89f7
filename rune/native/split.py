"""Where the axes of a nest must be cut so that no update or concatenation is tested inside a loop.

The index at which a nest reads an array is followed through elementwise operations and views.  Where
it enters or leaves the region of an update, or goes from one part of a concatenation to the next,
the axis is cut; in each segment the ranges of the counters then decide the test.
"""

from __future__ import annotations

from . import nest
from .source import Computed
from .view import view_of

LIMIT = 400  # sources that are looked at


def cuts(sources, space) -> list[set]:
    """For each axis of the nest, the positions at which a segment starts."""
    found: list[set] = [set() for _ in space]
    own = [(d, 1, 0) for d in range(len(space))]
    stack = [(s, own[: len(s.shape)] + [None] * (len(s.shape) - len(own))) for s in sources]
    seen = set()
    while stack and len(seen) < LIMIT:
        s, at = stack.pop()
        key = (id(s), tuple(at))
        if key in seen or not isinstance(s, Computed):
            continue
        seen.add(key)
        form, inputs = s.form, s.inputs
        if isinstance(form, nest.Elementwise):
            for x in inputs:
                if x.shape == s.shape:
                    stack.append((x, at))
                elif x.shape:
                    skip = len(s.shape) - len(x.shape)
                    stack.append(
                        (x, [None if n == 1 else a for n, a in zip(x.shape, at[skip:], strict=True)])
                    )
        elif isinstance(form, nest.Index):
            view = view_of(form)
            if view is not None:
                k, start, steps = view
                stack.append(
                    (inputs[k], [moved(at, start[e], [row[e] for row in steps]) for e in range(len(start))])
                )
        elif isinstance(form, nest.Update):
            inner = []
            for a, lo, step, n in zip(at, form.starts, form.steps, inputs[1].shape, strict=True):
                cut(found, a, lo)
                cut(found, a, lo + step * (n - 1) + 1)
                inner.append((a[0], a[1], a[2] - lo) if a is not None and step == 1 else None)
            stack += [(inputs[0], at), (inputs[1], inner)]
        elif isinstance(form, nest.Concatenate):
            start = 0
            for x in inputs:
                a = at[form.axis]
                stack.append((x, [*at[: form.axis], a and (a[0], a[1], a[2] - start), *at[form.axis + 1 :]]))
                start += x.shape[form.axis]
                cut(found, a, start)
        elif isinstance(form, nest.Reduce):
            rest = iter(at)
            x = inputs[0]
            stack.append((x, [None if d in form.axes else next(rest) for d in range(len(x.shape))]))
    return found


def moved(at, start, column):
    """The affine index of one axis of a view's input, where it depends on one counter by +1 or -1."""
    used = [(d, c) for d, c in enumerate(column) if c]
    if len(used) != 1 or abs(used[0][1]) != 1 or at[used[0][0]] is None:
        return None
    d, c = used[0]
    axis, sign, offset = at[d]
    return axis, c * sign, start + c * offset


def cut(found, a, position) -> None:
    """The index `sign * i + offset` reaches `position`: i is there (or just passed it, backwards)."""
    if a is None:
        return
    axis, sign, offset = a
    if axis < len(found):
        found[axis].add(position - offset if sign > 0 else offset - position + 1)
