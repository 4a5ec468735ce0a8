"""Several errors in one report."""

from __future__ import annotations

import pytest

from loopwright.base.errors import DiagnosticError, LoopwrightError, TVMError
from loopwright.base.span import Span, register_source
from loopwright.ir.diagnostics import (
    DiagnosticContext,
    DiagnosticLevel,
    Diagnostics,
    override_renderer,
)
from loopwright.script import from_source


def test_all_errors_are_told_together():
    register_source("<diagnostics>", "first line\nsecond = wrong\n")
    with pytest.raises(DiagnosticError) as error, Diagnostics("2 problems") as found:
        found.error("no such name", Span("<diagnostics>", 2, 2, 10, 15))
        found.warning("unused")
        found.error("no such op", Span("onnx:/fc1/Gemm"))
        found.error("no such op", Span("onnx:/fc1/Gemm"))
    assert str(error.value) == (
        "2 problems\n"
        "error: no such name\n"
        " --> <diagnostics>:2:10\n"
        "   |\n"
        " 2 | second = wrong\n"
        "   |          ^^^^^\n"
        "warning: unused\n"
        "error: no such op\n"
        " --> onnx:/fc1/Gemm"
    )


def test_warnings_alone_raise_nothing():
    with Diagnostics() as found:
        found.warning("careful")
        found.emit(DiagnosticLevel.HELP, "try this")
    assert not found.has_errors
    assert found.render() == "warning: careful\nhelp: try this"


@pytest.mark.parametrize("level", DiagnosticLevel)
def test_what_is_an_error(level, capsys):
    context = DiagnosticContext("a module")
    context.emit(level, "said", None)
    assert context.module == "a module" and len(context.diagnostics) == 1
    text = f"{level.name.lower()}: said"
    if level in (DiagnosticLevel.BUG, DiagnosticLevel.ERROR):
        for tell in (context.check, context.render):
            with pytest.raises(DiagnosticError) as error:
                tell()
            assert str(error.value) == text
    else:
        context.check()
        assert context.render() == text
    assert text in "".join(capsys.readouterr())


def test_another_exception_is_not_replaced():
    with pytest.raises(KeyError), Diagnostics() as found:
        found.error("first")
        raise KeyError("second")


def test_class_of_the_error():
    assert issubclass(DiagnosticError, LoopwrightError)
    assert TVMError is LoopwrightError
    assert issubclass(TVMError, RuntimeError)


def test_a_renderer_of_ones_own():
    seen = []
    override_renderer(lambda found: seen.extend(found.diagnostics))
    try:
        with pytest.raises(DiagnosticError):
            from_source("@T.prim_func\ndef f(a: T.handle):\n    A = T.match_buffer(a, (n,))\n")
        assert [(d.level, d.span.line) for d in seen] == [(DiagnosticLevel.ERROR, 3)]
        assert "-->" not in seen[0].message
        context = DiagnosticContext()
        context.error("too wide")
        with pytest.raises(DiagnosticError, match="too wide"):
            context.render()
        assert seen[-1].message == "too wide"
    finally:
        override_renderer(None)
