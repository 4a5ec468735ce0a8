"""A second version of a graph function that measures each kernel call.

The function calls its kernels directly, so they cannot be measured from outside: this version reads
a clock around each call and accumulates nanoseconds in an array. Only this function is
recompiled; the kernels are those of the executable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.expr import GlobalVar
from ...ir.functor import rewrite
from ...ir.op import Op
from ...ir.prim_expr import Call, Var
from ...ir.prim_op import add, subtract
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

    def __init__(self, name: str, func: PrimFunc, entry: Signature, program: NativeProgram) -> None:
        timed, self.names, self.times = _timed(func)
        timed_only, entries = {name: timed}, {name: entry}
        self.program = build_program(
            {}, timed_only, entries, program.target, compiled=program, threads=program.threads
        )
        self.native: NativeFunction = self.program.load()[name]
        self.native.signature = entry

    def __call__(self, args: Sequence[Tensor | np.ndarray], number: int) -> Profile:
        """Call `number` times."""
        profile = Profile()
        for _ in range(number):
            self.times[...] = 0
            self.native(*args)
            for name, ns in zip(self.names, self.times.tolist(), strict=True):
                profile.add(name, ns / 1e3)
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


def _timed(func: PrimFunc) -> tuple[PrimFunc, list[str], np.ndarray]:
    """The function with clocks, the names of the measured parts, the array of nanoseconds."""
    names: list[str] = []
    rewrite(func.body, lambda node: names.append(n) if (n := _called(node)) else None)
    room = np.zeros(len(names) + 8, np.int64)
    start = -room.ctypes.data % 64 // 8
    times = room[start : start + len(names)]
    pointer = Var("times", "handle", type_annotation=("int64", "global"))
    buffer = decl_buffer((len(names),), "int64", "times", pointer)
    count = iter(range(len(names)))

    def clocked(node: Node) -> Any:
        if not _called(node):
            return None
        k, begin = next(count), Var("begin", "int64")
        spent = add(BufferLoad(buffer, [k]), subtract(_CLOCK, begin))
        return st.LetStmt(begin, _CLOCK, st.seq(node, st.BufferStore(buffer, spent, [k])))

    body = rewrite(func.body, clocked)
    if names:
        body = st.AllocateConst(pointer, "int64", (len(names),), Tensor(times), body)
    return func.replace(body=body), names, times
