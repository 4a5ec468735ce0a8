"""SplitArgs: a concatenation of more tensors than a kernel may take is computed in parts.

before: concatenate((%a, %b, %c, %d), axis=0)         # max_function_args=4
after:  concatenate((concatenate((%a, %b, ...)), %d))
"""

from __future__ import annotations

from typing import Any

from ..expr import Call, Tuple
from ..operators.core import VIEWS
from ..types import TensorType, is_dynamic
from .base import RelayPass


def _arguments(type_: TensorType) -> int:
    """Arguments of a kernel that a tensor takes: unknown extents are passed too, with strides."""
    unknown = sum(is_dynamic(TensorType((d,), type_.dtype)) for d in type_.shape)
    return 1 + (unknown + len(type_.shape) if unknown else 0)


class SplitArgs(RelayPass):
    """A concatenation of more tensors than a kernel may take is computed in parts.
    max_function_args: of a kernel, with its result; 0: any number."""

    max_function_args: int

    opt_level = 1

    operators = ("concatenate",)

    def replaced(self, old: Call, new: Call) -> Any:
        if self.max_function_args <= 0 or not isinstance(new.args[0], Tuple):
            return None
        types = [f.checked_type for f in old.args[0].fields]
        counts = [_arguments(t) for t in types]
        limit = self.max_function_args - _arguments(old.checked_type)
        if sum(counts) < limit or len(types) < 2:
            return None
        axis = int(new.attrs.axis)
        stop, concatenate = VIEWS["annotation.stop_fusion"], VIEWS["concatenate"]
        parts: list[Any] = []
        total = 0
        for field, count in zip(new.args[0].fields, counts, strict=True):
            if parts and total + count > limit:
                parts = [concatenate(stop(Tuple(parts)), axis)]
                total = count
            total += count
            parts.append(field)
        return concatenate(stop(Tuple(parts)), axis)
