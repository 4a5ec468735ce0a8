"""Families of operators: elementwise, broadcasting and reducing ones, one or two lines each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base.errors import explain
from ..ir.dtype import numpy_dtype
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const, match_types
from ..relax.expr import Call, Expr
from ..relax.struct_info import TensorStructInfo
from .common import (
    accumulator,
    broadcast_index,
    broadcast_shape,
    by_loops,
    common_dtype,
    compute,
    element,
    infer_broadcast,
    infer_reduce,
    normalize_axes,
    reduce_over,
    rounded,
    shape_of,
    widened,
)
from .core import Operator, case, op
from .gradient import Backward, Rule, no_gradient
from .layout_rules import broadcasting, elementwise, reducing
from .params import Axes, Operand, Tensor


def binary(
    name: str, fn: Callable[[Any, Any], PrimExpr], meaning: Callable[..., Any] | None, doc: str, *,
    result: str | None = None, sample: dict[str, Any] | None = None,
    finite: bool | Callable[[Call], bool] = False, commutes: bool = False, mixed: bool = False,
    slopes: Callable[..., tuple[Any, Any]] | None = None,
) -> Operator:  # fmt: skip
    """A broadcasting operator of two tensors. meaning: in numpy; None is `by_loops`. `result` is its dtype if it differs from the
    operands'; `mixed`: those may have two dtypes and meet in the wider one, as in C; `finite`: see `flow.broadcasting`; `commutes`: patterns match its operands in either
    order. slopes(cx, x1, x2) returns the gradients before they are summed to the operands' shapes; an
    operator without has none."""
    short = name.rsplit(".", 1)[-1]

    def body(x1: Operand, x2: Operand) -> Any:
        dims = broadcast_shape(shape_of(x1), shape_of(x2))

        def cell(*i: PrimExpr) -> PrimExpr:
            lhs = element(x1, broadcast_index(x1, i, dims))
            return fn(lhs, element(x2, broadcast_index(x2, i, dims)))

        return compute(dims, cell, f"T_{short}", tag="broadcast")

    body.__name__, body.__doc__ = short, doc
    meaning = meaning or by_loops(body)
    operator = op(name, mixed="follow")(body)
    operator.layout(broadcasting(finite=finite))

    def grad(cx: Backward, x1: Expr, x2: Expr) -> list[Any]:
        assert slopes is not None
        first, second = slopes(cx, x1, x2)
        return [cx.fit(first, x1), cx.fit(second, x2)]

    operator.grad(no_gradient if slopes is None else grad)
    if commutes:
        operator.op.set_attr("commutes", True)
    operator.infer(
        lambda x1, x2: infer_broadcast(x1, x2, result if mixed or _fixed(x1, x2, result) else None)
    )
    meaning = _keep_dtype(meaning) if result is None else meaning
    operator.numpy(_in_one_dtype(meaning) if mixed else meaning)
    options = sample or {}
    operator.samples(
        case((2, 3), (2, 3), **options),
        case(("n", 4), (4,), **options),
        case((2, 1, 5), (3, 1), **options),
        case((0, 3), (3,), **options),
    )
    return operator


def _fixed(x1: TensorStructInfo, x2: TensorStructInfo, result: str | None) -> bool:
    if result is not None:
        common_dtype(x1, x2)  # raises if they differ
    return result is not None


def _in_one_dtype(meaning: Callable[..., Any]) -> Callable[..., Any]:
    def run(x1: np.ndarray[Any, Any], x2: np.ndarray[Any, Any]) -> Any:
        kinds = {str(x.dtype) for x in (x1, x2) if hasattr(x, "dtype")}
        if len(kinds) < 2:
            return meaning(x1, x2)
        one = numpy_dtype(match_types(*(const(0, kind) for kind in kinds))[0].dtype)
        return meaning(x1.astype(one), x2.astype(one))

    return run


def _keep_dtype(meaning: Callable[..., Any]) -> Callable[..., Any]:
    def run(x1: np.ndarray[Any, Any], x2: np.ndarray[Any, Any]) -> Any:
        kind = next(x.dtype for x in (x1, x2) if hasattr(x, "dtype"))  # the other is a number
        both = (np.asarray(x, kind) for x in (x1, x2))
        return np.asarray(meaning(*both)).astype(kind, copy=False)

    return run


def unary(
    name: str, fn: Callable[[Any], PrimExpr], meaning: Callable[..., Any] | None, doc: str, *,
    float_only: bool = False, result: str | None = None, sample: dict[str, Any] | None = None,
    finite: bool = False, slope: Callable[..., Any] | None = None, flat: bool = True,
) -> Operator:  # fmt: skip
    """An elementwise operator of one tensor. meaning: in numpy; None is `by_loops`. `finite`: see `flow.elementwise`. slope(cx, x) is its
    derivative; an operator without has the derivative 0, or if it is not `flat` no rule."""
    short = name.rsplit(".", 1)[-1]

    def cells(x: Any) -> Any:
        return compute(x.shape, lambda *i: fn(x(*i)), "compute", axes="i", tag="elemwise")

    def of_x(x: Tensor) -> Any:
        return cells(x)

    def of_data(data: Tensor) -> Any:
        return cells(data)

    # The operators of `nn` name their argument `data`.
    body: Callable[..., Any] = of_data if name.startswith("relax.nn.") else of_x
    body.__name__, body.__doc__ = short, doc
    meaning = meaning or by_loops(body)
    operator = op(name, mixed="follow")(body)
    if not name.startswith("relax.nn."):
        operator.te_name = f"tir_{short}"  # a kernel must not be named as a function of libm
    operator.layout(elementwise(finite=finite))
    if slope is not None:
        operator.grad(lambda cx, **args: cx.grad * slope(cx, *args.values()))
    elif flat:
        operator.grad(no_gradient)

    def infer(x: TensorStructInfo) -> TensorStructInfo:
        if float_only and not (x.dtype.is_void or x.dtype.is_float):
            what = "needs a tensor of floats"
            raise TypeError(explain(what, got=str(x.dtype), instead="cast it with astype"))
        return TensorStructInfo(x.shape, result or x.dtype, ndim=x.ndim, vdevice=x.vdevice)

    operator.infer(infer)
    operator.numpy(lambda x: np.asarray(meaning(x)).astype(result or x.dtype, copy=False))
    options = sample or {}
    operator.samples(case((2, 3), **options), case(("n", 8), **options), case((), **options))
    return operator


def reduction_gradient(slope: Callable[..., Any]) -> Rule:
    """The rule of a reduction: see `reduction`."""

    def grad(
        cx: Backward, x: Expr, axis: Sequence[int] | None = None, keepdims: bool = False
    ) -> Any:
        y, g = (cx.spread(v, x, axis, keepdims) for v in (cx.out, cx.grad))
        return slope(cx, x, y, g)

    return grad


def reduction(
    name: str, combine: Callable[..., Any], meaning: Callable[..., Any], doc: str, *,
    grows: bool = False, start: Callable[[np.dtype], Any] | None = None,
    slope: Callable[..., Any] | None = None,
) -> Operator:  # fmt: skip
    """A reduction `combine(values, axis=...)` over `axis` (None: all). `grows`: the result may need
    more digits than the values, so that short floats are widened. start(type) is the result for no
    values, where numpy's `meaning` has none. slope(cx, x, y, g) is the
    gradient, where y and g (result and its gradient) have the reduced axes again."""
    short = name.rsplit(".", 1)[-1]

    def body(x: Tensor, axis: Axes | None = None, keepdims: bool = False) -> Any:
        which = normalize_axes(axis, len(x.shape))
        if not which:
            return compute(x.shape, lambda *i: x(*i), f"{x.op.name}_red")
        wide = accumulator(x.dtype) if grows else x.dtype
        cell = lambda i, k: combine(cast(wide, x(*i)), axis=k)  # noqa: E731
        return rounded(reduce_over(x, which, keepdims, cell, f"{x.op.name}_red"), x.dtype)

    body.__name__, body.__doc__ = short, doc
    operator = op(name)(body)
    operator.layout(reducing())
    operator.infer(infer_reduce)
    if slope is not None:
        operator.grad(reduction_gradient(slope))

    def run(
        x: np.ndarray[Any, Any], axis: Sequence[int] | None = None, keepdims: bool = False
    ) -> Any:
        which = None if axis is None else tuple(axis)
        more = {} if x.size or start is None else {"initial": start(x.dtype)}
        out = np.asarray(meaning(widened(x), axis=which, keepdims=keepdims, **more))
        return out.astype(x.dtype, copy=False)

    operator.numpy(run)
    operator.samples(
        case((2, 3, 4), axis=[1]), case(("n", 8), axis=[-1], keepdims=True), case((2, 3), axis=None)
    )
    return operator
