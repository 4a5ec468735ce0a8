"""Patterns for cuBLAS: matrix products with an optional bias and activation."""

from __future__ import annotations

from ...arith import Analyzer
from ...backend.utils import has_leaking_intermediate_variables
from ...base.registry import registering
from ...ir.module import IRModule
from ...ir.prim_op import const
from ...relax.byoc.patterns import get_patterns_with_prefix, register_patterns
from ...relax.expr import Expr
from ...relax.struct_info import TensorStructInfo
from ...relax.transform import FuseOpsByPattern, PatternCheckContext
from ..relax.well_known import make_matmul_multiply_pattern, make_matmul_pattern

_FLOATS = ("float16", "float32")
_EIGHT_BITS = ("int8", "float8_e4m3fn", "float8_e5m2")
_ACTIVATIONS = {"": None, "_relu": "relax.nn.relu", "_gelu": "relax.nn.gelu"}


def _check(context: PatternCheckContext) -> bool:
    if has_leaking_intermediate_variables(context):
        return context.refuse("a value inside is used elsewhere, too")
    named = context.annotated_expr
    lhs, rhs = named["lhs"].struct_info, named["rhs"].struct_info
    if lhs.dtype != rhs.dtype or lhs.dtype not in (*_FLOATS, *_EIGHT_BITS):
        return context.refuse(f"cuBLAS has no product of {lhs.dtype} and {rhs.dtype}")
    a, b = lhs.get_shape(), rhs.get_shape()
    if a is None or b is None:
        return context.refuse("a shape is not known")
    prover = Analyzer()
    if lhs.dtype in _EIGHT_BITS:
        step = 16 if lhs.dtype.startswith("float8") else 4
        for extent in (a[-1], b[-1]):
            if not prover.can_prove_equal(extent % step, 0):
                return context.refuse(f"for {lhs.dtype}, rows have a multiple of {step} elements")
    batches = [const(1, "int64"), const(1, "int64")]
    for k, shape in enumerate((a, b)):
        for extent in shape[:-2]:
            batches[k] = batches[k] * extent
    # One matrix shared by all batches, or one per batch; none is broadcast.
    if not any(prover.can_prove_equal(batches[1], n) for n in (const(1, "int64"), batches[0])):
        return context.refuse("its batches are stretched")
    bias = named.get("bias")
    return bias is None or _is_row(bias) or context.refuse("its bias is not a row")


def _is_row(bias: Expr) -> bool:
    info = bias.struct_info
    shape = info.get_shape() if isinstance(info, TensorStructInfo) else None
    one = Analyzer()
    return shape is not None and all(one.can_prove_equal(extent, 1) for extent in shape[:-1])


# Later patterns have priority.
with registering(__name__):
    register_patterns(
        [
            (f"cublas.matmul{rhs}{rest}", *make_matmul_pattern(bool(bias), act, bool(rhs)), _check)
            for rhs in ("", "_transposed")
            for bias, rest, act in (
                (False, "", None),
                *((True, f"_bias{name}", act) for name, act in _ACTIVATIONS.items()),
            )
        ]
        + [("cublas.matmul_transposed_multiply", *make_matmul_multiply_pattern(True), _check)]
    )


def partition_for_cublas(mod: IRModule, bind_constants: bool = False) -> IRModule:
    """Outline what cuBLAS supports into functions with the attribute `Codegen: cublas`."""
    patterns = get_patterns_with_prefix("cublas.")
    return FuseOpsByPattern(patterns, bind_constants=bind_constants, annotate_codegen=True)(mod)
