"""Declarations of C functions."""

from __future__ import annotations

import pytest

from loopwright.runtime.extern import Prototype


@pytest.mark.parametrize(
    ("text", "result", "params"),
    [
        ("void f(void)", "void", []),
        ("int f();", "int32", []),
        ("float f(float)", "float32", ["float32"]),
        ("int f(const float* x, int64_t n)", "int32", ["const float32*", "int64"]),
        ("int f(float x[], unsigned char y[4])", "int32", ["float32*", "uint8*"]),
        ("unsigned long long f(unsigned, size_t)", "uint64", ["uint32", "uint64"]),
        ("double f(signed char c, long long n)", "float64", ["int8", "int64"]),
        ("int f(struct toy* t, const void *p, char** names)", "int32",
         ["void*", "const void*", "void*"]),
        ("extern int f(float* restrict x, uint16_t *__restrict__ y)", "int32",
         ["float32*", "uint16*"]),
        ("const char* f(_Bool b, long n)", "const int8*", ["bool", "int64"]),
    ],
)  # fmt: skip
def test_declarations(text, result, params):
    read = Prototype.parse(text)
    assert (read.name, str(read.result), [str(p) for p in read.params]) == ("f", result, params)
    assert read.text == " ".join(text.split()).rstrip(";")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f", "not a C declaration"),
        ("int f", "not a C declaration"),
        ("int f(toy t)", "a type in 'int f.toy t.' is not understood\n  got: toy t"),
        ("toy f(int n)", "got: toy"),
        ("int n f(int n)", "got: int n"),
        ("int f(, int n)", "is not understood"),
        ("int f(n)", "got: n"),
    ],
)
def test_what_is_no_declaration(text, message):
    with pytest.raises(ValueError, match=message):
        Prototype.parse(text)
