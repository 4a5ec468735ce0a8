"""Relay's texts as programs: `parse` a module, `parse_expr` an expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....base.errors import DiagnosticError
from ....base.span import register_source
from ....ir.diagnostics import report
from ....ir.module import IRModule
from ..stackless import Step, run
from ..transform.infer_type import InferType
from ..transform.span_check import SpanCheck
from .grammar import Parser
from .lexer import Source


def parse(
    source: str,
    source_name: str = "from_string",
    init_module: IRModule | None = None,
    init_meta_table: Mapping[str, Sequence[Any]] | None = None,
) -> IRModule:
    """The module of a text, with its types.

    init_module: has functions that the text may call, which the result has too. init_meta_table:
    the objects of `meta[key][index]`, after those of the text's own metadata. Raises
    DiagnosticError.
    """
    parser = _parser(source, source_name, init_meta_table, init_module)
    functions = _run(parser.module())
    before = IRModule() if init_module is None else init_module
    return InferType()(before.with_functions(functions))


def parse_expr(source: str) -> Any:
    """The expression of a text; its types are not inferred. Raises DiagnosticError."""
    return _run(_parser(source, "string").expression_alone())


def fromtext(source: str, source_name: str = "from_string") -> IRModule:
    """The module of a text, as `parse`."""
    return parse(source, source_name)


def _parser(
    text: str,
    name: str,
    init_meta: Mapping[str, Sequence[Any]] | None = None,
    module: IRModule | None = None,
) -> Parser:
    register_source(name, text)
    source = Source(name, text)
    try:
        return Parser(source, init_meta or {}, module)
    except DiagnosticError as error:
        report(error)
        raise


def _run(step: Step) -> Any:
    try:
        return run(step)
    except DiagnosticError as error:
        report(error)
        raise
