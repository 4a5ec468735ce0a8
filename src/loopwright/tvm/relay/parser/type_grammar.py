"""The words of Relay's texts, and the grammar of types."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....base.errors import DiagnosticError, suggest
from ....ir.node import Node
from ....ir.prim_expr import PrimExpr
from .. import literals, meta
from ..left_out import refusal
from ..stackless import Step
from ..types import Any as AnyDim
from ..types import FuncType, IncompleteType, TensorType, TupleType, TypeKind, TypeVar
from .lexer import Source, Token, tokens

LEFT_OUT = {"type", "extern", "match", "ref", "ref_read", "ref_write"}
INDEX = re.compile("[0-9]{1,9}")
_KINDS = {
    "Type": TypeKind.Type,
    "Shape": TypeKind.ShapeVar,
    "BaseType": TypeKind.BaseType,
    "Constraint": TypeKind.Constraint,
    "AdtHandle": TypeKind.AdtHandle,
    "TypeData": TypeKind.TypeData,
}


class TypeParser:
    """Reads words and types of one text. more: see `Parser`."""

    def __init__(self, source: Source, more: Mapping[str, Sequence[Any]]) -> None:
        self.source = source
        self.words = list(tokens(source))
        self.meta = self._metadata()
        for key, values in more.items():
            self.meta[key] = [*self.meta.get(key, ()), *values]
        self.at = 0
        self.type_vars: dict[str, list[TypeVar]] = {}

    def _metadata(self) -> dict[str, list[Any]]:
        """The metadata at the end of the text."""
        if len(self.words) < 2 or self.words[-2].kind != "metadata":
            return {}
        word = self.words.pop(-2)
        try:
            return meta.read(word.text)
        except ValueError as error:
            raise self.source.error(str(error), word.at, word.at + 1) from None

    # ------------------------------------------------------------------ words

    @property
    def next(self) -> Token:
        """The word to be read."""
        return self.words[self.at]

    def take(self) -> Token:
        """Read a word."""
        word = self.words[self.at]
        self.at += word.kind != "end"
        return word

    def sees(self, *texts: str) -> bool:
        """Whether the next word is a sign or name of these."""
        word = self.words[self.at]
        return word.text in texts and word.kind in ("sign", "name")

    def accept(self, text: str) -> bool:
        """Read this sign or name if it is next."""
        seen = self.sees(text)
        self.at += seen
        return seen

    def expect(self, text: str) -> None:
        """Read this sign or name."""
        if not self.accept(text):
            raise self.error(f"expected `{text}`")

    def word(self, kind: str, what: str) -> Token:
        """Read a word of a kind."""
        if self.next.kind != kind:
            raise self.error(f"expected {what}")
        return self.take()

    def error(
        self, what: str, word: Token | None = None, instead: str | None = None
    ) -> DiagnosticError:
        """An error at a word, by default the next one."""
        word = self.next if word is None else word
        end = word.at + max(1, len(word.text))
        got = "the end of the text" if word.kind == "end" else word.text[:80]
        return self.source.error(what, word.at, end, got, instead)

    def span(self, first: int) -> Any:
        """The place from word number `first` to the one read last."""
        last = self.words[max(self.at - 1, first)]
        return self.source.span(self.words[first].at, last.at + len(last.text))

    def listed(self, end: str, item: Callable[[], Step]) -> Step:
        """Items with commas between them, and behind them `end`."""
        items = []
        while not self.accept(end):
            items.append((yield item()))
            if not self.sees(end):
                self.expect(",")
        return items

    def refuse(self) -> None:
        """Raise where the next word belongs to a part of Relay that is left out."""
        if self.next.text in LEFT_OUT and self.next.kind == "name":
            what, instead = refusal(self.next.text)
            raise self.error(what, instead=instead)

    def number_of(self, word: Token) -> tuple[Any, str]:
        """The value of a literal and its dtype."""
        try:
            return literals.number(word.text)
        except ValueError as error:
            raise self.error(str(error), word) from None

    def meta_value(self, kind: type) -> Any:
        """What `meta[key][index]` names."""
        word = self.word("meta", "metadata: meta[relay.Constant][0]")
        key, _, index = word.text[len("meta[") : -1].partition("][")
        values = self.meta.get(key)
        if values is None:
            hint = suggest(key, self.meta, "there are") if self.meta else "the text has no metadata"
            raise self.error("the text has no metadata of this class", word, hint)
        if not (INDEX.fullmatch(index) and int(index) < len(values)):
            raise self.error(f"there are {len(values)} metadata of the class {key}", word)
        value = values[int(index)]
        if not isinstance(value, kind):
            raise self.error("these metadata are not allowed here", word)
        return value

    # ------------------------------------------------------------------ types

    def type(self) -> Step:
        """A type."""
        word = self.next
        self.refuse()
        if self.accept("("):
            return TupleType((yield self.listed(")", self.type)))
        if self.accept("fn"):
            return (yield self.function_type())
        if self.accept("_"):
            return IncompleteType()
        if word.kind == "meta":
            return self.meta_value(Node)
        if self.accept("Tensor"):
            self.expect("[")
            self.expect("(")
            shape = self.shape()
            self.expect(",")
            dtype = self.dtype()
            self.expect("]")
            return TensorType(shape, dtype)
        if word.kind == "name":
            variables = self.type_vars.get(word.text)
            return (self.take() and variables[-1]) if variables else TensorType((), self.dtype())
        raise self.error("expected a type", instead="Tensor[(2, 3), float32], or float32")

    def dtype(self) -> str:
        """The name of a dtype."""
        word = self.word("name", "a dtype")
        name = word.text
        if name == "custom" and self.accept("["):
            inner = self.word("name", "the name of a type").text
            self.expect("]")
            name = f"custom[{inner}]{self.word('number', 'a number of bits').text}"
        try:
            return TensorType((), name).dtype
        except ValueError:
            hint = "Tensor[(2, 3), float32], or float32; algebraic data types are left out"
            raise self.error("this is not a type", word, hint) from None

    def shape(self) -> list[Any]:
        """Extents up to a parenthesis."""
        dims: list[Any] = []
        while not self.accept(")"):
            dims.append(self.dim())
            if not self.sees(")"):
                self.expect(",")
        return dims

    def dim(self) -> Any:
        """An extent."""
        if self.accept("?"):
            return AnyDim()
        if self.next.kind == "meta":
            return self.meta_value(PrimExpr)
        word = self.word("number", "an extent")
        value, _ = self.number_of(word)
        if not isinstance(value, int) or not 0 <= value < 2**31:
            raise self.error("an extent is a number below 2**31", word)
        return value

    def function_type(self) -> Step:
        """The part after `fn` in a type."""
        generic = self.type_params()
        self.expect("(")
        args = yield self.listed(")", self.type)
        self.expect("->")
        result = yield self.type()
        for var in generic:
            self.type_vars[var.name_hint].pop()
        return FuncType(args, result, generic)

    def type_params(self) -> list[TypeVar]:
        """Type variables in brackets, if there are any."""
        variables: list[TypeVar] = []
        if self.accept("["):
            while not self.accept("]"):
                name = self.word("name", "the name of a type").text
                kind = "Type"
                if self.accept(":"):
                    kind = self.word("name", "a kind").text
                    if kind not in _KINDS:
                        hint = suggest(kind, _KINDS)
                        raise self.error("this is not a kind", self.words[self.at - 1], hint)
                variables.append(TypeVar(name, _KINDS[kind]))
                self.type_vars.setdefault(name, []).append(variables[-1])
                if not self.sees("]"):
                    self.expect(",")
        return variables
