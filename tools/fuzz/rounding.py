"""How far rounding moves a result, measured inside of the operators, too.

`tolerance.spread` disturbs what operators take and give. Here the loops of every operator run several
times, and each step that is not exact in its type is rounded up or down at random (Parker, "Monte Carlo
Arithmetic", 1997). Where such runs are as far apart as two results are, the difference says nothing:
every digit of the number is made by rounding. An exact step stays as it is, so that a place computed
from whole numbers does not move, and runs are compared with each other only: a fault of the loops is
in all of them alike, and does not widen anything.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import loopwright as lw
from loopwright.ir import prim_expr as pe
from loopwright.ir.dtype import DataType, numpy_dtype
from loopwright.ir.module import IRModule
from loopwright.ir.op import Op
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import LegalizeOps
from loopwright.tir.function import PrimFunc
from loopwright.tir.interpreter.meaning import FLOAT
from loopwright.tir.stmt_functor import LeafKeeper

from .tolerance import arrays, distance, no_digit, unit

RUNS = 8
STEPS = 1_500_000  # of all runs: some seconds. What needs more is not measured
STEP = "tools.fuzz.rounded"
OF_FUNCTIONS = 4  # ulps that exp, tanh and others of a library may be off (OpenCL 3.0, 7.4: 2 to 5)
EXACT = {"sqrt", "fma"}  # rounded rightly by every machine


class TooLong(Exception):
    """The loops have more steps than are measured."""


class _Steps:
    """The rounding of one run, and how many steps are left."""

    def __init__(self) -> None:
        self.rng, self.left = random.Random(0), STEPS

    def rounded(self, value: float, dtype: str, ulps: int) -> float:
        """A number rounded to a type: by so many ulps up or down where it is not exact."""
        self.left -= 1
        if self.left < 0:
            raise TooLong
        kind = numpy_dtype(dtype).type
        near = float(kind(value))
        # The result of a step in float64 is rounded already; of whole numbers it is exact, below 2^53.
        whole = value.is_integer() and abs(value) < 2.0**53
        exact = near == value if dtype != "float64" else whole
        if exact or not np.isfinite(near):
            return near
        return float(kind(near * (1 + self.rng.choice((-ulps, ulps)) * unit(kind))))


_STEPS = _Steps()


class _Rounded(LeafKeeper):
    """Makes each step of floats a call of `_Steps.rounded`."""

    def visit_Add(self, node: Any) -> Any:
        """An operation on floats, in a wider type than one that is rounded after each step."""
        if not _is_float(node):
            return self.visit_default(node)
        a, b = (_wide(self.visit(x)) for x in (node.a, node.b))
        return _step(type(node)(a, b), node.dtype)

    visit_Sub = visit_Mul = visit_Div = visit_Add

    def visit_Call(self, node: Any) -> Any:
        """A function of floats."""
        name = node.op.name.removeprefix("tir.") if isinstance(node.op, Op) else ""
        if name not in FLOAT or not _is_float(node):
            return self.visit_default(node)
        args = [_wide(self.visit(a)) for a in node.args]
        ulps = 1 if name in EXACT else OF_FUNCTIONS
        return _step(pe.Call(args[0].dtype, node.op, args), node.dtype, ulps)

    def visit_Cast(self, node: Any) -> Any:
        """A float made narrower."""
        value = self.visit(node.value)
        if _is_float(node) and _is_float(node.value):
            return _step(value, node.dtype)
        return node.replace(value=value)


def _is_float(node: Any) -> bool:
    kind = node.dtype
    return kind.is_float and kind.bits in (16, 32, 64) and kind.lanes == 1


def _wide(node: Any) -> Any:
    return pe.Cast("float32", node) if _is_float(node) and node.dtype.bits < 32 else node


def _step(node: Any, dtype: DataType, ulps: int = 1) -> Any:
    args = [pe.StringImm(STEP), node, pe.StringImm(str(dtype)), pe.IntImm("int64", ulps)]
    return pe.Call(dtype, "tir.call_packed", args)


def rounded(mod: IRModule) -> IRModule:
    """The module's loops with a call at each step of floats."""
    lowered = LegalizeOps()(mod)
    functions = {
        name: func.replace(body=_Rounded().visit(func.body)) if isinstance(func, PrimFunc) else func
        for name, func in lowered.functions.items()
    }
    return lowered.replace(functions=functions)


def inner_spread(mod: IRModule, feeds: list[np.ndarray]) -> list[np.ndarray] | None:
    """For each output the greatest distance of runs that round differently; infinite where rounding
    decides all digits, or between a number and none. None where that takes too long."""
    lw.register_global_func(STEP, _STEPS.rounded, override=True)
    main, runs = Interpreter(rounded(mod))["main"], []
    _STEPS.left = STEPS
    try:
        for run in range(RUNS):
            _STEPS.rng.seed(run)
            runs.append(arrays(main(*feeds)))
    except TooLong:
        if len(runs) < 2:
            return None
    first, *others = runs
    widest = [np.zeros(b.shape) for b in first]
    for other in others:
        for k, (a, b) in enumerate(zip(other, first, strict=True)):
            far = distance(a, b) if a.shape == b.shape else np.full(b.shape, np.inf)
            widest[k] = np.maximum(widest[k], far)
    return [np.where(no_digit(far, b), np.inf, far) for far, b in zip(widest, first, strict=True)]
