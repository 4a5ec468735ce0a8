"""Queries shared by graph passes: used variables, purity, kernel calls, reachable functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...ir.expr import BaseExpr, GlobalVar, RelaxExpr
from ...ir.module import IRModule, VDevice
from ...ir.op import Op
from ...tir.function import PrimFunc
from .. import expr as rx
from ..analysis.variables import is_impure_call, overwritten
from ..op.base import CALL_TIR, CALL_TIR_INPLACE, CALL_TIR_WITH_GRAD
from ..struct_info import StructInfo, TensorStructInfo, TupleStructInfo

TIR_CALLS = (CALL_TIR, CALL_TIR_INPLACE, CALL_TIR_WITH_GRAD)


def _parts(node: Any) -> tuple[Any, ...]:
    """The parts of an expression, in the order of their evaluation."""
    kind = type(node)
    if kind is rx.Call:
        return (node.op, *node.args)
    if kind is rx.Tuple:
        return node.fields
    if kind is rx.TupleGetItem:
        return (node.tuple_value,)
    if kind is rx.If:
        return (node.cond, node.true_branch, node.false_branch)
    if kind is rx.SeqExpr:
        return (*(b.value for block in node.blocks for b in block.bindings), node.body)
    return (node.body,) if kind is rx.Function else ()


def used_vars(expr: Any) -> Iterator[rx.Var]:
    """The variables that an expression mentions, including those in declared struct infos.
    Variables defined inside (in a branch, in a local function) are included."""
    stack = [expr]
    while stack:
        node = stack.pop()
        if type(node) in rx.Var.__kinds__:
            yield node
            continue
        if type(node) is rx.Call:
            for info in node.sinfo_args:
                yield from shape_vars(info)
        elif type(node) is rx.SeqExpr:
            for block in node.blocks:
                for binding in block.bindings:
                    if isinstance(binding, rx.MatchCast):
                        yield from shape_vars(binding.struct_info)
        stack.extend(reversed(_parts(node)))


def shape_vars(info: StructInfo | None) -> Iterator[rx.Var]:
    """The graph variables that represent shapes in a struct info."""
    if isinstance(info, TensorStructInfo):
        if isinstance(info.shape, rx.Var):
            yield info.shape
    elif isinstance(info, TupleStructInfo):
        for field in info.fields:
            yield from shape_vars(field)


def is_pure(expr: rx.Expr) -> bool:
    """Whether evaluating a bound expression has no effect. An in-place call has one, even in a
    function that counts as pure."""
    if isinstance(expr, rx.Call):
        return not (is_impure_call(expr) or overwritten(expr))
    if isinstance(expr, rx.If):
        return is_pure(expr.true_branch) and is_pure(expr.false_branch)
    if isinstance(expr, rx.SeqExpr):
        return all(is_pure(b.value) for block in expr.blocks for b in block.bindings)
    return True


def is_outlined(func: rx.Function) -> bool:
    """Whether a function is one that a pass outlined: fused calls, a match of a pattern, a region of
    a back end. Passes leave its body unchanged."""
    return any(func.attrs.get(a) for a in ("Primitive", "Composite", "Codegen"))


def is_tir_call(expr: BaseExpr | None) -> bool:
    """Whether this is call_tir or one of its variants."""
    return type(expr) is rx.Call and expr.op in TIR_CALLS


def call_fields(call: rx.Call) -> tuple[Any, ...]:
    """The arguments of a call_tir."""
    args = call.args[1]
    return args.fields if isinstance(args, rx.Tuple) else (args,)


def expressions(expr: RelaxExpr) -> Iterator[Any]:
    """An expression and all that it consists of, in order of appearance."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(_parts(node)))


def called_functions(func: rx.Function | PrimFunc) -> Iterator[GlobalVar]:
    """The global variables in a graph function, in order of appearance."""
    return (node for node in expressions(func) if type(node) is GlobalVar)


def bindings_of(func: rx.Function) -> Iterator[rx.Binding]:
    """The bindings of a function's own blocks (not of branches) in order."""
    for block in func.body.blocks:
        yield from block.bindings


def functions_of(mod: IRModule) -> list[tuple[GlobalVar, rx.Function]]:
    """The graph functions of a module."""
    return [(g, f) for g, f in mod.functions.items() if isinstance(f, rx.Function)]


def is_private(func: rx.Function | PrimFunc) -> bool:
    """Whether all calls of a function are in its module."""
    return "global_symbol" not in func.attrs


def tensor_fields(info: StructInfo) -> list[StructInfo]:
    """A struct info's fields, with nested tuples flattened."""
    if isinstance(info, TupleStructInfo):
        return [leaf for field in info.fields for leaf in tensor_fields(field)]
    return [info]


