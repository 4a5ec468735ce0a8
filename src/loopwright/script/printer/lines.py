"""Which node each line of a printed text is: `numbered(node)`."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ...ir.node import Node
from ...tir import stmt as ts
from .config import PrinterConfig
from .core import Printer
from .doc import Nest

# Private characters, which no printed text contains (`quote` escapes them), around a number.
_BEGIN, _END = "\ue002", "\ue003"
_IMPORT = re.compile(r"# from \S+ import |\s*$")


# Statements whose own line has their bodies below it.
_NESTS = (ts.For, ts.IfThenElse, ts.While, ts.BlockRealize)


class Lines(NamedTuple):
    """A text by lines, and the statement, binding or function that begins on each; None for a line
    that goes on, or has none."""

    texts: list[str]
    nodes: list[Node | None]

    @property
    def text(self) -> str:
        """The whole text."""
        return "\n".join(self.texts)

    def numbers(self) -> dict[int, int]:
        """The 1-based number of the line on which each node begins, by `id(node)`."""
        return {id(node): n for n, node in enumerate(self.nodes, 1) if node is not None}


class _Numbered(Printer):
    def __init__(self, root: Any, config: PrinterConfig) -> None:
        super().__init__(root, config)
        self.printed: list[Node] = []

    def stmt(self, node: Any, out: list) -> None:
        start = len(out)
        super().stmt(node, out)
        if start == len(out) or not isinstance(node, Node):
            return
        at = self.head(node, out, start)
        line = out[at]
        head = line.heads[0] if isinstance(line, Nest) else line
        if not isinstance(head, str) or head.startswith(_BEGIN) or _IMPORT.match(head):
            return  # the statement within has marked it
        marked = f"{_BEGIN}{len(self.printed)}{_END}{head}"
        self.printed.append(node)
        if isinstance(line, Nest):
            line.heads = [marked, *line.heads[1:]]
        else:
            out[at] = marked

    @staticmethod
    def head(node: Node, out: list, start: int) -> int:
        """The place of a statement's own line: definitions of free buffers come before it."""
        if isinstance(node, _NESTS):
            nests = (k for k in range(start, len(out)) if isinstance(out[k], Nest))
            return next(nests, start)
        return start if hasattr(node, "body") else len(out) - 1


def numbered(node: Node, name: str = "") -> Lines:
    """The text of a node, a function under the name `name`, without the comments that name the
    dialects, and the node of each line."""
    printer = _Numbered(node, PrinterConfig(binding_names=[name] if name else []))
    texts: list[str] = []
    nodes: list[Node | None] = []
    for line in printer.run().split("\n"):
        if not texts and _IMPORT.match(line):
            continue
        margin, mark, rest = line.partition(_BEGIN)
        number, _, text = rest.partition(_END)
        texts.append(margin + text)
        nodes.append(printer.printed[int(number)] if mark else None)
    return Lines(texts, nodes)


__all__ = ["Lines", "numbered"]
