"""`LowerCustomDatatypes`: replaces values of custom types by their bits, and operations by the
registered functions.

Before (-) and after (+)::

      @T.prim_func
    - def main(A: T.Buffer((8,), "custom[doubled]32"), B: T.Buffer((8,), "custom[doubled]32")):
    + def main(A: T.Buffer((8,), "uint32"), B: T.Buffer((8,), "uint32")):
          for i in range(8):
    -         B[i] = T.if_then_else(i < 4, A[i] + A[i], A[i])
    +         B[i] = T.if_then_else(i < 4, T.call_pure_extern("uint32", "AddDoubled", A[i], A[i]), A[i])

Pass::

    for_example("doubled", {"Add": datatype.create_lower_func({32: "AddDoubled"})})

`ir.datatype`, which is `tvm.target.datatype`, registers a type and the lowering of its operations.
Choices (`Select`, `if_then_else`) and memory need no registration: they move bits. A literal without a
function of its own is cast from float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....base.errors import LoopwrightError, explain
from ....ir import datatype
from ....ir.dtype import CUSTOM_TYPES, DataType
from ....ir.op import Op
from ....ir.prim_expr import BinaryOpExpr, Call, Cast, FloatImm, PrimExpr, Var
from ....ir.target import Target
from ...function import PrimFunc
from ..base import PrimFuncPass
from ..low_precision import StoreAsBits

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext

_MOVES = {"tir.if_then_else": datatype.lower_ite}
_EXTERN = {"tir.call_pure_extern", "tir.call_extern", "tir.call_packed", "tir.reinterpret"}


def is_custom(dtype: DataType) -> bool:
    """Whether a type was registered with `datatype.register`."""
    return dtype.code == "custom"


class _Lower(StoreAsBits):
    def __init__(self, kinds: tuple[str, ...]) -> None:
        super().__init__(is_custom)
        self.kinds = kinds

    def by(self, op_name: str, dtype: DataType, other: str, node: PrimExpr, call: PrimExpr) -> Any:
        """The result of the registered function for `call`, the rebuilt `node`."""
        name = datatype.type_name(dtype)
        lower = datatype.lowering(self.kinds, op_name, name, other)
        if lower is None:
            what = f"{op_name} of {dtype} has no lowering for {self.kinds[-1]}"
            extra = f', "{other}"' if other else ""
            hint = (
                f'datatype.register_op(function, "{op_name}", "{self.kinds[-1]}", "{name}"{extra})'
            )
            raise LoopwrightError(explain(what, got=str(node), instead=hint, span=node.span))
        result = lower(call)
        expected = datatype.bits_type(node.dtype) if is_custom(node.dtype) else node.dtype
        if result.dtype != expected:
            what = f"the lowering of {op_name} of {name} results in {expected}"
            raise LoopwrightError(explain(what, got=str(result.dtype), span=node.span))
        return result

    def visit_Var(self, node: Var) -> Any:
        if not is_custom(node.dtype):
            return super().visit_Var(node)
        if node not in self.vars:
            self.vars[node] = Var(node.name, datatype.bits_type(node.dtype))
        return self.vars[node]

    def visit_FloatImm(self, node: FloatImm) -> Any:
        if not is_custom(node.dtype):
            return node
        if datatype.lowering(self.kinds, "FloatImm", datatype.type_name(node.dtype)) is None:
            return self.visit_Cast(Cast(node.dtype, FloatImm("float32", node.value), node.span))
        return self.by("FloatImm", node.dtype, "", node, node)

    def visit_Cast(self, node: Cast) -> Any:
        old, new = node.value.dtype, node.dtype
        if not is_custom(old) and not is_custom(new):
            return self.visit_default(node)
        cast = Cast._make(new, self.visit(node.value), span=node.span)
        return self.by("Cast", old, datatype.type_name(new), node, cast)

    def visit_BinaryOpExpr(self, node: BinaryOpExpr) -> Any:
        new = self.visit_default(node)
        if not is_custom(node.a.dtype):
            return new
        return self.by(type(node).__name__, node.a.dtype, "", node, new)

    def visit_Call(self, node: Call) -> Any:
        call = node.replace(args=tuple(self.visit(a) for a in node.args))
        name = node.op.name if isinstance(node.op, Op) else ""
        own = [e.dtype for e in (node, *node.args) if is_custom(e.dtype)]
        if not own:
            return call
        if name in _MOVES and is_custom(node.dtype):
            return _MOVES[name](call)
        if name in _EXTERN and name != "tir.reinterpret":
            lowering = datatype.lowering(self.kinds, "Call", datatype.type_name(own[0]), name)
            if lowering is None:
                return datatype.lower_call_pure_extern(call) if is_custom(node.dtype) else call
        if name == "tir.reinterpret":  # of bits, to bits
            expected = datatype.bits_type(node.dtype) if is_custom(node.dtype) else node.dtype
            same = call.args[0].dtype == expected
            return call.args[0] if same else call.replace(dtype=expected)
        return self.by("Call", own[0], name, node, call)


def for_example(name: str, lowerings: dict[str, Any]) -> LowerCustomDatatypes:
    """The pass, with a type registered for LLVM; `name` has the largest type code."""
    datatype.register(name, 255)
    for op_name, lower in lowerings.items():
        datatype.register_op(lower, op_name, "llvm", name)
    return LowerCustomDatatypes()


class LowerCustomDatatypes(PrimFuncPass):
    """Replaces values of custom types by their bits, and operations by the registered functions.
    Functions are looked up by the target's kind, "llvm" without one."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        if not CUSTOM_TYPES:
            return func
        target = func.attrs.get("target") or Target.current(allow_none=True)
        lowered = _Lower(("llvm",) if target is None else target.kind.lineage)
        body = lowered.visit(func.body)
        views = any(is_custom(b.dtype) for b in func.buffer_map.values())
        scalars = any(is_custom(p.dtype) for p in func.params)
        if body is func.body and not views and not scalars:
            return func
        return lowered.run(func)
