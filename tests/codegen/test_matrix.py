"""Every operator and every node, interpreted and compiled, on every type and width.

`NUMBERS` are functions of numbers: run on all types that they take. `PROGRAMS` are the others:
a program each. `INTERPRETED`, `NOT_RUN`, `REFUSED`: what runs in the interpreter only, in no
test, or nowhere, and why.
An operator or node that is in none of them fails the test.
"""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import tir
from loopwright.base.errors import LoopwrightError
from loopwright.ir import prim_expr as pe
from loopwright.ir.dtype import DataType
from loopwright.ir.op import Op
from loopwright.ir.prim_op import const
from loopwright.runtime import register_func, remove_global_func
from loopwright.script import tir as T
from loopwright.tir import stmt as st
from loopwright.tir.interpreter import run
from loopwright.tvm.te import producer  # noqa: F401  (its statements are in the table)

from .emitted import agree, compiled, elementwise, program
from .matrix import (
    COUNT,
    FLOAT8,
    FLOATS,
    INTEGERS,
    SMALL,
    WIDTHS,
    compare,
    equal,
    float_pairs,
    integer_pairs,
)

pytestmark = pytest.mark.no_roundtrip


def op(name, *args, dtype=None):
    return tir.Call(dtype or args[0].dtype, f"tir.{name}", list(args))


def flags(a):
    return DataType("bool").with_lanes(a.dtype.lanes)


def unary(*names):
    return {name: lambda a, b, name=name: op(name, a) for name in names}


def binary(*names):
    return {name: lambda a, b, name=name: op(name, a, b) for name in names}


ANY = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Min": tir.Min,
    "Max": tir.Max,
    "EQ": tir.EQ,
    "NE": tir.NE,
    "LT": tir.LT,
    "LE": tir.LE,
    "GT": tir.GT,
    "GE": tir.GE,
    "Select": lambda a, b: tir.Select(a < b, a, b * b),
    "if_then_else": lambda a, b: op("if_then_else", a < b, a, b * b, dtype=a.dtype),
    "likely": lambda a, b: op("likely", a < b),
    "fabs": lambda a, b: op("fabs", a),
    "reinterpret": lambda a, b: op("reinterpret", a),
    "ignore_loop_partition": lambda a, b: op("ignore_loop_partition", a < b),
    "tvm_thread_invariant": lambda a, b: op("tvm_thread_invariant", a < b),
}
OF_INTEGERS = {
    "FloorDiv": tir.FloorDiv,
    "FloorMod": tir.FloorMod,
    "Div": tir.Div,
    "Mod": tir.Mod,
    **binary("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"),
    **unary("bitwise_not", "popcount"),
    "clz": lambda a, b: op("clz", a, dtype=DataType("int32").with_lanes(a.dtype.lanes)),
    "pow": lambda a, b: op("pow", a, op("bitwise_and", b, const(3, b.dtype))),
    **unary("floor", "ceil", "trunc", "round", "nearbyint"),
}
ROUGH = unary(
    *(
        "exp",
        "exp2",
        "exp10",
        "expm1",
        "erf",
        "tanh",
        "sigmoid",
        "log",
        "log2",
        "log10",
        "log1p",
        "tan",
    ),
    *("cos", "cosh", "acos", "acosh", "sin", "sinh", "asin", "asinh", "atan", "atanh", "rsqrt"),
) | binary("atan2", "hypot", "pow")
OF_FLOATS = {
    "Div": tir.Div,
    "Mod": tir.Mod,
    "FloorDiv": tir.FloorDiv,
    "FloorMod": tir.FloorMod,
    **ROUGH,
    **unary("sqrt", "floor", "ceil", "trunc", "round", "nearbyint"),
    **binary("nextafter", "copysign", "fmod"),
    "ldexp": lambda a, b: op("ldexp", a, const(3, DataType("int32").with_lanes(a.dtype.lanes))),
    "fma": lambda a, b: op("fma", a, b, a),
    "isnan": lambda a, b: op("isnan", a, dtype=flags(a)),
    "isinf": lambda a, b: op("isinf", a, dtype=flags(a)),
}
OF_BOOL = {
    "And": tir.And,
    "Or": tir.Or,
    "Not": lambda a, b: tir.Not(a),
    **binary("bitwise_and", "bitwise_or", "bitwise_xor"),
    **unary("bitwise_not"),
}
# The same operators where machines differ: far shifts, literals that are looked at, far powers of two.
SPECIAL_INTEGERS = {
    "left_by_width": lambda a, b: op("shift_left", a, const(a.dtype.bits, a.dtype)),
    "right_by_width": lambda a, b: op("shift_right", a, const(a.dtype.bits, a.dtype)),
    "left_by_1": lambda a, b: op("shift_left", a, const(1, a.dtype)),
    "right_by_1": lambda a, b: op("shift_right", a, const(1, a.dtype)),
    **{
        f"{kind.__name__}_by_{by}": lambda a, b, kind=kind, by=by: kind(a, const(by, a.dtype))
        for kind in (tir.Div, tir.Mod, tir.FloorDiv, tir.FloorMod)
        for by in (0, 1, 4, 7, -1, -4)
    },
}
SPECIAL_FLOATS = {
    "Min_number": lambda a, b: tir.Min(const(0.5, a.dtype), a),
    "Max_number": lambda a, b: tir.Max(a, const(-0.0, a.dtype)),
    "Max_nan": lambda a, b: tir.Max(a, const(np.nan, a.dtype)),
    **{
        f"ldexp_{by}": lambda a, b, by=by: op(
            "ldexp", a, const(by, DataType("int64").with_lanes(a.dtype.lanes))
        )
        for by in (-3000, -20, 0, 9, 3000)
    },
}
NUMBERS = ANY | OF_INTEGERS | OF_FLOATS | OF_BOOL
# Not of these types: what is wrong, or the message of the code generator.
NOT_OF = {
    "nextafter": {*FLOAT8, *SMALL},  # refused: "cast to float32"
    "Sub": {"bool"},
    "fabs": {"bool"},
}
TOLERANCE = {"float32": 3e-6, "float64": 2e-14, "float16": 2e-3, "bfloat16": 1e-2}
ALL = ["bool", *INTEGERS, *FLOATS, *FLOAT8, *SMALL]
NUMPY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "Min": np.minimum,
    "Max": np.maximum,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    "Mod": np.fmod,
}


