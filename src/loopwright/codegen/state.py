"""The state of a compiled model: tensors that it reads and writes in each call."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import explain
from ..runtime.tensor import Tensor, from_dlpack


class State:
    """Buffers by name. They are the last inputs of `main`, whose first results are the new values of the
    inputs `written`, buffers or the caller's."""

    def __init__(
        self, names: Sequence[str], values: Sequence[Tensor], written: Sequence[int]
    ) -> None:
        self.written = [int(k) for k in written]
        self.tensors = {
            str(name): Tensor(value.numpy()) for name, value in zip(names, values, strict=True)
        }

    def completed(self, args: Sequence[Any]) -> list[Any]:
        """The arguments of `main` for those of a call."""
        return [*args, *self.tensors.values()]

    def update(self, args: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """Write the new values, to buffers and to the caller's tensors. Returns the other results."""
        names, count = list(self.tensors), len(args)
        for k, value in zip(self.written, results, strict=False):
            if k < count:
                _write(args[k], value)
            else:
                self.tensors[names[k - count]] = from_dlpack(value)
        return list(results[len(self.written) :])

    def load(self, values: Mapping[str, Any]) -> None:
        """Replace buffers by name. Raises KeyError for an unknown one, ValueError for another shape."""
        for name, value in values.items():
            if name not in self.tensors:
                what = "this model has no such buffer"
                raise KeyError(explain(what, got=name, instead=", ".join(self.tensors)))
            old = self.tensors[name]
            self.tensors[name] = Tensor(old.numpy()).copyfrom(_array(value))


def _array(value: Any) -> Any:
    return value.detach() if hasattr(value, "detach") else value


def _write(target: Any, value: Any) -> None:
    """Write a new value to a caller's tensor."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(target, torch.Tensor):
        with torch.no_grad():
            target.copy_(torch.from_dlpack(value))
    elif isinstance(target, (np.ndarray, Tensor)):
        target[...] = from_dlpack(value).view()
