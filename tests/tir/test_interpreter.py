"""The interpreter against numpy, by kind of statement and expression."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from loopwright import te, tir
from loopwright.ir.dtype import DataType, numpy_dtype
from loopwright.ir.expr import GlobalVar
from loopwright.runtime import tensor
from loopwright.runtime.packed_func import register_func, remove_global_func
from loopwright.script import from_source
from loopwright.tir.interpreter import compile_func, run
from loopwright.tir.interpreter.meaning import as_array, strided_view
from loopwright.tir.stmt import seq

I32 = "int32"


def buffers(*specs):
    return [tir.decl_buffer(shape, dtype, name) for name, shape, dtype in specs]


def loop(extent, body, kind=0, low=0, name="i"):
    """for i in [low, low + extent): body(i)"""
    var = tir.Var(name, I32)
    return tir.For(var, tir.const(low, I32), tir.convert(extent), kind, body(var))


def elementwise(fn, dtype, out_dtype=None, inputs=1):
    """out[i] = fn(a[i], ...)"""
    n = tir.Var("n", I32)
    ins = [tir.decl_buffer((n,), dtype, f"a{k}") for k in range(inputs)]
    probe = fn(*(tir.Var("x", dtype) for _ in ins))
    out = tir.decl_buffer((n,), out_dtype or probe.dtype, "out")
    body = loop(n, lambda i: tir.BufferStore(out, fn(*(b[i] for b in ins)), [i]))
    return tir.PrimFunc([*ins, out], body)


def apply(fn, *arrays, out=None):
    dtype = DataType(arrays[0].dtype.name)
    func = elementwise(fn, dtype, inputs=len(arrays))
    result = np.zeros(arrays[0].shape, numpy_dtype(func.buffers[-1].dtype))
    run(func, [*arrays, result])
    return result


FLOATS = np.array([0.5, -0.5, 0.9, -0.3, 0.0, 2.5, -1.5, 1e-3], "float32")
NUMPY = {
    name: tir.Op.get(f"tir.{name}").get_attr("numpy")
    for name in tir.Op.list_op_names()
    for name in [name.removeprefix("tir.")]
    if tir.Op.find(f"tir.{name}") is not None and tir.Op.get(f"tir.{name}").has_attr("numpy")
}
INTEGER = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "popcount"}
INTEGER |= {"shift_left", "shift_right"}
BINARY = {"atan2", "nextafter", "hypot", "copysign", "ldexp", "pow", "fmod"}


@pytest.mark.parametrize("name", sorted(set(NUMPY) - INTEGER - BINARY))
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_unary_intrinsics_agree_with_their_numpy_meaning(name, dtype):
    special = [np.inf, -np.inf, np.nan, 1000.0, -1000.0]
    x = np.array([*FLOATS, *special], numpy_dtype(dtype))
    got = apply(lambda v: tir.Call(v.dtype if "is" not in name else "bool", f"tir.{name}", [v]), x)
    with np.errstate(all="ignore"):
        want = NUMPY[name](x.astype("float64")).astype(got.dtype)
    tolerance = {"float32": 1e-6, "float64": 1e-12, "float16": 1e-3, "bfloat16": 1e-2}[dtype]
    np.testing.assert_allclose(
        got.astype("float64"), want.astype("float64"), rtol=tolerance, atol=1e-7
    )


@pytest.mark.parametrize("name", sorted(BINARY - {"nextafter", "ldexp"}))
def test_binary_intrinsics_agree_with_their_numpy_meaning(name):
    x = np.array([0.5, -2.0, 3.0, 0.0, 1e30, np.inf, np.nan], "float32")
    y = np.array([2.0, 3.0, -1.0, 0.0, 3.0, 2.0, 1.0], "float32")
    got = apply(lambda a, b: tir.Call(a.dtype, f"tir.{name}", [a, b]), x, y)
    with np.errstate(all="ignore"):
        want = NUMPY[name](x, y)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_nextafter_and_ldexp_keep_the_type():
    x = np.array([1.0, 0.0, -1.0], "float32")
    got = apply(lambda a, b: tir.nextafter(a, b), x, x + 1)
    np.testing.assert_array_equal(got, np.nextafter(x, x + 1))
    got = apply(lambda a: tir.ldexp(a, tir.const(3)), x)
    np.testing.assert_array_equal(got, x * 8)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_integers_wrap_around(dtype):
    info = np.iinfo(dtype)
    x = np.array([info.max, info.min, info.max - 1, 3, 7], dtype)
    y = np.array([1, info.max, 2, info.max, 5], dtype)
    with np.errstate(all="ignore"):
        for fn in (
            lambda a, b: a + b,
            lambda a, b: a - b,
            lambda a, b: a * b,
            lambda a, b: (a + b) * a - b * b,
            lambda a, b: a ^ b,
            lambda a, b: ~a,
            lambda a, b: a & (b + b),
        ):
            np.testing.assert_array_equal(apply(fn, x, y), fn(x, y))
        np.testing.assert_array_equal(apply(lambda a, b: (a + b) > b, x, y), (x + y) > y)
        np.testing.assert_array_equal(
            apply(lambda a, b: tir.max(a + b, b), x, y), np.maximum(x + y, y)
        )


def test_each_kind_of_integer_division():
    a = np.array([7, -7, 7, -7, 0, 5], "int32")
    b = np.array([2, 2, -2, -2, 3, 5], "int32")
    np.testing.assert_array_equal(apply(tir.floordiv, a, b), a // b)
    np.testing.assert_array_equal(apply(tir.floormod, a, b), a % b)
    np.testing.assert_array_equal(apply(tir.truncdiv, a, b), np.trunc(a / b).astype("int32"))
    np.testing.assert_array_equal(apply(tir.truncmod, a, b), np.fmod(a, b))
    least = np.array([-(2**31)], "int32")
    np.testing.assert_array_equal(apply(tir.truncdiv, least, np.array([-1], "int32")), least)
    zero = np.zeros(6, "int32")
    for fn in (tir.floordiv, tir.floormod, tir.truncdiv, tir.truncmod):
        np.testing.assert_array_equal(apply(fn, a, zero), zero)


def test_float_division_by_zero_gives_infinities_and_nan():
    x = np.array([1.0, -1.0, 0.0, np.nan], "float32")
    y = np.array([0.0, 0.0, 0.0, 0.0], "float32")
    np.testing.assert_array_equal(apply(tir.div, x, y), [np.inf, -np.inf, np.nan, np.nan])
    np.testing.assert_array_equal(apply(tir.div, x, -y), [-np.inf, np.inf, np.nan, np.nan])


def test_nan_wins_in_min_and_max():
    x = np.array([np.nan, 1.0, 2.0, np.nan], "float32")
    y = np.array([1.0, np.nan, 1.0, np.nan], "float32")
    np.testing.assert_array_equal(apply(tir.max, x, y), [np.nan, np.nan, 2.0, np.nan])
    np.testing.assert_array_equal(apply(tir.min, x, y), [np.nan, np.nan, 1.0, np.nan])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_small_floats_round_like_numpy(dtype):
    kind = numpy_dtype(dtype)
    x = np.array([1.1, -2.7, 0.3, 100.0], "float32").astype(kind)
    got = apply(lambda a: a * a + a, x)
    want = ((x * x).astype(kind) + x).astype(kind)
    np.testing.assert_array_equal(got.astype("float32"), want.astype("float32"))


def test_casts():
    x = np.array([1.9, -1.9, 300.0, np.nan, 3e9], "float32")
    got = apply(lambda a: a.astype("int32"), x)
    np.testing.assert_array_equal(got, [1, -1, 300, -(2**31), -(2**31)])
    np.testing.assert_array_equal(apply(lambda a: a.astype("uint8"), x[:3]), [1, 255, 44])
    np.testing.assert_array_equal(apply(lambda a: a.astype("bool"), x[:3] * 0), [False] * 3)
    wide = np.array([2**31 + 5, -1, 2**40 + 7], "int64")
    np.testing.assert_array_equal(apply(lambda a: a.astype("int32"), wide), wide.astype("int32"))
    np.testing.assert_array_equal(apply(lambda a: a.astype("uint8"), wide), wide.astype("uint8"))
    byte = np.array([200, 100], "uint8")
    got = apply(lambda a: (a + a).astype("int32"), byte)  # wraps before it is widened
    np.testing.assert_array_equal(got, [144, 200])
    big = np.array([16777217], "int32")
    assert apply(lambda a: a.astype("float32"), big)[0] == 16777216.0


def test_float32_is_rounded_at_each_store():
    x = np.array([16777216.0], "float32")
    func_in, out = buffers(("x", (1,), "float32"), ("out", (1,), "float32"))
    body = seq(
        tir.BufferStore(out, func_in[0] + 1.0, [0]),
        tir.BufferStore(out, out[0] + 1.0, [0]),
    )
    result = np.zeros(1, "float32")
    run(tir.PrimFunc([func_in, out], body), [x, result])
    assert result[0] == 16777216.0


def test_bits_and_shifts():
    x = np.array([1, 255, -1, 1 << 30], "int32")
    np.testing.assert_array_equal(apply(lambda a: a << 3, x), x << 3)
    np.testing.assert_array_equal(apply(lambda a: a >> 3, x), x >> 3)
    np.testing.assert_array_equal(apply(tir.popcount, x), [1, 8, 32, 1])
    np.testing.assert_array_equal(apply(tir.clz, x), [31, 24, 0, 1])
    got = apply(lambda a: tir.reinterpret("float32", a), np.array([0x3F800000], "int32"))
    assert got[0] == 1.0


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_every_kind_of_loop_runs(kind):
    (out,) = buffers(("out", (6,), I32))
    func = tir.PrimFunc([out], loop(4, lambda i: tir.BufferStore(out, i, [i]), kind, low=2))
    result = np.full(6, -1, I32)
    run(func, [result])
    np.testing.assert_array_equal(result, [-1, -1, 2, 3, 4, 5])


def test_many_nested_loops():
    (out,) = buffers(("out", (1,), I32))
    body = tir.BufferStore(out, out[0] + 1, [0])
    for n in range(24):
        body = loop(2 if n % 6 == 0 else 1 + n % 2, lambda i, inner=body: inner)
    count = math.prod(2 if n % 6 == 0 else 1 + n % 2 for n in range(24))
    deep = tir.BufferStore(out, out[0] + 1, [0])
    for n in range(24):
        deep = tir.For(
            tir.Var(f"v{n}", I32), 0, out[0] * 0 + 2 if n < 6 else out[0] * 0 + 1, 0, deep
        )
    result = np.zeros(1, I32)
    run(tir.PrimFunc([out], body), [result])
    assert result[0] == count
    result[0] = 0
    run(tir.PrimFunc([out], deep), [result])
    assert result[0] == 2**6


def test_thread_bindings_run_one_after_the_other():
    (out,) = buffers(("out", (8,), I32))
    tx = tir.IterVar(None, tir.Var("tx", I32), 1, "threadIdx.x")
    bx = tir.IterVar(None, tir.Var("bx", I32), 1, "blockIdx.x")
    store = tir.BufferStore(out, bx.var, [bx.var * 4 + tx.var])
    body = tir.AttrStmt(tx, "thread_extent", tir.const(4), store)
    body = tir.AttrStmt(bx, "thread_extent", tir.const(2), body)
    result = np.zeros(8, I32)
    run(tir.PrimFunc([out], body), [result])
    np.testing.assert_array_equal(result, [0, 0, 0, 0, 1, 1, 1, 1])


def test_while_let_if_and_allocate():
    n = tir.Var("n", I32)
    (out,) = buffers(("out", (2,), I32))
    data = tir.Var("p", "handle", type_annotation=(I32, "global"))
    state = tir.decl_buffer((1,), I32, "state", data=data)
    x = tir.Var("x", I32)
    step = tir.LetStmt(
        x,
        state[0] * 2,
        seq(
            tir.BufferStore(state, x, [0]),
            tir.IfThenElse(
                x > 10,
                tir.BufferStore(out, x, [0]),
                tir.BufferStore(out, out[1] + 1, [1]),
            ),
        ),
    )
    body = seq(tir.BufferStore(state, 1, [0]), tir.While(state[0] < n, step))
    func = tir.PrimFunc([n, out], tir.Allocate(data, I32, (tir.const(1),), tir.const(True), body))
    result = np.zeros(2, I32)
    run(func, [20, result])
    np.testing.assert_array_equal(result, [32, 3])


def test_fresh_memory_is_not_zero():
    (out,) = buffers(("out", (1,), "float32"))
    data = tir.Var("p", "handle", type_annotation=("float32", "global"))
    scratch = tir.decl_buffer((1,), "float32", "scratch", data=data)
    body = tir.BufferStore(out, scratch[0], [0])
    body = tir.Allocate(data, "float32", (tir.const(1),), tir.const(True), body)
    result = np.zeros(1, "float32")
    run(tir.PrimFunc([out], body), [result])
    assert math.isnan(result[0])


def test_constant_memory():
    (out,) = buffers(("out", (3,), "float32"))
    data = tir.Var("p", "handle", type_annotation=("float32", "global"))
    table = tir.decl_buffer((3,), "float32", "table", data=data)
    body = loop(3, lambda i: tir.BufferStore(out, table[i] * 2.0, [i]))
    values = np.array([1, 2, 3], "float32")
    body = tir.AllocateConst(data, "float32", (tir.const(3),), values, body)
    result = np.zeros(3, "float32")
    run(tir.PrimFunc([out], body), [result])
    np.testing.assert_array_equal(result, [2, 4, 6])


def test_assert_and_return():
    n = tir.Var("n", I32)
    check = tir.AssertStmt(n > 0, tir.StringImm("n must be positive"), tir.Evaluate(tir.ret(n * 2)))
    func = tir.PrimFunc([n], check)
    assert run(func, [21]) == 42
    with pytest.raises(AssertionError, match="n must be positive"):
        run(func, [0])


# ------------------------------------------------------------------------------------- vectors


def test_vector_load_store_and_arithmetic():
    a, out = buffers(("a", (16,), "float32"), ("out", (16,), "float32"))

    def body(i):
        at = tir.Ramp(i * 4, tir.const(1), 4)
        x = tir.BufferLoad(a, [at])
        value = tir.max(x * tir.Broadcast(tir.const(2.0), 4), tir.Broadcast(tir.const(0.0), 4))
        return tir.BufferStore(out, value, [at])

    x = np.random.default_rng(0).standard_normal(16).astype("float32")
    result = np.zeros(16, "float32")
    run(tir.PrimFunc([a, out], loop(4, body)), [x, result])
    np.testing.assert_array_equal(result, np.maximum(x * 2, 0))


def test_masked_vectors():
    n = tir.Var("n", I32)
    a = tir.decl_buffer((n,), "float32", "a")
    out = tir.decl_buffer((n,), "float32", "out")

    def body(i):
        at = tir.Ramp(i * 4, tir.const(1), 4)
        keep = tir.LT(at, tir.Broadcast(n, 4))
        load = tir.BufferLoad(a, [at], keep)
        return tir.BufferStore(out, load + tir.Broadcast(tir.const(1.0), 4), [at], keep)

    func = tir.PrimFunc([a, out], loop(tir.ceildiv(n, 4), body))
    x = np.arange(6, dtype="float32")
    result = np.zeros(6, "float32")
    run(func, [x, result])
    np.testing.assert_array_equal(result, x + 1)


def test_vector_if_then_else_reads_only_where_it_holds():
    a, out = buffers(("a", (4,), "float32"), ("out", (8,), "float32"))
    at = tir.Ramp(tir.const(0), tir.const(1), 8)
    inside = tir.LT(at, tir.Broadcast(tir.const(4), 8))
    zero = tir.Broadcast(tir.const(0.0), 8)
    value = tir.Call("float32x8", "tir.if_then_else", [inside, tir.BufferLoad(a, [at]), zero])
    func = tir.PrimFunc([a, out], tir.BufferStore(out, value, [at]))
    result = np.ones(8, "float32")
    run(func, [np.arange(4, dtype="float32"), result])
    np.testing.assert_array_equal(result, [0, 1, 2, 3, 0, 0, 0, 0])


@pytest.mark.parametrize("kind", ["int32x4", "int8x16"])
def test_a_choice_among_lanes_that_are_others_of_what_is_loaded(kind):
    a, out = buffers(("a", (4,), I32), ("out", (4,), I32))
    at = tir.Ramp(tir.const(0), tir.const(1), 4)
    other = tir.reinterpret(kind, tir.Shuffle([tir.BufferLoad(a, [at])], [3, 2, 1, 0]))
    lanes = other.dtype.lanes
    counted = tir.Ramp(tir.const(0), tir.const(1), lanes)
    first = tir.LT(counted, tir.Broadcast(tir.const(lanes // 2), lanes))
    value = tir.Select(first, other, tir.Broadcast(tir.const(0, kind.split("x")[0]), lanes))
    store = tir.BufferStore(out, tir.reinterpret("int32x4", value), [at])
    result = np.ones(4, I32)
    run(tir.PrimFunc([a, out], store), [np.array([5, 6, 7, 8], I32), result])
    np.testing.assert_array_equal(result, [8, 7, 0, 0])


def test_shuffle_cast_and_intrinsics_on_vectors():
    a, out = buffers(("a", (4,), "float32"), ("out", (4,), "int32"))
    load = tir.BufferLoad(a, [tir.Ramp(tir.const(0), tir.const(1), 4)])
    turned = tir.Shuffle([load], [3, 2, 1, 0])
    value = tir.Cast("int32x4", tir.Call("float32x4", "tir.floor", [turned]))
    store = tir.BufferStore(out, value, [tir.Ramp(tir.const(0), tir.const(1), 4)])
    result = np.zeros(4, I32)
    run(tir.PrimFunc([a, out], store), [np.array([1.5, 2.5, -3.5, 4.0], "float32"), result])
    np.testing.assert_array_equal(result, [4, -4, 2, 1])


# --------------------------------------------------------------------------- blocks and buffers


def test_te_matmul_with_symbolic_rows():
    n = te.var("n", "int64")
    a, b = te.placeholder((n, 6), name="A"), te.placeholder((6, 5), name="B")
    k = te.reduce_axis((0, 6), name="k")
    c = te.compute((n, 5), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    func = te.create_relax_prim_func([a, b, te.compute((n, 5), lambda i, j: c[i, j] + 1.0)])
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((4, 6)).astype("f4"), rng.standard_normal((6, 5)).astype("f4")
    out = np.zeros((4, 5), "f4")
    run(func, [x, y, out])
    np.testing.assert_allclose(out, x @ y + 1, rtol=1e-5, atol=1e-6)
    run(func, [x[:0], y, out[:0]])  # no rows


def test_predicate_and_init():
    (a,) = buffers(("a", (10,), "float32"))
    (out,) = buffers(("out", (1,), "float32"))
    v = tir.IterVar((0, 10), "v", tir.IterVar.CommReduce)
    block = tir.Block(
        [v],
        [],
        [],
        "sum",
        tir.BufferStore(out, out[0] + a[v.var], [0]),
        tir.BufferStore(out, 0.0, [0]),
    )
    i, j = tir.Var("i", I32), tir.Var("j", I32)
    realize = tir.BlockRealize([i * 4 + j], i * 4 + j < 10, block)
    body = tir.For(i, 0, 3, 0, tir.For(j, 0, 4, 0, realize))
    x = np.arange(10, dtype="float32")
    result = np.full(1, 99, "float32")
    run(tir.PrimFunc([a, out], body), [x, result])
    assert result[0] == 45


def test_match_buffer_inside_a_block_shares_memory():
    (a,) = buffers(("a", (4, 6), "float32"))
    stride = tir.Var("s", I32)
    offset = tir.Var("off", I32)
    sub = tir.decl_buffer((2, 3), "float32", "sub", strides=[stride, 1], elem_offset=offset)
    region = tir.BufferRegion(a, (tir.Range.from_min_extent(1, 2), tir.Range.from_min_extent(2, 3)))
    i, j = tir.Var("i", I32), tir.Var("j", I32)
    store = tir.BufferStore(sub, tir.Cast("float32", stride * 100 + offset), [i, j])
    body = tir.For(i, 0, 2, 0, tir.For(j, 0, 3, 0, store))
    match = tir.MatchBufferRegion(sub, region)
    block = tir.Block([], [], [region], "b", body, match_buffers=[match])
    func = tir.PrimFunc([a], tir.BlockRealize([], True, block))
    x = np.zeros((4, 6), "float32")
    run(func, [x])
    want = np.zeros((4, 6), "float32")
    want[1:3, 2:5] = 608
    np.testing.assert_array_equal(x, want)


def test_flat_pointers_and_two_views_of_one_memory():
    data = tir.Var("p", "handle", type_annotation=("float32", "global"))
    flat = tir.decl_buffer((6,), "float32", "flat", data=data)
    square = tir.decl_buffer((2, 3), "float32", "square", data=data)
    i = tir.Var("i", I32)
    store = tir.BufferStore(square, flat[i * 3] + 10.0, [i, 1])
    func = tir.PrimFunc([data], tir.DeclBuffer(square, tir.For(i, 0, 2, 0, store)))
    x = np.arange(6, dtype="float32")
    run(func, [x])
    np.testing.assert_array_equal(x, [0, 10, 2, 3, 13, 5])


def test_a_flat_pointer_to_integers_below_8_bits():
    data = tir.Var("p", "handle", type_annotation=("int4", "global"))
    flat = tir.decl_buffer((3,), "int4", "flat", data=data)
    func = tir.PrimFunc([data], tir.BufferStore(flat, flat[0], [2]))
    x = tensor(np.array([-3, 2, 1]), dtype="int4")
    run(func, [x])
    assert x.numpy().tolist() == [-3, 2, -3]


def test_shape_variables_are_solved_and_checked():
    n = tir.Var("n", I32)
    a = tir.decl_buffer((n * 2 + 1,), "float32", "a")
    b = tir.decl_buffer((1,), I32, "b")
    func = tir.PrimFunc([a, b], tir.BufferStore(b, n, [0]))
    out = np.zeros(1, I32)
    run(func, [np.zeros(9, "float32"), out])
    assert out[0] == 4
    with pytest.raises(ValueError, match=r"buffer a: dimension 0 is declared .*\n.*with 8"):
        run(func, [np.zeros(8, "float32"), out])
    with pytest.raises(ValueError, match="buffer a is declared float32"):
        run(func, [np.zeros(9), out])
    with pytest.raises(ValueError, match="buffer b has 1 dimensions"):
        run(func, [np.zeros(9, "float32"), np.zeros((1, 1), I32)])
    with pytest.raises(ValueError, match="takes 2 arguments"):
        run(func, [out])


def test_strided_arrays():
    a, out = buffers(("a", (3, 4), "float32"), ("out", (4, 3), "float32"))
    i, j = tir.Var("i", I32), tir.Var("j", I32)
    body = tir.For(i, 0, 3, 0, tir.For(j, 0, 4, 0, tir.BufferStore(out, a[i, j], [j, i])))
    x = np.arange(24, dtype="float32").reshape(3, 8)[:, ::2]
    result = np.zeros((3, 4), "float32").T  # not compact: written back
    run(tir.PrimFunc([a, out], body), [x, result])
    np.testing.assert_array_equal(result, x.T)


def test_declared_strides_are_used():
    s = tir.Var("s", I32)
    a = tir.decl_buffer((3, 2), "float32", "a", strides=[s, 1])
    i, j = tir.Var("i", I32), tir.Var("j", I32)
    body = tir.For(i, 0, 3, 0, tir.For(j, 0, 2, 0, tir.BufferStore(a, 1.0, [i, j])))
    x = np.zeros((3, 5), "float32")
    run(tir.PrimFunc([a], body), [x[:, :2]])
    np.testing.assert_array_equal(x[:, :2], 1)
    np.testing.assert_array_equal(x[:, 2:], 0)


def test_out_of_bounds_names_buffer_and_index():
    a, out = buffers(("a", (4,), "float32"), ("out", (8,), "float32"))
    func = tir.PrimFunc([a, out], loop(8, lambda i: tir.BufferStore(out, a[i], [i])))
    with pytest.raises(IndexError, match=r"buffer a: .* axis 0\n.*4, the axis has 4"):
        run(func, [np.zeros(4, "float32"), np.zeros(8, "float32")])
    func = tir.PrimFunc([a, out], loop(4, lambda i: tir.BufferStore(out, a[i], [i - 1])))
    with pytest.raises(IndexError, match=r"buffer out: .*\n.*-1, the axis has 8"):
        run(func, [np.zeros(4, "float32"), np.zeros(8, "float32")])
    at = tir.Ramp(tir.const(2), tir.const(1), 4)
    func = tir.PrimFunc([a, out], tir.BufferStore(a, tir.BufferLoad(out, [at]), [at]))
    with pytest.raises(IndexError, match="buffer a"):
        run(func, [np.zeros(4, "float32"), np.zeros(8, "float32")])


def test_checks_disappear_where_the_index_is_known_to_fit():
    a = te.placeholder((8, 12), name="A")
    b = te.compute((4, 24), lambda i, j: a[i * 2 + j // 12, j % 12], name="B")
    source = compile_func(te.create_prim_func([a, b])).source
    assert "_out_of_bounds" not in source


# --------------------------------------------------------------------------------------- calls


def test_calls_of_c_functions_and_of_llvm():
    x = np.array([0.5, 1.0], "float32")
    got = apply(lambda a: tir.call_pure_extern("float32", "expf", a), x)
    np.testing.assert_allclose(got, np.exp(x), rtol=1e-6)
    got = apply(lambda a: tir.call_llvm_pure_intrin("float32", "llvm.sqrt", a), x)
    np.testing.assert_allclose(got, np.sqrt(x), rtol=1e-6)
    with pytest.raises(RuntimeError, match="no meaning"):
        apply(lambda a: tir.call_pure_extern("float32", "frobnicate", a), x)


def test_packed_call_sees_a_tensor():
    seen = []

    def double(x, out):
        seen.append(x.shape)
        np.asarray(out)[...] = np.asarray(x) * 2

    register_func("test.interp.double", double)
    try:
        a, out = buffers(("a", (2, 3), "float32"), ("out", (2, 3), "float32"))
        body = tir.Evaluate(tir.call_packed("test.interp.double", a, out))
        x, result = np.ones((2, 3), "float32"), np.zeros((2, 3), "float32")
        run(tir.PrimFunc([a, out], body), [x, result])
    finally:
        remove_global_func("test.interp.double")
    assert seen == [(2, 3)]
    np.testing.assert_array_equal(result, 2 * x)


def test_call_of_another_function_of_the_module():
    p = tir.Var("p", "handle", type_annotation=("float32", "global"))
    m = tir.Var("m", I32)
    inner_buffer = tir.decl_buffer((4,), "float32", "b", data=p)
    i = tir.Var("i", I32)
    store = tir.BufferStore(inner_buffer, tir.Cast("float32", i + m), [i])
    inner = tir.PrimFunc([p, m], tir.For(i, 0, 4, 0, store))
    (a,) = buffers(("a", (4,), "float32"))
    call = tir.call_tir(GlobalVar("inner"), a.data, tir.const(5))
    outer = tir.PrimFunc([a], tir.Evaluate(call))
    x = np.zeros(4, "float32")
    run(outer, [x], {GlobalVar("inner"): inner})
    np.testing.assert_array_equal(x, [5, 6, 7, 8])


def test_pointers_into_a_buffer():
    (a,) = buffers(("a", (2, 4), "float32"))
    inner_p = tir.Var("q", "handle", type_annotation=("float32", "global"))
    sub = tir.decl_buffer((2,), "float32", "sub", data=inner_p)
    for pointer in (tir.address_of(a[1, 2]), a.access_ptr("w", offset=6)):
        body = tir.LetStmt(inner_p, pointer, tir.BufferStore(sub, 7.0, [1]))
        x = np.zeros((2, 4), "float32")
        run(tir.PrimFunc([a], body), [x])
        assert x[1, 3] == 7 and x.sum() == 7


def test_lazy_choice_guards_a_division_and_a_read():
    a, out = buffers(("a", (4,), I32), ("out", (5,), I32))

    def body(i):
        safe = tir.if_then_else(i < 4, a[i], tir.const(-1))
        other = tir.Select(i > 0, tir.floordiv(tir.const(12), i), tir.const(0))
        return tir.BufferStore(out, safe + other, [i])

    result = np.zeros(5, I32)
    run(tir.PrimFunc([a, out], loop(5, body)), [np.arange(4, dtype=I32), result])
    np.testing.assert_array_equal(result, [0, 13, 8, 7, 2])


def test_long_sums():
    x, out = buffers(("x", (4,), "float32"), ("out", (1,), "float32"))
    total = x[0]
    for n in range(2000):
        total = total + x[n % 4] if n % 3 else total - x[1]
    small = x[0].astype("float16")
    for n in range(60):
        small = small + x[n % 4].astype("float16")
    data = np.array([1, 2, 3, 4], "float32")
    result = np.zeros(1, "float32")
    run(tir.PrimFunc([x, out], tir.BufferStore(out, total, [0])), [data, result])
    assert result[0] == 1 + sum(data[n % 4] if n % 3 else -data[1] for n in range(2000))
    run(tir.PrimFunc([x, out], tir.BufferStore(out, small.astype("float32"), [0])), [data, result])
    assert result[0] == 151


def test_large_constants_and_types_of_literals():
    (out,) = buffers(("out", (1,), "float32"))
    func = tir.PrimFunc([out], tir.BufferStore(out, tir.const(0.1, "float32") * 3.0, [0]))
    result = np.zeros(1, "float32")
    run(func, [result])
    assert result[0] == np.float32(float(np.float32(0.1)) * 3.0)
    assert ml_dtypes.bfloat16 is not None


def test_strides_of_arrays():
    whole = np.arange(24, dtype="int16").reshape(4, 6)
    pairs = np.zeros(4, [("a", "int8"), ("b", "int16")])
    for array, steps in (
        (whole, (6, 1)),
        (whole[::2, 1:4], (12, 1)),
        (whole.T, (1, 6)),
        (np.broadcast_to(whole[0], (3, 6)), (0, 1)),
        (whole[:0], (6, 1)),
        (whole[::-1], None),
        (whole[:, ::-1], None),
        (pairs["b"], None),  # three bytes apart
    ):
        made = strided_view(array)
        assert (None if made is None else made[1]) == steps
        if made is not None and array.size:
            places = np.indices(array.shape).reshape(array.ndim, -1)
            at = sum(s * p for s, p in zip(steps, places, strict=True))
            assert len(made[0]) == at.max() + 1
            np.testing.assert_array_equal(made[0][at], array.reshape(-1))
        elif made is not None:
            assert made[0].size == 0


def test_arrays_of_others():
    class Foreign:
        def __init__(self, array):
            self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__

    array = np.arange(3, dtype="float32")
    for given in (array, tensor(array), Foreign(array)):
        np.testing.assert_array_equal(as_array(given, "A"), array)
    assert np.shares_memory(as_array(array, "A"), array)
    with pytest.raises(ValueError, match="A needs an array\n  got: list"):
        as_array([1, 2], "A")


@pytest.mark.parametrize(("at", "inside"), [("T.Ramp(4, 1, 4)", True), ("T.Ramp(5, 1, 4)", False), ("T.Ramp(3, -1, 4)", True),
                                            ("T.Ramp(2, -1, 4)", False), ("7", True), ("n", False), ("-n", False)])  # fmt: skip
def test_the_last_element_and_the_one_behind_it(at, inside):
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "int8"), n: T.int32):
    A[{at}] = {"T.Broadcast(T.int8(3), 4)" if "Ramp" in at else "T.int8(3)"}
""")
    if inside:
        run(func, [given := np.zeros(8, "int8"), 8])
        assert set(given) == {0, 3}
    else:
        with pytest.raises(IndexError, match="A: index out of bounds on axis 0"):
            run(func, [np.zeros(8, "int8"), 8])


