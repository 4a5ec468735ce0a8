"""FuseTIR: turns each fused function into one PrimFunc.

A private graph function with the attribute `Primitive` that only calls kernels is replaced by a
PrimFunc of the same name: the loops in sequence, with intermediate values in allocated
buffers. Calls of it become call_tir; functions without remaining calls are removed.

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @T.prim_func(private=True)
    -     def exp(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
    -         T.func_attr({"op_pattern": 0, "tir.noalias": True})
    +     def fused_exp_exp(x: T.Buffer((T.int64(4),), "float32"), y_intermediate_1: T.Buffer((T.int64(4),), "float32")):
    +         T.func_attr({"tir.noalias": True})
    +         y_intermediate = T.alloc_buffer((T.int64(4),))
              for i in range(T.int64(4)):
                  with T.block("y"):
                      vi = T.axis.spatial(T.int64(4), i)
    -                 y[vi] = T.exp(x[vi])
    -
    -     @R.function(private=True)
    -     def fused_exp_exp(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    -         R.func_attr({"Primitive": True})
    -         cls = Module
    -         with R.dataflow():
    -             lv = R.call_tir(cls.exp, (x,), out_sinfo=R.Tensor((4,), dtype="float32"))
    -             gv = R.call_tir(cls.exp, (lv,), out_sinfo=R.Tensor((4,), dtype="float32"))
    -             R.output(gv)
    -         return gv
    +                 y_intermediate[vi] = T.exp(x[vi])
    +         for i in range(T.int64(4)):
    +             with T.block("y_1"):
    +                 vi = T.axis.spatial(T.int64(4), i)
    +                 y_intermediate_1[vi] = T.exp(y_intermediate[vi])

          @R.function
          def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
              cls = Module
              with R.dataflow():
    -             gv: R.Tensor((4,), dtype="float32") = cls.fused_exp_exp(x)
    +             gv = R.call_tir(cls.fused_exp_exp, (x,), out_sinfo=R.Tensor((4,), dtype="float32"))
                  R.output(gv)
              return gv
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ....base.errors import LoopwrightError, explain
from ....base.span import Span, merge_spans
from ....ir.expr import Attrs, GlobalVar
from ....ir.functor import post_order_visit, rewrite
from ....ir.node import Node
from ....ir.prim_expr import BinaryOpExpr, PrimExpr
from ....ir.prim_expr import Call as TirCall
from ....ir.prim_expr import Var as TirVar
from ....ir.prim_op import const, fold_binary
from ....ir.transform import IRModule, ModulePass, PassContext
from ....ir.variables import vars_in
from ....tir.analysis.access import get_block_read_write_region
from ....tir.buffer import Buffer, decl_buffer
from ....tir.function import PrimFunc
from ....tir.op import is_call_to
from ....tir.stmt import Block, BlockRealize, BufferStore, Evaluate, SeqStmt, Stmt, seq
from ....tir.stmt_functor import renew_defs
from ...expr import Binding, Call, Expr, Function, PrimValue, ShapeExpr, Tuple, TupleGetItem, Var
from ...functor import GraphRewriter
from ...op.base import CALL_TIR, CALL_TIR_INPLACE
from ...relations import function_struct_info, substitute
from ...struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from ..graph.canonicalize import canonicalize
from ..graph.dead_code import Callees, DeadCodeElimination, eliminate
from ..queries import call_fields, tensor_fields


class FuseTIR(ModulePass):
    """Build one PrimFunc from every fused function and call it."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        fused: dict[GlobalVar, Fused] = {}
        for gvar, func in mod.functions.items():
            if isinstance(func, Function) and func.attrs.get("Primitive", False):
                kernel = fuse(func, mod)
                if kernel is not None:
                    fused[gvar] = kernel
        if not fused:
            return DeadCodeElimination(keep_packed=True).run(mod, ctx)
        # New variables: those of the old module carry its struct infos.
        new = {
            gvar.name_hint: (GlobalVar(gvar.name_hint), kernel) for gvar, kernel in fused.items()
        }
        work = _Caller(mod, new)
        functions: dict[GlobalVar, Any] = {}
        for fresh, kernel in new.values():
            fresh.struct_info = function_struct_info(kernel.func)
            functions[fresh] = kernel.func
        for gvar, func in mod.functions.items():
            if isinstance(func, Function) and gvar not in fused:
                changed = work.function(func)
                func = changed if changed is func else canonicalize(changed, mod)
            if gvar not in fused:
                functions[gvar] = func
        kernels_mod = IRModule(functions, mod.attrs, mod.global_infos, mod.span)
        callees: Callees = {id(kernel.func): kernel.callees for _, kernel in new.values()}
        return eliminate(kernels_mod, None, callees, keep_packed=True)


