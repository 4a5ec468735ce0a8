"""int4 and the like share bytes: interpreted before and after the pass, and compiled."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from loopwright import compile, tir
from loopwright import relax as rx
from loopwright.base.errors import LoopwrightError
from loopwright.ir import trace
from loopwright.ir.module import IRModule
from loopwright.ir.structural import assert_structural_equal
from loopwright.runtime import empty, register_func, remove_global_func, tensor
from loopwright.script import from_source
from loopwright.script import tir as T
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

from .emitted import compiled, elementwise, program

pytestmark = pytest.mark.no_roundtrip
TYPES = ["int4", "uint4", "int2", "uint2"]


def values(dtype, shape):
    bits = int(dtype[-1])
    low = -(1 << bits - 1) if dtype[0] == "i" else 0
    return np.resize(np.arange(low, low + (1 << bits)), shape)


def everywhere(func, *arrays):
    """The tensors after: the interpreter, the interpreter after lowering, native code."""
    lowered = tt.lower_to_loops()(IRModule({"f": func}))
    packed = tt.Int4StorageLegalize()(lowered)["f"]
    pointers = tt.finalize()(lowered)["f"]
    native = compiled({"f": func})["f"]
    results = []
    for each in (
        lambda a: run(func, a),
        lambda a: run(lowered["f"], a),
        lambda a: run(packed, a),
        lambda a: run(pointers, [*a, *_sizes(pointers, a)]),
        lambda a: native(*a),
    ):
        given = [tensor(a, dtype=a.dtype) if hasattr(a, "bytes") else a.copy() for a in arrays]
        each(given)
        results.append([np.asarray(g).astype("int64") for g in given])
    for other in results[1:]:
        for want, got in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(got, want)
    return results[0]


def _sizes(func, args):
    return [args[0].shape[0]] * (len(func.params) - len(args))


@pytest.mark.parametrize("lanes", [1, 2, 4, 5, 8, 16])
@pytest.mark.parametrize("dtype", TYPES)
def test_loads_and_stores_of_every_width(dtype, lanes):
    count = 80 if lanes == 5 else 64
    a = tensor(values(dtype, (count,)), dtype=dtype)
    out = empty((count,), dtype)
    out[:] = 1
    func = elementwise(lambda x: x * x + x, dtype, lanes=lanes)
    compiled({"f": func})["f"](a, out)
    wide = values(dtype, (count,))
    want = tensor(wide * wide + wide, dtype=dtype).numpy()
    np.testing.assert_array_equal(out.numpy().astype(int), want.astype(int))
    again = empty((count,), dtype)
    run(func, [a, again])
    np.testing.assert_array_equal(again.numpy().astype(int), want.astype(int))
    pointers = tt.default_tir_pipeline()(IRModule({"f": func}))["f"]
    again[:] = 0  # the bytes do not tell how many elements there are: n is passed
    run(pointers, [a, again, count])
    np.testing.assert_array_equal(again.numpy().astype(int), want.astype(int))


@pytest.mark.parametrize("columns", [7, 8])
def test_neighbours_of_a_store_stay_as_they_were(columns):
    @T.prim_func
    def f(A: T.Buffer((4, columns), "int4"), B: T.Buffer((4, columns), "int4")):
        for i in range(4):
            for j in range(columns // 2):
                B[i, j * 2 + 1] = A[i, j * 2] - T.Cast("int4", 1)

    a = tensor(values("int4", (4, columns)), dtype="int4")
    b = tensor(np.full((4, columns), -3), dtype="int4")
    _, got = everywhere(f, a, b)
    want = np.full((4, columns), -3)
    want[:, 1 : columns // 2 * 2 : 2] = a.numpy().astype(int)[:, 0 : columns // 2 * 2 : 2] - 1
    np.testing.assert_array_equal(got, (want + 8) % 16 - 8)


def test_masked_strided_and_gathered_vectors():
    @T.prim_func
    def f(
        A: T.Buffer((32,), "uint4"),
        I: T.Buffer((8,), "int32"),
        B: T.Buffer((32,), "uint4"),
    ):
        for j in T.vectorized(8):
            B[j * 3] = A[I[j]]
        for j in T.vectorized(8):
            if j < 5:
                B[24 + j] = A[j] + T.Cast("uint4", 1)

    a = tensor(values("uint4", (32,)), dtype="uint4")
    b = tensor(np.full(32, 9), dtype="uint4")
    index = np.array([31, 0, 5, 5, 17, 2, 30, 1], "int32")
    _, _, got = everywhere(f, a, index, b)
    want = np.full(32, 9)
    want[0:24:3] = values("uint4", 32)[index]
    want[24:29] = values("uint4", 32)[:5] + 1
    np.testing.assert_array_equal(got, want)


def loops_of(func):
    """Kinds of the loops after all of the lowering."""
    found = []
    lowered = tt.default_tir_pipeline()(IRModule({"f": func}))["f"]
    tir.stmt_functor.post_order_visit(
        lowered.body, lambda n: found.append(n.kind) if isinstance(n, tir.For) else None
    )
    return found


def parallel_store(columns, offset=0):
    @T.prim_func
    def f(A: T.Buffer((64, columns), "int4"), B: T.Buffer((64, columns + offset), "int4")):
        for i in T.parallel(64):
            for j in range(columns):
                B[i, j + offset] = A[i, j]

    return f


def test_parallel_loops_that_would_share_a_byte_become_serial():
    serial, parallel = tir.ForKind.SERIAL, tir.ForKind.PARALLEL
    assert loops_of(parallel_store(6)) == [serial, parallel]
    with trace.trace() as told:
        assert loops_of(parallel_store(7)) == [serial, serial]
    (note,) = [n for n in told.notes if n.kind == "serial loop"]
    assert note.facts["why"] == "two of its iterations may store to one byte"
    assert loops_of(parallel_store(6, 1)) == [serial, serial]
    assert loops_of(parallel_store(6, 2)) == [serial, parallel]
    one_each = elementwise(lambda a: a, "int4", lanes=8)
    assert parallel not in loops_of(one_each)
    for columns in (6, 7):
        a = tensor(values("int4", (64, columns)), dtype="int4")
        _, got = everywhere(parallel_store(columns), a, empty((64, columns), "int4"))
        np.testing.assert_array_equal(got, a.numpy().astype(int))


def test_memory_of_a_parallel_iteration_is_its_own():
    @T.prim_func
    def f(A: T.Buffer((16, 5), "int4"), B: T.Buffer((16, 5), "int32")):
        for i in T.parallel(16):
            C = T.decl_buffer((5,), "int4")
            for j in range(5):
                C[j] = A[i, j] + A[i, j]
            for j in range(5):
                B[i, j] = T.Cast("int32", C[j])

    assert loops_of(f)[-1] == tir.ForKind.PARALLEL
    a = tensor(values("int4", (16, 5)), dtype="int4")
    _, got = everywhere(f, a, np.zeros((16, 5), "int32"))
    np.testing.assert_array_equal(got, (a.numpy().astype(int) * 2 + 8) % 16 - 8)


def test_constants_and_allocations_take_half_the_bytes():
    data = values("int4", (9,))
    b = tir.decl_buffer((9,), "int32", "b")
    c = tir.decl_buffer((9,), "int4", "c")
    i = tir.Var("i", "int32")
    store = tir.BufferStore(b, tir.BufferLoad(c, [i]).astype("int32"), [i])
    loop = tir.For(i, tir.const(0), tir.const(9), 0, store)
    for given in (data.astype(ml_dtypes.int4), tensor(data, dtype="int4")):
        body = tir.AllocateConst(c.data, "int4", [tir.const(9)], given, loop)
        func = tir.PrimFunc([b], body)
        (constant,) = program({"f": func}).constants.values()
        assert constant.nbytes == 5
        (got,) = everywhere(func, np.zeros(9, "int32"))
        np.testing.assert_array_equal(got, data)

    @T.prim_func
    def f(B: T.Buffer((9,), "int32")):
        C = T.decl_buffer((9,), "uint4")
        for i in range(9):
            C[i] = T.Cast("uint4", i * 3)
        for i in range(9):
            B[i] = T.Cast("int32", C[i])

    lowered = str(tt.default_tir_pipeline()(IRModule({"f": f}))["f"])
    assert 'T.decl_buffer((5,), "uint8")' in lowered or 'T.allocate([5], "uint8"' in lowered
    (got,) = everywhere(f, np.zeros(9, "int32"))
    np.testing.assert_array_equal(got, np.arange(9) * 3 % 16)


def test_arrays_of_ml_dtypes_are_packed_for_the_call_and_written_back():
    native = compiled({"f": elementwise(lambda a: a + a, "int4", lanes=1)})["f"]
    a, out = values("int4", (11,)).astype(ml_dtypes.int4), np.zeros(11, ml_dtypes.int4)
    native(a, out)
    np.testing.assert_array_equal(out.astype(int), (values("int4", 11) * 2 + 8) % 16 - 8)
    message = r"argument 0 `a0` has dtype int8, expected dtype int4"
    with pytest.raises(ValueError, match=message):
        native(a.astype("int8"), out.astype("int8"))
    message = r"argument 1 `out` has shape\[0\] = 10, expected 11"
    with pytest.raises(ValueError, match=message):
        native(a, out[:10])


def test_packed_functions_get_packed_tensors():
    seen = []

    def twice(t):
        seen.append((t.dtype, t.shape, t.nbytes))
        t.copyfrom(t.numpy().astype(int) * 2)

    @T.prim_func
    def f(A: T.Buffer((3, 3), "int4")):
        T.evaluate(T.call_packed("test.int4.twice", A))

    register_func("test.int4.twice", twice, override=True)
    try:
        (got,) = everywhere(f, tensor(values("int4", (3, 3)), dtype="int4"))
    finally:
        remove_global_func("test.int4.twice")
    np.testing.assert_array_equal(got, (values("int4", (3, 3)) * 2 + 8) % 16 - 8)
    assert seen == [("int4", (3, 3), 5)] * 5


def test_constants_of_a_graph_are_printed_read_back_interpreted_and_compiled():
    weights = values("int4", (3, 5))
    builder, x = rx.BlockBuilder(), rx.Var("x", rx.TensorStructInfo((3, 5), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            constant = rx.const(weights, "int4")
            total = builder.emit(rx.op.add(rx.op.astype(constant, "float32"), x))
            out = builder.emit_output(total)
        builder.emit_func_output(out)
    mod = builder.finalize()
    assert (constant.struct_info.dtype, constant.data.nbytes) == ("int4", 8)
    assert_structural_equal(from_source(mod.script(show_meta=True)), mod)
    ones = np.ones((3, 5), "float32")
    got = rx.interpreter.Interpreter(mod)["main"](ones)
    np.testing.assert_array_equal(np.asarray(got), weights + 1)
    np.testing.assert_array_equal(compile(mod)(ones).numpy(), weights + 1)


def test_what_cannot_be_packed_is_refused():
    flat = tir.decl_buffer((8,), "int4", "A")
    i = tir.Var("i", "int32")

    def legalize(body):
        loop = tir.For(i, tir.const(0), tir.const(8), 0, body)
        return tt.Int4StorageLegalize()(IRModule({"f": tir.PrimFunc([flat], loop)}))

    take = tir.Evaluate(tir.call_extern("int32", "f", tir.address_of(flat[i])))
    with pytest.raises(
        LoopwrightError, match=r"a pointer to int4 may point within a byte\s+got: index i"
    ):
        legalize(take)
    legalize(tir.Evaluate(tir.call_extern("int32", "f", tir.address_of(flat[i * 2]))))
    add = tir.Call("int4", "tir.atomic_add", [flat.data, tir.const(1, "int4")])
    with pytest.raises(LoopwrightError, match="atomic_add on int4"):
        legalize(tir.Evaluate(add))
    square = tir.decl_buffer((2, 2), "int4", "S")
    func = tir.PrimFunc([square], tir.BufferStore(square, tir.const(1, "int4"), [0, 1]))
    with pytest.raises(LoopwrightError, match="buffer S of int4 is not flat"):
        tt.Int4StorageLegalize()(IRModule({"f": func}))