def operators(dtype):
    kind = DataType(dtype)
    of = OF_BOOL if kind.is_bool else OF_FLOATS if kind.is_float else OF_INTEGERS
    if not kind.is_bool:
        of = of | (SPECIAL_FLOATS if kind.is_float else SPECIAL_INTEGERS)
    return {k: v for k, v in (ANY | of).items() if dtype not in NOT_OF.get(k, ())}


def casts():
    return {
        f"to_{t}": lambda a, b, t=t: tir.Cast(DataType(t).with_lanes(a.dtype.lanes), a) for t in ALL
    }


def inputs(dtype):
    kind = DataType(dtype)
    if kind.is_bool:
        return [np.resize(np.array(v, bool), COUNT) for v in ([0, 0, 1, 1], [0, 1, 0, 1])]
    return float_pairs(dtype) if kind.is_float else integer_pairs(dtype)


@pytest.mark.sample(30)
@pytest.mark.parametrize("lanes", WIDTHS)
@pytest.mark.parametrize("dtype", ALL)
def test_numbers(dtype, lanes):
    fns = operators(dtype) | casts()

    def tolerance(name):
        return TOLERANCE.get(dtype, 0.0) if name in ROUGH and DataType(dtype).is_float else 0.0

    arrays = inputs(dtype)
    results, wrong = compare(fns, arrays, [dtype] * 2, lanes, tolerance, dtype not in SMALL)
    assert not wrong, "\n".join(wrong)
    if dtype in INTEGERS[2:] or dtype in ("float32", "float64"):
        for name in NUMPY.keys() & fns.keys():
            if name in ("FloorDiv", "FloorMod") and DataType(dtype).is_float:
                continue  # numpy's own rule where b is infinite
            with np.errstate(all="ignore"):
                want = NUMPY[name](*arrays).astype(results[name].dtype)
            off = ~(equal(results[name], want) | (want == results[name]))
            assert not off.any(), (
                f"{name} of {[a[off][0] for a in arrays]}: {want[off][0]} in numpy"
            )


