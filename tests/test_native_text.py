"""What native code is made of: no address, little stack, and one object for each program."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from test_native_forms import Builder, random_forms, random_sizes

from rune import native
from rune.native.nest import Host

BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "float": 4, "double": 8, "ptr": 8}


def stack_of(text):
    """Bytes of stack buffers, function by function."""
    found = {}
    for function in text.split("\ndefine ")[1:]:
        name = re.search(r"@([\w.]+)\(", function).group(1)
        sizes = re.findall(r"alloca \[(\d+) x (\w+)\]", function)
        assert len(sizes) == function.count("alloca")
        found[name] = sum(int(n) * BYTES[t] for n, t in sizes)
    return found


def programs():
    for seed in range(0, 24, 2):
        r = np.random.default_rng(seed)
        n, m = random_sizes(r, seed)
        step = Builder(((n, m),), ((n, m),), ((m,),), ((n,),))
        pool = random_forms(r, step, n, m, 14)
        last = [next(v for v in pool[::-1] if v.type.shape == s) for s in ((n, m), (m,), (n,))]
        b = Builder(((n, m),), ((n, m),), ((m,),), ((n,),))
        b.loop(step.block(last[0], step.inputs[1], *last[1:]), b.inputs, [], [], 3)
        yield b.block(*b.forms[-1].outs, pool and b.inputs[0])


def test_stacks_stay_small():
    """A large alloca is a segmentation fault; the contract allows 16 KiB for each function."""
    for block in programs():
        e = native.compile(block, "CCCC")
        assert max(stack_of(e._text).values()) <= 16 * 1024


def many_small_arrays():
    step = Builder(((3,),), ((150,),))
    x, y = step.inputs
    for k in range(120):
        x = step.op("add", step.op("sin", x), float(k))
        y = step.accumulate(step.op("mul", y, float(k)), 0)
    b = Builder(((3,),), ((150,),))
    return b.block(*b.loop(step.block(x, y), b.inputs, [], [], 5))


def test_many_small_arrays_do_not_fill_the_stack():
    e = native.compile(many_small_arrays(), "CC")
    assert max(stack_of(e._text).values()) <= 16 * 1024
    out = e([np.ones(3), np.ones(150)])
    assert np.isfinite(out[0]).all()


def test_no_address_stands_in_the_text():
    """Captures, libraries and callbacks arrive with the call, so that objects may move between processes."""
    b = Builder(((40, 40),))
    (x,) = b.inputs
    c = b.constant(np.ones((40, 40)))
    low = b.library("cholesky", [b.op("add", x, c)], [((40, 40), "f8")])
    y = b.add(Host((b.var((40, 40)),), (low,), lambda x: [x], "same"))
    z = b.op("special:gammaln", y)
    e = native.compile(b.block(b.matmul(z, z)), "C")
    assert "inttoptr" not in e._text
    assert not re.search(r"\b\d{11,}\b", re.sub(r"0x[0-9A-F]+", "", e._text))


def test_the_texts_are_there():
    b = Builder(((1000,),))
    e = native.compile(b.block(b.op("exp", b.inputs[0])), "C")
    assert "define" in e.llvm and "exp" in e.llvm
    assert "main:" in e.asm


def test_cost_grows_with_the_program():
    """Twice the program is about twice the text, however its values are read."""

    def lines(count):
        b = Builder(((30,),), ((30,),))
        x, y = b.inputs
        for k in range(count):
            turned = b.index((30,), lambda read, i: read(0, (29 - i[0],)), x)
            x = b.op("add", b.op("mul", x, turned), b.op("sin", y) if k % 3 == 0 else y)
        return native.compile(b.block(x), "CC")._text.count("\n")

    small, large = lines(20), lines(80)
    assert large < 6 * small


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_a_fused_gradient_makes_no_temporaries(dtype):
    """An elementwise gradient of large arrays is one nest that writes each result once."""
    shape = (1000, 100)
    b = Builder((shape, dtype), (shape, dtype), (shape, dtype))
    x, y, g = b.inputs
    e = b.op("exp", b.op("neg", b.op("mul", x, x)))
    s = b.op("sin", y)
    gx = b.op("mul", g, b.op("mul", b.op("mul", x, -2.0), b.op("mul", e, s)))
    gy = b.op("mul", g, b.op("mul", e, b.op("cos", y)))
    report = native.compile(b.block(b.op("mul", e, s), gx, gy), "CCC").report
    assert len(report.kernels) == 1 and report.workspace == 0


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")
def test_code_that_nothing_holds_gives_its_memory_back():
    script = """
import gc
import numpy as np, rune

def held():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * 4096

def compile_and_drop(n):
    for _ in range(n):
        rune.jit(lambda x: np.linalg.norm(np.sin(x) * x, axis=1).sum())(np.ones((3, 4)))

compile_and_drop(20)
before = held()
compile_and_drop(100)
print((held() - before) // 100)
"""
    each = int(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    )
    assert each < 40_000  # bytes; what LLVM keeps of its passes alone would be 100,000
