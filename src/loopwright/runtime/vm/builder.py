"""ExecBuilder: writes programs of the virtual machine instruction by instruction.

ib = ExecBuilder()
with ib.function("twice", num_inputs=1):
    ib.emit_call("test.vm.add", args=[ib.r(0), ib.r(0)], dst=ib.r(1))
    ib.emit_ret(ib.r(1))
vm = VirtualMachine(ib.get(), cpu())
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ..tensor import ShapeTuple, Tensor, tensor
from .bytecode import Call, Goto, If, Operand, Ret, VMExecutable, VMFuncKind, VMFunction

VOID = Operand("r", -1)


class ExecBuilder:
    """A program being built. `location`: the source of the next instructions."""

    def __init__(self) -> None:
        self.functions: list[VMFunction] = []
        self.constants: list[Any] = []
        self.location = ""
        self._index: dict[str, int] = {}
        self._known: dict[Any, int] = {}
        self._open: VMFunction | None = None

    # -- operands ------------------------------------------------------------------------------

    def r(self, idx: int) -> Operand:
        """A register."""
        return Operand("r", int(idx))

    def imm(self, value: int) -> Operand:
        """A number."""
        return Operand("i", int(value))

    def c(self, idx: int) -> Operand:
        """A constant by its number, see `convert_constant`."""
        return Operand("c", int(idx))

    def f(self, name: str) -> Operand:
        """A function by name."""
        if name not in self._index:
            self.declare_function(name)
        return Operand("f", self._index[name])

    def void_arg(self) -> Operand:
        """No register: a result that is dropped."""
        return VOID

    def vm_state(self) -> Operand:
        """The machine itself."""
        return Operand("vm")

    def convert_constant(self, const: Any) -> Operand:
        """A constant: a tensor, shape, string, number or data type. Equal ones are kept once."""
        if isinstance(const, Operand):
            return const
        value = _constant(const)
        key = _key(value)
        if key not in self._known:
            self._known[key] = len(self.constants)
            self.constants.append(value)
        return Operand("c", self._known[key])

    # -- functions -----------------------------------------------------------------------------

    def declare_function(
        self, func_name: str, kind: VMFuncKind = VMFuncKind.PACKED_FUNC
    ) -> VMFunction:
        """Make a name known; a packed function is looked up in the runtime's table."""
        if func_name not in self._index:
            self._index[func_name] = len(self.functions)
            self.functions.append(VMFunction(func_name, VMFuncKind(kind)))
        func = self.functions[self._index[func_name]]
        if kind != VMFuncKind.PACKED_FUNC:
            func.kind = VMFuncKind(kind)
        return func

    @contextmanager
    def function(
        self,
        func_name: str,
        num_inputs: int | None = 0,
        param_names: Sequence[str] | None = None,
        kind: VMFuncKind = VMFuncKind.VM_FUNC,
    ) -> Iterator[None]:
        """The instructions emitted within are this function's. Raises ValueError if it has any."""
        func = self.declare_function(func_name, kind)
        if func.code:
            raise ValueError(explain("a function of this name is there already", got=func_name))
        names = list(param_names or (f"param_{k}" for k in range(num_inputs or 0)))
        if num_inputs is not None and len(names) != num_inputs:
            what = f"{func_name} takes {num_inputs} inputs"
            raise ValueError(explain(what, got=f"{len(names)} names"))
        func.params, func.registers = names, len(names)
        self._open = func
        try:
            yield
        finally:
            self._open = None

    # -- instructions --------------------------------------------------------------------------

    def emit_call(
        self, name: str | Operand, args: Sequence[Any] | None = None, dst: Operand | None = None
    ) -> None:
        """Call a function with operands or constants; the result is stored in the register `dst`."""
        func = name if isinstance(name, Operand) else self.f(name)
        operands = tuple(self.convert_constant(a) for a in args or ())
        self.emit(Call(func.value, operands, None if dst is None or dst == VOID else dst.value))

    def emit_ret(self, result: Operand) -> None:
        """Return a register."""
        self.emit(Ret(result.value))

    def emit_goto(self, pc_offset: int) -> None:
        """Jump by an offset."""
        self.emit(Goto(int(pc_offset)))

    def emit_if(self, cond: Operand, false_offset: int) -> None:
        """Jump by an offset if the condition is false."""
        self.emit(If(cond.value, int(false_offset)))

    def emit(self, op: Any) -> int:
        """Append an instruction to the open function; returns its position."""
        if self._open is None:
            what = "an instruction outside of a function"
            raise LoopwrightError(explain(what, instead="with builder.function(NAME): ..."))
        self._open.code.append(op)
        self._open.locations.append(self.location)
        return len(self._open.code) - 1

    @property
    def code(self) -> list[Any]:
        """The instructions of the open function; a jump whose offset is known later is replaced."""
        assert self._open is not None
        return self._open.code

    # -- the result ----------------------------------------------------------------------------

    def get(self) -> VMExecutable:
        """The program, its registers numbered without gaps. Raises LoopwrightError for a register
        that is read before it is set, or a jump out of its function."""
        for func in self.functions:
            if func.kind is not VMFuncKind.PACKED_FUNC:
                formalize(func)
        return VMExecutable(self.functions, self.constants)


def _constant(value: object) -> Any:
    if isinstance(value, (Tensor, ShapeTuple, str, bool, int, float)) or value is None:
        return value
    if isinstance(value, (tuple, list)):
        return ShapeTuple(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return tensor(np.asarray(value))
    return tensor(value) if hasattr(value, "__dlpack__") else str(value)


def _key(value: object) -> Any:
    if isinstance(value, Tensor):
        if value.nbytes > 1 << 16:  # large ones are compared by identity alone
            return ("tensor", id(value))
        return ("tensor", value.dtype, value.shape, value.numpy().tobytes())
    return (type(value).__name__, value)


def formalize(func: VMFunction) -> None:
    """Number a function's registers without gaps; see `ExecBuilder.get`."""
    renumbered = {k: k for k in range(len(func.params))}

    def checked(register: int, position: int) -> int:
        if register not in renumbered:
            what = f"{func.name}: instruction {position} reads a register that was not set"
            raise LoopwrightError(explain(what, got=f"%{register}"))
        return renumbered[register]

    code: list[Any] = []
    for k, op in enumerate(func.code):
        if isinstance(op, Call):
            args = tuple(
                a._replace(value=checked(a.value, k)) if a.kind == "r" else a for a in op.args
            )
            dst = op.dst
            if dst is not None:
                dst = renumbered.setdefault(dst, len(renumbered))
            op = Call(op.func, args, dst)
        elif isinstance(op, (Ret, If)):
            op = op._replace(register=checked(op.register, k))
        ends = [] if isinstance(op, (Call, Ret)) else [k + op.offset]
        ends += [k + 1] if isinstance(op, If) else []
        if not all(0 <= end < len(func.code) for end in ends):
            what = f"{func.name}: instruction {k} jumps out of the function"
            raise LoopwrightError(explain(what, got=op.offset))
        code.append(op)
    func.code, func.registers = code, len(renumbered)
