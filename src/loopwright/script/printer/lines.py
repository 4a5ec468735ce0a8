"""Which node each line of a printed text is: `numbered(node)`."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...ir.functor import allow_deep_programs
from ...ir.node import Node
from ...tir import stmt as ts
from .config import PrinterConfig
from .core import Printer
from .doc import Nest, flatten

_IMPORT = re.compile(r"# from \S+ import |\s*$")


# Statements whose own line has their bodies below it.
_NESTS = (ts.For, ts.IfThenElse, ts.While, ts.BlockRealize)


class Lines(NamedTuple):
    """A text by lines, and the statement, binding or function that begins on each; None for a
    continuation line, or one without a node."""

    texts: list[str]
    nodes: list[Node | None]

    @property
    def text(self) -> str:
        """The whole text."""
        return "\n".join(self.texts)

    def numbers(self) -> dict[int, int]:
        """The 1-based number of the line on which each node begins, by `id(node)`."""
        return {id(node): n for n, node in enumerate(self.nodes, 1) if node is not None}


class _Line(str):
    """The first line of a statement."""

    __slots__ = ("node",)


class _Numbered(Printer):
    def decorate(self, node: Node, out: list, start: int) -> None:
        if start == len(out):
            return
        at = self.head(node, out, start)
        line = out[at]
        head = line.heads[0] if type(line) is Nest else line
        owner = head.node if type(head) is _Line else None
        if _IMPORT.match(head) or (owner is not None and owner is not getattr(node, "block", None)):
            return  # the statement within has marked it
        marked = _Line(head)
        marked.node = node
        if type(line) is Nest:
            line.heads[0] = marked
        else:
            out[at] = marked

    @staticmethod
    def head(node: Node, out: list, start: int) -> int:
        """The index of a statement's own line: definitions of free buffers come before it."""
        if isinstance(node, _NESTS):
            nests = (k for k in range(start, len(out)) if type(out[k]) is Nest)
            return next(nests, start)
        return start if hasattr(node, "body") else len(out) - 1


def numbered(node: Node, name: str = "") -> Lines:
    """The text of a node, a function under the name `name`, without the comments that name the
    dialects, and the node of each line."""
    allow_deep_programs()
    config = PrinterConfig(binding_names=[name] if name else [])
    lines = flatten(_Numbered(node, config).statements(), config.indent_spaces)
    while lines and _IMPORT.match(lines[0][1]):
        del lines[0]
    return Lines(
        [margin + line for margin, line in lines],
        [line.node if type(line) is _Line else None for _, line in lines],
    )
