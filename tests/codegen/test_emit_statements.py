"""Statements in compiled code against the interpreter: loops, choices, memory, errors."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.ir.module import IRModule
from loopwright.script import tir as T

from .emitted import agree, compiled, program

pytestmark = pytest.mark.no_roundtrip


def ramp(n, dtype="float32"):
    return np.arange(n).astype(dtype)


def test_loops_serial_nested_empty_and_offset():
    @T.prim_func
    def f(a: T.handle, b: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (n, m), "float32")
        for i in range(n):
            for j in range(m):
                B[i, j] = A[i, j] * T.float32(2) + T.Cast("float32", i * m + j)
        for i in range(1, n):
            B[i, 0] = B[i - 1, 0] + T.float32(1)

    agree(f, ramp(12).reshape(3, 4), np.zeros((3, 4), "float32"))
    agree(f, np.zeros((0, 4), "float32"), np.zeros((0, 4), "float32"))


@pytest.mark.parametrize("n", [1, 7, 64, 1000])
def test_parallel_loops_nested_and_with_captured_values(n):
    @T.prim_func
    def f(a: T.handle, b: T.handle, scale: T.float32):
        n = T.int64()
        A = T.match_buffer(a, (n, 8), "float32")
        B = T.match_buffer(b, (n, 8), "float32")
        shift: T.float32 = scale + T.float32(1)
        for i in T.parallel(n):
            for j in T.parallel(8):
                B[i, j] = A[i, j] * scale + shift

    agree(f, ramp(n * 8).reshape(n, 8), np.zeros((n, 8), "float32"), 3.0)


def test_two_parallel_loops_and_a_serial_one_around():
    @T.prim_func
    def f(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
        for k in range(3):
            for i in T.parallel(64):
                B[i] = B[i] + A[i] * k
            for i in T.parallel(64):
                A[i] = A[i] + B[63 - i]

    agree(f, ramp(64, "int32"), np.zeros(64, "int32"))


def test_vectorized_loop_with_a_tail():
    @T.prim_func
    def f(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range((n + 7) // 8):
            for j in T.vectorized(8):
                if i * 8 + j < n:
                    B[i * 8 + j] = A[i * 8 + j] + T.float32(1)

    for n in (1, 7, 8, 9, 64, 65):
        agree(f, ramp(n), np.zeros(n, "float32"))


def test_gather_scatter_and_strides():
    @T.prim_func
    def f(
        A: T.Buffer((32,), "float32"),
        I: T.Buffer((8,), "int32"),
        B: T.Buffer((32,), "float32"),
        C: T.Buffer((32,), "float16"),
    ):
        for j in T.vectorized(8):
            B[I[j]] = A[j * 4]
        for j in T.vectorized(8):
            C[j * 3 + 1] = T.Cast("float16", A[I[j]])
        for j in T.vectorized(8):
            B[31 - j] = A[7 - j]

    at = np.array([3, 1, 0, 2, 9, 8, 15, 12], "int32")
    agree(f, ramp(32), at, np.zeros(32, "float32"), np.zeros(32, "float16"))


def test_guarded_loads_do_not_read_outside():
    @T.prim_func
    def f(A: T.Buffer((10,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            B[i] = T.if_then_else(i >= 3 and i < 13, A[i - 3], T.float32(0))

    @T.prim_func
    def vector(A: T.Buffer((10,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(2):
            for j in T.vectorized(8):
                B[i * 8 + j] = T.if_then_else(
                    i * 8 + j >= 3 and i * 8 + j < 13, A[i * 8 + j - 3], T.float32(-1)
                )

    @T.prim_func
    def indirect(
        A: T.Buffer((10,), "float32"), I: T.Buffer((16,), "int32"), B: T.Buffer((16,), "float32")
    ):
        for j in T.vectorized(16):
            B[j] = T.if_then_else(I[j] >= 0, A[I[j]] * A[0], T.float32(7))

    @T.prim_func
    def select(A: T.Buffer((10,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            B[i] = T.Select(i < 10, A[i], T.float32(5))

    agree(f, ramp(10), np.zeros(16, "float32"))
    agree(vector, ramp(10), np.zeros(16, "float32"))
    agree(select, ramp(10), np.zeros(16, "float32"))
    at = np.array([0, -1, 3, 9, -(2**30), 2, 1, 1, -5, -6, 4, 4, 8, 9, 0, -1], "int32")
    agree(indirect, ramp(10), at, np.zeros(16, "float32"))


def test_a_guarded_load_far_outside_is_not_done():
    """Addresses that no process has: reading them would stop it."""

    @T.prim_func
    def f(A: T.Buffer((4,), "float32"), I: T.Buffer((16,), "int64"), B: T.Buffer((16,), "float32")):
        for j in range(16):
            B[j] = T.if_then_else(I[j] < T.int64(4), A[I[j]], T.float32(0))

    @T.prim_func
    def vector(
        A: T.Buffer((4,), "float32"), I: T.Buffer((16,), "int64"), B: T.Buffer((16,), "float32")
    ):
        for j in T.vectorized(16):
            B[j] = T.if_then_else(I[j] < T.int64(4), A[I[j]], T.float32(0))

    @T.prim_func
    def both(
        A: T.Buffer((4,), "float32"), I: T.Buffer((16,), "int64"), B: T.Buffer((16,), "float32")
    ):
        for j in range(16):
            k: T.int64 = I[j]
            if k < T.int64(4) and A[k] > T.float32(1):
                B[j] = T.float32(1)

    at = np.where(np.arange(16) % 3 == 0, 2**58, np.arange(16) % 4).astype("int64")
    for func in (f, vector, both):
        agree(func, ramp(4), at, np.zeros(16, "float32"))


def test_if_else_while_and_lets():
    @T.prim_func
    def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            k = T.decl_buffer((1,), "int32")
            x: T.int32 = A[i]
            k[0] = 0
            while k[0] * k[0] < x:
                k[0] = k[0] + 1
            if x % 3 == 0:
                B[i] = k[0]
            elif x % 3 == 1:
                B[i] = -k[0]
            else:
                y: T.int32 = k[0] * 100
                B[i] = y + x

    agree(f, ramp(16, "int32") * 7, np.zeros(16, "int32"))


@pytest.mark.parametrize("size", [1, 100, 20_000, 100_000])
def test_allocations_on_the_stack_and_from_the_workspace(size):
    @T.prim_func
    def f(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (size,), "float32")
        B = T.match_buffer(b, (size,), "float32")
        C = T.decl_buffer((size,), "float32")
        D = T.decl_buffer((size,), "bool")
        for i in range(size):
            C[i] = A[i] * T.float32(3)
            D[i] = A[i] > T.float32(2)
        for i in range(size):
            B[i] = T.if_then_else(D[size - 1 - i], C[size - 1 - i], T.float32(-1))

    agree(f, ramp(size), np.zeros(size, "float32"))


def test_dynamic_allocations_in_parallel_loops():
    @T.prim_func
    def f(a: T.handle, b: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in T.parallel(n):
            C = T.decl_buffer((m,), "float32")
            for j in range(m):
                C[j] = A[i, j] + T.float32(1)
            B[i] = C[0] + C[m - T.int64(1)]

    agree(f, ramp(2000).reshape(20, 100), np.zeros(20, "float32"))


def test_constants():
    data = np.arange(12, dtype="float32")

    @T.prim_func
    def f(B: T.Buffer((12,), "float32")):
        K = T.allocate_const([float(v) for v in data], "float32", [12])
        C = T.decl_buffer((12,), "float32", data=K)
        for i in T.parallel(12):
            B[i] = C[i] * C[11 - i]

    (got,) = agree(f, np.zeros(12, "float32"))
    np.testing.assert_array_equal(got, data * data[::-1])


def test_ramps_broadcasts_and_shuffles():
    @T.prim_func
    def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
        B[0:8] = A[0:8] + T.Broadcast(A[3], 8)
        B[T.Ramp(15, -1, 8)] = T.Ramp(n, n + 1, 8)
        B[0:4] = B[0:4] * T.Broadcast(n, 4)

    agree(f, ramp(16, "int32"), np.zeros(16, "int32"), 5)


def test_shuffles():
    a, b = (tir.decl_buffer((8,), "int32", name) for name in "ab")
    at = lambda k: tir.Ramp(tir.const(k), tir.const(1), 4)  # noqa: E731
    low, high = (tir.BufferLoad(a, [at(k)]) for k in (0, 4))
    picks = [tir.const(k) for k in (7, 0, 3, 4)]
    one, scalars = tir.const(2), [a[k] for k in (5, 1)]
    body = tir.SeqStmt(
        [
            tir.BufferStore(b, tir.Shuffle([low, high], picks), [at(0)]),
            tir.BufferStore(b, tir.Shuffle([high], [one]), [4]),
            tir.BufferStore(b, tir.Shuffle(scalars, picks[1:3][:1] + [tir.const(1)]), [_two(5)]),
        ]
    )
    made = agree(tir.PrimFunc([a, b], body), ramp(8, "int32"), np.zeros(8, "int32"))
    np.testing.assert_array_equal(made[1], [7, 0, 3, 4, 6, 5, 1, 0])


def _two(k):
    return tir.Ramp(tir.const(k), tir.const(1), 2)


def test_buffers_of_vectors():
    @T.prim_func
    def f(A: T.Buffer((4,), "float32x4"), B: T.Buffer((4,), "float32x4")):
        for i in range(4):
            B[i] = A[3 - i] * T.Broadcast(T.float32(2), 4)

    x = ramp(16).reshape(4, 4)
    native = compiled({"f": f})["f"]
    assert native is not None
    text = program({"f": f}).text("f")
    assert "load <4 x float>, ptr" in text and "[4 x float]" in text
    assert x.shape == (4, 4)


def test_a_scalar_stored_in_a_buffer_of_vectors_fills_all_lanes():
    @T.prim_func
    def f(a: T.Buffer((2,), "float32"), c: T.Buffer((8,), "float32")):
        v = T.alloc_buffer((2,), "float32x4")
        for i in range(2):
            v[i] = a[i]
        for i in range(2):
            c[i * 4 : i * 4 + 4] = v[i]

    made = agree(f, ramp(2) + 1, np.zeros(8, "float32"))
    np.testing.assert_array_equal(made[1], [1] * 4 + [2] * 4)


def test_atomic_add_and_access_pointers():
    @T.prim_func
    def f(A: T.Buffer((64,), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "float32")):
        for i in T.parallel(64):
            T.evaluate(T.atomic_add(T.address_of(B[i % 4]), A[i]))
            T.evaluate(T.atomic_add(C.access_ptr("rw", offset=i % 4), T.float32(1)))

    agree(f, ramp(64, "int32"), np.zeros(4, "int32"), np.zeros(4, "float32"))


def test_what_an_error_computes_is_not_known_after_it():
    @T.prim_func
    def f(A: T.Buffer((8,), "int32")):
        n = A[0]
        assert n > 0, T.tvm_tuple("twice is {value}", n * 2)
        A[1] = n * 2

    made = compiled({"f": f})
    x = np.array([3, *range(1, 8)], "int32")
    made["f"](x)
    assert x[1] == 6
    x[0] = -4
    with pytest.raises(ValueError, match="^twice is -8$"):
        made["f"](x)


def test_assertions_outside_and_inside_parallel_loops():
    @T.prim_func
    def outside(A: T.Buffer((8,), "int32")):
        assert A[0] > 0, "the first element must be positive"
        A[1] = 5

    @T.prim_func
    def inside(A: T.Buffer((8,), "int32")):
        for i in T.parallel(8):
            assert A[i] > 0, "every element must be positive"
            A[i] = A[i] + 1

    made = compiled({"outside": outside, "inside": inside})
    x = np.array([0, *range(1, 8)], "int32")
    with pytest.raises(ValueError, match="^the first element must be positive$"):
        made["outside"](x)
    assert x[1] == 1
    with pytest.raises(ValueError, match="^every element must be positive$"):
        made["inside"](x)
    x[...] = 1
    made["outside"](x)
    assert x[1] == 5
    made["inside"](x)
    np.testing.assert_array_equal(x, [2, 6, 2, 2, 2, 2, 2, 2])


def test_a_failed_call_gives_its_workspace_back():
    @T.prim_func
    def f(A: T.Buffer((1,), "int32")):
        C = T.decl_buffer((100_000,), "float32")
        for i in range(100_000):
            C[i] = T.float32(1)
        assert A[0] > 0, "no"
        A[0] = T.Cast("int32", C[0] + C[99_999]) - 1

    text = program({"f": f}).text("f")
    assert text.count("call void @lw_workspace_free") == 2
    fail = text[text.rindex("call void @lw_raise") :]
    assert "lw_workspace_free" in fail[: fail.index("ret i32 -1")]
    native = compiled({"f": f})["f"]
    for _ in range(50):
        with pytest.raises(ValueError, match="no"):
            native(np.zeros(1, "int32"))
    x = np.ones(1, "int32")
    native(x)
    assert x[0] == 1


def test_return_early_and_with_a_value():
    @T.prim_func
    def early(A: T.Buffer((8,), "int32")):
        if A[0] < 0:
            T.evaluate(T.ret(T.int32(0)))
        A[1] = 99

    @T.prim_func
    def value(A: T.Buffer((8,), "float32")) -> T.float32:
        T.evaluate(T.ret(A[2] * T.float32(2)))

    @T.prim_func
    def flag(A: T.Buffer((8,), "float32")) -> T.bool:
        T.evaluate(T.ret(A[2] > T.float32(1)))

    @T.prim_func
    def whole(n: T.int64) -> T.int64:
        T.evaluate(T.ret(n * n))

    made = compiled({"early": early, "value": value, "flag": flag, "whole": whole})
    x = np.array([-1, 2, 3, 4, 5, 6, 7, 8], "int32")
    assert made["early"](x) == 0 and x[1] == 2
    x[0] = 1
    made["early"](x)
    assert x[1] == 99
    assert made["value"](ramp(8)) == 4.0
    assert made["flag"](ramp(8)) is True
    assert made["whole"](7) == 49


def test_lines_say_where_they_come_from():
    @T.prim_func
    def f(A: T.Buffer((8,), "float32")):
        for i in range(8):
            A[i] = A[i] + T.float32(1)

    made = program({"f": f})
    text = made.text("f")
    comments = [line for line in text.splitlines() if line.startswith("  ;")]
    assert any("test_emit_statements.py:" in line for line in comments), text
    # What is compiled has no comments: moving a source file does not compile anything again.
    other = IRModule({"f": f.replace(span=None)})
    assert program(other).objects["f"] == made.objects["f"]


def test_what_is_not_lowered_is_refused():
    from loopwright.base.errors import LoopwrightError
    from loopwright.codegen.llvm.build import build_program
    from loopwright.codegen.lowered import kernel_entry
    from loopwright.ir.target import Target

    @T.prim_func
    def f(A: T.Buffer((8, 8), "float32")):
        for i, j in T.grid(8, 8):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float32(0)

    with pytest.raises(
        LoopwrightError, match=r"(?s)BlockRealize is not lowered.*default_tir_pipeline"
    ):
        build_program({"f": f}, {}, {"f": kernel_entry(f)}, Target("llvm"))

    @T.prim_func
    def bound(A: T.Buffer((8,), "float32")):
        for i in T.thread_binding(8, thread="threadIdx.x"):
            A[i] = T.float32(0)

    with pytest.raises(LoopwrightError, match="loop i is bound to a GPU thread"):
        compiled({"bound": bound})


def returning(dtype, name):
    """A function that returns its argument in a data type."""
    x = tir.Var("x", "float64")
    body = tir.Evaluate(tir.ret(tir.Cast(dtype, x)))
    return tir.PrimFunc([x], body, ret_type=lw.ir.PrimType(dtype)).with_attr("global_symbol", name)


def test_values_of_each_type_are_returned():
    values = {
        "bool": True, "int8": -3, "uint8": 200, "int16": -300, "int32": -5, "uint32": 4000000000,
        "int64": -(1 << 40), "float16": 1.5, "float32": 2.5, "float64": 0.1,
    }  # fmt: skip
    mod = lw.compile(IRModule({f"f_{dtype}": returning(dtype, f"f_{dtype}") for dtype in values}))
    for dtype, value in values.items():
        got = mod[f"f_{dtype}"](float(value))
        assert got == value and type(got) is type(value)
    for dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        with pytest.raises(lw.LoopwrightError, match=f"T.ret of this type\n  got: {dtype}"):
            lw.compile(returning(dtype, "f"))
