"""Patterns as text: `relax.nn.relu(relax.add(*, const))`; shared patterns get names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir.op import Op
from ...ir.prim_expr import PrimExpr
from . import pattern as pt

Writer = Callable[[Any, list[str]], str]


def render(root: pt.DFPattern, writers: Mapping[type, Writer] | None = None) -> str:
    """A pattern as one line, after a line `p0 = ...` for each part that occurs twice. writers: the functions that
    write patterns, by class, in addition to `_TEXTS`."""
    table = {**_TEXTS, **(writers or {})}
    order = pt.topological([root])
    uses = Counter(part for pattern in order for part in pattern.parts())
    texts: dict[pt.DFPattern, str] = {}
    lines: list[str] = []
    for pattern in reversed(order):
        text = _writer(type(pattern), table)(pattern, [texts[part] for part in pattern.parts()])
        if uses[pattern] > 1:
            name = f"p{len(lines)}"
            lines.append(f"{name} = {text}")
            text = name
        texts[pattern] = text
    return "\n".join([*lines, texts[root]])


def _writer(kind: type, table: Mapping[type, Writer]) -> Writer:
    """The writer of a class of patterns: its own, or that of a base class."""
    return next(table[c] for c in kind.__mro__ if c in table)


def _named(kind: str, name: str) -> str:
    return f"{kind}({name})" if name else kind


def _dims(dims: Sequence[PrimExpr | None]) -> str:
    return "[" + ", ".join("?" if d is None else str(getattr(d, "value", d)) for d in dims) + "]"


def _expr(p: pt.ExprPattern, parts: list[str]) -> str:
    return p.expr.name if isinstance(p.expr, Op) else f"expr({p.expr})"


def _call(p: pt.CallPattern, parts: list[str]) -> str:
    op, *args = parts
    if p.args is None or p.varg_default_wildcard:
        args.append("...")
    return f"{op}({', '.join(args)})"


def _function(p: pt.FunctionPattern, parts: list[str]) -> str:
    *params, body = parts
    inner = "..." if p.params is None else ", ".join(params)
    return f"function({inner}) -> {body}"


def _attrs(p: pt.AttrPattern, parts: list[str]) -> str:
    inner = ", ".join(f"{k}={v!r}" for k, v in p.attrs.items())
    return f"{parts[0]}.has_attr({inner})"


_TEXTS: dict[type, Writer] = {
    pt.AndPattern: lambda p, t: f"({t[0]} & {t[1]})",
    pt.AttrPattern: _attrs,
    pt.CallPattern: _call,
    pt.ConstantPattern: lambda p, t: "const",
    pt.DataTypePattern: lambda p, t: f"{t[0]}.has_dtype({p.dtype!s})",
    pt.DataflowVarPattern: lambda p, t: _named("dfv", p.name_hint),
    pt.ExprPattern: _expr,
    pt.ExternFuncPattern: lambda p, t: _named("extern", p.global_symbol),
    pt.FunctionPattern: _function,
    pt.GlobalVarPattern: lambda p, t: _named("gv", p.name_hint),
    pt.NotPattern: lambda p, t: f"~{t[0]}",
    pt.OrPattern: lambda p, t: f"({t[0]} | {t[1]})",
    pt.PrimArrPattern: lambda p, t: f"shape{_dims(p.fields)}",
    pt.ShapePattern: lambda p, t: f"{t[0]}.has_shape({_dims(p.shape)})",
    pt.StructInfoPattern: lambda p, t: f"{t[0]}.has_struct_info({p.struct_info})",
    pt.TargetPattern: lambda p, t: f"{t[0]}.has_target({p.target})",
    pt.TupleGetItemPattern: lambda p, t: f"{t[0]}[{p.index if p.index is not None else '?'}]",
    pt.TuplePattern: lambda p, t: f"tuple({', '.join(t)})",
    pt.UnorderedTuplePattern: lambda p, t: f"unordered({', '.join(t)})",
    pt.VarPattern: lambda p, t: _named("var", p.name_hint),
    pt.WildcardPattern: lambda p, t: "*",
}

pt.DFPattern._render = render
