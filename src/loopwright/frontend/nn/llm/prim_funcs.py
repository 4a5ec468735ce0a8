"""Kernels by their parameters: buffers and numbers, in the order of the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .... import tir
from ....tir.function import PrimFunc


def kernel(
    name: str, params: Mapping[str, tuple[Any, str] | str], write: Callable[..., None]
) -> PrimFunc:
    """A PrimFunc; params: by name, a buffer's shape and dtype, or the dtype of a number. `write(ib,
    *params)` builds its body."""
    ib = tir.ir_builder.create()
    variables, buffers, passed = [], {}, []
    for label, param in params.items():
        if isinstance(param, str):
            variables.append(tir.Var(label, param))
            passed.append(variables[-1])
            continue
        buffer = tir.decl_buffer(*param, label)
        variables.append(tir.Var(f"var_{label}", "handle"))
        buffers[variables[-1]] = buffer
        passed.append(ib.buffer_ptr(buffer))
    write(ib, *passed)
    func = tir.PrimFunc(variables, ib.get(), None, buffers)
    return func.with_attr("global_symbol", name).with_attr("op_pattern", 8)
