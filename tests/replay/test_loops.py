"""What the analyses, the interpreter and single passes say of loops: of programs that passes start from,
of those with a node changed, and of random schedules on their way down."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from functools import partial
from textwrap import indent
from typing import Any

import numpy as np
import pytest

from loopwright import tir
from loopwright.ir.functor import post_order_visit
from loopwright.ir.module import IRModule
from loopwright.script import from_source
from loopwright.tir import analysis as ta
from loopwright.tir import stmt as st
from loopwright.tir import transform as tt
from loopwright.tir.analysis import (
    effects,
    element_accesses,
    in_place,
    liveness,
    op_pattern,
    reshape,
)
from loopwright.tir.index_dtype import with_index_dtype
from loopwright.tir.interpreter import compile_func
from loopwright.tir.tensor_intrin import DOT_SPECS
from loopwright.tir.transform.pipeline import finalize, lower_to_loops
from tools.make_passes import level

from ..tir.schedule.long_run import sequence
from ..tir.transform.test_every_stage import PROGRAMS
from .stages import said
from .test_passes import documented
from .test_texts import changed

CHANGES = 6  # of each program
SIZE = 3  # of each symbolic dimension
WORK = 3000  # iterations of a program that is run
GPU = {"max_shared_memory_per_block": 64, "max_threads_per_block": 8, "max_thread_x": 4}


def nodes(func: tir.PrimFunc, *kinds: type) -> list[Any]:
    found: list[Any] = []
    post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, kinds) else None)
    return found


def known(func: tir.PrimFunc, mod: IRModule) -> dict[str, str]:
    """What is known of a function."""
    blocks, loops = nodes(func, st.Block), nodes(func, st.For)
    buffers = {b.data: b for b in func.buffer_map.values()}
    gvar = next(g for g, f in mod.functions.items() if f is func)
    asked: dict[str, list[Callable[[], Any]]] = {
        "errors": [
            lambda: ta.well_formed_errors(func),
            lambda: ta.verify_ssa(func),
            lambda: ta.undefined_vars(func.body),
            lambda: ta.out_of_bounds_errors(func),
            lambda: ta.host_access_errors(func),
            lambda: ta.race_errors(func),
            lambda: ta.gpu_code_errors(func, GPU),
            lambda: ta.gpu_code_errors(func, dict.fromkeys(GPU, 0)),
        ],
        "regions": [
            *(partial(ta.get_block_access_region, b, {}) for b in blocks),
            *(partial(ta.get_block_read_write_region, b, buffers) for b in blocks),
            lambda: sorted((b.name, head(s)) for b, s in ta.detect_buffer_access_lca(func).items()),
            lambda: [
                (p.indices, p.guards, [v.loop_var for v in p.loops])
                for p in element_accesses.accesses_of(func).accesses
            ],
        ],
        "facts": [
            lambda: ta.is_pure_function(func),
            lambda: ta.estimate_tir_flops(func.body),
            lambda: ta.calculate_allocated_bytes(func),
            lambda: [ta.calculate_workspace_bytes(func, n) for n in (0, 16)],
            lambda: ta.has_if_then_else(func.body),
            lambda: head(ta.find_anchor_block(mod)),
            lambda: op_pattern.analyze_op_pattern(func),
            lambda: (reshape.has_reshape_pattern(func), reshape.reshaped_input(func)),
            lambda: in_place.declared(func),
            *(partial(ta.identify_memcpy, loop) for loop in loops),
            *(partial(effects.has_effect, n.value) for n in nodes(func, st.Evaluate)),
        ],
        "pointers": [
            lambda: liveness.liveness(mod, gvar),
            *(
                partial(in_place.can_overwrite, func, a, b)
                for a in func.params
                for b in func.params
            ),
        ],
        "indices": [
            lambda: with_index_dtype(func, "int64").script(),
            lambda: with_index_dtype(func, "int32", force=True).script(),
        ],
        "interpreter": [lambda: compile_func(func).source, lambda: results(func, mod)],
    }
    return {name: "\n".join(map(said, questions)) for name, questions in asked.items()}


def head(node: Any) -> str:
    """What a statement is."""
    return str(node).partition("\n")[0]


def results(func: tir.PrimFunc, mod: IRModule) -> list[str]:
    """What the interpreter computes of small whole numbers, to a few bits."""
    work = 1
    for loop in nodes(func, st.For):
        work *= getattr(loop.extent, "value", SIZE)
    if work > WORK or "_run_threads" in compile_func(func).source:  # whose order is not known
        return []
    rng, args = np.random.default_rng(0), []
    for param in func.params:
        if buffer := func.buffer_map.get(param):
            shape = [getattr(e, "value", SIZE) for e in buffer.shape]
            args.append(rng.integers(0, 5, shape).astype(str(buffer.dtype)))
        else:
            args.append(SIZE)
    returned = compile_func(func)(*args, mod=mod)
    arrays = [a.astype("float64") for a in args if isinstance(a, np.ndarray)]
    return [str(returned), *(str(np.round(a, 2).tolist()) for a in arrays)]


def of_module(mod: IRModule) -> dict[str, str]:
    made: dict[str, str] = {}
    for func in mod.functions.values():
        if isinstance(func, tir.PrimFunc):
            for name, text in known(func, mod).items():
                made[name] = made.get(name, "") + text + "\n"
    return made


def on_the_way(mod: IRModule, steps: Callable[[IRModule], list[IRModule]]) -> dict[str, str]:
    """What is known of a module before and after passes."""
    made = {}
    for k, stage in enumerate(steps(mod)):
        made |= {f"{name}{k}": text for name, text in of_module(stage).items()}
    return made


def lowered(mod: IRModule) -> list[IRModule]:
    loops = lower_to_loops()(mod)
    return [mod, loops, finalize()(loops)]


def _lowered(mod: IRModule) -> str:
    return tt.default_tir_pipeline()(mod).script()


# What other programs have none of: buffers within bounds, with strides, at an offset; masks; While.
ODD = {
    "realized": """
