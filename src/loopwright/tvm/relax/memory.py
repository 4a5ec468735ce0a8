"""The memory of the tensors of graph functions, with and without shared storages."""

from __future__ import annotations

from math import prod
from typing import Any

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.prim_expr import IntImm
from ...relax import expr as rx
from ...relax.analysis.variables import bindings_of

_GB = 1 << 30


def estimate_memory_usage(mod: IRModule | rx.Function) -> str:
    """A text about each function's allocations, once StaticPlanBlockMemory has run: the bytes of the
    tensors one by one, and of their storages."""
    if isinstance(mod, rx.Function):
        functions: dict[str, Any] = {str(mod.attrs.get("global_symbol", "main")): mod}
    else:
        functions = {gvar.name_hint: func for gvar, func in mod.functions.items()}
    lines = ["Memory usage estimation:"]
    for name, func in functions.items():
        if isinstance(func, rx.Function):
            lines += [f"- Function {name}:", *_lines(func)]
    return "\n".join(lines) + "\n"


def _lines(func: rx.Function) -> list[str]:
    alone = {"relax.builtin.alloc_tensor": (0, 1)}
    tensors = {**alone, "relax.memory.alloc_tensor": (2, 3)}
    storages = {**alone, "relax.memory.alloc_storage": (0, None)}
    before, after = _sizes(func, tensors), _sizes(func, storages)
    lines = []
    for what, sizes in (("Without", before), ("With", after)):
        literal = [size for size in sizes if size is not None]
        text = f" * {what} memory planning, there are {len(literal)} constant-size memory allocation(s)"
        lines.append(f"{text} with total size {sum(literal) / _GB:.4g} GB.")
        if len(literal) < len(sizes):
            lines.append(f" * The sizes of {len(sizes) - len(literal)} more are known at run time.")
    total, planned = (sum(s for s in sizes if s is not None) for sizes in (before, after))
    if total:
        percent = f"{planned / total * 100:.3g}%"
        lines.append(f" * Memory planning reduces constant memory size to {percent}.")
    return lines


def _sizes(func: rx.Function, kinds: dict[str, Any]) -> list[int | None]:
    """The bytes of each allocation of some operators, None for those known only at run time."""
    sizes: list[int | None] = []
    for binding in bindings_of(func):
        value = binding.value
        if isinstance(value, rx.Call) and isinstance(value.op, Op) and value.op.name in kinds:
            shape, dtype = kinds[value.op.name]
            dims: Any = getattr(value.args[shape], "values", None)
            width = 1 if dtype is None else value.args[dtype].value.lane_bytes
            literal = [dim.value for dim in dims or () if isinstance(dim, IntImm)]
            complete = dims is not None and len(literal) == len(dims)
            sizes.append(prod(literal) * width if complete else None)
    return sizes