def device_of(args: tuple[Any, ...]) -> VDevice | None:
    """The virtual device of the first argument that has one."""
    for arg in args:
        info: StructInfo | None = arg.struct_info
        for leaf in tensor_fields(info) if info is not None else ():
            if isinstance(leaf, TensorStructInfo) and leaf.vdevice is not None:
                return leaf.vdevice
    return None


def shape_known(info: StructInfo | None) -> bool:
    """Whether every tensor in a struct info has known (perhaps symbolic) dimensions."""
    if isinstance(info, TensorStructInfo):
        return isinstance(info.shape, rx.ShapeExpr)
    if isinstance(info, TupleStructInfo):
        return all(shape_known(f) for f in info.fields)
    return True


def replace_vars(expr: Any, table: dict[rx.Var, Any]) -> Any:
    """A bound expression with variables replaced by others of the same struct info; struct
    infos of subexpressions are kept. The same object if nothing changes."""
    kind = type(expr)
    if kind is rx.Call:
        op = expr.op if isinstance(expr.op, Op) else replace_vars(expr.op, table)
        args = _replaced(expr.args, table)
        if op is expr.op and args is expr.args:
            return expr
        new = rx.Call._make(op, args, expr.attrs, expr.sinfo_args, span=expr.span)
    elif kind is rx.Tuple:
        fields = _replaced(expr.fields, table)
        if fields is expr.fields:
            return expr
        new = rx.Tuple._make(fields, span=expr.span)
    elif kind is rx.TupleGetItem:
        value = replace_vars(expr.tuple_value, table)
        if value is expr.tuple_value:
            return expr
        new = rx.TupleGetItem._make(value, expr.index, span=expr.span)
    else:
        return table.get(expr, expr) if isinstance(expr, rx.Var) else expr
    new._update_struct_info(expr.struct_info)
    return new


def _replaced(exprs: tuple[Any, ...], table: dict[rx.Var, Any]) -> tuple[Any, ...]:
    new = tuple(replace_vars(e, table) for e in exprs)
    return exprs if all(a is b for a, b in zip(new, exprs, strict=True)) else new


class BodyRewriter:
    """Rebuilds the blocks of a function from lists of bindings, including branches and local
    functions.

    Override `block(bindings)`, which returns the new bindings; variables in `table` are replaced
    from there on. For passes that keep values and only add, drop or rename bindings.
    """

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.table: dict[rx.Var, Any] = {}

    def block(self, block: Any, live_out: dict[rx.Var, None]) -> Any:
        """The new block. `live_out`: the variables used after it, in that order."""
        return block

    def function(self, func: rx.Function) -> rx.Function:
        """Rewrite a function."""
        body = self.seq(func.body)
        return func if body is func.body else func.replace(body=body)

    def seq(self, seq: rx.SeqExpr) -> rx.SeqExpr:
        """Rewrite a body."""
        blocks = []
        for n, block in enumerate(seq.blocks):
            later = [b.value for after in seq.blocks[n + 1 :] for b in after.bindings]
            behind = dict.fromkeys(v for value in (*later, seq.body) for v in used_vars(value))
            blocks.append(self.block(block, behind))
        body = replace_vars(seq.body, self.table)
        if body is seq.body and all(a is b for a, b in zip(blocks, seq.blocks, strict=True)):
            return seq
        new = rx.SeqExpr._make(tuple(merge_blocks(blocks)), body, span=seq.span)
        new._update_struct_info(seq.struct_info)
        return new

    def value(self, value: rx.Expr) -> Any:
        """A bound value with its variables replaced and nested functions and branches rewritten."""
        if isinstance(value, rx.If):
            cond = replace_vars(value.cond, self.table)
            true, false = self.seq(value.true_branch), self.seq(value.false_branch)
            new: Any = value.replace(cond=cond, true_branch=true, false_branch=false)
        elif isinstance(value, rx.Function):
            return self.function(value)
        elif isinstance(value, rx.SeqExpr):
            return self.seq(value)
        else:
            return replace_vars(value, self.table)
        if new is not value:
            new._update_struct_info(value.struct_info)
        return new


def merge_blocks(blocks: Iterable[Any]) -> list[Any]:
    """Blocks without empty ones, adjacent ones of one kind merged."""
    merged: list[Any] = []
    for block in blocks:
        if not block.bindings:
            continue
        if merged and type(merged[-1]) is type(block):
            merged[-1] = type(block)((*merged[-1].bindings, *block.bindings), span=merged[-1].span)
        else:
            merged.append(block)
    return merged
