"""Each exported name says what it is, what it takes and raises, with an example that runs.

The example of a function or class is in the form of doctest; that of a schedule primitive the program before
and after (`tests/tir/schedule/test_docstrings.py` runs it), that of an operator a function in TVMScript.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pydoc
import re
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from loopwright import relax, tir
from loopwright.base.registry import is_own
from loopwright.ir.structural import assert_structural_equal
from loopwright.ops.core import OPERATORS, Builder
from loopwright.ops.describe import example, sample
from loopwright.script import from_source
from tools.reference import public

from ..llm.models import config, random_weights, write_folder
from .diffs import BOTH
from .source import PACKAGE, forbid

MODULES = ["loopwright", "loopwright.te", "loopwright.frontend", "loopwright.frontend.onnx"]
MODULES += ["loopwright.frontend.tflite", "loopwright.frontend.nn", "loopwright.frontend.nn.op"]
MODULES += ["loopwright.llm", "loopwright.serve"]
MODULES += ["loopwright.frontend.torch"] if find_spec("torch") else []
# What examples need not import.
IMPORTS = """
import numpy as np, loopwright as lw
from loopwright import llm, relax, te, tir
from loopwright.frontend import nn
from loopwright.frontend.nn import op
from loopwright.script import ir as I, relax as R, tir as T
"""
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def exported() -> dict[str, object]:
    """The names, each object once."""

    def pairs() -> Iterator[tuple[str, object]]:
        for path in MODULES:
            yield from ((f"{path}.{n}", v) for n, v in public(importlib.import_module(path)))
        for method in sorted(vars(tir.Schedule)):
            if not method.startswith("_"):
                yield f"tir.Schedule.{method}", getattr(tir.Schedule, method)
        for view in (
            relax.op,
            *(v for v in vars(relax.op).values() if isinstance(v, relax.op._View)),
        ):
            for name, value in public(view):
                if not isinstance(value, Builder) and name not in (
                    "load_definitions",
                    "register_view",
                ):
                    yield f"{view.__name__}.{name}", value

    seen: dict[int, tuple[str, object]] = {}
    for name, value in pairs():
        seen.setdefault(id(value), (name, value))
    return dict(seen.values())


NAMES = exported()


def raised(value: object) -> set[str]:
    """The errors that the body of a function, or of a class's constructor, raises itself."""
    function = inspect.unwrap(
        getattr(value, "__init__", value) if isinstance(value, type) else value
    )
    if not inspect.isfunction(function) or function.__code__.co_filename.startswith("<"):
        return set()  # generated code
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    inner = [n for n in ast.walk(tree.body[0]) if isinstance(n, ast.FunctionDef)][1:]
    nested = {id(n) for function in inner for n in ast.walk(function)}
    found = {
        n.exc.func.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Raise) and id(n) not in nested
        and isinstance(n.exc, ast.Call) and isinstance(n.exc.func, ast.Name)
    }  # fmt: skip
    return {n for n in found if n.endswith("Error")}


def test_docstrings_name_what_is_raised():
    silent = [
        f"{name}: {error}"
        for name, value in NAMES.items()
        for error in sorted(raised(value))
        if error.removeprefix("Call") not in (inspect.getdoc(value) or "")
    ]
    forbid("a docstring names the errors that its function raises", silent, "Raises NAME ...")


def test_parameters_have_types_or_a_description():
    silent = []
    for name, value in NAMES.items():
        if inspect.isfunction(value):
            for p in inspect.signature(value).parameters.values():
                text = inspect.getdoc(value) or ""
                described = (
                    p.annotation is not p.empty and p.annotation != "Any"
                ) or p.name in text
                if not described and p.name not in ("self", "span"):
                    silent.append(f"{name}: {p.name}")
    forbid("parameters have types or are described", silent, "annotate, or say what it takes")


def test_docstrings_have_an_example():
    silent = [
        n
        for n, v in NAMES.items()
        if not any(m in (inspect.getdoc(v) or "") for m in (">>> ", BOTH))
    ]
    forbid("what is exported shows an example", silent, "add one to the docstring: >>> call")


@pytest.mark.budget(15)
@pytest.mark.no_roundtrip
def test_examples_run(monkeypatch, forgotten, tmp_path):
    """In a folder with two models."""
    (tmp_path / "model.onnx").write_bytes((PACKAGE / "driver/data/digits.onnx").read_bytes())
    tiny = config("llama")
    write_folder(tmp_path / "tiny-llama", tiny, random_weights(tiny))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(IMPORTS, names)
    parser, runner = (
        doctest.DocTestParser(),
        doctest.DocTestRunner(optionflags=FLAGS, verbose=False),
    )
    failed: list[str] = []
    for name, value in NAMES.items():
        test = parser.get_doctest(inspect.getdoc(value) or "", dict(names), name, None, 0)
        runner.run(test, out=failed.append)
    forbid("examples of docstrings print what they show", failed, "correct the example")


def test_operators_describe_themselves():
    """The example of each is a function of TVMScript, whose inferred type is the one that it shows."""
    own = [entry.value for entry in OPERATORS.entries() if is_own(entry.origin)]
    silent = [op.name for op in own if not op.__doc__ or sample(op) is None]
    forbid("operators have a sentence and a sample of fixed shapes", silent, "add a case")
    for operator in own:
        shown = example(operator)
        parsed = from_source(shown)
        (binding,) = parsed.body.blocks[0].bindings
        assert binding.value.op is operator.op
        assert_structural_equal(binding.value.struct_info, parsed.ret_struct_info)


def test_the_docstring_of_an_operator():
    operator = OPERATORS["relax.nn.conv2d"]
    text = inspect.getdoc(relax.op.nn.conv2d)
    assert (
        text.startswith("2-D convolution: ")
        and "\nstrides: an integer or several, (1, 1) by" in text
    )
    assert textwrap.indent(example(operator), "    ") in text
    assert "Raises TypeError for data of another dtype: operands of different dtypes." in text
    shown = pydoc.plain(pydoc.render_doc(relax.op.nn.conv2d))  # a line or, since 3.13, several
    assert "conv2d(data:'Expr',weight:'Expr'" in re.sub(r"\s", "", shown)
