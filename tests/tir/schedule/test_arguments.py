"""Wrong arguments of every primitive: each is refused by an error of ours, which says what was got or what to give
instead, and the program stays as it is; or it is taken, and the program is well formed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from loopwright import tir
from loopwright.base.errors import InternalError, LoopwrightError
from loopwright.tir import Schedule
from loopwright.tir.analysis import verify_well_formed
from loopwright.tir.schedule.machinery.instruction import KINDS

from ...programs import nest, prim_func
from .intrinsics import scaled

PROGRAM = prim_func(
    "A: T.Buffer((8, 8)), F: T.Buffer((8, 8)), N: T.Buffer((8,), 'int32'), G: T.Buffer((8, 8)), X: T.Buffer((8,)), "
    "S: T.Buffer((8,)), Q: T.Buffer((8,)), M: T.Buffer((8,)), E: T.Buffer((8,))",
    "U = T.alloc_buffer((8,))",
    "V = T.alloc_buffer((8,))",
    "P = T.alloc_buffer((10, 8))",
    "B = T.alloc_buffer((8, 8))",
    "C = T.alloc_buffer((8, 8))",
    nest(
        "P",
        "P[vi, vj] = T.if_then_else(1 <= vi and vi < 9, A[vi - 1, vj], T.float32(0))",
        i=10,
        j=8,
    ),
    nest("B", "B[vi, vj] = P[vi, vj] + P[vi + 2, vj]", i=8, j=8),
    nest(
        "C",
        "C[vi, vj] = C[vi, vj] + B[vi, vk] * A[vk, vj]",
        "C[vi, vj] = T.float32(0)",
        i=8,
        j=8,
        k=8,
    ),
    nest("F", "F[vi, vj] = C[vi, vj] + T.float32(1)", i=8, j=8),
    nest("N", "N[vi] = N[vi] + 1", i=8),
    nest("U", "U[vi] = A[vi, 0]", i=8),
    nest("V", "V[vi] = U[vi] + T.float32(3)", i=8),
    nest("X", "X[vi] = V[vi] * T.float32(2)", i=8),
    nest("G", "G[vi, vj] = A[vi // 2 + vj // 2, vj]", i=8, j=8),
    nest(
        "S",
        "S[vi] = S[vi] + A[vi, vk]\nQ[vi] = Q[vi] + A[vi, vk] * A[vi, vk]",
        "S[vi] = T.float32(0)\nQ[vi] = T.float32(0)",
        i=8,
        k=8,
    ),
    nest("M", "M[vi] = T.max(M[vi], A[vk0, vk1])", "M[vi] = T.float32(0)", i=8, k0=8, k1=8),
    nest("E", "E[vi] = E[vi] + A[vi, 0]", i=8),
)


def loop(s: Schedule, block: str, n: int = 0) -> Any:
    return s.get_loops(block)[n]


# A call of each primitive that is accepted, by the names of its parameters.
GIVEN: dict[str, Callable[[Schedule], dict[str, Any]]] = {
    "add_unit_loop": lambda s: {"block_or_loop": loop(s, "B")},
    "annotate": lambda s: {"block_or_loop": loop(s, "B"), "ann_key": "key", "ann_val": 1},
    "unannotate": lambda s: {"block_or_loop": s.annotate("N", "key", 1) or s.get_block("N"), "ann_key": "key"},
    "enter_postproc": lambda s: {},
    "annotate_buffer_access": lambda s: {
        "block": s.get_block("B"), "buffer_index": 0, "buf_type": "read", "gen_new_ranges": lambda i, j: [i, j],
    },
    "blockize": lambda s: {"target": loop(s, "B", 1), "preserve_unit_iters": True},
    "set_axis_separator": lambda s: {"block": s.get_block("B"), "buffer": ("write", 0), "axis_separators": [1]},
    "unsafe_set_dtype": lambda s: {"block": s.get_block("B"), "buffer_index": 0, "dtype": "float16"},
    "unsafe_hide_buffer_access": lambda s: {"block": s.get_block("C"), "buf_type": "read", "buf_index_array": [0]},
    "cache_index": lambda s: {"block": s.get_block("G"), "storage_scope": "local", "cse_thresh": 0},
    "cache_inplace": lambda s: {"block": s.get_block("N"), "read_buffer_index": 0, "storage_scope": "local"},
    "cache_read": lambda s: {
        "block": s.get_block("B"), "read_buffer_index": 0, "storage_scope": "local", "consumer_blocks": ["B"],
    },
    "cache_write": lambda s: {
        "block": s.get_block("B"), "write_buffer_index": 0, "storage_scope": "local", "consumer_blocks": ["C"],
    },
    "compute_inline": lambda s: {"block": s.get_block("B")},
    "compute_at": lambda s: {"block": s.get_block("B"), "loop": loop(s, "C"), "preserve_unit_loops": False, "index": -1},
    "decompose_padding": lambda s: {"block": s.get_block("P"), "loop": loop(s, "P")},
    "can_decompose_padding": lambda s: {"block": s.get_block("P"), "loop": loop(s, "P")},
    "decompose_reduction": lambda s: {"block": s.get_block("C"), "loop": loop(s, "C", 2)},
    "fuse": lambda s: {"loops": s.get_loops("B"), "preserve_unit_iters": True},
    "get_block": lambda s: {"name": "B", "func_name": "main"},
    "get_loops": lambda s: {"block": s.get_block("B")},
    "get_child_blocks": lambda s: {"block_or_loop": loop(s, "B")},
    "get_producers": lambda s: {"block": s.get_block("C")},
    "get_consumers": lambda s: {"block": s.get_block("C")},
    "get_output_blocks": lambda s: {"scope_block": s.get_block("root")},
    "parallel": lambda s: {"loop": loop(s, "B")},
    "vectorize": lambda s: {"loop": loop(s, "B", 1)},
    "unroll": lambda s: {"loop": loop(s, "B", 1)},
    "bind": lambda s: {"loop": loop(s, "B"), "thread_axis": "threadIdx.x"},
    "loop_partition": lambda s: {"loop": loop(s, "B"), "factors": [2, None], "preserve_unit_iters": True},
    "merge": lambda s: {"loops": [loop(s, "B"), loop(s, "C")]},
    "pad_einsum": lambda s: {"block": s.get_block("C"), "padding": [16, 16, 16]},
    "reverse_compute_inline": lambda s: {"block": s.get_block("X")},
    "reverse_compute_at": lambda s: {"block": s.get_block("F"), "loop": loop(s, "C"), "preserve_unit_loops": False, "index": -1},
    "read_at": lambda s: {"loop": loop(s, "B"), "block": s.get_block("B"), "read_buffer_index": 0, "storage_scope": "shared"},
    "write_at": lambda s: {"loop": loop(s, "B"), "block": s.get_block("B"), "write_buffer_index": 0, "storage_scope": "shared"},
    "reindex": lambda s: {"block": s.get_block("G"), "buffer": ("read", 0)},
    "reindex_cache_read": lambda s: {
        "block": s.get_block("F"), "read_buffer_index": 0, "storage_scope": "local", "index_map": lambda i, j: (j, i),
    },
    "reindex_cache_write": lambda s: {
        "block": s.get_block("B"), "write_buffer_index": 0, "storage_scope": "local", "index_map": lambda i, j: (j, i),
    },
    "decide": lambda s: {"name": "rows", "candidates": [1, 2], "decision": 2},
    "separate_reductions": lambda s: {"block": s.get_block("S")},
    "fuse_reduction_axes": lambda s: {"block": s.get_block("M"), "count": 2},
    "pad_reduction": lambda s: {"block": s.get_block("C"), "factor": 16},
    "pad_rows": lambda s: {"blocks": [s.get_block("B")], "factor": 16, "fill": 0.0},
    "compute_full_tiles": lambda s: {"blocks": [s.get_block("B")], "clamp": True},
    "hoist_padding": lambda s: {"block": s.get_block("E")},
    "prefetch": lambda s: {
        "block": s.get_block("B"), "loop": loop(s, "B"), "buffer_index": 0, "index_map": lambda i, line: (i, line),
        "lines": 2, "condition": lambda i, line: i < 4, "locality": 1,
    },
    "split_few_rows": lambda s: {"loop": s.split(loop(s, "F"), [2, 4])[0], "axis": 0, "most": 2},
    "unsafe_ignore_nan": lambda s: {"block": s.get_block("M")},
    "unsafe_reuse_buffer": lambda s: {"block": s.get_block("V"), "other": s.get_block("X")},
    "reorder": lambda s: {"ordered_loops": s.get_loops("B")[::-1]},
    "reorder_block_iter_var": lambda s: {"block": s.get_block("C"), "new_order": [2, 0, 1]},
    "rfactor": lambda s: {"loop": loop(s, "C", 2), "factor_axis": 0},
    "rolling_buffer": lambda s: {"block": s.compute_at("P", loop(s, "B")) or s.get_block("P"), "write_buffer_index": 0},
    "sample_categorical": lambda s: {"candidates": [2, 4], "probs": [0.5, 0.5], "decision": 1},
    "sample_perfect_tile": lambda s: {"loop": loop(s, "B"), "n": 2, "max_innermost_factor": 4, "decision": None},
    "sample_partitioned_tile": lambda s: {
        "loop": loop(s, "B"), "n": 3, "partition_pos": 1, "innerpart_factor": 2, "decision": None,
    },
    "sample_compute_location": lambda s: {"block": s.get_block("B"), "decision": 0},
    "set_scope": lambda s: {"block": s.get_block("B"), "buffer_index": 0, "storage_scope": "shared"},
    "split": lambda s: {"loop": loop(s, "B"), "factors": [2, None], "preserve_unit_iters": True, "disable_predication": False},
    "storage_align": lambda s: {"block": s.get_block("B"), "buffer_index": 0, "axis": 0, "factor": 32, "offset": 4},
    "tensorize": lambda s: {"block_or_loop": loop(s, "X"), "tensor_intrin": scaled(2, n=8), "preserve_unit_iters": True},
    "transform_block_layout": lambda s: {"block": s.get_block("B"), "index_map": lambda i, j: (i * 8 + j,)},
    "transform_layout": lambda s: {
        "block": s.get_block("B"), "buffer": "B", "index_map": lambda i, j: (j, i), "pad_value": None,
        "assume_injective_transform": False,
    },
}  # fmt: skip


# fmt: off
def wrong(s: Schedule) -> dict[str, Any]:
    """Arguments of all kinds; most are wrong for most parameters."""
    other = Schedule(PROGRAM)
    i, j = s.get_loops("B")
    foreign, number = loop(other, "B"), s.sample_categorical([2, 3], [0.5, 0.5], 1)
    removed, inlined = loop(s, "V"), s.get_block("U")
    s.split(removed, [2, 4])
    s.compute_inline("U")
    place = s.sample_compute_location("B", -2)
    ints = [0, 1, 2, 3, -1, -2, -3, -9, 9, 64, 1 << 31, -(1 << 63), 10**30]
    values = {repr(n): n for n in ints}
    values |= {
        "None": None, "True": True, "1.5": 1.5, "nan": float("nan"), "inf": float("inf"), "bytes": b"B", "object": object(),
        "class": int, "ellipsis": ..., "complex": 1j, "slice": slice(1),
        "''": "", "'B'": "B", "'nope'": "nope", "'root'": "root", "'warp'": "warp", "'wmma.x'": "wmma.x", "'.'": ".",
        "'int8x4'": "int8x4", "'handle'": "handle", "'float7'": "float7", "'write'": "write", "'blockIdx.x'": "blockIdx.x",
        "'vthread'": "vthread", "'A'": "A", "'\\n'": "\n",
        "[]": [], "()": (), "{}": {}, "set": {1}, "[None]": [None], "[[]]": [[]], "[0]": [0], "[-1, 2]": [-1, 2], "[9]": [9],
        "[1.5]": [1.5], "['B']": ["B"], "['nope']": ["nope"], "[0, 0, 0]": [0, 0, 0], "[1, 0]": [1, 0], "[8, 1]": [8, 1],
        "[0, 1, 2]": [0, 1, 2], "[10**30, 1]": [10**30, 1], "read 9": ("read", 9), "write -1": ("write", -1),
        "read None": ("read", None), "both 0": ("both", 0), "read": ("read",), "{1: 2}": {1: 2}, "[{}]": [{}],
        "array": np.arange(3), "number": np.int64(1), "float number": np.float32(1.5), "IntImm": tir.const(1, "int32"),
        "FloatImm": tir.const(1.5, "float32"), "Var": tir.Var("x", "int32"), "StringImm": tir.StringImm("B"),
        "sum": tir.Var("x", "int32") + 1, "handle variable": tir.Var("h", "handle"),
        "buffer": tir.decl_buffer((8, 8), "float32", "B"), "no buffer": tir.decl_buffer((), "float32", "Z"),
        "thread": tir.IterVar(None, "t", 1, "threadIdx.x"), "axis": tir.IterVar((0, 8), "v", 0),
        "intrinsic": scaled(3, n=8), "map": tir.IndexMap.from_func(lambda a: (a,), index_dtype="int32"),
        "lambda 0": lambda: (), "lambda 1": lambda a: (a,), "lambda None": lambda a, b: None, "lambda 0, 0": lambda a, b: (0, 0),
        "lambda names": lambda a, b: ("x", None), "lambda many": lambda *a: (*a, *a), "lambda scalar": lambda a, b: a,
        "lambda nested": lambda a, b: [(a, a + 1, 2), (b, None)], "lambda floor": lambda a, b: (a // 0, b),
        "lambda float": lambda a, b: (a * 1.5, b), "lambda empty": lambda a, b: (), "lambda boolean": lambda a, b: (a < b, b),
        "loop": i, "inner loop": j, "block": s.get_block("C"), "root": s.get_block("root"), "foreign loop": foreign,
        "foreign block": other.get_block("B"), "removed loop": removed, "removed block": inlined, "sampled": number, "place": place,
        "[loop]": [i], "[loop, loop]": [i, i], "[loop, block]": [i, s.get_block("B")], "[block]": [s.get_block("C")],
        "[block, block]": [s.get_block("C")] * 2, "[removed]": [removed], "[foreign]": [foreign], "[sampled, None]": [number, None],
        "statement": s.get(j), "sref": s.get_sref(i), "block statement": s.get(s.get_block("B")), "module": s.mod,
        "[blocks]": [s.get_block("B"), s.get_block("C")], "[block, None]": [s.get_block("B"), None],
    }
    return values
# fmt: on


def ours(error: Exception) -> bool:
    """Whether an error is raised by us for the caller, and says what was got or what to give instead."""
    if isinstance(error, InternalError):
        return False
    said = str(error)
    told = any(word in said for word in ("\n  got: ", "\n  instead: ", "division by the literal 0"))
    return told and isinstance(error, (LoopwrightError, ValueError, TypeError))


def calls(name: str, s: Schedule) -> Iterator[tuple[str, dict[str, Any]]]:
    """The accepted call, then calls in which one argument is another, and without one."""
    given = GIVEN[name](s)
    yield "accepted", given
    values = wrong(s)
    for param in given:
        for label, value in values.items():
            yield f"{param}={label}", {**given, param: value}


def refused(
    name: str, every: int = 1, start: int = 0, program: tir.PrimFunc = PROGRAM
) -> list[str]:
    """The wrong calls that end in another way than they should."""
    faults: list[str] = []
    varargs = next(k.varargs for k in KINDS.values() if k.fn.__name__ == name)
    made: Schedule | None = None
    listed = [label for label, _ in calls(name, Schedule(program))]
    cases: dict[str, dict[str, Any]] = {}
    for n, label in enumerate(listed):
        if n and (n + start) % every:
            continue
        if made is None:
            made = Schedule(program, error_render_level="none", seed=1)
            cases = dict(calls(name, made))
        before, steps = made.mod, len(made.trace.insts)
        arguments = dict(cases[label])
        rest = arguments.pop(varargs, []) if varargs else []
        try:
            if not isinstance(rest, (list, tuple)):
                rest = [rest]
            getattr(made, name)(*rest, **arguments)
        except Exception as error:
            if n == 0 or not ours(error):
                faults.append(f"{name}({label}): {type(error).__name__}: {str(error)[:300]}")
            pure = all(inst.kind.is_pure for inst in made.trace.insts[steps:])
            if not pure or any(made.mod[g] is not f for g, f in before.functions.items()):
                faults.append(f"{name}({label}): refused, and has changed the program")
                made = None
        else:
            try:
                verify_well_formed(made.mod, once=False)
                str(made.trace), made.mod.script()
            except Exception as error:
                faults.append(
                    f"{name}({label}): taken, and {type(error).__name__}: {str(error)[:200]}"
                )
            made = None
    return faults


PRIMITIVES = [
    name
    for name, method in inspect.getmembers(Schedule, inspect.isfunction)
    if ".primitives." in inspect.unwrap(method).__module__
]
A_THIRD = [3, pytest.param(1, marks=pytest.mark.slow)]


def test_every_primitive_is_tried() -> None:
    assert set(GIVEN) == set(PRIMITIVES)
    for kind in KINDS.values():
        if kind.name != "Blockize":
            assert set(kind.params) >= set(GIVEN[kind.fn.__name__](Schedule(PROGRAM)))


# A third of the calls, others of each primitive; all of them in the slow run.
@pytest.mark.parametrize("every", A_THIRD)
@pytest.mark.no_roundtrip
@pytest.mark.no_verify
@pytest.mark.parametrize("name", GIVEN)
def test_wrong_arguments(name: str, every: int) -> None:
    assert not refused(name, every, start=len(name))


def traced() -> Schedule:
    s = Schedule(PROGRAM, seed=3)
    i = loop(s, "B")
    s.split(i, s.sample_perfect_tile(i, 2, 4))
    s.compute_at("P", s.sample_compute_location("P"))
    s.reorder(*s.get_loops("C")[1::-1])
    s.annotate("C", "key", s.sample_categorical([1, 2], [0.5, 0.5]))
    return s


@pytest.mark.parametrize(
    "which", ["SamplePerfectTile", "SampleComputeLocation", "SampleCategorical"]
)
@pytest.mark.parametrize("every", A_THIRD)
def test_wrong_decisions(which: str, every: int) -> None:
    """Of a trace that is replayed: given by a provider, and in the trace itself."""
    trace = traced().trace
    (inst,) = (i for i in trace.insts if i.kind.name == which)
    plain = [v for v in wrong(Schedule(PROGRAM)).values() if v is not None]
    for value in plain[::every]:
        for replay in (
            lambda s, v=value: trace.with_decision(inst, v, False).apply_to_schedule(s),
            lambda s, v=value: trace.apply_to_schedule(
                s, decision_provider=lambda i, *rest: v if i is inst else rest[-1]
            ),
        ):
            try:
                replay(Schedule(PROGRAM, error_render_level="none"))
            except Exception as error:
                assert ours(error), f"{value!r}: {type(error).__name__}: {error}"


def test_wrong_traces() -> None:
    """JSON with a part that is missing, doubled or another."""
    whole = traced().trace.as_json()

    def changed(value: Any) -> Iterator[Any]:
        yield from (None, 0, -1, "x", [], {}, [None], {"node": "x"})
        if isinstance(value, list):
            yield [*value, *value]
            for n, part in enumerate(value):
                yield [*value[:n], *value[n + 1 :]]
                for other in changed(part):
                    yield [*value[:n], other, *value[n + 1 :]]

    tried = 0
    for n, json in enumerate(changed(whole)):
        if n % 7 == 0:
            tried += 1
            try:
                tir.schedule.Trace.apply_json_to_schedule(
                    json, Schedule(PROGRAM, error_render_level="none")
                )
            except Exception as error:
                assert ours(error), f"{json}: {type(error).__name__}: {error}"
    assert tried > 50


@pytest.mark.parametrize(
    "name", ["mod", "seed", "debug_mask", "error_render_level", "enable_check"]
)
def test_wrong_arguments_of_a_schedule(name: str) -> None:
    for value in wrong(Schedule(PROGRAM)).values():
        try:
            Schedule(**{"mod": PROGRAM, name: value}).get_block("B")
        except Exception as error:
            assert ours(error), f"{value!r}: {type(error).__name__}: {error}"


@pytest.mark.parametrize("name", ["get", "get_sref", "remove_rv", "seed", "work_on"])
def test_wrong_arguments_of_other_methods(name: str) -> None:
    for value in wrong(Schedule(PROGRAM)).values():
        try:
            getattr(Schedule(PROGRAM), name)(value)
        except Exception as error:
            assert ours(error), f"{value!r}: {type(error).__name__}: {error}"
