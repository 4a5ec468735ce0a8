"""Bytecode as Python: one Python function for each function of a program.

Registers are local variables; a call is a call, and the builtins that take no longer than one are
inlined. Jumps lead to basic blocks, which follow one another:

    def f(r0, r1):
        b = 0
        while True:
            if b == 0:
                b = 1 if truth(r0) else 2
            if b == 1:
                r2 = k1(r1)
                b = 3
            ...

A jump forward skips the blocks between, a jump back restarts the loop.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from itertools import count
from types import CodeType
from typing import Any

from ..tensor import ShapeTuple
from .builtins import EQUALS_IMM, IGNORE, STORE, USE_IMM, inline_codes
from .bytecode import Call, Goto, If, Operand, Ret, VMExecutable, VMFunction

_numbers = count()


class Translated:
    """The Python code of a function: its source, and the instruction that each line is from."""

    def __init__(self, program: VMExecutable, func: VMFunction) -> None:
        self.name, self.locations = func.name, func.locations
        writer = _Writer(program, func)
        writer.write()
        self.source = "\n".join(writer.lines) + "\n"
        self.origin = writer.origin
        self.file = f"<machine code {next(_numbers)} of {func.name}>"

    def code(self) -> CodeType:
        """The compiled source; tracebacks show its lines."""
        lines = self.source.splitlines(keepends=True)
        linecache.cache[self.file] = (len(self.source), None, lines, self.file)
        return compile(self.source, self.file, "exec")

    def location(self, line: int) -> str:
        """Where the instruction of a source line comes from, or ""."""
        at = self.origin.get(line)
        return self.locations[at] if at is not None and at < len(self.locations) else ""


class _Writer:
    def __init__(self, program: VMExecutable, func: VMFunction) -> None:
        self.program, self.func = program, func
        self.lines: list[str] = []
        self.origin: dict[int, int] = {}
        self.at = 0
        self.indent = 1

    def put(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)
        self.origin[len(self.lines)] = self.at

    def write(self) -> None:
        params = ", ".join(f"r{k}" for k in range(len(self.func.params)))
        self.lines.append(f"def run({params}):")
        starts = _leaders(self.func.code)
        if len(starts) == 1:
            self.block(0, len(self.func.code), {})
            return
        blocks = {start: k for k, start in enumerate(starts)}
        self.put("b = 0")
        self.put("while True:")
        for start, end in zip(starts, [*starts[1:], len(self.func.code)], strict=True):
            self.indent = 2
            self.put(f"if b == {blocks[start]}:")
            self.indent = 3
            self.block(start, end, blocks)

    def block(self, start: int, end: int, blocks: dict[int, int]) -> None:
        op: Any = None
        self.bools: set[int] = set()  # registers that hold a Python bool
        for self.at in range(start, end):
            op = self.func.code[self.at]
            if isinstance(op, Call):
                self.call(op)
            elif isinstance(op, Ret):
                self.put(f"return r{op.register}")
            elif isinstance(op, If):
                here, there = blocks[self.at + 1], blocks[self.at + op.offset]
                test = f"r{op.register}" if op.register in self.bools else f"truth(r{op.register})"
                self.put(f"b = {here} if {test} else {there}")
            elif isinstance(op, Goto):
                self.put(f"b = {blocks[self.at + op.offset]}")
                if op.offset <= 0:
                    self.put("continue")
        if isinstance(op, Call):
            self.put(f"b = {blocks[end]}" if end in blocks else "return None")

    def call(self, op: Call) -> None:
        name = self.program.functions[op.func].name
        write = INLINE.get(name)
        texts = [self.operand(a) for a in op.args]
        dst = "_" if op.dst is None else f"r{op.dst}"
        if op.dst is not None:
            (self.bools.add if name == "vm.builtin.read_bool" else self.bools.discard)(op.dst)
        lines = None if write is None else write(self, dst, texts, op.args)
        for line in lines if lines is not None else [f"{dst} = f{op.func}({', '.join(texts)})"]:
            self.put(line)

    def operand(self, operand: Operand) -> str:
        kind, value = operand
        if kind == "vm":
            return "vm"
        if kind == "i":
            return str(value)
        if kind == "c":
            plain = self.program.constants[value]
            if isinstance(plain, (str, bool, int)) and not isinstance(plain, ShapeTuple):
                return repr(plain)
        return f"{kind}{value}"

    def constant(self, operand: Operand) -> Any:
        """The number or constant of an operand that is one."""
        if operand.kind == "i":
            return operand.value
        return self.program.constants[operand.value] if operand.kind == "c" else None


def _leaders(code: Sequence[Any]) -> list[int]:
    """Where basic blocks begin."""
    starts = {0}
    for k, op in enumerate(code):
        if isinstance(op, (Goto, If)):
            starts |= {k + op.offset, k + 1}
        elif isinstance(op, Ret):
            starts.add(k + 1)
    return sorted(s for s in starts if s < len(code))


# --- builtins that are inlined --------------------------------------------------------

Inline = Callable[[_Writer, str, list[str], Sequence[Operand]], list[str] | None]


def _copy(work: _Writer, dst: str, args: list[str], operands: Sequence[Operand]) -> list[str]:
    return [f"{dst} = {args[0]}"]


def _null(work: _Writer, dst: str, args: list[str], operands: Sequence[Operand]) -> list[str]:
    return [f"{dst} = None"]


def _tuple(work: _Writer, dst: str, args: list[str], operands: Sequence[Operand]) -> list[str]:
    return [f"{dst} = ({''.join(a + ', ' for a in args)})"]


def _item(work: _Writer, dst: str, args: list[str], operands: Sequence[Operand]) -> list[str]:
    return [
        f"{dst} = {args[0]}[{args[1]}] if type({args[0]}) is tuple else item({', '.join(args)})"
    ]


def _read_bool(work: _Writer, dst: str, args: list[str], operands: Sequence[Operand]) -> list[str]:
    return [f"{dst} = byte({args[0]}.data_ptr()).value != 0"]


def _invoke(work: _Writer, dst: str, args: list[str], operands: Sequence[Operand]) -> list[str]:
    return [f"{dst} = callee({args[1]})({', '.join(args[2:])})"]


def _call_dyn(
    work: _Writer, dst: str, args: list[str], operands: Sequence[Operand]
) -> list[str] | None:
    if operands[1].kind != "f":
        return None
    last = "" if len(args) == 2 else f", *flat({args[-1]})"
    return [f"{dst} = {args[1]}({', '.join(args[2:-1])}{last})".replace("(, ", "(")]


def _check(
    work: _Writer, dst: str, args: list[str], operands: Sequence[Operand]
) -> list[str] | None:
    """check_tensor_info: inlined as a fast test; the builtin reports failures."""
    ndim = work.constant(operands[1])
    dtype = work.constant(operands[2]) if len(operands) > 3 else ""
    if not isinstance(ndim, int) or not isinstance(dtype, str) or dtype.startswith("complex"):
        return None  # tvm-ffi has no name for complex numbers
    good = [f"type({args[0]}) is Tensor"]
    if ndim >= 0:
        good.append(f"{args[0]}.ndim == {ndim}")
    if dtype not in ("", "void"):
        good.append(f"{args[0]}.dtype == {dtype!r}")
    call = f"check_tensor_info({', '.join(args)})"
    return [f"if not ({' and '.join(good)}): {call}"]


def _match(
    work: _Writer, dst: str, args: list[str], operands: Sequence[Operand]
) -> list[str] | None:
    codes = [work.constant(o) for o in operands[3:-1]]
    size, context = work.constant(operands[2]), work.constant(operands[-1])
    if any(not isinstance(c, int) for c in codes) or not isinstance(size, int):
        return None
    lines = [f"s = {args[0]}.shape if type({args[0]}) is Tensor else shape_of({args[0]})"]
    lines.append(f"if len(s) != {size}: match_shape({args[0]}, None, {size}, {context!r})")
    for axis, (code, number) in enumerate(inline_codes(codes)):
        lines += _matched(f"s[{axis}]", args[1], code, number, f"{context} dimension {axis}")
    return lines


def _match_number(
    work: _Writer, dst: str, args: list[str], operands: Sequence[Operand]
) -> list[str] | None:
    codes = [work.constant(o) for o in operands[2:4]]
    if any(not isinstance(c, int) for c in codes):
        return None
    context = work.constant(operands[4]) if len(operands) > 4 else ""
    return _matched(args[0], args[1], codes[0], codes[1], f"{context} the value")


def _matched(value: str, heap: str, code: int, number: int, what: str) -> list[str]:
    if code == STORE:
        return [f"{heap}[{number}] = {value}"]
    if code == IGNORE:
        return []
    expected = str(number) if code == EQUALS_IMM else f"{heap}.item({number})"
    return [f"if {value} != {expected}: mismatch({what!r}, {expected}, {value})"]


def _make_shape(
    work: _Writer, dst: str, args: list[str], operands: Sequence[Operand]
) -> list[str] | None:
    codes = [work.constant(o) for o in operands[2:]]
    if any(not isinstance(c, int) for c in codes):
        return None
    dims = [_cell(args[0], code, number) for code, number in inline_codes(codes)]
    return [f"{dst} = shape(ShapeTuple, ({''.join(d + ', ' for d in dims)}))"]


def _make_number(
    work: _Writer, dst: str, args: list[str], operands: Sequence[Operand]
) -> list[str] | None:
    code, number = (work.constant(o) for o in operands[1:])
    return None if code is None else [f"{dst} = {_cell(args[0], code, number)}"]


def _cell(heap: str, code: int, number: int) -> str:
    return str(number) if code == USE_IMM else f"{heap}.item({number})"


INLINE: dict[str, Inline] = {
    f"vm.builtin.{name}": write
    for name, write in (
        ("call_tir_dyn", _call_dyn),
        ("check_tensor_info", _check),
        ("copy", _copy),
        ("invoke_closure", _invoke),
        ("make_prim_value", _make_number),
        ("make_shape", _make_shape),
        ("make_tuple", _tuple),
        ("match_prim_value", _match_number),
        ("match_shape", _match),
        ("null_value", _null),
        ("read_bool", _read_bool),
        ("tuple_getitem", _item),
    )
}
