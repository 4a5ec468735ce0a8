"""Every operator's samples: numpy's meaning, the graph interpreter, the loops of its body in the
TensorIR interpreter and compiled code agree; the struct info that was inferred is what comes out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.driver import compile
from loopwright.ir.dtype import numpy_dtype
from loopwright.ir.functor import post_order_visit
from loopwright.ir.op import Op
from loopwright.ops.core import OPERATORS, Case, Operator
from loopwright.relax.analysis import well_formed
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import LegalizeOps

from .matrix import CASES, IDS, Sample, make

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


@pytest.mark.sample(2)
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
        lowest = (
            ["relax.call_tir"],
            ["relax.call_tir_inplace"],
            ["relax.call_pure_packed"],
            ["relax.call_dps_packed"],
            [],
        )  # []: is its argument
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


@pytest.mark.sample(8)
@pytest.mark.no_roundtrip
@pytest.mark.parametrize(("operator", "case"), _compiled())
def test_compiled(operator, case):
    sample = make(operator, case)
    agree(compile(sample.module, "llvm")["main"](*sample.inputs), sample.expected())


ALL = list(OPERATORS.items())


# Each operator of several tensors, with each of them in turn, and a case that gives it.
TENSORS = [
    (o, k, case, f"{n}-{p.name}")
    for n, o in ALL
    if sum(p.kind == "Tensor" for p in o.graph_params) > 1
    for k, p in enumerate(o.graph_params)
    for case in [c for c in o.cases if len(c.args) > k and c.args[k] is not None][:1]
    if p.kind == "Tensor"
]
# Calls of these with a number beside tensors, and beside other numbers; all others are refused.
TAKEN = {"number": 98, "numbers": 88}


def with_constant(operator: Operator, which: int, case: Case) -> dict[str, Sample]:
    """The case with one of its tensors a constant: as it is, and where the call is not refused a
    number (a literal in the loops) beside tensors of the case's ranks and of rank 0."""
    first = make(operator, case)
    pairs = list(zip(operator.graph_params, case.args, first.args))
    arrays = {k: v for k, (p, g, v) in enumerate(pairs) if p.kind == "Tensor" and g is not None}
    numbers = {k: _number(case, v) for k, v in arrays.items()}
    made = {}
    for name, constant, beside in (
        ("constant", arrays, arrays),
        ("number", numbers, {}),
        ("numbers", numbers, numbers),
    ):
        args = {**dict(enumerate(case.args)), **beside, which: relax.const(constant[which])}
        try:
            made[name] = make(operator, replace(case, args=tuple(args.values())))
        except lw.LoopwrightError:
            assert name != "constant", "a constant of the shape that it has must be taken"
    return made


def _number(case: Case, given: np.ndarray) -> np.ndarray:
    """One element of an argument, or a 1 of the case's type."""
    return given.reshape(-1)[0] if given.size else np.ones((), numpy_dtype(case.dtype))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("operator", "which", "case"), [row[:3] for row in TENSORS], ids=[row[3] for row in TENSORS]
)
def test_a_constant_is_a_tensor_too(operator, which, case):
    for sample in with_constant(operator, which, case).values():
        lowered = LegalizeOps()(sample.module)
        agree(Interpreter(lowered)["main"](*sample.inputs), sample.expected())


@pytest.mark.no_roundtrip  # each is printed by the test above
def test_how_many_take_numbers():
    """So that a call which is refused by mistake is seen: then nothing was compared."""
    taken = Counter(name for row in TENSORS for name in with_constant(*row[:3]))
    assert taken == {"constant": len(TENSORS), **TAKEN}, "look which calls are refused or taken now"


def test_every_operator_has_samples_and_a_meaning():
    ours = [op for name, op in OPERATORS.items() if name.startswith("relax.")]
    missing = [op.name for op in ours if not op.cases]
    assert not missing, f"add samples to {missing}"
    mute = [op.name for op in ours if not op.op.has_attr("FNumpy")]
    assert not mute, f"say with numpy what these mean: {mute}"