@pytest.mark.parametrize("dtype", sorted(NOT_OF["nextafter"]))
def test_nextafter_of_small_floats_is_refused(dtype):
    func = elementwise(lambda a: op("nextafter", a, a), dtype, lanes=1)
    with pytest.raises(LoopwrightError, match=f"nextafter has no LLVM code for {dtype}"):
        compiled({"f": func})


# -- programs ---------------------------------------------------------------------------------------

c = tir.const


def value_program(*values):
    """out_k[0..] = values[k], no inputs."""
    outs, stores = [], []
    for k, value in enumerate(values):
        lanes = value.dtype.lanes
        out = tir.decl_buffer((lanes,), value.dtype.element, f"out{k}")
        outs.append(out)
        at = c(0) if lanes == 1 else tir.Ramp(c(0), c(1), lanes)
        stores.append(tir.BufferStore(out, value, [at]))
    func = tir.PrimFunc(outs, st.seq(*stores))
    return agree(func, *(np.zeros(b.shape[0].value, b.dtype.numpy()) for b in outs))


def vector(dtype, first=0):
    lanes = DataType(dtype).lanes
    return tir.Cast(dtype, tir.Ramp(c(first), c(1), lanes))


def test_vectors_in_parts():
    v = vector("float32x8")
    low, high = op("vectorlow", v, dtype="float32x4"), op("vectorhigh", v, dtype="float32x4")
    both = op("vectorcombine", high, low, dtype="float32x8")
    mask = op("get_active_lane_mask", c(2), c(5), dtype="boolx8")
    got = value_program(low, high, both, mask, pe.Shuffle([v], [7, 0]), pe.Shuffle([v, v], [9]))
    assert [g.astype(int).tolist() for g in got[2:]] == [
        [4, 5, 6, 7, 0, 1, 2, 3],
        [1, 1, 1, 0, 0, 0, 0, 0],
        [7, 0],
        [1],
    ]


MOST, LEAST = 2**31 - 1, -(2**31)
FIXED_POINT = [  # x, y, fraction bits, shift to the right
    *((x, y, 31, s) for x in (MOST, LEAST, -3) for y in (MOST, LEAST, 5) for s in (-40, -1, 0, 9)),
    (7, 9, 0, 0),
]


def fixed_point():
    """Programs of the operators on fixed-point numbers."""
    for x, y, q, s in FIXED_POINT:
        yield op("q_multiply_shift", c(x), c(y), c(q), c(s))
        for sides in ((0, 0), (1, 0), (0, 1)):
            given = c(x), c(y), c(2), c(max(s, 0)), c(q), *(c(bool(v), "bool") for v in sides)
            if q:
                yield op("q_multiply_shift_per_axis", *given)


def test_fixed_point_numbers_at_the_ends():
    value_program(*fixed_point())


def test_integers_of_their_own():
    x, y = c(2**30), c(2**29)
    shifted = op("q_multiply_shift", x, y, c(31), c(2))
    sides = [c(True, "bool"), c(False, "bool")]
    axis = op("q_multiply_shift_per_axis", x, y, c(1), c(2), c(31), *sides)
    large = op("large_uint_imm", c(7, "uint32"), c(0x80000000, "uint32"), dtype="uint64")
    dots = [
        op("dp4a", vector("int8x4", -3), vector("int8x4", 1), c(5), dtype="int32"),
        op("dp4a", vector("uint8x4", 250), vector("uint8x4", 1), c(0, "uint32"), dtype="uint32"),
    ]
    got = value_program(shifted, axis, large, *(op("likely", d) for d in dots))
    want = [2**26, 2**29, 0x8000000000000007, 5 - 3 - 4 - 3, 250 + 502 + 756 + 1012]
    assert [int(g[0]) for g in got] == want


