"""The public names of schedules, with their parameters and defaults: those of TVM 0.21."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import pytest

from loopwright import tir
from loopwright.script import tir as T

from . import programs as p

NAMES = {
    "tir.schedule.analysis": """
        suggest_index_map(buffer, indices, loops, predicate)
        TensorizeInfo
        get_tensorize_loop_mapping(sch, block, desc_func, allow_padding=False)
        AutoTensorizeMappingInfo
        get_auto_tensorize_mapping_info(sch, block, desc_func)
        has_block(sch, block_name)
        is_output_block(sch, block)
    """,
    "tir.schedule.instruction": """
        InstructionKind
        InstructionKind.is_pure()
        InstructionKind.get(name)
        Instruction(kind, inputs, attrs, outputs)
    """,
    "tir.schedule.schedule": """
        ScheduleError
        LoopRV()
        BlockRV()
        Schedule(mod, *, seed=None, debug_mask='none', error_render_level='detail', enable_check=True)
        Schedule.mod()
        Schedule.state()
        Schedule.trace()
        Schedule.func_working_on()
        Schedule.work_on(func_name)
        Schedule.copy()
        Schedule.seed(seed)
        Schedule.fork_seed()
        Schedule.show(*args, **kwargs)
        Schedule.get(rand_var_or_sref)
        Schedule.get_sref(rand_var_or_stmt)
        Schedule.remove_rv(rand_var)
        Schedule.sample_categorical(candidates, probs, decision=None)
        Schedule.sample_perfect_tile(loop, n, max_innermost_factor=16, decision=None)
        Schedule.sample_partitioned_tile(loop, n, partition_pos=0, innerpart_factor=1, decision=None)
        Schedule.sample_compute_location(block, decision=None)
        Schedule.get_block(name, func_name=None)
        Schedule.get_loops(block)
        Schedule.get_child_blocks(block_or_loop)
        Schedule.get_producers(block)
        Schedule.get_consumers(block)
        Schedule.get_output_blocks(scope_block)
        Schedule.merge(*loops)
        Schedule.fuse(*loops, preserve_unit_iters=True)
        Schedule.split(loop, factors, preserve_unit_iters=True, disable_predication=False)
        Schedule.loop_partition(loop, factors, preserve_unit_iters=True)
        Schedule.reorder(*ordered_loops)
        Schedule.reorder_block_iter_var(block, new_order)
        Schedule.add_unit_loop(block_or_loop)
        Schedule.parallel(loop)
        Schedule.vectorize(loop)
        Schedule.bind(loop, thread_axis)
        Schedule.unroll(loop)
        Schedule.cache_read(block, read_buffer_index, storage_scope, consumer_blocks=None)
        Schedule.cache_write(block, write_buffer_index, storage_scope, consumer_blocks=None)
        Schedule.reindex_cache_read(block, read_buffer_index, storage_scope, index_map)
        Schedule.reindex_cache_write(block, write_buffer_index, storage_scope, index_map)
        Schedule.cache_inplace(block, read_buffer_index, storage_scope)
        Schedule.cache_index(block, storage_scope, cse_thresh=0)
        Schedule.reindex(block, buffer)
        Schedule.read_at(loop, block, read_buffer_index, storage_scope)
        Schedule.write_at(loop, block, write_buffer_index, storage_scope)
        Schedule.compute_at(block, loop, preserve_unit_loops=False, index=-1)
        Schedule.reverse_compute_at(block, loop, preserve_unit_loops=False, index=-1)
        Schedule.compute_inline(block)
        Schedule.reverse_compute_inline(block)
        Schedule.decompose_reduction(block, loop)
        Schedule.rfactor(loop, factor_axis)
        Schedule.storage_align(block, buffer_index, axis, factor, offset)
        Schedule.set_scope(block, buffer_index, storage_scope)
        Schedule.unsafe_set_dtype(block, buffer_index, dtype)
        Schedule.blockize(target, preserve_unit_iters=True)
        Schedule.tensorize(block_or_loop, tensor_intrin, preserve_unit_iters=True)
        Schedule.annotate(block_or_loop, ann_key, ann_val)
        Schedule.unannotate(block_or_loop, ann_key)
        Schedule.transform_layout(block, buffer, index_map, pad_value=None, *, assume_injective_transform=False)
        Schedule.transform_block_layout(block, index_map)
        Schedule.set_axis_separator(block, buffer, axis_separators)
        Schedule.decompose_padding(block, loop)
        Schedule.can_decompose_padding(block, loop)
        Schedule.pad_einsum(block, padding)
        Schedule.rolling_buffer(block, write_buffer_index)
        Schedule.enter_postproc()
        Schedule.unsafe_hide_buffer_access(block, buf_type, buf_index_array)
        Schedule.annotate_buffer_access(block, buffer_index, buf_type, gen_new_ranges)
    """,
    "tir.schedule.state": """
        ScheduleDebugMask
        ScheduleState(mod, *, debug_mask='none', enable_check=True)
        ScheduleState.get_sref(stmt)
        ScheduleState.get_block_scope(block_sref)
        ScheduleState.replace(src_sref, tgt_stmt, block_sref_reuse=None)
    """,
    "tir.schedule.testing": """
        assert_structural_equal_ignore_global_symbol(func1, func2, *args, **kwargs)
        verify_trace_roundtrip(sch, mod, *, debug_mask='all', text_format=['python', 'json'])
    """,
    "tir.schedule.trace": """
        Trace(insts, decisions)
        Trace.get_decision(inst)
        Trace.append(inst, decision=None)
        Trace.pop()
        Trace.apply_to_schedule(sch, remove_postproc, decision_provider=None)
        Trace.as_json(remove_postproc=False)
        Trace.as_python(remove_postproc=False)
        Trace.with_decision(inst, decision, remove_postproc)
        Trace.simplified(remove_postproc)
        Trace.apply_json_to_schedule(json_obj, sch)
        Trace.show(style=None, black_format=False)
    """,
    "tir.schedule.transform": """
        tile_with_tensor_intrin(sch, block, intrin_name, allow_padding=False)
    """,
    "tir.block_dependence_info": """
        BlockDependenceInfo(mod)
        BlockDependenceInfo.get_sref(block)
        BlockDependenceInfo.get_block_scope(block_sref)
    """,
    "tir.block_scope": """
        StmtSRef
        StmtSRef.stmt()
        StmtSRef.parent()
        DepKind
        Dependency
        BlockScope
        BlockScope.get_deps_by_src(block)
        BlockScope.get_deps_by_dst(block)
    """,
}
# What a schedule holds, not what its class does; and objects made by a schedule alone.
_VALUES = {"Schedule.state", "Schedule.trace", "Schedule.func_working_on"}


def cases() -> list[tuple[str, str]]:
    return [
        (module, line.strip())
        for module, text in NAMES.items()
        for line in text.split("\n")
        if line.strip()
    ]


def parameters(fn: Any, bound: bool) -> str:
    """Names and defaults, without types and the object of a method."""
    shown = []
    for q in list(inspect.signature(fn).parameters.values())[bound:]:
        if q.kind is q.KEYWORD_ONLY and not any(s.startswith("*") for s in shown):
            shown.append("*")
        name = {q.VAR_POSITIONAL: "*", q.VAR_KEYWORD: "**"}.get(q.kind, "") + q.name
        shown.append(name if q.default is q.empty else f"{name}={q.default!r}")
    return ", ".join(shown)


def split(text: str) -> list[str]:
    """Parameters of a list of them; commas inside of brackets do not count."""
    return re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text.replace(", ", ","))


@pytest.mark.parametrize(("module", "line"), cases())
def test_name(module: str, line: str) -> None:
    name, given = re.fullmatch(r"([\w.]+)(?:\((.*)\))?", line).groups()
    found: Any = importlib.import_module(f"loopwright.{module}")
    owner: Any = None
    *_, last = parts = name.split(".")
    if name in _VALUES:
        assert hasattr(tir.Schedule(p.matmul), last)
        return
    for part in parts:
        owner, found = found, getattr(found, part)
    if given is None or not callable(found) or isinstance(found, property):
        return
    static = inspect.isclass(owner) and isinstance(
        inspect.getattr_static(owner, last), staticmethod
    )
    ours = (
        parameters(found, inspect.isclass(owner) and not static).replace("(", "[").replace(")", "]")
    )
    # What has to be given there may have a default here.
    for mine, theirs in zip(split(ours), split(given), strict=True):
        assert theirs == (mine if "=" in theirs else mine.split("=")[0])


def test_an_instruction_is_a_line_of_python() -> None:
    block, loop = tir.schedule.BlockRV(), tir.schedule.LoopRV()
    kind = tir.schedule.InstructionKind.get("GetLoops")
    step = tir.schedule.Instruction(kind, [block], [], [loop, tir.schedule.LoopRV()])
    assert str(step) == "_, _ = sch.get_loops(block=_)"
    assert block.same_as(block) and not loop.same_as(step.outputs[1])
    assert step.kind.same_as(kind)


@T.prim_func
def two_nests(A: T.Buffer((8, 8)), B: T.Buffer((8, 8))):
    for i, j in T.grid(8, 8):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = T.float32(1)
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]


def test_refs_follow_a_replaced_part() -> None:
    state = tir.schedule.ScheduleState(two_nests)
    first, second = state.mod["main"].body.block.body.seq
    gone, kept = state.get_sref(first), state.get_sref(second)
    block = state.get_sref(second.body.body.block)
    other = first.replace(loop_var=tir.Var("k", "int32"), body=tir.Evaluate(0))
    state.replace(gone, other)
    now = state.mod["main"].body.block.body.seq
    assert gone.stmt is None and state.get_sref(now[1]) is kept
    renamed = block.stmt.replace(name_hint="other")
    state.replace(block, renamed, {block.stmt: renamed})
    assert block.stmt is renamed and block.parent.parent is kept
    assert state.get_sref(renamed) is block
