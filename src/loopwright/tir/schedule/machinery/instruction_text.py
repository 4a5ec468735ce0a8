"""Instructions as lines of Python."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from ....ir.prim_expr import FloatImm, IntImm, PrimExpr, StringImm, Var
from .random_variables import BlockRV, LoopRV, _Reference

if TYPE_CHECKING:
    from .instruction import Instruction


def is_rv(value: object) -> bool:
    """Whether a value is a random variable."""
    return isinstance(value, (BlockRV, LoopRV, Var))


class Names:
    """b0, l1, v2: names of random variables in order of their appearance; all "_" where they do not
    matter."""

    def __init__(self, matter: bool = True) -> None:
        self.by_id: dict[int, str] = {}
        self.matter = matter

    def new(self, rv: PrimExpr | _Reference) -> str:
        """The name of another random variable."""
        if not self.matter:
            return "_"
        letter = "b" if isinstance(rv, BlockRV) else "l" if isinstance(rv, LoopRV) else "v"
        name = f"{letter}{len(self.by_id)}"
        self.by_id[id(rv)] = name
        return name

    def text(self, value: object) -> str:
        """An input of an instruction."""
        if is_rv(value):
            return self.by_id.get(id(value), "_")
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join(self.text(v) for v in value) + "]"
        return literal(value)


def literal(value: Any) -> str:
    """A value in Python."""
    if isinstance(value, IntImm) and value.dtype.is_bool:
        return str(bool(value.value))
    if isinstance(value, (IntImm, FloatImm)):
        return literal(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, (str, StringImm)):
        return json.dumps(value if isinstance(value, str) else value.value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    if getattr(value, "as_lambda", None) is not None:
        return value.as_lambda()
    return str(value)


def python_line(inst: Instruction, names: Names, decision: int | None = None) -> str:
    """An instruction as a line of Python."""
    kind = inst.kind
    args: list[str] = []
    rest = list(inst.inputs)
    keyword = kind.varargs is None
    for name in kind.inputs:
        if name.startswith("*"):
            if not keyword:
                args += [names.text(v) for v in rest]
            elif rest:
                args.append(f"{name[1:]}={names.text(rest)}")
            rest = []
        else:
            args.append(f"{name}={names.text(rest.pop(0))}")
    args += [f"{name}={literal(a)}" for name, a in zip(kind.attrs, inst.attrs, strict=True)]
    if decision is not None:
        args.append(f"decision={literal(decision)}")
    outputs = [names.new(v) for v in inst.outputs]
    left = f"{', '.join(outputs)} = " if outputs else ""
    if len(outputs) == 1 and kind.gives_list:
        left = f"{outputs[0]}, = "
    return f"{left}sch.{kind.fn.__name__}({', '.join(args)})"
