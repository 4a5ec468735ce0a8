"""Each primitive's docstring: the program before, the call, and the program after."""

from __future__ import annotations

import inspect
import re
import textwrap

import numpy as np
import pytest

from loopwright import tir
from loopwright.ir.structural import assert_structural_equal
from loopwright.script import from_source
from loopwright.tir.schedule.machinery.instruction import KINDS

from .util import outcome

_QUERIES = {
    "GetBlock",
    "GetLoops",
    "GetChildBlocks",
    "GetProducers",
    "GetConsumers",
    "GetOutputBlocks",
    "EnterPostproc",
    "SampleCategorical",
    "SamplePerfectTile",
    "SamplePartitionedTile",
    "SampleComputeLocation",
    "CanDecomposePadding",
}


_DESC = """
@T.prim_func
def desc(X: T.Buffer((8,), "float32", offset_factor=1), Y: T.Buffer((8,), "float32", offset_factor=1)):
    for j in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, j)
            Y[v] = X[v] * T.float32(2)
"""
_IMPL = """
@T.prim_func
def impl(X: T.Buffer((8,), "float32", offset_factor=1), Y: T.Buffer((8,), "float32", offset_factor=1)):
    with T.block("root"):
        Y[0:8] = X[0:8] * T.Broadcast(T.float32(2), 8)
"""
DOUBLE = tir.TensorIntrin(from_source(_DESC), from_source(_IMPL))


def function(parameters: str, body: str) -> str:
    """An example as a whole function."""
    body = textwrap.indent(textwrap.dedent(body), "    ")
    return f"@T.prim_func\ndef main({parameters}):\n{body}"


def example(kind: str) -> tuple[str, str, str]:
    """(before, call, after) of a primitive's docstring."""
    text = inspect.cleandoc(KINDS[kind].fn.__doc__ or "")
    parts = r"^Before, with ``(.*?)``::\n(.*?)^After ``(.*?)``(?:, with\s+``(.*?)``)?::\n(.*)\Z"
    match = re.search(parts, text, re.S | re.M)
    assert match, f"{kind} has no Before/After"
    given, before, call, changed, after = match.groups()
    call = re.sub(r"\s+", " ", call)
    return function(given, before), call, function(changed or given, after)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - _QUERIES))
def test_example(kind: str) -> None:
    before, call, after = example(kind)
    func = from_source(before)
    sch = tir.Schedule(func)
    exec(call, {"sch": sch, "tir": tir, "double": DOUBLE})
    expected = from_source(after)
    assert_structural_equal(sch.mod["main"], expected)
    for want, got in zip(outcome(func), outcome(sch.mod["main"]), strict=True):
        if want.shape == got.shape:
            np.testing.assert_allclose(got, want, rtol=1e-5)


def test_every_primitive_is_a_method() -> None:
    for spec in KINDS.values():
        assert getattr(tir.Schedule, spec.fn.__name__).__doc__
