"""Relay's text format, as TVM v0.18 prints it.

Each call, tuple and function gets a line `%0 = add(%x, %y);` before its use, except the last one of
a body; a constant with axes, and other values without a text of their own, are in the section of
metadata at the end. A name that is not an identifier is in quotes (`%"layer1.0.weight"`), so that
it reads back the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...base.span import SequentialSpan, Span
from ...ir.expr import Attrs, BaseExpr, DictAttrs, GlobalVar  # noqa: F401
from ...ir.module import IRModule
from ...ir.node import Node
from ...ir.op import Op
from ...ir.prim_expr import FloatImm, IntImm, StringImm
from . import literals
from .expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from .meta import MetaTable
from .operators.core import REQUIRED, row_of
from .parser.lexer import TextSpan
from .stackless import Step, run
from .types import Any as AnyDim
from .types import (
    FuncType,
    IncompleteType,
    RelayRefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeKind,
    TypeRelation,
    TypeVar,
)
from .walk import children, post_order

HEADER = '#[version = "0.0.5"]\n'
Annotate = Callable[[Any], str]
# Nodes whose type and position are printed in a comment.
_NOTED = (Call, Constant, Var, Function, Tuple, TupleGetItem)


def text(
    node: Node, show_meta_data: bool = True, annotate: Annotate | None = None, header: bool = True
) -> str:
    """The text of an expression, a type or a module.

    show_meta_data: whether the metadata are there too; without them a text that names some cannot be
    parsed. annotate: returns the comment of an expression (by default its type and
    its source position). header: whether the text begins with the version of the format.
    """
    meta = MetaTable()
    parts = [HEADER if header else ""]
    if isinstance(node, IRModule):
        parts.append(_module(node, meta, annotate))
    else:
        printer = Printer(node, meta, annotate)
        is_expr = isinstance(node, (Expr, GlobalVar, Op))
        parts.append(run(printer.scope(node)) if is_expr else printer.other(node))
    if meta and show_meta_data:
        parts.append(f"\n#[metadata]\n{meta.json()}")
    return "".join(parts)


def pretty_print(obj: Expr) -> str:
    """The text without header and metadata."""
    return text(obj, show_meta_data=False, header=False)


def _module(mod: IRModule, meta: MetaTable, annotate: Annotate | None) -> str:
    texts = []
    for gvar, func in mod.functions_items():
        name = f"@{literals.name_text(gvar.name_hint)}"
        if isinstance(func, Function):
            printer = Printer(func, meta, annotate)
            texts.append(run(printer.function(f"def {name}", func)))
        else:  # a function of another language: to be read as a comment, and kept as metadata
            texts.append(f"{comment(func.script())}\ndef {name} = {meta.ref(func)}")
    return "\n".join(f"{text}\n" for text in texts)


def comment(text: str) -> str:
    """A comment with that text; a part that would end it is taken apart."""
    apart = re.sub(r"[*](?=/)|/(?=[*])", r"\g<0> ", text)
    return f"/* {apart} */"


class Printer:
    """Prints the body of one expression. Names are unique in it, lines numbered from 0."""

    def __init__(self, root: Node, meta: MetaTable, annotate: Annotate | None = None) -> None:
        self.meta = meta
        self.annotate = annotate
        self.uses: Counter[int] = Counter()
        self.typed = False
        if isinstance(root, Expr):
            nodes = post_order(root)
            self.uses.update(id(child) for node in nodes for child in children(node))
            # A constant knows its type at all times: it is shown where others know theirs.
            self.typed = not isinstance(root, Constant) and root.checked_type_ is not None
        # The texts of printed nodes, or the names of their lines; the lines of the current body.
        self.texts: dict[int, str] = {}
        self.lines: list[str] = []
        self.count = 0
        self.names = literals.Names()
        self.type_names: dict[int, str] = {}
        self.types: dict[int, str] = {}

    # ------------------------------------------------------------------ bodies and lines

    def scope(self, node: Any) -> Step:
        """The lines of a body, in a text."""
        outer, self.lines = self.lines, []
        while isinstance(node, Let) and self.uses[id(node)] <= 1 and id(node) not in self.texts:
            declared = self.declaration(node.var)
            value = yield self.value(node.value, inline=True)
            self.lines.append(f"let {declared} = {value};")
            node = node.body
        last = yield self.value(node, inline=True)
        lines, self.lines = [*self.lines, last], outer
        return "\n".join(lines)

    def block(self, node: Expr) -> Step:
        """A body in braces."""
        body = yield self.scope(node)
        return f"{{{_indented(body)}}}"

    def value(self, node: object, inline: bool = False) -> Step:
        """The text of a node where it is used: its own, or the name of its line."""
        cached = self.texts.get(id(node))
        if cached is not None:
            return cached
        if isinstance(node, Var):
            self.lines.append(f"free_var {self.declaration(node)};")
            return self.texts[id(node)]
        simple = isinstance(node, (Constant, GlobalVar, Op))
        one_use = inline and self.uses[id(node)] <= 1
        text = (self.leaf(node) if simple else (yield self.inner(node))) + self.note(node)
        if not (simple or one_use):
            temp = f"%{self.count}"
            self.count += 1
            self.lines.append(f"{temp} = {text};")
            text = temp
        self.texts[id(node)] = text
        return text

    def leaf(self, node: BaseExpr) -> str:
        """The text of what has nothing inside."""
        if isinstance(node, Constant):
            text = literals.scalar_text(node.data.numpy(), str(node.data.dtype))
            return self.meta.ref(node) if text is None else text
        if isinstance(node, GlobalVar):
            return f"@{literals.name_text(node.name_hint)}"
        return literals.name_text(node.name, dotted=True)

    def inner(self, node: Any) -> Step:
        """The text of a node with expressions inside."""
        if isinstance(node, Call):
            return self.call(node)
        if isinstance(node, Tuple):
            return self.tuple(node)
        if isinstance(node, TupleGetItem):
            return self.field(node)
        if isinstance(node, Function):
            return self.function("fn ", node)
        if isinstance(node, If):
            return self.branches(node)
        if isinstance(node, Let):
            return self.nested_let(node)
        what = f"a {type(node).__name__} has no text in Relay"
        raise LoopwrightError(
            explain(what, instead="print it alone, or the expression that it replaces")
        )

    def values(self, nodes: tuple[Any, ...]) -> Step:
        """The texts of several nodes where they are used."""
        texts = []
        for node in nodes:
            text = self.texts.get(id(node))
            texts.append((yield self.value(node)) if text is None else text)
        return texts

    def call(self, call: Call) -> Step:
        """A call; arguments come before a function that is called where it is defined."""
        args = yield self.values(call.args)
        args += self.call_attrs(call)
        (callee,) = yield self.values((call.op,))
        return f"{callee}({', '.join(args)})"

    def tuple(self, node: Tuple) -> Step:
        """A tuple, as Python writes it."""
        fields = yield self.values(node.fields)
        return _tuple(fields)

    def field(self, node: TupleGetItem) -> Step:
        """A field of a tuple."""
        (whole,) = yield self.values((node.tuple_value,))
        return f"{whole}.{node.index}"

    def branches(self, node: If) -> Step:
        """A condition and two bodies."""
        (cond,) = yield self.values((node.cond,))
        then = yield self.block(node.true_branch)
        other = yield self.block(node.false_branch)
        return f"if ({cond}) {then} else {other}"

    def nested_let(self, node: Let) -> Step:
        """A `let` that is not a body, in parentheses."""
        uses, self.uses[id(node)] = self.uses[id(node)], 0
        body = yield self.scope(node)
        self.uses[id(node)] = uses
        return f"({_indented(body)})"

    def function(self, prefix: str, func: Function) -> Step:
        """A function after `fn` or `def @name`."""
        generic = self.type_params(func.type_params)
        params = [self.declaration(param) for param in func.params]
        params += [self.attr(name, value) for name, value in func.attrs.items()]
        result = "" if func.ret_type is None else f"-> {self.type(func.ret_type)} "
        body = yield self.block(func.body)
        return f"{prefix}{generic}({', '.join(params)}) {result}{body}"

    def note(self, node: Any) -> str:
        """The comment of a node."""
        if self.annotate is not None:
            said = self.annotate(node)
            return "" if not said else f" {said}" if "/*" in said else f" {comment(said)}"
        if not isinstance(node, _NOTED):
            return ""
        type_ = node.checked_type_ if self.typed or not isinstance(node, Constant) else None
        parts = [] if type_ is None else [f"ty={self.type(type_)}"]
        spans = _positions(node.span)
        parts += [f"span={', '.join(spans)}"] if spans else []
        return f" {comment(' '.join(parts))}" if parts else ""

    # ------------------------------------------------------------------ names

    def declaration(self, var: Var) -> str:
        """A variable where it is bound, with its type."""
        if id(var) not in self.texts:
            hint = var.name_hint
            start = hint if hint[:1].isalpha() or hint[:1] == "_" else f"v{hint}"
            self.texts[id(var)] = f"%{literals.name_text(self.names.unique(start))}"
        kind = var.type_annotation
        annotation = "" if kind is None else f": {self.type(kind)}"
        return f"{self.texts[id(var)]}{annotation}{self.note(var)}"

    def type_params(self, params: tuple[TypeVar, ...]) -> str:
        """The type variables that a function is generic in."""
        texts = []
        for param in params:
            hint = re.sub(r"[^A-Za-z0-9_]", "_", param.name_hint)
            name = self.names.unique(hint if hint[:1].isalpha() else f"t{hint}")
            self.type_names[id(param)] = name
            kind = "" if param.kind == TypeKind.Type else f": {_KINDS[param.kind]}"
            texts.append(f"{name}{kind}")
        return f"[{', '.join(texts)}]" if texts else ""

    # ------------------------------------------------------------------ types

    def type(self, kind: Any) -> str:
        """The text of a type."""
        text = self.types.get(id(kind))
        if text is None:
            text = self.types[id(kind)] = self._type(kind)
            self.meta.keep.append(kind)
        return text

    def _type(self, kind: Type) -> str:
        if isinstance(kind, TensorType):
            shape = ", ".join(self.dim(d) for d in kind.shape)
            return f"Tensor[({shape}), {kind.dtype}]" if kind.shape else str(kind.dtype)
        if isinstance(kind, TupleType):
            return _tuple([self.type(f) for f in kind.fields])
        if isinstance(kind, FuncType):
            generic = self.type_params(kind.type_params)
            args = ", ".join(self.type(a) for a in kind.arg_types)
            return f"fn {generic}({args}) -> {self.type(kind.ret_type)}"
        if isinstance(kind, TypeVar):
            return self.type_names.get(id(kind), kind.name_hint)
        if isinstance(kind, IncompleteType):
            return "_"
        if isinstance(kind, RelayRefType):
            return f"ref({self.type(kind.value)})"
        if isinstance(kind, TypeCall):
            return f"{self.type(kind.func)}[{', '.join(self.type(a) for a in kind.args)}]"
        if isinstance(kind, TypeRelation):
            args = ", ".join(self.type(a) for a in kind.args)
            return f"{getattr(kind.func, 'name', kind.func)}({args})"
        return self.meta.ref(kind)

    def dim(self, extent: Any) -> str:
        """The text of an extent."""
        if isinstance(extent, IntImm):
            return str(extent.value)
        return "?" if isinstance(extent, AnyDim) else self.meta.ref(extent)

    def other(self, node: Node) -> str:
        """The text of a node that is not an expression."""
        return self.type(node) if isinstance(node, Type) else str(node)

    # ------------------------------------------------------------------ attributes

    def call_attrs(self, call: Call) -> list[str]:
        """The attributes of a call, without those that are as by default."""
        attrs = call.attrs
        if attrs is None:
            return []
        row = row_of(call.op)
        if row is None or attrs.key != row.attrs_key or not set(attrs) <= set(row.attr_names):
            key = f"attrs_type_key={literals.quoted(attrs.key)}"
            return [*(self.attr(name, value) for name, value in attrs.items()), key]
        shown = [
            (name, value)
            for name, value in attrs.items()
            if not same_value(value, row.defaults.get(name, REQUIRED))
        ]
        return [self.attr(name, value) for name, value in shown]

    def attr(self, name: str, value: Any) -> str:
        """An attribute and its value."""
        return f"{literals.name_text(name, dotted=True)}={self.attr_value(value)}"

    def attr_value(self, value: Any) -> str:
        """The text of an attribute's value."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(self.attr_value(v) for v in value)}]"
        if value is None or isinstance(value, bool):
            return str(value)
        if isinstance(value, (str, StringImm)):
            return literals.quoted(str(getattr(value, "value", value)))
        if isinstance(value, int):
            return str(int(value))
        if isinstance(value, float):
            return literals.float_text(value, "float64").removesuffix("64")
        if isinstance(value, AnyDim):
            return "?"
        if isinstance(value, GlobalVar):
            return self.leaf(value)
        if isinstance(value, IntImm) and value.dtype in ("int16", "int32", "int64", "bool"):
            array = np.asarray(value.value)
            return literals.scalar_text(array, str(value.dtype)) or self.meta.ref(value)
        if isinstance(value, FloatImm) and value.dtype in ("float16", "float32", "float64"):
            suffix = str(value.dtype).removeprefix("float").replace("32", "")
            return literals.float_text(value.value, "float64").removesuffix("64") + suffix
        return self.meta.ref(value)


