"""einsum and multi_dot: subscripts read into labels, and pairs contracted along a greedy path."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from rune.level import Value
from rune.numpy.arguments import asarray, promote, shape_of
from rune.numpy.products import check_inner, dot, pair, summed
from rune.numpy.register import function
from rune.primitives import movement
from rune.primitives.indexing import gather
from rune.primitives.map import cast
from rune.value import Traced, box, unbox, view

__all__ = ["einsum"]


@function("einsum", boxed=True)
def einsum_function(*operands, **how):
    """Of one operand it is a view where it only moves elements, as np.einsum("ii->i", x) does."""
    result = einsum(*unbox(operands), **unbox(how))
    place = int(bool(operands) and isinstance(operands[0], str))
    alone = len(operands) == 2 if place else len(operands) <= 3
    if not alone or not isinstance(operands[place], Traced) or not shape_of(result) or "dtype" in how:
        return box(result)

    def move(v):
        evaluate = einsum if isinstance(v, Value) else np.einsum
        return evaluate(*operands[:place], v, *operands[place + 1 :])

    return view(operands[place], result, move)


def einsum(*operands, out=None, optimize=False, dtype=None, casting="safe", order="K"):
    inputs, result, arrays = parsed(operands)
    arrays = promote(*arrays) if dtype is None else [cast(a, dtype) for a in arrays]
    terms = [diagonals(a, labels) for a, labels in zip(arrays, inputs, strict=True)]
    for step in contraction_path(inputs, result, arrays):
        chosen = [terms.pop(k) for k in sorted(step, reverse=True)]
        needed = {*result, *(k for _, labels in terms for k in labels)}
        terms.append(combined(chosen, tuple(k for k in ordered(chosen) if k in needed) if terms else result))
    return terms[0][0]


def ordered(terms: list) -> tuple:
    return tuple(dict.fromkeys(k for _, labels in terms[::-1] for k in labels))


def combined(terms: list, keep: tuple) -> tuple:
    if len(terms) == 1:
        (x, labels) = terms[0]
        x, labels = summed(x, labels, set(keep))
        return movement.permute(x, tuple(labels.index(k) for k in keep)), keep
    (b, lb), (a, la) = terms[:2]
    rest = {k for _, labels in terms[2:] for k in labels}
    if not rest and len(terms) == 2:
        return pair(a, la, b, lb, keep), keep
    middle = tuple(k for k in dict.fromkeys(la + lb) if k in keep or k in rest)
    return combined([(pair(a, la, b, lb, middle), middle), *terms[2:]], keep)


def diagonals(x: Any, labels: tuple) -> tuple:
    """One axis for a label that stands several times: the diagonal."""
    for label in () if len(set(labels)) == len(labels) else dict.fromkeys(labels):
        spots = [k for k, other in enumerate(labels) if other == label]
        if len(spots) < 2:
            continue
        n = max(shape_of(x)[k] for k in spots)
        if any(shape_of(x)[k] != n for k in spots):
            raise ValueError(f"dimensions in single operand for collapsing index {label!r} don't match")
        rest = tuple(k for k in range(len(labels)) if k not in spots)
        x = gather(movement.permute(x, (*spots, *rest)), [np.arange(n)] * len(spots))
        labels = (label, *(labels[k] for k in rest))
    return x, labels


def contraction_path(inputs: list, result: tuple, arrays: list) -> list:
    if len(arrays) <= 2:
        return [tuple(range(len(arrays)))]
    names: dict = {}
    letter = lambda k: names.setdefault(
        k, chr(ord("a") + len(names)) if len(names) < 26 else chr(ord("A") + len(names) - 26)
    )
    text = ",".join("".join(map(letter, labels)) for labels in inputs) + "->" + "".join(map(letter, result))
    stands = [np.broadcast_to(np.float64(0), shape_of(a)) for a in arrays]
    return np.einsum_path(text, *stands, optimize="greedy")[0][1:]


def parsed(operands: tuple) -> tuple[list, tuple, list]:
    """Labels per operand, labels of the result, and the operands; an ellipsis becomes integer labels."""
    if isinstance(operands[0], str):
        inputs, output = subscripts(operands[0])
        arrays = [asarray(x) for x in operands[1:]]
    else:
        listed = [*operands[1::2], *(operands[-1:] if len(operands) % 2 else ())]
        if not listed or not all(isinstance(labels, (list, tuple)) for labels in listed):
            raise ValueError("einsum: give subscripts first, or a list of labels behind each operand")
        named = lambda labels: tuple(k if k is Ellipsis else ("s", int(k)) for k in labels)
        arrays = [asarray(x) for x in operands[0 : len(operands) - len(operands) % 2 : 2]]
        inputs = tuple(map(named, operands[1::2]))
        output = named(operands[-1]) if len(operands) % 2 else None
    if len(inputs) != len(arrays):
        raise ValueError("Number of einsum subscripts must be equal to the number of operands.")
    return *filled(inputs, output, tuple(len(shape_of(a)) for a in arrays)), arrays


@functools.lru_cache(maxsize=1 << 12)
def filled(inputs: tuple, output: tuple | None, ndims: tuple[int, ...]) -> tuple:
    """The labels of operands of so many dimensions and of the result, all of them."""
    full, widest = [], 0
    for labels, ndim in zip(inputs, ndims, strict=True):
        n = ndim - sum(k is not Ellipsis for k in labels)
        if n < 0 or (n and Ellipsis not in labels):
            raise ValueError(
                "einstein sum subscripts string does not match the number of dimensions of an operand"
            )
        widest = max(widest, n if Ellipsis in labels else 0)
        full.append(expanded(labels, n))
    if output is None:
        counts: dict = {}
        for labels in full:
            for k in labels:
                counts[k] = counts.get(k, 0) + 1
        once = sorted(
            (k for k, n in counts.items() if n == 1 and not isinstance(k, int)),
            key=lambda k: k if isinstance(k, str) else k[1],
        )
        output = (*range(-widest, 0), *once)
    else:
        known = {k for labels in full for k in labels}
        if any(k is not Ellipsis and k not in known for k in output):
            raise ValueError(
                "einstein sum subscripts string included output subscript which never appeared in an input"
            )
        output = expanded(output, widest)
    return full, output


@functools.lru_cache(maxsize=1 << 12)
def subscripts(text: str) -> tuple:
    """The labels of the operands, and those of the result where the text names it."""
    left, arrow, right = text.replace(" ", "").partition("->")
    return tuple(map(split_labels, left.split(","))), split_labels(right) if arrow else None


def split_labels(term: str) -> tuple:
    labels: list = []
    k = 0
    while k < len(term):
        if term[k] == ".":
            if term[k : k + 3] != "...":
                raise ValueError("Invalid Ellipses.")
            labels.append(Ellipsis)
            k += 3
            continue
        if not term[k].isalpha():
            raise ValueError(f"Character {term[k]} is not a valid symbol.")
        labels.append(term[k])
        k += 1
    return tuple(labels)


def expanded(labels: tuple, n: int) -> tuple:
    out: list = []
    for k in labels:
        out += range(-n, 0) if k is Ellipsis else [k]
    return tuple(out)


@function("einsum_path")
def einsum_path(*operands, optimize="greedy", einsum_call=False):
    stands = [np.broadcast_to(np.float64(0), shape_of(x)) if isinstance(x, Value) else x for x in operands]
    return np.einsum_path(*stands, optimize=optimize)


@function("linalg.multi_dot")
def multi_dot(arrays, *, out=None):
    arrays = [asarray(a) for a in arrays]
    if len(arrays) < 2:
        raise ValueError("Expecting at least two arrays.")
    if len(arrays) == 2:
        return dot(*arrays)
    vectors = len(shape_of(arrays[0])) == 1, len(shape_of(arrays[-1])) == 1
    for a, b in itertools.pairwise(arrays):
        check_inner("shapes {} and {} not aligned", a, -1, b, -2 if len(shape_of(b)) > 1 else 0)
    labels = [(k, k + 1) for k in range(len(arrays))]
    labels[0] = labels[0][1:] if vectors[0] else labels[0]
    labels[-1] = labels[-1][:1] if vectors[1] else labels[-1]
    sublists = [item for a, ls in zip(arrays, labels, strict=True) for item in (a, list(ls))]
    result = ([] if vectors[0] else [0]) + ([] if vectors[1] else [len(arrays)])
    return einsum(*sublists, result)
