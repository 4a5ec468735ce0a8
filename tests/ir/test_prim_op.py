"""Building primitive expressions: types, folding, truth values."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.base.errors import LoopwrightError
from loopwright.ir import prim_expr as pe
from loopwright.ir import prim_op as op
from loopwright.ir.dtype import DataType
from loopwright.ir.prim_expr import (
    EQ,
    Add,
    And,
    Broadcast,
    Cast,
    FloatImm,
    IntImm,
    IterVar,
    Let,
    Mul,
    Not,
    Ramp,
    Range,
    Select,
    Shuffle,
    StringImm,
    Var,
)

INTS = st.integers(-(2**31), 2**31 - 1)
SMALL = st.integers(-40, 40)


def wrap(value, bits=32):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def trunc_div(a, b):
    """Rounded toward zero, by exact rational arithmetic."""
    return -(-a // b) if (a < 0) != (b < 0) else a // b


# ---------------------------------------------------------------------- folding


@given(st.one_of(SMALL, INTS), st.one_of(SMALL, INTS))
def test_integers_fold_exactly(a, b):
    x, y = IntImm("int32", a), IntImm("int32", b)
    assert (x + y).value == wrap(a + b)
    assert (x - y).value == wrap(a - b)
    assert (x * y).value == wrap(a * b)
    assert op.minimum(x, y).value == min(a, b)
    assert op.maximum(x, y).value == max(a, b)
    assert (x < y).value == (a < b)
    assert (x >= y).value == (a >= b)
    assert (x & y).value == (a & b)
    assert (x | y).value == (a | b)
    assert (x ^ y).value == (a ^ b)
    assert (~x).value == ~a
    assert (-x).value == wrap(-a)


@given(st.one_of(SMALL, INTS), st.one_of(SMALL, INTS).filter(bool))
def test_divisions_fold_for_all_signs(a, b):
    x, y = IntImm("int32", a), IntImm("int32", b)
    assert (x // y).value == wrap(a // b)
    assert (x % y).value == a % b
    assert op.truncdiv(x, y).value == wrap(trunc_div(a, b))
    assert op.truncmod(x, y).value == a - trunc_div(a, b) * b
    assert op.div(x, y).value == wrap(trunc_div(a, b))
    assert op.ceildiv(IntImm("int64", a), IntImm("int64", b)).value == (a + b - 1) // b


@given(st.integers(0, 255), st.integers(0, 255))
def test_unsigned_wrap_around(a, b):
    x, y = IntImm("uint8", a), IntImm("uint8", b)
    assert (x + y).value == (a + b) % 256
    assert (x - y).value == (a - b) % 256
    assert (x * y).value == (a * b) % 256


@given(st.floats(width=32), st.floats(width=32))
def test_floats_fold_as_numpy_does(a, b):
    with np.errstate(all="ignore"):
        for fold, ref in ((op.add, np.add), (op.subtract, np.subtract), (op.multiply, np.multiply)):
            made = fold(op.const(a, "float32"), op.const(b, "float32"))
            np.testing.assert_equal(np.float32(made.value), ref(np.float32(a), np.float32(b)))


@given(st.floats(), st.floats())
def test_min_and_max_of_floats(a, b):
    x, y = op.const(a, "float64"), op.const(b, "float64")
    if not (math.isnan(a) or math.isnan(b)):
        assert op.minimum(x, y).value == min(a, b)
        assert op.maximum(x, y).value == max(a, b)
    else:
        assert not isinstance(op.minimum(x, y), FloatImm)  # left to the machine


def test_identities():
    x = Var("x")
    assert x + 0 is x
    assert 0 + x is x
    assert x - 0 is x
    assert x * 1 is x
    assert 1 * x is x
    assert (x * 0).value == 0
    assert x // 1 is x
    assert (x % 1).value == 0
    assert (0 // x).value == 0
    assert op.truncdiv(x, 1) is x
    assert op.minimum(x, x) is x
    f = Var("f", "float32")
    assert isinstance(f * 0.0, Mul)  # NaN and infinities stay
    assert f * 1.0 is f


def test_division_by_zero():
    for divide in (op.floordiv, op.floormod, op.truncdiv, op.truncmod, op.div):
        with pytest.raises(ZeroDivisionError, match="division by the literal 0") as error:
            divide(Var("x"), 0)
        assert isinstance(error.value, LoopwrightError)
        with pytest.raises(ZeroDivisionError, match="division by the literal 0"):
            divide(pe.Ramp(0, 1, 4), 0)


def test_shifts():
    assert (op.const(3) << 2).value == 12
    assert (op.const(-5) >> 1).value == -3
    for count in (-1, 32):
        with pytest.raises(ValueError) as error:
            Var("x") << count
        assert str(error.value) == (
            f"the count of a shift of int32 is from 0 to 31\n  got: {count}\n  instead: mask the count"
        )


# ---------------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("int32", "int64", "int64"),
        ("int32", "float16", "float16"),
        ("float16", "float64", "float64"),
        ("uint8", "int8", "uint8"),
        ("uint32", "int16", "uint32"),
        ("bool", "int8", "int8"),
        ("int32x4", "int32", "int32x4"),
        ("int32x4", "float32", "float32x4"),
    ],
)
def test_types_are_matched(a, b, result):
    x, y = op.match_types(Var("a", a), Var("b", b))
    assert x.dtype == y.dtype == result
    x, y = op.match_types(Var("b", b), Var("a", a))
    assert x.dtype == y.dtype == result


def test_python_numbers_take_the_other_sides_type():
    n = Var("n", "int64")
    assert (n + 1).b.dtype == "int64"
    assert (1 + n).a.dtype == "int64"
    assert (Var("f", "float16") * 2).b.dtype == "float16"
    assert (n * 1.5).dtype == "float32"
    assert isinstance((n * 1.5).a, Cast)
    assert (n + np.int64(3)).b.value == 3


def test_vectors_of_different_lengths():
    with pytest.raises(TypeError, match="vectors of different lengths\n  got: int32x4 and int32x2"):
        op.add(Var("a", "int32x4"), Var("b", "int32x2"))


def test_classes_do_not_convert_types():
    with pytest.raises(TypeError) as error:
        Add(Var("a", "int32"), Var("b", "int64"))
    assert str(error.value) == (
        "Add needs operands of one type\n  got: int32 and int64\n  instead: cast one side"
    )


def test_literals():
    assert (op.const(1).dtype, op.const(1.0).dtype) == ("int32", "float32")
    assert op.const(True).dtype == "bool"
    assert op.const(2**40).dtype == "int64"
    assert op.const(300, "uint8").value == 44
    assert op.const(-1, "uint64").value == 2**64 - 1
    assert op.const(0.1, "float32").value == 0.1
    assert op.const(1e39, "float32").value == math.inf
    assert op.const(0.1, "float16").value == float(np.float16(0.1))
    assert op.const(np.float64(2.5)).dtype == "float64"
    assert isinstance(op.const(1, "int32x4"), Broadcast)
    assert op.convert("text").value == "text"
    with pytest.raises(TypeError, match="no literal can be made of this value"):
        op.const(object())


def test_literals_must_fit():
    with pytest.raises(ValueError) as error:
        IntImm("int8", 128)
    assert str(error.value) == "literal does not fit int8\n  got: 128\n  instead: use a wider type"
    with pytest.raises(ValueError, match="IntImm holds one integer or bool\n  got: dtype float32"):
        IntImm("float32", 1)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(300, "uint8"), (-1, "uint8"), (128, "int8"), (2**32, "uint32"), (65505.0, "float16")],
)
def test_literals_of_users_must_fit(value, dtype):
    with pytest.raises(ValueError, match=f"literal does not fit {dtype}"):
        op.literal(value, dtype)
    with pytest.raises(LoopwrightError, match=f"literal does not fit {dtype}"):
        op.literal(value, f"{dtype}x4")


def test_large_floats_are_float64():
    assert op.literal(3.4e39).dtype == "float64"
    assert op.literal(float("inf")).dtype == "float32"
    assert op.literal(float(np.finfo("float32").max)).dtype == "float32"


def test_casts():
    x = Var("x")
    assert op.cast("int32", x) is x
    assert op.cast("float32", op.const(3)).dtype == "float32"
    assert op.cast("int32", op.const(-2.7)).value == -2
    assert op.cast("int32x4", x).dtype == "int32x4"
    assert isinstance(op.cast("float32x4", Broadcast(x, 4)).value, Cast)
    assert isinstance(op.cast("int64", x), Cast)
    assert op.cast("bool", op.const(7)).value == 1
    with pytest.raises(TypeError, match="cannot cast between lengths"):
        op.cast("int32x2", Var("v", "int32x4"))


def test_limits():
    assert op.min_value("int8").value == -128
    assert op.max_value("uint16").value == 65535
    assert op.max_value("float32").value == float(np.finfo("float32").max)
    assert op.min_value("bfloat16").value < -3e38
    assert op.max_value("bool").value == 1


# ---------------------------------------------------------------------- truth


def test_comparisons_are_expressions_with_identity_as_truth():
    x, y = Var("x"), Var("y")
    assert isinstance(x == y, EQ)
    assert not bool(x == y)
    assert x == x
    assert x != y
    assert x != None  # noqa: E711
    assert {x: 1}[x] == 1
    assert x in [y, x]
    assert op.const(3) == 3
    assert op.const(3) != 4
    assert StringImm("a") == "a"


def test_other_expressions_have_no_truth():
    with pytest.raises(ValueError) as error:
        bool(Var("x") < 3)
    assert str(error.value).startswith(
        "a symbolic expression has no truth value while the program is being built\n  got: "
    )
    assert "use T.if_then_else" in str(error.value)


def test_logic():
    a, b = Var("a", "bool"), Var("b", "bool")
    assert isinstance(op.logical_and(a, b), And)
    assert op.logical_and(True, b) is b
    assert op.logical_or(a, False) is a
    assert op.logical_and(a, False).value == 0
    assert isinstance(op.logical_not(a), Not)
    assert op.logical_not(op.const(True)).value == 0
    with pytest.raises(TypeError) as error:
        op.logical_and(Var("n"), a)
    assert str(error.value) == (
        "And needs boolean operands\n  got: int32\n  instead: compare with 0 first"
    )


def test_floats_have_no_bit_operations():
    with pytest.raises(TypeError, match="bitwise_and is for integers\n  got: float32"):
        Var("f", "float32") & 1
    with pytest.raises(TypeError, match="truncdiv is for integers"):
        op.truncdiv(Var("f", "float32"), 2)


# ---------------------------------------------------------------------- nodes


def test_derived_types():
    x = Var("x", "int64")
    assert (x < 3).dtype == "bool"
    assert (Var("v", "float32x4") < 1.0).dtype == "boolx4"
    assert Ramp(x, 1, 8).dtype == "int64x8"
    assert Broadcast(x, 4).dtype == "int64x4"
    assert Shuffle([Broadcast(x, 4)], [0, 2]).dtype == "int64x2"
    assert Select(x < 3, 1.0, 2.0).dtype == "float32"
    assert Let(x, op.const(1, "int64"), x + 1).dtype == "int64"
    assert FloatImm("float64", 1).value == 1.0


def test_a_condition_is_a_bool():
    with pytest.raises(
        TypeError, match="the condition of Select is a bool\n  got: float32\n  instead"
    ):
        Select(Var("x", "float32"), 1.0, 2.0)


def test_ranges():
    n = Var("n", "int64")
    assert (Range(4).min.value, Range(4).extent.value) == (0, 4)
    assert (Range(2, 6).min.value, Range(2, 6).extent.value) == (2, 4)
    assert Range(0, n).extent is n
    assert Range(n).min.dtype == "int64"
    assert Range.from_min_extent(1, n).min.dtype == "int64"


def test_iter_vars_stand_for_their_variable():
    axis = IterVar((0, 8), "k", IterVar.CommReduce)
    assert axis.dtype == "int32"
    assert (axis + 1).a is axis.var
    assert axis.dom.extent.value == 8


def test_variables_with_pointer_types():
    made = Var("p", "handle").copy_with_suffix("_1")
    assert (made.name, made.dtype, made.name_hint) == ("p_1", DataType("handle"), "p_1")


def test_pointers_have_no_operators_with_numbers():
    pointer = Var("p", "handle")
    for operate in (
        lambda: pointer + 2,
        lambda: 2 * pointer,
        lambda: pointer < 1,
    ):
        with pytest.raises(TypeError, match="a pointer has no operators with numbers"):
            operate()
    assert (pointer == pointer).dtype == "bool"


def test_texts_and_types_are_compared_by_value():
    a, same, b = StringImm("a"), StringImm("a"), StringImm("b")
    assert a == same == "a" and a != b and a != "b" and not operator.ne(a, same)
    assert a != IntImm("int32", 1) and hash(a) == hash("a") and len({a, same, b}) == 2
    one, two = pe.PrimType("int32"), pe.PrimType("int64")
    assert one == pe.PrimType("int32") and one != two and one != "int32"
    assert hash(one) == hash(DataType("int32"))


def test_the_range_of_a_loop_is_given_in_several_ways():
    loops = [IterVar(dom, "i") for dom in (Range(0, 4), (0, 4), [0, 4], 4)]
    assert {(int(v.dom.min), int(v.dom.extent), v.var.dtype) for v in loops} == {(0, 4, "int32")}
    wide = IterVar(IntImm("int64", 4), "i")
    assert wide.dtype == "int64" and IterVar(None, "i").dtype == "int32"
    assert range(9)[IntImm("int32", 3)] == 3 and int(IntImm("int64", -3)) == -3


def test_complex_literals_are_real():
    assert op.const(2.5, "complex64").value == 2.5
    with pytest.raises(TypeError, match="a literal is real\n  got: 1j\n  instead: read it from"):
        op.const(1j, "complex64")


def test_lanes_that_the_machine_tells():
    four, x = op.scalable_lanes(4), Var("x", "int32")
    turned = Mul(four.b, four.a)
    call, other = four.a, Cast("int32", x)
    found = [op.vscale_factor(e) for e in (four, turned, call, x * 4, x * call, other * 4, x + 4)]
    assert found == [4, 4, None, None, None, None, None]
    assert op.as_lanes(turned) is four and op.lanes_of(DataType("int8xvscalex4")) is four
    for lanes in (Mul(call, IntImm("int32", 1)), x * 4):
        with pytest.raises(LoopwrightError, match="vscale times a number above 1"):
            op.as_lanes(lanes)
    assert op.as_lanes(Mul(call, IntImm("int32", 2))) is op.scalable_lanes(2)
    assert (op.as_lanes(8), op.as_lanes(IntImm("int64", 8))) == (8, 8)


@pytest.mark.parametrize(
    ("dtype", "least", "most"),
    [("int1", -1, 1), ("int2", -2, 1), ("int8", -128, 127), ("uint8", 0, 255), ("uint1", 0, 1)],
)
def test_the_range_of_literals(dtype, least, most):
    assert IntImm(dtype, least).value == least and IntImm(dtype, most).value == most
    for value in () if dtype == "uint1" else (least - 1, most + 1):  # uint1 is bool
        with pytest.raises(ValueError, match="literal does not fit"):
            IntImm(dtype, value)
