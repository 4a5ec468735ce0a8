"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import te
from ..base.errors import explain
from ..ir.dtype import numpy_dtype
from ..ir.literals import is_one
from ..ir.prim_op import cast, const, multiply
from ..relax import op as R
from ..relax.expr import Expr
from ..relax.op import register_view as register_relax_view
from ..relax.relations import can_prove_shape_equal
from ..relax.struct_info import TensorStructInfo, TupleStructInfo
from ..script.relax import register_view as register_script_view
from .common import (
    accumulator,
    aligned_index,
    broadcast_known,
    broadcast_shape,
    common_dtype,
    rounded,
    void_or,
    widened,
)
from .core import case, op
from .extents import broadcast_differ, differ, text
from .params import DType, Tensor, Tensors


@op("relax.matmul", mixed="always")
def matmul(x1: Tensor, x2: Tensor, out_dtype: DType | None = None):
    """numpy's matmul: the last axis of x1 with the last but one of x2, the rest broadcast."""
    a, b = list(x1.shape), list(x2.shape)
    left, right = len(a) == 1, len(b) == 1
    batch = broadcast_shape(a[:-2], b[:-2])
    rows, cols = [] if left else [a[-2]], [] if right else [b[-1]]
    k = te.reduce_axis((const(0, a[-1].dtype), a[-1]), name="k")
    dtype = void_or(out_dtype, x1.dtype)
    wide = accumulator(dtype)

    def cell(*i):
        front = i[: len(batch)]
        row = [] if left else [i[len(batch)]]
        col = [] if right else [i[-1]]
        lhs = x1(*aligned_index(a[:-2], front, batch), *row, k)
        rhs = x2(*aligned_index(b[:-2], front, batch), k, *col)
        return te.sum(multiply(cast(wide, lhs), cast(wide, rhs)), axis=k)

    return rounded(te.compute([*batch, *rows, *cols], cell, name="matmul"), dtype)


@matmul.infer
def _(x1: TensorStructInfo, x2: TensorStructInfo, out_dtype=None):
    dtype = out_dtype
    if dtype is None:
        typed = not (x1.dtype.is_void or x2.dtype.is_void)
        if typed and x1.dtype != x2.dtype:
            hint = "cast one side with astype"
            got = f"{x1.dtype} and {x2.dtype}"
            raise TypeError(explain("operands of different dtypes", got=got, instead=hint))
        dtype = x1.dtype if typed else "void"
    if x1.ndim == -1 or x2.ndim == -1:
        return TensorStructInfo(dtype=dtype)
    if x1.ndim == 0 or x2.ndim == 0:
        raise ValueError(explain("needs tensors of rank 1 or more"))
    rank = max(x1.ndim - 2, x2.ndim - 2, 0) + (x1.ndim > 1) + (x2.ndim > 1)
    a, b = x1.get_shape(), x2.get_shape()
    if a is None or b is None:
        return TensorStructInfo(dtype=dtype, ndim=rank)
    inner, other = a[-1], b[0 if len(b) == 1 else -2]
    if differ(other, inner):
        what = f"the inner dimensions differ: {text(inner)} and {text(other)}"
        raise ValueError(explain(what, instead="transpose or reshape one side"))
    batch = broadcast_shape(list(a[:-2]), list(b[:-2]))
    broadcast_differ(b[:-2], a[:-2])
    if not broadcast_known(a[:-2], b[:-2]):
        return TensorStructInfo(dtype=dtype, ndim=rank)
    rows, cols = [a[-2]] if len(a) > 1 else [], [b[-1]] if len(b) > 1 else []
    return TensorStructInfo([*batch, *rows, *cols], dtype)


@matmul.numpy
def _(x1, x2, out_dtype=None):
    kind = x1.dtype if out_dtype is None else numpy_dtype(out_dtype)
    a, b = (widened(x.astype(kind)) for x in (x1, x2))
    return np.asarray(np.matmul(a, b)).astype(kind, copy=False)


