"""One LLVM module that is being built: its functions, declarations, externs and workspace.

Nothing in the text is an address.  What a program needs from outside (captured arrays, library
pointers, callbacks) stands in a table of *externs* that each call passes; `externs` lists what the
table holds.
"""

from __future__ import annotations

import contextlib
import functools

from . import jit, math
from .function import LLVM, SIZE, Function
from .index import Idx, Value, affine

STATUS = 16  # int64 words: code, value, lane, site, number of loops around it, their steps
STEPS = 5  # the first word of the steps
UNLIMITED = 1 << 32  # threads
INDEX, NOT_POSITIVE, SINGULAR, HOST, CHECK = 1, 2, 3, 4, 5
EIGENVALUES, SINGULAR_VALUES, NOT_FINITE = 6, 7, 8

FAIL = """define internal i1 @fail(ptr %status, i64 %code, i64 %value, i64 %lane, i64 %site) cold noinline nounwind {
entry:
  %old = load i64, ptr %status
  %first = icmp eq i64 %old, 0
  br i1 %first, label %record, label %done
record:
  store i64 %code, ptr %status
  %p1 = getelementptr i64, ptr %status, i64 1
  store i64 %value, ptr %p1
  %p2 = getelementptr i64, ptr %status, i64 2
  store i64 %lane, ptr %p2
  %p3 = getelementptr i64, ptr %status, i64 3
  store i64 %site, ptr %p3
  ret i1 true
done:
  ret i1 false
}
"""


FIRST_FAILURE = f"""declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define internal void @first_failure(ptr %status, ptr %statuses, i64 %count) noinline nounwind {{
entry:
  %old = load i64, ptr %status
  %none = icmp eq i64 %old, 0
  br i1 %none, label %chunk, label %done
chunk:
  %i = phi i64 [ 0, %entry ], [ %next, %more ]
  %own = getelementptr [{STATUS} x i64], ptr %statuses, i64 %i
  %code = load i64, ptr %own
  %failed = icmp ne i64 %code, 0
  br i1 %failed, label %copy, label %more
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %status, ptr %own, i64 {8 * STATUS}, i1 false)
  ret void
more:
  %next = add i64 %i, 1
  %last = icmp eq i64 %next, %count
  br i1 %last, label %done, label %chunk
done:
  ret void
}}
"""


@functools.lru_cache(None)
def vector_widths() -> tuple[tuple[str, int], ...]:
    """libmvec's variants that this machine runs: (letter, bytes); none where there is no libmvec."""
    if jit.target().libmvec is None:
        return ()
    features = jit.target().features
    widths = [("b", 16)]
    if features.get("avx2"):
        widths.append(("d", 32))
    if features.get("avx512f"):
        widths.append(("e", 64))
    return tuple(widths)


