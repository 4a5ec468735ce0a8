"""The printer's heart: dispatch on the kind of node, scopes, names, attribute values, and the
steps from a node to text. The text of each kind of node is defined in `ir.py`, `tir_*.py` and
`relax.py`, as functions registered with `expr_of` and `stmt_of`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...base.names import Served
from ...base.registry import Registry
from ...ir.expr import Attrs
from ...ir.functor import allow_deep_programs
from ...ir.node import Node
from ...ir.serialize import save_json
from ...relax.expr import Function
from ...runtime.tensor import Tensor
from ...tir.function import PrimFunc
from ...tir.stmt import Stmt
from .config import PrinterConfig
from .doc import Nest, mark_statements, marked, number, quote, render
from .naming import Frame, Names
from .paths import resolve
from .uses import Uses

IR, TIR, RELAX = "ir", "tir", "relax"

# Keyed by type; a node key ("tir.IndexMap") names a type that need not be loaded yet.
EXPR: Registry[Any, Callable[[Printer, Any], str]] = Registry("printer of expressions")
STMT: Registry[Any, Callable[[Printer, Any, list], None]] = Registry("printer of statements")
MODES: Registry[Any, str] = Registry("dialect to print in")
# The choice for a type: (table, its revision, type) -> function or mode.
_CHOSEN: dict[tuple[str, int, type], Any] = {}


def expr_of(*kinds: type | str) -> Any:
    """Register how a kind of expression is printed: f(printer, node) -> text.

    A kind is a node class or its key.
    """

    def register(fn: Callable[[Printer, Any], str]) -> Callable[[Printer, Any], str]:
        for kind in kinds:
            EXPR.register(kind, fn, override=True)
        return fn

    return register


def call_of(kind: type, name: str, arguments: Callable[[Printer, Any], str]) -> None:
    """Print a kind of expression as a call of a function of `T` or `R`, named by "tir.Cast"."""
    dialect, _, function = name.partition(".")
    EXPR.register(
        kind,
        lambda p, node: f"{getattr(p, dialect)(function)}({arguments(p, node)})",
        override=True,
    )


def stmt_of(*kinds: type) -> Any:
    """Register how a kind of statement is printed: f(printer, node, out) appends to `out`."""

    def register(fn: Callable[[Printer, Any, list], None]) -> Any:
        for kind in kinds:
            STMT.register(kind, fn, override=True)
        return fn

    return register


def mode_of(kind: type, mode: str) -> None:
    """Register the dialect in which free-standing nodes of a kind are printed."""
    MODES.register(kind, mode, override=True)


def _lookup(table: Registry[Any, Any], kind: type) -> Any:
    key = (table.name, table.revision, kind)
    if key not in _CHOSEN:
        keys = (kind, getattr(kind, "node_key", ""), *kind.__mro__)
        _CHOSEN[key] = next((table[k] for k in keys if k in table), None)
    return _CHOSEN[key]


class Printer:
    """Prints one node, with the state that takes: scopes, names, options."""

    def __init__(self, root: Any, config: PrinterConfig) -> None:
        self.root = root
        self.config = config
        self.sugar = config.syntax_sugar
        reserved = [config.ir_prefix, config.tir_prefix, config.relax_prefix, config.module_alias]
        self.names = Names(reserved)
        self.frames: list[Frame] = []
        self.mode = _lookup(MODES, type(root)) or IR
        self.int_dtype: str = "int64" if self.mode == RELAX else config.int_dtype
        self.used: set[str] = set()
        self.metadata: dict[str, list[Any]] = {}
        self.mentioned: set[int] | None = None  # Relax variables that are used
        self.module: Any = None
        self.module_name = ""
        self.uses = Uses(root)
        self.underlined = {id(n) for n in config.obj_to_underline or ()}
        self.underlined |= {id(resolve(root, p)) for p in config.path_to_underline or ()}
        notes = {id(n): text for n, text in (config.obj_to_annotate or {}).items()}
        for path, text in (config.path_to_annotate or {}).items():
            notes[id(resolve(root, path))] = text
        self.notes = notes
        self.plain = not self.underlined and not notes
        # Expressions, which occur often, and their texts, until a name in them is free again.
        self.texts: dict[int, tuple[Any, str]] = {}
        self.fns: dict[type, Callable[[Printer, Any], str] | None] = {}  # chosen in EXPR

    # ------------------------------------------------------------------ texts

    def tir(self, name: str) -> str:
        """`T.name`"""
        self.used.add(TIR)
        return f"{self.config.tir_prefix}.{name}"

    def relax(self, name: str) -> str:
        """`R.name`"""
        self.used.add(RELAX)
        return f"{self.config.relax_prefix}.{name}"

    def ir(self, name: str) -> str:
        """`I.name`"""
        self.used.add(IR)
        return f"{self.config.ir_prefix}.{name}"

    def expr(self, node: Node) -> str:
        """The text of an expression; an operation's text is a `Loose`."""
        cached = self.texts.get(id(node))
        if cached is not None:
            return cached[1]
        kind = type(node)
        fn = self.fns.get(kind) or self.fns.setdefault(kind, _lookup(EXPR, kind))
        if fn is None:
            return self.value(node) if not isinstance(node, Node) else self.generic(node)
        return self.cached(node, fn(self, node))

    def cached(self, node: Node, text: str) -> str:
        """The text of an expression, for the next time."""
        if not self.plain:
            return self.mark(node, text)
        if self.mode == TIR:
            self.texts[id(node)] = node, text
        return text

    def mark(self, node: Node, text: str) -> str:
        """The text of `node`, underlined if requested."""
        return marked(text) if id(node) in self.underlined else text

    def exprs(self, nodes: Sequence[Any]) -> str:
        """Texts of expressions, separated by commas."""
        return ", ".join([self.expr(n) for n in nodes])

    def tuple(self, nodes: Sequence[Any]) -> str:
        """`(a, b)`, `(a,)`, `()`"""
        return tuple_text([self.expr(n) for n in nodes])

    def stmt(self, node: Node, out: list) -> None:
        """Append the lines of a statement."""
        kind = type(node)
        fn = _lookup(STMT, kind)
        if fn is None:
            out.append(self.expr(node))
            return
        start = len(out)
        fn(self, node, out)
        self.decorate(node, out, start)

    def decorate(self, node: Node, out: list, start: int) -> None:
        """Underline and annotate the statements of `node`, which begin at `start`, if requested."""
        if self.plain or start == len(out):
            return
        if id(node) in self.underlined:
            head = start  # the comment that says which dialects are used is not the node's
            while head < len(out) and isinstance(out[head], str) and _HEADER.match(out[head]):
                head += 1
            mark_statements(out, head)
        note = self.notes.get(id(node))
        if note is None:
            return
        if isinstance(out[start], Nest):
            out.insert(start, f"# {note}")
        else:
            out[start] = f"{out[start]}  # {note}"

    def body(self, node: Stmt, frame: Frame) -> None:
        """Print a statement as the body of a scope."""
        frame.last = True
        self.stmt(node, frame.stmts)

    def value(self, value: Any) -> str:
        """The text of an attribute's value: plain data, nodes, and containers of them."""
        kind = type(value)
        if value is None or kind is bool or kind is int:
            return str(value)
        if isinstance(value, str):
            return quote(value)
        if kind is float:
            return number(value)
        if kind is tuple or kind is list:
            return "[" + ", ".join([self.value(v) for v in value]) + "]"
        if kind is dict:
            return self.mapping(value)
        if isinstance(value, Node):
            return self.expr(value)
        if isinstance(value, (np.generic, np.bool_)):
            return self.value(value.item())
        if isinstance(value, (np.ndarray, Tensor)):
            return self.meta("runtime.Tensor", value)
        if isinstance(value, (tuple, list)):
            return "[" + ", ".join([self.value(v) for v in value]) + "]"
        if isinstance(value, (int, float)):
            return str(value.value if hasattr(value, "value") else value)
        return repr(value)

    def mapping(self, items: dict[Any, Any]) -> str:
        """`{key: value}`, sorted when the keys are strings."""
        keys = list(items)
        if all(isinstance(k, str) for k in keys):
            keys.sort()
        inner = [f"{self.value(k)}: {self.value(items[k])}" for k in keys]
        return "{" + ", ".join(inner) + "}"

    def meta(self, key: str, value: object) -> str:
        """A reference to a value that has no text: `metadata["relax.expr.Constant"][0]`."""
        values = self.metadata.setdefault(key, [])
        at = next((i for i, other in enumerate(values) if other is value), len(values))
        if at == len(values):
            values.append(value)
        return f"metadata[{quote(key)}][{at}]"

    def generic(self, node: Node) -> str:
        """A node for which no text is registered: its kind and fields."""
        if isinstance(node, Attrs):
            return self.mapping(dict(node.items()))
        if type(node).__repr__ is not Node.__repr__:
            return repr(node)
        fields = [f"{f.name}={self.value(getattr(node, f.name, None))}" for f in node.__fields__]
        return f"{type(node).__name__}({', '.join(fields)})"

    # ------------------------------------------------------------------ scopes

    @contextmanager
    def frame(
        self, node: Node | None, mode: str | None = None, is_func: bool = False
    ) -> Iterator[Frame]:
        """A scope; the names defined in it are free again when it ends."""
        saved, count = (self.mode, self.int_dtype, self.texts), len(self.texts)
        if mode is not None and mode != self.mode:
            self.mode, self.texts, count = mode, {}, 0
            self.int_dtype = "int64" if mode == RELAX else self.config.int_dtype
        frame = Frame(node, self.mode, is_func)
        self.frames.append(frame)
        try:
            yield frame
        finally:
            self.frames.pop()
            self.names.leave(frame)
            while frame.defined and len(self.texts) > count:
                self.texts.popitem()
            self.mode, self.int_dtype, self.texts = saved

    def define(self, obj: Node, hint: str, frame: Frame) -> str:
        """A name for `obj`, visible until `frame` ends."""
        if self.config.show_object_address:
            hint = f"{hint}_0x{id(obj):x}"
        return self.names.define(obj, hint, frame)

    def function_name(self, func: Function | PrimFunc) -> str:
        """The name to print for a function."""
        if self.config.binding_names:
            return self.config.binding_names[-1]
        return func.attrs.get("global_symbol") or "main"

    def with_header(self, stmts: list) -> list:
        """Statements below the comment that says which dialects they use."""
        prefix = {
            IR: self.config.ir_prefix,
            TIR: self.config.tir_prefix,
            RELAX: self.config.relax_prefix,
        }
        used = [d for d in (IR, TIR, RELAX) if d in self.used]
        heads = [f"# from {Served.name}.script import {d} as {prefix[d]}" for d in used]
        return [*heads, "", *stmts]

    # ------------------------------------------------------------------ the whole

    def run(self) -> str:
        """The text of the root."""
        allow_deep_programs()
        return self.whole()

    def whole(self) -> str:
        """The text of the root, with the metadata it refers to."""
        text = self.render(self.statements())
        if self.metadata and self.config.show_meta:
            text = metadata_text(self.metadata) + "\n" + text
        return text

    def statements(self) -> list:
        """The root as a tree of lines."""
        with self.frame(None) as top:
            kind = type(self.root)
            if _lookup(STMT, kind) is not None:
                stmts: list = []
                self.stmt(self.root, stmts)
                top.stmts += stmts
            else:
                text = self.expr(self.root)
                if not self.config.verbose_expr:
                    top.stmts.clear()
                top.stmts.append(str(text))
            if self.metadata and not self.config.show_meta:
                top.stmts.append(_OMITTED)
        return top.stmts

    def render(self, stmts: list) -> str:
        """Statements as text, with the options' underlines and line numbers."""
        config = self.config
        return render(
            stmts,
            config.indent_spaces,
            line_numbers=config.print_line_numbers,
            context=config.num_context_lines if config.num_context_lines is not None else -1,
            underlined=bool(self.underlined),
        )


_HEADER = re.compile(r"# from \S+ import |$")
_OMITTED = "# Metadata omitted. Use show_meta=True in script() method to show it."


def metadata_text(metadata: dict[str, list[Any]]) -> str:
    """The section that `metadata[...]` in a text refers to."""
    text = save_json(metadata).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'metadata = {Served.name}.ir.load_json("""{text}""")'


def tuple_text(items: list[str]) -> str:
    """A Python tuple of texts."""
    return f"({items[0]},)" if len(items) == 1 else "(" + ", ".join(items) + ")"


def call_text(callee: str, args: list[str], keywords: dict[str, str] | None = None) -> str:
    """`callee(args, key=value)`"""
    named = [f"{k}={v}" for k, v in keywords.items()] if keywords else []
    return f"{callee}({', '.join([*args, *named])})"


def dtype_text(dtype: str) -> str:
    """A dtype as a string literal."""
    return f'"{dtype}"'