def _transposed(x, rank):
    """x with its last two axes exchanged."""
    return R.permute_dims(x, [*range(rank - 2), rank - 1, rank - 2])


@matmul.grad
def _(cx, x1, x2, out_dtype=None):
    a, b = x1.struct_info.ndim, x2.struct_info.ndim
    g, rank = cx.grad, max(a, b, 2)
    if a == 1 and b == 1:
        return [g * x2, g * x1]
    if a == 1:
        g = R.expand_dims(g, -2)
    if b == 1:
        g = R.expand_dims(g, -1)
    rows = R.expand_dims(x1, 0) if a == 1 else x1
    cols = R.expand_dims(x2, 1) if b == 1 else x2
    first = R.matmul(g, _transposed(cols, max(b, 2)))
    second = R.matmul(_transposed(rows, max(a, 2)), g)
    if a == 1:
        first = R.squeeze(first, [-2])
    if b == 1:
        second = R.squeeze(second, [-1])
    if a != rank or (a > 2 and not can_prove_shape_equal(_batch(x1), _batch(cx.out))):
        first = R.collapse_sum_to(first, cx.shape(x1)) if rank > 2 else first
    if b != rank or (b > 2 and not can_prove_shape_equal(_batch(x2), _batch(cx.out))):
        second = R.collapse_sum_to(second, cx.shape(x2)) if rank > 2 else second
    return [first, second]


def _batch(x):
    return list(x.struct_info.get_shape()[:-2])


matmul.samples(
    case((4, 5), (5, 3)),
    case(("n", 16), (16, 8)),
    case((2, 1, 3, 4), (5, 4, 2)),
    case((4,), (4, 3)),
    case((3, 4), (4,)),
)


