"""Functions over vectors as LLVM text."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from ..value_code import Code, Number, Value

_LLVM = {"f": "float", "d": "double", "i": "i32", "l": "i64", "b": "i1"}
SUFFIX = {"f": "f32", "d": "f64", "i": "i32", "l": "i64"}


class VectorCode(Code):
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
        if isinstance(value, Value):
            return value
        if kind in "fd":
            exact = float(np.float32(value)) if kind == "f" else float(value)
            text = f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"
        else:
            text = str(int(value))
        return Value(self, kind, text if self.lanes == 1 else f"splat ({_LLVM[kind]} {text})")

    def binary(self, operation: str, a: Value, b: Value) -> Value:
        return self.put(a.kind, f"{operation} {self.type(a.kind)} {a.ref}, {b.ref}")

    def negative(self, a: Value) -> Value:
        return self.put(a.kind, f"fneg {self.type(a.kind)} {a.ref}")

    def comparison(self, predicate: str, a: Value, b: Value) -> Value:
        word = "fcmp" if a.kind in "fd" else "icmp"
        return self.put("b", f"{word} {predicate} {self.type(a.kind)} {a.ref}, {b.ref}")

    def selection(self, condition: Value, yes: Value, no: Value) -> Value:
        t = self.type(yes.kind)
        chosen = f"{self.type('b')} {condition.ref}, {t} {yes.ref}, {t} {no.ref}"
        return self.put(yes.kind, f"select {chosen}")

    def conversion(self, operation: str, a: Value, kind: str) -> Value:
        return self.put(kind, f"{operation} {self.type(a.kind)} {a.ref} to {self.type(kind)}")

    def intrinsic(self, name: str, *args: Value) -> Value:
        kind = args[0].kind
        width = "" if self.lanes == 1 else f"v{self.lanes}"
        operands = ", ".join(f"{self.type(a.kind)} {a.ref}" for a in args)
        return self.put(
            kind, f"call {self.type(kind)} @llvm.{name}.{width}{SUFFIX[kind]}({operands})"
        )

    def scaled(self, x: Value, n: Value) -> Value:
        part, name = "<16 x float>", "@llvm.x86.avx512.mask.scalef.ps.512"
        self.libm[name[1:]] = f"declare {part} {name}({part}, {part}, {part}, i16, i32)"
        parts: list[Value] = []
        for start in range(0, self.lanes, 16):
            a, b = (self.shuffled(self.lanes, v, v, range(start, start + 16)) for v in (x, n))
            operands = f"{part} {a.ref}, {part} {b.ref}, {part} zeroinitializer, i16 -1, i32 4"
            parts.append(self.put("f", f"call {part} {name}({operands})"))
        lanes = 16
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.shuffled(lanes, a, b, range(2 * lanes)) for a, b in pairs]
            lanes *= 2
        return parts[0]

    def shuffled(self, lanes: int, a: Value, b: Value, picks: range) -> Value:
        """A shuffle of two vectors of floats."""
        indices = ", ".join(f"i32 {k}" for k in picks)
        kind, mask = f"<{lanes} x float>", f"<{len(picks)} x i32> <{indices}>"
        return self.put("f", f"shufflevector {kind} {a.ref}, {kind} {b.ref}, {mask}")

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
        scalar = _LLVM[kind]
        types = ", ".join([scalar] * len(args))
        self.libm[function] = f"declare {scalar} @{function}({types})"
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
        tag = self._count
        test = self.any(condition)
        here = self.block
        self.lines += [f"  br i1 {test}, label %slow{tag}, label %join{tag}", f"slow{tag}:"]
        other = condition.choose(slow(), fast)
        self.lines += [f"  br label %join{tag}", f"join{tag}:"]
        self.block = f"join{tag}"
        t = self.type(fast.kind)
        return self.put(fast.kind, f"phi {t} [ {fast.ref}, %{here} ], [ {other.ref}, %slow{tag} ]")
