"""Index maps that are strided views: found by running the map on symbols."""

from __future__ import annotations

from . import nest
from .index import Atom, Idx


class NotAView(Exception):
    """The map reads an index, divides, or combines elements."""


class _Symbols:
    """Stands for a unit while a map runs on symbols: what would need code refuses."""

    def __init__(self):
        self.atoms = 0
        self.fn = self

    def divide(self, i, c):
        raise NotAView

    def element(self, source, index):
        raise NotAView


class _Probe:
    def __init__(self):
        self.reads = []

    def __call__(self, k, index):
        self.reads.append((k, tuple(index)))
        return self.reads[-1]

    def bounded(self, value, size, axis, lane=0):
        raise NotAView


def view_of(form: nest.Index):
    """(input, start index, one row of steps per result axis), or None where it is not affine."""
    known = getattr(form, "_view", False)
    if known is False:
        known = form._view = _view_of(form)
    return known


def _view_of(form):
    symbols, probe = _Symbols(), _Probe()
    shape = form.outs[0].type.shape
    atoms = [Atom("", 0, None, 0, n - 1, symbols) for n in shape]
    index = tuple(Idx(((a, 1),), 0) if n > 1 else 0 for a, n in zip(atoms, shape, strict=True))
    try:
        result = form.at(probe, index)
    except Exception:  # whatever a map does with symbols, it is not a view then
        return None
    if len(probe.reads) != 1 or result is not probe.reads[0]:
        return None
    k, at = result
    start = tuple(i.const if isinstance(i, Idx) else int(i) for i in at)
    steps = [[0] * len(at) for _ in atoms]
    place = {a: d for d, a in enumerate(atoms)}
    for d, i in enumerate(at):
        for a, c in i.terms if isinstance(i, Idx) else ():
            steps[place[a]][d] = c
    return k, start, [tuple(row) for row in steps]
