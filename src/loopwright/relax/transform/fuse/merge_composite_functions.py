"""MergeCompositeFunctions: merges adjacent composite functions of one back end into regions.

Before (-) and after (+)::

      @I.ir_module
      class Module:
    -     @R.function(private=True)
    -     def fused_relax_exp(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    -         R.func_attr({"Composite": "mine.exp", "Primitive": True})
    -         with R.dataflow():
    -             gv: R.Tensor((4,), dtype="float32") = R.exp(x)
    -             R.output(gv)
    -         return gv
    +     @R.function
    +     def fused_relax_exp_relax_exp_mine(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    +         R.func_attr({"Codegen": "mine"})
    +         @R.function
    +         def gv(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    +             R.func_attr({"Composite": "mine.exp"})
    +             with R.dataflow():
    +                 gv: R.Tensor((4,), dtype="float32") = R.exp(x)
    +                 R.output(gv)
    +             return gv
    +
    +         gv1: R.Tensor((4,), dtype="float32") = gv(x)
    +         gv2: R.Tensor((4,), dtype="float32") = gv(gv1)
    +         return gv2

          @R.function
          def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
              cls = Module
              with R.dataflow():
    -             lv: R.Tensor((4,), dtype="float32") = cls.fused_relax_exp(x)
    -             gv: R.Tensor((4,), dtype="float32") = cls.fused_relax_exp(lv)
    +             gv: R.Tensor((4,), dtype="float32") = cls.fused_relax_exp_relax_exp_mine(x)
                  R.output(gv)
              return gv

A composite is merged with those whose results it uses, unless one of them also reaches it on
another path: then the region would depend on its own result.
"""

from __future__ import annotations

import hashlib
from typing import Any

from ....ir.expr import GlobalVar
from ....ir.structural import StructuralKey
from ....ir.transform import IRModule, ModulePass, PassContext
from ... import expr as rx
from ...block_builder import BlockBuilder
from ...specialize import copy_with_new_vars
from ..queries import called_functions, functions_of, used_vars
from ._grouping import Group, GroupedRewriter
from .fuse_ops_by_pattern import CODEGEN, COMPOSITE, backend_of

_LONGEST = 120  # characters of a region's name


