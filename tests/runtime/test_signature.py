"""Signatures: what a dimension is, lists and back."""

import json

from loopwright import tir
from loopwright.runtime.signature import Argument, Signature, few, number

N = tir.Var("n", "int64")
SCALAR, POINT = Argument("s", "float32"), Argument("p", "int8", ())
MATRIX = Argument("x", "float32", (tir.const(4, "int64"), N * 2))


def test_a_scalar_is_no_tensor_without_dimensions():
    assert not SCALAR.is_tensor and POINT.is_tensor
    assert SCALAR.described() == ("s", "float32", ()) and POINT.described() == ("p", "int8", ())


def test_dimensions_are_numbers_and_texts():
    assert MATRIX.described() == ("x", "float32", (4, "n * 2"))


def test_lists_and_back():
    signature = Signature((SCALAR, MATRIX), (POINT, POINT), (N,), [0, [1]])
    again = Signature.from_lists(signature.as_lists())
    assert again.params[0] == SCALAR and again.results == (POINT, POINT)
    assert again.symbols == (N,) and again.tree == [0, [1]]
    dims = again.params[1].dims
    assert dims is not None and dims[0] == 4 and dims[1] is MATRIX.dims[1]


def test_a_plain_one_is_json():
    plain = Signature((SCALAR, MATRIX), (POINT,), (N,)).plain()
    assert Signature.from_lists(json.loads(json.dumps(plain.as_lists()))) == plain


def test_the_text_of_a_function():
    signature = Signature((SCALAR, MATRIX), (POINT,), (N,))
    assert signature.text("f") == "f(s float32, x float32[4, n * 2]) -> p int8[]"
    assert (
        signature.named(["a", "b"], ["c"]).text("f")
        == "f(a float32, b float32[4, n * 2]) -> c int8[]"
    )
    assert Signature((POINT,) * 6).text("g").endswith("p int8[] and 2 more)")


def test_few():
    assert few("abcd") == "a, b, c, d" and few("abcde") == "a, b, c, d and 1 more"
    assert few([], 0) == "" and few("ab", 1) == "a and 1 more"
    assert number(tir.const(4, "int64")) == 4 and number(N) is N and number("n") == "n"
