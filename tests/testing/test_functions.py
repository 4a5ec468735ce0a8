"""Functions registered for tests: how values cross a call."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import testing, tir
from loopwright.base.errors import InternalError, LoopwrightError
from loopwright.script import tir as T
from loopwright.testing import functions

N = tir.Var("n", "int32")
CALLS = [
    ("echo", ((1, 2),), (1, 2)),
    ("nop", (1, "a"), None),
    ("AcceptsBool", (3,), True),
    ("AcceptsInt", (True,), 1),
    ("AcceptsPrimExpr", (N,), N),
    ("AcceptsVariant", ("a",), "ffi.String"),
    ("AcceptsVariant", (4,), "ir.IntImm"),
    ("AcceptsVariant", (tir.IntImm("int32", 4),), "ir.IntImm"),
    ("ReturnsVariant", (7,), "argument was odd"),
    ("AcceptsObjectRefArray", ([5, 6],), 5),
    ("AcceptsMapReturnsValue", ({"a": 1, "b": 2}, "b"), 2),
    ("AcceptsMapReturnsMap", ({"a": 1},), {"a": 1}),
    ("ErrorTest", (2, 2), None),
]


@pytest.mark.parametrize(("name", "args", "wanted"), CALLS)
def test_results(name, args, wanted):
    got = lw.get_global_func(f"testing.{name}")(*args)
    assert got is wanted if isinstance(wanted, tir.PrimExpr) else got == wanted


def test_numbers_and_texts_become_expressions():
    one = lw.get_global_func("testing.AcceptsPrimExpr")
    shown = [(e.dtype, e.value) for e in map(one, (True, 3, 0.5))]
    assert shown == [("bool", 1), ("int32", 3), ("float32", 0.5)]
    assert isinstance(one("a"), tir.StringImm) and one("a").value == "a"
    some = lw.get_global_func("testing.AcceptsArrayOfPrimExpr")((1, N))
    assert some[0].value == 1 and some[1] is N
    assert lw.get_global_func("testing.AcceptsMapOfPrimExpr")({"k": 2})["k"].value == 2
    half = lw.get_global_func("testing.ReturnsVariant")(8)
    assert (half.dtype, half.value) == ("int64", 4)
    for name in ("AcceptsPrimExpr", "AcceptsVariant"):
        with pytest.raises(TypeError, match="is expected"):
            lw.get_global_func(f"testing.{name}")([1])


def test_errors_keep_their_kind():
    equal = functions.test_check_eq_callback("ValueError: sizes")
    equal(3, 3)
    with pytest.raises(InternalError, match="3 is not 4: sizes"):
        equal(3, 4)
    with pytest.raises(InternalError, match="why"):
        functions.test_raise_error("InternalError", "why")
    with pytest.raises(LoopwrightError, match="why"):
        functions.test_raise_error("NoSuchError", "why")
    with pytest.raises(ValueError, match="expect 1 and 2 to be equal"):
        functions.ErrorTest(1, 2)
    called = []
    assert functions.test_wrap_callback(lambda: called.append(1))() is None and called == [1]


class TestCompare(testing.CompareBeforeAfter):
    """A class of tests with functions."""

    transform = tir.transform.Simplify()

    def before(A: T.Buffer((8,), "float32")):
        for i in range(8):
            A[i * 2 - i] = T.float32(1)

    def expected(A: T.Buffer((8,), "float32")):
        for i in range(8):
            A[i] = T.float32(1)


class TestComparedModules(testing.CompareBeforeAfter):
    """A class of tests with modules, and a method that gives the pass."""

    def transform(self):
        return tir.transform.Simplify()

    class Before:
        def f(A: T.Buffer((8,), "float32")):
            for i in range(8):
                A[i * 2 - i] = T.float32(1)

    class Expected:
        def f(A: T.Buffer((8,), "float32")):
            for i in range(8):
                A[i] = T.float32(1)


def refused(mod, ctx=None):
    raise ValueError("refused")


class TestComparedError(testing.CompareBeforeAfter):
    """A pass that raises."""

    expected = ValueError

    def transform(self):
        return refused

    def before(A: T.Buffer((8,), "float32")):
        A[0] = T.float32(1)


@pytest.mark.parametrize(
    ("off", "options", "good"),
    [
        (0.0, {}, True),
        (0.2099, {}, True),  # 0.1 of the norm 2, and 0.01 more for one element
        (0.2101, {}, False),
        (0.21, {"rtol": 0.0}, False),
        (0.29, {"rtol": 0.0, "atol": 0.3}, True),
        (0.31, {"rtol": 0.0, "atol": 0.3}, False),
    ],
)
def test_how_far_a_gradient_may_be(off, options, good):
    """Of one element: the derivative of 2 x is 2."""
    grad = [np.array([2.0 + off])]
    if good:
        testing.check_numerical_grads(lambda x: 2 * x.sum(), [np.zeros(1)], grad, **options)
        return
    with pytest.raises(AssertionError, match="from the differences"):
        testing.check_numerical_grads(lambda x: 2 * x.sum(), [np.zeros(1)], grad, **options)


def test_differences_are_extrapolated():
    """The error of x ** 3 by central differences, delta ** 2, goes away; that of x ** 5 does not."""
    exact = {"atol": 1e-9, "rtol": 0.0, "delta": 0.1}
    x = np.array([1.0, 2.0])
    testing.check_numerical_grads(lambda x: (x**3).sum(), [x], [3 * x**2], **exact)
    with pytest.raises(AssertionError):
        testing.check_numerical_grads(lambda x: (x**5).sum(), [x], [5 * x**4], **exact)
    whole = np.ones((2, 2))
    testing.check_numerical_grads(
        lambda x: (x * [[1, 2], [3, 4]]).sum(), [whole], [[[1, 2], [3, 4]]]
    )
    many = np.zeros(4)  # 0.01 times the root of four elements
    near = {"rtol": 0.0}
    testing.check_numerical_grads(
        lambda x: x.sum(), [many], [np.ones(4) + [0.019, 0, 0, 0]], **near
    )
    with pytest.raises(AssertionError):
        testing.check_numerical_grads(
            lambda x: x.sum(), [many], [np.ones(4) + [0.021, 0, 0, 0]], **near
        )
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="is not finite"):
            testing.check_numerical_grads(lambda x: x.sum(), [np.zeros(1)], [np.array([bad])])
        with pytest.raises(ValueError, match="is not finite"):
            testing.check_numerical_grads(lambda x, b=bad: x.sum() * b, [np.ones(1)], [np.ones(1)])
