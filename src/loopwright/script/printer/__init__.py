"""The printer of TVMScript: `script(node)` is its text, `show(node)` prints it.

They are `node.script()`, `node.show()` and `repr(node)`, too, which are in lower layers: see `PRINTER`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir import node as _node
from ...ir.node import Node
from . import ir, relax, relax_info, tir_buffer, tir_expr, tir_stmt, tir_var
from .config import PrinterConfig
from .core import Printer
from .highlight import cprint

if TYPE_CHECKING:
    from ...ir.module import IRModule
    from ...ir.prim_expr import PrimExpr


def script(node: Node, config: PrinterConfig | None = None, **options: Any) -> str:
    """The TVMScript of a node. Options: the fields of `PrinterConfig`.

    Raises TypeError for an unknown option.
    """
    return Printer(node, config if config is not None else PrinterConfig(**options)).run()


def show(
    node: IRModule | PrimExpr,
    style: str | None = None,
    black_format: bool | None = None,
    **options: Any,
) -> None:
    """Print the TVMScript of a node, coloured when the output is a terminal.

    style: "light", "dark", "ansi" or a pygments style. black_format: run the text through `black`.
    """
    cprint(script(node, **options), style=style, black_format=black_format)


def repr_text(node: Node) -> str:
    """The text of `repr(node)` and `print(node)`; for an ill-formed node its kind."""
    try:
        return Printer(node, PrinterConfig()).run()
    except Exception as error:  # a repr is often part of an error's report: it must not fail
        return f"<{type(node).__name__} that cannot be printed: {error}>"


PRINTER = _node.Printer(script, show, repr_text)
