"""Random numbers: torch's own operators draw them at run time from torch's generator, so that `torch.manual_seed`
decides them as in eager torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch

from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....relax import op
from ....relax.expr import Expr, PrimValue, ShapeExpr, StringImm
from ....relax.struct_info import TensorStructInfo, TupleStructInfo
from ....runtime.packed_func import register_func
from ....runtime.tensor import ShapeTuple
from ...graph.values import Value
from ..context import Number, Term
from ..context import TorchContext as Context
from ..dtypes import dtype_of
from ..model import TorchNode as Node
from ..model import as_tensor
from .table import aten

_DRAW = "relax.run.torch_random"


@aten(
    "rand", "rand.generator", "rand_like", "randn", "randn.generator", "randn_like", "randint", "randint.low",
    "randint.generator", "randint.low_generator", "randint_like", "randint_like.low_dtype", "randperm",
    "bernoulli", "bernoulli.p", "bernoulli.Tensor", "uniform", "normal_functional", "normal.Tensor_Tensor",
    "normal.Tensor_float", "normal.float_Tensor", "exponential", "geometric", "cauchy", "log_normal", "random",
    "random.from", "random.to", "multinomial", "poisson", "binomial", "_standard_gamma",
)  # fmt: skip
def drawn(cx: Context, node: Node, *args: Any, **named: Any) -> list[Term]:
    """The results of a call of torch's operator, whose tensors and symbolic sizes are arguments of ours."""
    fakes = node.value if isinstance(node.value, (list, tuple)) else [node.value]
    if cx.splits or any(f.is_complex() for f in fakes):
        raise ValueError(explain("random numbers are torch's own"))
    tensors: list[Expr] = []
    sizes: list[PrimExpr] = []

    def stored(arg: Any) -> Any:
        if isinstance(arg, Value):
            tensors.append(arg.expr)
            return {"tensor": len(tensors) - 1}
        if isinstance(arg, PrimExpr):
            sizes.append(arg)
            return {"size": len(sizes) - 1}
        return [stored(a) for a in arg] if isinstance(arg, list) else arg

    call = json.dumps([node.op_type, stored(list(args)), {k: stored(v) for k, v in named.items()}])
    infos = [TensorStructInfo(cx.shape(f), dtype_of(f.dtype)) for f in fakes]
    info = infos[0] if len(infos) == 1 else TupleStructInfo(infos)
    cx.draws += 1  # which distinguishes equal calls
    leading = [StringImm(call), PrimValue(cx.draws), ShapeExpr(sizes)]
    after = [] if cx.drawn is None else [cx.drawn]  # an argument, so that calls stay in order
    out = cx.emit(op.call_pure_packed(_DRAW, *leading, *tensors, *after, sinfo_args=info))
    cx.drawn = out if len(infos) == 1 else cx.emit(out[0])
    return [cx.value(out[k]) for k in range(len(infos))] if len(infos) > 1 else cx.value(out)


def _draw(call: str, number: int, sizes: ShapeTuple, *tensors: Any) -> Any:
    values = {"tensor": [torch.from_dlpack(t) for t in tensors], "size": list(map(int, sizes))}

    def restored(arg: Any) -> Any:
        if isinstance(arg, dict):
            ((kind, k),) = arg.items()
            return values[kind][k]
        if isinstance(arg, str):
            return getattr(torch, arg)
        return [restored(a) for a in arg] if isinstance(arg, list) else arg

    name, args, named = json.loads(str(call))
    packet, overload = name.split(".")[1:]
    with torch.no_grad():
        out = getattr(getattr(torch.ops.aten, packet), overload)(
            *restored(args), **{k: restored(v) for k, v in named.items()}
        )
    return [as_tensor(v) for v in out] if isinstance(out, Sequence) else as_tensor(out)


register_func(_DRAW, _draw, override=True)


@aten("rrelu_with_noise_functional")
def rrelu(
    cx: Context, node: Node, x: Term, noise: Term, lower: Number = 1 / 8, upper: Number = 1 / 3,
    training: bool = False, *_: object,
) -> list[Term]:  # fmt: skip
    if training:
        return drawn(cx, node, x, noise, lower, upper, training)
    return [cx.where(x > 0, x, x * ((lower + upper) / 2)), noise]


@aten("native_dropout")
def dropout(cx: Context, node: Node, x: Term, p: Number, train: bool | None) -> list[Term]:
    if train and p not in (0, 1):
        return drawn(cx, node, x, p, train)
    mask = cx.filled(cx.dims(node.value[0]), not (train and p), "bool")
    return [x * 0.0 if train and p else x, mask]
