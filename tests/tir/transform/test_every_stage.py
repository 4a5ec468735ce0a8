"""Every stage of the lowering can be run, and printed and parsed back: varied programs go through
the passes one by one, the interpreter runs them after each, and the text gives the same module."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from loopwright.ir.module import IRModule
from loopwright.ir.structural import assert_structural_equal
from loopwright.ir.target import Target
from loopwright.ir.transform import Sequential
from loopwright.sched import ApplyDefaultSchedule
from loopwright.script import from_source
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

from .test_stages import MATCHED_TILE

CPU = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
F16, BF16, F8 = "float16", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
PROGRAMS: dict[str, tuple[str, list]] = {}


def program(name, arguments, text):
    """A function's text, and its arguments: (shape, dtype) for an array, a number for a scalar."""
    PROGRAMS[name] = (f"@T.prim_func\ndef main{text.strip()}\n", arguments)


program(
    "matmul",
    [((13, 20), "float32"), ((20, 24), "float32"), ((13, 24), "float32")],
    """
(A: T.Buffer((13, 20), "float32"), B: T.Buffer((20, 24), "float32"), C: T.Buffer((13, 24), "float32")):
    for i, j, k in T.grid(13, 24, 20):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""",
)
program(
    "convolution_with_padding",
    [((1, 3, 7, 7), "float32"), ((4, 3, 3, 3), "float32"), ((1, 4, 7, 7), "float32")],
    """
(A: T.Buffer((1, 3, 7, 7), "float32"), W: T.Buffer((4, 3, 3, 3), "float32"), C: T.Buffer((1, 4, 7, 7), "float32")):
    P = T.alloc_buffer((1, 3, 9, 9))
    for n, c, i, j in T.grid(1, 3, 9, 9):
        with T.block("pad"):
            vn, vc, vi, vj = T.axis.remap("SSSS", [n, c, i, j])
            P[vn, vc, vi, vj] = T.if_then_else(1 <= vi and vi < 8 and 1 <= vj and vj < 8, A[vn, vc, vi - 1, vj - 1], T.float32(0))
    for n, o, i, j, c, a, b in T.grid(1, 4, 7, 7, 3, 3, 3):
        with T.block("conv"):
            vn, vo, vi, vj, vc, va, vb = T.axis.remap("SSSSRRR", [n, o, i, j, c, a, b])
            with T.init():
                C[vn, vo, vi, vj] = T.float32(0)
            C[vn, vo, vi, vj] = C[vn, vo, vi, vj] + P[vn, vc, vi + va, vj + vb] * W[vo, vc, va, vb]
""",
)
program(
    "softmax_of_symbolic_shape",
    [((3, 19), "float32"), ((3, 19), "float32")],
    """
(a: T.handle, b: T.handle):
    m = T.int64()
    n = T.int64()
    A = T.match_buffer(a, (m, n), "float32")
    B = T.match_buffer(b, (m, n), "float32")
    top = T.alloc_buffer((m,))
    total = T.alloc_buffer((m,))
    e = T.alloc_buffer((m, n))
    for i, k in T.grid(m, n):
        with T.block("top"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                top[vi] = T.min_value("float32")
            top[vi] = T.max(top[vi], A[vi, vk])
    for i, k in T.grid(m, n):
        with T.block("e"):
            vi, vk = T.axis.remap("SS", [i, k])
            e[vi, vk] = T.exp(A[vi, vk] - top[vi])
    for i, k in T.grid(m, n):
        with T.block("total"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                total[vi] = T.float32(0)
            total[vi] = total[vi] + e[vi, vk]
    for i, k in T.grid(m, n):
        with T.block("b"):
            vi, vk = T.axis.remap("SS", [i, k])
            B[vi, vk] = e[vi, vk] / total[vi]
""",
)
program(
    "argmax",
    [((4, 9), "float32"), ((4,), "int64"), ((4,), "float32")],
    """
(A: T.Buffer((4, 9), "float32"), I: T.Buffer((4,), "int64"), V: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 9):
        with T.block("argmax"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(A[vi, vk])
            T.writes(I[vi], V[vi])
            with T.init():
                I[vi] = T.int64(-1)
                V[vi] = T.min_value("float32")
            v_i: T.int64 = T.Select(V[vi] >= A[vi, vk], I[vi], T.Cast("int64", vk))
            v_v: T.float32 = T.Select(V[vi] >= A[vi, vk], V[vi], A[vi, vk])
            I[vi] = v_i
            V[vi] = v_v
""",
)
program(
    "scan",
    [((5, 6), "float32"), ((5, 6), "float32")],
    """
(X: T.Buffer((5, 6), "float32"), S: T.Buffer((5, 6), "float32")):
    for j in range(6):
        with T.block("first"):
            vj = T.axis.spatial(6, j)
            S[0, vj] = X[0, vj]
    for t in range(4):
        for j in range(6):
            with T.block("next"):
                vt = T.axis.opaque(4, t)
                vj = T.axis.spatial(6, j)
                T.reads(S[vt, vj], X[vt + 1, vj])
                T.writes(S[vt + 1, vj])
                S[vt + 1, vj] = S[vt, vj] * T.float32(0.5) + X[vt + 1, vj]
""",
)
program(
    "gather",
    [((9, 16), "float32"), ((4,), "index"), ((4, 16), "float32")],
    """
(A: T.Buffer((9, 16), "float32"), I: T.Buffer((4,), "int64"), B: T.Buffer((4, 16), "float32")):
    for i in range(4):
        for j in T.vectorized(16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[0:9, vj], I[vi])
                T.writes(B[vi, vj])
                B[vi, vj] = A[I[vi], vj]
""",
)
program(
    "while_loop",
    [((8,), "float32"), ((1,), "int32")],
    """
(A: T.Buffer((8,), "float32"), N: T.Buffer((1,), "int32")):
    with T.block("root"):
        T.reads(A[0:8])
        T.writes(N[0], A[0:8])
        s = T.alloc_buffer((1,))
        s[0] = T.float32(0)
        N[0] = 0
        while N[0] < 8 and s[0] < T.float32(20):
            s[0] = s[0] + T.float32(1) + A[N[0]] * A[N[0]]
            A[N[0]] = s[0]
            N[0] = N[0] + 1
""",
)
program(
    "matched_tile",
    [((8, 8), "float32"), ((8, 8), "float32")],
    MATCHED_TILE,
)
program(
    "vectorized_tail",
    [((21,), "float32"), ((21,), "float32")],
    """
(A: T.Buffer((21,), "float32"), B: T.Buffer((21,), "float32")):
    for io in range(3):
        for ii in T.vectorized(8):
            with T.block("B"):
                vi = T.axis.spatial(21, io * 8 + ii)
                T.where(io * 8 + ii < 21)
                T.reads(A[vi])
                T.writes(B[vi])
                B[vi] = A[vi] * A[vi] + T.float32(1)
""",
)
program(
    "parallel_with_scalars",
    [((12, 5), "float32"), ((12, 5), "float32"), 3, 0.5, True],
    """
(A: T.Buffer((12, 5), "float32"), B: T.Buffer((12, 5), "float32"), k: T.int32, x: T.float32, up: T.bool):
    for i in T.parallel(12):
        for j in range(5):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.if_then_else(up, A[vi, vj] * x, A[vi, vj]) + T.Cast("float32", k)
""",
)
program(
    "int8_dot",
    [((6, 32), "int8"), ((8, 32), "int8"), ((6, 8), "int32")],
    """
(A: T.Buffer((6, 32), "int8"), B: T.Buffer((8, 32), "int8"), C: T.Buffer((6, 8), "int32")):
    for i, j, k in T.grid(6, 8, 32):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vj, vk])
""",
)
program(
    "bool_mask",
    [((4, 10), "float32"), ((4, 10), "bool"), ((4, 10), "bool")],
    """
(A: T.Buffer((4, 10), "float32"), M: T.Buffer((4, 10), "bool"), O: T.Buffer((4, 10), "bool")):
    for i in range(4):
        for j in T.vectorized(10):
            with T.block("O"):
                vi, vj = T.axis.remap("SS", [i, j])
                O[vi, vj] = M[vi, vj] and not A[vi, vj] > T.float32(0)
""",
)
for _name, _kind in (("float16", F16), ("bfloat16", BF16), ("float8_e4m3fn", F8)):
    program(
        f"{_name}_scale_and_sum",
        [((5, 16), _kind), ((5, 16), _kind), ((5,), "float32")],
        f"""
(A: T.Buffer((5, 16), "{_name}"), B: T.Buffer((5, 16), "{_name}"), S: T.Buffer((5,), "float32")):
    for i, j in T.grid(5, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.{_name}(2) + T.{_name}(1)
    for i, j in T.grid(5, 16):
        with T.block("S"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + T.Cast("float32", B[vi, vj])
""",
    )
