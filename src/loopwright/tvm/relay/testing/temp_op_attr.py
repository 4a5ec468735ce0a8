"""An operator's attribute for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.op import Op


class TempOpAttr:
    """`with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", rule): ...` sets an attribute of an
    operator; afterwards it is what it was."""

    def __init__(self, op_name: str, attr_key: str, attr_value: int | Callable[..., Any]) -> None:
        self.op, self.attr_key, self.attr_value = Op.get(op_name), attr_key, attr_value

    def __enter__(self) -> TempOpAttr:
        self.older_attr = self.op.get_attr(self.attr_key)
        self.op.reset_attr(self.attr_key)
        self.op.set_attr(self.attr_key, self.attr_value)
        return self

    def __exit__(self, *_: object) -> None:
        self.op.reset_attr(self.attr_key)
        if self.older_attr is not None:
            self.op.set_attr(self.attr_key, self.older_attr)
