"""LazyTransformParams: weights are fetched one by one, and stored again when they are transformed.

Before (-) and after (+)::

      @I.ir_module
      class Module:
    -     @R.function
    -     def main_transform_params(params: R.Tuple(R.Tensor((2, 4), dtype="float32"))) -> R.Tuple(R.Tensor((4, 2), dtype="float32")):
    -         w: R.Tensor((2, 4), dtype="float32") = params[0]
    -         t: R.Tensor((4, 2), dtype="float32") = R.permute_dims(w, axes=None)
    -         return (t,)
    +     @R.function(pure=False)
    +     def main_transform_params() -> R.Tuple():
    +         p: R.Object = R.call_packed("get_item", R.prim_value(0), sinfo_args=(R.Object,))
    +         p1: R.Tensor((2, 4), dtype="float32") = R.match_cast(p, R.Tensor((2, 4), dtype="float32"))
    +         w: R.Tensor((2, 4), dtype="float32") = p1
    +         t: R.Tensor((4, 2), dtype="float32") = R.permute_dims(w, axes=None)
    +         _: R.Tuple() = R.vm.kill_object(w)
    +         _1: R.Object = R.call_packed("set_item", R.prim_value(0), t, sinfo_args=(R.Object,))
    +         return R.tuple()

It is for the functions whose names end with "transform_params"; their first `num_input` parameters
are not weights. A weight is fetched where it is first used and dropped after its last use; a result
is stored after its last use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.transform import IRModule, ModulePass, PassContext
from ...relax import expr as rx
from ...relax.op.base import call_packed
from ...relax.op.storage import vm_kill_object
from ...relax.specialize import ReplaceVars
from ...relax.struct_info import (
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ...relax.transform.queries import functions_of, used_vars
from ._lazy import Flat, called, defined_symbols, load_weights


class LazyTransformParams(ModulePass, repr=False):
    """Weights are fetched one by one, and stored again when they are transformed.

    fget_item: the packed function that returns the weight of a number.
    fset_item: the one that stores the result of a number; None: results are returned, and weights
        are not dropped.
    extra_get_item_params, extra_set_item_params: parameters that the functions get and pass on, in
        front of the numbers.
    """

    fget_item: str = "get_item"
    fset_item: str | None = "set_item"
    extra_get_item_params: Sequence[rx.Var] | None = None
    extra_set_item_params: Sequence[rx.Var] | None = None

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        changed = {
            gvar: self.transformed(func)
            for gvar, func in functions_of(mod)
            if gvar.name_hint.endswith("transform_params")
        }
        return mod.with_functions(changed)

    def transformed(self, func: rx.Function) -> rx.Function:
        count = int(func.attrs.get("num_input", 0))
        flat, inputs = Flat.of(func), func.params[:count]
        weights = _unbundled(flat, func.params[count:])
        aliases = [b.var for b in flat.bindings if b.value in weights]
        extra = tuple(self.extra_get_item_params or ())

        def fetch(index: int, weight: rx.Var) -> rx.Call:
            args = (*extra, rx.PrimValue(index))
            return call_packed(self.fget_item, *args, sinfo_args=ObjectStructInfo())

        shapes = _symbols_of_shapes(weights)
        loaded = load_weights(flat, weights, fetch)
        if self.fset_item is not None:
            self.store(flat, {*aliases, *loaded.values()} - _copied(flat, aliases))
            extra += tuple(self.extra_set_item_params or ())
        attrs = func.without_attr("relax.force_pure").attrs
        return flat.function((*inputs, *extra, *shapes), False, attrs)

    def store(self, flat: Flat, weights: set[rx.Var]) -> None:
        """Store results and drop weights, each after its last use."""
        outputs = flat.outputs()
        extra = tuple(self.extra_set_item_params or ())

        def stores(var: rx.Expr) -> list[Any]:
            positions = [i for i, output in enumerate(outputs) if output is var]
            calls = [
                call_packed(
                    self.fset_item, *extra, rx.PrimValue(i), var, sinfo_args=ObjectStructInfo()
                )
                for i in positions
            ]
            return [called(call) for call in calls]

        last: dict[rx.Var, int] = {}
        for index, binding in enumerate(flat.bindings):
            last[binding.var] = index
            last.update(dict.fromkeys(used_vars(binding.value), index))
        new: list[Any] = []
        for index, binding in enumerate(flat.bindings):
            new.append(binding)
            for var in dict.fromkeys((*used_vars(binding.value), binding.var)):
                if last[var] == index:
                    new += stores(var)
                    new += [called(vm_kill_object(var))] if var in weights else []
        flat.bindings = new
        for output in dict.fromkeys(o for o in outputs if o not in last):
            flat.bindings += stores(output)


def _unbundled(flat: Flat, params: tuple[rx.Var, ...]) -> list[rx.Var]:
    """The weights, one by one; fields of a tuple of them are replaced."""
    weights, table = [], {}
    for param in params:
        info = param.struct_info
        if isinstance(info, TupleStructInfo):
            fields = [rx.Var(f"{param.name_hint}_{i}", f) for i, f in enumerate(info.fields)]
            table[param] = rx.Tuple(fields)
            weights += fields
        else:
            weights.append(param)
    if table:
        work = ReplaceVars(table)
        flat.bindings = [work.visit(b) for b in flat.bindings]
        flat.result = work.visit(flat.result)
    return weights


def _symbols_of_shapes(weights: list[rx.Var]) -> list[rx.Var]:
    """A parameter for the symbols that no weight's shape defines."""
    of_tensors = defined_symbols(w for w in weights if isinstance(w.struct_info, TensorStructInfo))
    scalars = [w for w in weights if isinstance(w.struct_info, (ShapeStructInfo, PrimStructInfo))]
    symbols = [s for w in scalars for s in defined_symbols([w]) if s not in of_tensors]
    shape = ShapeStructInfo(list(dict.fromkeys(symbols)))
    return [rx.Var("symbols", shape)] if symbols else []


def _copied(flat: Flat, aliases: list[rx.Var]) -> set[rx.Var]:
    """The weights that are only bound to other variables."""
    copied = {b.value for b in flat.bindings if b.var in aliases}
    others = [b for b in flat.bindings if b.var not in aliases]
    used = {v for b in others if isinstance(b, rx.VarBinding) for v in used_vars(b.value)}
    return copied - used - {*used_vars(flat.result)}
