"""MergeCompositeFunctions. The goldens agree with TVM 0.26's functions, names and parameters, but
for regions in branches and beside calls of packed functions, at which TVM's pass fails."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir.structural import structural_equal
from loopwright.relax.dpl import is_const, wildcard
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import (
    BindParams,
    FuseOpsByPattern,
    FusionPattern,
    MergeCompositeFunctions,
)

from ..byoc import graphs as g
from ..byoc.graphs import CONV_RELU, each, op

DENSE = op("add", op("matmul", wildcard(), is_const()), is_const())
WEIGHTS = {"w": np.arange(12, dtype="float32").reshape(4, 3), "b": np.ones(3, "float32")}
bound = BindParams("main", WEIGHTS)(g.Dense)
FORK = each("x", "exp", "sin", "add")

CASES = {
    "a chain of one function": (g.TwoConvs, [("dnnl.conv2d_relu", CONV_RELU)], {}),
    "three calls of one function": (g.Chain, each("x", "exp"), {}),
    "two functions": (g.Chain, [("x.ee", op("exp", op("exp"))), ("x.e", op("exp"))], {}),
    "constants as parameters": (bound, [("x.dense", DENSE)], {"bind_constants": False}),
    "constants inside": (bound, [("x.dense", DENSE)], {}),
    "constants of several composites": (
        g.Literals,
        [("x.dense", DENSE), ("x.mul", op("multiply", wildcard(), wildcard()))],
        {},
    ),
    "a symbolic shape is a parameter": (g.Broadcast, each("x", "broadcast_to", "exp"), {}),
    "two regions with symbolic shapes": (
        g.Reshaped,
        [("x.er", op("reshape", op("exp"), wildcard())), *each("x", "add")],
        {},
    ),
    "a diamond": (g.Diamond, each("x", "exp", "sin", "cos", "add"), {}),
    "a diamond with another back end in it": (
        g.Diamond,
        [*each("compiler_A", "exp", "sin", "add"), *each("compiler_B", "cos")],
        {},
    ),
    "a diamond with nobody's operator in it": (g.Diamond, FORK, {}),
    "a longer way round": (g.FarDiamond, FORK, {}),
    "a longer way round by another back end": (
        g.FarDiamond,
        [*each("compiler_A", "exp", "sin", "add"), *each("compiler_B", "tanh")],
        {},
    ),
    "producers that share nothing": (g.Parallel, FORK, {}),
    "equal regions are one function": (g.Parallel, each("x", "exp", "sin"), {}),
    "equal functions of two back ends": (
        g.Parallel,
        [*each("compiler_A", "exp", "add"), *each("compiler_B", "sin")],
        {},
    ),
    "a region with two results": (g.Fork, each("x", "exp", "sin", "cos"), {}),
    "a value used in and outside": (g.TwoResults, each("x", "exp", "nn.relu"), {}),
    "tuples between": (g.Split, each("x", "split", "add"), {}),
    "a tuple as argument": (g.Concat, each("x", "concat", "nn.relu"), {}),
    "a static shape as argument": (g.StaticReshape, each("x", "exp", "reshape"), {}),
    "call_tir between": (g.Calls, each("x", "exp"), {}),
    "in both branches": (g.If, each("x", "exp", "sin", "nn.relu"), {}),
}


def merged(title):
    mod, patterns, options = CASES[title]
    return MergeCompositeFunctions()(FuseOpsByPattern(patterns, **options)(mod))


def test_goldens(golden):
    text = []
    for title in CASES:
        text += [f"# ---- {title}", merged(title).script(show_meta=False)]
    golden("merge_composite_functions.txt", "\n".join(text))


@pytest.mark.parametrize("title", list(CASES))
def test_what_is_computed_stays(title):
    mod = CASES[title][0]
    rng = np.random.default_rng(1)
    sizes = {"n": 3, "m": 5}

    def value(info):
        if isinstance(info, relax.ShapeStructInfo):
            return [sizes[d.name] for d in info.values]
        shape = [sizes[d.name] if hasattr(d, "name") else int(d) for d in info.get_shape()]
        return rng.uniform(0, 1, shape).astype(str(info.dtype))

    inputs = [value(p.struct_info) for p in mod["main"].params]
    want, got = (Interpreter(m)["main"](*inputs) for m in (mod, merged(title)))
    for a, b in zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]:
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("title", list(CASES))
def test_a_second_run_changes_nothing(title):
    once = merged(title)
    assert structural_equal(MergeCompositeFunctions()(once), once)


def test_no_composite_function_is_left_or_shared():
    made = merged("in both branches")
    assert not [v for v, f in made.functions.items() if "Composite" in f.attrs]
    defined = [
        binding.var
        for func in made.functions.values()
        for outer in func.body.blocks[0].bindings
        if isinstance(outer.value, relax.Function)
        for binding in outer.value.body.blocks[0].bindings
    ]
    assert len(defined) == len(set(defined)) == 4  # the relu of each branch is its own


def test_the_composites_attributes_stay():
    pattern = FusionPattern("x.cr", CONV_RELU, {}, None, lambda found: {"mark": "yes"})
    made = MergeCompositeFunctions()(FuseOpsByPattern([pattern])(g.TwoConvs))
    (region,) = [f for f in made.functions.values() if "Codegen" in f.attrs]
    inner = region.body.blocks[0].bindings[0].value
    assert dict(inner.attrs) == {"Composite": "x.cr", "mark": "yes"}


def test_what_is_not_composite_stays():
    fused = FuseOpsByPattern(each("x", "exp"))(g.TwoConvs)
    assert structural_equal(MergeCompositeFunctions()(fused), g.TwoConvs)


def test_a_name_without_back_end():
    fused = FuseOpsByPattern([("exp", op("exp"))])(g.Chain)
    with pytest.raises(lw.TVMError, match="begins with its back end's, before a dot"):
        MergeCompositeFunctions()(fused)
