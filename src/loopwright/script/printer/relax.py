"""Texts of graph expressions, bindings and functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.expr import DictAttrs, GlobalVar
from ...ir.functor import post_order_visit
from ...ir.node import Node
from ...ir.op import Op
from ...ir.structural import structural_equal
from ...relax import expr as rx
from ...relax.struct_info import FuncStructInfo, StructInfo, TupleStructInfo
from ...runtime.tensor import Tensor
from .core import RELAX, Printer, call_of, call_text, dtype_text, expr_of, mode_of, stmt_of
from .doc import GAP, Nest, number, quote
from .naming import Frame
from .relax_info import device_name

mode_of(rx.Expr, RELAX)
mode_of(rx.Binding, RELAX)
mode_of(rx.BindingBlock, RELAX)

_DPS = {
    "relax.call_tir",
    "relax.call_tir_inplace",
    "relax.call_tir_with_grad",
    "relax.call_dps_packed",
}
# Bindings of these need no annotation: the call has the struct info of its result.
_SAYS_OUTPUT = {"relax.call_tir", "relax.call_dps_packed"}


# ---------------------------------------------------------------------- leaves


@expr_of(rx.Var)
def _var(p: Printer, node: rx.Var) -> str:
    text = p.names.texts.get(id(node))
    if text is None:  # free: declared in the scope being printed
        frame = p.frames[-1]
        info = "" if node.struct_info is None else f": {p.expr(node.struct_info)}"
        text = _define(p, node, frame)
        own = frame.func_vars is not None and any(node is v for v in frame.node.params)
        if info and not own:  # a parameter that the result's struct info mentions is declared by it
            frame.stmts.append(f"{text}{info}")
    return text


def _define(p: Printer, node: rx.Var, frame: Frame) -> str:
    return p.define(node, node.name_hint or "v", frame)


@expr_of(GlobalVar)
def _global_var(p: Printer, gvar: GlobalVar) -> str:
    """A function of the module, through the module's alias where it has one."""
    if p.module is None or gvar not in p.module.functions:
        return (
            gvar.name_hint if p.mode == RELAX else f"{p.ir('GlobalVar')}({quote(gvar.name_hint)})"
        )
    alias = p.config.module_alias
    outer = next((f for f in p.frames if f.is_func and f.mode == RELAX), None)
    if not alias or outer is None:
        return f"{p.module_name}.{gvar.name_hint}"
    if not outer.alias_used:
        outer.alias_used = True
        outer.stmts.append(f"{alias} = {p.module_name}")
    return f"{alias}.{gvar.name_hint}"


@expr_of(rx.Constant)
def _constant(p: Printer, node: rx.Constant) -> str:
    data = node.data
    if data.ndim == 0:
        text = _scalar(data)
        if text is not None:
            return f"{p.relax('const')}({text}, {dtype_text(data.dtype)})"
    return p.meta("relax.expr.Constant", node)


def _scalar(data: Tensor) -> str | None:
    value = np.asarray(data.view())
    if value.dtype.kind in "biu":
        return str(value.item())
    return number(float(value)) if value.dtype.kind in "fV" else None


call_of(rx.ShapeExpr, "relax.shape", lambda p, node: f"[{p.exprs(node.values)}]")
call_of(rx.PrimValue, "relax.prim_value", lambda p, node: p.expr(node.value))
call_of(rx.StringImm, "relax.str", lambda p, node: quote(node.value))
call_of(rx.DataTypeImm, "relax.dtype", lambda p, node: dtype_text(node.value))


def _is_typed(node: rx.ExternFunc) -> bool:
    """Whether more is known of an external function than that it is one."""
    info = node.struct_info
    if not isinstance(info, FuncStructInfo):
        return False
    return info.params is not None or info.purity or isinstance(info.derive_func, str)


