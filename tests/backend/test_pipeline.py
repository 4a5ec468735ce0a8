"""Pipelines by name, and what back ends' own passes are made with, under TVM's paths."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.backend import cpu, pipeline
from loopwright.ir.module import VDevice
from loopwright.ir.target import Target
from loopwright.ir.transform import Sequential
from loopwright.relax.dpl import wildcard
from loopwright.relax.transform import CanonicalizeBindings, FuseOpsByPattern

from ..relax.byoc import graphs as g
from ..relax.byoc.graphs import CONV_RELU, op

LLVM = Target("llvm")


def test_the_parts_of_the_default_pipeline():
    parts = [
        relax.backend.cpu_generic.library_dispatch_passes(LLVM),
        relax.backend.cpu_generic.legalize_passes(LLVM),
        relax.backend.cpu_generic.dataflow_lower_passes(LLVM),
        relax.backend.cpu_generic.finalize_passes(LLVM),
    ]
    whole = Sequential([p for part in parts for p in part])
    assert whole.names() == cpu.graph_pipeline().names()
    assert relax.backend.cpu_generic.get_default_pipeline(LLVM).names() == whole.names()
    assert relax.get_default_pipeline(LLVM).names() == whole.names()
    assert "LegalizeOps" in [p.name for p in relax.pipeline.legalize_passes(LLVM)]
    x = np.linspace(-1, 1, 4, dtype="float32")
    exe = lw.compile(g.Skip, relax_pipeline=whole)
    np.testing.assert_allclose(exe["main"](x).numpy(), np.exp(x) + np.sin(np.exp(x)), rtol=1e-5)


def test_pipelines_by_name():
    mod = relax.get_pipeline("zero")(g.Skip)
    assert [v.name_hint for v in mod.functions] == ["fused_tir_exp_tir_sin_add", "main"]
    assert relax.get_pipeline().names() == relax.pipeline.zero_pipeline().names()
    assert relax.get_pipeline("default_build").names() == cpu.graph_pipeline().names()
    x = np.linspace(-1, 1, 4, dtype="float32")
    exe = relax.build(mod, relax_pipeline="default_build")
    np.testing.assert_allclose(exe["main"](x).numpy(), np.exp(x) + np.sin(np.exp(x)), rtol=1e-5)


def test_a_pipeline_of_ones_own():
    name = "a pipeline of one's own"

    with relax.pipeline.PIPELINES.registry.snapshot():

        @relax.register_pipeline(name)
        def mine(level=0):
            return Sequential([CanonicalizeBindings()] * level)

        assert relax.get_pipeline(name, level=2).names() == ["CanonicalizeBindings"] * 2
        with pytest.raises(ValueError, match="there is a pipeline of this name already"):
            relax.register_pipeline(name)
    with pytest.raises(ValueError) as error:
        relax.get_pipeline("zer")
    assert str(error.value) == (
        "the pipeline is not registered\n  got: zer\n  instead: did you mean zero?"
    )


def test_a_pipeline_for_one_target():
    """Asked before the one for all; None says "not mine"."""

    def of(*passes):
        return lambda mine=True: Sequential(list(passes)) if mine else None

    with relax.pipeline.PIPELINES.registry.snapshot(), lw.trace() as trace:
        relax.register_pipeline("two", target="c")(of(CanonicalizeBindings()))
        relax.register_pipeline("two")(of())
        with Target("c"):
            assert relax.get_pipeline("two").names() == ["CanonicalizeBindings"]
            with pytest.raises(ValueError, match="the pipeline is not registered"):
                relax.get_pipeline("two", mine=False)
        with LLVM:
            assert relax.get_pipeline("two").names() == []
    notes = trace.explain("two", "pipeline")
    assert [n.facts["winner"].split(":")[0] for n in notes] == ["target c", "default"]


def test_a_target_without_pipeline():
    with pytest.raises(ValueError) as error:
        relax.get_default_pipeline(Target("cuda"))
    assert str(error.value) == (
        "this target does not have a default pipeline\n  got: cuda\n  instead: one of llvm, c"
    )


# ---------------------------------------------------------------------- patterns by name


@pytest.fixture
def registered():
    registry = relax.backend.pattern_registry
    with relax.byoc.patterns.PATTERNS.registry.snapshot():
        registry.register_patterns([("mine.conv", CONV_RELU), ("mine.exp", op("exp"))])
        registry.register_patterns([("other.exp", op("exp")), ("mine.exp_first", op("exp"))])
        yield registry


def test_patterns_by_name(registered):
    names = [p.name for p in registered.get_patterns_with_prefix("mine")]
    assert names == ["mine.exp_first", "mine.exp", "mine.conv"]  # the later ones first
    assert relax.backend.get_patterns_with_prefix("mine.c")[0].name == "mine.conv"
    assert registered.get_pattern("other.exp").name == "other.exp"
    assert registered.get_pattern("mine.exp").name == "mine.exp"  # others begin with it
    assert registered.get_pattern("other.sin") is registered.get_pattern("mine.ex") is None
    registered.register_patterns([("mine.c_only", op("exp"))], target="c")
    assert registered.get_pattern("mine.c_only") is None
    with Target("c"):
        assert registered.get_patterns_with_prefix("mine")[0].name == "mine.c_only"
    made = FuseOpsByPattern(registered.get_patterns_with_prefix("mine"))(g.Chain)
    assert made["fused_relax_exp"].attrs["Composite"] == "mine.exp_first"


def test_leaking_values():
    seen = []
    conv = op("nn.conv2d", wildcard(), wildcard())
    relu = op("nn.relu", conv)

    def check(context):
        leaks = relax.backend.utils.has_leaking_intermediate_variables(context)
        seen.append(leaks)
        return not leaks

    made = FuseOpsByPattern([("x.cr", relu, {}, check)])(g.Branching)
    assert "fused" not in made.script()
    FuseOpsByPattern([("x.cr", relu, {}, check)])(g.TwoConvs)
    FuseOpsByPattern([("x.er", op("nn.relu", op("exp")), {}, check)])(g.TwoResults)
    assert seen == [True, False, False, True]  # of the last, the inner value is a result


def test_dispatchers():
    base = relax.backend.utils.BackendDispatcher

    @relax.expr_functor.mutator
    class Dispatcher(base):
        def visit_call_(self, call):
            seen.append(self.get_shape_dtype(call.args[0]))
            return super().visit_call_(call)

    seen = []
    Dispatcher().visit_expr(g.Chain["main"])
    assert [(int(s.values[0]), str(d)) for s, d in seen] == [(4, "float32")] * 3
    assert base.is_gpu_target(Target("cuda")) and not base.is_gpu_target(LLVM)
    with pytest.raises(ValueError, match="a tensor with a known shape is needed here"):
        base.get_shape_dtype(relax.Var("s", relax.ObjectStructInfo()))


def test_the_target_of_a_value():
    get = relax.backend.utils.BackendDispatcher()._get_target
    here, there = (
        relax.TensorStructInfo((2,), "float32", vdevice=VDevice(target, 0))
        for target in ("llvm", "cuda")
    )
    assert get(here).kind_name == get(relax.TupleStructInfo([here, here])).kind_name == "llvm"
    assert get(there).kind_name == "cuda"
    with pytest.raises(ValueError, match="different targets\n  got: .*llvm.*, .*cuda"):
        get(relax.TupleStructInfo([here, there]))
    with pytest.raises(ValueError, match="different targets\n  got: no field"):
        get(relax.TupleStructInfo([]))
    plain = relax.TensorStructInfo((2,), "float32")
    with pytest.raises(ValueError, match="the target to choose an implementation for is not known"):
        get(plain)
    with Target("c"):
        assert get(plain).kind_name == get(relax.ObjectStructInfo()).kind_name == "c"
        assert get(here).kind_name == "llvm"


def test_parts_that_a_pipeline_lacks():
    with pytest.raises(ValueError, match="the pipeline of target llvm has no part tail"):
        pipeline._phase(LLVM, "tail")