class Workspace:
    """Offsets into the call's workspace, first fit, given back when a buffer dies."""

    def __init__(self):
        self.free: list[list[int]] = []  # [start, stop), ordered
        self.end = 0
        self.live: dict[int, int] = {}
        self.taken: list[int] = []  # bytes of every buffer there was, in the order they were needed

    def take(self, size: int) -> int:
        self.taken.append(size)
        size = -(-max(size, 64) // 64) * 64
        for gap in self.free:
            if gap[1] - gap[0] >= size:
                start = gap[0]
                gap[0] += size
                if gap[0] == gap[1]:
                    self.free.remove(gap)
                break
        else:
            start = self.end
            if self.free and self.free[-1][1] == self.end:
                start = self.free.pop()[0]
            self.end = start + size
        self.live[start] = size
        return start

    def give(self, start: int) -> None:
        stop = start + self.live.pop(start)
        self.free = sorted([*self.free, [start, stop]])
        merged: list[list[int]] = []
        for gap in self.free:
            if merged and merged[-1][1] == gap[0]:
                merged[-1][1] = gap[1]
            else:
                merged.append(gap)
        self.free = merged


class Unit:
    def __init__(self, name: str, threads: int | None = None):
        self.name = name
        self.threads = threads or UNLIMITED  # that a nest may run on, the caller's included
        self.declarations: dict[str, None] = {}
        self.definitions: dict[str, str] = {}
        self.attributes: dict[str, str] = {}
        self.vector_symbols: dict[str, str] = {}
        self.rolled_loops = 0
        self.externs: list = []
        self.extern_slots: dict = {}
        self.functions: list[str] = []
        self.workspace = Workspace()
        self.products: set = set()
        self.atoms = 0
        self.kernels = 0
        self.fn: Function | None = None
        self.steps: list = []  # (row, loop, function, scope) of the loops around, outermost first
        self.plain = False
        self.checks: list = []  # what makes the exception of each check
        self.externs_pointer = self.status = self.workspace_pointer = None
        self.report = None

    # module-level text --------------------------------------------------------------------------

    def declare(self, text: str) -> None:
        self.declarations[text] = None

    def define(self, name: str, text: str) -> None:
        self.definitions[name] = text

    def libm(self, symbol: str, t: str, arity: int, vector: bool) -> None:
        if symbol in self.attributes:
            return
        variants = []
        if vector:
            for letter, width in vector_widths():
                n = width // (4 if t == "float" else 8)
                name = f"_ZGV{letter}N{n}{'v' * arity}_{symbol}"
                if not hasattr(jit.target().libmvec, name):  # older glibc have only some
                    continue
                variants.append(f"_ZGV_LLVM_N{n}{'v' * arity}_{symbol}({name})")
                args = ", ".join([f"<{n} x {t}>"] * arity)
                self.vector_symbols[name] = f"declare <{n} x {t}> @{name}({args})"
        text = f' "vector-function-abi-variant"="{",".join(variants)}"' if variants else ""
        self.attributes[symbol] = f"{{ nounwind willreturn memory(none){text} }}"
        number = 10 + len(self.attributes)
        self.declare(f"declare {t} @{symbol}({', '.join([t] * arity)}) #{number}")
        self.attributes[symbol] = f"attributes #{number} = {self.attributes[symbol]}"

    def rolled(self) -> str:
        """Metadata of a loop that is not unrolled: a node of its own."""
        self.rolled_loops += 1
        return f"!{99 + self.rolled_loops}"

    def plain_loop(self) -> str:
        """Metadata of a loop that is as it should be: not to be unrolled or vectorised."""
        self.plain = True
        return "!1"

    def extern(self, key, item) -> int:
        """The slot of something that arrives through the table of externs."""
        slot = self.extern_slots.get(key)
        if slot is None:
            slot = self.extern_slots[key] = len(self.externs)
            self.externs.append(item)
        return slot

    def workspace_buffer(self, kind, shape, depth: int = 0):
        """A buffer that lives as long as the call, or until its place is given back."""
        from .source import Buffer

        count = 1
        for n in shape:
            count *= n
        place = self.workspace.take(SIZE[kind] * count)
        fn, ws = self.fn, self.workspace_pointer
        base = fn.put(f"getelementptr i8, ptr {fn.name_of(ws)}, i64 {place}", "p", ws)
        b = Buffer(base, kind, shape, depth=depth)
        b.place = place
        return b

    def load_extern(self, fn: Function, slot: int) -> Value:
        table = self.externs_pointer
        p = fn.put(f"getelementptr ptr, ptr {fn.name_of(table)}, i64 {slot}", "p", table)
        return fn.put(f"load ptr, ptr {p.name}, !invariant.load !0", "p", p)

    def text(self) -> str:
        out = [f'; rune program "{self.name}"']
        out += self.declarations
        out += self.vector_symbols.values()
        if self.vector_symbols:
            names = ", ".join(f"ptr @{n}" for n in self.vector_symbols)
            out.append(
                f"@llvm.compiler.used = appending global [{len(self.vector_symbols)} x ptr] [{names}], "
                'section "llvm.metadata"'
            )
        out += self.definitions.values()
        out += self.functions
        out.append('attributes #0 = { nounwind "prefer-vector-width"="512" "no-trapping-math"="true" }')
        out.append("attributes #1 = { nounwind willreturn memory(none) }")
        out.append(
            'attributes #2 = { noinline nounwind "prefer-vector-width"="512" "no-trapping-math"="true" }'
        )
        out += self.attributes.values()
        out.append("!0 = !{}")
        out.append('!2 = !{!"llvm.loop.unroll.disable"}')
        if self.plain:
            out.append("!1 = distinct !{!1, !2, !3}")
            out.append('!3 = !{!"llvm.loop.vectorize.enable", i1 false}')
        out += [f"!{n} = distinct !{{!{n}, !2}}" for n in range(100, 100 + self.rolled_loops)]
        return "\n".join(out) + "\n"

    # functions ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def function(self, name: str):
        """A function of its own, called where it was opened; values of the enclosing one are lifted."""
        parent = self.fn
        fn = self.fn = Function(self, name, parent)
        yield fn
        self.fn = parent
        self.functions.append(fn.text(attributes="#2"))
        args = []
        for declaration, v, which in fn.params:
            name_of = parent.name_of if which == "re" else parent.imag_of
            args.append(f"{declaration.split()[0]} {name_of(v)}")
        call = f"call {fn.returns} @{name}({', '.join(args)})"
        if fn.returns == "i32":
            self.stop_if_failed(parent.here(call, "i4"))
        else:
            parent.line(call)

    @contextlib.contextmanager
    def task(self, name: str, count: int):
        """A function that is run for chunks 0 .. count - 1 by the pool of threads; gives the chunk."""
        parent = self.fn
        fn = self.fn = Function(self, name, parent)
        yield Value("%chunk", "i8", 0, fn)
        self.fn = parent
        params = list(fn.params)
        fn.params.append(("i64 %chunk", None, "re"))
        self.functions.append(fn.text(attributes="#2"))
        context = f"%a{parent.fresh()}"
        parent.allocas.append(f"  {context} = alloca [{max(1, len(params))} x i64], align 16")
        unpack, args = [], []
        statuses = self.statuses(count) if self.status in fn.lifted else None
        for k, (declaration, v, which) in enumerate(params):
            type = declaration.split()[0]
            v = statuses if v is self.status else v
            value = (parent.name_of if which == "re" else parent.imag_of)(v)
            p = parent.here(f"getelementptr i64, ptr {context}, i64 {k}", "p")
            parent.line(f"store {type} {value}, ptr {p.name}")
            unpack.append(
                f"  %q{k} = getelementptr i64, ptr %context, i64 {k}\n  %x{k} = load {type}, ptr %q{k}"
            )
            args.append(f"{type} %x{k}")
            if v is statuses:
                unpack.append(f"  %own = getelementptr [{STATUS} x i64], ptr %x{k}, i64 %chunk")
                args[-1] = "ptr %own"
        args.append("i64 %chunk")
        self.functions.append(
            "\n".join([f"define internal void @{name}.task(ptr %context, i64 %chunk) #2 {{\nentry:", *unpack])
            + f"\n  call void @{name}({', '.join(args)})\n  ret void\n}}\n"
        )
        run = self.load_extern(parent, self.extern(("threads", "parallel"), ("threads", "parallel")))
        pool = self.load_extern(parent, self.extern(("threads", "pool"), ("threads", "pool")))
        parent.line(
            f"call void {parent.name_of(run)}(ptr {parent.name_of(pool)}, ptr @{name}.task, "
            f"ptr {context}, i64 {count}, i64 {self.threads})"
        )
        if statuses is not None:
            names = parent.name_of(self.status), parent.name_of(statuses)
            parent.line(f"call void @first_failure(ptr {names[0]}, ptr {names[1]}, i64 {count})")

    def statuses(self, count: int) -> Value:
        """A status for each chunk of a task: the first chunk that failed says what the call says."""
        fn, ws = self.fn, self.workspace_pointer
        bytes = 8 * STATUS * count
        place = self.workspace.take(bytes)
        self.workspace.give(place)  # it is read before anything else is written there
        table = fn.put(f"getelementptr i8, ptr {fn.name_of(ws)}, i64 {place}", "p", ws)
        self.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        self.define("first_failure", FIRST_FAILURE)
        fn.line(f"call void @llvm.memset.p0.i64(ptr {fn.name_of(table)}, i8 0, i64 {bytes}, i1 false)")
        return table

    def stop_if_failed(self, code: Value) -> None:
        """Leaves the function where a code is not 0: a check failed in a call inside it, a host call raised."""
        fn = self.fn
        fn.branch(math.cmp(fn, "ne", code, math.num(0, code)), self.leave, None)

    def leave(self) -> None:
        """Leaves the function, and its callers, here."""
        fn = self.fn
        fn.returns = "i32"
        fn.top.ins.append(f"  ret i32 1\nR{fn.fresh()}:")

    def kernel_name(self, what: str = "nest") -> str:
        self.kernels += 1
        return f"{what}{self.kernels}"

    # elements -----------------------------------------------------------------------------------

    def element(self, source, index: tuple) -> Value:
        """The element of an array at an index, computed once per scope where it is valid."""
        fn = self.fn
        if source.direct:
            v = source.known(index)
            if v is not None:
                return v
        key = (source, index)
        for scope in reversed(fn.scopes):
            v = scope.memo.get(key)
            if v is not None:
                return v
        v = source.element(self, index)
        if v.fn is fn:
            fn.place(v.depth).memo[key] = v
        else:
            fn.place(0).memo[key] = v
        return v

    def bounded(self, v: Value, size: int, axis: int, error=None, lane: Idx | int = 0) -> Idx | int:
        """A traced index made safe; one out of range is recorded in the call's status where that is an `error`."""
        fn = self.fn
        if v.fn is None:
            i = int(v.name)
            if -size <= i < size:
                return i % size
        key = ("bounded", v, size, axis, error is None)
        for scope in reversed(fn.scopes):
            if key in scope.memo:
                return scope.memo[key]
        wide = math.cast(fn, v, "i8")
        if v.kind[0] == "u":
            wrapped = wide
        else:
            negative = math.cmp(fn, "slt", wide, math.num(0, wide))
            plus = math.I(fn, "add", wide, math.num(size, wide))
            wrapped = math.select(fn, negative, plus, wide)
        inside = math.cmp(fn, "ult", wrapped, math.num(size, wide))
        safe = math.select(fn, inside, wrapped, math.num(0, wide))
        depth = fn.depth_of(inside)
        if error is not None:
            depth = max(depth, fn.floor)
            site = self.site(functools.partial(error, axis))
            with fn.upto(depth):
                self.fail(math.not_(fn, inside), INDEX, wide, lane, site)
        index = Idx(((fn.atom(safe, 0, max(size - 1, 0)), 1),), 0)
        if safe.fn is None:
            index = 0
        fn.place(depth).memo[key] = index
        return index

    def fail(self, condition: Value, code: int, value: Value | None = None, lane=0, site=0) -> None:
        """Records a failure where the condition holds."""
        self.fn.branch(condition, lambda: self.record(code, value, lane, site), None)

    def record(self, code: int, value: Value | None = None, lane: Idx | int = 0, site=0) -> None:
        """Records a failure here, with the steps of the loops around; the call's first one counts.

        What fails before the loop over some lanes fails in all of them: the first one is named.
        """
        fn, status = self.fn, self.status
        self.define("fail", FAIL)
        v = "0" if value is None else fn.name_of(value)
        if isinstance(lane, Idx):
            lane = affine(
                {a: c for a, c in lane.terms if a.fn is not fn or a.depth < len(fn.scopes)}, lane.const
            )
        words = f"i64 {code}, i64 {v}, i64 {fn.name_of(fn.index(lane))}, i64 {site}"
        first = fn.here(f"call i1 @fail(ptr {fn.name_of(status)}, {words})", "b1")

        def word(k, v) -> None:
            p = fn.put(f"getelementptr i64, ptr {fn.name_of(status)}, i64 {k}", "p", status)
            fn.line(f"store i64 {v}, ptr {p.name}")

        steps = [fn.index(i) for i in self.steps_here()]

        def where() -> None:
            word(STEPS - 1, len(steps))
            for k, i in enumerate(steps):
                word(STEPS + k, fn.name_of(i))

        if steps:
            fn.branch(first, where, None)

    def steps_here(self) -> list:
        """The steps of the loops around that are known in this scope, as many as the status has room for."""
        fn, known, before = self.fn, [], 0
        for row, loop, owner, scope in self.steps:
            if owner is fn and scope not in fn.scopes:
                continue  # what does not depend on a loop is tested before it, where the loop has no step yet
            if loop.segment is not None:
                before = before + row * loop.segment
                continue
            known.append(before + row + loop.first)
            before = 0
        return known[: STATUS - STEPS]

    def site(self, error) -> int:
        """The number of a check, whose exception `error` makes."""
        self.checks.append(error)
        return len(self.checks) - 1


__all__ = [
    "CHECK", "EIGENVALUES", "HOST", "INDEX", "LLVM", "NOT_FINITE", "NOT_POSITIVE", "SINGULAR", "SINGULAR_VALUES", "SIZE",
    "STATUS", "STEPS", "Unit",
]  # fmt: skip