@pytest.mark.parametrize("offset", ["0", "1", "n"])
def test_views_begin_at_their_offset(offset):
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), n: T.int32):
    V = T.decl_buffer((4,), "int32", data=A.data, elem_offset={offset})
    for i in range(4):
        V[i] = i + 1
""")
    run(func, [given := np.zeros(8, "int32"), 3])
    begin = 3 if offset == "n" else int(offset)
    np.testing.assert_array_equal(given[begin : begin + 4], [1, 2, 3, 4])
    assert given.sum() == 10


def test_lanes_of_a_narrow_type_wrap_around():
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((4,), "int32")):
    A[T.Ramp(0, 1, 4)] = T.Cast("int32x4", T.Ramp(T.int8(0), T.int8(100), 4))
""")
    run(func, [given := np.zeros(4, "int32")])
    np.testing.assert_array_equal(given, [0, 100, -56, 44])


@pytest.mark.parametrize("kind", ["select", "let", "plain"])
def test_expressions_deeper_than_python_reads(kind):
    (x, y) = buffers(("x", (4,), "float32"), ("y", (4,), "float32"))
    v = tir.Var("v", "float32")

    def deep(value, at):
        for k in range(150):
            value = value * at + tir.const(k / 64, "float32")
        return value

    def body(i):
        at = x[i]
        if kind == "let":
            return tir.BufferStore(y, tir.Let(v, deep(at, at), deep(v, at)), [i])
        below = tir.const(2, "float32") if kind == "select" else deep(at, at)
        return tir.BufferStore(y, tir.Select(at < 0.5, deep(at * 2.0, at), below), [i])

    given = np.array([0.25, 0.5, 0.75, -0.5], "float32")
    got = np.zeros(4, "float32")
    run(tir.PrimFunc([x, y], loop(4, body)), [given, got])

    def expected(value, at):
        for k in range(150):
            value = value * at + k / 64
        return value

    first = {"let": lambda a: expected(expected(a, a), a)}.get(kind, lambda a: expected(2 * a, a))
    below = {"select": lambda a: 2.0, "plain": lambda a: expected(a, a)}.get(kind, first)
    want = [first(float(a)) if a < 0.5 else below(float(a)) for a in given]
    np.testing.assert_allclose(got, want, rtol=1e-4)
