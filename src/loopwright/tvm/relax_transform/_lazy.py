"""Shared parts of the passes that load and store weights one by one: functions as lists of
bindings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ...ir.expr import DictAttrs
from ...relax import expr as rx
from ...relax.analysis import definable_tir_vars_in_struct_info
from ...relax.analysis.variables import free_symbolic_vars
from ...relax.block_builder import BlockBuilder
from ...relax.specialize import ReplaceVars
from ...relax.struct_info import ObjectStructInfo
from ...relax.transform.lower.to_non_dataflow import ToNonDataflow
from ...relax.transform.queries import bindings_of, used_vars


@dataclass
class Flat:
    """A function without dataflow blocks, as its list of bindings."""

    func: rx.Function
    bindings: list[Any]
    result: Any

    @staticmethod
    def of(func: rx.Function) -> Flat:
        plain = ToNonDataflow.rewriter(None).function(func)
        return Flat(plain, list(bindings_of(plain)), plain.body.body)

    def outputs(self) -> list[Any]:
        """The fields of the result. The variable of a tuple that is bound for the result alone is
        the result of an empty one from here on."""
        if isinstance(self.result, rx.Tuple):
            fields, self.result = list(self.result.fields), rx.Tuple([])
            return fields
        for i, binding in enumerate(self.bindings):
            if binding.var is self.result and isinstance(binding.value, rx.Tuple):
                if not any(self.result in used_vars(b.value) for b in self.bindings):
                    empty = rx.Tuple([])
                    self.result = rx.Var(binding.var.name_hint, empty.struct_info)
                    self.bindings[i] = rx.VarBinding(self.result, empty)
                    return list(binding.value.fields)
        fields, self.result = [self.result], rx.Tuple([])
        return fields

    def function(self, params: Iterable[rx.Var], pure: bool, attrs: DictAttrs) -> rx.Function:
        """The function again."""
        blocks = [rx.BindingBlock(self.bindings)] if self.bindings else []
        body = rx.SeqExpr(blocks, self.result, self.func.body.span)
        new = rx.Function._make(tuple(params), body, None, pure, attrs, span=self.func.span)
        done = BlockBuilder().normalize(new)
        return rx.Function(done.params, done.body, None, pure, attrs, self.func.span)


def called(call: rx.Call, name: str = "_") -> rx.VarBinding:
    """A binding for a call's effect."""
    call = BlockBuilder().normalize(call)
    return rx.VarBinding(rx.Var(name, call.struct_info), call)


def load_weights(
    flat: Flat, weights: list[rx.Var], fetch: Callable[[int, rx.Var], rx.Call]
) -> dict[rx.Var, rx.Var]:
    """Load each weight before the first binding that needs it or one of its symbols; what they are
    loaded into."""
    loaded: dict[rx.Var, rx.Var] = {}
    symbols = {
        s: w
        for w in reversed(weights)
        for s in definable_tir_vars_in_struct_info(w.struct_info)
        if s not in defined_symbols(p for p in flat.func.params if p not in weights)
    }
    new: list[Any] = []

    def load(needed: Iterable[Any]) -> None:
        for weight in dict.fromkeys(needed):
            if weight in weights and weight not in loaded:
                raw = rx.Var(weight.name_hint, ObjectStructInfo())
                cast = loaded[weight] = rx.Var(weight.name_hint, weight.struct_info)
                new.append(rx.VarBinding(raw, fetch(weights.index(weight), weight)))
                new.append(rx.MatchCast(cast, raw, weight.struct_info))
                for s in definable_tir_vars_in_struct_info(weight.struct_info):
                    symbols.pop(s, None)

    for binding in flat.bindings:
        load(used_vars(binding.value))
        load([symbols.get(s) for s in free_symbolic_vars(binding)])
        new.append(ReplaceVars(dict(loaded)).visit(binding))
    load(used_vars(flat.result))
    flat.bindings, flat.result = new, ReplaceVars(dict(loaded)).visit(flat.result)
    return loaded


def defined_symbols(params: Iterable[rx.Var]) -> set[Any]:
    """The symbols that parameters define."""
    return {s for p in params for s in definable_tir_vars_in_struct_info(p.struct_info)}