def same_value(value: object, other: object) -> bool:
    """Whether two values of an attribute have one text."""
    if isinstance(value, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(value) == len(other) and all(map(same_value, value, other))
    if isinstance(value, str) and isinstance(other, str):
        return str.__eq__(value, other)
    return (
        type(value) is type(other)
        and isinstance(value, (int, float, type(None)))
        and (value == other)
    )


_KINDS = {
    TypeKind.Type: "Type",
    TypeKind.ShapeVar: "Shape",
    TypeKind.BaseType: "BaseType",
    TypeKind.Constraint: "Constraint",
    TypeKind.AdtHandle: "AdtHandle",
    TypeKind.TypeData: "TypeData",
}


def _indented(body: str) -> str:
    inner = body.replace("\n", "\n  ")
    return f"\n  {inner}\n"


def _tuple(fields: list[str]) -> str:
    return f"({', '.join(fields)}{',' if len(fields) == 1 else ''})"


def _positions(span: Span | None) -> list[str]:
    """The source positions of a node, except those in texts of Relay, such as this one."""
    spans = span.spans if isinstance(span, SequentialSpan) else (span,)
    located = [s for s in spans if s is not None and not isinstance(s, TextSpan)]
    return [f"{s.source}:{s.line}:{s.column}" for s in located]
