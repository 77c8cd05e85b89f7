"""What was compiled, as data: kernels, loops, buffers, calls.  `str` of it is for reading."""

from __future__ import annotations

import dataclasses

from . import nest


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One nest of loops: its iteration space, its results, and the operations fused into it."""

    name: str
    shape: tuple[int, ...]
    results: int
    operations: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class LoopReport:
    """One loop: steps, bytes kept per step for the backward pass, and where each carry lives."""

    steps: int
    kept_bytes: int
    carries: tuple[str, ...]
    reverse: bool
    stops: bool = False  # whether it may take fewer steps


@dataclasses.dataclass
class Report:
    name: str
    kernels: list[Kernel] = dataclasses.field(default_factory=list)
    loops: list[LoopReport] = dataclasses.field(default_factory=list)
    library_calls: dict[str, int] = dataclasses.field(default_factory=dict)
    host_calls: list[str] = dataclasses.field(default_factory=list)
    branches: list[int] = dataclasses.field(default_factory=list)  # the number of blocks of each
    checks: int = 0
    taken: dict[int, int] = dataclasses.field(
        default_factory=dict
    )  # result -> the argument whose storage it has
    workspace: int = 0  # bytes of the call's own memory, in which buffers share places
    buffers: list[int] = dataclasses.field(default_factory=list)  # bytes of each buffer

    def kernel(self, stage, plan) -> None:
        names: list[str] = []
        seen: set = set()
        stack = list(reversed(stage.forms))
        while stack:
            f = stack.pop()
            if id(f) in seen:
                continue
            seen.add(id(f))
            names.append(label(f))
            for x in f.inputs:
                if plan.role.get(x) == "inline":
                    stack.append(plan.form_of[x])
        self.kernels.append(
            Kernel(f"nest{len(self.kernels) + 1}", stage.space, len(stage.forms), tuple(names))
        )

    def loop(self, steps, kept, carries, reverse, stops=False) -> None:
        self.loops.append(LoopReport(steps, kept, tuple(carries), reverse, stops))

    def branch(self, blocks: int) -> None:
        self.branches.append(blocks)

    def library(self, name: str) -> None:
        self.library_calls[name] = self.library_calls.get(name, 0) + 1

    def host(self, name: str) -> None:
        self.host_calls.append(name)

    def __str__(self) -> str:
        buffers = (
            f"{len(self.buffers)} buffers in a workspace of {self.workspace} bytes"
            if self.buffers
            else "no buffers"
        )
        lines = [f"program {self.name}: {buffers}"]
        for k in self.kernels:
            shape = " x ".join(map(str, k.shape)) or "one"
            lines.append(f"  {k.name}: {shape}, {k.results} results, fuses {', '.join(k.operations)}")
        for loop in self.loops:
            way = " backwards" if loop.reverse else ""
            carries = ", ".join(loop.carries) or "none"
            most = "up to " if loop.stops else ""
            lines.append(
                f"  loop: {most}{loop.steps} steps{way}, keeps {loop.kept_bytes} bytes a step, carry in {carries}"
            )
        for n in self.branches:
            lines.append(f"  branch: one of {n} blocks")
        if self.checks:
            lines.append(f"  checks: {self.checks}")
        for result, argument in self.taken.items():
            lines.append(f"  result {result}: in the storage of argument {argument}")
        for name, n in self.library_calls.items():
            lines.append(f"  library: {name} x {n}")
        for name in self.host_calls:
            lines.append(f"  host: {name}")
        return "\n".join(lines)


def label(f) -> str:
    if isinstance(f, nest.Elementwise):
        return f.op
    if isinstance(f, nest.Reduce):
        return f"{f.op} over {list(f.axes)}"
    return type(f).__name__.lower()