@expr_of(rx.ExternFunc)
def _extern(p: Printer, node: rx.ExternFunc) -> str:
    args = [quote(node.global_symbol)]
    if _is_typed(node):
        args.append(p.expr(node.struct_info))
    return call_text(p.relax("ExternFunc"), args)


expr_of(rx.Tuple)(lambda p, node: p.tuple(node.fields) if node.fields else f"{p.relax('tuple')}()")


expr_of(rx.TupleGetItem)(lambda p, node: f"{p.expr(node.tuple_value)}[{node.index}]")


# ---------------------------------------------------------------------- calls


@expr_of(rx.Call)
def _call(p: Printer, node: rx.Call) -> str:
    op = node.op
    if not isinstance(op, Op):
        return _call_function(p, node)
    hook = op.get_attr("FPrinter")
    text = hook(node, p) if hook is not None else None
    if text is not None:
        return text
    special = _SPECIAL.get(op.name)
    if special is not None:
        return special(p, node)
    name = op.get_attr("printer_name") or op.name
    own = name.startswith("relax.") or op.get_attr("definition") is not None
    callee = p.relax(name.removeprefix("relax.")) if own else name
    args = [_callee(p, a) if i == 0 else p.expr(a) for i, a in enumerate(node.args)]
    return call_text(callee, args, _keywords(p, node))


def _call_function(p: Printer, node: rx.Call) -> str:
    args = [p.expr(a) for a in node.args]
    keywords: dict[str, str] = {}
    if isinstance(node.op, rx.ExternFunc) and not _is_typed(node.op):
        callee = p.relax("call_packed")
        args.insert(0, quote(node.op.global_symbol))
        if node.attrs is not None and not isinstance(node.attrs, DictAttrs):
            keywords["attrs_type_key"] = quote(node.attrs.key)
    else:
        callee = p.expr(node.op)
    return call_text(callee, args, {**keywords, **_keywords(p, node)})


def _keywords(p: Printer, node: rx.Call) -> dict[str, str]:
    """Attributes in order of declaration, then the struct infos of the result."""
    keywords: dict[str, str] = {}
    if node.attrs is not None:
        for key, value in node.attrs.items():
            keywords[key] = p.value(value)
    if node.sinfo_args:
        keywords["sinfo_args"] = p.tuple(node.sinfo_args)
    return keywords


def _callee(p: Printer, node: GlobalVar | rx.Expr) -> str:
    """A function as an argument; an external one as its name."""
    return quote(node.global_symbol) if isinstance(node, rx.ExternFunc) else p.expr(node)


def _call_dps(p: Printer, node: rx.Call) -> str:
    args = [_callee(p, node.args[0]), p.expr(node.args[1])]
    keywords: dict[str, str] = {}
    if node.sinfo_args:
        out = node.sinfo_args[0]
        several = isinstance(out, TupleStructInfo) and len(out.fields) != 1
        keywords["out_sinfo"] = f"[{p.exprs(out.fields)}]" if several else p.expr(out)
    if node.attrs is not None:
        for key in ("inplace_indices", "te_grad_name", "te_grad_kwargs"):
            value = node.attrs.get(key)
            if value is not None and (value or key != "te_grad_kwargs"):
                keywords[key] = p.value(value)
    if len(node.args) > 2:
        keywords["tir_vars"] = p.expr(node.args[2])
    return call_text(p.relax(node.op.name.removeprefix("relax.")), args, keywords)


def _assert_op(p: Printer, node: rx.Call) -> str:
    """The format precedes the values it formats, and prints after them."""
    args = [p.expr(a) for a in (node.args[0], *node.args[2:])]
    return call_text(p.relax("assert_op"), args, {"format": p.expr(node.args[1])})


def _print(p: Printer, node: rx.Call) -> str:
    args = [p.expr(a) for a in node.args[1:]]
    return call_text(p.relax("print"), args, {"format": p.expr(node.args[0])})