def test_pointers():
    a, b = tir.decl_buffer((8,), "int32", "a"), tir.decl_buffer((8,), "int32", "b")
    kind = op("type_annotation", dtype="int32")
    aliases = {
        "address_of": tir.address_of(a[3]),
        "access_ptr": op("tvm_access_ptr", kind, a.data, c(3), c(5), c(1), dtype="handle"),
        "byte": op("handle_add_byte_offset", a.data, c(12), dtype="handle"),
    }
    for pointer in aliases.values():
        view = tir.decl_buffer((5,), "int32", "v")
        null = op("isnullptr", view.data, dtype="bool")
        body = st.seq(
            tir.BufferStore(b, view[1], [0]),
            tir.BufferStore(b, tir.Cast("int32", null), [1]),
            st.Evaluate(op("prefetch", pointer, c(0), c(3), c(1), dtype="void")),
        )
        func = tir.PrimFunc([a, b], st.LetStmt(view.data, pointer, body))
        got = agree(func, np.arange(8, dtype="int32") * 10, np.ones(8, "int32"))
        assert got[1][:2].tolist() == [40, 0]


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_atomic_add_gives_the_old_value_and_loses_none(dtype):
    a, b = tir.decl_buffer((4,), dtype, "a"), tir.decl_buffer((1,), dtype, "b")
    i = tir.Var("i", "int32")
    add = op("atomic_add", tir.address_of(a[tir.floormod(i, 4)]), c(2, dtype), dtype=dtype)
    loop = st.For(i, c(0), c(4096), st.ForKind.PARALLEL, st.Evaluate(add))
    last = tir.BufferStore(b, op("atomic_add", tir.address_of(a[1]), c(1, dtype), dtype=dtype), [0])
    got = agree(tir.PrimFunc([a, b], st.seq(loop, last)), np.zeros(4, dtype), np.zeros(1, dtype))
    assert got[0].tolist() == [2048, 2049, 2048, 2048] and got[1][0] == 2048


def test_c_and_llvm_functions_by_name():
    x = c(2.0, "float64")
    name = tir.StringImm
    values = [
        op("call_extern", name("sqrt"), x, dtype="float64"),
        op("call_pure_extern", name("cosf"), c(0.0), dtype="float32"),
        op("call_llvm_intrin", name("llvm.fabs"), c(-3.0), dtype="float32"),
        op("call_llvm_pure_intrin", name("llvm.floor.f64"), c(2.5, "float64"), dtype="float64"),
        op("call_llvm_pure_intrin", name("llvm.fma.v4f32"), *[vector("float32x4", 1)] * 3,
           dtype="float32x4"),
    ]  # fmt: skip
    got = value_program(*values)
    assert got[0][0] == np.sqrt(2.0) and [got[k][0] for k in (1, 2, 3)] == [1, 3, 2]
    assert got[4].tolist() == [2, 6, 12, 20]


def test_llvm_functions_by_number_are_refused():
    value = op("call_llvm_pure_intrin", c(123, "uint32"), c(1.0), dtype="float32")
    with pytest.raises(LoopwrightError, match="call_llvm_intrin takes the intrinsic's name"):
        value_program(value)


def test_indices_from_data():
    """Negative ones count from the end; one out of range is an error, not what lies there."""
    data, index, out = (
        tir.decl_buffer((4,), dtype, name)
        for dtype, name in (("int32", "data"), ("int64", "index"), ("int32", "out"))
    )
    i = tir.Var("i", "int32")
    body = tir.BufferStore(out, data[tir.checked_index(index[i], c(4, "int64"))], [i])
    func = tir.PrimFunc([data, index, out], tir.For(i, 0, 4, tir.ForKind.SERIAL, body))
    native = compiled({"f": func})["f"]
    for execute in (lambda *a: run(func, list(a)), native):
        arrays = [np.arange(4, dtype="int32"), np.array([3, 0, -1, -4]), np.zeros(4, "int32")]
        execute(*arrays)
        assert arrays[2].tolist() == [3, 0, 3, 0]
        for wrong in (4, -5, 10**12, -(2**63)):
            arrays[1][2] = wrong
            with pytest.raises(IndexError, match=f"index {wrong} .*extent 4"):
                execute(*arrays)


