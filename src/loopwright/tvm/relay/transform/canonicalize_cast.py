"""CanonicalizeCast: a cast that several calls use is repeated for each, to be fused with it.

before: %0 = cast(%x, dtype="int32"); add(add(%0, %a), add(%0, %b))
after:  add(add(cast(%x, dtype="int32"), %a), add(cast(%x, dtype="int32"), %b))
"""

from __future__ import annotations

from typing import Any

from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Call, Expr, Function
from ..walk import rewrite
from .base import RelayPass


class CanonicalizeCast(RelayPass):
    """A cast that several calls use is repeated for each, to be fused with it."""

    opt_level = 3

    def run_function(self, func: Function, mod: IRModule) -> Function:
        used: set[int] = set()
        cast = Op.get("cast")

        def post(old: Op | Expr, new: Op | Expr) -> Any:
            if not isinstance(new, Call) or new.op is cast:
                return None
            args = list(new.args)
            for i, arg in enumerate(args):
                if isinstance(arg, Call) and arg.op is cast:
                    if id(arg) in used:
                        args[i] = Call(arg.op, arg.args, arg.attrs, span=arg.span)
                    used.add(id(arg))
            same = all(a is b for a, b in zip(args, new.args, strict=True))
            return None if same else new.replace(args=tuple(args))

        return rewrite(func, post)
