"""Calls of torch's own operators at run time: of those that have no converter, and of those that draw random
numbers from torch's generator, so that `torch.manual_seed` decides them as in eager torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

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
from ..dtypes import DTYPES, PARTS, TORCH, dtype_of
from ..model import TorchNode as Node
from ..model import as_tensor, overload_of
from ..pairs import Pair, opened
from .table import aten

_CALL = "relax.run.torch_call"


@aten(
    "rand", "rand.generator", "rand_like", "randn", "randn.generator", "randn_like", "randint", "randint.low",
    "randint.generator", "randint.low_generator", "randint_like", "randint_like.low_dtype", "randperm",
    "bernoulli", "bernoulli.p", "bernoulli.Tensor", "uniform", "normal_functional", "normal.Tensor_Tensor",
    "normal.Tensor_float", "normal.float_Tensor", "exponential", "geometric", "cauchy", "log_normal", "random",
    "random.from", "random.to", "multinomial", "poisson", "binomial", "_standard_gamma",
)  # fmt: skip
def drawn(cx: Context, node: Node, *args: Any, **named: Any) -> list[Value]:
    """Random numbers. The last ones are an argument of the next call, so that calls stay in order."""
    if cx.splits:
        raise ValueError(explain("random numbers are torch's own"))
    cx.draws += 1  # which distinguishes equal calls
    results = called(cx, node, args, named, [] if cx.drawn is None else [cx.drawn])
    cx.drawn = _whole(results[0])
    return results


def is_callable(node: fx.Node) -> bool:
    """Whether a node is an operator of tensors that have a counterpart here, and writes none of them."""
    fakes = tree_leaves([node.meta.get("val"), *(n.meta.get("val") for n in node.all_input_nodes)])
    return (
        isinstance(node.target, OpOverload)
        and not node.target._schema.is_mutable
        and all(isinstance(r.type, torch.TensorType) for r in node.target._schema.returns)
        and all(
            f.dtype in DTYPES | PARTS and f.layout == torch.strided
            for f in fakes
            if isinstance(f, torch.Tensor)
        )
    )


def called(
    cx: Context, node: Node, args: Sequence[Any], named: Mapping[str, Any], after: Sequence[Expr] = (),
) -> list[Value]:  # fmt: skip
    """The results of a call of torch's operator, whose tensors and symbolic sizes are arguments of ours."""
    fakes = node.value if isinstance(node.value, (list, tuple)) else [node.value]
    tensors: list[Expr] = []
    sizes: list[PrimExpr] = []

    def stored(arg: Any) -> Any:
        if isinstance(arg, Value):
            tensors.append(_whole(arg))
            return {"pair" if isinstance(arg, Pair) else "tensor": len(tensors) - 1}
        if isinstance(arg, PrimExpr):
            sizes.append(arg)
            return {"size": len(sizes) - 1}
        if isinstance(arg, complex):
            return {"complex": [arg.real, arg.imag]}
        if isinstance(arg, str) and arg in TORCH:
            return {"dtype": arg}
        return [*map(stored, arg)] if isinstance(arg, (list, tuple)) else arg

    call = json.dumps([node.op_type, stored(args), {k: stored(v) for k, v in named.items()}])
    infos = [_info(cx, fake) for fake in fakes]
    info = infos[0] if len(infos) == 1 else TupleStructInfo(infos)
    leading = [StringImm(call), PrimValue(cx.draws), ShapeExpr(sizes)]
    out = cx.emit(op.call_pure_packed(_CALL, *leading, *tensors, *after, sinfo_args=info))
    values = [cx.value(out[k]) for k in range(len(infos))] if len(infos) > 1 else [cx.value(out)]
    return [opened(cx, v) if f.is_complex() else v for v, f in zip(values, fakes, strict=True)]


def _whole(value: Value) -> Expr:
    return value.whole.expr if isinstance(value, Pair) else value.expr


def _info(cx: Context, fake: torch.Tensor) -> TensorStructInfo:
    dtype, parts = dtype_of(fake.dtype), [2] if fake.is_complex() else []
    try:
        return TensorStructInfo([*cx.dims(fake), *parts], dtype)
    except ValueError:  # a size that this result determines
        return TensorStructInfo(dtype=dtype, ndim=fake.ndim + len(parts))


def _call(call: str, number: int, sizes: ShapeTuple, *tensors: Any) -> Any:
    values = [*map(torch.from_dlpack, tensors)]

    def restored(arg: Any) -> Any:
        if isinstance(arg, dict):
            ((kind, value),) = arg.items()
            if kind in ("tensor", "pair"):
                tensor = values[value]
                return tensor if kind == "tensor" else torch.view_as_complex(tensor.contiguous())
            return {"size": lambda: int(sizes[value]), "dtype": lambda: TORCH[value],
                    "complex": lambda: complex(*value)}[kind]()  # fmt: skip
        return [*map(restored, arg)] if isinstance(arg, list) else arg

    name, args, named = json.loads(str(call))
    with torch.no_grad():
        out = overload_of(name)(*restored(args), **{k: restored(v) for k, v in named.items()})
    return [*map(_returned, out)] if isinstance(out, Sequence) else _returned(out)


def _returned(value: torch.Tensor) -> Any:
    value = value.resolve_conj().resolve_neg()
    return as_tensor(torch.view_as_real(value) if value.is_complex() else value)


register_func(_CALL, _call, override=True)


@aten("rrelu_with_noise_functional")
def rrelu(
    cx: Context, node: Node, x: Term, noise: Term, lower: Number, upper: Number, training: bool
) -> list[Value]:
    if training:
        return drawn(cx, node, x, noise, lower, upper, training)
    return [cx.where(x > 0, x, x * ((lower + upper) / 2)), noise]


@aten("native_dropout")
def dropout(cx: Context, node: Node, x: Term, p: Number, train: bool | None) -> list[Value]:
    if train and p not in (0, 1):
        return drawn(cx, node, x, p, train)
    mask = cx.filled(cx.dims(node.value[0]), not (train and p), "bool")
    return [x * 0.0 if train and p else x, mask]
