"""The hook `grad`: what every operator's rule gives, beside finite differences of numpy's meaning.

What is not compared stands in a table with its reason, and each table holds no more than that.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from loopwright import relax
from loopwright.ops import OPERATORS
from loopwright.ops.core import case
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.struct_info import TupleStructInfo

from .matrix import make

RULES = {
    op.name.removeprefix("relax."): op
    for op in OPERATORS.values()
    if op.op.has_attr("FPrimalGradient")
}
MORE = {
    "matmul": [
        case((3,), (3,)),
        case((3,), (2, 3, 4)),
        case((2, 4, 3), (3,)),
        case((1, 2, 3), (4, 3, 2)),
    ],
    "repeat": [case((2, 3), repeats=2), case((2, 3), repeats=3, axis=-1)],
    "concat": [case([(2, 3)], axis=0), case([(2, 3), (4,)], axis=None)],
    "split": [case((2, 6), indices_or_sections=1, axis=1), case((6,), indices_or_sections=[4, 2])],
    "take": [case((4,), np.array([3, 4, -1]), mode="nan")],
}
CASES = {
    f"{name}-{n}": (op, given)
    for name, op in RULES.items()
    for n, given in enumerate([*op.cases, *MORE.get(name, ())])
}
STEP = 1e-4

# Cases whose rule raises NotImplementedError.
REFUSED = {
    "gather_nd-1": "batch_dims",
    "nn.conv2d-2": "the rest of a division of symbolic extents",
    "nn.conv2d-3": "a layout other than NCHW",
    "nn.conv2d-4": "a layout other than NCHW",
    "nn.conv2d-5": "a layout other than NCHW",
    "nn.conv2d-6": "a layout other than NCHW",
    **{f"nn.pad-{k}": "elements that are repeated at the edges" for k in range(2, 9)},
    "strided_slice-2": "a slice that runs backwards",
    "concat-3": "flattened tensors",
    "split-4": "indices that are not in order",
    "take-2": "indices out of range that give NaN",
    "take-1": "indices out of range that are wrapped",
}
# Cases whose differences say nothing.
UNSMOOTH = {
    "astype-1": "a float16 keeps no difference of this step",
    "floor_mod-4": "infinite values, and the places of jumps",
}
# Arguments of floats that count as constants, as they do in TVM.
CONSTANT = {
    ("clip", "max"): "a scalar",
    ("clip", "min"): "a scalar",
    ("full", "fill_value"): "what a tensor is filled with",
    ("full_like", "fill_value"): "what a tensor is filled with",
    ("grad.no_grad", "input"): "what the operator is for",
    ("nn.nll_loss", "weights"): "weights of classes are not learned",
    ("special.zeta", "x1"): "its order, for which torch has no derivative either",
    ("one_hot", "off_value"): "a scalar",
    ("one_hot", "on_value"): "a scalar",
}


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


@cache
def sample_of(name):
    return make(*CASES[name])


@cache
def made_by_rule(name):
    """(the gradients that the rule makes of a case, a module that computes those that there are)"""
    sample = sample_of(name)
    bb = relax.BlockBuilder()
    given = relax.Var("grad", sample.call.struct_info)
    rule = sample.call.op.get_attr("FPrimalGradient")
    with bb.function("main", [*sample.module["main"].params, given]):
        with bb.dataflow():
            made = rule(bb.emit(sample.call), sample.call, given, bb)
            kept = [bb.emit(g) for g in made if not no_grad(g)]
            result = bb.emit_output(relax.Tuple(kept))
        bb.emit_func_output(result)
    made += [relax.op.grad.no_grad(arg) for arg in sample.call.args[len(made) :]]
    return made, bb.finalize()


def gradients(name, weights):
    """The gradient of each argument of the call, None for those that have none."""
    made, module = made_by_rule(name)
    values = iter(Interpreter(module)["main"](*sample_of(name).inputs, weights))
    return [None if no_grad(g) else next(values) for g in made]


def arrays_of(value):
    return [np.asarray(v.numpy() if hasattr(v, "numpy") else v) for v in leaves(value)]


def of_floats(name):
    """Whether the results of a case are floats."""
    info = sample_of(name).call.struct_info
    infos = leaves(info.fields if isinstance(info, TupleStructInfo) else info)
    return all(info.dtype.is_float for info in infos)


COMPARED = [name for name in CASES if name not in REFUSED | UNSMOOTH and of_floats(name)]


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", COMPARED)
def test_beside_differences(name):
    operator, sample = CASES[name][0], sample_of(name)
    rng = np.random.default_rng(7)
    results = leaves(sample.expected())
    weights = [rng.uniform(0.5, 1.5, np.shape(r)).astype(np.asarray(r).dtype) for r in results]
    whole = isinstance(sample.call.struct_info, TupleStructInfo)
    made = gradients(name, tuple(weights) if whole else weights[0])
    attrs = {} if sample.call.attrs is None else dict(sample.call.attrs.items())
    meaning = operator.op.get_attr("FNumpy")

    def loss(args):
        outs = leaves(meaning(*map(doubled, args), **attrs))
        return sum(float((o * w.astype(np.float64)).sum()) for o, w in zip(outs, weights))

    params = [key for key, arg in operator.args_of(sample.call).items() if arg is not None]
    for number, arg in enumerate(sample.args):
        gradient = made[number] if number < len(made) else None
        if (name.rpartition("-")[0], params[number]) in CONSTANT:
            assert gradient is None
            continue
        for leaf, source in enumerate(map(np.asarray, leaves(arg))):
            if source.dtype.kind != "f":
                continue
            got = np.zeros(source.shape) if gradient is None else arrays_of(gradient)[leaf]
            assert got.shape == source.shape
            for at in np.ndindex(got.shape):
                place = (number, leaf, at)
                up = loss(with_step(list(map(doubled, sample.args)), place, STEP))
                down = loss(with_step(list(map(doubled, sample.args)), place, -STEP))
                slope = (up - down) / (2 * STEP)
                np.testing.assert_allclose(got[at], slope, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    operator, _ = CASES[name]
    with pytest.raises(NotImplementedError) as refusal:
        made_by_rule(name)
    assert str(refusal.value).startswith(f"{operator.name} has no gradient for")


@pytest.mark.parametrize("name", RULES)
def test_every_rule_is_compared(name):
    """A rule gives a gradient in a case that is compared, or none in any case."""
    given = {
        case: any(not no_grad(g) for g in made_by_rule(case)[0])
        for case in CASES
        if case.rpartition("-")[0] == name and case not in REFUSED
    }
    assert given, "every case is refused"
    assert not any(given.values()) or any(given[case] for case in given if case in COMPARED)


def test_the_tables_hold_what_there_is():
    assert set(REFUSED | UNSMOOTH) <= set(CASES)
    for name, param in CONSTANT:
        assert param in {p.name for p in RULES[name].graph_params}
