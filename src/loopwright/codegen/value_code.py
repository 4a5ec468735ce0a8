"""Values with operators, and the code that they append to: functions are written with them once for
all code generators, each of which writes the operations in its language.

Kinds are "f" and "d" (float and double), "i" and "l" (integers of 32 and 64 bits), "b" (conditions).
Operations have the names of LLVM's instructions and intrinsics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

Number = int | float


def _operator(integer: str, real: str, swapped: bool = False) -> Callable[[Value, Any], Value]:
    """An operator's method, by the operation on integers and the one on floats."""

    def method(self: Value, other: Value | Number) -> Value:
        operation = real if self.kind in "fd" else integer
        a, b = self, self.code.value(other, self.kind)
        return self.code.binary(operation, b, a) if swapped else self.code.binary(operation, a, b)

    return method


class Value:
    """A vector (or scalar) of one kind in the code being written; operators emit instructions."""

    __slots__ = ("code", "kind", "ref")

    def __init__(self, code: Code, kind: str, ref: str) -> None:
        self.code, self.kind, self.ref = code, kind, ref

    __add__ = _operator("add", "fadd")
    __sub__ = _operator("sub", "fsub")
    __rsub__ = _operator("sub", "fsub", swapped=True)
    __mul__ = _operator("mul", "fmul")
    __truediv__ = _operator("fdiv", "fdiv")
    __rtruediv__ = _operator("fdiv", "fdiv", swapped=True)
    __and__ = _operator("and", "and")
    __or__ = _operator("or", "or")
    __xor__ = _operator("xor", "xor")
    __lshift__ = _operator("shl", "shl")
    __rshift__ = _operator("ashr", "ashr")

    def __neg__(self) -> Value:
        return self.code.negative(self)

    def compare(self, predicate: str, other: Value | Number) -> Value:
        """A condition; ordered float predicates are false for NaN."""
        return self.code.comparison(predicate, self, self.code.value(other, self.kind))

    def __lt__(self, other: Value | Number) -> Value:
        return self.compare("olt" if self.kind in "fd" else "slt", other)

    def __gt__(self, other: Value | Number) -> Value:
        return self.compare("ogt" if self.kind in "fd" else "sgt", other)

    def equals(self, other: Value | Number) -> Value:
        return self.compare("oeq" if self.kind in "fd" else "eq", other)

    def is_nan(self) -> Value:
        return self.compare("uno", 0.0)

    def choose(self, yes: Value | Number, no: Value | Number) -> Value:
        """yes where this condition holds, else no; one of the two may be a number."""
        typed = yes if isinstance(yes, Value) else no
        assert isinstance(typed, Value)
        yes, no = self.code.value(yes, typed.kind), self.code.value(no, typed.kind)
        return self.code.selection(self, yes, no)

    def to(self, kind: str, operation: str) -> Value:
        return self.code.conversion(operation, self, kind)

    def bits(self) -> Value:
        """The float's bits as an integer."""
        return self.to("i" if self.kind == "f" else "l", "bitcast")

    def as_float(self) -> Value:
        """The integer's bits as a float."""
        return self.to("f" if self.kind == "i" else "d", "bitcast")

    def intrinsic(self, name: str, *others: Value) -> Value:
        return self.code.intrinsic(name, self, *others)

    def abs(self) -> Value:
        return self.intrinsic("fabs")

    def sqrt(self) -> Value:
        return self.intrinsic("sqrt")

    def sign_of(self, other: Value) -> Value:
        """This magnitude with the sign of `other`."""
        return self.intrinsic("copysign", other)

    def at_most(self, bound: float) -> Value:
        """min(self, bound), keeping NaN."""
        return (self > bound).choose(bound, self)

    def at_least(self, bound: float) -> Value:
        """max(self, bound), keeping NaN."""
        return (self < bound).choose(bound, self)


class Code(ABC):
    """The body of a function that is being written."""

    scales = False  # whether `scaled` is implemented

    @abstractmethod
    def value(self, value: Value | Number, kind: str) -> Value:
        """The value itself, or a number as a constant of a kind."""

    @abstractmethod
    def binary(self, operation: str, a: Value, b: Value) -> Value: ...

    @abstractmethod
    def negative(self, a: Value) -> Value: ...

    @abstractmethod
    def comparison(self, predicate: str, a: Value, b: Value) -> Value: ...

    @abstractmethod
    def selection(self, condition: Value, yes: Value, no: Value) -> Value: ...

    @abstractmethod
    def conversion(self, operation: str, a: Value, kind: str) -> Value: ...

    @abstractmethod
    def intrinsic(self, name: str, *args: Value) -> Value: ...

    @abstractmethod
    def per_lane(self, function: str, kind: str, *args: Value) -> Value:
        """A libm function applied to each lane."""

    @abstractmethod
    def rarely(self, condition: Value, fast: Value, slow: Callable[[], Value]) -> Value:
        """`fast`, except for lanes where the condition holds: they come from `slow`, run only if
        any does."""

    def scaled(self, x: Value, n: Value) -> Value:
        """x 2^n, rounded once; where `scales`."""
        raise NotImplementedError

    def fma(self, a: Value, b: Value | Number, c: Value | Number) -> Value:
        """a * b + c, fused if the target does that fast."""
        return self.intrinsic("fmuladd", a, self.value(b, a.kind), self.value(c, a.kind))

    def poly(self, x: Value, coefficients: Sequence[float]) -> Value:
        """c0 + c1 x + c2 x^2 ...

        Up to five terms by Horner's rule; more by Estrin's, whose chain of dependent operations is
        logarithmic: in a long chain, latency would dominate.
        """
        if len(coefficients) <= 5:
            result = self.fma(x, coefficients[-1], coefficients[-2])
            for c in reversed(coefficients[:-2]):
                result = self.fma(result, x, c)
            return result
        terms = [
            self.fma(x, coefficients[i + 1], coefficients[i])
            for i in range(0, len(coefficients) - 1, 2)
        ]
        if len(coefficients) % 2:
            terms.append(self.value(coefficients[-1], x.kind))
        power = x
        while len(terms) > 1:
            power = power * power
            pairs = range(0, len(terms) - 1, 2)
            rest = terms[len(terms) & ~1 :]
            terms = [self.fma(terms[i + 1], power, terms[i]) for i in pairs] + rest
        return terms[0]