def _to_vdevice(p: Printer, node: rx.Call) -> str:
    device = node.attrs["dst_vdevice"]
    keywords = {"dst_vdevice": quote(device_name(p, device))}
    return call_text(p.relax("to_vdevice"), [p.expr(node.args[0])], keywords)


def _hint_on_device(p: Printer, node: rx.Call) -> str:
    attrs: Any = node.attrs
    device = call_text(p.relax("device"), [str(attrs.device_type), str(attrs.index)])
    scope = {} if attrs.memory_scope == "global" else {"memory_scope": quote(attrs.memory_scope)}
    return call_text(p.relax("hint_on_device"), [p.expr(node.args[0]), device], scope)


_SPECIAL = {
    **dict.fromkeys(_DPS, _call_dps),
    "relax.assert_op": _assert_op,
    "relax.print": _print,
    "relax.to_vdevice": _to_vdevice,
    "relax.hint_on_device": _hint_on_device,
}


# ---------------------------------------------------------------------- bindings


def _annotation(p: Printer, var: rx.Var, value: rx.Expr) -> str:
    """`: R.Tensor(...)`, or nothing where it follows from the value and need not be said."""
    info = var.struct_info
    if info is None:
        return ""
    by_call = isinstance(value, rx.Call) and getattr(value.op, "name", None) in _SAYS_OUTPUT
    if by_call or not p.config.show_all_struct_info:
        inferred = getattr(value, "struct_info", None)
        if by_call and value.sinfo_args:
            inferred = value.sinfo_args[0]
        if inferred is not None and structural_equal(inferred, info):
            return ""
    return f": {p.expr(info)}"


def _is_void(info: StructInfo | None) -> bool:
    return isinstance(info, TupleStructInfo) and not info.fields


@stmt_of(rx.VarBinding)
def _var_binding(p: Printer, node: rx.VarBinding, out: list) -> None:
    value, frame = node.value, p.frames[-1]
    if isinstance(value, rx.If):
        note = _annotation(p, node.var, value)
        name = _define(p, node.var, frame)
        _if_text(p, value, out, f"{name}{note}")
    elif isinstance(value, rx.Function):
        name = _define(p, node.var, frame)
        p.config.binding_names.append(name)
        p.stmt(value, out)
        p.config.binding_names.pop()
    elif p.sugar and _is_void(node.var.struct_info) and _may_drop(p, node):
        out.append(p.expr(value))
    else:
        text = _assigned(p, value, p.expr(value))
        note = _annotation(p, node.var, value)
        out.append(f"{_define(p, node.var, frame)}{note} = {text}")


def _assigned(p: Printer, value: rx.Expr, text: str) -> str:
    """A tuple is written without parentheses on the right of an assignment."""
    if isinstance(value, rx.Tuple) and len(value.fields) > 1 and p.plain:
        return text[1:-1]
    return text


def _may_drop(p: Printer, node: rx.VarBinding) -> bool:
    """Whether a void binding is a call whose result is unused."""
    if not isinstance(node.value, (rx.Call, rx.Tuple)):
        return False
    if p.mentioned is None:
        p.mentioned = _mentioned(p.root)
    return id(node.var) not in p.mentioned


def _mentioned(root: Any) -> set[int]:
    """The variables (by id) that are used, not only bound."""
    mentioned: set[int] = set()

    def look(node: Node) -> None:
        if isinstance(node, rx.MatchCast):
            mentioned.add(id(node.value))
        elif not isinstance(node, (rx.Function, rx.VarBinding)):
            mentioned.update(id(c) for c in node.children() if isinstance(c, rx.Var))
        elif isinstance(node, rx.VarBinding):
            mentioned.add(id(node.value))

    post_order_visit(root, look)
    return mentioned


