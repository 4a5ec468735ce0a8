"""The hook `grad`: what every operator's rule gives, beside finite differences of numpy's meaning."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax
from loopwright.ops import OPERATORS
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.struct_info import TupleStructInfo

from .matrix import make

CASES = [
    pytest.param(op, case, id=f"{op.name.removeprefix('relax.')}-{n}")
    for op in OPERATORS.values()
    if op.op.has_attr("FPrimalGradient")
    for n, case in enumerate(op.cases)
]
STEP = 1e-4


def leaves(value):
    """The arrays of a value, which may be a tuple."""
    return [a for v in value for a in leaves(v)] if isinstance(value, tuple | list) else [value]


def with_step(args, place, step):
    """The arguments with one element of an array changed; place: (argument, leaf, index)."""
    number, leaf, at = place
    changed = list(args)
    arrays = [np.array(a) for a in leaves(args[number])]
    arrays[leaf] = arrays[leaf].astype(np.float64)
    arrays[leaf][at] += step
    changed[number] = tuple(arrays) if isinstance(args[number], tuple) else arrays[0]
    return changed


def doubled(value):
    """Arrays of floats as float64."""
    if isinstance(value, tuple):
        return tuple(doubled(v) for v in value)
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return value.astype(np.float64)
    return value


def no_grad(expr):
    return isinstance(expr, relax.Call) and getattr(expr.op, "name", "") == "relax.grad.no_grad"


def fresh(info):
    return relax.Var("grad", info)


def gradients(sample, weights):
    """The gradient of each argument of the call, None for those that have none."""
    bb = relax.BlockBuilder()
    params = list(sample.module["main"].params)
    given = fresh(sample.call.struct_info)
    rule = sample.call.op.get_attr("FPrimalGradient")
    with bb.function("main", [*params, given]):
        with bb.dataflow():
            out = bb.emit(sample.call)
            made = rule(out, sample.call, given, bb)
            kept = [bb.emit(g) for g in made if not no_grad(g)]
            result = bb.emit_output(relax.Tuple(kept))
        bb.emit_func_output(result)
    values = iter(Interpreter(bb.finalize())["main"](*sample.inputs, weights))
    return [None if no_grad(g) else next(values) for g in made]


def arrays_of(value):
    return [np.asarray(v.numpy() if hasattr(v, "numpy") else v) for v in leaves(value)]


@pytest.mark.parametrize(("operator", "case"), CASES)
def test_beside_differences(operator, case):
    sample = make(operator, case)
    infos = leaves(
        sample.call.struct_info.fields
        if isinstance(sample.call.struct_info, TupleStructInfo)
        else sample.call.struct_info
    )
    if any(not info.dtype.is_float or info.dtype.bits < 32 for info in infos):
        return  # differences of numbers of few digits say nothing
    rng = np.random.default_rng(7)
    results = leaves(sample.expected())
    weights = [rng.uniform(0.5, 1.5, np.shape(r)).astype(np.asarray(r).dtype) for r in results]
    whole = isinstance(sample.call.struct_info, TupleStructInfo)
    try:
        made = gradients(sample, tuple(weights) if whole else weights[0])
    except NotImplementedError as refusal:
        assert str(refusal).startswith(f"{operator.name} has no gradient for")
        return
    attrs = {} if sample.call.attrs is None else dict(sample.call.attrs.items())
    meaning = operator.op.get_attr("FNumpy")

    def loss(args):
        outs = leaves(meaning(*map(doubled, args), **attrs))
        return sum(float((o * w.astype(np.float64)).sum()) for o, w in zip(outs, weights))

    for number, gradient in enumerate(made):
        if gradient is None or number >= len(sample.args):
            continue
        for leaf, got in enumerate(arrays_of(gradient)):
            source = leaves(sample.args[number])[leaf]
            if np.asarray(source).dtype.kind != "f":
                continue
            assert got.shape == np.shape(source)
            for at in np.ndindex(got.shape):
                place = (number, leaf, at)
                up = loss(with_step(list(map(doubled, sample.args)), place, STEP))
                down = loss(with_step(list(map(doubled, sample.args)), place, -STEP))
                slope = (up - down) / (2 * STEP)
                np.testing.assert_allclose(got[at], slope, rtol=2e-3, atol=2e-3)
