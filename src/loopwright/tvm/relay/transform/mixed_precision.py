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


def clip_op(call_node: Call, mixed_precision_type: str) -> list[Any]:
    """A clip follows its operand where the short dtype has its bounds."""
    limit = max_value(mixed_precision_type).value
    inside = all(abs(call_node.attrs[bound]) <= limit for bound in ("a_min", "a_max"))
    rule = generic_follow_op if inside else generic_never_op
    return rule(call_node, mixed_precision_type)


# By the category of an operator's definition. "follow": it moves data, compares, or stays within the
# range of its operands; "never": its result is much larger, or sums many elements.
RULES: dict[str, ConversionRule] = {
    "always": generic_always_op, "follow": generic_follow_op, "never": generic_never_op,
    "bounded": clip_op,
}  # fmt: skip
DEFAULT_ALWAYS_LIST, DEFAULT_FOLLOW_LIST, DEFAULT_NEVER_LIST = (
    [name for name, row in ROWS.items() if row.mixed == category]
    for category in ("always", "follow", "never")
)
for _row in ROWS.values():
    if _row.mixed:
        _row.op.set_attr(KEY, RULES[_row.mixed])
