"""The normal form of graphs and the inference of struct infos.

In normal form the arguments of calls, the conditions and the results of blocks are variables,
literals or tuples of them; a nested call is bound to a variable first. Every expression has its
struct info.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import TYPE_CHECKING, Any

from ..base.errors import explain
from ..ir.expr import GlobalVar
from ..ir.node import Node
from ..ir.op import Op
from ..ir.prim_expr import IntImm
from ..ir.prim_op import NO_WRAP
from ..tir.byte_size import LIMIT, known_bytes
from . import expr as rx
from .relations import derive_call_ret_struct_info, erase_to_params, struct_info_lca
from .struct_info import FuncStructInfo, StructInfo, TensorStructInfo

if TYPE_CHECKING:
    from .block_builder import BlockBuilder

_LEAVES = (
    rx.Var,
    rx.Constant,
    GlobalVar,
    Op,
    rx.ShapeExpr,
    rx.ExternFunc,
    rx.PrimValue,
    rx.StringImm,
    rx.DataTypeImm,
    rx.Tuple,
)


_LITERALS = {rx.Var, rx.DataflowVar, rx.Constant}  # normal as they are


def is_leaf(expr: GlobalVar | rx.Expr) -> bool:
    """Whether an expression may be an argument in normal form."""
    return type(expr) in _LITERALS or isinstance(expr, _LEAVES)


def _may_be_scalar(info: StructInfo) -> bool:
    """Whether a value may have one element: one with none or several is refused at run time."""
    shape = info.get_shape() if isinstance(info, TensorStructInfo) else None
    return all(not isinstance(d, IntImm) or d.value == 1 for d in shape or ())


def infer_struct_info(call: rx.Call, bb: BlockBuilder) -> StructInfo:
    """The struct info of a call whose arguments have theirs.

    Raises ValueError if the operator has no rule or the arguments do not fit.
    """
    if isinstance(call.op, Op):
        infer = call.op.get_attr("FInferStructInfo")
        if infer is not None:
            token = NO_WRAP.set(True)
            try:
                return infer(call, bb)
            finally:
                NO_WRAP.reset(token)
        if len(call.sinfo_args) == 1:
            return call.sinfo_args[0]
        what = f"operator {call.op.name} has no rule for its result's struct info"
        hint = f'ir.register_op_attr("{call.op.name}", "FInferStructInfo", f) with f(call, bb)'
        raise ValueError(explain(what, instead=hint, span=call.span))
    info = call.op.struct_info
    if not isinstance(info, FuncStructInfo):
        what = "only a function can be called"
        raise ValueError(explain(what, got=f"{call.op} with {info}", span=call.span))
    return derive_call_ret_struct_info(info, call, bb)


def _check_size(info: Any, call: rx.Call) -> None:
    """Refuse a result that no memory can hold, whose size might not even fit an int64."""
    for part in getattr(info, "fields", (info,)):
        dims = part.get_shape() if isinstance(part, TensorStructInfo) else None
        size = known_bytes(dims, part.dtype) if dims else 0
        if size > LIMIT:
            what = f"the result of {getattr(call.op, 'name', 'a call')} is too large"
            hint = f"a tensor has at most {LIMIT} bytes"
            raise ValueError(explain(what, got=f"{size} bytes", instead=hint, span=call.span))


class Normalizer:
    """Brings expressions into normal form, binding nested ones through `builder`."""

    def __init__(self, builder: BlockBuilder) -> None:
        self.builder = builder

    def visit(self, expr: GlobalVar | rx.Expr) -> Any:
        """`expr` with its parts normalized and its struct info filled in."""
        if self.builder._frames:
            bound = self.builder._frames[-1].normalized.get(id(expr))
            if bound is not None:
                return bound[1]
        handler = _HANDLERS.get(type(expr))
        if handler is None:
            return expr if type(expr) in Node.__kinds__ else self.visit(rx.as_expr(expr))
        return handler(self, expr)

    def argument(self, expr: GlobalVar | rx.Expr) -> Any:
        """`expr` as an argument: itself if it is a leaf, else a variable bound to it."""
        if type(expr) in rx.Var.__kinds__:
            return expr
        if self.builder._frames:
            bound = self.builder._frames[-1].normalized.get(id(expr))
            if bound is not None:
                return bound[1]
        normal = self.visit(expr)
        if is_leaf(normal):
            return normal
        if not self.builder._frames:
            what = "a nested expression can only be normalized where it can be bound"
            hint = "do it inside a function or block of the builder"
            raise ValueError(explain(what, got=str(expr), instead=hint))
        var = self.builder.bind(normal)
        self.builder._frames[-1].normalized[id(expr)] = (expr, var)
        return var

    def arguments(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Each as an argument; the same tuple if nothing changes."""
        for value in values:
            if type(value) not in _LITERALS:
                break
        else:
            return values
        normal = tuple([self.argument(v) for v in values])
        return values if all(map(is_, normal, values)) else normal

    # ------------------------------------------------------------------ expressions

    def visit_global_var(self, var: GlobalVar) -> Any:
        if var.struct_info is None:
            var.struct_info = self.builder._struct_info_of_global(var)
        return var

    def visit_tuple(self, node: rx.Tuple) -> Any:
        fields = self.arguments(node.fields)
        if fields is not node.fields or node.struct_info is None:
            node = rx.Tuple._make(fields, span=node.span)
        if node.struct_info is None:
            missing = [f for f in fields if f.struct_info is None]
            what = "a tuple's field has no struct info"
            raise ValueError(explain(what, got=str(missing[0]), instead="normalize it first"))
        return node

    def visit_tuple_get_item(self, node: rx.TupleGetItem) -> Any:
        value = self.argument(node.tuple_value)
        if value is not node.tuple_value or node.struct_info is None:
            node = rx.TupleGetItem(value, node.index, span=node.span)
        if node.struct_info is None:
            what = "a field can be taken of a tuple of known length only"
            raise ValueError(explain(what, got=f"{value} with {value.struct_info}", span=node.span))
        return node

    def visit_call(self, call: rx.Call) -> Any:
        op = call.op if type(call.op) is Op else self.argument(call.op)
        args = self.arguments(call.args)
        if op is not call.op or args is not call.args:
            call = call.replace(op=op, args=args)
        if type(op) is Op:
            normalize = op.get_attr("FNormalize")
            if normalize is not None and self.builder.applies_fnormalize:
                normal = normalize(self.builder, call)
                if normal is not call:
                    return self.visit(normal)
        if call.struct_info is None:
            call._update_struct_info(infer_struct_info(call, self.builder))
            _check_size(call.struct_info, call)
        return call

    def visit_if(self, node: rx.If) -> Any:
        cond = self.argument(node.cond)
        if not _may_be_scalar(cond.struct_info):
            what = "the condition of an if is a scalar"
            got = f"{cond} with {cond.struct_info}"
            raise ValueError(explain(what, got=got, instead="reduce it to 0 dims", span=node.span))
        true = self.in_inner_scope(node.true_branch)
        false = self.in_inner_scope(node.false_branch)
        same = cond is node.cond and true is node.true_branch and false is node.false_branch
        if not same:
            node = rx.If._make(cond, true, false, span=node.span)
        if node.struct_info is None:
            info = struct_info_lca(true.struct_info, false.struct_info, self.builder.analyzer)
            node._update_struct_info(info)
        return node

    def in_inner_scope(self, body: rx.SeqExpr) -> rx.SeqExpr:
        with self.builder.inner_scope():
            return self.visit(body)

    def visit_function(self, func: rx.Function) -> Any:
        with self.builder.scope(func.params):
            body = self.visit(func.body)
        ret = func.ret_struct_info
        if ret is None:
            ret = erase_to_params(func.params, body.struct_info)
        same = body is func.body and ret is func.ret_struct_info
        return func if same else func.replace(body=body, ret_struct_info=ret)

    # ------------------------------------------------------------------ blocks

    def visit_seq(self, seq: rx.SeqExpr, in_dataflow: bool = False) -> Any:
        blocks = [self.visit_block(block) for block in seq.blocks]
        self.builder._begin(in_dataflow)
        body = self.argument(seq.body)
        extra = self.builder._end_block()
        blocks = flatten_blocks([*blocks, extra])
        same_blocks = len(blocks) == len(seq.blocks) and all(
            a is b for a, b in zip(blocks, seq.blocks, strict=True)
        )
        if not same_blocks or body is not seq.body:
            seq = rx.SeqExpr._make(tuple(blocks), body, span=seq.span)
        if seq.struct_info is None:
            seq._update_struct_info(self.builder.erase_in_scope(body.struct_info))
        return seq

    def visit_block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        dataflow = isinstance(block, rx.DataflowBlock)
        self.builder._begin(dataflow)
        for binding in block.bindings:
            self.builder.emit_normalized(self.visit_binding(binding))
        normal = self.builder._end_block()
        same = len(normal.bindings) == len(block.bindings) and all(
            a is b for a, b in zip(normal.bindings, block.bindings, strict=True)
        )
        return block if same else normal.with_span(block.span)

    def visit_binding(self, binding: rx.Binding) -> rx.Binding:
        if type(binding) is rx.MatchCast:
            value = self.argument(binding.value)
            if binding.var.struct_info is None:
                binding.var._update_struct_info(binding.struct_info)
            return binding.replace(value=value)
        assert isinstance(binding, rx.VarBinding)
        if isinstance(binding.value, rx.SeqExpr):  # its blocks are merged into this one
            value = self.visit_seq(binding.value, self.builder.current_block_is_dataflow())
        else:
            value = self.visit(binding.value)
        if binding.var.struct_info is None:
            binding.var._update_struct_info(value.struct_info)
        return binding if value is binding.value else binding.replace(value=value)


