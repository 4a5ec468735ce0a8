"""The lines of one LLVM function: instructions, labels, and the numbering of equal values."""

from __future__ import annotations

import itertools
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType
from ...ir.prim_expr import Var
from .types import flag_type, llvm_type, mangle, scalar_type


class Lines:
    """Writes instructions into `self.lines`.

    A pure instruction is written once where its first occurrence dominates the next (`value`):
    `known` maps its text to its result, `trail` says what to forget when a scope ends.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.env: dict[Var, str] = {}
        self.numbers = itertools.count()
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.known: dict[str, str] = {}
        self.trail: list[str] = []
        self.block = "entry"
        self.indexing = False  # the value is an index: it does not overflow
        self.mask: tuple[str, int] | None = None  # the lanes in which a value is wanted

    def emit(self, line: str) -> None:
        """One instruction."""
        self.lines.append(f"  {line}")

    def fresh(self, instruction: str) -> str:
        """The result of an instruction, always written."""
        name = f"%v{next(self.numbers)}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def value(self, instruction: str) -> str:
        """The result of a pure instruction, written once."""
        found = self.known.get(instruction)
        if found is None:
            found = self.known[instruction] = f"%v{next(self.numbers)}"
            self.trail.append(instruction)
            self.lines.append(f"  {found} = {instruction}")
        return found

    def forget(self, mark: int) -> None:
        """End the scope that began when the trail was `mark` long."""
        trail = self.trail
        for instruction in trail[mark:]:
            del self.known[instruction]
        del trail[mark:]

    def label(self, hint: str) -> str:
        """A fresh label."""
        return f"{hint}.{next(self.numbers)}"

    def place(self, label: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """An unconditional branch."""
        self.lines.append(f"  br label %{label}")

    def jump_if(self, cond: str, yes: str, no: str) -> None:
        """A conditional branch."""
        self.lines.append(f"  br i1 {cond}, label %{yes}, label %{no}")

    def slot(self, kind: str, align: int = 8) -> str:
        """Room on the stack, made in the entry block."""
        name = f"%stack.{next(self.numbers)}"
        self.allocas.append(f"  {name} = alloca {kind}, align {align}")
        return name

    # -- instructions --------------------------------------------------------------------------

    def intrinsic(self, name: str, dtype: DataType, *args: str) -> str:
        """The overloaded intrinsic `llvm.<name>` on values of one type."""
        kind = llvm_type(dtype)
        full = f"llvm.{name}.{mangle(dtype)}"
        self.module.declare(full, f"declare {kind} @{full}({', '.join([kind] * len(args))})")
        return self.value(f"call {kind} @{full}({', '.join(f'{kind} {a}' for a in args)})")

    def op(self, name: str, dtype: DataType, a: str, b: str) -> str:
        """A binary instruction."""
        return self.value(f"{name} {llvm_type(dtype)} {a}, {b}")

    def test(self, name: str, dtype: DataType, a: str, b: str) -> str:
        """A comparison ("icmp eq", "fcmp uno")."""
        return self.value(f"{name} {llvm_type(dtype)} {a}, {b}")

    def choose(self, flag: str, yes: str, no: str, dtype: DataType, lanes: int = 0) -> str:
        """LLVM's select; the flag has as many lanes as the values, or `lanes`."""
        kind = llvm_type(dtype)
        flags = flag_type(dtype) if lanes != 1 else "i1"
        return self.value(f"select {flags} {flag}, {kind} {yes}, {kind} {no}")

    def splat(self, text: str, dtype: DataType) -> str:
        """A literal as a vector of equal lanes."""
        return text if dtype.lanes == 1 else f"splat ({scalar_type(dtype)} {text})"

    def spread(self, value: str, dtype: DataType) -> str:
        """A scalar value in every lane."""
        base, kind = scalar_type(dtype), llvm_type(dtype)
        if value[0] != "%" and base != "ptr":
            return f"splat ({base} {value})"
        one = self.value(f"insertelement {kind} poison, {base} {value}, i64 0")
        zeros = f"<{dtype.lanes} x i32> zeroinitializer"
        return self.value(f"shufflevector {kind} {one}, {kind} poison, {zeros}")

    def shuffled(self, kind: str, a: str, b: str, places: Any) -> str:
        """Lanes of two vectors of a type, by number."""
        picks = ", ".join(f"i32 {k}" for k in places)
        return self.value(
            f"shufflevector {kind} {a}, {kind} {b}, <{picks.count('i32')} x i32> <{picks}>"
        )

    def any_lane(self, mask: str, lanes: int) -> str:
        """Whether a mask holds in some lane."""
        kind, name = f"<{lanes} x i1>", f"llvm.vector.reduce.or.v{lanes}i1"
        self.module.declare(name, f"declare i1 @{name}({kind})")
        return self.value(f"call i1 @{name}({kind} {mask})")

    def to_i64(self, value: str, dtype: DataType) -> str:
        """An integer as i64."""
        if value[0] != "%":
            return {"true": "1", "false": "0"}.get(value, value)
        if dtype.bits == 64:
            return value
        name = "sext" if dtype.is_int else "zext"
        return self.value(f"{name} {scalar_type(dtype)} {value} to i64")

    # -- what the parts need of each other -----------------------------------------------------

    def expr(self, node: Any) -> str:
        """The value of an expression."""
        raise NotImplementedError

    def index(self, node: Any) -> str:
        """The value of an index: it is taken not to overflow."""
        before, self.indexing = self.indexing, True
        value = self.expr(node)
        self.indexing = before
        return value

    def var(self, node: Var) -> str:
        """The value of a variable."""
        found = self.env.get(node)
        return self.undefined(node) if found is None else found

    def undefined(self, node: Var) -> str:
        """The value of a variable that is not in `env`."""
        what = f"variable {node.name} is not defined here"
        raise LoopwrightError(explain(what, span=node.span))
