"""FoldConstant: calls whose arguments are constants are computed at compile time.

before: add(%x, multiply(2f, 3f))
after:  add(%x, 6f)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ....base.errors import LoopwrightError
from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.prim_expr import IntImm
from ....relax.interpreter import Interpreter
from ....runtime.tensor import Tensor
from ..expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem
from ..infer import infer_function
from ..translate import to_relax
from ..types import TensorType, TupleType, Type, is_dynamic
from ..walk import rewrite
from .base import RelayPass

if TYPE_CHECKING:
    from ....ir.expr import BaseExpr

# Operators whose calls stay: they are marks, or draw numbers.
NOT_FOLDED = ("annotation.", "on_device", "device_copy", "debug", "random.", "dyn.")
LARGEST = 1 << 26  # bytes of a result; above it the work is left to the run


class FoldConstant(RelayPass):
    """Calls whose arguments are constants are computed at compile time. fold_qnn: quantized
    operators too; there are none here."""

    fold_qnn: bool = False

    opt_level = 2

    def run_function(self, func: Function, mod: IRModule) -> Function:
        return folded(func)


def FoldConstantExpr(expr: Expr, mod: IRModule | None = None, fold_qnn: bool = False) -> Any:
    """An expression with its constant parts computed. mod, fold_qnn: accepted for compatibility."""
    return folded(expr)


def folded(expr: Expr) -> Any:
    """An expression with its constant parts computed."""

    def post(old: Any, new: BaseExpr) -> Any:
        if isinstance(new, TupleGetItem) and isinstance(new.tuple_value, Tuple):
            return new.tuple_value.fields[new.index]
        if isinstance(new, If) and isinstance(new.cond, Constant):
            return new.true_branch if new.cond.data.numpy().item() else new.false_branch
        if isinstance(new, Call) and isinstance(new.op, Op):
            return _shape(old, new) or _value(new)
        return None

    def inside(node: BaseExpr) -> bool:
        return not (isinstance(node, Function) and node.attrs.get("Primitive"))

    return _bound(rewrite(expr, post, enter=inside))


def _bound(expr: Expr) -> Any:
    """Constants that `let` binds put where they are used."""
    table: dict[int, Any] = {}

    def post(old: BaseExpr, new: BaseExpr) -> Any:
        if isinstance(new, Let) and isinstance(new.value, Constant):
            table[id(new.var)] = new.value
            return new.body
        return None

    without = rewrite(expr, post)
    return without if not table else folded(rewrite(without, pre=lambda n: table.get(id(n))))


def _shape(old: Call, new: Call) -> Constant | None:
    """The shape of a tensor whose extents are known."""
    if new.op.name not in ("shape_of", "vm.shape_of", "ndarray_size"):
        return None
    type_ = old.args[0].checked_type_
    if not isinstance(type_, TensorType) or is_dynamic(type_):
        return None
    dims = [d.value for d in type_.shape if isinstance(d, IntImm)]
    value: Any = int(np.prod(dims, dtype="int64")) if new.op.name == "ndarray_size" else dims
    return Constant(np.array(value, dtype=str(new.attrs.dtype or "int32")))


def _value(call: Call) -> Any:
    if any(call.op.name.startswith(prefix) for prefix in NOT_FOLDED) or not call.args:
        return None
    fields = [f for a in call.args for f in (a.fields if isinstance(a, Tuple) else [a])]
    if not all(isinstance(f, Constant) for f in fields):
        return None
    func = infer_function(Function([], call))
    if _bytes(func.ret_type) > LARGEST:
        return None
    try:
        result = evaluate(func)
    except (LoopwrightError, ArithmeticError, LookupError, TypeError, ValueError):
        return None  # it is reported where the program runs
    return _constant(result)


def evaluate(func: Function, *args: Any) -> Any:
    """The value of a function, by Relax's interpreter."""
    return Interpreter(to_relax(IRModule({"main": func}))).run("main", *args)


def _constant(value: Tensor | Sequence[Tensor]) -> Any:
    if isinstance(value, (tuple, list)):
        return Tuple([_constant(v) for v in value])
    return Constant(value if isinstance(value, Tensor) else np.asarray(value))


def _bytes(type_: Type) -> int:
    if isinstance(type_, TupleType):
        return sum(_bytes(f) for f in type_.fields)
    return prod(d.value for d in type_.shape if isinstance(d, IntImm)) * max(
        1, type_.dtype.bits // 8
    )
