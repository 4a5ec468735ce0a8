"""A custom target kind: compiled by the code generator of its parent kind."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir import target as targets
from loopwright.ir.target import Target, register_target_kind
from loopwright.relax.transform.legalize_ops.common import LEGALIZATIONS

from ..programs import graph, pointwise

Model = graph("y = R.exp(x); z = R.nn.relu(R.tanh(y))", x=("n", 8))


# Not exp, so that the test sees who computed.
twice_exp = pointwise("twice_exp", "T.exp(X[vi, vj]) * T.float32(2)")


@pytest.fixture
def kinds():
    """Kinds and rules that are forgotten after the test."""
    with targets.KINDS.snapshot(), LEGALIZATIONS.registry.snapshot():
        yield


def run(target):
    x = np.linspace(-1, 1, 24, dtype="float32").reshape(3, 8)
    return lw.compile(Model, target=target)["main"](x).numpy(), np.exp(x)


def test_a_variant_of_llvm(kinds):
    made = register_target_kind("mynpu", keys=("npu",), options={"lanes": int}, parent="llvm")
    assert (made.lineage, made.device_type) == (("mynpu", "llvm"), "cpu")
    target = Target("mynpu -lanes=4 -mcpu=x86-64-v3")
    assert target.lookup_keys == ("mynpu", "npu", "llvm", "cpu")
    assert target.attrs["lanes"] == 4 and "avx2" in target.features
    assert Target(str(target)) == target
    lw.register_legalize("relax.exp", tir=twice_exp, target="mynpu")
    got, exp = run("mynpu")
    np.testing.assert_allclose(got, np.tanh(2 * exp), rtol=1e-5)
    got, exp = run("llvm")
    np.testing.assert_allclose(got, np.tanh(exp), rtol=1e-5)


def test_the_parents_rules_are_asked_behind_its_own(kinds):
    register_target_kind("mynpu", parent="llvm")
    lw.register_legalize("relax.exp", tir=twice_exp, target="llvm")
    (note,) = lw.lower(Model, "mynpu").explain("relax.exp", "legalize")
    assert note.facts["winner"] == "target llvm: kernel twice_exp"
    assert note.facts["not_asked"] == ["default: loopwright.ops.core.Operator._legalize"]


def test_a_kind_without_a_code_generator(kinds):
    register_target_kind("mynpu")
    with pytest.raises(lw.LoopwrightError) as error:
        lw.compile(Model, target="mynpu")
    assert str(error.value) == (
        "target mynpu has no code generator here\n"
        '  instead: use target="llvm" or target="c", or '
        'register_target_kind("mynpu", parent="llvm", override=True)'
    )


def test_a_wrong_parent(kinds):
    with pytest.raises(ValueError, match="unknown target kind"):
        register_target_kind("mynpu", parent="lvm")
    with pytest.raises(ValueError, match="cannot be its own parent"):
        register_target_kind("llvm", parent="llvm", override=True)
