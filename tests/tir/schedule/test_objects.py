"""Schedules, traces, instructions and scopes as objects: what they give, and how they print."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright import tir
from loopwright.ir.module import IRModule
from loopwright.tir import Schedule, ScheduleError
from loopwright.tir.schedule import Trace
from loopwright.tvm.tir.trace_roundtrip import (
    assert_structural_equal_ignore_global_symbol,
    verify_trace_roundtrip,
)

from . import programs as p


def started() -> Schedule:
    return Schedule(p.matmul_bias_relu, seed=3)


def test_what_a_variable_stands_for() -> None:
    sch = started()
    block = sch.get_block("C")
    loop = sch.get_loops(block)[0]
    refs = [sch.get_sref(rv) for rv in (block, loop)]
    for rv, ref in zip((block, loop), refs, strict=True):
        assert sch.get(rv) is sch.get(ref) is ref.stmt
        assert sch.get_sref(ref) is ref
        assert sch.get_sref(ref.stmt) is ref
        assert sch.get_sref(sch.get(rv)) is ref
    number = sch.sample_categorical([4], [1.0])
    assert int(sch.get(number)) == 4 and int(sch.get(number * 2 + 1)) == 9
    for wrong in (tir.const(1), "C", None):
        with pytest.raises(Exception, match="not a block or loop of this schedule"):
            sch.get_sref(wrong)
    with pytest.raises(ScheduleError, match="this step is for loops"):
        sch.loop(block)
    with pytest.raises(ScheduleError, match="this step is for blocks"):
        sch.block(loop)
    with pytest.raises(ScheduleError, match="this statement is not in the program"):
        other = Schedule(p.matmul)
        sch.get_sref(other.get(other.get_block("root")))


def test_seeds() -> None:
    def drawn(sch: Schedule) -> list[int]:
        return [sch.fork_seed() for _ in range(3)]

    first, same, other = started(), started(), Schedule(p.matmul, seed=4)
    numbers = drawn(first)
    assert numbers == drawn(same) != drawn(other)
    assert all(0 <= n < 2**31 for n in numbers) and max(numbers) >= 2**29
    first.seed(3)
    assert drawn(first) == numbers
    assert drawn(Schedule(p.matmul, seed=0)) == drawn(Schedule(p.matmul, seed=0))
    assert drawn(Schedule(p.matmul, seed=-1)) != drawn(Schedule(p.matmul, seed=-1))
    copied = first.copy()
    assert drawn(copied) != drawn(first)


def test_levels_of_errors() -> None:
    with pytest.raises(ValueError, match='error_render_level is "detail", "fast" or "none"'):
        Schedule(p.matmul, error_render_level="some")
    texts = []
    for level in ("detail", "fast", "none"):
        with pytest.raises(ScheduleError) as error:
            Schedule(p.matmul, error_render_level=level).add_unit_loop("root")
        assert error.value.args == (str(error.value),)
        texts.append(str(error.value))
    assert "@T.prim_func" in texts[0] and len(texts[0]) > len(texts[1]) > 0
    assert not any("@T.prim_func" in text for text in texts[1:])


def test_shown(capsys: pytest.CaptureFixture[str]) -> None:
    sch = started()
    sch.show()
    assert "apply_trace" not in capsys.readouterr().out
    assert "<details>" not in sch._repr_html_()
    sch.get_block("C")
    sch.show()
    shown = capsys.readouterr().out
    assert "def main" in shown and "apply_trace" in shown
    assert "<summary>1 steps</summary>" in sch._repr_html_()


def test_the_last_step_is_taken_off() -> None:
    sch = started()
    tile = sch.sample_categorical([2, 4], [0.5, 0.5], decision=1)
    sch.split(sch.get_loops("C")[0], [None, tile])
    sch.enter_postproc()
    sch.parallel(sch.get_loops("C")[0])
    trace = sch.trace.copy()
    kinds = [inst.kind.name for inst in trace.insts]
    assert kinds[0] == "SampleCategorical" and trace.get_decision(trace.insts[0]) == 1
    assert trace.get_decision(trace.insts[1]) is None
    assert repr(trace.insts[0].kind) == "InstructionKind(SampleCategorical)"
    assert trace.insts[0].same_as(trace.insts[0]) and not trace.insts[0].same_as(trace.insts[1])
    at = kinds.index("EnterPostproc")
    popped = [trace.pop() for _ in kinds[at + 1 :]]
    assert [inst.kind.name for inst in popped if inst] == kinds[:at:-1]
    assert trace.pop() is None and len(trace.insts) == at + 1  # not the mark, nor what is before it
    assert Trace().pop() is None
    alone = Trace(sch.trace.insts[:1], sch.trace.decisions)
    assert alone.pop() is sch.trace.insts[0] and alone.get_decision(sch.trace.insts[0]) is None
    assert sch.trace.get_decision(sch.trace.insts[0]) == 1
    for keep, remove in ((len(kinds), False), (at, True)):
        steps = sch.trace.as_json(remove_postproc=remove)[0]
        assert len(steps) == keep


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1, "b": [2, 3]}, '{"a": 1, "b": [2, 3]}'),
        (True, "True"),
        (2.5, "2.5"),
        ([1, "x"], '[1, "x"]'),
        ("None", '"None"'),
        (tir.const(True, "bool"), "True"),
    ],
)
def test_values_of_annotations(value: Any, text: str) -> None:
    sch = started()
    sch.annotate("C", "key", value)
    assert f"ann_val={text}, ann_key" in str(sch.trace)
    read = json.loads(json.dumps(sch.trace.as_json()))
    again = started()
    Trace.apply_json_to_schedule(read, again)
    assert str(again.mod) == str(sch.mod)
    verify_trace_roundtrip(sch, p.matmul_bias_relu)
    verify_trace_roundtrip(sch, p.matmul_bias_relu, text_format="json")


def test_names_of_functions_do_not_count() -> None:
    func = p.matmul
    named, other = (func.with_attr("global_symbol", name) for name in ("one", "two"))
    same = assert_structural_equal_ignore_global_symbol
    same(named, other)
    same(IRModule({"main": named}), IRModule({"main": other}))
    for make in (lambda f: f, lambda f: IRModule({"main": f})):
        with pytest.raises(ValueError):
            same(make(named), make(p.matmul_bias_relu))
    assert named.attrs["global_symbol"] == "one"


def test_blocks_are_given_by_name() -> None:
    texts = []
    for by_name in (False, True):
        sch = started()
        c, d = ("C", "D") if by_name else map(sch.get_block, "CD")
        sch.cache_read(d, 0, "local", consumer_blocks=[d])
        sch.cache_write(block=c, write_buffer_index=0, storage_scope="local", consumer_blocks=None)
        sch.cache_read(
            block=c,
            read_buffer_index=0,
            storage_scope="local",
            consumer_blocks="C" if by_name else [c],
        )
        sch.cache_read(c, 1, "local", c if by_name else [c])
        texts.append(str(sch.mod))
    assert texts[0] == texts[1]


def test_dependencies() -> None:
    sch = started()
    scope = sch.state.get_block_scope(sch.get_sref(sch.get_block("root")))
    c, d, e = (sch.get_sref(sch.get_block(name)) for name in "CDE")
    assert [(x.src, x.dst) for x in scope.get_deps_by_src(c)] == [(c, d)]
    assert [(x.src, x.dst) for x in scope.get_deps_by_src(d)] == [(d, e)]
    assert [(x.src, x.dst) for x in scope.get_deps_by_dst(d)] == [(c, d)]
    assert scope.get_deps_by_dst(c) == scope.get_deps_by_src(e) == []