@stmt_of(rx.MatchCast)
def _match_cast(p: Printer, node: rx.MatchCast, out: list) -> None:
    note = ""
    if p.config.show_all_struct_info:
        note = _annotation(p, node.var, node.value)
    text = f"{p.relax('match_cast')}({p.expr(node.value)}, {p.expr(node.struct_info)})"
    out.append(f"{_define(p, node.var, p.frames[-1])}{note} = {text}")


@stmt_of(rx.BindingBlock)
def _binding_block(p: Printer, node: rx.BindingBlock, out: list) -> None:
    for binding in node.bindings:
        p.stmt(binding, out)


@stmt_of(rx.DataflowBlock)
def _dataflow_block(p: Printer, node: rx.DataflowBlock, out: list) -> None:
    body: list = []
    for binding in node.bindings:
        p.stmt(binding, body)
    seen = [b.var for b in node.bindings if not isinstance(b.var, rx.DataflowVar)]
    outputs = [text for v in seen if (text := p.names.get(v)) is not None]
    body.append(f"{p.relax('output')}({', '.join(outputs)})")
    out.append(Nest([f"with {p.relax('dataflow')}():"], body))


def _seq_body(p: Printer, node: rx.SeqExpr, frame: Frame) -> str:
    """Print the blocks; returns the text of the result."""
    for block in node.blocks:
        stmts: list = []
        p.stmt(block, stmts)  # free variables are declared before their block
        frame.stmts.extend(stmts)
    return p.expr(node.body)


@stmt_of(rx.SeqExpr)
def _seq(p: Printer, node: rx.SeqExpr, out: list) -> None:
    with p.frame(node, RELAX) as frame:
        frame.stmts.append(str(_seq_body(p, node, frame)))
    out.extend(frame.stmts)


@stmt_of(rx.If)
def _if(p: Printer, node: rx.If, out: list) -> None:
    _if_text(p, node, out, "")


def _if_text(p: Printer, node: rx.If, out: list, target: str) -> None:
    condition = p.expr(node.cond)
    for head, branch in ((f"if {condition}:", node.true_branch), ("else:", node.false_branch)):
        with p.frame(branch, RELAX) as frame:
            result = _seq_body(p, branch, frame)
            if target:
                result = f"{target} = {_assigned(p, branch.body, result)}"
            frame.stmts.append(str(result))
        out.append(Nest([head], frame.stmts))


# ---------------------------------------------------------------------- functions


@stmt_of(rx.Function)
def _function(p: Printer, func: rx.Function, out: list) -> None:
    top = not any(f.is_func for f in p.frames)
    name = p.function_name(func)
    with p.frame(func, RELAX, is_func=True) as frame:
        frame.func_vars = set()
        returns = ""
        if func.ret_struct_info is not None:
            returns = f" -> {p.expr(func.ret_struct_info)}"
        params = [_param(p, v, frame) for v in func.params]
        frame.func_vars = None
        attrs = dict(func.attrs.items())
        if top and attrs.get("global_symbol") == name:
            del attrs["global_symbol"]
        if attrs:
            frame.stmts.append(f"{p.relax('func_attr')}({p.mapping(attrs)})")
        with p.frame(func.body, RELAX) as inner:
            result = _seq_body(p, func.body, inner)
            inner.stmts.append(f"return {result}")
        frame.stmts.extend(inner.stmts)
    options = {} if func.is_pure else {"pure": "False"}
    if top and "global_symbol" not in func.attrs:
        options["private"] = "True"
    decorator = p.relax("function")
    heads = [f"@{call_text(decorator, [], options) if options else decorator}"]
    heads.append(f"def {name}({', '.join(params)}){returns}:")
    lines: list = [Nest(heads, frame.stmts), GAP]
    in_module = top and p.module is not None
    out.extend(lines if in_module else p.with_header(lines))


def _param(p: Printer, var: rx.Var, frame: Frame) -> str:
    note = "" if var.struct_info is None else f": {p.expr(var.struct_info)}"
    return f"{p.names.texts.get(id(var)) or _define(p, var, frame)}{note}"
