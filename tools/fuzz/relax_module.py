"""A case as a Relax module of one function."""

from __future__ import annotations

from typing import Any

from loopwright import relax
from loopwright.ir.module import IRModule
from loopwright.ir.prim_expr import Var
from loopwright.ops.core import OPERATORS
from loopwright.relax.struct_info import TensorStructInfo, TupleStructInfo

from .case import Case


class Writer:
    """Makes a case's nodes one by one; each result's struct info is known at once.

    emit: what makes a variable of a call; by default one that stands in no function.
    """

    def __init__(self, case: Case, emit: Any = None) -> None:
        self.case = case
        self.bb = relax.BlockBuilder()
        self.emit = emit or (lambda call: relax.Var("v", self.bb.normalize(call).struct_info))
        self.symbols = {name: Var(name, "int64") for name in case.sizes[0]}
        self.values: dict[str, Any] = {}

    def dim(self, d: Any) -> Any:
        """A dimension: a number or a size's name."""
        return self.symbols.get(d, d)

    def declare(self, name: str) -> Any:
        """The parameter, or the constant, of that name."""
        spec = self.case.inputs.get(name)
        if spec is None:
            self.values[name] = relax.const(self.case.array(name, self.case.weights[name]))
        else:
            info = TensorStructInfo([self.dim(d) for d in spec["shape"]], spec["dtype"])
            self.values[name] = relax.Var(name, info)
        return self.values[name]

    def call(self, name: str, args: list[Any], attrs: dict[str, Any]) -> relax.Call:
        """A call; its argument is a name, a list of names, or literal: {"dims": [...]}."""
        return OPERATORS[name].builder(*map(self.argument, args), **attrs)

    def bind(self, var: relax.Var, outputs: list[str]) -> None:
        """Name the results of a call."""
        if isinstance(var.struct_info, TupleStructInfo):
            for k, out in enumerate(outputs):
                self.values[out] = self.emit(relax.TupleGetItem(var, k))
        else:
            self.values[outputs[0]] = var

    def argument(self, arg: Any) -> Any:
        """An argument as the builder takes it."""
        if isinstance(arg, dict):
            made = arg["dims"]
            return [self.dim(d) for d in made] if isinstance(made, list) else self.dim(made)
        if isinstance(arg, list):
            return [self.argument(a) for a in arg]
        if arg is None:
            return None
        return self.values[arg] if arg in self.values else self.declare(arg)


def to_module(case: Case) -> IRModule:
    """The module."""
    bb = relax.BlockBuilder()
    writer = Writer(case, bb.emit)
    params = [writer.declare(name) for name in case.inputs]
    with bb.function("main", params):
        with bb.dataflow():
            for name, args, outputs, attrs in case.nodes:
                writer.bind(bb.emit(writer.call(name, args, attrs)), outputs)
            outs = [writer.values[n] for n in case.outputs]
            out = bb.emit_output(outs[0] if len(outs) == 1 else relax.Tuple(outs))
        bb.emit_func_output(out)
    return bb.finalize()
