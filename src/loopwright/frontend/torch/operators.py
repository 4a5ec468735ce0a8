"""`custom_op`: a compiled model as an operator of torch, for `torch.compile` and `torch.export` of what calls it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from ...base.errors import LoopwrightError, explain
from ...codegen.compiled import CompiledModel
from ...runtime.signature import Argument, number
from .dtypes import TORCH

# The functions of TensorIR in the extents of results.
_FUNCTIONS = SimpleNamespace(
    max=torch.sym_max,
    min=torch.sym_min,
    floordiv=lambda a, b: a // b,
    floormod=lambda a, b: a % b,
    int64=int,
)


def custom_op(name: str, exe: CompiledModel) -> Any:
    """Register an executable as the operator `name` ("library::op") and return it, as
    `torch.library.custom_op` does: `torch.compile(fullgraph=True)` and `torch.export` keep its calls whole.

    It takes the inputs of `main` in order and has no gradient; `register_autograd` of the result adds one.

    Raises LoopwrightError for an executable without results.

    >>> import torch
    >>> net = torch.nn.Linear(4, 2).eval()
    >>> exe = lw.compile(net, args=(torch.ones(3, 4),))
    >>> lw.frontend.torch.custom_op("mine::linear", exe)(torch.ones(3, 4)).shape
    torch.Size([3, 2])
    """
    signature = exe.signature("main")
    if not signature.results:
        what = "an operator of torch returns tensors"
        raise LoopwrightError(explain(what, got=repr(exe), instead="a model with results"))
    names = [re.sub(r"\W", "_", n) for n in exe.input_names()]
    params = ", ".join(f"{_kind(p)} {n}" for p, n in zip(signature.params, names, strict=True))
    returned = ", ".join(["Tensor"] * len(signature.results))
    many = len(signature.results) > 1
    schema = f"({params}) -> {f'({returned})' if many else returned}"

    def run(*args: Any) -> Any:
        leaves = signature.leaves(exe(*args))
        return tuple(leaves) if many else leaves[0]

    def fake(*args: Any) -> Any:
        sizes = _sizes(signature.params, args)
        results = [_like(r, sizes) for r in signature.results]
        return tuple(results) if many else results[0]

    op = torch.library.custom_op(name, run, mutates_args=(), device_types="cpu", schema=schema)
    op.register_fake(fake)
    return op


def _kind(param: Argument) -> str:
    """The type of a parameter in a schema."""
    if param.is_tensor:
        return "Tensor"
    return "bool" if param.dtype == "bool" else "float" if "float" in param.dtype else "SymInt"


def _sizes(params: Sequence[Argument], args: Sequence[Any]) -> dict[str, Any]:
    """The values of the symbols in the extents of arguments, by name."""
    sizes: dict[str, Any] = {}
    for param, arg in zip(params, args, strict=True):
        if not param.is_tensor:
            sizes[param.name] = arg
        elif param.dims is not None:
            names = (str(number(d)) for d in param.dims)
            sizes.update((n, s) for n, s in zip(names, arg.shape, strict=True) if n.isidentifier())
    return sizes


def _like(result: Argument, sizes: Mapping[str, Any]) -> torch.Tensor:
    """An empty tensor of the type of a result; extents that are not computed here are unknown to torch."""
    return torch.empty([_extent(d, sizes) for d in result.dims or ()], dtype=TORCH[result.dtype])


def _extent(dim: Any, sizes: Mapping[str, Any]) -> Any:
    dim = number(dim)
    if isinstance(dim, int):
        return dim
    try:
        return eval(str(dim), {"T": _FUNCTIONS, "__builtins__": {}}, dict(sizes))
    except (NameError, TypeError, AttributeError, SyntaxError):
        return torch.library.get_ctx().new_dynamic_size()