@dataclass
class Fused:
    """A fused PrimFunc and its call: the indices of the flattened arguments it takes, and the
    argument that each output overwrites (-1: none)."""

    func: PrimFunc
    used: list[bool]
    inplace: list[int]
    callees: set[GlobalVar]


class _Caller(GraphRewriter):
    """Replaces calls of fused functions by call_tir."""

    def __init__(self, mod: IRModule, fused: dict[str, tuple[GlobalVar, Fused]]) -> None:
        super().__init__(mod)
        self.fused = fused

    def call(self, call: Call) -> Any:
        if not isinstance(call.op, GlobalVar) or call.op.name_hint not in self.fused:
            return call
        gvar, fused = self.fused[call.op.name_hint]
        tensors: list[Any] = []
        scalars: list[PrimExpr] = []
        for arg in call.args:
            self.flatten(arg, arg.struct_info, tensors, scalars)
        used = [t for t, keep in zip(tensors, fused.used, strict=True) if keep]
        args: list[Any] = [gvar, Tuple(used)]
        if scalars:
            args.append(ShapeExpr(scalars))
        info = call.struct_info or self.builder.normalize(call).struct_info
        nested = isinstance(info, TupleStructInfo) and any(
            isinstance(f, TupleStructInfo) for f in info.fields
        )
        out = TupleStructInfo(tensor_fields(info)) if nested else info
        if all(i == -1 for i in fused.inplace):
            new = Call(CALL_TIR, args, None, [out], call.span)
        else:
            attrs = Attrs("relax.call_tir_inplace", {"inplace_indices": fused.inplace})
            new = Call(CALL_TIR_INPLACE, args, attrs, [out], call.span)
        if not nested:
            return new
        flat = self.builder.emit(new)
        return _nested(info, (TupleGetItem(flat, i) for i in range(len(out.fields))))

    def flatten(self, arg: Expr, info: StructInfo, tensors: list[Any], scalars: list[Any]) -> None:
        if isinstance(info, TupleStructInfo):
            bound = self.builder.lookup_binding(arg) if isinstance(arg, Var) else arg
            for i, inner in enumerate(info.fields):
                item = bound.fields[i] if isinstance(bound, Tuple) else TupleGetItem(arg, i)
                self.flatten(item, inner, tensors, scalars)
        elif isinstance(info, ShapeStructInfo):
            scalars.extend(arg.values if isinstance(arg, ShapeExpr) else info.values or ())
        elif isinstance(info, PrimStructInfo):
            scalars.append(arg.value if isinstance(arg, PrimValue) else info.value)
        else:
            tensors.append(arg)


def _nested(info: StructInfo, items: Any) -> Any:
    """The outputs of a call, nested like a struct info."""
    if isinstance(info, TupleStructInfo):
        return Tuple([_nested(f, items) for f in info.fields])
    return next(items)


def fuse(func: Function, mod: IRModule) -> Fused | None:
    """One PrimFunc for a graph function that only calls kernels, or None for another function."""
    work = _Fuser(mod)
    return work.fuse(func)


@dataclass
class _Slot:
    """A tensor: its buffer, created at its first use; `index` among the parameters or -1."""

    name: str
    info: TensorStructInfo
    index: int = -1
    buffer: Buffer | None = None
    source: Any = None


