"""The base of all functions: attributes, changed by making a copy."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, ClassVar

from .expr import DictAttrs, RelaxExpr
from .node import derived


class CallingConv(IntEnum):
    """How a function is called."""

    DEFAULT = 0
    C_PACKED_FUNC = 1
    DEVICE_KERNEL_LAUNCH = 2


class BaseFunc(RelaxExpr):
    """Root of functions, each kind of which has `attrs` as its last field (never None)."""

    attrs: DictAttrs = derived()
    opens_scope: ClassVar[bool] = True

    def with_attr(self, attr_key_or_dict: str | dict[str, Any], attr_value: Any = None) -> Any:
        """A copy with one attribute (key, value) or several (a dict) set."""
        new = attr_key_or_dict
        return self.with_attrs(new if isinstance(new, dict) else {new: attr_value})

    def with_attrs(self, attr_map: DictAttrs | dict[str, Any]) -> Any:
        """A copy with these attributes set."""
        return self._with_values({**self.attrs.values, **dict(attr_map.items())})

    def without_attr(self, attr_key: str) -> Any:
        """A copy without an attribute."""
        if attr_key not in self.attrs:
            return self
        return self._with_values({k: v for k, v in self.attrs.items() if k != attr_key})

    def _with_values(self, values: dict[str, Any]) -> Any:
        func = self.replace(attrs=DictAttrs(values))
        for name, value in self.extras().items():  # attributes do not change what it returns
            setattr(func, name, value)
        return func


def as_attrs(attrs: Any) -> DictAttrs:
    """DictAttrs from None, a dict, or DictAttrs."""
    return attrs if isinstance(attrs, DictAttrs) else DictAttrs(attrs)
