"""The text of LLVM functions, and where each instruction goes.

A function is built with a stack of *scopes*: its body, and one per open loop or guarded branch.  A
pure instruction is put in the outermost scope that holds all of its operands, so that what does not
depend on a loop is computed before it, and equal instructions of a scope are one.  A guard is a
*barrier*: nothing asked for inside it moves out, because its index may be valid only there.

Functions nest while they are built.  A value of the enclosing function that is used inside becomes
a parameter of the inner one (`name_of`), and the call passes it.  Buffers become `noalias`
parameters, which is how LLVM learns that they are disjoint.
"""

from __future__ import annotations

import contextlib

from .index import Atom, Idx, Value, bounds

LLVM = {
    "b1": "i1", "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64", "u1": "i8", "u2": "i16", "u4": "i32",
    "u8": "i64", "f2": "half", "f4": "float", "f8": "double", "c8": "float", "c16": "double", "p": "ptr",
}  # fmt: skip
SIZE = {"b1": 1, "i1": 1, "i2": 2, "i4": 4, "i8": 8, "u1": 1, "u2": 2, "u4": 4, "u8": 8, "f2": 2, "f4": 4,
        "f8": 8, "c8": 8, "c16": 16}  # fmt: skip
ROLLED = 64  # steps beyond which a loop is not unrolled
# A shorter one that is unrolled becomes gathers in the loop around it where it would be vectors itself: sums over
# so many elements take two to four times as long.  In a step it keeps sums in registers, which is worth more.
VECTORS = range(8, 41)
ALLOCAS = 12 * 1024  # bytes of stack buffers that one function may hold; the contract allows 16 KiB


class Scope:
    __slots__ = ("barrier", "depth", "ins", "memo")

    def __init__(self, lines, depth, barrier):
        self.ins = lines
        self.memo = {}
        self.depth = depth
        self.barrier = barrier


