"""Small graph layers for tests: they emit into the BlockBuilder whose function is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ... import relax
from ...base.errors import explain
from ...ir.module import IRModule
from ...relax import BlockBuilder
from ...relax.expr import Expr, Var
from ...relax.struct_info import TensorStructInfo
from ...runtime import Tensor, tensor


def _builder() -> BlockBuilder:
    builder = BlockBuilder.current()
    if builder is None:
        what = "no function is being built"
        raise RuntimeError(explain(what, instead='use it inside `with bb.function("main")`'))
    return builder


def emit(expr: Expr, name_hint: str = "") -> relax.Var:
    """Emit into the open function."""
    return _builder().emit(expr, name_hint)


def emit_te(func: Callable[..., Any], *args: Expr, **kwargs: Any) -> relax.Var:
    """Emit a kernel given as a tensor expression function."""
    return _builder().emit_te(func, *args, **kwargs)


def checkpoint(func: Callable[..., Any], *args: Expr, **kwargs: Any) -> Any:
    """func(*args, **kwargs), not emitted, whose values are computed again in the backward pass
    instead of being kept; the arguments are kept. A tuple if `func` returns one."""
    start, end = relax.op.grad.start_checkpoint, relax.op.grad.end_checkpoint
    result = func(*map(start, args), **{name: start(value) for name, value in kwargs.items()})
    return tuple(map(end, result)) if isinstance(result, (list, tuple)) else end(result)


def emit_checkpoint(func: Callable[..., Any], *args: Expr, **kwargs: Any) -> Any:
    """Emit `checkpoint`: a variable, or a tuple of them."""
    result = checkpoint(func, *args, **kwargs)
    return tuple(map(emit, result)) if isinstance(result, tuple) else emit(result)


def emit_checkpoint_sequential(
    functions: Sequence[Callable[[Any], Any]],
    segments: int | Sequence[int],
    input: Var,
    checkpoint_last: bool = False,
) -> relax.Var:
    """Emit functions one after the other, in segments that are checkpoints; the last one is only
    with `checkpoint_last`.

    segments: where they begin, or into how many equal ones the functions are divided; the rest
        is one more.
    """
    count = len(functions)
    if isinstance(segments, int):
        segments = range(0, count, max(count // segments, 1))
    for begin, end in pairwise([*segments, count]):
        part = Sequential(*functions[begin:end])
        if end < count or checkpoint_last:
            input = emit_checkpoint(part, input)
        else:
            for function in part.modules:
                input = emit(function(input))
    return input


def Placeholder(shape: Sequence[int], dtype: str = "float32", name: str = "data") -> relax.Var:
    """An input."""
    dims = shape if isinstance(shape, (list, tuple)) else [shape]
    builder = relax.BlockBuilder.current()
    name = name if builder is None else builder.get_unique_name(name)
    return relax.Var(name, TensorStructInfo(dims, dtype))


def Parameter(shape: Sequence[int], dtype: str = "float32", name: str = "param") -> relax.Var:
    """A weight."""
    return Placeholder(shape, dtype, name)


class Module:
    """A layer: its parameters are the variables among its members, those of parts included."""

    def __call__(self, *args: Expr) -> Any:
        return self.forward(*args)

    def forward(self, input: Expr) -> Any:
        """Emit the layer."""
        raise NotImplementedError

    def _members(self, value: Expr | Module | Sequence[Module] | None) -> Iterator[relax.Var]:
        if isinstance(value, relax.Var):
            yield value
        elif isinstance(value, Module):
            yield from value.parameters()
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from self._members(item)

    def parameters(self) -> list[relax.Var]:
        """The parameters in order of definition."""
        return [p for value in vars(self).values() for p in self._members(value)]


class Sequential(Module):
    """Layers one after the other."""

    def __init__(self, *modules: Callable[[Any], Any]) -> None:
        self.modules = list(modules)

    def forward(self, input: Expr) -> Any:
        """Emit all layers."""
        for module in self.modules:
            input = module(input)
        return input


class ReLU(Module):
    """max(x, 0)"""

    def forward(self, input: Expr) -> relax.Var:
        """Emit the layer."""
        return emit(relax.op.nn.relu(input))


class LogSoftmax(Module):
    """log(softmax(x))"""

    def forward(self, input: Expr) -> relax.Var:
        """Emit the layer."""
        return emit(relax.op.nn.log_softmax(input))


class Linear(Module):
    """x @ weight + bias, weight [in_features, out_features]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.weight = Parameter((in_features, out_features), name="linear_weight")
        self.bias = Parameter((out_features,), name="linear_bias") if bias else None

    def forward(self, input: Expr) -> relax.Var:
        """Emit the layer."""
        product = emit(relax.op.matmul(input, self.weight))
        return product if self.bias is None else emit(relax.op.add(product, self.bias))


def init_params(mod: IRModule) -> list[Tensor]:
    """Random values, by a fixed seed, for the parameters of `main` behind its first one."""
    rng = np.random.default_rng(0)
    inputs = []
    for var in mod["main"].params[1:]:
        shape = [int(d.value) for d in var.struct_info.get_shape()]
        inputs.append(tensor(rng.random(shape).astype(str(var.struct_info.dtype))))
    return inputs
