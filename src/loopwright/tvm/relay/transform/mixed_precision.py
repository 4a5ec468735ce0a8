"""What ToMixedPrecision does with each operator, as users see and change it.

The fact "FTVMMixedPrecisionConversionType" of an operator is `rule(call, dtype) -> [category, dtype it
accumulates in, dtype of its result]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ....ir.prim_op import max_value
from ..expr import Call
from ..operators.core import ROWS

KEY = "FTVMMixedPrecisionConversionType"
MIXED_PRECISION_ALWAYS, MIXED_PRECISION_FOLLOW, MIXED_PRECISION_NEVER = 0, 1, 2

DEFAULT_ALWAYS_LIST = """
    nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose nn.dense
    nn.batch_matmul
""".split()  # noqa: SIM905
# They move data, compare, or stay within the range of what they take.
DEFAULT_FOLLOW_LIST = """
    nn.pad nn.batch_flatten concatenate zeros split squeeze transpose expand_dims reshape dyn.reshape
    broadcast_to_like dyn.broadcast_to strided_slice dyn.strided_slice take argwhere where tile dyn.tile
    scatter_elements scatter_nd full dyn.full nn.depth_to_space less greater less_equal
    greater_equal copy cast cast_like add subtract multiply divide nn.bias_add nn.batch_norm sqrt
    shape_of max min maximum minimum argmax argmin nn.relu nn.leaky_relu nn.prelu nn.dropout sigmoid tanh
    fast_tanh fast_exp fast_erf nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.avg_pool1d
    nn.avg_pool2d nn.avg_pool3d nn.global_max_pool2d nn.adaptive_max_pool1d nn.adaptive_max_pool2d
    nn.adaptive_max_pool3d image.resize2d
""".split()  # noqa: SIM905
# Their results are much larger than what they take, or they sum many elements.
DEFAULT_NEVER_LIST = """
    exp power nn.cross_entropy nn.cross_entropy_with_logits nn.softmax nn.l2_normalize erf arange
    nn.global_avg_pool2d nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d sum mean
    variance nn.layer_norm
""".split()  # noqa: SIM905

ConversionRule = Callable[[Call, str], list[Any]]


def get_generic_out_dtypes(call_node: Call, mixed_precision_type: str) -> list[str]:
    """The dtypes of a call's accumulator and result, by default the short one."""
    return [mixed_precision_type, mixed_precision_type]


def _generic(category: int) -> ConversionRule:
    def rule(call_node: Call, mixed_precision_type: str) -> list[Any]:
        return [category, *get_generic_out_dtypes(call_node, mixed_precision_type)]

    return rule


generic_always_op = _generic(MIXED_PRECISION_ALWAYS)
generic_follow_op = _generic(MIXED_PRECISION_FOLLOW)
generic_never_op = _generic(MIXED_PRECISION_NEVER)


def register_func_to_op_list(list_ops: Iterable[str]) -> Callable[[ConversionRule], ConversionRule]:
    """A decorator that stores a rule for several operators."""

    def decorate(rule: ConversionRule) -> ConversionRule:
        for name in list_ops:
            if name in ROWS:
                ROWS[name].op.set_attr(KEY, rule)
        return rule

    return decorate


register_func_to_op_list(DEFAULT_ALWAYS_LIST)(generic_always_op)
register_func_to_op_list(DEFAULT_FOLLOW_LIST)(generic_follow_op)
register_func_to_op_list(DEFAULT_NEVER_LIST)(generic_never_op)


@register_func_to_op_list(["clip"])
def clip_op(call_node: Call, mixed_precision_type: str) -> list[Any]:
    """A clip follows what it takes where the short dtype has its bounds."""
    limit = max_value(mixed_precision_type).value
    inside = all(abs(call_node.attrs[bound]) <= limit for bound in ("a_min", "a_max"))
    rule = generic_follow_op if inside else generic_never_op
    return rule(call_node, mixed_precision_type)
