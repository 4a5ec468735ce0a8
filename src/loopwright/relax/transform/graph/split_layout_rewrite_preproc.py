"""SplitLayoutRewritePreproc: splits the rearrangement of a kernel's inputs into a kernel of its own.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func(private=True)
    -     def add(x: T.Buffer((4, 4), "float32"), w: T.Buffer((4, 4), "float32"), y: T.Buffer((4, 4), "float32")):
    -         packed = T.alloc_buffer((4, 4))
    +     def add_weight_prepack(w: T.Buffer((4, 4), "float32"), packed: T.Buffer((4, 4), "float32")):
              for i, j in T.grid(4, 4):
                  with T.block("packed"):
                      vi, vj = T.axis.remap("SS", [i, j])
    -                 T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                      packed[vj, vi] = w[vi, vj]
    +
    +     @T.prim_func(private=True)
    +     def add_prepacked(x: T.Buffer((4, 4), "float32"), packed: T.Buffer((4, 4), "float32"), y: T.Buffer((4, 4), "float32")):
              for i, j in T.grid(4, 4):
                  with T.block("y"):
                      vi, vj = T.axis.remap("SS", [i, j])
                      y[vi, vj] = x[vi, vj] + packed[vj, vi]

          @R.function
          def main(x: R.Tensor((4, 4), dtype="float32"), w: R.Tensor((4, 4), dtype="float32")) -> R.Tensor((4, 4), dtype="float32"):
              cls = Module
    -         gv = R.call_tir(cls.add, (x, w), out_sinfo=R.Tensor((4, 4), dtype="float32"))
    +         lv = R.call_tir(cls.add_weight_prepack, (w,), out_sinfo=R.Tensor((4, 4), dtype="float32"))
    +         lv1 = R.call_tir(cls.add_prepacked, (x, lv), out_sinfo=R.Tensor((4, 4), dtype="float32"))
    +         gv: R.Tensor((4, 4), dtype="float32") = lv1
              return gv

Run before LiftTransformParams, which can lift the first kernel. The blocks are those with the
annotation meta_schedule.layout_rewrite_preproc; each reads one input, which nothing else reads. With
`keep_names` the second kernel has the name of the whole one, unless that is still called, and its result
the old variable without a binding between, behind which OutlineNative would not see a native call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....ir.expr import GlobalVar
from ....ir.functor import any_node
from ....ir.node import Node
from ....ir.prim_expr import IntImm
from ....ir.transform import IRModule, ModulePass, PassContext
from ....tir.buffer import Buffer
from ....tir.expr import BufferLoad
from ....tir.function import PrimFunc
from ....tir.stmt import (
    Block,
    BlockRealize,
    BufferRegion,
    BufferStore,
    Evaluate,
    SeqStmt,
    Stmt,
    seq,
)
from ....tir.stmt_functor import post_order_visit, rewrite
from ... import expr as rx
from ...functor import GraphRewriter
from ...op.base import CALL_TIR, call_tir
from ...struct_info import TensorStructInfo
from ..queries import call_fields
from .dead_code import DeadCodeElimination
from .mark_constants import ATTR

MARK = "meta_schedule.layout_rewrite_preproc"


class SplitLayoutRewritePreproc(ModulePass, repr=False):
    """Splits the rearrangement of constant inputs off kernels."""

    keep_names: bool = False

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        work = _Splitter(mod, alias=not self.keep_names)
        new = work.run()
        if new is mod:
            return mod
        new = DeadCodeElimination(keep_packed=True)(new)
        left = {g.name_hint for g in new.functions}
        free = {rest: name for rest, name in work.rests.items() if name not in left}
        return _Renamer(new, free).run() if self.keep_names else new


@dataclass(frozen=True)
class _Parts:
    """A kernel in two. inputs: which arguments the first takes; outputs: the buffers that it writes."""

    pack: PrimFunc
    rest: PrimFunc
    inputs: list[int]
    outputs: list[Buffer]


def split(kernel: PrimFunc) -> _Parts | None:
    """A kernel in two; None where it has no such blocks, or one that cannot be taken out."""
    if not isinstance(kernel.body, BlockRealize):
        return None
    root = kernel.body.block
    stmts = root.body.seq if isinstance(root.body, SeqStmt) else (root.body,)
    packed_as: dict[Buffer, Buffer] = {}  # input -> the buffer it is rearranged into
    before, after = [], []
    for stmt in stmts:
        if not any_node(stmt, _is_marked, skip=_LEAVES):
            after.append(stmt)
            continue
        blocks = _nodes(stmt, Block)
        loads, stores = (
            {n.buffer for n in _nodes(stmt, kind)} for kind in (BufferLoad, BufferStore)
        )
        if len(blocks) != 1 or len(loads) != 1 or len(stores) != 1:
            return None
        before.append(stmt)
        packed_as[loads.pop()] = stores.pop()
    if not packed_as:
        return None
    inputs = kernel.buffers[:-1]
    left = {node.buffer for node in _nodes(after, (BufferLoad, BufferStore))}
    if not all(
        source in inputs
        and source not in left
        and packed in root.alloc_buffers
        and all(isinstance(dim, IntImm) for dim in packed.shape)
        for source, packed in packed_as.items()
    ):
        return None
    sources = [b for b in inputs if b in packed_as]
    outputs = [packed_as[b] for b in sources]
    attrs = {k: v for k, v in kernel.attrs.items() if k not in (ATTR, "global_symbol")}
    unscheduled = {k: v for k, v in attrs.items() if k != "tir.is_scheduled"}
    plain = [rewrite(stmt, {Block: _unmarked}) for stmt in before]
    swap = {v: packed_as.get(b, b) for v, b in kernel.buffer_map.items()}
    return _Parts(
        PrimFunc([*sources, *outputs], _body(kernel, plain, outputs), attrs=unscheduled),
        PrimFunc(
            [swap.get(p, p) for p in kernel.params], _body(kernel, after, outputs), attrs=attrs
        ),
        [inputs.index(b) for b in sources],
        outputs,
    )


def _nodes(stmt: Sequence[Stmt] | Stmt, kind: tuple[type[Node], ...] | type[Node]) -> list[Any]:
    nodes: list[Any] = []
    for part in stmt if isinstance(stmt, list) else [stmt]:
        post_order_visit(part, lambda node: nodes.append(node) if isinstance(node, kind) else None)
    return nodes


_LEAVES = (BufferStore, Evaluate, Buffer, BufferRegion)  # no block is inside


def _is_marked(node: Node) -> bool:
    return type(node) is Block and MARK in node.annotations


def _unmarked(block: Block) -> Block | None:
    if MARK not in block.annotations:
        return None
    return block.replace(annotations={k: v for k, v in block.annotations.items() if k != MARK})


def _body(kernel: PrimFunc, stmts: list[Any], outside: list[Buffer]) -> Any:
    """A part of a kernel in its root block, which holds the buffers that the part uses."""
    realize: Any = kernel.body
    used = {node.buffer for node in _nodes(stmts, (BufferLoad, BufferStore))}
    own = [b for b in realize.block.alloc_buffers if b in used and b not in outside]
    block = realize.block.replace(body=seq(*stmts), alloc_buffers=tuple(own), reads=(), writes=())
    return realize.replace(block=block)


class _Splitter(GraphRewriter):
    def __init__(self, mod: IRModule, *, alias: bool) -> None:
        super().__init__(mod)
        self.alias = alias  # as TVM's pass leaves one
        self.rests: dict[GlobalVar, str] = {}  # the rest of a kernel, and the kernel's name
        self.parts: dict[GlobalVar, Any] = {}  # a kernel's parts, and their names

    def parts_of(self, gvar: GlobalVar) -> tuple[_Parts, GlobalVar, GlobalVar] | None:
        """A kernel in two, which are added to the module."""
        kernel = self.mod.get(gvar) if self.mod else None
        parts = split(kernel) if isinstance(kernel, PrimFunc) else None
        if parts is None:
            return None
        name = gvar.name_hint
        pack = self.builder.add_func(parts.pack, f"{name}_weight_prepack")
        rest = self.builder.add_func(parts.rest, f"{name}_prepacked")
        self.rests[rest] = name
        return parts, pack, rest

    def call(self, call: rx.Call) -> Any:
        if call.op is not CALL_TIR:
            return call
        gvar = call.args[0]
        if gvar not in self.parts:
            self.parts[gvar] = self.parts_of(gvar)
        if self.parts[gvar] is None:
            return call
        parts, pack, rest = self.parts[gvar]
        fields = list(call_fields(call))
        infos = [TensorStructInfo(rx.ShapeExpr(b.shape), b.dtype) for b in parts.outputs]
        out = infos[0] if len(infos) == 1 else infos
        packed = self.builder.emit(call_tir(pack, [fields[i] for i in parts.inputs], out))
        for field, index in enumerate(parts.inputs):
            fields[index] = packed if len(infos) == 1 else rx.TupleGetItem(packed, field)
        call = call.replace(args=(rest, rx.Tuple(fields), *call.args[2:]))
        return self.builder.emit(call) if self.alias else call


class _Renamer(GraphRewriter):
    def __init__(self, mod: IRModule, names: dict[GlobalVar, str]) -> None:
        super().__init__(mod)
        self.table = {old: GlobalVar(name) for old, name in names.items()}
        for old, new in self.table.items():
            new.struct_info = old.struct_info

    def call(self, call: rx.Call) -> Any:
        new = self.table.get(call.args[0]) if call.op is CALL_TIR else None
        return call if new is None else call.replace(args=(new, *call.args[1:]))

    def run(self) -> IRModule:
        return super().run().replace_global_vars(self.table)
