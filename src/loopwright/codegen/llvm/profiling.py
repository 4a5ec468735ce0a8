"""A second version of a graph function that measures each kernel call.

The function calls its kernels directly, so they cannot be measured from outside: this version reads
a clock around each call and accumulates nanoseconds in an array. Only this function, and the graph functions
that it calls, are recompiled; the kernels are those of the executable.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.expr import GlobalVar
from ...ir.functor import nodes_of, rewrite
from ...ir.op import Op
from ...ir.prim_expr import Call, Var
from ...ir.prim_op import add, const, subtract
from ...runtime.native import NativeFunction
from ...runtime.profiler import Profile
from ...runtime.tensor import Tensor
from ...tir import stmt as st
from ...tir.buffer import decl_buffer
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc
from .build import NativeProgram, build_program

if TYPE_CHECKING:
    from ...ir.node import Node
    from ...runtime.signature import Signature

_CLOCK = Call("int64", "tir.call_extern", ["lw_clock"])


class TimedFunction:
    """A native graph function whose kernel calls are measured."""

    def __init__(
        self, name: str, graphs: Mapping[str, PrimFunc], entry: Signature, program: NativeProgram
    ) -> None:
        reached, self.parts = [name], list[tuple[list[str], np.ndarray]]()
        timed: dict[str, PrimFunc] = {}
        for caller in reached:
            timed[caller], names, times = _timed(graphs[caller], graphs)
            self.parts.append((names, times))
            called = map(_called, nodes_of(graphs[caller].body, st.Evaluate))
            callees = {c for c in called if c is not None and c in graphs}
            reached += sorted(callees - set(reached))
        self.program = build_program(
            {}, timed, {name: entry}, program.target, compiled=program, threads=program.threads
        )
        self.native: NativeFunction = self.program.load()[name]
        self.native.signature = entry

    def __call__(self, args: Sequence[Tensor | np.ndarray], number: int) -> Profile:
        """Call `number` times."""
        profile = Profile()
        for _ in range(number):
            for _, times in self.parts:
                times[...] = 0
            self.native(*args)
            for names, times in self.parts:
                for name, ns, calls in zip(names, *times.tolist(), strict=True):
                    if calls:
                        profile.add(name, ns / 1e3, calls)
        return profile


def _called(node: Node) -> str | None:
    """The callee of a statement: a kernel, or a C function such as memcpy."""
    call = node.value if isinstance(node, st.Evaluate) else None
    if not isinstance(call, Call):
        return None
    if isinstance(call.op, GlobalVar):
        return call.op.name_hint
    if isinstance(call.op, Op) and call.op.name == "tir.call_extern":
        return str(call.args[0].value)
    return None


def _timed(func: PrimFunc, graphs: Container[str]) -> tuple[PrimFunc, list[str], np.ndarray]:
    """The function with clocks, except around calls of graph functions; the names of the measured parts; an array of
    their nanoseconds and calls."""
    names: list[str] = []

    def measured(node: Node) -> str | None:
        name = _called(node)
        return None if name is None or name in graphs else name

    rewrite(func.body, lambda node: names.append(n) if (n := measured(node)) else None)
    room = np.zeros(2 * len(names) + 8, np.int64)
    start = -room.ctypes.data % 64 // 8
    times = room[start : start + 2 * len(names)].reshape(2, -1)
    pointer = Var("times", "handle", type_annotation=("int64", "global"))
    buffer = decl_buffer((times.size,), "int64", "times", pointer)
    count = iter(range(len(names)))

    def clocked(node: Node) -> Any:
        if not measured(node):
            return None
        k, begin = next(count), Var("begin", "int64")
        added = {k: subtract(_CLOCK, begin), k + len(names): const(1, "int64")}
        spent = [
            st.BufferStore(buffer, add(BufferLoad(buffer, [at]), value), [at])
            for at, value in added.items()
        ]
        return st.LetStmt(begin, _CLOCK, st.seq(node, *spent))

    body = rewrite(func.body, clocked)
    if names:
        body = st.AllocateConst(pointer, "int64", (times.size,), Tensor(times.reshape(-1)), body)
    return func.replace(body=body), names, times
