"""A match of a back end's pattern: a composite function, and the operator that replaces it while
it is legalized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.registry import registering
from ...ir.op import Op, register_op
from ..analysis import tir_vars_in_struct_info
from ..block_builder import BlockBuilder
from ..expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from ..functor import GraphRewriter
from ..specialize import bind_params


def composite_inputs(func: Function) -> list[Var | Constant]:
    """The inputs of a composite: its parameters and the constants in it, in the order in which
    its operators use them first. The arguments of its operator correspond to them."""
    inputs: dict[Any, None] = {}

    def visit(value: Expr) -> None:
        if isinstance(value, Constant) or value in func.params:
            inputs.setdefault(value)
        elif isinstance(value, TupleGetItem):
            visit(value.tuple_value)
        elif isinstance(value, (Call, Tuple)):
            for part in value.args if isinstance(value, Call) else value.fields:
                visit(part)

    for block in func.body.blocks:
        for binding in block.bindings:
            visit(binding.value)
    return [*inputs, *(p for p in func.params if p not in inputs)]


def composite_op(name: str) -> Op:
    """The operator that represents a composite during legalization."""
    op = register_op(name)
    if op.get_attr("FInferStructInfo") is None:
        with registering(__name__):
            op.set_attr("FInferStructInfo", lambda call, bb: call.sinfo_args[0])
            op.set_attr("FPurity", True)
            op.set_attr("FLegalize", as_its_body, 0)
    return op


def as_its_body(builder: BlockBuilder, call: Call) -> Any:
    """The fallback rule of a composite, if no rule of the back end applies: its body."""
    work = GraphRewriter(None)
    work.builder = builder
    func = call.attrs["composite"]
    arg_of = dict(zip(composite_inputs(func), call.args, strict=True))
    return inlined(work, func, [arg_of[p] for p in func.params])


def attributes_of(func: Function) -> dict[str, Any]:
    """The attributes of the operators in a composite, by name; the first occurrence wins."""
    attributes: dict[str, Any] = {}
    for block in func.body.blocks:
        for binding in block.bindings:
            attrs = getattr(binding.value, "attrs", None)
            for key, value in attrs.items() if attrs is not None else ():
                attributes.setdefault(key, value)
    return attributes


def inlined(work: GraphRewriter, func: Function, args: Sequence[Any]) -> Any:
    """Emit the bindings of a function for these arguments, except the last; return its value."""
    inner = GraphRewriter(work.mod)
    inner.builder = work.builder
    arg_of = dict(zip(func.params, map(work.builder.normalize_argument, args), strict=True))
    if any(tir_vars_in_struct_info(p.struct_info) for p in func.params):
        func = bind_params(func, arg_of)  # also replaces symbolic variables
    inner.var_map = dict(arg_of)
    for binding in (b for block in func.body.blocks for b in block.bindings):
        value = inner.value(binding.value)
        if binding.var is func.body.body:
            return value  # the caller binds its own variable to it
        inner.var_map[binding.var] = work.builder.emit(value, binding.var.name_hint)
    return inner.value(func.body.body)
