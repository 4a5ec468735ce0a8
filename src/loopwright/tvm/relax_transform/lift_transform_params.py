"""LiftTransformParams: computations on weights alone move to a function of their own.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
    -     def main(x: R.Tensor((2, 4), dtype="float32"), w: R.Tensor((8, 4), dtype="float32")) -> R.Tensor((2, 8), dtype="float32"):
    +     def main(x: R.Tensor((2, 4), dtype="float32"), w_t: R.Tensor((4, 8), dtype="float32")) -> R.Tensor((2, 8), dtype="float32"):
              R.func_attr({"num_input": 1})
              with R.dataflow():
    -             w_t: R.Tensor((4, 8), dtype="float32") = R.permute_dims(w, axes=None)
                  gv: R.Tensor((2, 8), dtype="float32") = R.matmul(x, w_t)
                  R.output(gv)
              return gv
    +
    +     @R.function
    +     def main_transform_params(params: R.Tuple(R.Tensor((8, 4), dtype="float32"))) -> R.Tuple(R.Tensor((4, 8), dtype="float32")):
    +         R.func_attr({"num_input": 0})
    +         with R.dataflow():
    +             w: R.Tensor((8, 4), dtype="float32") = params[0]
    +             w_t: R.Tensor((4, 8), dtype="float32") = R.permute_dims(w, axes=None)
    +             gv = (w_t,)
    +             R.output(gv)
    +         return gv

The weights are the parameters after the first `num_input`. The results of the new function replace
them: the weights that are still needed, then what was computed of them. Branches, local functions,
calls with effects and bindings after R.builtin.stop_lift_params stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.expr import GlobalVar
from ...ir.prim_expr import IntImm
from ...ir.structural import structural_equal
from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax.analysis.variables import contains_impure_call, free_symbolic_vars
from ...relax.block_builder import BlockBuilder
from ...relax.functor import GraphRewriter
from ...relax.op.base import call_pure_packed
from ...relax.op.storage import STOP_LIFT_PARAMS
from ...relax.relations import match_struct_info
from ...relax.specialize import ReplaceVars, inline_functions
from ...relax.struct_info import PrimStructInfo, ShapeStructInfo, TupleStructInfo
from ...relax.transform.graph.canonicalize import canonicalize
from ...relax.transform.graph.dead_code import clean
from ...relax.transform.queries import bindings_of, functions_of, is_private, shape_vars, used_vars
from ._lazy import defined_symbols

NAME = "transform_params"


class LiftTransformParams(ModulePass, repr=False):
    """Computations on weights alone move to a function of their own.

    shared_transform: True: one function, "transform_params", computes what all functions with
        `num_input` that are called from outside have in common; or the names of the functions that
        share it. False: each gets its own, with the suffix "_transform_params".

    Raises LoopwrightError if functions that share it have other weights.
    """

    shared_transform: bool | Sequence[str] = False

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        selected = {g: f for g, f in functions_of(mod) if _has_weights(g, f)}
        consume = bool(ctx.option("relax.lift_transform_params.consume_params"))
        if self.shared_transform is False:
            for gvar, func in selected.items():
                mod = _lifted(mod, {gvar: func}, f"{gvar.name_hint}_{NAME}", consume)
            return mod
        names = self.shared_transform
        sharing = {
            gvar: selected[gvar]
            for gvar in sorted(selected, key=lambda g: g.name_hint)
            if (not is_private(selected[gvar]) if names is True else gvar.name_hint in names)
        }
        return _lifted(mod, sharing, NAME, consume) if sharing else mod


def _has_weights(gvar: GlobalVar, func: rx.Function) -> bool:
    return "num_input" in func.attrs and not gvar.name_hint.endswith(NAME)


def _lifted(
    mod: IRModule, functions: dict[GlobalVar, rx.Function], name: str, consume: bool
) -> IRModule:
    """The module with the functions changed, and the new one."""
    plans = [_Plan(func) for func in functions.values()]
    first = plans[0]
    for gvar, plan in zip(functions, plans, strict=True):
        plan.match(first, gvar.name_hint)
    shared = [v for v in first.lifted if all(v in p.same.values() for p in plans)]
    needed: set[int] = set()
    while True:
        weights = [w for i, w in enumerate(first.weights) if i in needed]
        used = {plan.same[v] for plan in plans for v in plan.used(shared) if v in plan.same}
        outputs = [*weights, *(v for v in shared if v in used)]
        changed = [plan.rewritten(mod, outputs, shared) for plan in plans]
        more = {i for p, f in zip(plans, changed, strict=True) for i in p.missing(f)} - needed
        if not more:
            break
        needed |= more
    gvar, new = GlobalVar(name), first.transform(mod, outputs, consume)
    if name in mod:
        gvar = mod.get_global_var(name)
        new = _composed(mod[gvar], new)
    new = new.with_attr("global_symbol", name).with_attr("num_input", 0)
    gvar.struct_info = new.struct_info
    return mod.with_functions({**dict(zip(functions, changed, strict=True)), gvar: new})


class _Plan:
    """What of a function can be lifted.

    weights: its parameters after the inputs.
    lifted: the bindings that depend on weights alone; free: on nothing.
    same: what its variables are in the function that shares the result.
    """

    def __init__(self, func: rx.Function) -> None:
        self.func = func
        self.count = int(func.attrs["num_input"])
        self.weights = list(func.params[self.count :])
        self.lifted: dict[rx.Var, rx.VarBinding] = {}
        self.free: dict[rx.Var, rx.VarBinding] = {}
        self.same: dict[rx.Var, rx.Var] = {}
        symbols = defined_symbols(self.weights)
        for binding in bindings_of(func):
            if isinstance(binding, rx.VarBinding) and _is_liftable(binding.value):
                used = set(used_vars(binding.value))
                if not symbols.issuperset(free_symbolic_vars(binding)):
                    continue
                if not used - self.free.keys():
                    self.free[binding.var] = binding
                elif not used - self.free.keys() - self.lifted.keys() - {*self.weights}:
                    self.lifted[binding.var] = binding

    def match(self, first: _Plan, name: str) -> None:
        """Find the values also computed in another function, whose weights must be the same."""
        infos = [[w.struct_info for w in plan.weights] for plan in (self, first)]
        table: dict[Any, Any] = dict(zip(self.weights, first.weights, strict=False))
        if len(infos[0]) == len(infos[1]):
            for own, other in zip(*infos, strict=True):
                match_struct_info(own, other, table)
        if not structural_equal(*(ReplaceVars(table).visit(TupleStructInfo(i)) for i in infos)):
            what = f"{name} cannot share {NAME} with {first.func.attrs.get('global_symbol')}"
            got = " and ".join(str(TupleStructInfo(i)) for i in infos)
            hint = "give the functions the same weights, or name others in shared_transform"
            raise LoopwrightError(explain(what, got=got, instead=hint))
        for var, binding in {**self.free, **self.lifted}.items():
            value = ReplaceVars(table).visit(binding.value)
            for other, matched in {**first.free, **first.lifted}.items():
                if other not in table.values() and structural_equal(value, matched.value):
                    table[var] = other
                    break
        self.same = {v: table[v] for v in (*self.weights, *self.lifted) if v in table}

    def used(self, shared: list[rx.Var]) -> set[rx.Var]:
        """The variables that are used in what stays."""
        stay = [b for b in bindings_of(self.func) if self.same.get(b.var) not in shared]
        used = {v for b in stay for v in used_vars(b.value)}
        return used | {*used_vars(self.func.body.body), *shape_vars(self.func.ret_struct_info)}

    def rewritten(self, mod: IRModule, outputs: list[rx.Var], shared: list[rx.Var]) -> rx.Function:
        """The function with `outputs` in the place of its weights."""
        own = {other: var for var, other in self.same.items()}
        work = _Rest(mod)
        work.lifted_out = {own[v] for v in shared}
        params = [rx.Var(own[v].name_hint, own[v].struct_info, own[v].span) for v in outputs]
        work.var_map = {own[v]: p for v, p in zip(outputs, params, strict=True)}
        return work.rest(self.func, (*self.func.params[: self.count], *params))

    def missing(self, func: rx.Function) -> set[int]:
        """The numbers of the weights that the changed function still needs."""
        symbols = set(free_symbolic_vars(func)) - set(free_symbolic_vars(self.func))
        used = {*used_vars(func.body), *shape_vars(func.ret_struct_info)}
        return {
            i for i, w in enumerate(self.weights) if w in used or symbols & defined_symbols([w])
        }

    def transform(self, mod: IRModule, outputs: list[rx.Var], consume: bool) -> rx.Function:
        """The function that computes `outputs` from the tuple of weights."""
        work = _Transform(mod, self.weights, consume)
        needed = set(outputs)
        for var, binding in reversed(list({**self.free, **self.lifted}.items())):
            if var in needed:
                needed.update(used_vars(binding.value))
        bindings = [b for b in bindings_of(self.func) if b.var in needed]
        func = work.function(bindings, outputs)
        return func if consume else clean(canonicalize(func, mod))


def _is_liftable(value: rx.Expr) -> bool:
    if isinstance(value, (rx.If, rx.Function, rx.SeqExpr)) or contains_impure_call(value):
        return False
    return not (isinstance(value, rx.Call) and value.op is STOP_LIFT_PARAMS)


class _Rest(GraphRewriter):
    """Leaves out bindings, and the marks where lifting ends."""

    lifted_out: set[rx.Var]

    def rest(self, func: rx.Function, params: tuple[rx.Var, ...]) -> rx.Function:
        with self.builder.scope(params):
            body = self.seq(func.body)
        return func.replace(params=params, body=body)

    def binding(self, binding: rx.VarBinding) -> None:
        if binding.var in self.lifted_out:
            return
        value = binding.value
        if isinstance(value, rx.Call) and value.op is STOP_LIFT_PARAMS:
            self.var_map[binding.var] = self.value(value.args[0])
            return
        super().binding(binding)


class _Transform:
    """Builds the new function. Tuples among the lifted bindings are taken apart, and each weight is
    taken out of the parameter where it is first used."""

    def __init__(self, mod: IRModule, weights: list[rx.Var], consume: bool) -> None:
        self.builder = BlockBuilder(mod)
        self.weights = weights
        self.consume = consume
        self.params = rx.Var("params", TupleStructInfo([w.struct_info for w in weights]))
        self.table: dict[Any, Any] = {}
        self.items: dict[rx.Var, rx.Var] = {}

    def function(self, bindings: Iterable[Any], outputs: list[rx.Var]) -> rx.Function:
        builder = self.builder
        if not outputs or outputs == self.weights:
            return rx.Function([self.params], self.params if outputs else rx.Tuple([]))
        with builder.scope([self.params]):
            builder._begin(True)
            for binding in bindings:
                self.bind(binding)
            fields = [self.output(var) for var in outputs]
            result = builder.emit_output(rx.Tuple(fields))
            body = builder.normalize(rx.SeqExpr([builder._end_block()], result))
        return rx.Function([self.params], body)

    def bind(self, binding: rx.VarBinding) -> None:
        value = ReplaceVars(dict(self.table)).visit(binding.value)
        if isinstance(value, rx.Tuple):
            self.table[binding.var] = value
            return
        if value in self.weights and not self.consume:
            value = rx.TupleGetItem(self.params, self.weights.index(value))
        self.table[binding.var] = self.builder.emit(self.untupled(value), binding.var.name_hint)

    def untupled(self, value: rx.Expr) -> Any:
        """An expression with the weights in it out of the tuple."""
        for weight in dict.fromkeys(used_vars(value)):
            if weight not in self.weights or weight in self.items:
                continue
            index = self.weights.index(weight)
            item = rx.TupleGetItem(self.params, index)
            self.items[weight] = self.builder.emit(item, weight.name_hint)
            if self.consume:
                number = rx.PrimValue(IntImm("int32", index))
                name, nothing = "vm.builtin.tuple_reset_item", TupleStructInfo([])
                call = call_pure_packed(name, self.params, number, sinfo_args=nothing)
                self.builder.emit(call, "_")
        return ReplaceVars(dict(self.items)).visit(value)

    def output(self, var: rx.Var) -> Any:
        info = var.struct_info
        if var in self.weights and isinstance(info, ShapeStructInfo) and info.values is not None:
            return rx.ShapeExpr(info.values)
        if var in self.weights and isinstance(info, PrimStructInfo) and info.value is not None:
            return rx.PrimValue(info.value)
        return self.untupled(self.table.get(var, var))


def _composed(before: rx.Function, after: rx.Function) -> rx.Function:
    """The function that applies one function and then another."""
    mod = IRModule({"before": before, "after": after})
    builder = BlockBuilder(mod)
    param = rx.Var(before.params[0].name_hint, before.params[0].struct_info)
    with builder.scope([param]):
        builder._begin(False)
        weights = builder.emit(rx.Call(mod.get_global_var("before"), [param]))
        result = builder.emit(rx.Call(mod.get_global_var("after"), [weights]))
        body = builder.normalize(rx.SeqExpr([builder._end_block()], result))
    both = rx.Function([param], body, None, True, after.attrs)
    return clean(canonicalize(inline_functions(both, {g: mod[g] for g in mod.functions}), mod))
