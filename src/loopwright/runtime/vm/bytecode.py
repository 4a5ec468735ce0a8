"""Programs of the virtual machine: instructions, functions, constants.

A function has registers, of which the first are its arguments. There are four instructions: call a
function, return a register, jump, and jump if a condition is false. Jumps are relative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from ...base.errors import UnknownName, explain
from ...base.late import Slot
from ..tensor import ShapeTuple, Tensor

# Libraries are written by what loads them.
EXPORT_PROGRAM: Slot[Callable[[Any, Path], Path]] = Slot("runtime.export_program")


class VMFuncKind(IntEnum):
    """The kind of a function: a packed function by name, bytecode, or bytecode that was made with
    exec_mode="compiled": TVM has native code there, here both run as generated code."""

    PACKED_FUNC = 0
    VM_FUNC = 1
    VM_TIR_FUNC = 2


class Operand(NamedTuple):
    """An argument of a call. kind: "r" register, "i" number, "c" constant, "f" function, "vm" the
    machine."""

    kind: str
    value: int = 0

    def text(self, program: VMExecutable) -> str:
        """`%1` a register, `i2` a number, `c[0]` a constant, `f[name]` a function."""
        if self.kind == "f":
            return f"f[{program.functions[self.value].name}]"
        return _TEXT[self.kind].format(self.value)


_TEXT = {"r": "%{}", "i": "i{}", "c": "c[{}]", "vm": "%vm"}


class Call(NamedTuple):
    """Call function number `func`; the result is stored in register `dst`, or dropped (None)."""

    func: int
    args: tuple[Operand, ...]
    dst: int | None


class Ret(NamedTuple):
    """Return a register."""

    register: int


class Goto(NamedTuple):
    """Jump by an offset."""

    offset: int


class If(NamedTuple):
    """Fall through if the condition in a register holds, else jump by an offset."""

    register: int
    offset: int


Instruction = Call | Ret | Goto | If


@dataclass
class VMFunction:
    """A function of a program. `locations[k]` is the source of instruction `k`, or ""."""

    name: str
    kind: VMFuncKind = VMFuncKind.PACKED_FUNC
    params: list[str] = field(default_factory=list)
    code: list[Instruction] = field(default_factory=list)
    locations: list[str] = field(default_factory=list)
    registers: int = 0


class VMExecutable:
    """A program: functions and constants. Make one with `ExecBuilder`; a `VirtualMachine` runs it.

    natives: functions that it calls by name before those of the runtime's table.
    """

    def __init__(
        self,
        functions: Sequence[VMFunction] = (),
        constants: Sequence[Any] = (),
        natives: Any = None,
    ) -> None:
        self.functions = list(functions)
        self.constants = list(constants)
        self.natives: dict[str, Any] = dict(natives or {})
        self.index = {f.name: k for k, f in enumerate(self.functions)}

    def function(self, name: str) -> VMFunction:
        """The function of that name. Raises KeyError with the known names."""
        if name not in self.index:
            have = ", ".join(self.function_names()) or "none"
            raise UnknownName(
                explain("no function of this name", got=name, instead=f"one of: {have}")
            )
        return self.functions[self.index[name]]

    def own(self) -> list[VMFunction]:
        """The functions that are code of the program."""
        return [f for f in self.functions if f.kind is not VMFuncKind.PACKED_FUNC]

    def function_names(self) -> list[str]:
        """The functions that can be called."""
        return [f.name for f in self.own()]

    def input_names(self, name: str) -> list[str]:
        """The names of a function's parameters."""
        return list(self.function(name).params)

    def export_library(self, file_name: str | Path) -> Path:
        """Write the program as a shared library, which `runtime.load_module` loads; the system's C
        compiler makes it. Raises LoopwrightError for a program that calls native functions of this
        process: the result of `relax.build` is exported with them."""
        return EXPORT_PROGRAM.get()(self, Path(file_name))

    # -- texts and statistics ------------------------------------------------------------------

    def stats(self) -> str:
        """Its constants, functions and the packed functions that it calls, as text."""
        packed = [f.name for f in self.functions if f.kind is VMFuncKind.PACKED_FUNC]
        shapes = [_described(c) for c in self.constants]
        names = [f.name for f in self.own()]
        return (
            "Relax VM executable statistics:\n"
            f"  Constant shapes (# {len(shapes)}): [{', '.join(shapes)}]\n"
            f"  Globals (#{len(names)}): [{', '.join(names)}]\n"
            f"  Packed functions (#{len(packed)}): [{', '.join(packed)}]\n"
        )

    def as_text(self) -> str:
        """The instructions, a line each."""
        return "\n".join(_function_text(self, f) for f in self.own())

    def as_python(self) -> str:
        """The calls of an ExecBuilder that make this program."""
        lines = ["ib = rx.Builder()"]
        for func in self.own():
            lines.append(f'with ib.function("{func.name}", num_inputs={len(func.params)}):')
            lines += [f"    ib.{_python_of(self, op)}" for op in func.code]
        return "\n".join(lines) + "\n"


def _described(value: object) -> str:
    if isinstance(value, Tensor):
        return "scalar" if not value.shape else f"[{', '.join(map(str, value.shape))}]"
    return repr(tuple(value)) if isinstance(value, ShapeTuple) else repr(value)


def _function_text(program: VMExecutable, func: VMFunction) -> str:
    if func.kind is VMFuncKind.VM_TIR_FUNC:
        return f"@{func.name} num_inputs={len(func.params)} vm_tir_func;\n"
    return "\n".join([f"@{func.name}:", *(f"  {_text_of(program, op)}" for op in func.code)]) + "\n"


def _text_of(program: VMExecutable, op: Instruction) -> str:
    if isinstance(op, Call):
        args = ", ".join(a.text(program) for a in op.args)
        dst = "%void" if op.dst is None else f"%{op.dst}"
        return f"call  {program.functions[op.func].name:<16} in: {args:<12} dst: {dst}"
    if isinstance(op, Ret):
        return f"ret   %{op.register}"
    if isinstance(op, Goto):
        return f"goto  {op.offset}"
    return f"if    %{op.register}, {op.offset}"


def _python_of(program: VMExecutable, op: Instruction) -> str:
    if isinstance(op, Call):
        args = ", ".join(_python_operand(program, a) for a in op.args)
        dst = "" if op.dst is None else f", dst=ib.r({op.dst})"
        return f'emit_call("{program.functions[op.func].name}", args=[{args}]{dst})'
    if isinstance(op, Ret):
        return f"emit_ret(ib.r({op.register}))"
    if isinstance(op, Goto):
        return f"emit_goto({op.offset})"
    return f"emit_if(ib.r({op.register}), {op.offset})"


def _python_operand(program: VMExecutable, operand: Operand) -> str:
    if operand.kind == "f":
        return f'ib.f("{program.functions[operand.value].name}")'
    if operand.kind == "vm":
        return "ib.vm_state()"
    return f"ib.{ {'r': 'r', 'i': 'imm', 'c': 'c'}[operand.kind] }({operand.value})"