B = T.decl_buffer((4, 8))
with T.realize(B[1:4, 2:8], ""):
    for i, j in T.grid(3, 6):
        B[i + 1, j + 2] = A[i, j] * T.float32(2)
    for i, j in T.grid(3, 6):
        A[i, j] = B[3 - i, 7 - j]
""",
    "strides": """
B = T.alloc_buffer((4, 8), strides=(16, 2))
for i, j in T.grid(4, 8):
    with T.block("copy"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] + T.float32(1)
for i, j in T.grid(4, 8):
    with T.block("back"):
        vi, vj = T.axis.remap("SS", [i, j])
        A[vi, vj] = B[3 - vi, vj]
""",
    "a tile": """
for i, j in T.grid(2, 2):
    with T.block("tile"):
        vi, vj = T.axis.remap("SS", [i, j])
        s0, s1, at = T.int32(), T.int32(), T.int32()
        C = T.match_buffer(A[vi * 2:vi * 2 + 2, vj * 4:vj * 4 + 4], (2, 4), strides=[s0, s1], elem_offset=at)
        for k in range(4):
            C[1, k] = C[0, k] + T.Cast("float32", at + s0)
""",
    "a mask": """
for i in range(4):
    A[i, T.Ramp(0, 1, 4)] = T.Broadcast(T.float32(3), 4)
    if i % 2 == 1 and i < 3:
        A[i, T.Ramp(1, 2, 4)] = A[i, T.Ramp(0, 2, 4)] + T.Cast("float32x4", T.Ramp(i, 1, 4))
""",
    "while": """
n = T.decl_buffer((1,), "int32")
n[0] = 0
while n[0] < 4 and A[n[0], 0] >= T.float32(0):
    x: T.float32 = A[n[0], 1] * T.float32(0.5)
    with T.LetStmt(n[0] + 1) as k:
        A[n[0], 0] = T.if_then_else(k < 4, x, T.Select(x < T.float32(1), T.float32(7), -x))
    n[0] = n[0] + T.max(1, T.truncmod(n[0], 3))
with T.Assert(n[0] < 9, "too many"):
    T.evaluate(0)
""",
    "a number": """
A[0, 0] = T.float32(4)
for i in T.serial(1, 4, annotations={"pragma_unroll": 1}):
    for j in T.unroll(8):
        if j < 4:
            A[i, j] = A[i - 1, j + 4] + T.Cast("float32", i // 2 * 3 + j % 3)
        else:
            A[i, j] = T.min(A[i - 1, 7 - j], A[0, T.shift_right(j, 1)])
""",
}


@functools.cache
def starts() -> dict[str, IRModule]:
    """Programs that passes start from."""
    made = {p.stem: mod for p, (_, mod) in documented().items() if level(p) == "tir"}
    functions = {name: from_source(text) for name, (text, _) in PROGRAMS.items()}
    head = '@T.prim_func\ndef main(A: T.Buffer((4, 8), "float32")):\n'
    for name, text in ODD.items():
        functions[name] = from_source(head + indent(text.strip(), "    "))
    return made | {f"stage {n}": IRModule({"main": f}) for n, f in functions.items()}


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
@pytest.mark.filterwarnings("ignore")
def test_facts(replay: Any) -> None:
    replay("loops/facts", {name: of_module(mod) for name, mod in starts().items()})


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
@pytest.mark.filterwarnings("ignore")
def test_facts_of_changed_programs(replay: Any) -> None:
    rows = {}
    for name, mod in starts().items():
        rng, text = random.Random(name), mod.script()
        for k in range(CHANGES):
            one = changed(rng, text)
            try:
                made = from_source(one)
            except Exception as error:  # test_texts says why
                rows[f"{name}-{k}"] = {"refused": type(error).__name__}
                continue
            if isinstance(made, tir.PrimFunc):
                made = IRModule({"main": made})
            if isinstance(made, IRModule):
                rows[f"{name}-{k}"] = of_module(made)
                rows[f"{name}-{k}"]["lowered"] = said(_lowered, made)
    replay("loops/changed", rows)


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
def test_facts_of_schedules(replay: Any) -> None:
    rows = {}
    for seed in range(100, 112):
        _, walk = sequence(seed)
        rows[str(seed)] = on_the_way(walk.sch.mod, lowered)
    replay("loops/schedules", rows)


def test_intrinsics(replay: Any) -> None:
    rows = {}
    for name in DOT_SPECS:
        found = tir.TensorIntrin.get(name)
        rows[name] = {"desc": found.desc.script(), "impl": found.impl.script()}
    replay("loops/intrinsics", rows)
