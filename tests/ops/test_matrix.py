"""Every operator's samples: numpy's meaning, the graph interpreter, the loops of its body in the
TensorIR interpreter and compiled code agree; the struct info that was inferred is what comes out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright.driver import compile
from loopwright.ir.dtype import numpy_dtype
from loopwright.ir.functor import post_order_visit
from loopwright.ir.op import Op
from loopwright.ops.core import OPERATORS, Case
from loopwright.relax.analysis import well_formed
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import LegalizeOps

from .matrix import CASES, IDS, make

TOLERANCE = {"float16": 2e-2, "float32": 2e-5, "float64": 1e-10}


def agree(got: Any, expected: Any) -> None:
    """Equal within the rounding of the dtype; tuples item by item."""
    if isinstance(expected, tuple):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            agree(a, b)
        return
    got = got.numpy() if hasattr(got, "numpy") else np.asarray(got)
    expected = np.asarray(expected)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    bound = TOLERANCE.get(str(expected.dtype), 0)
    np.testing.assert_allclose(got, expected, rtol=bound, atol=bound)


@pytest.mark.parametrize(("operator", "case"), CASES, ids=IDS)
def test_sample(operator, case):
    sample = make(operator, case)
    expected = sample.expected()
    sample.check_type(expected)
    agree(Interpreter(sample.module)["main"](*sample.inputs), expected)
    lowered = LegalizeOps()(sample.module)
    assert well_formed(lowered)
    left: list[str] = []
    post_order_visit(
        lowered["main"], lambda node: left.append(node.name) if isinstance(node, Op) else None
    )
    if operator.op.has_attr("FLegalize"):
        lowest = (["relax.call_tir"], ["relax.call_pure_packed"], [])  # []: is its argument
        assert left in lowest, f"not lowered: {left}"
    agree(Interpreter(lowered)["main"](*sample.inputs), expected)


def _compiled() -> list[Any]:
    """All samples; the first of each operator in every run of the suite, the others when there
    is time."""
    return [
        pytest.param(
            operator, case, id=name, marks=[] if case is operator.cases[0] else pytest.mark.slow
        )
        for (operator, case), name in zip(CASES, IDS, strict=True)
    ]


@pytest.mark.sample(2)
@pytest.mark.no_roundtrip
@pytest.mark.parametrize(("operator", "case"), _compiled())
def test_compiled(operator, case):
    sample = make(operator, case)
    agree(compile(sample.module, "llvm")["main"](*sample.inputs), sample.expected())


ALL = list(OPERATORS.items())


def _scalars() -> list[Any]:
    """Each operator of several tensors, with each of them in turn."""
    places = {n: [k for k, p in enumerate(o.graph_params) if p.kind == "Tensor"] for n, o in ALL}
    return [
        pytest.param(o, k, id=f"{n}-{o.graph_params[k].name}")
        for n, o in ALL
        if o.cases and len(places[n]) > 1
        for k in places[n]
    ]


@pytest.mark.parametrize(("operator", "which"), _scalars())
def test_a_number_that_is_constant_is_a_tensor_too(operator, which):
    """A constant of rank 0 (a literal in the loops) beside tensors that are not, whatever their
    ranks: refused when the call is made, or computed."""
    case = operator.cases[0]
    for rank_0 in (False, True):
        args = list(case.args)
        for k, p in enumerate(operator.graph_params[: len(args)]):
            if p.kind == "Tensor" and (k == which or rank_0):
                args[k] = (
                    _number(case, args[k]) if k == which else np.asarray(_number(case, args[k]))
                )
        try:
            sample = make(operator, replace(case, args=tuple(args)))
            expected = sample.expected()
        except (lw.LoopwrightError, ValueError, TypeError, IndexError):
            continue  # not a call
        agree(Interpreter(LegalizeOps()(sample.module))["main"](*sample.inputs), expected)


def _number(case: Case, given: Any) -> Any:
    """One element of an argument, or a 1 of the case's type."""
    if isinstance(given, (np.ndarray, np.generic)) and np.size(given):
        return np.asarray(given).flat[0]
    return np.ones((), numpy_dtype(case.dtype))[()]


def test_every_operator_has_samples_and_a_meaning():
    ours = [op for name, op in OPERATORS.items() if name.startswith("relax.")]
    missing = [op.name for op in ours if not op.cases]
    assert not missing, f"add samples to {missing}"
    mute = [op.name for op in ours if not op.op.has_attr("FNumpy")]
    assert not mute, f"say with numpy what these mean: {mute}"
