"""What `LowerScalarOps` makes of each operation means the same to the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.base.errors import LoopwrightError
from loopwright.codegen.c.functions import NATIVE
from loopwright.ir.dtype import DataType, numpy_dtype
from loopwright.ir.module import IRModule
from loopwright.script import tir as T
from loopwright.tir.interpreter import run
from loopwright.tir.transform import LowerScalarOps, default_tir_pipeline
from loopwright.tir.transform.lower.lower_scalar_ops import MACHINE

from ...codegen.matrix import SMALL, equal, table_function
from ...codegen.test_matrix import ALL, ROUGH, TOLERANCE, casts, inputs, operators

pytestmark = pytest.mark.no_roundtrip
EMITTERS = {"machine": MACHINE, "c": NATIVE, "nothing": frozenset(("float32", "float64"))}


@pytest.mark.sample(32)
@pytest.mark.parametrize("emitter", EMITTERS)
@pytest.mark.parametrize("dtype", ALL)
def test_rewritten_means_the_same(dtype, emitter):
    fns, arrays = operators(dtype) | casts(), inputs(dtype)
    func = table_function(fns, [dtype] * 2, 4)
    rewritten = LowerScalarOps(EMITTERS[emitter])(IRModule({"main": func}))["main"]
    outs = func.buffers[2:]
    want = [np.zeros(arrays[0].size, numpy_dtype(o.dtype)) for o in outs]
    got = [o.copy() for o in want]
    run(func, [*arrays, *want])
    run(rewritten, [*arrays, *got])
    wrong = []
    for name, a, b in zip(fns, want, got, strict=True):
        rough = name in ROUGH and DataType(dtype).is_float
        same = equal(a, b, TOLERANCE.get(dtype, 0.0) if rough else 0.0)
        same |= (a == b) if dtype in SMALL else False  # a type without NaN makes a zero of it
        if not same.all():
            k = int(np.flatnonzero(~same)[0])
            wrong.append(f"{name} of {', '.join(str(x[k]) for x in arrays)}: {a[k]}, now {b[k]}")
    assert not wrong, "\n".join(wrong)


def test_what_is_left_is_the_emitter_s():
    fns = operators("int32") | casts()
    func = table_function(fns, ["int32"] * 2, 1)
    text = LowerScalarOps()(IRModule({"main": func})).script()
    assert "//" not in text and "T.bitwise_not" not in text and "T.large_uint" not in text
    again = LowerScalarOps()(LowerScalarOps()(IRModule({"main": func})))
    assert again.script() == text


def test_an_emitter_without_a_type_that_the_program_needs():
    text = "the program computes with {0}, which the emitter does not have\n  got: native={1}\n"
    text += '  instead: add "{0}" to native'
    for dtype, native, needed in [
        ("float32", [], "float32"),
        ("bfloat16", [], "float32"),
        ("float64", ["float32"], "float64"),
    ]:
        func = table_function(operators(dtype), [dtype] * 2, 1)
        with pytest.raises(LoopwrightError) as error:
            LowerScalarOps(frozenset(native))(IRModule({"main": func}))
        assert str(error.value) == text.format(needed, native)
    func = table_function({"a": lambda a, b: a // b}, ["int32"] * 2, 1)
    assert "//" not in LowerScalarOps(frozenset())(IRModule({"main": func})).script()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("floot64", "did you mean float64?"),
        ("sigmod:float32", "did you mean sigmoid?"),
        ("Min:integer", "did you mean Min? A type may follow: Min:int"),
    ],
)
def test_what_no_emitter_has(name, hint):
    with pytest.raises(ValueError) as error:
        default_tir_pipeline(frozenset(["float32", name]))
    what = "no operation that an emitter may have"
    assert str(error.value) == f"{what}\n  got: {name}\n  instead: {hint}"


@pytest.mark.parametrize("exponent", [2.0, 3.0])
def test_squares_and_cubes_are_products(exponent):
    @T.prim_func
    def power(x: T.Buffer((5,), "float32"), y: T.Buffer((5,), "float32")):
        for i in range(5):
            y[i] = T.pow(x[i], T.float32(exponent))

    lowered = LowerScalarOps()(IRModule({"main": power}))["main"]
    assert "T.pow" not in lowered.script()
    x, y = np.array([-2, 0, 0.5, 3, np.inf], np.float32), np.zeros(5, np.float32)
    run(lowered, [x, y])
    np.testing.assert_array_equal(y, x**exponent)


@pytest.mark.parametrize(
    ("dtype", "bounds"),
    [("int8", ""), ("int32", ""), ("uint32", ""), ("int64", "min max"), ("uint64", "min")],
)
def test_exponents_of_64_bits_are_bounded(dtype, bounds):
    @T.prim_func
    def scaled(
        x: T.Buffer((3,), "float32"), e: T.Buffer((3,), dtype), out: T.Buffer((3,), "float32")
    ):
        for i in range(3):
            out[i] = T.ldexp(x[i], e[i])

    func = LowerScalarOps()(IRModule({"main": scaled}))["main"]
    assert [k for k in ("min", "max") if f"T.{k}(" in func.script()] == bounds.split()
    out = np.zeros(3, "float32")
    big = (1 << 32) + 1 if bounds else 100
    run(func, [np.float32([1, 3, 0]), np.array([2, big, big], dtype), out])
    np.testing.assert_array_equal(out, [4, np.inf if bounds else np.ldexp(3.0, 100), 0])


def test_a_division_by_one_is_none():
    @T.prim_func
    def halved(x: T.Buffer((2,), "int32"), out: T.Buffer((4,), "int32")):
        out[0] = T.FloorDiv(x[0], 1)
        out[1] = x[0] // 2
        out[2] = x[1] // 4
        out[3] = x[1] % 1

    func = LowerScalarOps()(IRModule({"main": halved}))["main"]
    assert func.script().count("shift") == 2
    out = np.zeros(4, "int32")
    run(func, [np.int32([-7, 9]), out])
    assert out.tolist() == [-7, -4, 2, 0]
