"""The native call: what it takes, what it hands on, and that it holds and loses nothing."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

from rune import native
from rune.native.nest import Accumulate, Block, Elementwise, Index, Reduce
from rune.program import Literal, Type, Var


def var(*shape, dtype="f8"):
    return Var(Type(np.dtype(dtype), shape))


def plus_one(shape=(3,), layout="C"):
    x, y = var(*shape), var(*shape)
    return native.compile(Block([x], [Elementwise((y,), (x, Literal(1.0)), "add")], [y]), [layout])


def test_plain_arrays_run_and_others_fall_back():
    seen = []
    f = plus_one().direct(lambda *a: seen.append(a) or "slow", single=True)
    x = np.arange(3.0)
    np.testing.assert_array_equal(f(x), x + 1)
    assert type(f(x)) is np.ndarray and not seen

    class Sub(np.ndarray):
        pass

    others = [
        (),
        (x, x),
        (1.0,),
        (np.arange(4.0),),
        (np.arange(3),),
        (np.zeros((3, 1)),),
        (np.arange(6.0)[::2],),
    ]
    others += [(x.astype(">f8"),), (x.view(Sub),), ([1.0, 2.0, 3.0],), (np.float64(2),)]
    for args in others:
        assert f(*args) == "slow"
        assert len(seen[-1]) == len(args) and all(a is b for a, b in zip(seen[-1], args, strict=True))
    with pytest.raises(TypeError):
        f(x=x)


def test_strided_arguments():
    f = plus_one((2, 3), "S").direct(lambda x: "slow", single=True)
    x = np.arange(24.0).reshape(4, 6)[::2, ::-2]
    np.testing.assert_array_equal(f(x), x + 1)
    np.testing.assert_array_equal(f(x.copy()), x + 1)


def test_results_are_a_tuple_with_numpy_scalars():
    x, s, t = var(4), var(), var(4)
    e = native.compile(
        Block([x], [Reduce((s,), (x,), "sum", (0,)), Accumulate((t,), (x,), "sum", 0, False)], [s, t, x]), "C"
    )
    f = e.direct(lambda x: "slow")
    r = f(np.arange(4.0))
    assert type(r) is tuple and type(r[0]) is np.float64 and r[0] == 6
    np.testing.assert_array_equal(r[1], [0, 1, 3, 6])
    np.testing.assert_array_equal(r[2], [0, 1, 2, 3])


def test_numbers_and_no_arguments():
    x, y, z = var(3), var(), var(3)
    e = native.compile(Block([x, y], [Elementwise((z,), (x, y), "mul")], [z]), "CC")
    f = e.direct(lambda *a: "slow", True, numbers=(1,))
    np.testing.assert_array_equal(f(np.arange(3.0), 2.5), np.arange(3.0) * 2.5)
    assert f(np.arange(3.0), 2) == "slow" and f(np.arange(3.0), True) == "slow"
    one = var()
    g = native.compile(Block([], [Elementwise((one,), (Literal(1.0), Literal(2.0)), "add")], [one]), "")
    assert g.direct(lambda: "slow", True)() == 3.0


def test_errors_come_from_the_fallback():
    x, k, y = var(5), var(2, dtype="i8"), var(2)

    def at(read, i):
        return read(0, (read.bounded(read(1, i), 5, 0),))

    error = lambda axis, value, lane, steps: IndexError(f"index {value} is out of bounds for axis {axis}")
    e = native.compile(Block([x, k], [Index((y,), (x, k), at, error)], [y]), "CC")
    f = e.direct(lambda *a: e(list(a))[0], True)
    for _ in range(3):
        with pytest.raises(IndexError, match="index 9 is out of bounds"):
            f(np.arange(5.0), np.array([1, 9]))
        np.testing.assert_array_equal(f(np.arange(5.0), np.array([1, -1])), [1, 4])


def test_nothing_is_lost():
    x = var(100, 100)
    y, z = var(100, 100), var(100, 100)
    forms = [Accumulate((y,), (x,), "sum", 0, False), Accumulate((z,), (y,), "sum", 1, False)]
    e = native.compile(Block([x], forms, [z]), "C")
    assert e.report.workspace >= 80000
    slow = lambda x: "slow"
    f = e.direct(slow, True)
    a = np.ones((100, 100))
    before = sys.getrefcount(a), sys.getrefcount(slow), sys.getrefcount(np.dtype("f8"))
    results = [f(a) for _ in range(50)]
    after = sys.getrefcount(a), sys.getrefcount(slow)
    assert after == before[:2]
    assert all(sys.getrefcount(r) == 3 for r in results)
    assert len({r.ctypes.data for r in results}) == 50
    alive = weakref.ref(e)
    del e
    gc.collect()
    np.testing.assert_array_equal(f(a)[-1, -1], 10000.0)
    del f
    gc.collect()
    assert alive() is None


def test_threads():
    x, y = var(1000, 40), var(1000, 40)
    e = native.compile(Block([x], [Accumulate((y,), (x,), "sum", 0, False)], [y]), "C")
    f = e.direct(lambda x: "slow", True)
    arrays = [np.full((1000, 40), float(k)) for k in range(4)]
    bad = []

    def work(k):
        for _ in range(100):
            if f(arrays[k])[-1, 0] != 1000.0 * k:
                bad.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad
