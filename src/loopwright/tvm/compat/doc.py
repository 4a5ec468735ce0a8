"""TVM's `script.printer.doc` and `doc_printer`: Python text as a tree of documents.

    to_python_script(AssignDoc(IdDoc("x"), IdDoc("y")[LiteralDoc(1)]))    # x = y[1]

The printer of programs here writes text at once; this is for scripts that build documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import singledispatch
from typing import Any, ClassVar, dataclass_transform

from ...base.errors import explain
from ...ir.object_path import ObjectPath
from ...script.printer.doc import GAP, Nest, loose, mark_statements, marked, number, quote, render
from ...script.printer.doc import operand as bound


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class Doc:
    """A piece of Python text, a dataclass; `source_paths`: the nodes that it shows."""

    source_paths: Sequence[ObjectPath] = field(default=(), init=False)
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)


dataclass(eq=False)(Doc)


class ExprDoc(Doc):
    """An expression."""

    def attr(self, name: str) -> AttrAccessDoc:
        """`self.name`"""
        return AttrAccessDoc(self, name)

    def call(self, *args: ExprDoc, **kwargs: ExprDoc) -> CallDoc:
        """`self(args, key=value)`"""
        return CallDoc(self, *args, **kwargs)

    def __getitem__(self, indices: Any) -> IndexDoc:
        return IndexDoc(self, indices if isinstance(indices, tuple) else (indices,))

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError(explain(f"{type(self).__name__} has no items"))


class StmtDoc(Doc):
    """A statement; `comment` is printed next to it, above it, or as its docstring."""

    comment: str | None = field(default=None, init=False)


class StmtBlockDoc(Doc):
    """Statements."""

    stmts: Sequence[StmtDoc]


class LiteralDoc(ExprDoc):
    """None, a bool, a number or a string."""

    value: Any
    path: ObjectPath | None = None


class IdDoc(ExprDoc):
    """A name."""

    name: str


class AttrAccessDoc(ExprDoc):
    """`value.name`"""

    value: ExprDoc
    name: str


class SliceDoc(ExprDoc):
    """`start:stop:step`"""

    start: ExprDoc | None = None
    stop: ExprDoc | None = None
    step: ExprDoc | None = None


class IndexDoc(ExprDoc):
    """`value[indices]`"""

    value: ExprDoc
    indices: Sequence[ExprDoc]


class CallDoc(ExprDoc):
    """`callee(args, key=value)`"""

    callee: ExprDoc
    args: Sequence[ExprDoc]
    kwargs_keys: Sequence[str]
    kwargs_values: Sequence[ExprDoc]

    def __init__(self, callee: ExprDoc, *args: ExprDoc, **kwargs: ExprDoc) -> None:
        self.callee, self.args, self.source_paths = callee, args, ()
        self.kwargs_keys, self.kwargs_values = list(kwargs), list(kwargs.values())


_KINDS = "USub Invert Not _UnaryEnd _BinaryStart Add Sub Mult Div FloorDiv Mod Pow LShift RShift"
_KINDS += " BitAnd BitOr BitXor Lt LtE Eq NotEq Gt GtE And Or _BinaryEnd _SpecialStart IfThenElse"
OperationKind = IntEnum("OperationKind", f"_UnaryStart {_KINDS} _SpecialEnd", start=0)


class OperationDoc(ExprDoc):
    """An operation; `kind` is an `OperationKind`."""

    kind: Any
    operands: Sequence[ExprDoc]


class LambdaDoc(ExprDoc):
    """`lambda args: body`"""

    args: Sequence[IdDoc]
    body: ExprDoc


class TupleDoc(ExprDoc):
    """`(a, b)`"""

    elements: Sequence[ExprDoc]


class ListDoc(ExprDoc):
    """`[a, b]`"""

    elements: Sequence[ExprDoc]


class DictDoc(ExprDoc):
    """`{key: value}`"""

    keys: Sequence[ExprDoc]
    values: Sequence[ExprDoc]

    def __init__(self, content: dict[ExprDoc, ExprDoc]) -> None:
        self.keys, self.values, self.source_paths = list(content), list(content.values()), ()


class AssignDoc(StmtDoc):
    """`lhs: annotation = rhs`"""

    lhs: ExprDoc
    rhs: ExprDoc | None
    annotation: ExprDoc | None = None

    def __post_init__(self) -> None:
        if self.rhs is None and self.annotation is None:
            raise ValueError(explain("an assignment has a value or an annotation"))
        if self.annotation is not None and not isinstance(self.lhs, IdDoc):
            raise ValueError(explain("only a name is annotated", got=type(self.lhs).__name__))


class IfDoc(StmtDoc):
    """`if predicate: ... else: ...`"""

    predicate: ExprDoc
    then_branch: Sequence[StmtDoc]
    else_branch: Sequence[StmtDoc]

    def __post_init__(self) -> None:
        if not self.then_branch and not self.else_branch:
            raise ValueError(explain("an if has a branch that is not empty"))


class WhileDoc(StmtDoc):
    """`while predicate: ...`"""

    predicate: ExprDoc
    body: Sequence[StmtDoc]


class ForDoc(StmtDoc):
    """`for lhs in rhs: ...`"""

    lhs: ExprDoc
    rhs: ExprDoc
    body: Sequence[StmtDoc]


class ScopeDoc(StmtDoc):
    """`with rhs as lhs: ...`"""

    lhs: ExprDoc | None
    rhs: ExprDoc
    body: Sequence[StmtDoc]


class ExprStmtDoc(StmtDoc):
    """An expression as a statement."""

    expr: ExprDoc


class AssertDoc(StmtDoc):
    """`assert test, msg`"""

    test: ExprDoc
    msg: ExprDoc | None = None


class ReturnDoc(StmtDoc):
    """`return value`"""

    value: ExprDoc


class FunctionDoc(StmtDoc):
    """`def name(args) -> return_type: ...`"""

    name: IdDoc
    args: Sequence[AssignDoc]
    decorators: Sequence[ExprDoc]
    return_type: ExprDoc | None
    body: Sequence[StmtDoc]


class ClassDoc(StmtDoc):
    """`class name: ...`"""

    name: IdDoc
    decorators: Sequence[ExprDoc]
    body: Sequence[StmtDoc]


class CommentDoc(StmtDoc):
    """A comment."""

    def __init__(self, comment: str) -> None:
        self.comment, self.source_paths = comment, ()


class DocStringDoc(StmtDoc):
    """A docstring."""

    def __init__(self, docs: str) -> None:
        self.comment, self.source_paths = docs, ()


# How tightly operators bind, loosest first.
_CONDITIONAL, _POWER, _ATOM = 1, 13, 14
_UNARY: dict[str, tuple[str, int]] = {"USub": ("-", 12), "Invert": ("~", 12), "Not": ("not ", 4)}
_LEVELS = {
    2: {"Or": "or"},
    3: {"And": "and"},
    5: {"Lt": "<", "LtE": "<=", "Eq": "==", "NotEq": "!=", "Gt": ">", "GtE": ">="},
    6: {"BitOr": "|"},
    7: {"BitXor": "^"},
    8: {"BitAnd": "&"},
    9: {"LShift": "<<", "RShift": ">>"},
    10: {"Add": "+", "Sub": "-"},
    11: {"Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%"},
    _POWER: {"Pow": "**"},
}
_BINARY = {name: (sign, level) for level, row in _LEVELS.items() for name, sign in row.items()}


class _Writer:
    """Writes a document; those in `underlined` leave marks."""

    def __init__(self, underlined: set[int]) -> None:
        self.underlined = underlined

    def __call__(self, doc: ExprDoc) -> str:
        text = _expr(doc, self)
        return marked(text) if id(doc) in self.underlined else text

    def join(self, docs: Sequence[ExprDoc]) -> str:
        return ", ".join(map(self, docs))

    def atom(self, doc: ExprDoc) -> str:
        return bound(self(doc), _ATOM)

    def target(self, doc: ExprDoc) -> str:
        """The target of an assignment: a tuple has no parentheses."""
        return self.join(doc.elements) if isinstance(doc, TupleDoc) and doc.elements else self(doc)

    def stmts(self, docs: Sequence[Any]) -> list[Any]:
        """The lines of statements."""
        out: list[Any] = []
        for doc in docs:
            start = len(out)
            _stmt(doc, self, out)
            if id(doc) in self.underlined:
                mark_statements(out, start)
        return out


@singledispatch
def _expr(doc: int, w: _Writer) -> str:
    raise TypeError(explain("a document of an expression is expected", got=type(doc).__name__))


def _written(kind: type) -> Callable[[Callable[..., str]], Callable[..., str]]:
    return _expr.register(kind)


@_written(LiteralDoc)
def _literal(doc: LiteralDoc, w: _Writer) -> str:
    if isinstance(doc.value, str):
        return quote(doc.value)
    return number(doc.value) if isinstance(doc.value, float) else str(doc.value)


_written(IdDoc)(lambda doc, w: doc.name)
_written(AttrAccessDoc)(lambda doc, w: f"{w.atom(doc.value)}.{doc.name}")
_written(IndexDoc)(lambda doc, w: f"{w.atom(doc.value)}[{w.join(doc.indices) or '()'}]")
_written(ListDoc)(lambda doc, w: f"[{w.join(doc.elements)}]")


@_written(SliceDoc)
def _slice(doc: SliceDoc, w: _Writer) -> str:
    start, stop, step = ("" if d is None else w(d) for d in (doc.start, doc.stop, doc.step))
    return f"{start}:{stop}" + (f":{step}" if step else "")


@_written(CallDoc)
def _call(doc: CallDoc, w: _Writer) -> str:
    pairs = zip(doc.kwargs_keys, doc.kwargs_values, strict=True)
    args = [*map(w, doc.args), *(f"{key}={w(value)}" for key, value in pairs)]
    return f"{w.atom(doc.callee)}({', '.join(args)})"


@_written(TupleDoc)
def _tuple(doc: TupleDoc, w: _Writer) -> str:
    return f"({w.join(doc.elements)}{',' if len(doc.elements) == 1 else ''})"


@_written(DictDoc)
def _dict(doc: DictDoc, w: _Writer) -> str:
    pairs = zip(doc.keys, doc.values, strict=True)
    return "{" + ", ".join(f"{w(key)}: {w(value)}" for key, value in pairs) + "}"


@_written(LambdaDoc)
def _lambda(doc: LambdaDoc, w: _Writer) -> str:
    return loose(f"lambda {w.join(doc.args)}: {w(doc.body)}", 0)


@_written(OperationDoc)
def _operation(doc: OperationDoc, w: _Writer) -> str:
    name, texts = OperationKind(doc.kind).name, [w(d) for d in doc.operands]
    if name in _UNARY:
        sign, level = _UNARY[name]
        return loose(sign + bound(texts[0], level), level)
    if name == "IfThenElse":
        condition, other = (bound(t, _CONDITIONAL + 1) for t in (texts[0], texts[2]))
        return loose(f"{bound(texts[1], _CONDITIONAL)} if {condition} else {other}", _CONDITIONAL)
    sign, level = _BINARY[name]
    # x ** y ** z is x ** (y ** z), and x ** -y needs no parentheses.
    sides = (level + 1, _UNARY["USub"][1]) if level == _POWER else (level, level + 1)
    left, right = (bound(t, side) for t, side in zip(texts, sides, strict=True))
    return loose(f"{left} {sign} {right}", level)


@singledispatch
def _stmt(doc: ExprDoc, w: _Writer, out: list[Any]) -> None:
    if not isinstance(doc, ExprDoc):
        raise TypeError(explain("a document of a statement is expected", got=type(doc).__name__))
    out.append(w(doc))


def _line(kind: type, text: Callable[[Any, _Writer], str]) -> None:
    """A kind of statement of one line; its comment follows it on the line."""

    def write(doc: StmtDoc, w: _Writer, out: list[Any]) -> None:
        comment = doc.comment or ""
        if "\n" in comment:
            what = "the comment of a statement of one line cannot have newline"
            raise ValueError(explain(what, got=repr(comment), instead="CommentDoc"))
        out.append(text(doc, w) + (f"  # {comment}" if comment else ""))

    _stmt.register(kind)(write)


def _assign(doc: AssignDoc, w: _Writer) -> str:
    annotation = "" if doc.annotation is None else f": {w(doc.annotation)}"
    return w.target(doc.lhs) + annotation + ("" if doc.rhs is None else f" = {w(doc.rhs)}")


_line(AssignDoc, _assign)
_line(ExprStmtDoc, lambda doc, w: w(doc.expr))
_line(ReturnDoc, lambda doc, w: f"return {w(doc.value)}")
_line(AssertDoc, lambda d, w: f"assert {w.join([d.test] if d.msg is None else [d.test, d.msg])}")


def _comment(text: str | None) -> list[str]:
    return [f"# {line}" for line in text.split("\n")] if text else []


def _docstring(text: str | None) -> list[Any]:
    return ['"""', *(line or GAP for line in text.split("\n")), '"""'] if text else []


def _nested(kind: type, head: Callable[[Any, _Writer], str]) -> None:
    """A kind of statement with a body; its comment is above it."""

    def write(doc: Any, w: _Writer, out: list[Any]) -> None:
        out += [*_comment(doc.comment), Nest([head(doc, w)], w.stmts(doc.body))]

    _stmt.register(kind)(write)


def _with(doc: ScopeDoc, w: _Writer) -> str:
    return f"with {w(doc.rhs)}" + ("" if doc.lhs is None else f" as {w.target(doc.lhs)}") + ":"


_nested(WhileDoc, lambda doc, w: f"while {w(doc.predicate)}:")
_nested(ForDoc, lambda doc, w: f"for {w.target(doc.lhs)} in {w(doc.rhs)}:")
_nested(ScopeDoc, _with)


@_stmt.register(IfDoc)
def _if(doc: IfDoc, w: _Writer, out: list[Any]) -> None:
    out += _comment(doc.comment)
    out.append(Nest([f"if {w(doc.predicate)}:"], w.stmts(doc.then_branch)))
    if doc.else_branch:
        out.append(Nest(["else:"], w.stmts(doc.else_branch)))


@_stmt.register(FunctionDoc)
@_stmt.register(ClassDoc)
def _definition(doc: Any, w: _Writer, out: list[Any]) -> None:
    heads = [f"@{w(d)}" for d in doc.decorators]
    if isinstance(doc, ClassDoc):
        heads.append(f"class {w(doc.name)}:")
    else:
        args = ", ".join(_assign(arg, w) for arg in doc.args)
        result = "" if doc.return_type is None else f" -> {w(doc.return_type)}"
        heads.append(f"def {w(doc.name)}({args}){result}:")
    body = w.stmts(doc.body)
    while body and body[-1] is GAP:
        body.pop()
    out += [Nest(heads, [*_docstring(doc.comment), *(body or ["pass"])]), GAP]


@_stmt.register(StmtBlockDoc)
def _block(doc: StmtBlockDoc, w: _Writer, out: list[Any]) -> None:
    out += w.stmts(doc.stmts)


_stmt.register(CommentDoc)(lambda doc, w, out: out.extend(_comment(doc.comment)))
_stmt.register(DocStringDoc)(lambda doc, w, out: out.extend(_docstring(doc.comment)))


def _all_docs(value: object) -> Iterator[Doc]:
    if isinstance(value, Doc):
        yield value
        for part in fields(value):
            yield from _all_docs(getattr(value, part.name))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _all_docs(item)


def _shown(doc: Doc, paths: Sequence[ObjectPath]) -> set[int]:
    """The documents that show the paths, or their closest prefixes that are shown."""
    parts_at: dict[ObjectPath, set[int]] = {}
    for part in _all_docs(doc):
        for path in part.source_paths:
            parts_at.setdefault(path, set()).add(id(part))
    result: set[int] = set()
    for path in paths:
        above = (p for p in reversed(path.steps()) if p in parts_at)
        result |= parts_at.get(next(above, path), set())
    return result


def to_python_script(
    doc: Doc,
    indent_spaces: int = 4,
    print_line_numbers: bool = False,
    num_context_lines: int | None = None,
    path_to_underline: Sequence[ObjectPath] | None = None,
) -> str:
    """The text of a document, with what shows one of the paths underlined."""
    underlined = _shown(doc, path_to_underline or ())
    return render(
        _Writer(underlined).stmts([doc]),
        indent_spaces,
        line_numbers=print_line_numbers,
        context=-1 if num_context_lines is None else num_context_lines,
        underlined=bool(underlined),
    )
