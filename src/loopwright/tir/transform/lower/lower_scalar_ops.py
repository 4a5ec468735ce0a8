"""`LowerScalarOps`: expands operations on numbers into operations that the emitter has.

Before::

    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "int32"), n: T.int32):
        for i in range(64):
            A[i // 8] = T.max(A[i], T.float32(0))
            B[i] = T.truncdiv(n, B[i] % 4)

After::

    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "int32"), n: T.int32):
        T.func_attr({"tir.scalar_ops": True})
        for i in range(64):
            a = T.float32()
            A[T.shift_right(i, 3)] = T.Let(
                T.Select(T.float32(0) > a, T.float32(0), a), where={a: A[i]}
            )
            b = T.int32()
            safe = T.int32()
            B[i] = T.Let(
                T.Let(
                    T.Select(b == 0, 0, T.Select(b == -1, 0 - n, T.Div(n, safe))),
                    where={safe: T.Select(b == 0 or b == -1, 1, b)},
                ),
                where={b: T.bitwise_and(B[i], 3)},
            )

An emitter prints the remaining operations as its machine computes them: `Div` and `Mod` of integers
by divisors other than 0 and -1 (in indices by any), shifts by less than the width, conversions of
floats to int32 and int64. Where TensorIR leaves a choice, it is made here:

* integers wrap around; division and remainder by 0 give 0, of the least value by -1 wraps;
* a shift by the width or more, or by a negative number, shifts every bit out;
* NaN wins in min and max, in either operand;
* floats to integers truncate; NaN and values out of range of int32 (int64 for uint32 and wider
types)
  become its least value, truncated to the type;
* conversions to floats round once, to nearest even; floats that the emitter does not compute with
  (bfloat16, float8, ...) are computed in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....ir.prim_expr import Call, CmpExpr, PrimExpr, Select
from ...expr import BufferLoad, reads_memory
from ...function import PrimFunc
from ...stmt import BufferStore, LetStmt
from ..base import PrimFuncPass, StmtRewriter
from . import _scalar_casts, _scalar_rules
from ._scalar_ops import Scalars, check_native
from ._scalar_rules import FUNCTIONS as FUNCTIONS
from ._scalar_rules import ROUNDING

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext

MARK = "tir.scalar_ops"
# Operations of processors (through LLVM). "name" is an operation on all types, "name:kind" on one.
MACHINE = frozenset(
    [
        *("float16", "float32", "float64", "popcount", "clz"),
        *(f"{name}:float{bits}" for name in ("sigmoid", "exp10") for bits in (32, 64)),
        *(f"{name}:{kind}" for name in ("Min", "Max", "pow") for kind in ("int", "uint")),
        *(f"Cast:float{bits}:int{wide}" for bits in (16, 32, 64) for wide in (32, 64)),
        *("Cast:float8:float32", "Cast:float32:float8"),
        *(f"{name}:float16" for name in (*ROUNDING, "sqrt", "fabs", "copysign", "fma", "fmod")),
    ]
)


class LowerScalarOps(PrimFuncPass):
    """Expands operations on numbers into operations that the emitter has. `native`: the operations
    that the emitter has, as in `MACHINE`. Raises ValueError for other names."""

    native: frozenset[str] = MACHINE

    def __post_init__(self) -> None:
        check_native(self.native, ScalarOps.table)

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        return lowered(func, self.native)


def lowered(func: PrimFunc, native: frozenset[str]) -> PrimFunc:
    """A function of primitive operations; unchanged if already lowered."""
    if func.attrs.get(MARK):
        return func
    return func.replace(body=_Lower(native).visit(func.body)).with_attr(MARK, True)


class _Lower(StmtRewriter):
    """Rewrites a function; tracks which expressions are indices, whose arithmetic needs no
    guards."""

    def __init__(self, native: frozenset[str]) -> None:
        self.ops = ScalarOps(native)
        self.masked = False  # in an operand of a lane-wise choice, evaluated for all lanes

    def within(self, node: PrimExpr | Sequence[PrimExpr], index: bool) -> Any:
        """Rewrite a subexpression that is, or is not, an index."""
        before, self.ops.index = self.ops.index, index and not self.masked
        result = self.visit(node)
        self.ops.index = before
        return result

    def visit_PrimExpr(self, node: PrimExpr) -> PrimExpr:
        return self.ops(self.visit_default(node))

    def visit_CmpExpr(self, node: CmpExpr) -> PrimExpr:
        a, b = self.within(node.a, False), self.within(node.b, False)
        return self.ops(
            node if a is node.a and b is node.b else type(node)._make(a, b, span=node.span)
        )

    def visit_Select(self, node: Select) -> PrimExpr:
        return self.choice(node, node.condition)

    def visit_Call(self, node: Call) -> PrimExpr:
        name = getattr(node.op, "name", "")
        if name == "tir.if_then_else":
            return self.choice(node, node.args[0])
        indices = _INDEX_ARGS.get(name, ())
        args = [self.within(a, k in indices) for k, a in enumerate(node.args)]
        if any(a is not b for a, b in zip(args, node.args, strict=True)):
            node = Call._make(node.dtype, node.op, tuple(args), span=node.span)
        return self.ops(node)

    def choice(self, node: PrimExpr, condition: PrimExpr) -> Any:
        before, self.masked = self.masked, self.masked or condition.dtype.lanes > 1
        result = self.visit_default(node)
        self.masked = before
        return result

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        indices = self.within(node.indices, True)
        predicate = None if node.predicate is None else self.within(node.predicate, False)
        if indices is node.indices and predicate is node.predicate:
            return node
        return node.replace(indices=indices, predicate=predicate)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        value, predicate = self.visit(node.value), self.visit(node.predicate)
        indices = self.within(node.indices, True)
        if value is node.value and indices is node.indices and predicate is node.predicate:
            return node
        return node.replace(value=value, indices=indices, predicate=predicate)

    def visit_LetStmt(self, node: LetStmt) -> Any:
        dtype = node.value.dtype
        index = dtype.is_int and dtype.bits >= 32 and not reads_memory(node.value)
        value, body = self.within(node.value, index), self.visit(node.body)
        if value is node.value and body is node.body:
            return node
        return LetStmt._make(node.var, value, body, span=node.span)


_INDEX_ARGS = {"tir.tvm_access_ptr": (2,), "tir.handle_add_byte_offset": (1,)}
_INDEX_ARGS["tir.tvm_stack_make_array"] = (5,)


class ScalarOps(Scalars):
    """Rewrites one operation whose operands are already rewritten."""

    table = _scalar_rules.RULES | _scalar_casts.RULES

    def __init__(self, native: frozenset[str] = MACHINE) -> None:
        super().__init__(native)