@dataclass
class _Fuser:
    mod: IRModule
    values: dict[Any, Any] = field(default_factory=dict)  # relax Var -> slot, or list of them
    inputs: list[_Slot] = field(default_factory=list)
    scalars: list[TirVar] = field(default_factory=list)
    stmts: list[Stmt] = field(default_factory=list)
    allocated: list[Buffer] = field(default_factory=list)
    used: set[Any] = field(default_factory=set)
    names: dict[str, int] = field(default_factory=dict)
    buffer_names: dict[str, int] = field(default_factory=dict)
    targets: list[Any] = field(default_factory=list)
    callees: set[GlobalVar] = field(default_factory=set)
    span: Any = None  # of the binding whose loops are appended: they come from there

    def fuse(self, func: Function) -> Fused | None:
        if not all(self.param(p, p.name_hint, p.struct_info) for p in func.params):
            return None
        spans = [func.span]
        for block in func.body.blocks:
            for binding in block.bindings:
                self.span = binding.span or binding.value.span
                if not self.binding(binding):
                    return None
                spans.append(self.span)
        outs = self.flat(func.body.body)
        if outs is None or len({id(s) for s in outs}) != len(outs) or not self.stmts:
            return None
        return self.finish(outs, merge_spans(*spans))

    def param(self, var: Var, name: str, info: StructInfo) -> bool:
        slot = self.slots(name, info)
        self.values[var] = slot
        if isinstance(info, (ShapeStructInfo, PrimStructInfo)):
            dims: Any = info.values if isinstance(info, ShapeStructInfo) else (info.value,)
            for value in dims or ():
                fresh = isinstance(value, TirVar) and value not in self.scalars
                self.scalars.append(value if fresh else TirVar("scalar", value.dtype))
            return dims is not None and None not in dims
        return slot is not None

    def slots(self, name: str, info: StructInfo) -> Any:
        if isinstance(info, TupleStructInfo):
            fields = [self.slots(f"{name}_{i}", f) for i, f in enumerate(info.fields)]
            return None if any(m is None for m in fields) else fields
        if isinstance(info, TensorStructInfo) and isinstance(info.shape, ShapeExpr):
            slot = _Slot(name, info, len(self.inputs))
            self.inputs.append(slot)
            return slot
        return None

    # ------------------------------------------------------------------ bindings

    def binding(self, binding: Binding) -> bool:
        value = binding.value
        if isinstance(value, Call) and value.op in (CALL_TIR, CALL_TIR_INPLACE):
            slot = self.call(binding.var, value)
        else:
            slot = self.look(value)
        self.values[binding.var] = slot
        return slot is not None

    def look(self, expr: Expr) -> Any:
        """The slots of an expression without calls, or None."""
        if isinstance(expr, Var):
            return self.values.get(expr)
        if isinstance(expr, Tuple):
            fields = [self.look(f) for f in expr.fields]
            return None if any(m is None for m in fields) else fields
        if isinstance(expr, TupleGetItem):
            whole = self.look(expr.tuple_value)
            return whole[expr.index] if isinstance(whole, list) else None
        return None

    def flat(self, expr: Expr) -> list[_Slot] | None:
        slot = self.look(expr)
        return None if slot is None else _leaves(slot)

    def call(self, var: Var, call: Call) -> Any:
        gvar = call.args[0]
        func = self.mod.functions.get(gvar) if isinstance(gvar, GlobalVar) else None
        if not isinstance(func, PrimFunc):
            return None
        if gvar in self.used:
            func = renew_defs(func)
        self.used.add(gvar)
        params = list(func.params)
        buffers: dict[Buffer, Buffer] = {}
        bound: dict[Any, Any] = {}
        if len(call.args) > 2:  # shapes may mention these, so they come first
            scalars = call.args[2].struct_info.values
            bound.update(zip(params[len(params) - len(scalars) :], scalars, strict=True))
        operands: list[_Slot | None] = []
        for arg in call_fields(call):
            if isinstance(arg.struct_info, PrimStructInfo):
                bound[params.pop(0)] = arg.struct_info.value
                operands.append(None)
                continue
            operand = self.look(arg)
            if operand is None:
                return None
            for slot in _leaves(operand):
                self.bind(func.buffer_map[params.pop(0)], slot, buffers, bound)
                operands.append(slot)
        outs = tensor_fields(call.sinfo_args[0])
        slots = self.outputs(call, outs, params, func, buffers, bound, operands)
        self.append(func, buffers, bound)
        return _like(call.sinfo_args[0], iter(slots))

    def outputs(
        self, call: Call, infos: list[Any], params: list[Any], func: PrimFunc,
        buffers: dict[Buffer, Buffer], bound: dict[Any, Any], operands: list[_Slot | None],
    ) -> list[_Slot]:  # fmt: skip
        """Slots of the outputs, whose parameters are removed from `params`."""
        over = [-1] * len(infos)
        if call.op is CALL_TIR_INPLACE:
            over = list(call.attrs.inplace_indices)
        slots: list[_Slot] = []
        for info, index in zip(infos, over, strict=True):
            if index >= 0:
                slot = operands[index]
                assert slot is not None
                slots.append(slot)
                continue
            old = func.buffer_map[params.pop(0)]
            _match(old.shape, info.shape.values, bound)
            fresh = TirVar(old.data.name, "handle", type_annotation=old.data.type_annotation)
            name = self.fresh(self.buffer_names, f"{old.name}_intermediate")
            shape = tuple(substitute(d, bound) for d in old.shape)
            strides = tuple(substitute(d, bound) for d in old.strides)
            new = old.replace(data=fresh, name=name, shape=shape, strides=strides)
            buffers[old] = new
            self.allocated.append(new)
            slots.append(_Slot(name, info, -1, new, old))
        return slots

    def bind(
        self, old: Buffer, slot: _Slot, buffers: dict[Buffer, Buffer], bound: dict[Any, Any]
    ) -> None:
        """Let the kernel's buffer be that of the slot."""
        _match(old.shape, slot.info.shape.values, bound)
        if slot.buffer is None:
            separators = old.axis_separators
            shape, dtype = slot.info.shape.values, slot.info.dtype
            slot.buffer = decl_buffer(shape, dtype, slot.name, axis_separators=separators)
            slot.source = old
        elif slot.buffer.axis_separators != old.axis_separators:
            raise LoopwrightError(
                explain(
                    f"Inconsistent buffers {slot.source.name} and {old.name} "
                    f"mapped to the same relax var: {slot.name}",
                    got=f"axis_separators {slot.buffer.axis_separators} and {old.axis_separators}",
                )
            )
        buffers[old] = slot.buffer

    # ------------------------------------------------------------------ loops

    def append(self, func: PrimFunc, buffers: dict[Buffer, Buffer], bound: dict[Any, Any]) -> None:
        """Append the loops of a function, with buffers and variables replaced."""
        pointers: dict[Any, Any] = {old.data: new.data for old, new in buffers.items()}
        pointers.update(bound)
        aliased = len(set(buffers.values())) < len(buffers)
        fold = any(not isinstance(v, TirVar) for v in bound.values())

        def pre(node: Node) -> Any:
            if type(node) is Buffer:
                return buffers.get(node)
            return pointers.get(node) if type(node) in TirVar.__kinds__ else None

        def post(node: Any) -> Any:
            kind = type(node)
            if fold and kind in BinaryOpExpr.__kinds__:
                return fold_binary(kind, node.a, node.b)
            if kind is Block:
                return self.block(node, aliased)
            if (kind is BufferStore or kind is Evaluate) and node.span is None:
                return node.with_span(self.span)
            if kind is TirCall and node.span is None and is_call_to(node, "checked_index"):
                return node.with_span(self.span)  # whose error names that one of the nodes
            if kind is GlobalVar:
                self.callees.add(node)
            return None

        stmt, own = _content(func.body)
        # One rewrite for both, so that a buffer stays one object.
        renamed, allocated = rewrite((stmt, own), post, pre)
        self.allocated += allocated
        self.stmts += renamed.seq if isinstance(renamed, SeqStmt) else (renamed,)
        self.targets.append(func.attrs.get("target"))

    def block(self, block: Block, aliased: bool) -> Block:
        name = self.fresh(self.names, block.name_hint, "_")
        if aliased:
            reads, writes = get_block_read_write_region(block, {})
            return block.replace(name_hint=name, reads=tuple(reads), writes=tuple(writes))
        return block.replace(name_hint=name)

    @staticmethod
    def fresh(used: dict[str, int], name: str, join: str = "_") -> str:
        unique = name
        while unique in used:
            used[name] += 1
            unique = f"{name}{join}{used[name]}"
        used[unique] = 0
        return unique

    # ------------------------------------------------------------------ the function

    def finish(self, outs: list[_Slot], span: Span | None) -> Fused | None:
        needed = self.symbols()
        defined = {d for s in (*self.inputs, *outs) if s.buffer for d in s.buffer.shape}
        is_used = [s.buffer is not None for s in self.inputs]
        for i, slot in enumerate(self.inputs):  # an unused tensor may define a dimension
            if not is_used[i] and any(d in needed and d not in defined for d in _vars(slot)):
                slot.buffer = decl_buffer(slot.info.shape.values, slot.info.dtype, slot.name)
                is_used[i] = True
        position = {id(s): n for n, s in enumerate(s for s in self.inputs if s.buffer)}
        params: list[TirVar] = []
        views: dict[TirVar, Buffer] = {}
        for slot in self.inputs:
            if slot.buffer is not None:
                params.append(TirVar(f"p_{slot.name}", "handle"))
                views[params[-1]] = slot.buffer
        inplace = [position.get(id(slot), -1) for slot in outs]
        written = [slot for slot, at in zip(outs, inplace, strict=True) if at < 0]
        for n, slot in enumerate(written):
            if slot.buffer is None:  # an argument returned unchanged
                return None
            params.append(TirVar(f"p_output{n}", "handle"))
            views[params[-1]] = slot.buffer
        results = {slot.buffer for slot in written}
        stmts, used = self.needed(outs)
        local = [b for b in self.allocated if b not in results and b.data in used]
        root = Block((), (), (), "root", seq(*stmts), alloc_buffers=local)
        body = BlockRealize((), const(True), root)
        attrs: dict[str, Any] = {"tir.noalias": True}
        target = self.targets[0]
        if target is not None and all(t == target for t in self.targets):
            attrs["target"] = target
        func = PrimFunc([*params, *self.scalars], body, None, views, attrs, span)
        return Fused(func, is_used, inplace, self.callees)

    def needed(self, outs: list[_Slot]) -> tuple[list[Stmt], set[TirVar]]:
        """The loops that outputs need (zeros_like does not read its argument; a moving mean
        may be unused), and the pointers in them."""
        used = {s.buffer.data for s in outs if s.buffer is not None}
        own = {b.data for b in self.allocated}
        needed: list[Stmt] = []
        for stmt in reversed(self.stmts):
            pointers, written = _pointers(stmt)
            if not written or not written <= own or written & used:
                needed.insert(0, stmt)
                used |= pointers
        return needed, used

    def symbols(self) -> set[TirVar]:
        """The variables in the shapes of the buffers and in the loops."""
        shapes = [b.shape for b in self.allocated]
        shapes += [s.buffer.shape for s in self.inputs if s.buffer is not None]
        inside = (_pointers(s)[0] for s in self.stmts)
        return set(vars_in(shapes)).union(*inside) - set(self.scalars)


