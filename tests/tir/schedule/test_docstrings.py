"""Each primitive's docstring: the call, and the program before and after it as one diff."""

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

from ...house.diffs import BOTH, sides
from .intrinsics import scaled
from .util import outcome

_QUERIES = {
    "GetBlock",
    "GetLoops",
    "GetChildBlocks",
    "GetProducers",
    "GetConsumers",
    "GetOutputBlocks",
    "Decide",
    "EnterPostproc",
    "SampleCategorical",
    "SamplePerfectTile",
    "SamplePartitionedTile",
    "SampleComputeLocation",
    "CanDecomposePadding",
}


HEAD = r"\s+``(.*?)``,\s+with\s+``(.*?)``(?:\s+that become\s+``(.*?)``)?::\n(.*)\Z"
EXAMPLE = re.compile(re.escape(BOTH) + HEAD, re.DOTALL)


def example(kind: str) -> tuple[str, str, str]:
    """(before, call, after) of a primitive's docstring."""
    match = EXAMPLE.search(inspect.cleandoc(KINDS[kind].fn.__doc__ or ""))
    assert match, f"{kind} has no example {BOTH}"
    call, given, changed, diff = match.groups()
    before, after = (textwrap.indent(text, "    ") for text in sides(diff))
    head = "@T.prim_func\ndef main({}):\n".format
    return head(given) + before, re.sub(r"\s+", " ", call), head(changed or given) + after


@pytest.mark.parametrize("kind", sorted(set(KINDS) - _QUERIES))
def test_example(kind: str) -> None:
    before, call, after = example(kind)
    func = from_source(before)
    sch = tir.Schedule(func)
    exec(call, {"sch": sch, "tir": tir, "double": scaled(2, n=8)})
    expected = from_source(after)
    assert_structural_equal(sch.mod["main"], expected)
    for want, got in zip(
        outcome(func, {"n": 17}), outcome(sch.mod["main"], {"n": 17}), strict=True
    ):
        if want.shape == got.shape:
            np.testing.assert_allclose(got, want, rtol=1e-5)


def test_every_primitive_is_a_method() -> None:
    for spec in KINDS.values():
        assert getattr(tir.Schedule, spec.fn.__name__).__doc__
