"""Arguments of compiled functions that native code does not take as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loopwright.runtime import Tensor, tensor
from loopwright.runtime.arguments import Converted, copy_results, in_order, placed, prepared
from loopwright.runtime.signature import Argument, Signature

RESULT = (Argument("out", "float32", (2,)),)


def given(dtype: str, value: Any, results: Any = RESULT) -> Any:
    signature = Signature((Argument("n", "int64"), Argument("x", dtype, ("m",))), results)
    number, x = prepared("f", signature, [3, value])
    assert number == 3
    return x


@pytest.mark.parametrize(
    ("dtype", "value", "wanted"),
    [
        ("int8", [1, -128], np.int8([1, -128])),
        ("uint8", (True, 255), np.uint8([1, 255])),
        ("float32", [1, 2.5], np.float32([1, 2.5])),
        ("float32", 1e300, np.float32(np.inf)),
        ("float16", [1 << 20], np.float16([np.inf])),
        ("bool", [True], np.array([True])),
        ("complex64", [1j, 2], np.complex64([1j, 2])),
        ("int32", [], np.zeros(0, "int32")),
        ("float32", [[], []], np.zeros((2, 0), "float32")),
    ],
)
def test_lists_and_numbers(dtype, value, wanted):
    got = given(dtype, value)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(got, wanted)
    assert given(dtype, value, ()) is value  # a function that writes its arguments


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("int8", [1, 128], "has a value that int8 cannot hold\n  got: .1, 128."),
        ("uint8", [-1], "has a value that uint8 cannot hold"),
        ("int8", [1.0], "takes values of int8"),
        ("bool", [1], "takes values of bool"),
        ("float32", [1j], "takes values of float32"),
        ("float32", ["a"], "takes values of float32"),
        ("float32", [[1], [1, 2]], "whose parts differ in length"),
    ],
)
def test_lists_that_do_not_fit(dtype, value, message):
    with pytest.raises(ValueError, match=f"f: argument 1 `x` (is a list )?{message}"):
        given(dtype, value)


@pytest.mark.parametrize(("length", "cut"), [(75, False), (76, True)])
def test_long_values_are_shortened(length, cut):
    text = "x" * length  # quotes and brackets are four more
    with pytest.raises(ValueError) as error:
        given("float32", [text])
    shown = str(error.value).partition("got: ")[2]
    assert shown.endswith(" ...") and len(shown) == 80 if cut else "..." not in shown


def test_arrays():
    rows = np.arange(6, dtype="float32").reshape(2, 3)
    assert given("float32", rows) is rows
    turned = given("float32", rows.T)
    assert turned.flags.c_contiguous and turned.tolist() == rows.T.tolist()
    swapped = given("float32", rows.astype(">f4"))
    assert swapped.dtype == np.dtype("float32") and swapped.tolist() == rows.tolist()
    point = given("float32", np.array(4, ">f4"))
    assert point.shape == () and point.dtype.isnative
    assert isinstance(given("float32", np.float32(2)), np.ndarray)
    for value in (tensor(rows), tensor([1, 2], dtype="int4"), None, "text"):
        assert given("float32", value) is value
    assert given("float32", Tensor(rows.T)).flags.c_contiguous

    class Array:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return rows[:, ::2]

    assert given("float32", Array()).tolist() == [[0, 2], [3, 5]]
    for dtype in ("object", "void"):
        assert given(dtype, [1, 2]) == [1, 2]


def test_memory_for_results():
    one, two = np.zeros(2, "float32"), np.zeros(2, "float32")
    first, second = placed("f", 2, (one, [two]))
    assert first is one and second is two
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    for count, out, message in (
        (0, one, "f has no results"),
        (1, [one, two], "f has one result\n  got: 2 arrays as out"),
        (2, [one], "f has 2 results\n  got: 1 arrays as out"),
        (1, "x", "output 0 is not an array\n  got: str"),
        (2, [one, frozen], "output 1 cannot be written\n  got: a read-only array"),
        (1, Tensor(frozen), "output 0 cannot be written"),
        (1, np.zeros(2, ">f4"), "output 0 cannot be written\n  got: dtype >f4"),
    ):
        with pytest.raises(TypeError, match=message):
            placed("f", count, out)
    copy_results("f", [tensor(np.float32([1, 2])), tensor(np.float32([3, 4]))], [one, tensor(two)])
    assert one.tolist() == [1, 2]
    for wrong in (np.zeros(3, "float32"), np.zeros(2), tensor(np.zeros(2, "int32"))):
        with pytest.raises(ValueError, match=r"instead: dtype float32 and shape \(2,\)"):
            copy_results("f", [tensor(np.float32([1, 2]))], wrong)


def test_functions_of_arrays():
    call = Converted(
        "f",
        lambda x: tensor(np.asarray(x) + 1),
        Signature((Argument("x", "float32", (2,)),), RESULT),
    )
    out = np.zeros(2, "float32")
    assert call([1, 2]).numpy().tolist() == [2, 3]
    assert call([1, 2], out=out) is out and out.tolist() == [2, 3]


def test_results_by_name():
    assert in_order(["a", "b"], {"b": 2, "a": 1}) == [1, 2] and in_order(["a"], 3) == 3
    for wrong, got in (({"a": 1}, "a"), ({"a": 1, "b": 2, "c": 3}, "a, b, c"), ({}, "none")):
        with pytest.raises(ValueError, match=f"the outputs are a, b\n  got: {got}"):
            in_order(["a", "b"], wrong)