def _pointers(stmt: Stmt) -> tuple[set[TirVar], set[TirVar]]:
    """The variables in a statement; the pointers that its blocks write to."""
    variables: set[TirVar] = set()
    written: set[TirVar] = set()

    def visit(node: Any) -> None:
        if isinstance(node, TirVar):
            variables.add(node)
        elif isinstance(node, Block):
            written.update(region.buffer.data for region in node.writes)

    post_order_visit(stmt, visit)
    return variables, written


def _vars(slot: _Slot) -> list[TirVar]:
    return [d for d in slot.info.shape.values if isinstance(d, TirVar)]


def _content(body: Stmt) -> tuple[Stmt, tuple[Buffer, ...]]:
    """The body of a function's root block and its allocations; a body without one is returned as
    is."""
    if not isinstance(body, BlockRealize) or body.block.iter_vars:
        return body, ()
    block = body.block
    plain = block.init is None and not block.match_buffers and not (block.reads or block.writes)
    return (block.body, block.alloc_buffers) if plain else (body, ())


def _leaves(slots: _Slot) -> list[_Slot]:
    return [leaf for s in slots for leaf in _leaves(s)] if isinstance(slots, list) else [slots]


def _like(info: StructInfo, value: Any) -> Any:
    """The slots nested like a struct info."""
    if isinstance(info, TupleStructInfo):
        return [_like(f, value) for f in info.fields]
    return next(value)


def _match(pattern: Sequence[PrimExpr], values: Sequence[PrimExpr], bound: dict[Any, Any]) -> None:
    """Bind the symbolic dimensions of a kernel to their values in the graph."""
    for dim, value in zip(pattern, values, strict=True):
        if isinstance(dim, TirVar):
            bound.setdefault(dim, value)