class MergeCompositeFunctions(ModulePass):
    """Merges composite functions of one back end into regions."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        work = _Merger(mod)
        changed = {
            gvar: work.function(func)
            for gvar, func in functions_of(mod)
            if COMPOSITE not in func.attrs and CODEGEN not in func.attrs
        }
        merged = work.builder.get().with_functions(changed)
        called = {v for _, f in functions_of(merged) for v in called_functions(f)}
        uncalled = [g for g in work.merged if g not in called]
        return merged.with_functions(remove=uncalled)


class _Merger(GroupedRewriter):
    lift_shapes = True

    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self.merged: dict[GlobalVar, None] = {}
        self.regions: dict[StructuralKey, GlobalVar] = {}  # equal regions are one function
        self.names: dict[str, int] = {}

    def block(self, block: Any) -> Any:
        if not isinstance(block, rx.DataflowBlock):
            return self.super_block(block)
        regions = _Regions(self)
        regions.read(block)
        self.group_of = {
            var: regions.root(unit) for var, unit in regions.unit_of.items() if regions.kind[unit]
        }
        self.attrs_of = {}
        return self.regroup(block) if self.group_of else self.super_block(block)

    def composite(self, value: rx.Expr) -> str:
        """The back end of a called composite function; "" for anything else."""
        if not isinstance(value, rx.Call) or not isinstance(value.op, GlobalVar):
            return ""
        assert self.mod is not None
        func = self.mod.get(value.op)
        named = func.attrs.get(COMPOSITE) if isinstance(func, rx.Function) else None
        return "" if named is None else backend_of(str(named))

    def _add(self, group: Group) -> GlobalVar:
        """The function of a region: public, its composites as local functions."""
        func, builder = group.func, BlockBuilder(self.mod)
        assert func is not None and self.mod is not None
        backend = next(self.composite(b.value) for b in group.bindings if self.composite(b.value))
        bindings: list[Any] = []
        local: dict[GlobalVar, rx.Var] = {}
        renamed: dict[Any, Any] = {}
        with builder.scope(func.params):
            for binding in (b for block in func.body.blocks for b in block.bindings):
                value = binding.value
                if self.composite(value):
                    if value.op not in local:
                        inner = self.mod[value.op].without_attr("Primitive")
                        inner = copy_with_new_vars(inner.without_attr("global_symbol"))
                        local[value.op] = rx.Var("gv", inner.struct_info)
                        self.merged.setdefault(value.op)
                        bindings.append(rx.VarBinding._make(local[value.op], inner))
                    value = rx.Call(local[value.op], value.args, value.attrs, value.sinfo_args)
                value = builder.normalize(_with_vars(value, renamed))
                var = rx.Var("gv", value.struct_info, binding.var.span)
                renamed[binding.var] = var
                bindings.append(rx.VarBinding._make(var, value, span=binding.span))
            body = _with_vars(func.body.body, renamed)
            seq = builder.normalize(rx.SeqExpr([rx.BindingBlock(bindings)], body))
        region = rx.Function(func.params, seq, None, True, {CODEGEN: backend}, func.span)
        key = StructuralKey(region)
        if key not in self.regions:
            name = f"{self._fresh(group.name)}_{backend}"
            self.regions[key] = self.builder.add_func(region.with_attr("global_symbol", name), name)
        return self.regions[key]

    def _fresh(self, joined: str) -> str:
        """`fused_a_b` for the composites fused_a and fused_b, numbered if taken."""
        name = "fused_" + joined.removeprefix("fused_").replace("_fused_", "_").removeprefix(
            "fused_"
        )
        if len(name) > _LONGEST:  # a whole network
            name = f"{name[: _LONGEST - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        exists = self.mod is not None and name in self.mod
        self.names[name] = count = self.names.get(name, int(exists) - 1) + 1
        return f"{name}{count}" if count else name


def _with_vars(value: rx.Expr, renamed: dict[Any, Any]) -> Any:
    work = GroupedRewriter(None)
    work.var_map = renamed
    return work.value(value)


class _Regions:
    """The partition of bindings into regions: a disjoint-set forest of units. Sets of units are
    bit masks."""

    def __init__(self, owner: _Merger) -> None:
        self.owner = owner
        self.unit_of: dict[rx.Var, int] = {}
        self.kind: list[str] = []  # the back end, "" if not offloaded
        self.parent: list[int] = []
        # Of each root: its units, and all units outside that they depend on.
        self.members: dict[int, int] = {}
        self.needs: dict[int, int] = {}

    def root(self, unit: int) -> int:
        while self.parent[unit] != unit:
            self.parent[unit] = self.parent[self.parent[unit]]
            unit = self.parent[unit]
        return unit

    def read(self, block: rx.DataflowBlock) -> None:
        """Assign every binding to a unit."""
        for binding in block.bindings:
            var, value = binding.var, binding.value
            sources = {self.root(self.unit_of[v]) for v in used_vars(value) if v in self.unit_of}
            backend = self.owner.composite(value)
            if isinstance(value, rx.TupleGetItem) and len(sources) == 1:
                (source,) = sources
                if self.kind[source] and type(binding) is rx.VarBinding:
                    self.unit_of[var] = source  # a field belongs to its tuple
                    continue
            self.unit_of[var] = unit = self.add(backend, sources)
            if backend:
                for source in self.mergeable(sources, backend):
                    self.join(source, unit)

    def add(self, backend: str, sources: set[int]) -> int:
        unit = len(self.parent)
        self.parent.append(unit)
        self.kind.append(backend)
        self.members[unit] = 1 << unit
        self.needs[unit] = 0
        for source in sources:
            self.needs[unit] |= self.members[source] | self.needs[source]
        return unit

    def mergeable(self, sources: set[int], backend: str) -> list[int]:
        """The sources of that back end that no other source depends on."""
        needed = 0
        for source in sources:
            needed |= self.needs[source]
        same = (s for s in sorted(sources) if self.kind[s] == backend)
        return [s for s in same if not needed & self.members[s]]

    def join(self, source: int, unit: int) -> None:
        """Merge two units and their dependences."""
        a, b = self.root(source), self.root(unit)
        if a == b:
            return
        self.parent[a] = b
        members = self.members[b] = self.members[b] | self.members.pop(a)
        needs = self.needs[b] = (self.needs[b] | self.needs.pop(a)) & ~members
        for other, needed in self.needs.items():
            if needed & members:
                self.needs[other] = needed | needs | members
