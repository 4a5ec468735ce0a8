"""Patterns for CUTLASS: convolutions, products, layer normalization, attention."""

from __future__ import annotations

from typing import Any

from ...backend.utils import has_leaking_intermediate_variables
from ...base.registry import registering
from ...ir.module import IRModule
from ...relax.byoc.patterns import get_patterns_with_prefix, register_patterns
from ...relax.dpl import rewrite_call
from ...relax.expr import Function
from ...relax.transform import FuseOpsByPattern, PatternCheckContext
from ..relax.well_known import (
    make_attention_pattern,
    make_attention_rewrite_pattern,
    make_conv2d_pattern,
    make_layer_norm_pattern,
    make_matmul_pattern,
    make_residual_block_pattern,
    make_stacked_attention_pattern,
)

_FLOATS = ("float16", "float32")
_RELU, _GELU, _SILU = "relax.nn.relu", "relax.nn.gelu", "relax.nn.silu"


def _check(context: PatternCheckContext) -> bool:
    return not has_leaking_intermediate_variables(context) or context.refuse(
        "a value inside is used elsewhere, too"
    )


def _check_floats(context: PatternCheckContext, *names: str) -> bool:
    dtypes = {str(context.annotated_expr[name].struct_info.dtype) for name in names}
    if len(dtypes) != 1 or not dtypes.issubset(_FLOATS):
        return context.refuse(f"the elements are {', '.join(sorted(dtypes))}, not of {_FLOATS}")
    return _check(context)


def _check_conv2d(context: PatternCheckContext) -> bool:
    call = context.annotated_expr["root"]
    if (call.attrs.data_layout, call.attrs.kernel_layout) != ("NHWC", "OHWI"):
        return context.refuse("only NHWC images and OHWI weights are taken")
    channels = call.args[0].struct_info.get_shape(), call.struct_info.get_shape()
    if all(
        s is not None and (getattr(s[-1], "value", None) == call.attrs.groups) for s in channels
    ):
        return context.refuse("it is depthwise")
    return _check_floats(context, "input", "weight")


def _check_matmul(context: PatternCheckContext) -> bool:
    return _check_floats(context, "lhs", "rhs")


def _check_layer_norm(context: PatternCheckContext) -> bool:
    call = context.matched_expr
    info = call.args[0].struct_info
    if [int(a) % max(info.ndim, 1) for a in call.attrs.axes] != [info.ndim - 1]:
        return context.refuse("only the last axis can be normalized")
    return str(info.dtype) in _FLOATS or context.refuse(f"the elements are {info.dtype}")


def _products() -> list[Any]:
    """Products and convolutions; each one with a bias also with a residual added or multiplied."""
    rows: list[Any] = []
    with_bias: list[Any] = []
    for name, make, check, activations in (
        ("conv2d", make_conv2d_pattern, _check_conv2d, (_RELU, _SILU)),
        ("matmul", make_matmul_pattern, _check_matmul, (_RELU, _GELU)),
        ("matmul_transposed", _transposed, _check_matmul, (_RELU, _GELU)),
    ):
        rows.append((f"cutlass.{name}", *make(), check))
        for act in (None, *activations):
            full = f"cutlass.{name}_bias{'_' + act.rpartition('.')[2] if act else ''}"
            with_bias.append((full, lambda make=make, act=act: make(True, act), check))
    rows += [(full, *make(), check) for full, make, check in with_bias]
    for last in (None, _RELU):
        for full, make, check in with_bias:
            for word in ("add", "multiply"):
                end = f"_residual_{word}{'_relu' if last else ''}"
                pattern = make_residual_block_pattern(make(), f"relax.{word}", last)
                rows.append((full + end, *pattern, check))
    return rows


def _transposed(with_bias: bool = False, activation: str | None = None) -> Any:
    return make_matmul_pattern(with_bias, activation, transposed_rhs=True)


# Later patterns have priority.
with registering(__name__):
    register_patterns(
        [
            *_products(),
            ("cutlass.attention", *make_attention_pattern(), _check),
            ("cutlass.attention_bias", *make_attention_pattern(with_bias=True), _check),
            *(
                ("cutlass.stacked_attention", *make_stacked_attention_pattern(start, bias), _check)
                for start in ("split", "strided_slice")
                for bias in (False, True)
            ),
            ("cutlass.layer_norm", *make_layer_norm_pattern(), _check_layer_norm),
        ]
    )


def partition_for_cutlass(
    mod: IRModule, annotate_codegen: bool = True, use_flash_mqa: bool = True
) -> IRModule:
    """Outline the parts that CUTLASS supports into functions, including attention expanded to
    primitives.

    annotate_codegen: give the functions the attribute `Codegen: cutlass`. use_flash_mqa: include
    attention whose keys and values are repeated for several queries.
    """
    forms = [(True, True, True)] if use_flash_mqa else []
    forms += [(bias, cast, False) for bias in (True, False) for cast in (True, False)]
    changed = {}
    for gvar, func in mod.functions.items():
        if isinstance(func, Function):
            for bias, cast, repeat in forms:
                func = rewrite_call(
                    *make_attention_rewrite_pattern("BSNH", "BSNH", bias, cast, repeat), func
                )
            changed[gvar] = func
    patterns = get_patterns_with_prefix("cutlass.")
    fuse = FuseOpsByPattern(patterns, bind_constants=False, annotate_codegen=annotate_codegen)
    return fuse(mod.with_functions(changed))