@pytest.mark.parametrize("lanes", [2, 4])
def test_a_vector_of_indices_from_data(lanes):
    data, index, out = (
        tir.decl_buffer((4,), dtype, name)
        for dtype, name in (("int32", "data"), ("int64", "index"), ("int32", "out"))
    )
    lane = tir.Ramp(const(0), const(1), lanes)
    extent = tir.Broadcast(c(4, "int64"), lanes)
    body = tir.BufferStore(out, data[tir.checked_index(index[lane], extent)], [lane])
    native = compiled({"f": tir.PrimFunc([data, index, out], body)})["f"]
    arrays = [np.arange(4, dtype="int32"), np.array([3, -1, 0, -4]), np.zeros(4, "int32")]
    native(*arrays)
    assert arrays[2].tolist() == [3, 3, 0, 0]
    arrays[1][1] = 9
    with pytest.raises(IndexError, match="index 9 .*extent 4"):
        native(*arrays)


@pytest.fixture
def adder():
    register_func("test.matrix.add", lambda *args: sum(args), override=True)
    yield "test.matrix.add"
    remove_global_func("test.matrix.add")


def test_values_on_the_stack_have_8_bytes():
    """Numbers as int64 or double; a pointer as it is, 8 bytes wide or not."""
    stack, x, k = tir.Var("stack", "handle"), tir.Var("x", "float32"), tir.Var("k", "int32")
    a, out = tir.decl_buffer((4,), "int32", "a"), tir.decl_buffer((3,), "int64", "out")
    body = st.seq(
        *(
            st.Evaluate(tir.tvm_struct_set(stack, n, 15, value))
            for n, value in enumerate((a.data, x, k))
        ),
        *(tir.BufferStore(out, tir.tvm_struct_get(stack, n, 15, "int64"), [n]) for n in range(3)),
    )
    alloca = op("tvm_stack_alloca", tir.StringImm("tvm_ffi_any"), c(3), dtype="handle")
    built = program({"f": tir.PrimFunc([a, x, k, out], st.LetStmt(stack, alloca, body))})
    assert "store ptr %a." in built.text("f")
    given, got = np.zeros(4, "int32"), np.zeros(3, "int64")
    built.load()["f"](given, 1.5, -3, got)
    assert got.tolist() == [given.ctypes.data, np.float64(1.5).view("int64"), -3]


def test_packed_calls_and_the_stack(adder):
    name = tir.StringImm(adder)
    stack = tir.Var("stack", "handle")
    out = tir.decl_buffer((3,), "int32", "out")

    def put(k, value, index):
        return [
            st.Evaluate(tir.tvm_struct_set(stack, k, 13, c(index))),
            st.Evaluate(tir.tvm_struct_set(stack, k, 15, value)),
        ]

    lowered = {
        kind: op(f"call_{kind}_lowered", name, stack, c(0), c(2), dtype="int32")
        for kind in ("packed", "cpacked")
    }
    body = st.seq(
        *put(0, c(40, "int64"), 1),
        *put(1, c(2, "int32"), 1),
        tir.BufferStore(out, lowered["packed"], [0]),
        tir.BufferStore(out, lowered["cpacked"], [1]),
        tir.BufferStore(out, tir.Cast("int32", tir.tvm_struct_get(stack, 1, 15, "int64")), [2]),
    )
    alloca = op("tvm_stack_alloca", tir.StringImm("tvm_ffi_any"), c(3), dtype="handle")
    func = tir.PrimFunc([out], st.LetStmt(stack, alloca, body))
    assert agree(func, np.zeros(3, "int32"))[0].tolist() == [42, 42, 2]
    kinds = ("call_packed", "tvm_call_cpacked")
    calls = [op(k, name, c(40), c(2), dtype="int32") for k in (*kinds, "tvm_call_trace_packed")]
    assert [int(v[0]) for v in value_program(*calls)] == [42, 42, 42]


