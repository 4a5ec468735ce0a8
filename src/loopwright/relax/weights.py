"""Weights in graphs: constants without values, which passes treat as constants.

What FoldConstant would compute from them is recorded instead: the result is a weight, too, whose recipe
is the call. `transform_module` is the function that computes from the caller's weights those that compiled
code reads, in the layouts of its kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..ir.module import IRModule
from ..runtime.weights import Weight
from ..tir.function import PrimFunc
from . import expr as rx
from .block_builder import BlockBuilder
from .struct_info import StructInfo, TensorStructInfo, TupleStructInfo


class Recipe(NamedTuple):
    """A call of an operator, or of a kernel, on weights and constants; `index`: which of its results."""

    call: rx.Call
    kernel: PrimFunc | None
    index: int | None


def weights_in(args: Sequence[Any]) -> list[Weight]:
    """The weights among the arguments of a call."""
    leaves = [f for a in args for f in (a.fields if isinstance(a, rx.Tuple) else [a])]
    return [c.data for c in leaves if isinstance(c, rx.Constant) and type(c.data) is Weight]


def computed(call: rx.Call, kernel: PrimFunc | None = None) -> Any:
    """The results of a call on weights as weights; None where a shape is not static."""
    (first, *_), info = weights_in(call.args), call.struct_info

    def weight(info: StructInfo, index: int | None) -> rx.Constant | None:
        shape = info.get_shape() if isinstance(info, TensorStructInfo) else None
        if shape is None or not all(hasattr(d, "value") for d in shape):
            return None
        recipe = Recipe(call, kernel, index)
        data = Weight(first.family, [d.value for d in shape], str(info.dtype), recipe)
        return rx.Constant(data, info)

    if not isinstance(info, TupleStructInfo):
        return None if info is None else weight(info, None)
    fields = [weight(field, k) for k, field in enumerate(info.fields)]
    return None if any(f is None for f in fields) else rx.Tuple(fields)


def transform_module(roots: Sequence[Weight], results: Sequence[Weight]) -> IRModule:
    """A module whose `main` computes the results from the roots, the weights without a recipe."""
    return _Transform(roots).module(results)


class _Transform:
    def __init__(self, roots: Sequence[Weight]) -> None:
        self.builder = BlockBuilder()
        self.vars: dict[Any, Any] = {}  # variables of weights, and of calls by their identities
        self.kernels: dict[int, Any] = {}
        for k, root in enumerate(roots):
            self.vars[root] = rx.Var(f"w{k}", TensorStructInfo(root.shape, root.dtype))

    def module(self, results: Sequence[Weight]) -> IRModule:
        needed = set(results)
        members = results[0].family.members
        for weight in reversed(members):
            if weight in needed and weight.recipe is not None:
                needed.update(weights_in(weight.recipe.call.args))
        with self.builder.function("main", list(self.vars.values())):
            with self.builder.dataflow():
                for weight in members:
                    if weight in needed and weight.recipe is not None:
                        self.vars[weight] = self.emit(weight.recipe)
                values = [self.builder.emit_output(self.vars[w]) for w in results]
            self.builder.emit_func_output(rx.Tuple(values) if len(values) > 1 else values[0])
        return self.builder.finalize()

    def emit(self, recipe: Recipe) -> Any:
        key = id(recipe.call)
        if key not in self.vars:
            self.vars[key] = self.builder.emit(self.call(recipe))
        var = self.vars[key]
        return (
            var if recipe.index is None else self.builder.emit(rx.TupleGetItem(var, recipe.index))
        )

    def call(self, recipe: Recipe) -> rx.Call:
        args = [self.argument(a) for a in recipe.call.args]
        if recipe.kernel is not None:
            key = id(recipe.kernel)
            if key not in self.kernels:
                name = recipe.call.args[0].name_hint
                self.kernels[key] = self.builder.add_func(recipe.kernel, name)
            args[0] = self.kernels[key]
        call = recipe.call.replace(args=tuple(args))
        call._update_struct_info(recipe.call.struct_info)
        return call

    def argument(self, arg: Any) -> Any:
        if isinstance(arg, rx.Tuple):
            return rx.Tuple([self.argument(f) for f in arg.fields])
        return self.vars[arg.data] if weights_in([arg]) else arg
