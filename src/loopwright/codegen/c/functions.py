"""Helper functions for expressions, each emitted into a file that uses it.

C has no variables inside expressions: an operation that needs some becomes a function, whose
body is its lowering by `tir.transform.LowerScalarOps`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.dtype import DataType, numpy_dtype
from ...ir.prim_expr import Call, Cast, Let, PrimExpr, Var
from ..context import NARROW
from .function_text import I32, FunctionText, Program
from .types import bare, c_type, is_odd, real, tag, unsigned

# Operations that `LowerScalarOps` leaves and C has no operator for.
FUNCTIONS = frozenset(
    [
        *(f"{n}:{k}" for n in ("Div", "Mod", "FloorDiv", "FloorMod") for k in ("int", "uint")),
        *(f"{n}:{k}" for n in ("Min", "Max") for k in ("int", "uint", "float32", "float64")),
        *(f"{n}:float{bits}" for n in ("FloorMod", "sigmoid") for bits in (32, 64)),
        *("shift_left", "shift_right", "fabs:int", "pow:int", "pow:uint", "popcount", "clz"),
        *("q_multiply_shift", "q_multiply_shift_per_axis"),
        *("nextafter:float16", "nextafter:bfloat16", "Cast:float64:float16"),
        *(f"Cast:float{bits}:{to}" for bits in (32, 64) for to in ("int32", "int64", "uint64")),
        *(f"Cast:{small}:float32" for small in ("float16", "bfloat16", "float8")),
        *(f"Cast:float32:{small}" for small in ("float16", "bfloat16", "float8")),
    ]
)
NATIVE = FUNCTIONS | {"float32", "float64", "nextafter:float32", "nextafter:float64"}


def by_function(ctx: FunctionText, node: PrimExpr) -> str:
    """An operation as a call of its helper function."""
    operands = _operands(node)
    args = ", ".join(ctx.bare(v) for v in operands)
    if ctx.mode == NARROW:
        node = type(node)._make(*(Var("x", I32) for _ in operands))
    types = [v.dtype for v in _operands(node)]
    if isinstance(node, Cast):
        name = f"lw_{tag(types[0])}_to_{tag(node.dtype)}"
    else:
        called = (
            node.op.name.removeprefix("tir.") if isinstance(node, Call) else type(node).__name__
        )
        name = f"lw_{called.lower()}_{tag(types[0])}"
        name += f"_{tag(node.dtype)}" if called in ("popcount", "clz") else ""
    if name not in ctx.module.helpers:
        ctx.module.helpers[name] = _text(ctx, name, node)
    return f"{name}({args})"


def _operands(node: PrimExpr) -> Sequence[PrimExpr]:
    if isinstance(node, Call):
        return node.args
    return [node.value] if isinstance(node, Cast) else [node.a, node.b]


def _text(ctx: FunctionText, name: str, node: PrimExpr) -> str:
    """The definition of a helper function."""
    if isinstance(node, Cast) and node.value.dtype.bits <= 8:
        return _widening(name, node.value.dtype)
    if isinstance(node, Call) and node.op.name == "tir.pow":
        return _power(ctx.module, name, node.dtype)
    params, value = ctx.scalars.meaning(node)
    inside = type(ctx)(ctx.module, name, ctx.func)
    inside.meaning_of = node
    declared = []
    for p in params:
        inside.env[p] = inside.name(p.name)
        declared.append(f"{c_type(p.dtype)} {inside.env[p]}")
    lines = []
    while isinstance(value, Let):
        text = inside.bare(value.value)
        inside.env[value.var] = inside.name(value.var.name)
        lines.append(f"const {c_type(value.var.dtype)} {inside.env[value.var]} = {text};")
        value = value.body
    lines.append(f"return {inside.bare(value)};")
    return definition(c_type(node.dtype), name, ", ".join(declared), *lines)


def _power(module: Program, name: str, dtype: DataType) -> str:
    """x ** n on integers, wrapping around; for a negative n rounded toward zero, 0 of 0."""
    kind, wide = c_type(dtype), unsigned(dtype)
    lines = [f"{wide} r = 1, b = ({wide})x, e = ({wide})n;"]
    if not dtype.is_uint:
        lines += ["if (n < 0) {", f"  e = ({wide})-e;", "  if (x != 1 && x != -1) b = 0;", "}"]
    lines += [f"for (; e; e = ({wide})(e >> 1)) {{", "  if (e & 1) r *= b;", "  b *= b;", "}"]
    lines.append(f"return {wrapped(module, 'r', dtype)};")
    return definition(kind, name, f"{kind} x, {kind} n", *lines)


def _widening(name: str, old: DataType) -> str:
    """A float of at most 8 bits converted to `float` through a table."""
    codes = np.arange(1 << 8, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        values = codes.view(numpy_dtype(old.element)).astype(np.float32)
    items = ", ".join(map(real, values))
    table = f"static const float {name}_table[256] = {{{items}}};"
    return f"{table}\n\n{definition('float', name, 'uint8_t x', f'return {name}_table[x];')}"


def wrapped(module: Program, text: str, dtype: DataType) -> str:
    """A value of a wider integer type truncated to `dtype`."""
    if dtype.is_bool:
        return text
    if not is_odd(dtype):
        return f"({c_type(dtype)}){text}"
    ctype, mask = c_type(dtype), (1 << dtype.bits) - 1
    if not dtype.is_int:
        return f"({ctype})({text} & {mask}u)"
    name, sign = f"lw_cut_{tag(dtype)}", 1 << (dtype.bits - 1)
    body = f"return ({ctype})((int64_t)((x & {mask}u) ^ {sign}u) - {sign});"
    module.helpers.setdefault(name, definition(ctype, name, "uint64_t x", body))
    return f"{name}((uint64_t){text})"


def same_bits(module: Program, text: str, old: str, new: str) -> str:
    """The bits of a value reinterpreted as another C type of the same size."""
    short_old, short_new = (t.removesuffix("_t").replace("*", "p") for t in (old, new))
    name = f"lw_bits_{short_old}_{short_new}"
    lines = [f"{new} y;", "memcpy(&y, &x, sizeof y);", "return y;"]
    module.helpers.setdefault(name, definition(new, name, f"{old} x", *lines))
    return f"{name}({bare(text)})"


def multiply_add(module: Program, dtype: str) -> str:
    """The name of the helper that rounds a * b + c once where that is one instruction."""
    kind, tail = ("float", "f") if dtype == "float32" else ("double", "")
    name, fast = f"lw_fma_{kind}", f"FP_FAST_FMA{tail.upper()}"
    lines = [f"return fma{tail}(a, b, c);", "#else", "return a * b + c;", "#endif"]
    text = definition(kind, name, f"{kind} a, {kind} b, {kind} c", f"#ifdef {fast}", *lines)
    module.helpers.setdefault(name, text.replace("  #", "#"))
    return name


def rint(module: Program) -> str:
    """The name of the helper that rounds a float, ties to even: without a library where no instruction does it."""
    lines = ["#if defined(__SSE4_1__) || defined(__aarch64__) || (FLT_EVAL_METHOD != 0)"]
    lines += [
        "return rintf(x);",
        "#else",
        "const float most = 8388608.0f; /* from there all are whole */",
    ]
    # No branch around the sum, which gcc would not make vectors of.
    lines += ["const float up = copysignf(fabsf(x) < most ? most : 0.0f, x);"]
    lines += ["return copysignf((x + up) - up, x);", "#endif"]
    text = definition("float", "lw_rint_float", "float x", *lines).replace("  #", "#")
    module.helpers.setdefault("lw_rint_float", f"#include <float.h>\n\n{text}")
    return "lw_rint_float"


def definition(result: str, name: str, params: str, *lines: str) -> str:
    """The text of a small function."""
    body = "\n".join(f"  {line}" for line in lines)
    return f"static inline {result} {name}({params}) {{\n{body}\n}}"