_HANDLERS: dict[type, Callable[[Normalizer, Any], Any]] = {
    GlobalVar: Normalizer.visit_global_var,
    rx.Tuple: Normalizer.visit_tuple,
    rx.TupleGetItem: Normalizer.visit_tuple_get_item,
    rx.Call: Normalizer.visit_call,
    rx.If: Normalizer.visit_if,
    rx.Function: Normalizer.visit_function,
    rx.SeqExpr: Normalizer.visit_seq,
}


def flatten_blocks(blocks: list[rx.BindingBlock]) -> list[rx.BindingBlock]:
    """Blocks with nested sequences inlined, empty ones dropped, adjacent ones of one kind
    merged."""
    flat: list[rx.BindingBlock] = []
    for block in blocks:
        flat += _inline_sequences(block)
    merged: list[rx.BindingBlock] = []
    for block in flat:
        if not block.bindings:
            continue
        if merged and type(merged[-1]) is type(block):
            both = (*merged[-1].bindings, *block.bindings)
            merged[-1] = type(block)(both, span=merged[-1].span)
        else:
            merged.append(block)
    return merged


def _inline_sequences(block: rx.BindingBlock) -> list[rx.BindingBlock]:
    if not any(type(b.value) is rx.SeqExpr for b in block.bindings):
        return [block]
    blocks: list[rx.BindingBlock] = []
    current: list[rx.Binding] = []
    for binding in block.bindings:
        value = binding.value
        if isinstance(value, rx.SeqExpr):
            blocks += [type(block)(current), *flatten_blocks(list(value.blocks))]
            current = []
            binding = binding.replace(value=value.body)
        current.append(binding)
    return [*blocks, type(block)(current, span=block.span)]
