"""Wrong arguments of compiled functions: the exact messages."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.driver import compile
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T


@pytest.fixture(scope="module")
def main():
    @I.ir_module
    class Module:
        @R.function
        def main(
            x: R.Tensor(("n", 4), "float32"),
            y: R.Tensor(("n * 2",), "float32"),
            z: R.Tensor(("n", 4), "float32"),
            k: R.Prim("int32"),
        ) -> R.Tensor(("n", 4), "float32"):
            with R.dataflow():
                out = R.add(x, z)
                R.output(out)
            return out

    return compile(Module)["main"]


def arguments(**changes):
    given = {
        "x": np.ones((3, 4), "float32"),
        "y": np.ones(6, "float32"),
        "z": np.ones((3, 4), "float32"),
        "k": 1,
    }
    return list({**given, **changes}.values())


def test_right_arguments(main):
    np.testing.assert_array_equal(main(*arguments()).numpy(), np.full((3, 4), 2.0))


CASES = [
    (
        {"x": np.ones(4, "float32")},
        ValueError,
        "main: argument 0 `x` has ndim 1, expected ndim 2",
    ),
    (
        {"x": np.ones((3, 4))},
        ValueError,
        "main: argument 0 `x` has dtype float64, expected dtype float32",
    ),
    (
        {"x": np.ones((3, 5), "float32")},
        ValueError,
        "main: argument 0 `x` has shape[1] = 5, expected 4",
    ),
    (
        {"z": np.ones((2, 4), "float32")},
        ValueError,
        "main: argument 2 `z` has shape[0] = 2, expected 3",
    ),
    (
        {"y": np.ones(7, "float32")},
        ValueError,
        "main: argument 1 `y` has shape[0] = 7, expected 6",
    ),
    ({"x": "text"}, TypeError, "main: argument 0 `x` must be a tensor, got a str"),
    ({"z": 3}, ValueError, "main: argument 2 `z` has ndim 0, expected ndim 2"),
    ({"z": None}, TypeError, "main: argument 2 `z` must be a tensor, got None"),
    (
        {"k": np.ones(1, "float32")},
        TypeError,
        "main: argument 3 `k` must be an int, got a tensor",
    ),
    (
        {"k": 2**31},
        ValueError,
        "main: argument 3 `k` is 2147483648, which int32 cannot hold",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[2].split("`")[-1].strip()[:30])
def test_wrong_arguments(main, case):
    changes, kind, message = case
    with pytest.raises(kind) as info:
        main(*arguments(**changes))
    assert str(info.value).partition("\n  expected: ")[0] == message


@pytest.mark.parametrize("count", [0, 3, 5])
def test_wrong_number_of_arguments(main, count):
    with pytest.raises(TypeError) as info:
        main(*(arguments() * 2)[:count])
    assert (
        str(info.value).partition("\n  expected: ")[0] == f"main: expected 4 arguments, got {count}"
    )


def test_kernels_check_extents_of_scalars_and_compound_ones():
    @T.prim_func
    def f(a: T.handle, b: T.handle, m: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n, m), "float32")
        B = T.match_buffer(b, (n * 2 + 1,), "float32")
        for i in range(n):
            B[i] = A[i, m - 1]

    native = compile(f)["f"]
    a, b = np.arange(6, dtype="float32").reshape(2, 3), np.zeros(5, "float32")
    native(a, b, 3)
    np.testing.assert_array_equal(b, [2, 5, 0, 0, 0])
    with pytest.raises(ValueError) as info:
        native(a, b, 2)
    assert (
        str(info.value).partition("\n  expected: ")[0]
        == "f: argument 0 `A` has shape[1] = 3, expected 2"
    )
    with pytest.raises(ValueError) as info:
        native(a, np.zeros(6, "float32"), 3)
    assert (
        str(info.value).partition("\n  expected: ")[0]
        == "f: argument 1 `B` has shape[0] = 6, expected 5"
    )


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("int8", -128, 127), ("uint8", 0, 255), ("int16", -(2**15), 2**15 - 1), ("int32", -5, 5)],
)
def test_narrow_scalar_parameters(dtype, low, high):
    @T.prim_func
    def f(A: T.Buffer((1,), "int64"), k: T.var(dtype)):
        A[0] = T.Cast("int64", k) * T.int64(2)

    native, a = compile(f)["f"], np.zeros(1, "int64")
    for value in (low, high, 0):
        native(a, value)
        assert a[0] == value * 2
    if dtype != "int32":
        for value in (low - 1, high + 1):
            with pytest.raises(ValueError, match=f"is {value}, which {dtype} cannot hold"):
                native(a, value)


def test_float_and_bool_scalars():
    @T.prim_func
    def f(A: T.Buffer((3,), "float64"), x: T.float32, y: T.float16, b: T.bool):
        A[0] = T.Cast("float64", x)
        A[1] = T.Cast("float64", y)
        A[2] = T.if_then_else(b, T.float64(1), T.float64(0))

    native, a = compile(f)["f"], np.zeros(3)
    native(a, 0.1, 0.5, True)
    np.testing.assert_array_equal(a, [np.float32(0.1), 0.5, 1])
    native(a, 3, -2, 2)
    np.testing.assert_array_equal(a, [3, -2, 1])
