"""What passes share that change the signatures of private functions, at all their calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...ir.expr import BaseExpr, GlobalVar
from ...ir.module import IRModule
from ...relax import expr as rx
from ...relax.functor import GraphRewriter
from ...relax.transform.graph.canonicalize import canonicalize
from ...relax.transform.graph.dead_code import DeadCodeElimination
from ...relax.transform.queries import called_functions, expressions, functions_of, is_private


@dataclass(frozen=True)
class Signature:
    """The new form of a function.

    arguments: the new arguments of a call, given the call.
    outputs: the fields of the result that are left, None for all; one field is returned without a
        tuple.
    """

    func: rx.Function
    arguments: Callable[[rx.Call], Sequence[Any]]
    outputs: Sequence[int] | None = None


def only_called(mod: IRModule) -> dict[GlobalVar, tuple[rx.Function, list[rx.Call]]]:
    """The private functions that are called and not used in another way, and all their calls."""
    calls: dict[GlobalVar, list[rx.Call]] = {g: [] for g, f in functions_of(mod) if is_private(f)}
    uses: Counter[GlobalVar] = Counter()
    for _, func in functions_of(mod):
        uses.update(called_functions(func))
        for node in expressions(func):
            if type(node) is rx.Call and node.op in calls:
                calls[node.op].append(node)
    return {g: (mod[g], sites) for g, sites in calls.items() if sites and len(sites) == uses[g]}


def with_signatures(mod: IRModule, changes: dict[GlobalVar, Signature]) -> IRModule:
    """The module with changed functions and calls, and without what that makes unused."""
    if not changes:
        return mod
    work = _Calls(mod, changes)
    for gvar, change in changes.items():
        work.builder.update_func(gvar, change.func)
    for gvar, func in functions_of(mod):
        work.update(gvar, work.function(changes[gvar].func if gvar in changes else func))
    new = work.builder.get()
    changed = {g: canonicalize(f, new) for g, f in functions_of(new) if g in changes}
    return DeadCodeElimination(keep_packed=True)(new.with_functions(changed))


class _Calls(GraphRewriter):
    def __init__(self, mod: IRModule, changes: dict[GlobalVar, Signature]) -> None:
        super().__init__(mod)
        self.changes = changes
        self.fields: dict[rx.Var, dict[int, Any]] = {}  # of results with fewer fields

    def changed(self, value: rx.Expr) -> Signature | None:
        called = type(value) is rx.Call and isinstance(value.op, GlobalVar)
        return self.changes.get(value.op) if called else None

    def binding(self, binding: rx.VarBinding) -> None:
        change = self.changed(binding.value)
        if change is None or change.outputs is None:
            value = self.value(binding.value)
            if isinstance(value, rx.Var) and value is not binding.value:
                if type(value) is type(binding.var) and isinstance(binding, rx.VarBinding):
                    self.var_map[binding.var] = value  # the one field that is left
                    return
            self.emit(binding, value)
            return
        var, left = binding.var, change.outputs
        local = isinstance(var, rx.DataflowVar)
        value = self.builder.normalize(self.value(binding.value))
        new = self.builder.bind(value, local, var.name_hint)
        single = len(left) == 1
        fields = [new] if single else [rx.TupleGetItem(new, i) for i in range(len(left))]
        self.fields[var] = dict(zip(left, fields, strict=True))

    def value(self, expr: BaseExpr) -> Any:
        if isinstance(expr, rx.TupleGetItem) and isinstance(expr.tuple_value, rx.Var):
            fields = self.fields.get(expr.tuple_value)
            if fields is not None:
                return fields[expr.index]
        return super().value(expr)

    def call(self, call: rx.Call) -> Any:
        change = self.changed(call)
        return call if change is None else rx.Call(call.op, change.arguments(call), span=call.span)
