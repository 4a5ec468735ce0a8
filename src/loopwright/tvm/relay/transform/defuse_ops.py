"""DefuseOps: calls of functions where they are defined become their bodies: the inverse of FuseOps.

before: fn (%p0, Primitive=1) { exp(negative(%p0)) }(%x)
after:  exp(negative(%x))
"""

from __future__ import annotations

from typing import Any

from ..expr import Call, Function
from ..walk import bind
from .base import RelayPass


class DefuseOps(RelayPass):
    """Calls of functions where they are defined become their bodies: the inverse of FuseOps."""

    def replaced(self, old: Any, new: Any) -> Any:
        if isinstance(new, Call) and isinstance(new.op, Function):
            return bind(new.op.body, dict(zip(new.op.params, new.args, strict=True)))
        return None