def test_tensors_on_the_stack():
    seen = []
    register_func("test.matrix.see", lambda t: seen.append((t.shape, t.dtype, t.strides)) or 0,
                  override=True)  # fmt: skip
    a = tir.decl_buffer((2, 3), "float32", "a")
    shape = op("tvm_stack_make_shape", c(2, "int64"), c(3, "int64"), dtype="handle")
    made = op("tvm_stack_make_array", a.data, shape, c(0), c(2), c(0.0), c(0), dtype="handle")
    call = op("call_packed", tir.StringImm("test.matrix.see"), made, dtype="int32")
    try:
        agree(tir.PrimFunc([a], st.Evaluate(call)), np.zeros((2, 3), "float32"))
    finally:
        remove_global_func("test.matrix.see")
    assert seen == [((2, 3), "float32", (3, 1))] * 2


def test_hints_and_what_says_nothing_to_the_machine():
    a = tir.decl_buffer((1,), "int32", "a")
    nothing = ["tvm_storage_sync", "start_profile_intrinsic", "end_profile_intrinsic"]
    body = st.seq(
        *(st.Evaluate(op(n, tir.StringImm("shared"), dtype="int32")) for n in nothing),
        st.Evaluate(op("assume", a[0] >= 0, dtype="bool")),
        tir.BufferStore(a, a[0] + 1, [0]),
    )
    assert agree(tir.PrimFunc([a], body), np.ones(1, "int32"))[0][0] == 2
    undef = tir.BufferStore(a, op("undef", dtype="int32"), [0])  # a value that is never read
    compiled({"f": tir.PrimFunc([a], undef)})["f"](np.ones(1, "int32"))
    run(tir.PrimFunc([a], undef), [np.ones(1, "int32")])


def test_workspaces():
    a, w = tir.decl_buffer((4,), "int32", "a"), tir.decl_buffer((4,), "int32", "w")
    i = tir.Var("i", "int32")

    def each(store):
        return st.For(i, c(0), c(4), 0, store)

    take = op("TVMBackendAllocWorkspace", c(1), c(0), c(16, "int64"), c(0), c(32), dtype="handle")
    give = st.Evaluate(op("TVMBackendFreeWorkspace", c(1), c(0), w.data, dtype="int32"))
    body = st.seq(each(tir.BufferStore(w, a[i] * 2, [i])), each(tir.BufferStore(a, w[3 - i], [i])))
    func = tir.PrimFunc([a], st.LetStmt(w.data, take, st.seq(body, give)))
    assert agree(func, np.arange(4, dtype="int32"))[0].tolist() == [6, 4, 2, 0]


@pytest.mark.parametrize("how", ["ret", "thread_return"])
def test_leaving_early(how):
    a, i = tir.decl_buffer((8,), "int32", "a"), tir.Var("i", "int32")
    leave = st.Evaluate(op(how, *([c(0)] if how == "ret" else []), dtype="int32"))
    body = st.seq(st.IfThenElse(tir.EQ(i, 5), leave), tir.BufferStore(a, i, [i]))
    func = tir.PrimFunc([a], st.For(i, c(0), c(8), 0, body))
    assert agree(func, -np.ones(8, "int32"))[0].tolist() == [0, 1, 2, 3, 4, -1, -1, -1]