class Function:
    """One LLVM function that is being built."""

    def __init__(self, unit, name, parent, returns="void"):
        self.unit = unit
        self.name = name
        self.parent = parent
        self.returns = returns
        self.allocas: list[str] = []
        self.stack_bytes = 0
        self.lines: list = []
        self.scopes = [Scope(self.lines, 0, 0)]
        self.params: list[tuple[str, Value]] = []  # (declaration, the value of the parent)
        self.lifted: dict = {}
        self.count = 0
        self.nests = 0
        self.base = 0  # the scope of the block that is being emitted: its buffers change in it
        self.step = name.startswith("loop")
        self.floor = 0  # the outermost scope that a test of an index may move to, behind other failures

    # names and places ---------------------------------------------------------------------------

    def fresh(self) -> int:
        self.count += 1
        return self.count

    def name_of(self, v: Value) -> str:
        if v.fn is self or v.fn is None:
            return v.name
        return self.lift(v)[0]

    def imag_of(self, v: Value) -> str:
        if v.fn is self or v.fn is None:
            return v.im
        return self.lift(v)[1]

    def lift(self, v: Value) -> tuple:
        known = self.lifted.get(v)
        if known is None:
            names = []
            for part in ("re", "im") if v.im is not None else ("re",):
                name = f"%p{len(self.params)}"
                type = LLVM[v.kind]
                self.params.append((f"{type} noalias {name}" if type == "ptr" else f"{type} {name}", v, part))
                names.append(name)
            known = self.lifted[v] = (*names, None)
        return known

    def depth_of(self, *values: Value) -> int:
        depth = 0
        for v in values:
            if v.fn is self and v.depth > depth:
                depth = v.depth
        return depth

    @property
    def top(self) -> Scope:
        return self.scopes[-1]

    def place(self, depth: int) -> Scope:
        barrier = self.scopes[-1].barrier
        return self.scopes[depth if depth > barrier else barrier]

    # instructions -------------------------------------------------------------------------------

    def put(self, text: str, kind: str, *operands: Value) -> Value:
        """A pure instruction, in the outermost scope that has its operands."""
        scope = self.place(self.depth_of(*operands))
        known = scope.memo.get(text)
        if known is None:
            self.count += 1
            name = f"%v{self.count}"
            scope.ins.append(f"  {name} = {text}")
            known = scope.memo[text] = Value(name, kind, scope.depth, self)
        return known

    def here(self, text: str, kind: str, depth: int | None = None) -> Value:
        """An instruction whose place matters: at the end of the innermost (or the given) scope."""
        scope = self.top if depth is None else self.place(depth)
        self.count += 1
        name = f"%v{self.count}"
        scope.ins.append(f"  {name} = {text}")
        return Value(name, kind, scope.depth, self)

    def line(self, text: str) -> None:
        self.top.ins.append("  " + text)

    def alloca(self, kind: str, count: int) -> Value | None:
        """`count` elements of stack, or None where the function has no more room."""
        size = SIZE[kind] * count if kind != "p" else 8 * count
        if self.stack_bytes + size > ALLOCAS and size > 256:
            return None
        self.stack_bytes += size
        type = "i8" if kind == "b1" else LLVM[kind]
        count = 2 * count if kind[0] == "c" else count
        name = f"%a{self.fresh()}"
        align = 64 if size >= 64 else 16
        self.allocas.append(f"  {name} = alloca [{count} x {type}], align {align}")
        return Value(name, "p", 0, self)

    # index arithmetic ---------------------------------------------------------------------------

    def index(self, i) -> Value:
        """The value (int64) of an index."""
        if not isinstance(i, Idx):
            return Value(str(int(i)), "i8")
        total = None
        for a, c in sorted(i.terms, key=lambda t: (self.depth_of(t[0]), t[0].order)):
            term = a if c == 1 else self.put(f"mul nsw i64 {self.name_of(a)}, {c}", "i8", a)
            if total is None:
                total = term
            else:
                total = self.put(
                    f"add nsw i64 {self.name_of(total)}, {self.name_of(term)}", "i8", total, term
                )
        if i.const:
            total = self.put(f"add nsw i64 {self.name_of(total)}, {i.const}", "i8", total)
        return total

    def atom(self, v: Value, lo: int, hi: int) -> Atom:
        """An integer value as a term of indices."""
        scope = self.scopes[v.depth] if v.fn is self and v.depth < len(self.scopes) else self.top
        known = scope.memo.get(("atom", v))
        if known is None:
            known = scope.memo["atom", v] = Atom(v.name, v.depth, v.fn, lo, hi, self.unit)
        return known

    def divide(self, i: Idx, c: int):
        """Quotient and remainder of an index that is not negative."""
        v = self.index(i)
        q = self.put(f"udiv i64 {self.name_of(v)}, {c}", "i8", v)
        hi = bounds(i)[1]
        quotient = Idx(((self.atom(q, 0, hi // c), 1),), 0)
        r = self.put(f"urem i64 {self.name_of(v)}, {c}", "i8", v)
        return quotient, Idx(((self.atom(r, 0, min(c - 1, hi)), 1),), 0)

    def depth_of_index(self, index) -> int:
        depth = 0
        for i in index:
            if isinstance(i, Idx):
                for a, _ in i.terms:
                    if a.fn is self and a.depth > depth:
                        depth = a.depth
        return depth

    # control flow -------------------------------------------------------------------------------

    def _open(self, barrier: bool) -> tuple:
        """A nested scope; what is asked for meanwhile goes before it in the enclosing one."""
        outer = self.top
        hoist, old = [], outer.ins
        old.append(hoist)
        outer.ins = hoist
        depth = len(self.scopes)
        body: list = []
        self.scopes.append(Scope(body, depth, depth if barrier else outer.barrier))
        return outer, old, body

    @contextlib.contextmanager
    def loop(self, n: int):
        """A loop over 0 .. n - 1; gives its counter as an index."""
        if n == 1:
            yield 0
            return
        outer, old, body = self._open(False)
        k = self.fresh()
        counter = Atom(f"%i{k}", len(self.scopes) - 1, self, 0, n - 1, self.unit)
        yield Idx(((counter, 1),), 0)
        self.scopes.pop()
        outer.ins = old
        if n == 0:
            return  # the loop below tests after its body
        # vector code is interleaved already; unrolling a long loop beyond that costs compile time alone
        rolled = n > ROLLED or (n in VECTORS and not self.step)
        meta = f", !llvm.loop {self.unit.rolled()}" if rolled else ""
        old.append(
            f"  br label %L{k}.pre\nL{k}.pre:\n  br label %L{k}\nL{k}:\n"
            f"  %i{k} = phi i64 [ 0, %L{k}.pre ], [ %n{k}, %L{k}.latch ]"
        )
        old.append(body)
        old.append(
            f"  br label %L{k}.latch\nL{k}.latch:\n  %n{k} = add nuw nsw i64 %i{k}, 1\n"
            f"  %c{k} = icmp ult i64 %n{k}, {n}\n  br i1 %c{k}, label %L{k}, label %L{k}.exit{meta}\nL{k}.exit:"
        )

    @contextlib.contextmanager
    def loop_while(self, start: Value, stop: Value):
        """A loop over start .. stop - 1 whose bounds are values; it may run no times."""
        last = self.name_of(stop)
        with self._tested(self.name_of(start), f"slt i64 {{}}, {last}", 1, 2**62) as (i, _):
            yield i

    @contextlib.contextmanager
    def loop_range(self, start: Value, stop: Value, low: int, high: int):
        """A loop over start .. stop - 1, values that lie in low .. high."""
        first, last = self.name_of(start), self.name_of(stop)
        outer, old, body = self._open(False)
        k = self.fresh()
        counter = Atom(f"%i{k}", len(self.scopes) - 1, self, low, high - 1, self.unit)
        yield Idx(((counter, 1),), 0)
        self.scopes.pop()
        outer.ins = old
        old.append(
            f"  br label %L{k}.pre\nL{k}.pre:\n  %z{k} = icmp slt i64 {first}, {last}\n"
            f"  br i1 %z{k}, label %L{k}.start, label %L{k}.exit\nL{k}.start:\n  br label %L{k}\nL{k}:\n"
            f"  %i{k} = phi i64 [ {first}, %L{k}.start ], [ %n{k}, %L{k}.latch ]"
        )
        old.append(body)
        old.append(
            f"  br label %L{k}.latch\nL{k}.latch:\n  %n{k} = add nuw nsw i64 %i{k}, 1\n"
            f"  %c{k} = icmp slt i64 %n{k}, {last}\n  br i1 %c{k}, label %L{k}, label %L{k}.exit\nL{k}.exit:"
        )

    @contextlib.contextmanager
    def loop_upto(self, count: Value, most: int, reverse: bool = False):
        """A loop over 0 .. count - 1, downwards where `reverse`, of a count that is known to be at most `most`.

        Gives its counter, and `leave(condition)`, which ends the loop where it stands.  After the loop the
        counter has the value of the step that was not taken.
        """
        last = self.name_of(count)
        if reverse:
            first, more, by = self.name_of(self.put(f"sub i64 {last}, 1", "i8", count)), "sge i64 {}, 0", -1
        else:
            first, more, by = "0", f"slt i64 {{}}, {last}", 1
        with self._tested(first, more, by, max(most - 1, 0)) as found:
            yield found

    @contextlib.contextmanager
    def _tested(self, first: str, more: str, by: int, most: int):
        """A loop that takes a step where `more` holds of its counter; gives the counter, and `leave`."""
        outer, old, body = self._open(True)
        k = self.fresh()
        counter = Atom(f"%i{k}", len(self.scopes) - 1, self, 0, most, self.unit)

        def leave(condition: Value) -> None:
            self.line(f"br i1 {self.name_of(condition)}, label %L{k}.exit, label %L{k}.go")
            body.append(f"L{k}.go:")

        yield Idx(((counter, 1),), 0), leave
        self.scopes.pop()
        outer.ins = old
        old.append(
            f"  br label %L{k}.pre\nL{k}.pre:\n  br label %L{k}\nL{k}:\n"
            f"  %i{k} = phi i64 [ {first}, %L{k}.pre ], [ %n{k}, %L{k}.latch ]\n"
            f"  %c{k} = icmp {more.format(f'%i{k}')}\n"
            f"  br i1 %c{k}, label %L{k}.body, label %L{k}.exit\nL{k}.body:"
        )
        old.append(body)
        old.append(
            f"  br label %L{k}.latch\nL{k}.latch:\n  %n{k} = add nsw i64 %i{k}, {by}\n"
            f"  br label %L{k}\nL{k}.exit:"
        )

    def switch(self, value: Value, bodies: list) -> None:
        """The body that an int64 value counts; the last one where it counts none."""
        name = self.name_of(value)
        old = self.top.ins
        emitted = []
        for body in bodies:
            outer, _, lines = self._open(True)
            body()
            self.scopes.pop()
            outer.ins = old
            emitted.append(lines)
        k = self.fresh()
        last = len(bodies) - 1
        cases = " ".join(f"i64 {j}, label %S{k}.{j}" for j in range(last))
        old.append(f"  switch i64 {name}, label %S{k}.{last} [ {cases} ]")
        for j, lines in enumerate(emitted):
            old.append(f"S{k}.{j}:")
            old.append(lines)
            old.append(f"  br label %J{k}")
        old.append(f"J{k}:")

    def branch(self, condition: Value, then, otherwise) -> Value | None:
        """`then()` or `otherwise()`, and the value of the one that ran."""
        outer, old, body = self._open(True)
        yes = then()
        self.scopes.pop()
        outer.ins = old
        k = self.fresh()
        old.append(f"  br i1 {self.name_of(condition)}, label %T{k}, label %E{k}\nT{k}:")
        old.append(body)
        old.append(f"  br label %T{k}.end\nT{k}.end:\n  br label %J{k}\nE{k}:")
        no, body = None, []
        if otherwise is not None:
            depth = len(self.scopes)
            hoist: list = []
            # what the second branch asks for outside of itself must stand before the branch
            old.insert(-3, hoist)
            outer.ins = hoist
            self.scopes.append(Scope(body, depth, depth))
            no = otherwise()
            self.scopes.pop()
            outer.ins = old
        old.append(body)
        old.append(f"  br label %E{k}.end\nE{k}.end:\n  br label %J{k}\nJ{k}:")
        if yes is None or no is None:
            return None
        type = LLVM[yes.kind]

        def phi(a, b):
            name = f"%v{self.fresh()}"
            old.append(f"  {name} = phi {type} [ {a}, %T{k}.end ], [ {b}, %E{k}.end ]")
            return name

        re = phi(self.name_of(yes), self.name_of(no))
        im = phi(self.imag_of(yes), self.imag_of(no)) if yes.im is not None else None
        return Value(re, yes.kind, outer.depth, self, im)

    @contextlib.contextmanager
    def upto(self, depth: int, safe: bool = False):
        """What is emitted meanwhile goes to the scope of that depth.

        It stays inside the innermost barrier unless it is safe to run in any case.
        """
        depth = depth if safe else max(depth, self.top.barrier)
        saved = self.scopes[depth + 1 :]
        del self.scopes[depth + 1 :]
        yield
        self.scopes.extend(saved)

    # text ---------------------------------------------------------------------------------------

    def text(self, linkage: str = "internal", attributes: str = "#0") -> str:
        out: list[str] = []
        flatten(self.lines, out)
        params = ", ".join(p[0] for p in self.params)
        end = "" if self.lines and self.lines[-1] == RETURN[self.returns] else RETURN[self.returns]
        head = f"define {linkage} {self.returns} @{self.name}({params}) {attributes} {{\nentry:"
        return "\n".join([head, *self.allocas, *out, end, "}\n"])


RETURN = {"void": "  ret void", "i32": "  ret i32 0"}


def flatten(lines: list, out: list) -> None:
    for line in lines:
        if type(line) is list:
            flatten(line, out)
        else:
            out.append(line)


@contextlib.contextmanager
def loop_over(fn: Function, shape):
    """Nested loops over a shape; gives the index."""
    with contextlib.ExitStack() as stack:
        yield tuple(stack.enter_context(fn.loop(n)) for n in shape)
