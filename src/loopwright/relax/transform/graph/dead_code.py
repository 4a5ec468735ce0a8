"""DeadCodeElimination: removes unused bindings and functions.

Removed are bindings without side effects whose variable is unused, and functions that no entry
function reaches. Entry functions are those given by name, else the public ones (with a
`global_symbol`); a module without any keeps all its functions.

Before (-) and after (+)::

      @I.ir_module
      class Module:
    -     @T.prim_func(private=True)
    -     def unused(x: T.Buffer((T.int64(2),), "float32")):
    -         for i in range(T.int64(2)):
    -             with T.block("b"):
    -                 vi = T.axis.spatial(T.int64(2), i)
    -                 x[vi] = T.float32(0)
    -
          @R.function
          def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
              with R.dataflow():
    -             lv = R.add(x, x)
                  gv = R.multiply(x, x)
                  R.output(gv)
              return gv
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ....base.errors import explain
from ....ir.expr import GlobalVar
from ....ir.module import IRModule, called_global_vars
from ....ir.transform import ModulePass, PassContext
from ...expr import Binding, Call, Expr, Function, If, MatchCast, SeqExpr, Var
from ...op.base import CALL_PURE_PACKED
from ...struct_info import TupleStructInfo
from ..queries import called_functions, is_pure, shape_vars, used_vars


class DeadCodeElimination(ModulePass, repr=False):
    """Remove unused bindings and functions.

    entry_functions: names of private functions to keep, besides those with a global_symbol. Raises
    ValueError for an unknown name.
    keep_packed: whether unused calls of packed functions stay, said to be pure or not: they may write
    to their arguments, and the default build keeps them.
    """

    opt_level = 1
    entry_functions: Iterable[str] | None = None
    keep_packed: bool = False

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return eliminate(mod, self.entry_functions, {}, self.keep_packed)


Callees = dict[int, Iterable[GlobalVar]]  # id of a kept function -> its callees


def eliminate(
    mod: IRModule, entry_functions: Any, callees: Callees, keep_packed: bool = False
) -> IRModule:
    """The module without dead code. `callees`: known callees of PrimFuncs."""
    entries = _entries(mod, entry_functions)
    # First the functions, to save work on unreachable ones; then once
    # more, since a dead binding may have contained the last call.
    reachable = _reachable(mod, entries, callees)
    graphs = {g: f for g, f in reachable.functions.items() if isinstance(f, Function)}
    changed = {g: clean(f, keep_packed) for g, f in graphs.items()}
    cleaned = reachable.with_functions(changed)
    return reachable if cleaned is reachable else _reachable(cleaned, entries, callees)


def _entries(mod: IRModule, entries: Iterable[str] | None) -> list[GlobalVar]:
    names = [entries] if isinstance(entries, str) else list(entries or ())
    for name in names:
        if name not in mod:
            defined = ", ".join(sorted(g.name_hint for g in mod.functions))
            what = "DeadCodeElimination: an entry function does not exist"
            raise ValueError(explain(what, got=name, instead=f"one of {defined}"))
    attrs = ((g, getattr(f, "attrs", {})) for g, f in mod.functions.items())
    exposed = [g for g, a in attrs if "global_symbol" in a]
    return list(dict.fromkeys([*exposed, *map(mod.get_global_var, names)]))


def _reachable(mod: IRModule, entries: list[GlobalVar], callees: Callees) -> IRModule:
    if not entries:
        return mod
    rest = set(mod.functions).difference(entries)
    graphs, others = list(entries), []
    while rest and (graphs or others):  # kernels last: often all are reached without a look inside
        func = mod.functions[(graphs or others).pop()]
        if isinstance(func, Function):
            callees_here: Iterable[GlobalVar] = called_functions(func)
        elif id(func) in callees:
            callees_here = callees[id(func)]
        else:
            callees_here = callees[id(func)] = called_global_vars(func)
        for gvar in callees_here:
            if gvar in rest:
                rest.remove(gvar)
                graph = isinstance(mod.functions[gvar], Function)
                (graphs if graph else others).append(gvar)
    return mod.with_functions(remove=rest)


def clean(func: Function, keep_packed: bool = False) -> Function:
    """A function without unused bindings that have no side effect."""
    body = _Cleaner(keep_packed).seq(func.body, set())
    return func if body is func.body else _with_body(func, body)


def _with_body(func: Function, body: SeqExpr) -> Function:
    return func.replace(body=body)


def _for_effect(value: Expr, packed: bool) -> bool:
    """Whether this calls a function of the caller's that returns nothing, which has no use but its
    effects, though it is not said to have any; packed: or a packed function that is not of this
    package."""
    if not isinstance(value, Call):
        return False
    if packed and value.op is CALL_PURE_PACKED:
        return not getattr(value.args[0], "global_symbol", "").startswith("relax.run.")
    if not isinstance(value.op, Var):
        return False
    info = value.struct_info
    return isinstance(info, TupleStructInfo) and not info.fields


class _Cleaner:
    def __init__(self, keep_packed: bool) -> None:
        self.keep_packed = keep_packed

    def seq(self, seq: SeqExpr, live: set[Var]) -> SeqExpr:
        """Walk backwards; `live` holds the variables used later, and collects those used here."""
        live.update(used_vars(seq.body))
        blocks: list[Any] = []
        for block in reversed(seq.blocks):
            used: list[Any] = []
            for binding in reversed(block.bindings):
                new = self.binding(binding, live)
                if new is not None:
                    used.append(new)
            used.reverse()
            same = len(used) == len(block.bindings) and all(
                a is b for a, b in zip(used, block.bindings, strict=True)
            )
            if used:
                blocks.append(block if same else type(block)(used, span=block.span))
        blocks.reverse()
        if len(blocks) == len(seq.blocks) and all(
            a is b for a, b in zip(blocks, seq.blocks, strict=True)
        ):
            return seq
        result = SeqExpr._make(tuple(blocks), seq.body, span=seq.span)
        result._update_struct_info(seq.struct_info)
        return result

    def binding(self, binding: Binding, live: set[Var]) -> Any:
        value = binding.value
        cast = isinstance(binding, MatchCast)
        if binding.var not in live and not cast and is_pure(value):
            if not _for_effect(value, self.keep_packed):
                return None
        if cast:  # it is a run-time check and may define symbolic variables
            live.update(shape_vars(binding.struct_info))
        if isinstance(value, If):
            true, false = self.seq(value.true_branch, live), self.seq(value.false_branch, live)
            live.update(used_vars(value.cond))
            new = value.with_branches(true, false)
            return binding if new is value else binding.replace(value=new)
        if isinstance(value, Function):
            body = self.seq(value.body, live)
            if body is not value.body:
                return binding.replace(value=_with_body(value, body))
            return binding
        live.update(used_vars(value))
        return binding