PROGRAMS = {
    "vectorlow": test_vectors_in_parts,
    "vectorhigh": test_vectors_in_parts,
    "vectorcombine": test_vectors_in_parts,
    "get_active_lane_mask": test_vectors_in_parts,
    "q_multiply_shift": test_integers_of_their_own,
    "q_multiply_shift_per_axis": test_integers_of_their_own,
    "large_uint_imm": test_integers_of_their_own,
    "dp4a": test_integers_of_their_own,
    "checked_index": test_indices_from_data,
    "address_of": test_pointers,
    "tvm_access_ptr": test_pointers,
    "handle_add_byte_offset": test_pointers,
    "type_annotation": test_pointers,
    "isnullptr": test_pointers,
    "prefetch": test_pointers,
    "atomic_add": test_atomic_add_gives_the_old_value_and_loses_none,
    "call_extern": test_c_and_llvm_functions_by_name,
    "call_pure_extern": test_c_and_llvm_functions_by_name,
    "call_llvm_intrin": test_c_and_llvm_functions_by_name,
    "call_llvm_pure_intrin": test_c_and_llvm_functions_by_name,
    "call_packed": test_packed_calls_and_the_stack,
    "call_cpacked": test_packed_calls_and_the_stack,
    "tvm_call_packed": test_packed_calls_and_the_stack,
    "tvm_call_cpacked": test_packed_calls_and_the_stack,
    "tvm_call_trace_packed": test_packed_calls_and_the_stack,
    "call_packed_lowered": test_packed_calls_and_the_stack,
    "call_cpacked_lowered": test_packed_calls_and_the_stack,
    "tvm_stack_alloca": test_packed_calls_and_the_stack,
    "tvm_struct_get": test_packed_calls_and_the_stack,
    "tvm_struct_set": test_packed_calls_and_the_stack,
    "tvm_stack_make_shape": test_tensors_on_the_stack,
    "tvm_stack_make_array": test_tensors_on_the_stack,
    "tvm_storage_sync": test_hints_and_what_says_nothing_to_the_machine,
    "start_profile_intrinsic": test_hints_and_what_says_nothing_to_the_machine,
    "end_profile_intrinsic": test_hints_and_what_says_nothing_to_the_machine,
    "assume": test_hints_and_what_says_nothing_to_the_machine,
    "undef": test_hints_and_what_says_nothing_to_the_machine,
    "TVMBackendAllocWorkspace": test_workspaces,
    "TVMBackendFreeWorkspace": test_workspaces,
    "ret": test_leaving_early,
    "thread_return": test_leaving_early,
}
INTERPRETED = {
    "tvm_tuple": "a Python tuple; native code passes the parts",
    **{f"tvm_warp_{n}": "a GPU's warp" for n in ("activemask", "shuffle", "shuffle_up")},
    "tvm_warp_shuffle_down": "a GPU's warp",
}
NOT_RUN = {"tvm_throw_last_error": "no program raises an error natively and then goes on"}
_GPU = "a GPU's threads or matrix units"
REFUSED = {
    "vscale": "widths are fixed: vectors of unknown length have no registers on x86",
    "lookup_param": "parameters are bound as constants",
    "tvm_context_id": "one device",
    "tvm_static_handle": "functions keep no state",
    "tvm_check_return": "results of C calls are compared by the caller",
    "trace": "a registered function does it",
    **dict.fromkeys(("anylist_getitem", "anylist_resetitem"), "lists of objects are the VM's"),
    "anylist_setitem_call_packed": "lists of objects are the VM's",
    "anylist_setitem_call_cpacked": "lists of objects are the VM's",
    **dict.fromkeys(("tvm_thread_allreduce", "create_barriers"), _GPU),
    **dict.fromkeys(("mma_fill", "mma_store", "make_filled_simdgroup_matrix"), _GPU),
    **dict.fromkeys((f"simdgroup_{n}" for n in ("load", "store", "multiply_accumulate")), _GPU),
    **dict.fromkeys(
        (f"tvm_{n}" for n in ("load_matrix_sync", "store_matrix_sync", "mma_sync", "bmma_sync")),
        _GPU,
    ),
    "tvm_fill_fragment": _GPU,
}


def of_gpu(name):
    return REFUSED.get(name) or (_GPU if name.startswith("ptx_") else None)


def names():
    return [n.removeprefix("tir.") for n in Op.list_op_names() if n.startswith("tir.")]


def test_every_operator_is_in_one_table():
    for name in names():
        tables = (NUMBERS, PROGRAMS, INTERPRETED, NOT_RUN)
        found = sum(name in t for t in tables) + (of_gpu(name) is not None)
        assert found == 1, f"{name} is in {found} tables"
    known = {*NUMBERS, *PROGRAMS, *INTERPRETED, *NOT_RUN, *REFUSED}
    nodes = {n for n in NUMBERS if n[0].isupper()}
    assert known - {*names()} == nodes, "a table names what there is not"


