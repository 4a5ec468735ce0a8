"""Visitors and mutators of graphs for users: one hook for each kind of node.

    @mutator
    class ReluToGelu(PyExprMutator):
        def visit_call_(self, call):
            if call.op.name == "relax.nn.relu":
                return relax.op.nn.gelu(call.args[0])
            return super().visit_call_(call)

Each hook may be overridden; `super().hook(...)` is the default. The built-in passes use the
leaner `functor.GraphRewriter`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

from ..base.errors import explain
from ..base.span import Span
from ..ir.expr import GlobalVar
from ..ir.module import IRModule
from ..ir.node import Node
from ..ir.op import Op
from ..ir.prim_expr import PrimExpr
from ..ir.structural import structural_equal
from ..tir.function import PrimFunc
from . import expr as rx
from . import struct_info as si
from .block_builder import BlockBuilder

_KINDS = (rx.Constant, rx.Tuple, rx.Var, rx.DataflowVar, rx.ShapeExpr, rx.ExternFunc, GlobalVar)
_KINDS += (rx.Function, rx.Call, rx.SeqExpr, rx.If, Op, rx.PrimValue, rx.StringImm, rx.DataTypeImm)
_EXPR_HOOKS: dict[type, str] = {
    **{k: f"visit_{re.sub('(?<!^)(?=[A-Z])', '_', k.__name__).lower()}_" for k in _KINDS},
    rx.TupleGetItem: "visit_tuple_getitem_",
}
_LEAVES = (
    "visit_constant_",
    "visit_global_var_",
    "visit_extern_func_",
    "visit_op_",
    "visit_string_imm_",
    "visit_data_type_imm_",
)


def _hook_name(expr: object) -> str:
    name = _EXPR_HOOKS.get(type(expr))
    if name is None:
        what = "this is not a Relax expression"
        hint = "visit a relax.Function or an expression in one; PrimFuncs have tir's visitors"
        raise TypeError(explain(what, got=type(expr).__name__, instead=hint))
    return name


class ExprFunctor:
    """Dispatches an expression to the hook of its kind; hooks have no defaults."""

    def visit_expr(self, expr: Any) -> Any:
        """Dispatch on the kind of expression."""
        return getattr(self, _hook_name(expr))(expr)

    def visit_binding(self, binding: rx.Binding) -> Any:
        """Dispatch on the kind of binding."""
        if isinstance(binding, rx.MatchCast):
            return self.visit_match_cast_(binding)
        return self.visit_var_binding_(binding)

    def visit_binding_block(self, block: rx.BindingBlock) -> Any:
        """Dispatch on the kind of block."""
        if isinstance(block, rx.DataflowBlock):
            return self.visit_dataflow_block_(block)
        return self.visit_binding_block_(block)

    def visit_var_def(self, var: rx.Var) -> Any:
        """Dispatch on the kind of variable that is defined."""
        if isinstance(var, rx.DataflowVar):
            return self.visit_dataflow_var_def_(var)
        return self.visit_var_def_(var)


def _no_default(name: str) -> Callable[[Any, Any], Any]:
    def hook(self: Any, node: Op) -> Any:
        what = f"{type(self).__name__} has no {name}"
        raise NotImplementedError(explain(what, got=type(node).__name__))

    hook.__name__ = name
    return hook


_OTHER_HOOKS = (
    "visit_var_binding_",
    "visit_match_cast_",
    "visit_binding_block_",
    "visit_dataflow_block_",
    "visit_var_def_",
    "visit_dataflow_var_def_",
)
for _name in (*_EXPR_HOOKS.values(), *_OTHER_HOOKS):
    setattr(ExprFunctor, _name, _no_default(_name))


class PyExprVisitor(ExprFunctor):
    """Walks a graph: the hook of a node visits its parts in the order of `_VISITED`. Decorate subclasses
    with `@visitor`."""

    def visit_span(self, span: Span | None) -> None:
        """Nothing."""

    def visit_prim_expr(self, expr: PrimExpr) -> None:
        """Nothing."""

    def visit_struct_info(self, info: si.StructInfo | None) -> None:
        """The expressions in a struct info: the shape of a tensor, the dimensions of a shape."""
        if isinstance(info, si.TensorStructInfo):
            if info.shape is not None:
                self.visit_expr(info.shape)
        elif isinstance(info, si.ShapeStructInfo):
            for value in info.values or ():
                self.visit_prim_expr(value)
        elif isinstance(info, si.PrimStructInfo):
            if info.value is not None:
                self.visit_prim_expr(info.value)
        elif isinstance(info, si.TupleStructInfo):
            for field in info.fields:
                self.visit_struct_info(field)


# The parts that hooks of `PyExprVisitor` visit, (method, field) in order; of several nodes, each.
_VISITED = {
    **dict.fromkeys(_LEAVES, ""),
    "visit_prim_value_": "prim_expr value",
    "visit_shape_expr_": "prim_expr values",
    "visit_tuple_": "expr fields, struct_info struct_info",
    "visit_var_": "struct_info struct_info",
    "visit_dataflow_var_": "struct_info struct_info",
    "visit_function_": "var_def params, expr body",
    "visit_call_": "expr op, struct_info sinfo_args, expr args, struct_info struct_info",
    "visit_seq_expr_": "binding_block blocks, expr body, struct_info struct_info",
    "visit_if_": "expr cond, expr true_branch, expr false_branch, struct_info struct_info",
    "visit_tuple_getitem_": "expr tuple_value, struct_info struct_info",
    "visit_var_binding_": "expr value, var_def var",
    "visit_match_cast_": "expr value, struct_info struct_info, var_def var",
    "visit_binding_block_": "binding bindings",
    "visit_dataflow_block_": "binding bindings",
    "visit_var_def_": "span span",
    "visit_dataflow_var_def_": "span span",
}


def _visiting(name: str, parts: str) -> Callable[[Any, Any], None]:
    steps = [part.split() for part in parts.split(", ") if part]

    def hook(self: Any, node: Node) -> None:
        for kind, field in steps:
            visit, value = getattr(self, f"visit_{kind}"), getattr(node, field)
            for item in value if isinstance(value, tuple) else (value,):
                visit(item)

    hook.__name__, hook.__qualname__ = name, f"PyExprVisitor.{name}"
    fields = ", ".join(field for _, field in steps)
    hook.__doc__ = f"Visits {fields or 'nothing inside'}."
    return hook


for _name, _parts in _VISITED.items():
    setattr(PyExprVisitor, _name, _visiting(_name, _parts))


def _changed(new: Sequence[Node], old: Sequence[Node]) -> bool:
    return len(new) != len(old) or not all(map(is_, new, old))


class PyExprMutator(ExprFunctor):
    """Rebuilds a graph through `builder_`. Decorate subclasses with `@mutator`.

    The result of `visit_expr` is normalized: a hook may return nested calls. A subexpression in
    which nothing changes is returned as the same object. Bindings keep their variables' names.
    """

    builder_: BlockBuilder

    def __init__(self, mod: IRModule | None = None) -> None:
        self.builder_ = BlockBuilder(mod)
        self._var_remap: dict[rx.Id, rx.Var] = {}

    def __getattr__(self, name: str) -> Any:
        # Also works for a subclass whose __init__ does not call super().__init__.
        if name in ("builder_", "_var_remap"):
            PyExprMutator.__init__(self)
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # ------------------------------------------------------------------ entry points

    def visit_expr(self, expr: Node) -> Any:
        """Rewrite an expression and bring the result into normal form."""
        if isinstance(expr, PrimFunc):
            return expr
        return self.builder_.normalize(getattr(self, _hook_name(expr))(expr))

    def visit_expr_post_order(self, expr: rx.Call) -> Any:
        """Rewrite the subexpressions of `expr`; for hooks that then inspect the result."""
        return self.builder_.normalize(getattr(PyExprMutator, _hook_name(expr))(self, expr))

    def visit_with_new_scope(self, expr: rx.SeqExpr, params: list[Any] | None = None) -> Any:
        """Rewrite a body in which only `params` define symbolic variables."""
        with self.builder_.scope(params):
            return self.visit_expr(expr)

    def visit_with_inner_scope(self, expr: rx.SeqExpr) -> Any:
        """Rewrite a branch, in which the enclosing definitions are visible."""
        with self.builder_.inner_scope():
            return self.visit_expr(expr)

    def lookup_binding(self, var: rx.Var) -> Any:
        """The value bound to `var`, or None."""
        return self.builder_.lookup_binding(var)

    def set_var_remap(self, vid: rx.Id, var: rx.Var) -> None:
        """From here on the variable of identity `vid` becomes `var`."""
        self._var_remap[vid] = var

    def get_var_remap(self, vid: rx.Id) -> rx.Var:
        """The replacement of the variable of identity `vid`. Raises KeyError if it has none."""
        return self._var_remap[vid]

    def with_struct_info(self, var: rx.Var, struct_info: si.StructInfo) -> rx.Var:
        """`var` with another struct info: itself if it already has it, else a copy."""
        old = var.struct_info
        if old is struct_info or (old is not None and structural_equal(old, struct_info)):
            return var
        if old is None:
            var._update_struct_info(struct_info)
            return var
        return type(var)(var.vid, struct_info, var.span)

    # ------------------------------------------------------------------ expressions

    def visit_var_(self, op: rx.Var) -> Any:
        """Its replacement, else itself."""
        return self._var_remap.get(op.vid, op) if self._var_remap else op

    visit_dataflow_var_ = visit_var_

    def visit_prim_value_(self, op: rx.PrimValue) -> Any:
        """With its scalar expression rewritten."""
        value = self.visit_prim_expr(op.value)
        return op if value is op.value else rx.PrimValue(value, op.span)

    def visit_shape_expr_(self, op: rx.ShapeExpr) -> Any:
        """With its dimensions rewritten."""
        values = [self.visit_prim_expr(v) for v in op.values]
        return rx.ShapeExpr(values, op.span) if _changed(values, op.values) else op

    def visit_tuple_(self, op: rx.Tuple) -> Any:
        """With its fields rewritten."""
        fields = [self.visit_expr(f) for f in op.fields]
        return rx.Tuple(fields, op.span) if _changed(fields, op.fields) else op

    def visit_tuple_getitem_(self, op: rx.TupleGetItem) -> Any:
        """With its tuple rewritten."""
        value = self.visit_expr(op.tuple_value)
        return op if value is op.tuple_value else rx.TupleGetItem(value, op.index, op.span)

    def visit_call_(self, op: rx.Call) -> Any:
        """With callee, `sinfo_args` and arguments rewritten."""
        callee = self.visit_expr(op.op)
        infos = [self.visit_struct_info(i) for i in op.sinfo_args]
        args = [self.visit_expr(a) for a in op.args]
        same = callee is op.op and not _changed(infos, op.sinfo_args)
        if same and not _changed(args, op.args):
            if self.visit_struct_info(op.struct_info) is op.struct_info:
                return op
        return rx.Call(callee, args, op.attrs, infos, op.span)

    def visit_if_(self, op: rx.If) -> Any:
        """With condition and branches rewritten."""
        cond = self.visit_expr(op.cond)
        true = self.visit_with_inner_scope(op.true_branch)
        false = self.visit_with_inner_scope(op.false_branch)
        if cond is op.cond and true is op.true_branch and false is op.false_branch:
            return op
        return rx.If(cond, true, false, op.span)

    def visit_seq_expr_(self, op: rx.SeqExpr) -> Any:
        """With blocks and result rewritten; bindings that the result needs are appended."""
        blocks = [self.visit_binding_block(b) for b in op.blocks]
        same = not _changed(blocks, op.blocks)
        self.builder_._begin_binding_block()
        body = self.visit_expr(op.body)
        extra = self.builder_._end_block()
        if same and body is op.body and not extra.bindings:
            return op
        return rx.SeqExpr([b for b in (*blocks, extra) if b.bindings], body, op.span)

    def visit_function_(self, op: rx.Function) -> Any:
        """With parameters and body rewritten. The declared result is kept if the new body's is
        wider, else it is inferred again."""
        params = []
        for param in op.params:
            new = self.visit_var_def(param)
            if new is not param:
                self.set_var_remap(param.vid, new)
            params.append(new)
        body = self.visit_with_new_scope(op.body, params)
        if body is op.body and not _changed(params, op.params):
            return op
        declared = op.ret_struct_info
        keep = declared is not None and body.struct_info.is_base_of(declared)
        ret = declared if keep else None
        return rx.Function(params, body, ret, op.is_pure, op.attrs, op.span)

    # ------------------------------------------------------------------ bindings

    def visit_var_binding_(self, binding: rx.VarBinding) -> None:
        """Rewrite the value, then the variable; emit the binding."""
        previous, self.builder_.span = self.builder_.span, binding.span
        value = self.visit_expr(binding.value)
        var = self.visit_var_def(binding.var)
        if value is not binding.value:
            if value.struct_info is None:
                what = f"the new value of {binding.var.name_hint} has no struct info"
                raise ValueError(explain(what, got=str(value), span=binding.span))
            var = self.with_struct_info(var, value.struct_info)
        if var is not binding.var:
            self.set_var_remap(binding.var.vid, var)
        self.builder_.emit_normalized(binding.replace(var=var, value=value))
        self.builder_.span = previous

    def visit_match_cast_(self, binding: rx.MatchCast) -> None:
        """Rewrite the variable, the value, the struct info; emit the binding."""
        previous, self.builder_.span = self.builder_.span, binding.span
        var = self.visit_var_def(binding.var)
        value = self.builder_.normalize_argument(self.visit_expr(binding.value))
        info = self.visit_struct_info(binding.struct_info)
        if info is not binding.struct_info:
            var = self.with_struct_info(var, info)
        if var is not binding.var:
            self.set_var_remap(binding.var.vid, var)
        self.builder_.emit_normalized(binding.replace(var=var, value=value, struct_info=info))
        self.builder_.span = previous

    def visit_binding_block_(self, block: rx.BindingBlock) -> rx.BindingBlock:
        """Rewrite the bindings into a new block."""
        self.builder_._begin_binding_block()
        return self._rebuild_block(block)

    def visit_dataflow_block_(self, block: rx.DataflowBlock) -> rx.BindingBlock:
        """Rewrite the bindings into a new dataflow block."""
        self.builder_._begin_dataflow_block()
        return self._rebuild_block(block)

    def _rebuild_block(self, block: rx.BindingBlock) -> rx.BindingBlock:
        for binding in block.bindings:
            self.visit_binding(binding)
        new = self.builder_._end_block()
        same = len(new.bindings) == len(block.bindings)
        if same and not _changed(new.bindings, block.bindings):
            return block
        return new.with_span(block.span)

    def visit_var_def_(self, var: rx.Var) -> rx.Var:
        """The variable, with its struct info rewritten."""
        info = self.visit_struct_info(var.struct_info)
        return var if info is var.struct_info else type(var)(var.vid, info, var.span)

    visit_dataflow_var_def_ = visit_var_def_

    # ------------------------------------------------------------------ below expressions

    def visit_span(self, span: Span) -> Any:
        """Itself."""
        return span

    def visit_prim_expr(self, expr: PrimExpr) -> Any:
        """A scalar expression in a shape: itself."""
        return expr

    def visit_struct_info(self, info: si.StructInfo | None) -> Any:
        """A struct info with the expressions in it rewritten."""
        if isinstance(info, si.TensorStructInfo) and info.shape is not None:
            shape = self.visit_expr(info.shape)
            if shape is info.shape:
                return info
            return si.TensorStructInfo(shape, info.dtype, info.vdevice, span=info.span)
        if isinstance(info, si.ShapeStructInfo) and info.values is not None:
            values = [self.visit_prim_expr(v) for v in info.values]
            return si.ShapeStructInfo(values) if _changed(values, info.values) else info
        if isinstance(info, si.PrimStructInfo) and info.value is not None:
            value = self.visit_prim_expr(info.value)
            return info if value is info.value else si.PrimStructInfo(info.dtype, value)
        if isinstance(info, si.TupleStructInfo):
            fields = [self.visit_struct_info(f) for f in info.fields]
            return si.TupleStructInfo(fields) if _changed(fields, info.fields) else info
        if isinstance(info, si.FuncStructInfo) and info.params is not None:
            parts = [self.visit_struct_info(p) for p in (*info.params, info.ret)]
            if not _changed(parts, (*info.params, info.ret)):
                return info
            return si.FuncStructInfo(parts[:-1], parts[-1], info.purity, info.derive_func)
        return info


def _itself(self: PyExprMutator, op: Node) -> Node:
    """Itself: there is nothing inside."""
    return op


for _name in _LEAVES:
    setattr(PyExprMutator, _name, _itself)


def _decorate(cls: type, base: type) -> type:
    if not issubclass(cls, base):
        what = f"@{base.__name__.removeprefix('PyExpr').lower()} decorates a subclass of it"
        raise TypeError(explain(what, got=cls.__name__, instead=f"inherit from {base.__name__}"))

    def refuse(sub: type, **_: Any) -> None:
        raise TypeError(
            f"Inheritance from a decorated object `{cls.__name__}` is not allowed. "
            f"Please inherit from `{cls.__name__}._cls`."
        )

    names = {
        "_cls": cls,
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    decorated = type(cls)(cls.__name__, (cls,), names)
    decorated.__init_subclass__ = classmethod(refuse)
    return decorated


def visitor(visitor_cls: type) -> type:
    """Class decorator for subclasses of `PyExprVisitor`. `X._cls` is the undecorated class, which
    others can inherit from."""
    return _decorate(visitor_cls, PyExprVisitor)


def mutator(mutator_cls: type) -> type:
    """Class decorator for subclasses of `PyExprMutator`. `X._cls` is the undecorated class, which
    others can inherit from."""
    return _decorate(mutator_cls, PyExprMutator)
