"""Elementary functions as C: unlike calls of math.h, compilers make vectors of loops with them, and
their results are those of LLVM's code up to fused multiply-add."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..elementary import FLOAT32
from ..value_code import Code, Number, Value
from .function_text import Program
from .functions import definition, multiply_add, same_bits
from .types import real

# Others compute in double precision, or call math.h for some arguments.
NAMES = FLOAT32.keys() - {"sin", "cos", "tan", "pow", "rsqrt"}
_TYPES = {"f": "float", "i": "int32_t", "b": "int"}
_OPERATORS = {
    "fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/", "add": "+", "sub": "-", "mul": "*",
    "and": "&", "or": "|", "xor": "^", "shl": "<<", "ashr": ">>",
}  # fmt: skip
_WRAPS = ("add", "sub", "mul", "shl")  # signed, they must not overflow in C
_COMPARISONS = {
    "olt": "<", "ole": "<=", "ogt": ">", "oeq": "==", "slt": "<", "sgt": ">", "eq": "==", "ult": ">=", "uno": "==",
}  # fmt: skip
_NEGATED = ("ult", "uno")


def elementary(module: Program, name: str) -> str:
    """The C function for one of `NAMES`, defined in the module."""
    called = f"lw_{name}"
    if called not in module.helpers:
        code = _ScalarCode(module)
        result = FLOAT32[name](code, Value(code, "f", "x"))
        lines = [*code.lines, f"return {result.ref};"]
        module.helpers[called] = definition("float", called, "float x", *lines)
    return called


class _ScalarCode(Code):
    """Writes a constant for each operation."""

    def __init__(self, module: Program) -> None:
        self.module = module
        self.lines: list[str] = []

    def put(self, kind: str, text: str) -> Value:
        name = f"v{len(self.lines)}"
        self.lines.append(f"const {_TYPES[kind]} {name} = {text};")
        return Value(self, kind, name)

    def value(self, value: Value | Number, kind: str) -> Value:
        if isinstance(value, Value):
            return value
        return Value(self, kind, real(np.float32(value)) if kind == "f" else str(int(value)))

    def binary(self, operation: str, a: Value, b: Value) -> Value:
        sign = _OPERATORS[operation]
        if operation in _WRAPS:
            return self.put(a.kind, f"(int32_t)((uint32_t){a.ref} {sign} (uint32_t){b.ref})")
        return self.put(a.kind, f"{a.ref} {sign} {b.ref}")

    def negative(self, a: Value) -> Value:
        return self.put(a.kind, f"-{a.ref}")

    def comparison(self, predicate: str, a: Value, b: Value) -> Value:
        b = a if predicate == "uno" else b
        text = f"{a.ref} {_COMPARISONS[predicate]} {b.ref}"
        return self.put("b", f"!({text})" if predicate in _NEGATED else text)

    def selection(self, condition: Value, yes: Value, no: Value) -> Value:
        return self.put(yes.kind, f"{condition.ref} ? {yes.ref} : {no.ref}")

    def conversion(self, operation: str, a: Value, kind: str) -> Value:
        old, new = _TYPES[a.kind], _TYPES[kind]
        if operation == "bitcast":
            return self.put(kind, same_bits(self.module, a.ref, old, new))
        return self.put(kind, f"({new}){a.ref}")

    def intrinsic(self, name: str, *args: Value) -> Value:
        if name == "fmuladd":
            return self.per_lane(multiply_add(self.module, "float32"), "f", *args)
        return self.per_lane(f"{name}f", "f", *args)

    def per_lane(self, function: str, kind: str, *args: Value) -> Value:
        return self.put(kind, f"{function}({', '.join(v.ref for v in args)})")

    def rarely(self, condition: Value, fast: Value, slow: Callable[[], Value]) -> Value:
        return self.selection(condition, slow(), fast)
