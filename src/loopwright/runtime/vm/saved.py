"""Programs of the virtual machine as bytes: a length, JSON, then the constants' data.

The contents are checked before they are used: instructions with an index out of range, or values of
another kind, are refused.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ..dtype import numpy_dtype
from ..tensor import PackedTensor, ShapeTuple, Tensor, empty
from .builder import formalize
from .bytecode import Call, Goto, If, Operand, Ret, VMExecutable, VMFuncKind, VMFunction

_MAGIC = b"loopwright vm 1\n"
_ALIGN = 64  # bytes: constants stay where they are in the file's data
_KINDS: dict[str, type] = {"call": Call, "ret": Ret, "goto": Goto, "if": If}


def to_bytes(program: VMExecutable) -> bytes:
    """A program without its native functions."""
    data = bytearray()
    constants = [_constant(c, data) for c in program.constants]
    functions = [
        [f.name, int(f.kind), f.params, [_written(op) for op in f.code], f.locations]
        for f in program.functions
    ]
    head = json.dumps({"functions": functions, "constants": constants}).encode()
    return b"".join([_MAGIC, struct.pack("<Q", len(head)), head, data])


def save(program: VMExecutable, path: str | Path) -> None:
    """Write a program to a file."""
    Path(path).write_bytes(to_bytes(program))


def load(path: str | Path) -> VMExecutable:
    """The program in a file. Raises ValueError for any other file."""
    return from_bytes(Path(path).read_bytes())


def _constant(value: object, data: bytearray) -> list[Any]:
    if isinstance(value, ShapeTuple):
        return ["shape", list(value)]
    if not isinstance(value, Tensor):
        return ["value", value]
    data += bytes(-len(data) % _ALIGN)
    begin, content = len(data), value.bytes() if isinstance(value, PackedTensor) else value.view()
    data += np.ascontiguousarray(content).tobytes()
    return ["tensor", value.dtype, list(value.shape), begin, len(data) - begin]


def _written(op: Any) -> list[Any]:
    name = next(n for n, kind in _KINDS.items() if isinstance(op, kind))
    if isinstance(op, Call):
        return [name, op.func, [list(a) for a in op.args], op.dst]
    return [name, *op]


def from_bytes(content: bytes) -> VMExecutable:
    """The program that `to_bytes` wrote. Raises ValueError for anything else."""
    try:
        if not content.startswith(_MAGIC):
            raise ValueError("it does not begin as one")
        (length,) = struct.unpack_from("<Q", content, len(_MAGIC))
        begin = len(_MAGIC) + 8 + length
        head = json.loads(content[len(_MAGIC) + 8 : begin])
        constants = [_read_constant(c, content[begin:]) for c in head["constants"]]
        functions = [_function(*f) for f in head["functions"]]
        _check(functions, len(constants))
        return VMExecutable(functions, constants)
    except (KeyError, IndexError, TypeError, ValueError, struct.error, LoopwrightError) as error:
        what = "this is not a program of the virtual machine"
        hint = "save it again with this version"
        raise ValueError(explain(what, got=str(error), instead=hint)) from error


def _read_constant(entry: list[Any], data: bytes) -> Any:
    kind, *rest = entry
    if kind == "shape":
        return ShapeTuple(rest[0])
    if kind == "value" and isinstance(rest[0], (str, bool, int, float, type(None))):
        return rest[0]
    if kind != "tensor":
        raise ValueError(f"a constant of kind {kind}")
    dtype, shape, begin, size = rest
    tensor = empty(tuple(int(d) for d in shape), str(dtype))
    room = tensor.bytes() if isinstance(tensor, PackedTensor) else tensor.view()
    part = data[int(begin) : int(begin) + int(size)]
    if len(part) != room.nbytes:
        raise ValueError(f"a constant of {len(part)} bytes instead of {room.nbytes}")
    flat = np.frombuffer(part, np.uint8 if isinstance(tensor, PackedTensor) else numpy_dtype(dtype))
    room[...] = flat.reshape(room.shape)
    return tensor


def _function(
    name: str, kind: int, params: Sequence[str], code: Any, locations: Sequence[str]
) -> VMFunction:
    function = VMFunction(str(name), VMFuncKind(kind), [str(p) for p in params])
    function.code = [_instruction(*op) for op in code]
    function.locations = [str(p) for p in locations]
    return function


def _instruction(name: str, *fields: Any) -> Any:
    if name != "call":
        return _KINDS[name](*(_whole(f) for f in fields))
    func, args, dst = fields
    operands = tuple(Operand(str(kind), _whole(value)) for kind, value in args)
    return Call(_whole(func), operands, None if dst is None else _whole(dst))


def _whole(value: int | Sequence[Sequence[Any]]) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} where a number is needed")
    return value


def _check(functions: list[VMFunction], constants: int) -> None:
    limits = {"c": constants, "f": len(functions)}
    for func in functions:
        for op in func.code:
            operands = (*op.args, Operand("f", op.func)) if isinstance(op, Call) else ()
            for kind, value in operands:
                if kind not in ("r", "i", "vm", "c", "f"):
                    raise ValueError(f"an operand of kind {kind}")
                if kind in limits and not 0 <= value < limits[kind]:
                    raise ValueError(f"{func.name} uses {kind}[{value}], which is not there")
        if func.kind is not VMFuncKind.PACKED_FUNC:
            formalize(func)
