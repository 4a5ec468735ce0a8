"""Importing this module gives sin another legalization."""

from __future__ import annotations

from typing import Any

from loopwright import relax

asked: list[str] = []


def as_cos(bb: Any, call: Any) -> Any:
    """sin(x) = cos(x - pi/2)."""
    asked.append(call.op.name)
    shifted = relax.op.subtract(call.args[0], relax.const(1.5707963267948966, "float32"))
    return relax.op.cos(shifted)


relax.register_legalize("relax.sin", as_cos, target="llvm")
