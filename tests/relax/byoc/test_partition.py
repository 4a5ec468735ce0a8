"""What goes to a back end, and why: the report, costs, the trace."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir import trace
from loopwright.ir.structural import structural_equal
from loopwright.relax.byoc import (
    Backend,
    Cost,
    PartitionFor,
    PartitionReport,
    partition,
    register_backend,
    remove_backend,
)
from loopwright.relax.dpl import wildcard
from loopwright.relax.transform import FuseOpsByPattern, MergeCompositeFunctions
from loopwright.runtime import Module

from . import graphs as g
from .graphs import CONV, CONV_RELU, each, op


def codegen(functions, options, constants):
    """Every region is one exp."""

    def run(x, out):
        np.copyto(np.from_dlpack(out), np.exp(np.from_dlpack(x)))

    return [Module({str(f.attrs["global_symbol"]): run for f in functions})]


def backend(*patterns, **options):
    return Backend("p", patterns or each("p", "exp"), codegen=codegen, **options)


def report_of(mod, made, cost="declared"):
    report = PartitionReport()
    parted = partition(mod, made, cost=cost, report=report)
    return parted, report


def test_what_a_partition_is():
    parted, report = report_of(g.Diamond, backend(*each("p", "exp", "sin", "add")))
    steps = FuseOpsByPattern(each("p", "exp", "sin", "add"))(g.Diamond)
    assert structural_equal(parted, MergeCompositeFunctions()(steps))
    assert structural_equal(
        PartitionFor(backend(*each("p", "exp", "sin", "add")))(g.Diamond), parted
    )
    assert str(report) == (
        "partition for p\n"
        "calls  pattern  shapes    offloaded  why\n"
        "1      p.exp    (4)       yes        the back end declares no cost\n"
        "1      p.sin    (4)       yes        the back end declares no cost\n"
        "1      p.add    (4), (4)  yes        the back end declares no cost\n"
        "left to the default: 1 relax.cos\n"
        "  relax.cos: no pattern matches it"
    )


def test_reasons_of_all_that_stays():
    def check(context):
        return False

    def say(context):
        return context.refuse("no gelu on Mondays")

    conv_relu, gelu = op("nn.relu", CONV), op("nn.gelu")
    made = backend(("p.cr", conv_relu, {}, check), ("p.g", gelu, {}, say))
    parted, report = report_of(g.Branching, made)
    assert structural_equal(parted, g.Branching)
    assert report.left == {
        "relax.nn.conv2d": 1,
        "relax.nn.relu": 1,
        "relax.nn.gelu": 1,
        "relax.add": 1,
    }
    assert report.reasons == {
        "relax.nn.conv2d": "the pattern's check said no",
        "relax.nn.relu": "the pattern's check said no",
        "relax.nn.gelu": "no gelu on Mondays",
        "relax.add": "no pattern matches it",
    }
    assert "  relax.nn.gelu: no gelu on Mondays" in str(report).splitlines()


def test_matches_that_overlap():
    # exp(exp(x)) matches twice in a chain of three; the second match has one of the first's.
    _, report = report_of(g.Chain, backend(("p.ee", op("exp", op("exp")))))
    assert report.left == {"relax.exp": 1}
    assert report.reasons == {"relax.exp": "it overlaps an earlier match"}


def test_in_branches():
    _, report = report_of(g.If, backend())
    assert [(d.pattern, d.calls) for d in report.decisions] == [("p.exp", 1)]
    assert report.left == {"relax.nn.relu": 2, "relax.sin": 1}


def test_equal_calls_are_one_decision():
    _, report = report_of(g.Chain, backend())
    assert [(d.function, d.calls) for d in report.decisions] == [("fused_relax_exp", 3)]


# ---------------------------------------------------------------------- costs


def test_the_declared_cost_decides():
    asked = []

    def cost(func):
        asked.append([str(p.struct_info) for p in func.params])
        return Cost(offloaded=3.0, default=2.0)

    parted, report = report_of(g.Chain, backend(cost=cost))
    assert structural_equal(parted, g.Chain)
    assert asked == [['R.Tensor((4,), dtype="float32")']]
    (decision,) = report.decisions
    assert (decision.offloaded, decision.reason) == (False, "declared: 3 against 2")
    assert report.reasons == {"relax.exp": "p.exp does not pay (declared: 3 against 2)"}


@pytest.mark.parametrize(
    ("answer", "offloaded", "reason"),
    [
        (Cost(1e-6, 2e-6), True, "1e-06 against 2e-06"),
        (Cost(2, 2), False, "2 against 2"),
        ((1, 2), True, "1 against 2"),
        (True, True, ""),
        (False, False, ""),
        (None, True, "no answer"),
    ],
)
def test_answers(answer, offloaded, reason):
    for made, cost, how in (
        (backend(cost=lambda func: answer), "declared", "declared"),
        (backend(), lambda func: answer, "asked"),
    ):
        (decision,) = report_of(g.Chain, made, cost)[1].decisions
        assert decision.offloaded is offloaded
        assert decision.reason == (f"{how}: {reason}" if reason else how)


def test_cost_none_asks_nobody():
    made = backend(cost=lambda func: pytest.fail("not to be asked"))
    (decision,) = report_of(g.Chain, made, None)[1].decisions
    assert decision.offloaded and decision.reason == "all is offloaded"


# Modules that are measured carry functions of this process.
@pytest.mark.no_roundtrip
def test_the_measured_cost_is_measured_once():
    runs = []

    def counting(functions, options, constants):
        runs.append(1)
        return codegen(functions, options, constants)

    made = Backend("p", each("p", "exp"), codegen=counting)
    (decision,) = report_of(g.Chain, made, "measured")[1].decisions
    assert decision.reason.startswith("measured: ") and " against " in decision.reason
    offloaded, default = (float(w) for w in decision.reason.split()[1:4:2])
    assert decision.offloaded is (offloaded < default)
    assert 0 < offloaded < 1 and 0 < default < 1  # seconds
    count = len(runs)
    assert count >= 1
    again = report_of(g.Chain, made, "measured")[1].decisions[0]
    assert len(runs) == count and again.reason == decision.reason


@pytest.mark.no_roundtrip
def test_a_symbolic_shape_cannot_be_measured():
    made = backend(*each("p", "add"))
    (decision,) = report_of(g.Reshaped, made, "measured")[1].decisions
    assert decision.offloaded and decision.reason == "measured: no answer"


@pytest.mark.parametrize("answer", [3, "cheap", (1, 2, 3), Cost])
def test_a_cost_of_a_wrong_type(answer):
    with pytest.raises(TypeError) as error:
        partition(g.Chain, backend(cost=lambda func: answer))
    assert str(error.value) == (
        f"a cost is a Cost(offloaded, default), a bool or None\n  got: {answer!r}"
    )


def test_an_unknown_way_to_decide():
    with pytest.raises(ValueError) as error:
        partition(g.Chain, backend(), cost="guessed")
    assert str(error.value) == (
        "cost must be None, a function or a known name\n"
        "  got: 'guessed'\n"
        '  instead: "declared" or "measured"'
    )


# ---------------------------------------------------------------------- the trace


def test_the_trace_tells_of_an_operator():
    patterns = [("p.cr", CONV_RELU, {}, lambda context: False), ("p.c", CONV)]
    with trace.trace() as seen:
        partition(g.TwoConvs, backend(*patterns))
    told = [
        (n.kind, n.facts.get("pattern"), n.facts.get("refused"))
        for n in seen.explain("relax.nn.conv2d")
    ]
    assert told.count(("pattern", "p.cr", "the pattern's check said no")) == 2
    assert told.count(("pattern", "p.c", "")) == 2
    (offload,) = [n for n in seen.notes if n.kind == "offload"]
    assert offload.subject == "p.c"
    assert offload.facts["offloaded"] is True and offload.facts["calls"] == 2


# ---------------------------------------------------------------------- back ends by name


def test_an_unknown_back_end():
    register_backend(Backend("accelerator", codegen=codegen))
    try:
        with pytest.raises(lw.TVMError) as error:
            partition(g.Chain, "acelerator")
        assert str(error.value) == (
            "unknown back end\n"
            "  got: acelerator\n"
            "  instead: did you mean accelerator?; register_backend adds one"
        )
    finally:
        remove_backend("accelerator")


def test_a_back_end_that_cannot_be_used_here():
    with pytest.raises(lw.TVMError) as error:
        lw.compile(g.Chain, backends=[backend(available=lambda: "no such device")])
    assert str(error.value).splitlines()[:3] == [
        "the back end p cannot be used here",
        "  got: no such device",
        "  instead: compile without partitioning for it",
    ]


def test_a_pattern_with_another_back_ends_name():
    with pytest.raises(lw.TVMError) as error:
        partition(g.Chain, backend(("q.exp", op("exp"))))
    assert str(error.value) == (
        "a pattern of back end p has another back end's name\n"
        "  got: q.exp\n"
        "  instead: call it p.exp"
    )


def test_two_back_ends_of_one_name():
    register_backend(backend())
    try:
        with pytest.raises(lw.TVMError) as error:
            register_backend(backend(), origin="a-package")
        assert str(error.value) == (
            "two back ends are named p\n"
            "  got: one of this process, one of a-package\n"
            "  instead: rename one, or pass override=True"
        )
        newer = backend()
        assert register_backend(newer, override=True) is newer
        assert relax.byoc.get_backend("p") is newer
    finally:
        remove_backend("p")


def test_a_back_end_that_generates_nothing():
    with pytest.raises(lw.TVMError) as error:
        register_backend(Backend("p", each("p", "exp")))
    assert str(error.value) == (
        "back end p has neither a codegen nor a target\n"
        "  instead: give codegen= (graph level) or target= (loop level)"
    )
    with pytest.raises(TypeError, match=r"register_backend takes a relax\.byoc\.Backend"):
        register_backend("p")


def test_patterns_of_the_callers():
    _, report = report_of(g.Diamond, backend())
    assert len(report.decisions) == 1
    report = PartitionReport()
    partition(g.Diamond, backend(), patterns=each("p", "cos", "sin"), report=report)
    assert [d.pattern for d in report.decisions] == ["p.cos", "p.sin"]


def test_patterns_made_when_they_are_asked_for():
    made = Backend("p", lambda: [("p.add", op("add", wildcard(), wildcard()))], codegen=codegen)
    _, report = report_of(g.Diamond, made)
    assert [d.pattern for d in report.decisions] == ["p.add"]
