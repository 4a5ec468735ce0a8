"""Patterns as text: `relax.nn.relu(relax.add(*, const))`; what occurs twice gets a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ...ir.op import Op
from .pattern import (
    AndPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataflowVarPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    FunctionPattern,
    GlobalVarPattern,
    NotPattern,
    OrPattern,
    PrimArrPattern,
    ShapePattern,
    StructInfoPattern,
    TargetPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    VarPattern,
    WildcardPattern,
    topological,
)


def render(root: DFPattern) -> str:
    """A pattern as one line, behind a line `p0 = ...` for each part that occurs twice."""
    order = topological([root])
    uses = Counter(part for pattern in order for part in pattern.parts())
    texts: dict[DFPattern, str] = {}
    lines: list[str] = []
    for pattern in reversed(order):
        text = _TEXTS[type(pattern)](pattern, [texts[part] for part in pattern.parts()])
        if uses[pattern] > 1:
            name = f"p{len(lines)}"
            lines.append(f"{name} = {text}")
            text = name
        texts[pattern] = text
    return "\n".join([*lines, texts[root]])


def _named(kind: str, name: str) -> str:
    return f"{kind}({name})" if name else kind


def _dims(dims: Any) -> str:
    return "[" + ", ".join("?" if d is None else str(getattr(d, "value", d)) for d in dims) + "]"


def _expr(p: ExprPattern, parts: list[str]) -> str:
    return p.expr.name if isinstance(p.expr, Op) else f"expr({p.expr})"


def _call(p: CallPattern, parts: list[str]) -> str:
    op, *args = parts
    if p.args is None or p.varg_default_wildcard:
        args.append("...")
    return f"{op}({', '.join(args)})"


def _function(p: FunctionPattern, parts: list[str]) -> str:
    *params, body = parts
    inner = "..." if p.params is None else ", ".join(params)
    return f"function({inner}) -> {body}"


def _attrs(p: AttrPattern, parts: list[str]) -> str:
    inner = ", ".join(f"{k}={v!r}" for k, v in p.attrs.items())
    return f"{parts[0]}.has_attr({inner})"


_TEXTS: dict[type, Callable[[Any, list[str]], str]] = {
    AndPattern: lambda p, t: f"({t[0]} & {t[1]})",
    AttrPattern: _attrs,
    CallPattern: _call,
    ConstantPattern: lambda p, t: "const",
    DataTypePattern: lambda p, t: f"{t[0]}.has_dtype({p.dtype!s})",
    DataflowVarPattern: lambda p, t: _named("dfv", p.name_hint),
    ExprPattern: _expr,
    ExternFuncPattern: lambda p, t: _named("extern", p.global_symbol),
    FunctionPattern: _function,
    GlobalVarPattern: lambda p, t: _named("gv", p.name_hint),
    NotPattern: lambda p, t: f"~{t[0]}",
    OrPattern: lambda p, t: f"({t[0]} | {t[1]})",
    PrimArrPattern: lambda p, t: f"shape{_dims(p.fields)}",
    ShapePattern: lambda p, t: f"{t[0]}.has_shape({_dims(p.shape)})",
    StructInfoPattern: lambda p, t: f"{t[0]}.has_struct_info({p.struct_info})",
    TargetPattern: lambda p, t: f"{t[0]}.has_target({p.target})",
    TupleGetItemPattern: lambda p, t: f"{t[0]}[{'?' if p.index is None else p.index}]",
    TuplePattern: lambda p, t: f"tuple({', '.join(t)})",
    UnorderedTuplePattern: lambda p, t: f"unordered({', '.join(t)})",
    VarPattern: lambda p, t: _named("var", p.name_hint),
    WildcardPattern: lambda p, t: "*",
}

DFPattern._render = render

__all__ = ["render"]
