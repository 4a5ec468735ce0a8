"""Two small operators, so that tests of the graph level do not need `ops/`."""

from __future__ import annotations

from loopwright import relax
from loopwright.ir.op import Op, register_op

TWICE, PLUS = register_op("test.twice"), register_op("test.plus")
TWICE.set_attr("FInferStructInfo", lambda call, bb: call.args[0].struct_info)
PLUS.set_attr("FInferStructInfo", lambda call, bb: call.args[0].struct_info)
for _op, _meaning in ((TWICE, lambda x: x + x), (PLUS, lambda x, y: x + y)):
    _op.set_attr("FPurity", True)
    _op.set_attr("FNumpy", _meaning)


def twice(x: relax.Expr) -> relax.Call:
    return relax.Call(TWICE, [x])


def plus(x: relax.Expr, y: relax.Expr) -> relax.Call:
    return relax.Call(PLUS, [x, y])


def tensor(*shape, dtype: str = "float32", ndim: int = -1) -> relax.TensorStructInfo:
    return relax.TensorStructInfo(shape or None, dtype, ndim=ndim)


def var(name: str, *shape, dtype: str = "float32") -> relax.Var:
    return relax.Var(name, tensor(*shape, dtype=dtype))


__all__ = ["PLUS", "TWICE", "Op", "plus", "tensor", "twice", "var"]