program(
    "pragmas_and_pipelines",
    [((16, 8), "float32"), ((16, 8), "float32")],
    """
(A: T.Buffer((16, 8), "float32"), B: T.Buffer((16, 8), "float32")):
    for i in T.serial(16, annotations={"pragma_auto_unroll_max_step": 16, "pragma_unroll_explicit": 1, "software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
        with T.block("step"):
            vi = T.axis.spatial(16, i)
            T.reads(A[vi, 0:8])
            T.writes(B[vi, 0:8])
            c = T.alloc_buffer((1, 8))
            for j in range(8):
                with T.block("load"):
                    vj = T.axis.spatial(8, j)
                    c[0, vj] = A[vi, vj] * T.float32(2)
            for j in range(8):
                with T.block("write"):
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = c[0, vj] + T.float32(1)
""",
)
program(
    "strided_and_offset",
    [((4, 6), "strided"), ((4, 6), "float32")],
    """
(a: T.handle, B: T.Buffer((4, 6), "float32")):
    s = T.int32()
    A = T.match_buffer(a, (4, 6), "float32", strides=(s, 1))
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] - T.float32(1)
""",
)


def arguments(kinds):
    rng = np.random.default_rng(0)
    made = []
    for kind in kinds:
        if not isinstance(kind, tuple):
            made.append(kind)
            continue
        shape, dtype = kind
        if dtype == "index":
            made.append(rng.integers(0, 9, shape).astype("int64"))
        elif dtype == "strided":
            made.append(rng.standard_normal((shape[0], 10)).astype("float32")[:, : shape[1]])
        elif dtype in ("int8", "int32", "int64"):
            made.append(rng.integers(-100, 100, shape).astype(dtype))
        elif dtype == "bool":
            made.append(rng.random(shape) < 0.5)
        else:
            made.append(rng.standard_normal(shape).astype(dtype))
    return made


