"""The base of the built-in graph passes: rebuilds a function binding by binding."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import Any

from ..base import budget
from ..base.span import Span
from ..ir.expr import GlobalVar
from ..ir.module import IRModule
from ..ir.structural import structural_equal
from . import expr as rx
from .block_builder import BlockBuilder
from .normalize import flatten_blocks


class GraphRewriter:
    """Rebuilds functions; override `call` (and, where needed, the other methods).

    Methods are called with nodes whose parts are already rewritten, and return an expression, which
    may contain nested calls; extra bindings are emitted through `self.builder`. An unchanged
    function is returned as the same object; bindings keep names and spans.

        class ReluToGelu(GraphRewriter):
            def call(self, call):
                return gelu(call.args[0]) if call.op is RELU else call

        mod = ReluToGelu(mod).run()
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = mod
        self.builder = BlockBuilder(mod)
        self.var_map: dict[rx.Var, Any] = {}

    # ------------------------------------------------------------------ overridden by passes

    def call(self, call: rx.Call) -> Any:
        """The replacement of a call whose arguments are rewritten."""
        return call

    def tuple_get_item(self, node: rx.TupleGetItem) -> Any:
        """The replacement of a field access whose tuple is rewritten."""
        return node

    def binding(self, binding: rx.Binding) -> None:
        """Rewrite a binding and emit its replacement; emitting nothing drops it."""
        self.emit(binding, self.value(binding.value))

    def block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        """Rewrite a block."""
        builder = self.builder
        builder._begin(isinstance(block, rx.DataflowBlock))
        outer = builder.span
        for binding in block.bindings:
            builder.span = binding.span or outer
            budget.check(builder.span)
            self.binding(binding)
        builder.span = outer
        new = builder._end_block()
        old = block.bindings
        same = len(new.bindings) == len(old) and all(map(is_, new.bindings, old))
        return block if same else new.with_span(block.span)

    def definition(self, value: GlobalVar | rx.Expr) -> Any:
        """The value that a variable is bound to, also through other variables; None for a parameter. Any
        other expression is its own definition."""
        while isinstance(value, rx.Var):
            value = self.builder.lookup_binding(value)
        return value

    # ------------------------------------------------------------------ the engine

    def run(self) -> IRModule:
        """Rewrite all relax functions of the module."""
        assert self.mod is not None
        for gvar, func in list(self.mod.functions.items()):
            if isinstance(func, rx.Function):
                self.update(gvar, self.function(func))
        return self.builder.get()

    def update(self, gvar: GlobalVar, func: rx.Function) -> None:
        """Set a function of the module if it has changed."""
        assert self.mod is not None
        if self.mod.get(gvar) is not func:
            self.builder.update_func(gvar, func)

    def function(self, func: rx.Function) -> rx.Function:
        """Rewrite a function."""
        return self.with_params(func, func.params)

    def with_params(self, func: rx.Function, params: tuple[rx.Var, ...]) -> rx.Function:
        """Rewrite a function with new variables for its parameters."""
        self.var_map.update((a, b) for a, b in zip(func.params, params, strict=True) if a is not b)
        with self.builder.scope(params):
            body = self.seq(func.body)
        if body is func.body and params is func.params:
            return func
        declared = func.ret_struct_info
        keep = declared is not None and body.struct_info.is_base_of(declared)
        ret = declared if keep else None
        return rx.Function(params, body, ret, func.is_pure, func.attrs, func.span)

    def seq(self, seq: rx.SeqExpr, in_dataflow: bool = False) -> rx.SeqExpr:
        """Rewrite the body of a function or branch, or a sequence bound in a dataflow block."""
        blocks = [self.block(b) for b in seq.blocks]
        self.builder._begin(in_dataflow)
        body = self.builder.normalize_argument(self.value(seq.body))
        extra = self.builder._end_block()
        same = body is seq.body and not extra.bindings
        if same and all(a is b for a, b in zip(blocks, seq.blocks, strict=True)):
            return seq
        # All that was emitted is in normal form.
        new = rx.SeqExpr._make(tuple(flatten_blocks([*blocks, extra])), body, span=seq.span)
        new._update_struct_info(self.builder.erase_in_scope(body.struct_info))
        return new

    def emit(self, binding: rx.Binding, value: rx.Expr) -> None:
        """Emit `binding` with a new value; its variable is kept unless its struct info must
        change, in which case it is replaced from here on."""
        var = binding.var
        if type(binding) is rx.MatchCast:
            value = self.builder.normalize_argument(value)
        elif value is not binding.value or value.struct_info is None:
            value = self.builder.normalize(value)
            info = value.struct_info
            if var.struct_info is None:
                var._update_struct_info(info)
            if info is not var.struct_info and not structural_equal(info, var.struct_info):
                var = type(var)(var.vid, info, var.span)
                self.var_map[binding.var] = var
        if var is not binding.var or value is not binding.value:
            binding = binding.replace(var=var, value=value)
        self.builder.emit_normalized(binding)

    def value(self, expr: Any) -> Any:
        """Rewrite an expression; the same object if nothing changes."""
        kind = type(expr)
        if kind in rx.Var.__kinds__:
            return self.var_map.get(expr, expr)
        handler = _HANDLERS.get(kind)
        return expr if handler is None else handler(self, expr)

    def values(self, exprs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Rewrite each; the same tuple if nothing changes."""
        values = tuple([self.value(e) for e in exprs])
        return exprs if all(map(is_, values, exprs)) else values

    def _call(self, call: rx.Call) -> Any:
        op = self.value(call.op)
        args = self.values(call.args)
        if op is not call.op or args is not call.args:
            call = call.replace(op=op, args=args)
        new = self.call(call)
        return new if new is call or new.span is not None else with_span_of(new, call.span)

    def _tuple(self, node: rx.Tuple) -> Any:
        fields = self.values(node.fields)
        return node if fields is node.fields else rx.Tuple._make(fields, span=node.span)

    def _tuple_get_item(self, node: rx.TupleGetItem) -> Any:
        value = self.value(node.tuple_value)
        if value is not node.tuple_value:
            value = self.builder.normalize_argument(value)
            node = rx.TupleGetItem(value, node.index, node.span)
        return self.tuple_get_item(node)

    def _if(self, node: rx.If) -> Any:
        cond = self.value(node.cond)
        with self.builder.inner_scope():
            true = self.seq(node.true_branch)
        with self.builder.inner_scope():
            false = self.seq(node.false_branch)
        if cond is node.cond and true is node.true_branch and false is node.false_branch:
            return node
        return rx.If._make(cond, true, false, span=node.span)


def with_span_of(expr: rx.Expr, span: Span | None) -> Any:
    """`expr` with the span `span`; variables and literals are unchanged."""
    if span is None or not isinstance(expr, (rx.Call, rx.Tuple, rx.TupleGetItem)):
        return expr
    info = expr.struct_info
    moved = expr.with_span(span)
    if moved.struct_info is None:
        moved._update_struct_info(info)
    return moved


_HANDLERS: dict[type, Callable[[GraphRewriter, Any], Any]] = {
    rx.Call: GraphRewriter._call,
    rx.Tuple: GraphRewriter._tuple,
    rx.TupleGetItem: GraphRewriter._tuple_get_item,
    rx.If: GraphRewriter._if,
    rx.Function: lambda self, func: self.function(func),
    rx.SeqExpr: lambda self, seq: self.seq(seq, self.builder.current_block_is_dataflow()),
}
