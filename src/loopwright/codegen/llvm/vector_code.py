"""Writes functions over vectors as LLVM text: values with operators, and the code they append
to."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np

_LLVM = {"f": "float", "d": "double", "i": "i32", "l": "i64", "b": "i1"}
SUFFIX = {"f": "f32", "d": "f64", "i": "i32", "l": "i64"}

Number = int | float


class Value:
    """A vector (or scalar) of one kind in the code being written; operators emit instructions."""

    __slots__ = ("code", "kind", "ref")

    def __init__(self, code: Code, kind: str, ref: str) -> None:
        self.code, self.kind, self.ref = code, kind, ref

    def _with(self, operation: str, other: Value | Number, swap: bool = False) -> Value:
        a, b = self, self.code.value(other, self.kind)
        if swap:
            a, b = b, a
        return self.code.put(self.kind, f"{operation} {self.code.type(self.kind)} {a.ref}, {b.ref}")

    def _arith(self, integer: str, real: str) -> str:
        return real if self.kind in "fd" else integer

    def __add__(self, other: Value | Number) -> Value:
        return self._with(self._arith("add", "fadd"), other)

    def __radd__(self, other: Number) -> Value:
        return self + other

    def __sub__(self, other: Value | Number) -> Value:
        return self._with(self._arith("sub", "fsub"), other)

    def __rsub__(self, other: Number) -> Value:
        return self._with(self._arith("sub", "fsub"), other, swap=True)

    def __mul__(self, other: Value | Number) -> Value:
        return self._with(self._arith("mul", "fmul"), other)

    def __rmul__(self, other: Number) -> Value:
        return self * other

    def __truediv__(self, other: Value | Number) -> Value:
        return self._with("fdiv", other)

    def __rtruediv__(self, other: Number) -> Value:
        return self._with("fdiv", other, swap=True)

    def __neg__(self) -> Value:
        return self.code.put(self.kind, f"fneg {self.code.type(self.kind)} {self.ref}")

    def __and__(self, other: Value | Number) -> Value:
        return self._with("and", other)

    def __or__(self, other: Value | Number) -> Value:
        return self._with("or", other)

    def __xor__(self, other: Value | Number) -> Value:
        return self._with("xor", other)

    def __lshift__(self, other: Number) -> Value:
        return self._with("shl", other)

    def __rshift__(self, other: Number) -> Value:
        return self._with("ashr", other)

    def compare(self, predicate: str, other: Value | Number) -> Value:
        """An i1 vector; ordered float predicates are false for NaN."""
        word = "fcmp" if self.kind in "fd" else "icmp"
        b = self.code.value(other, self.kind)
        return self.code.put(
            "b", f"{word} {predicate} {self.code.type(self.kind)} {self.ref}, {b.ref}"
        )

    def __lt__(self, other: Value | Number) -> Value:
        return self.compare("olt" if self.kind in "fd" else "slt", other)

    def __gt__(self, other: Value | Number) -> Value:
        return self.compare("ogt" if self.kind in "fd" else "sgt", other)

    def equals(self, other: Value | Number) -> Value:
        return self.compare("oeq" if self.kind in "fd" else "eq", other)

    def is_nan(self) -> Value:
        return self.compare("uno", 0.0)

    def choose(self, yes: Value | Number, no: Value | Number) -> Value:
        """select(self, yes, no); one of the two may be a number."""
        known = yes if isinstance(yes, Value) else no
        assert isinstance(known, Value)
        kind = known.kind
        t = self.code.type(kind)
        a, b = self.code.value(yes, kind), self.code.value(no, kind)
        return self.code.put(
            kind, f"select {self.code.type('b')} {self.ref}, {t} {a.ref}, {t} {b.ref}"
        )

    def to(self, kind: str, operation: str) -> Value:
        source, target = self.code.type(self.kind), self.code.type(kind)
        return self.code.put(kind, f"{operation} {source} {self.ref} to {target}")

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


class Code:
    """Writes the body of one function on `lanes`-wide values. scales: these are groups of the 16 floats
    that an instruction of AVX-512 scales by powers of two."""

    def __init__(self, lanes: int, scales: bool = False) -> None:
        self.lanes, self.scales = lanes, scales
        self.lines: list[str] = []
        self.block = "entry"
        self._count = 0
        self.libm: dict[str, str] = {}  # functions from outside, by name, and their declarations

    def type(self, kind: str) -> str:
        scalar = _LLVM[kind]
        return scalar if self.lanes == 1 else f"<{self.lanes} x {scalar}>"

    def name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def put(self, kind: str, instruction: str) -> Value:
        name = self.name()
        self.lines.append(f"  {name} = {instruction}")
        return Value(self, kind, name)

    def value(self, value: Value | Number, kind: str) -> Value:
        """The value itself, or a number as a constant of a kind."""
        if isinstance(value, Value):
            return value
        if kind in "fd":
            exact = float(np.float32(value)) if kind == "f" else float(value)
            text = f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"
        else:
            text = str(int(value))
        return Value(self, kind, text if self.lanes == 1 else f"splat ({_LLVM[kind]} {text})")

    def intrinsic(self, name: str, *args: Value) -> Value:
        kind = args[0].kind
        width = "" if self.lanes == 1 else f"v{self.lanes}"
        given = ", ".join(f"{self.type(a.kind)} {a.ref}" for a in args)
        return self.put(kind, f"call {self.type(kind)} @llvm.{name}.{width}{SUFFIX[kind]}({given})")

    def scaled(self, x: Value, n: Value) -> Value:
        """x 2^n, rounded once; where `scales`."""
        part, name = "<16 x float>", "@llvm.x86.avx512.mask.scalef.ps.512"
        self.libm[name[1:]] = f"declare {part} {name}({part}, {part}, {part}, i16, i32)"
        parts: list[Value] = []
        for start in range(0, self.lanes, 16):
            a, b = (self.shuffled(self.lanes, v, v, range(start, start + 16)) for v in (x, n))
            given = f"{part} {a.ref}, {part} {b.ref}, {part} zeroinitializer, i16 -1, i32 4"
            parts.append(self.put("f", f"call {part} {name}({given})"))
        lanes = 16
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.shuffled(lanes, a, b, range(2 * lanes)) for a, b in pairs]
            lanes *= 2
        return parts[0]

    def shuffled(self, lanes: int, a: Value, b: Value, picks: range) -> Value:
        """A shuffle of two vectors of so many floats."""
        places = ", ".join(f"i32 {k}" for k in picks)
        kind, mask = f"<{lanes} x float>", f"<{len(picks)} x i32> <{places}>"
        return self.put("f", f"shufflevector {kind} {a.ref}, {kind} {b.ref}, {mask}")

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

    def any(self, condition: Value) -> str:
        """Whether any lane of an i1 vector is set, as an i1."""
        if self.lanes == 1:
            return condition.ref
        name = self.name()
        t = self.type("b")
        self.lines.append(
            f"  {name} = call i1 @llvm.vector.reduce.or.v{self.lanes}i1({t} {condition.ref})"
        )
        return name

    def per_lane(self, function: str, kind: str, *args: Value) -> Value:
        """A libm function applied to each lane."""
        scalar = _LLVM[kind]
        given = ", ".join([scalar] * len(args))
        self.libm[function] = f"declare {scalar} @{function}({given})"
        if self.lanes == 1:
            text = ", ".join(f"{scalar} {a.ref}" for a in args)
            return self.put(kind, f"call {scalar} @{function}({text})")
        result = Value(self, kind, "poison")
        for lane in range(self.lanes):
            parts = [
                self.put(kind, f"extractelement {self.type(kind)} {a.ref}, i32 {lane}")
                for a in args
            ]
            text = ", ".join(f"{scalar} {p.ref}" for p in parts)
            one = self.put(kind, f"call {scalar} @{function}({text})")
            result = self.put(
                kind,
                f"insertelement {self.type(kind)} {result.ref}, {scalar} {one.ref}, i32 {lane}",
            )
        return result

    def rarely(self, condition: Value, fast: Value, slow: Callable[[], Value]) -> Value:
        """`fast`, except for lanes where the condition holds: they come from `slow`, run only if
        any does."""
        tag = self._count
        test = self.any(condition)
        here = self.block
        self.lines += [f"  br i1 {test}, label %slow{tag}, label %join{tag}", f"slow{tag}:"]
        other = condition.choose(slow(), fast)
        self.lines += [f"  br label %join{tag}", f"join{tag}:"]
        self.block = f"join{tag}"
        t = self.type(fast.kind)
        return self.put(fast.kind, f"phi {t} [ {fast.ref}, %{here} ], [ {other.ref}, %slow{tag} ]")
