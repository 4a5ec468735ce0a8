"""The text of one LLVM function under construction: instructions, labels, value numbering."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...ir.dtype import DataType
from ...ir.prim_expr import Var
from ...tir.function import PrimFunc
from ...tir.transform.lower.lower_scalar_ops import ScalarOps
from ..context import Context
from .module_text import ModuleText
from .types import flag_type, llvm_type, mangle, scalar_type

if TYPE_CHECKING:
    from ...tir.stmt import Stmt

# Layout of a task's record: its error, the loop's range, then the captured variables.
ERROR, LOW, EXTENT, CAPTURED = 0, 8, 16, 24


class FunctionText(Context):
    """Appends instructions to `self.lines`.

    A pure instruction is emitted once if its first occurrence dominates the next (`value`):
    `computed` maps its text to its result, `trail` lists what to forget at the end of a scope.
    `outer`: the variables of the function around a task of a parallel loop, else None.
    """

    language, passes = "LLVM", "tir.transform.default_tir_pipeline()"
    scalars = ScalarOps()

    def __init__(
        self, module: ModuleText, name: str, func: PrimFunc, outer: dict[Var, str] | None = None
    ) -> None:
        super().__init__()
        self.module = module
        self.symbol = name
        self.func = func
        self.outer = outer
        self.numbers = itertools.count()
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.computed: dict[str, str] = {}
        self.trail: list[str] = []
        self.block = "entry"
        self.mask: tuple[str, int] | None = None  # the active lanes of a masked choice
        self.returned: DataType | None = None
        self.captured: list[tuple[int, Var]] = []
        self.record_bytes = CAPTURED
        self.can_fail = False
        self.stack_bytes = 0
        self.workspaces: list[str] = []  # workspaces that a return must free
        self.exits: dict[tuple[str, ...], str] = {}  # the way out with workspaces: its label
        self.noted: Any = None

    def emit(self, line: str) -> None:
        """One instruction."""
        self.lines.append(f"  {line}")

    def fresh(self, instruction: str) -> str:
        """The result of an instruction, always emitted."""
        name = f"%v{next(self.numbers)}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def value(self, instruction: str) -> str:
        """The result of a pure instruction, reused if already emitted."""
        name = self.computed.get(instruction)
        if name is None:
            name = self.computed[instruction] = f"%v{next(self.numbers)}"
            self.trail.append(instruction)
            self.lines.append(f"  {name} = {instruction}")
        return name

    def forget(self, mark: int) -> None:
        """End the scope that began with a trail of length `mark`."""
        trail = self.trail
        for instruction in trail[mark:]:
            del self.computed[instruction]
        del trail[mark:]

    def label(self, hint: str) -> str:
        """A fresh label."""
        return f"{hint}.{next(self.numbers)}"

    def start_block(self, label: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """An unconditional branch."""
        self.lines.append(f"  br label %{label}")

    def jump_if(self, cond: str, yes: str, no: str) -> None:
        """A conditional branch."""
        self.lines.append(f"  br i1 {cond}, label %{yes}, label %{no}")

    def scoped(self, emit: Callable[[], None]) -> None:
        """Emit lines whose values are not visible after them."""
        mark = len(self.trail)
        emit()
        self.forget(mark)

    def slot(self, kind: str, align: int = 8) -> str:
        """A stack slot, allocated in the entry block."""
        name = f"%stack.{next(self.numbers)}"
        self.allocas.append(f"  {name} = alloca {kind}, align {align}")
        return name

    # -- instructions --------------------------------------------------------------------------

    def calling(self, result: str, name: str, *args: tuple[str, str]) -> str:
        """The call of a function, which the module declares; arguments are (type, value)."""
        kinds = ", ".join(kind for kind, _ in args)
        self.module.declare(name, f"declare {result} @{name}({kinds})")
        return f"call {result} @{name}({', '.join(f'{kind} {value}' for kind, value in args)})"

    def intrinsic(self, name: str, dtype: DataType, *args: str) -> str:
        """The overloaded intrinsic `llvm.<name>` on values of one type."""
        kind = llvm_type(dtype)
        return self.value(
            self.calling(kind, f"llvm.{name}.{mangle(dtype)}", *((kind, a) for a in args))
        )

    def op(self, name: str, dtype: DataType, a: str, b: str) -> str:
        """A binary instruction or a comparison ("icmp eq")."""
        return self.value(f"{name} {llvm_type(dtype)} {a}, {b}")

    def choose(self, flag: str, yes: str, no: str, dtype: DataType, lanes: int = 0) -> str:
        """LLVM's select; the flag has the lanes of the values, or `lanes`."""
        kind = llvm_type(dtype)
        flags = flag_type(dtype) if lanes != 1 else "i1"
        return self.value(f"select {flags} {flag}, {kind} {yes}, {kind} {no}")

    def splat(self, text: str, dtype: DataType) -> str:
        """A literal in all lanes of a vector."""
        return text if dtype.lanes == 1 else f"splat ({scalar_type(dtype)} {text})"

    def spread(self, value: str, dtype: DataType) -> str:
        """A scalar value in every lane."""
        base, kind = scalar_type(dtype), llvm_type(dtype)
        if value[0] != "%" and base != "ptr":
            return f"splat ({base} {value})"
        one = self.value(f"insertelement {kind} poison, {base} {value}, i64 0")
        zeros = f"<{dtype.lanes} x i32> zeroinitializer"
        return self.value(f"shufflevector {kind} {one}, {kind} poison, {zeros}")

    def shuffled(self, kind: str, a: str, b: str, lanes: Iterable[int]) -> str:
        """A shuffle of two vectors of one type by lane numbers."""
        picks = ", ".join(f"i32 {k}" for k in lanes)
        return self.value(
            f"shufflevector {kind} {a}, {kind} {b}, <{picks.count('i32')} x i32> <{picks}>"
        )

    def any_lane(self, mask: str, lanes: int) -> str:
        """Whether any lane of a mask is set."""
        args = (f"<{lanes} x i1>", mask)
        return self.value(self.calling("i1", f"llvm.vector.reduce.or.v{lanes}i1", args))

    def to_i64(self, value: str, dtype: DataType) -> str:
        """An integer as i64."""
        if value[0] != "%":
            return {"true": "1", "false": "0"}.get(value, value)
        if dtype.bits == 64:
            return value
        name = "sext" if dtype.is_int else "zext"
        return self.value(f"{name} {scalar_type(dtype)} {value} to i64")

    # -- variables -----------------------------------------------------------------------------

    def var(self, node: Var) -> str:
        """The value of a variable; one defined outside a parallel loop is captured for its
        tasks."""
        value = self.env.get(node)
        if value is None:
            value = None if self.outer is None else self.outer.get(node)
            if value is None:
                raise self.undefined(node)
            if value[0] == "%":
                at = self.record_bytes
                self.captured.append((at, node))
                self.record_bytes += max(8, -(-node.dtype.lane_bytes * node.dtype.lanes // 8) * 8)
                value = self.field(at, llvm_type(node.dtype))
            self.env[node] = value
        return value

    def field(self, at: int, kind: str) -> str:
        """A field of the task's record, loaded in the entry block."""
        name = f"%field.{at}"
        self.allocas.append(f"  {name}.at = getelementptr i8, ptr %data, i64 {at}")
        self.allocas.append(f"  {name} = load {kind}, ptr {name}.at, align 8")
        return name

    # -- comments, returns ---------------------------------------------------------------------

    def note(self, node: PrimFunc | Stmt) -> None:
        """Emit a comment that says which node the next lines implement."""
        span = node.span
        if span is not None and span is not self.noted:
            self.noted = span
            self.lines.append("  ; " + str(span).replace("\n", " "))

    def finish(self, header: str) -> None:
        """Close the body and hand the definition to the module."""
        self.emit_exits()
        self.module.definitions.append([f"{header} {{", "entry:", *self.allocas, *self.lines, "}"])

    def release_all(self) -> None:
        """Free the workspaces that are live here."""
        for pointer in reversed(self.workspaces):
            self.emit(f"call void @lw_workspace_free(ptr {pointer})")

    def leave_failed(self) -> None:
        """Return after an error was raised; a task passes it to the thread that launched it."""
        self.release_all()
        self.can_fail = True
        if self.outer is None:
            self.emit("ret i32 -1")
            return
        self.emit(self.calling("void", "lw_task_failed", ("ptr", "%data")))
        self.emit("ret void")

    def leave_if(self, failed: str, raise_error: Callable[[], None]) -> None:
        """Leave if a condition holds, after `raise_error` raises an error."""
        bad, good = self.label("fail"), self.label("ok")
        self.jump_if(failed, bad, good)
        self.start_block(bad)
        self.scoped(raise_error)
        self.leave_failed()
        self.start_block(good)

    def check(self, call: str) -> None:
        """A call that may raise; leave if it returns non-zero, by one way for all such calls."""
        failed, good = self.fresh(f"icmp ne i32 {self.fresh(call)}, 0"), self.label("ok")
        live = tuple(self.workspaces)
        self.jump_if(failed, self.exits.setdefault(live, f"exit{len(self.exits)}"), good)
        self.can_fail = True
        self.start_block(good)

    def emit_exits(self) -> None:
        """The ways out of failed calls."""
        for live, label in self.exits.items():
            self.start_block(label)
            self.workspaces = list(live)
            self.leave_failed()
        self.exits = {}
