"""Blocks before planning: products in the order in which they are read, and added where they go.

A transposition that alone reads a product becomes the product with its operands exchanged.  A sum of
an array and a product becomes a product that is added to the array, in place where the array dies.
"""

from __future__ import annotations

import dataclasses

from . import nest
from .view import view_of


@dataclasses.dataclass(eq=False)
class Added(nest.Contract):
    """inputs (a, b, start): `start + sum(a * b)`."""


def simplified(block: nest.Block) -> nest.Block:
    """The block with its products rewritten; the same object for the same block."""
    known = getattr(block, "_simplified", None)
    if known is None:
        known = block._simplified = _simplified(block)
        known._simplified = known
    return known


def _simplified(block: nest.Block) -> nest.Block:
    if not any(isinstance(f, nest.Contract) for f in block.forms):
        return block
    for rule in (exchanged, added):
        block = applied(block, rule)
    return block


def applied(block: nest.Block, rule) -> nest.Block:
    """The block with every (product, only reader) for which the rule has a form replaced by it."""
    readers: dict = {}
    for f in block.forms:
        for x in f.inputs:
            readers.setdefault(x, []).append(f)
    products = {f.outs[0]: f for f in block.forms if isinstance(f, nest.Contract)}
    outputs = set(block.outputs)
    gone, new = set(), {}
    for v, f in products.items():
        if v in outputs or len(readers.get(v, ())) != 1:
            continue
        reader = readers[v][0]
        if id(reader) in new:
            continue
        found = rule(f, reader)
        if found is not None:
            gone.add(id(f))
            new[id(reader)] = found
    forms = [new.get(id(f), f) for f in block.forms if id(f) not in gone]
    return nest.Block(block.inputs, forms, block.outputs, block.name)


def exchanged(f: nest.Contract, reader) -> nest.Form | None:
    if not isinstance(reader, nest.Index) or isinstance(f, Added) or len(reader.inputs) != 1:
        return None
    view = view_of(reader)
    a, b = (len(x.type.shape) for x in f.inputs)
    nb, nk = len(f.batch[0]), len(f.contracting[0])
    m, n = a - nb - nk, b - nb - nk
    order = [*range(nb), *range(nb + m, nb + m + n), *range(nb, nb + m)]
    shape = f.outs[0].type.shape
    if view is None or any(view[1]) or reader.outs[0].type.shape != tuple(shape[d] for d in order):
        return None
    for d, row in zip(order, view[2], strict=True):
        if shape[d] > 1 and row != tuple(int(e == d) for e in range(len(shape))):
            return None
    swap = lambda pair: (pair[1], pair[0])
    return nest.Contract(reader.outs, (f.inputs[1], f.inputs[0]), swap(f.contracting), swap(f.batch))


def added(f: nest.Contract, reader) -> nest.Form | None:
    v = f.outs[0]
    if (
        isinstance(f, Added)
        or not isinstance(reader, nest.Elementwise)
        or reader.op != "add"
        or v.type.dtype.str[1:] not in ("f4", "f8")
    ):
        return None
    x, y = reader.inputs
    other = y if x is v else x
    if other is v or other.type.shape != v.type.shape or other.type.dtype != v.type.dtype:
        return None
    if v.type.size < 64 or any(p.type.dtype != v.type.dtype for p in f.inputs):
        return None
    return Added(reader.outs, (*f.inputs, other), f.contracting, f.batch)


def written(f) -> int | None:
    """The position of the input that a form may overwrite with its result."""
    if isinstance(f, Added):
        return 2
    return 0 if isinstance(f, (nest.Update, nest.Scatter)) else None
