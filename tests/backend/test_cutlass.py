"""What is partitioned for CUTLASS: the same functions and composites as by TVM 0.26 (which fails at
attention there)."""

from __future__ import annotations

import pytest

from loopwright.relax import op
from loopwright.relax.backend.cuda.cutlass import partition_for_cutlass
from loopwright.relax.op import nn

from ..relax.transform.graphs import graph
from .test_cublas import composites, leaking, product, transposed

X, W, BIAS, Y = (2, 8, 8, 16), (32, 3, 3, 16), (1, 1, 1, 32), (2, 8, 8, 32)
A, B, ROW, C = (16, 32), (32, 64), (64,), (16, 64)
HEADS = (2, 8, 4, 16)


def conv(x, w, groups=1):
    return nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="OHWI", groups=groups)


def biased(act=lambda y: y, root=conv):
    return lambda emit, x, w, b: act(op.add(root(x, w), b))


def joined(join, act=lambda y: y, root=conv, last=lambda y: y):
    return lambda emit, x, w, b, y: last(join(act(op.add(root(x, w), b)), y))


CASES = [
    ((X, W), "float16", lambda emit, x, w: conv(x, w), "conv2d"),
    ((X, W), "float32", lambda emit, x, w: conv(x, w), "conv2d"),
    ((X, W), "float64", lambda emit, x, w: conv(x, w), ""),
    (((2, 16, 8, 8), (32, 16, 3, 3)), "float16", lambda emit, x, w: nn.conv2d(x, w), ""),  # NCHW
    ((X, (16, 3, 3, 1)), "float16", lambda emit, x, w: conv(x, w, 16), ""),  # depthwise
    ((X, (32, 3, 3, 4)), "float16", lambda emit, x, w: conv(x, w, 4), "conv2d"),
    ((X, W, BIAS), "float16", biased(), "conv2d_bias"),
    ((X, W, BIAS), "float16", biased(nn.relu), "conv2d_bias_relu"),
    ((X, W, BIAS), "float16", biased(nn.silu), "conv2d_bias_silu"),
    ((X, W, BIAS, Y), "float16", joined(op.add), "conv2d_bias_residual_add"),
    (
        (X, W, BIAS, Y),
        "float16",
        joined(op.add, nn.relu, last=nn.relu),
        "conv2d_bias_relu_residual_add_relu",
    ),
    (
        (X, W, BIAS, Y),
        "float16",
        joined(lambda a, b: op.multiply(b, a)),
        "conv2d_bias_residual_multiply",
    ),
    ((A, B), "float16", product, "matmul"),
    ((A, B, ROW), "float16", biased(nn.gelu, op.matmul), "matmul_bias_gelu"),
    (
        (A, B, ROW, C),
        "float16",
        joined(op.multiply, nn.gelu, op.matmul),
        "matmul_bias_gelu_residual_multiply",
    ),
    ((A, (64, 32)), "float16", transposed, "matmul_transposed"),
    ((A, (64, 32), ROW), "float16", transposed, "matmul_transposed_bias"),
    ((A, B, ROW), "float16", leaking, "matmul"),
    (
        ((2, 16, 32), (32,), (32,)),
        "float16",
        lambda emit, x, g, b: nn.layer_norm(x, g, b, axes=-1),
        "layer_norm",
    ),
    (
        ((2, 16, 32), (16, 32), (16, 32)),
        "float16",
        lambda emit, x, g, b: nn.layer_norm(x, g, b, axes=[-2, -1]),
        "",
    ),
    ((HEADS,) * 3, "float16", lambda emit, q, k, v: nn.attention(q, k, v), "attention"),
    (
        (HEADS, HEADS, HEADS, (2, 4, 8, 8)),
        "float16",
        lambda emit, q, k, v, b: nn.attention(q, k, v, b),
        "attention_bias",
    ),
]


@pytest.mark.parametrize(("shapes", "dtype", "build", "made"), CASES)
def test_operators(shapes, dtype, build, made):
    mod = partition_for_cutlass(graph(build, *shapes, dtype=dtype))
    assert composites(mod, "cutlass") == ([f"cutlass.{made}"] if made else [])


def test_without_codegen():
    mod = partition_for_cutlass(graph(product, A, B, dtype="float16"), annotate_codegen=False)
    assert mod["fused_relax_matmul"].attrs["Composite"] == "cutlass.matmul"