def _equation(subscripts, ranks):
    """The labels of each operand and of the result; "..." becomes capital letters."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        what = f"the subscripts have {len(terms)} terms"
        raise ValueError(explain(what, got=f"{len(ranks)} tensors, {subscripts}"))
    wide = [
        r - len(t.replace("...", "")) if "..." in t else 0
        for t, r in zip(terms, ranks, strict=True)
    ]
    most = "\u0391\u0392\u0393\u0394\u0395\u0396\u0397\u0398"[: max(0, *wide)]
    terms = [
        t.replace("...", most[len(most) - w :] if w else "")
        for t, w in zip(terms, wide, strict=True)
    ]
    every = "".join(terms)
    if arrow:
        result = right.replace("...", most)
    else:
        once = {c for c in every if every.count(c) == 1 and c not in most}
        result = most + "".join(sorted(once))
    fits = all(len(t) == r for t, r in zip(terms, ranks, strict=True))
    if not fits or len(set(result)) != len(result) or not set(result) <= set(every):
        what = "the subscripts do not fit the tensors"
        raise ValueError(explain(what, got=f"{subscripts} for ranks {list(ranks)}"))
    return terms, result


def _labelled(terms, shapes, subscripts):
    """The extent of each label. Raises ValueError where literal ones differ; 1 broadcasts, but along a
    diagonal."""
    extents: dict[str, Any] = {}
    for term, shape in zip(terms, shapes, strict=True):
        own: dict[str, Any] = {}
        for label, d in zip(term, shape, strict=True):
            old = extents.setdefault(label, d)
            if differ(d, own.setdefault(label, d)):
                what = f"{subscripts} takes the diagonal of axes of two extents"
                raise ValueError(explain(what, got=f"{text(own[label])} and {text(d)}"))
            if is_one(old):
                extents[label] = d
            elif not is_one(d) and differ(d, old):
                what = f"label {label} of {subscripts} has two extents"
                raise ValueError(explain(what, got=f"{text(old)} and {text(d)}"))
    return extents


@op("relax.einsum")
def einsum(operands: Tensors, subscripts: str):
    """The sum of products that `subscripts` ("ij,jk->ik") describes, as `np.einsum`."""
    terms, result = _equation(subscripts, [len(t.shape) for t in operands])
    extents = _labelled(terms, [t.shape for t in operands], subscripts)
    spans = {
        label: te.reduce_axis((const(0, "int64"), d), name=f"k{n}")
        for n, (label, d) in enumerate(extents.items())
        if label not in result
    }
    dtype = operands[0].dtype
    wide = accumulator(dtype)

    def cell(*i):
        at = {**dict(zip(result, i, strict=True)), **spans}
        value: Any = None
        for t, term in zip(operands, terms, strict=True):
            where = [
                const(0, "int64") if is_one(d) and not is_one(extents[c]) else at[c]
                for c, d in zip(term, t.shape, strict=True)
            ]
            factor = cast(wide, t(*where))
            value = factor if value is None else multiply(value, factor)
        return te.sum(value, axis=list(spans.values())) if spans else value

    return rounded(te.compute([extents[c] for c in result], cell, name="T_einsum"), dtype)


@einsum.infer
def _(operands: TupleStructInfo, subscripts):
    infos = operands.fields
    kinds = {str(t.dtype) for t in infos}
    if len(kinds - {"void"}) > 1:
        raise TypeError(explain("tensors of different dtypes", got=", ".join(sorted(kinds))))
    dtype = "void" if "void" in kinds else infos[0].dtype
    if any(t.ndim == -1 for t in infos):
        return TensorStructInfo(dtype=dtype)
    terms, result = _equation(subscripts, [t.ndim for t in infos])
    shapes = [t.get_shape() for t in infos]
    if any(s is None for s in shapes):
        return TensorStructInfo(dtype=dtype, ndim=len(result))
    extents = _labelled(terms, shapes, subscripts)
    return TensorStructInfo([extents[c] for c in result], dtype)


@einsum.numpy
def _(operands, subscripts):
    result = np.einsum(subscripts, *map(widened, operands))
    return np.asarray(result).astype(operands[0].dtype)


einsum.samples(
    case([(2, 3), (3, 4)], subscripts="ij,jk->ik"),
    case([(2, "n", 3), (2, 3, 4)], subscripts="...ij,...jk->...ik"),
    case([(3, 3)], subscripts="ii"),
    case([(2, 3), (2,), (3,)], subscripts="ij, i, j"),
    case([(2, 3)], subscripts="ij->ji"),
)


@op("relax.outer")
def outer(x1: Tensor, x2: Tensor):
    """x1[i] * x2[j] of two vectors."""
    shape = [x1.shape[0], x2.shape[0]]
    return te.compute(shape, lambda i, j: multiply(x1(i), x2(j)), name="T_outer", tag="broadcast")


@outer.infer
def _(x1: TensorStructInfo, x2: TensorStructInfo):
    dtype = common_dtype(x1, x2)
    for t in (x1, x2):
        if t.ndim not in (-1, 1):
            raise ValueError(explain("needs two vectors", got=f"rank {t.ndim}"))
    a, b = x1.get_shape(), x2.get_shape()
    if a is None or b is None:
        return TensorStructInfo(dtype=dtype, ndim=2)
    return TensorStructInfo([a[0], b[0]], dtype)


outer.numpy(np.outer)


outer.grad(lambda cx, x1, x2: [R.matmul(cx.grad, x2), R.matmul(x1, cx.grad)])
outer.samples(case((3,), (4,)), case(("n",), (2,)))


def linear(
    data: Expr, weight: Expr, bias: Expr | None = None, out_dtype: str | None = None
) -> Expr:
    """data @ weight^T, plus `bias` if it is given: (..., k) by (n, k) is (..., n).

    >>> x, weight = (relax.Var(n, R.Tensor(s, "float32")) for n, s in [("x", (2, 3)), ("w", (4, 3))])
    >>> relax.op.linear(x, weight)
    R.matmul(x, R.permute_dims(w, axes=None), out_dtype="void")
    """
    result = R.matmul(data, R.permute_dims(weight), out_dtype)
    return result if bias is None else R.add(result, bias)


register_relax_view("linear", linear)
register_script_view("linear", linear)
