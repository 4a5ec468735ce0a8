"""The grammar of Relay's texts. Nesting takes no stack of Python's: see `stackless`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....base.errors import suggest
from ....ir.expr import Attrs, BaseExpr, DictAttrs, GlobalVar
from ....ir.module import IRModule
from ....ir.node import Node
from ....ir.op import Op
from ....ir.prim_expr import FloatImm, IntImm
from .. import literals
from ..expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var, const
from ..operators.core import REQUIRED, Row, row_of
from ..stackless import Step
from ..types import Any as AnyDim
from ..types import IncompleteType, Type
from .lexer import Source, Token
from .type_grammar import INDEX, LEFT_OUT, TypeParser

# Operators between operands: the name in Relay, and how strongly it binds.
_INFIX = {
    "*": ("multiply", 12), "/": ("divide", 12), "+": ("add", 10), "-": ("subtract", 10),
    "<": ("less", 8), "<=": ("less_equal", 8), ">": ("greater", 8), ">=": ("greater_equal", 8),
    "==": ("equal", 7), "!=": ("not_equal", 7),
}  # fmt: skip
_RESERVED = {"let", "fn", "def", "if", "else", "free_var", "True", "False", *LEFT_OUT}


class Parser(TypeParser):
    """Reads one text. more: what `meta[key][index]` names behind the text's own metadata; known:
    functions that are there before."""

    def __init__(
        self, source: Source, more: Mapping[str, Sequence[Any]], known: IRModule | None = None
    ) -> None:
        super().__init__(source, more)
        self.locals: dict[str, list[Var]] = {}
        self.graph: dict[str, Any] = {}
        before = () if known is None else known.functions
        self.globals: dict[str, GlobalVar] = {gvar.name_hint: gvar for gvar in before}

    # ------------------------------------------------------------------ modules

    def header(self, required: bool) -> None:
        """The version of the format."""
        version = '#[version = "0.0.5"]'
        if self.next.kind != "header":
            if required:
                raise self.error("expected the version of the text format", instead=version)
            return
        word = self.take()
        if word.text.replace(" ", "") != version.replace(" ", ""):
            raise self.error("this version of the text format is not known", word, version)

    def module(self) -> Step:
        """The functions of a module, by name."""
        self.header(required=True)
        functions: dict[GlobalVar, Any] = {}
        while self.next.kind != "end":
            self.refuse()
            if not self.accept("def"):
                raise self.error("expected a definition", instead="def @name(%x: float32) { %x }")
            word = self.word("global", "a name: @main")
            gvar = self.global_var(word)
            if gvar in functions:
                raise self.error("a function of this name was defined before", word)
            self.graph.clear()
            if self.accept("="):
                functions[gvar] = self.meta_value(Node)
            else:
                functions[gvar] = yield self.function(self.at)
        return functions

    def expression_alone(self) -> Step:
        """The one expression of a text."""
        self.header(required=False)
        result = yield self.expression()
        if self.next.kind != "end":
            raise self.error("expected the end of the expression")
        return result

    def global_var(self, word: Token) -> GlobalVar:
        """The variable of a name like @main."""
        name = _bare(word)
        return self.globals.setdefault(name, GlobalVar(name))

    # ------------------------------------------------------------------ names

    def bind(self, name: str, var: Var, bound: list[str]) -> Var:
        """Bind a name to a variable, until `unbind(bound)`."""
        self.locals.setdefault(name, []).append(var)
        bound.append(name)
        return var

    def unbind(self, bound: list[str]) -> None:
        """End what `bind` began."""
        for name in bound:
            self.locals[name].pop()

    def local(self, word: Token) -> Var:
        """The variable of a name like %x."""
        variables = self.locals.get(_bare(word))
        if not variables:
            names = [f"%{name}" for name, shadowing in self.locals.items() if shadowing]
            hint = suggest(word.text, names, "the variables here are") if names else None
            raise self.error("this variable is not defined here", word, hint)
        return variables[-1]

    # ------------------------------------------------------------------ expressions

    def expression(self) -> Step:
        """Bindings, and the value behind them."""
        bound: list[str] = []
        lets: list[tuple[Var, Any, int]] = []
        while True:
            first = self.at
            if self.accept("free_var"):
                word = self.word("local", "a variable: %x")
                kind = yield self.annotation()
                self.locals.setdefault(_bare(word), []).insert(0, self.var(word, kind, first))
                self.expect(";")
            elif self.accept("let"):
                lets.append((*(yield self.let(bound)), first))
            elif self.next.kind == "graph" and self.words[self.at + 1].text == "=":
                name = self.take().text
                self.take()
                self.graph[name] = yield self.operators()
                self.expect(";")
            else:
                body = yield self.operators()
                if not self.accept(";"):
                    break
                lets.append((Var("_", None, self.span(first)), body, first))
        self.unbind(bound)
        for var, value, first in reversed(lets):
            body = Let(var, value, body, self.span(first))
        return body

    def let(self, bound: list[str]) -> Step:
        """The part after `let`: the variable and its value. A function may call itself."""
        first = self.at
        word = self.word("local", "a variable: let %x = ...")
        kind = yield self.annotation()
        var = self.var(word, kind, first)
        self.expect("=")
        recursive = self.sees("fn")
        if recursive:
            self.bind(_bare(word), var, bound)
        value = yield self.operators()
        self.expect(";")
        if not recursive:
            self.bind(_bare(word), var, bound)
        return var, value

    def var(self, word: Token, kind: Type | None, first: int) -> Var:
        """A new variable. A type that is to be inferred is not an annotation."""
        type_ = None if isinstance(kind, IncompleteType) else kind
        return Var(_bare(word), type_, self.span(first))

    def annotation(self) -> Step:
        """A type behind a colon, if there is one."""
        return (yield self.type()) if self.accept(":") else None

    def operators(self) -> Step:
        """Operands with operators between them."""
        first = self.at
        value = yield self.calls()
        word = self.next
        return (
            (yield self.infix(value, first))
            if word.text in _INFIX and word.kind == "sign"
            else value
        )

    def infix(self, value: Expr, first: int) -> Step:
        """An operand and the operators behind it, the strongest first."""
        values: list[tuple[Any, int]] = [(value, first)]
        waiting: list[tuple[str, int]] = []

        def apply(least: int) -> None:
            while waiting and waiting[-1][1] >= least:
                name, _ = waiting.pop()
                (left, start), (right, _) = values[-2:]
                call = Call(Op.get(name), [left, right], span=self.span(start))
                values[-2:] = [(call, start)]

        while self.next.kind == "sign" and self.next.text in _INFIX:
            name, strength = _INFIX[self.next.text]
            apply(strength)
            self.take()
            waiting.append((name, strength))
            start = self.at
            values.append(((yield self.calls()), start))
        apply(0)
        return values[0][0]

    def calls(self) -> Step:
        """An operand: a value, called and taken apart."""
        first = self.at
        value = self.leaf()
        value = (yield self.atom()) if value is None else value
        while True:
            if self.accept("("):
                value = yield self.call(value, first)
            elif self.accept("."):
                word = self.word("number", "the number of a field")
                if not INDEX.fullmatch(word.text):
                    raise self.error("expected the number of a field", word)
                value = TupleGetItem(value, int(word.text), self.span(first))
            else:
                if not isinstance(value, Expr | Op | GlobalVar):
                    raise self.error("expected an expression", self.words[first])
                return value

    def call(self, callee: BaseExpr, first: int) -> Step:
        """The arguments of a call, and its attributes."""
        args: list[Any] = []
        parsed: dict[str, Any] = {}
        words: dict[str, Token] = {}
        attrs: Any = None
        while not self.accept(")"):
            word = self.next
            name = self.attr_name()
            if name is not None:
                if name in parsed:
                    raise self.error("this attribute was given before", word)
                parsed[name], words[name] = (yield self.attr_value()), word
            else:
                value = self.short()
                value = (yield self.expression()) if value is None else value
                if isinstance(value, Attrs):
                    attrs = value
                else:
                    args.append(value)
            if not self.sees(")"):
                self.expect(",")
        if attrs is None:
            attrs = self.attrs(callee, parsed, words, self.words[first])
        return Call(callee, args, attrs, span=self.span(first))

    def short(self) -> Any:
        """An argument of one word; None if it is more."""
        after = self.words[self.at + 1 : self.at + 2]
        return self.leaf() if after and after[0].text in (",", ")") else None

    def leaf(self) -> Any:
        """A value of one word, or the name of an operator; None for another one."""
        kind = self.next.kind
        if kind == "local":
            return self.local(self.take())
        if kind == "graph":
            return self.line(self.take())
        if kind == "number":
            return self.number()
        if kind == "name" and self.next.text not in _RESERVED:
            return self.operator()
        return None

    def atom(self) -> Step:
        """A value of several words, or one that is seldom."""
        first, word = self.at, self.next
        self.refuse()
        if word.kind == "global":
            return self.global_var(self.take())
        if word.kind == "meta":
            return self.meta_value(Node)
        if self.accept("True") or self.accept("False"):
            return const(word.text == "True", "bool", self.span(first))
        if self.accept("fn"):
            return (yield self.function(first))
        if self.accept("if"):
            return (yield self.branches(first))
        if self.sees("{"):
            return (yield self.block())
        if self.accept("("):
            return (yield self.parentheses(first))
        if word.kind == "string":
            return self.operator()
        raise self.error("expected an expression")

    def line(self, word: Token) -> Any:
        """The value of a line %0."""
        if word.text not in self.graph:
            raise self.error("this line is not defined above", word)
        return self.graph[word.text]

    def number(self) -> Constant:
        """A literal."""
        value, dtype = self.number_of(self.take())
        return const(value, dtype, self.span(self.at - 1))

    def operator(self) -> Any:
        """An operator by its name."""
        first = self.at
        name = self.dotted()
        word = Token("name", name, self.words[first].at)
        try:
            return Op.get(name)
        except AttributeError as error:
            hint = str(error).rpartition("instead: ")[2]
            raise self.error("no operator of this name", word, hint) from None

    def dotted(self) -> str:
        """A name that may have points in it."""
        word = self.take()
        if word.kind == "string":
            return literals.unquoted(word.text)
        parts = [word.text]
        while self.sees(".") and self.words[self.at + 1].kind == "name":
            self.take()
            parts.append(self.take().text)
        return ".".join(parts)

    def parentheses(self, first: int) -> Step:
        """A tuple, or an expression in parentheses."""
        fields = []
        while not self.accept(")"):
            fields.append((yield self.expression()))
            if len(fields) == 1 and self.accept(")"):
                return fields[0]
            if not self.sees(")"):
                self.expect(",")
        return Tuple(fields, self.span(first))

    def block(self) -> Step:
        """An expression in braces."""
        self.expect("{")
        body = yield self.expression()
        self.expect("}")
        return body

    def branches(self, first: int) -> Step:
        """The part after `if`."""
        self.expect("(")
        cond = yield self.expression()
        self.expect(")")
        then = yield self.block()
        self.expect("else")
        other = yield self.block()
        return If(cond, then, other, self.span(first))

    # ------------------------------------------------------------------ functions

    def function(self, first: int) -> Step:
        """A function from its type parameters on."""
        bound: list[str] = []
        generic = self.type_params()
        params: list[Var] = []
        attrs: dict[str, Any] = {}
        self.expect("(")
        while not self.accept(")"):
            name = self.attr_name()
            if name is not None:
                attrs[name] = yield self.attr_value()
            else:
                params.append((yield self.param(bound)))
            if not self.sees(")"):
                self.expect(",")
        attrs.pop("virtual_device", None)  # there is one device
        result = (yield self.type()) if self.accept("->") else None
        result = None if isinstance(result, IncompleteType) else result
        body = yield self.block()
        self.unbind(bound)
        for var in generic:
            self.type_vars[var.name_hint].pop()
        return Function(params, body, result, generic, attrs, self.span(first))

    def param(self, bound: list[str]) -> Step:
        """A parameter."""
        first = self.at
        word = self.word("local", "a parameter: %x: float32")
        if self.accept("{"):  # its device, of which there is one
            if self.attr_name() != "virtual_device":
                raise self.error("expected virtual_device=...")
            yield self.attr_value()
            self.expect("}")
        kind = yield self.annotation()
        return self.bind(_bare(word), self.var(word, kind, first), bound)

    # ------------------------------------------------------------------ attributes

    def attr_name(self) -> str | None:
        """The name of an attribute and `=`, if they are next."""
        end = self.at
        if self.next.kind not in ("name", "string"):
            return None
        while self.words[end + 1].text == "." and self.words[end + 2].kind == "name":
            end += 2
        if self.words[end + 1].kind != "sign" or self.words[end + 1].text != "=":
            return None
        name = self.dotted()
        self.expect("=")
        return name

    def attr_value(self) -> Step:
        """The value of an attribute, in Python."""
        word = self.next
        if word.kind == "number":
            value, dtype = self.number_of(self.take())
            if dtype == "float32" or not word.text.endswith(dtype[-2:]):
                return value
            return (FloatImm if dtype.startswith("float") else IntImm)(dtype, value)
        if word.kind == "string":
            return literals.unquoted(self.take().text)
        if word.kind == "meta":
            return self.meta_value(object)
        if self.accept("True") or self.accept("False"):
            return word.text == "True"
        if self.accept("None") or self.accept("nullptr"):
            return None
        if self.accept("?"):
            return AnyDim()
        if self.accept("["):
            return tuple((yield self.listed("]", self.attr_value)))
        if self.accept("("):
            return tuple((yield self.listed(")", self.attr_value)))
        return (yield self.calls())

    def attrs(
        self, callee: BaseExpr, values: dict[str, Any], tokens: dict[str, Token], word: Token
    ) -> Attrs | None:
        """The attributes of a call, with those that are as by default."""
        if "attrs_type_key" in values:
            key = str(values.pop("attrs_type_key"))
            return DictAttrs(values) if key == "DictAttrs" else Attrs(key, values)
        row = row_of(callee)
        if row is not None:
            return self.row_attrs(row, values, tokens, word)
        if values:
            what = "it is not known what attributes this call takes"
            raise self.error(what, word, 'name their class: attrs_type_key="..."')
        return None

    def row_attrs(
        self, row: Row, parsed: dict[str, Any], tokens: dict[str, Token], word: Token
    ) -> Attrs | None:
        """The attributes of a call of an operator with a row."""
        for name in parsed:
            if name not in row.attr_names:
                hint = suggest(name, row.attr_names, f"{row.name} has")
                what = f"{row.name} has no attribute of this name"
                raise self.error(what, tokens[name], hint if row.attr_names else None)
        values = {n: parsed.get(n, row.defaults.get(n, REQUIRED)) for n in row.attr_names}
        missing = [n for n, value in values.items() if value is REQUIRED]
        if missing:
            raise self.error(f"{row.name} needs the attribute {', '.join(missing)}", word)
        plain = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}
        return Attrs(row.attrs_key, plain) if plain else None


def _bare(word: Token) -> str:
    """The name behind % or @."""
    name = word.text[1:]
    return literals.unquoted(name) if name.startswith('"') else name
