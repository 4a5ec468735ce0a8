"""Numbers and names in Relay's texts."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.relay.literals import (
    Names,
    float_text,
    name_text,
    number,
    quoted,
    scalar_text,
    unquoted,
)


@pytest.mark.parametrize(
    ("text", "value", "dtype"),
    [
        ("2147483647", 2**31 - 1, "int32"),
        ("2147483648", 2**31, "int64"),
        ("-2147483648", -(2**31), "int32"),
        ("-2147483649", -(2**31) - 1, "int64"),
        ("--3", 3, "int32"),
        ("7i32", 7, "int32"),
        ("-32768i16", -(2**15), "int16"),
        ("65504f16", 65504.0, "float16"),
        ("3.4028234663852886e+38f", float(np.finfo("float32").max), "float32"),
        ("1e308f64", 1e308, "float64"),
        ("2f32", 2.0, "float32"),
        ("-inff", -np.inf, "float32"),
        ("inff16", np.inf, "float16"),
        ("---inff64", -np.inf, "float64"),
    ],
)
def test_numbers(text: str, value: float, dtype: str) -> None:
    assert number(text) == (value, dtype) and type(number(text)[0]) is type(value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("32768i16", "32768 does not fit int16"),
        ("2147483648i32", "does not fit int32"),
        ("9223372036854775808", "does not fit int64"),
        ("1i8", "integers are i16, i32 or i64"),
        ("65520f16", "65520 does not fit float16"),
        ("3.5e38f", "3.5e38 does not fit float32"),
        ("1f8", "are f16, f32"),
        ("1.5", "ends in f, f16 or f64"),
        ("٣", "ends in f, f16 or f64"),
        ("inf", "has a suffix"),
        ("-nan", "has a suffix"),
    ],
)
def test_what_is_no_number(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        number(text)


def test_texts_of_numbers() -> None:
    assert [float_text(v) for v in (1.0, 0.1, 1e-5, 1e6, 16777216.0, -0.0, np.inf)] == [
        "1f", "0.1f", "1e-05f", "1e+06f", "1.6777216e+07f", "-0f", "inff",
    ]  # fmt: skip
    assert [float_text(1 / 3, t) for t in ("float16", "float64")] == [
        "0.333333f16",
        "0.3333333333333333f64",
    ]
    one = np.array(1)
    assert scalar_text(one.astype("int8"), "int8") is scalar_text(np.ones(1), "float64") is None
    assert scalar_text(np.array(np.nan), "float64") is None
    texts = [scalar_text(one.astype(t), t) for t in ("bool", "int16", "int32", "int64", "float16")]
    assert texts == ["True", "1i16", "1", "1i64", "1f16"]


def test_names_that_are_unique() -> None:
    names = Names()
    given = [names.unique(n) for n in ("x", "x", "x1", "x", "x1", "y")]
    assert given == ["x", "x1", "x11", "x2", "x12", "y"]


def test_names_that_are_no_words_are_quoted() -> None:
    for name in ("a", "_b1", "a/b/1"):
        assert name_text(name) == name_text(name, True) == name
    assert name_text("a.b", True) == "a.b"
    for name in ("a.b", "1a", "a/", "a b", ""):
        assert name_text(name) == f'"{name}"'
    assert name_text('a"\n') == '"a\\"\\n"' and name_text("a.", True) == '"a."'
    assert unquoted('"a\\"b"') == 'a"b' and unquoted('"\\w"') == "\\w"


def test_texts_are_quoted_as_they_are() -> None:
    assert quoted('a "b" é\n') == '"a \\"b\\" é\\n"'
