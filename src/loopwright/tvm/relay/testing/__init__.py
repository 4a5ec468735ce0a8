"""What tests of Relay use: types and passes on single expressions, parameters, well-known networks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ....ir.op import Op
from ....ir.transform import IRModule, Pass
from ....runtime.tensor import Tensor, tensor
from ..expr import Call, Function
from ..left_out import served
from ..transform import InferType
from ..types import TensorType
from ..walk import post_order
from . import (
    byoc,
    dcgan,
    densenet,
    dqn,
    inception_v3,
    init,
    layers,
    lenet,
    lstm,
    mlp,
    mobilenet,
    resnet,
    squeezenet,
    synthetic,
    temp_op_attr,
    vgg,
)
from .gradients import check_grad
from .init import create_workload

if TYPE_CHECKING:
    from ..expr import Expr

__getattr__ = served(__name__)


def run_opt_pass(expr: Expr, opt_pass: Pass, import_prelude: bool = False) -> Any:
    """An expression after a pass on its module, whose types are known before it.

    import_prelude: refused; algebraic data types have no meaning here."""
    if import_prelude:
        raise NotImplementedError("the prelude is made of algebraic data types; write it in Relax")
    func = opt_pass(InferType()(IRModule.from_expr(expr)))["main"]
    return func if isinstance(expr, Function) else func.body


def run_infer_type(expr: Expr) -> Any:
    """An expression with its types."""
    return run_opt_pass(expr, InferType())


def rand(dtype: str, *shape: int) -> Tensor:
    """Random numbers of [0, 1)."""
    return tensor(np.random.rand(*shape).astype(dtype))


def _np_randn_from_type(type_: TensorType, scale: float = 1, mean: float = 0) -> np.ndarray:
    """Normally distributed numbers of a tensor type."""
    shape = [int(d) for d in type_.concrete_shape]
    return np.asarray(mean + scale * np.random.standard_normal(shape)).astype(str(type_.dtype))


def count_ops(expr: Expr) -> Counter[str]:
    """How many calls an expression has of each operator."""
    calls = (node for node in post_order(expr) if isinstance(node, Call))
    return Counter(call.op.name for call in calls if isinstance(call.op, Op))