@pytest.mark.parametrize("name", [n for n in names() if n in INTERPRETED or of_gpu(n)])
def test_what_has_no_code_is_refused_by_name(name):
    a = tir.decl_buffer((1,), "int32", "a")
    call = op(name, a.data, *[c(1)] * 4, dtype="int32")
    func = tir.PrimFunc([a], tir.BufferStore(a, call, [0]))
    with pytest.raises(LoopwrightError, match=f"the intrinsic tir.{name} has no LLVM code"):
        compiled({"f": func})
    if name not in INTERPRETED:
        with pytest.raises(LoopwrightError, match="knows no meaning of this call"):
            run(func, [np.zeros(1, "int32")])


# -- nodes ------------------------------------------------------------------------------------------


@T.prim_func
def every_statement(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
    K = T.allocate_const([3, 1, 2, 0], "int32", [4])
    k = T.Buffer((4,), "int32", data=K)
    assert n < 8, "n is small"
    with T.attr(0, "some_key", 1):
        for i in T.parallel(8):
            C = T.decl_buffer((4,), "int32")
            for j in T.vectorized(4):
                C[j] = A[i, j] * 2
            with T.block("sum"):
                vi = T.axis.spatial(8, i)
                B[vi] = 0
            for j in T.unroll(4):
                with T.block("add"):
                    vi, vj = T.axis.remap("SR", [i, j])
                    with T.init():
                        B[vi] = 1
                    B[vi] = B[vi] + C[k[vj]]
            y = T.int32()
            x: T.int32 = T.Let(y + 1, where={y: B[i]})
            if x > 20:
                B[i] = x + T.Shuffle([T.Broadcast(n, 4)], [0])
            else:
                T.evaluate(0)
    while B[0] < 100:
        B[0] = B[0] + 7


def test_every_statement():
    a = np.arange(32, dtype="int32").reshape(8, 4)
    agree(every_statement, a, np.zeros(8, "int32"), 3)
    for func in (
        compiled({"every_statement": every_statement})["every_statement"],
        lambda *v: run(every_statement, v),
    ):
        with pytest.raises((ValueError, AssertionError), match="n is small"):
            func(a, np.zeros(8, "int32"), 9)


# Where a node is used, or why it is in no program of both.
NODES = {
    **{n: "NUMBERS" for n in NUMBERS if n[0].isupper()},
    **dict.fromkeys(("Cast", "BufferLoad", "Call", "Ramp", "IntImm", "FloatImm"), "NUMBERS"),
    **dict.fromkeys(("Var", "SizeVar", "StringImm"), "PROGRAMS"),
    **dict.fromkeys(("Let", "Shuffle", "Broadcast", "For", "BufferStore"), "every_statement"),
    **dict.fromkeys(("SeqStmt", "Evaluate", "IfThenElse", "While", "LetStmt"), "every_statement"),
    **dict.fromkeys(("AssertStmt", "AttrStmt", "Allocate", "DeclBuffer"), "every_statement"),
    **dict.fromkeys(("AllocateConst", "Block", "BlockRealize", "IterVar"), "every_statement"),
    "BufferRealize": "interpreted only: te's bounds, which lowering makes Allocate of",
    "Reduce": "te's: create_prim_func makes a block of it",
    "ProducerLoad": "te's: create_prim_func makes a load of it",
    "BindBuffer": "te's: memory of a tensor intrinsic's operand, gone in te.lower",
    "ProducerRealize": "te's: te.lower makes an allocation of it",
    "ProducerStore": "te's: te.lower makes a store of it",
    "PrimExprWithOp": "a base class",
    **dict.fromkeys(("IterSplitExpr", "IterSumExpr"), "arith's own, never in a program"),
}


def concrete(base):
    for kind in base.__subclasses__():
        yield from concrete(kind)
        if not kind.__subclasses__() or kind.__name__ in ("Var",):
            yield kind.__name__


def test_every_node_is_in_the_table():
    found = {*concrete(pe.PrimExpr), *concrete(st.Stmt)} - {"Any"}  # which is an extent of Relay
    missing, unknown = found - NODES.keys(), NODES.keys() - found
    assert not missing, f"these nodes are in no program: {sorted(missing)}"
    assert not unknown, f"the table names what there is not: {sorted(unknown)}"