def copies(values):
    """Arrays to write to; strided ones stay strided."""
    made = []
    for value in values:
        if isinstance(value, np.ndarray) and not value.flags.c_contiguous:
            whole = np.zeros((value.shape[0], 10), value.dtype)
            whole[:, : value.shape[1]] = value
            value = whole[:, : value.shape[1]]
        elif isinstance(value, np.ndarray):
            value = value.copy()
        made.append(value)
    return made


def by_signature(func, given, symbols):
    """The arguments in the order of a lowered signature: arrays, then sizes by name."""
    arrays = iter([v for v in given if isinstance(v, np.ndarray)])
    scalars = iter([v for v in given if not isinstance(v, np.ndarray)])
    made = []
    for param in func.params:
        if param.dtype.is_handle:
            array = next(arrays)
            made.append(array if array.flags.c_contiguous else array.base)
        elif param.name in symbols:
            made.append(symbols[param.name])
        else:
            made.append(next(scalars))
    return made


def flat(item):
    """The passes of nested sequences."""
    return (
        [p for part in item.passes for p in flat(part)] if isinstance(item, Sequential) else [item]
    )


def values(given):
    return [np.asarray(v, "float64") for v in given if isinstance(v, np.ndarray)]


def check(mod, execute, want, stage):
    got = execute(mod)
    for a, b in zip(values(got), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5, err_msg=stage)
    text = mod.script(show_meta=True)
    try:
        again = from_source(text)
    except Exception as err:
        raise AssertionError(f"{stage}: {err}\n{text}") from err
    assert_structural_equal(again, mod)


@pytest.mark.sample(5)
@pytest.mark.no_roundtrip  # made here, after every pass
@pytest.mark.parametrize("scheduled", [False, True], ids=["plain", "scheduled"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_stage(name, scheduled):
    text, kinds = PROGRAMS[name]
    given = arguments(kinds)
    symbols = {"m": 3, "n": 19, "s": 10}
    mod = IRModule({"main": from_source(text).with_attr("global_symbol", "main")})

    def as_written(mod):
        made = copies(given)
        run(mod["main"], made, mod)
        return made

    def unpacked(mod):
        made = copies(given)
        run(mod["main"], by_signature(mod["main"], made, symbols), mod)
        return made

    def packed(mod):
        made = copies(given)
        assert run(mod["__tvm_ffi_main"], [None, made, len(made), None], mod) == 0
        return made

    want = values(as_written(mod))
    with Target(CPU):
        stages = [ApplyDefaultSchedule()] if scheduled else []
        for item in [*stages, *flat(tt.lower_to_loops())]:
            after = item(mod)
            if after is not mod:
                mod = after
                check(mod, as_written, want, item.info.name)
        final = mod
        for item in flat(tt.finalize()):
            final = item(final)
            check(final, unpacked, want, item.info.name)
        entry = tt.MakePackedAPI()(mod)
        check(entry, packed, want, "MakePackedAPI")
        for item in (tt.UnpackSignatures(),):
            entry = item(entry)
            check(entry, packed, want, f"MakePackedAPI, {item.info.name}")


@pytest.mark.parametrize("start", ["i * 2", "T.max(i - 1, 0)", "i // 2"])
def test_regions_are_read_as_printed(start):
    """Also with extents that are not simplified: max - min + 1."""
    mod = IRModule(
        {
            "main": from_source(f"""
@T.prim_func
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("b"):
            T.reads(A[{start}:{start} + ((i + 3) // 2 - ({start}) + 1)])
            T.writes(B[i])
            B[i] = A[0]
""")
        }
    )
    text = mod.script()
    assert "// 2 - " in text  # it is kept
    assert_structural_equal(from_source(text), mod)
