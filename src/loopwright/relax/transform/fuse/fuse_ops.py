"""FuseOps: groups adjacent kernel calls into functions.

In each dataflow block, calls of PrimFuncs are grouped by their fusion kinds (`op_pattern`, see
AnnotateTIROpPattern) along post-dominators (see `_partition`). A group of more than one becomes a
private function with the attribute `Primitive`, which FuseTIR turns into one PrimFunc.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func(private=True)
          def exp(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
              T.func_attr({"op_pattern": 0, "tir.noalias": True})
              for i in range(T.int64(4)):
                  with T.block("y"):
                      vi = T.axis.spatial(T.int64(4), i)
                      y[vi] = T.exp(x[vi])

    -     @R.function
    -     def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    +     @R.function(private=True)
    +     def fused_exp_exp(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    +         R.func_attr({"Primitive": True})
              cls = Module
              with R.dataflow():
                  lv = R.call_tir(cls.exp, (x,), out_sinfo=R.Tensor((4,), dtype="float32"))
                  gv = R.call_tir(cls.exp, (lv,), out_sinfo=R.Tensor((4,), dtype="float32"))
                  R.output(gv)
              return gv
    +
    +     @R.function
    +     def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    +         cls = Module
    +         with R.dataflow():
    +             gv: R.Tensor((4,), dtype="float32") = cls.fused_exp_exp(x)
    +             R.output(gv)
    +         return gv
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ....ir import trace
from ....ir.expr import GlobalVar
from ....ir.target import Target
from ....ir.transform import IRModule, ModulePass, PassContext
from ....tir.analysis.op_pattern import OpPattern, gathers
from ....tir.function import PrimFunc
from ...expr import Call, DataflowBlock, DataflowVar, TupleGetItem, Var, VarBinding
from ...op.base import CALL_TIR, CALL_TIR_INPLACE
from ..queries import call_fields, functions_of, used_vars
from ._grouping import GroupedRewriter, name_of
from ._partition import Graph, Partition

_MAX_DEPTH = "relax.FuseOps.max_depth"


class FuseOps(ModulePass, repr=False):
    """Group kernel calls into functions.

    fuse_opt_level: 0 fuses nothing; -1 uses the context's level.
    """

    fuse_opt_level: int = -1

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        level = ctx.opt_level if self.fuse_opt_level == -1 else self.fuse_opt_level
        if level < 1:
            return mod
        work = _Fuser(mod, ctx.option(_MAX_DEPTH))
        changed = {
            gvar: work.function(func)
            for gvar, func in functions_of(mod)
            if not func.attrs.get("Primitive", False)
        }
        return work.builder.get().with_functions({**changed, **work.placed()})


class _Fuser(GroupedRewriter):
    def __init__(self, mod: IRModule, max_depth: int) -> None:
        super().__init__(mod)
        self.max_depth = max_depth
        self.group_count = 0

    def block(self, block: Any) -> Any:
        if not isinstance(block, DataflowBlock):
            return self.super_block(block)
        graph, _ = build_graph(block, self.mod)
        partition = Partition(graph, self.max_depth)
        partition.run()
        roots = [partition.root(n) for n in range(len(block.bindings))]
        sizes = Counter(roots)
        self.group_of = {
            b.var: roots[n] for n, b in enumerate(block.bindings) if sizes[roots[n]] > 1
        }
        if trace.active() is not None:
            _explain(block, partition, sizes)
        return self.regroup(block)


def build_graph(block: DataflowBlock, mod: Any) -> tuple[Graph, dict[Var, int]]:
    """The graph of a block's bindings with their fusion kinds, and the node of each variable."""
    graph, number = Graph(), {}
    several = any("target" in f.attrs for f in mod.functions.values() if isinstance(f, PrimFunc))
    for binding in block.bindings:
        var, value = binding.var, binding.value
        node = number[var] = graph.add(not isinstance(var, DataflowVar))
        kind = OpPattern.OPAQUE
        operands: Any = None
        if type(binding) is VarBinding and type(value) is Call:
            kind = _kind_of_call(value, mod)
            if kind != OpPattern.OPAQUE:
                if several:
                    own = mod[value.args[0]].attrs.get("target")
                    graph.targets[node] = str(own or Target.current(allow_none=True))
                operands = [v for a in call_fields(value) for v in used_vars(a)]
            if kind == OpPattern.INJECTIVE:
                graph.gathers[node] = gathers(mod[value.args[0]])
        elif type(binding) is VarBinding and type(value) is TupleGetItem:
            kind = OpPattern.INJECTIVE
        graph.kinds[node] = kind
        for operand in used_vars(value) if operands is None else operands:
            producer = number.get(operand)
            if producer is not None:
                graph.users[producer].append((node, kind))
    return graph, number


def _kind_of_call(call: Call, mod: Any) -> OpPattern:
    if call.op is not CALL_TIR and call.op is not CALL_TIR_INPLACE:
        return OpPattern.OPAQUE
    callee = call.args[0]
    func = mod.functions.get(callee) if isinstance(callee, GlobalVar) else None
    if not isinstance(func, PrimFunc):
        return OpPattern.OPAQUE
    kind = func.attrs.get("op_pattern")
    return OpPattern.OPAQUE if kind is None else OpPattern(int(getattr(kind, "value", kind)))


def _explain(block: DataflowBlock, partition: Partition, sizes: Counter[int]) -> None:
    """Record in the trace which calls each call was fused with, or why with none."""
    members: dict[int, list[str]] = {}
    for n, binding in enumerate(block.bindings):
        members.setdefault(partition.root(n), []).append(name_of(binding))
    for n, binding in enumerate(block.bindings):
        subject = name_of(binding)
        if subject:
            group = members[partition.root(n)]
            fused = [m for m in group if m] if sizes[partition.root(n)] > 1 else []
            trace.note("fuse", subject, group=fused, reason=partition.why.get(n, ""))
