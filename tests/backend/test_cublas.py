"""What is partitioned for cuBLAS: the same functions and composites as by TVM 0.26."""

from __future__ import annotations

import pytest

from loopwright import relax
from loopwright.relax import op
from loopwright.relax.backend import get_patterns_with_prefix
from loopwright.relax.backend.cuda.cublas import partition_for_cublas
from loopwright.relax.transform import BindParams

from ..relax.transform.graphs import graph

A, W, WT, BIAS = (16, 32), (32, 16), (16, 32), (16,)


def dense(activation=lambda y: y):
    return lambda emit, x, w, c: activation(op.add(op.matmul(x, w), c))


def leaking(emit, x, w, c):
    product = emit(op.matmul(x, w))
    return op.add(op.add(product, c), op.exp(product))


def transposed(emit, x, w, *c):
    product = op.matmul(x, op.permute_dims(w))
    return op.add(product, c[0]) if c else product


def product(emit, x, w):
    return op.matmul(x, w)


def wide(emit, x, w):
    return op.matmul(x, w, out_dtype="int32")


CASES = [
    # shapes, dtype, graph, what is made of it
    ((A, W), "float16", product, "matmul"),
    ((A, W), "float32", product, "matmul"),
    ((A, W), "float64", product, ""),
    ((A, W, BIAS), "float16", dense(), "matmul_bias"),
    ((A, W, (1, 16)), "float16", dense(), "matmul_bias"),
    ((A, W, (16, 16)), "float16", dense(), "matmul"),  # a bias is one row
    ((A, W, BIAS), "float16", dense(op.nn.relu), "matmul_bias_relu"),
    ((A, W, BIAS), "float16", dense(op.nn.gelu), "matmul_bias_gelu"),
    ((A, WT), "float16", transposed, "matmul_transposed"),
    ((A, WT, BIAS), "float16", transposed, "matmul_transposed_bias"),
    (((3, 16, 32), (3, 32, 16)), "float16", product, "matmul"),
    (((3, 16, 32), W), "float16", product, "matmul"),
    (((1, 16, 32), (3, 32, 16)), "float16", product, ""),  # stretched
    (((2, 3, 16, 32), (3, 32, 16)), "float16", product, ""),
    (((32,), W), "float16", product, "matmul"),
    ((A, W), "int8", wide, "matmul"),
    (((16, 30), (30, 16)), "int8", wide, ""),  # rows of four
    ((A, W, BIAS), "float16", leaking, "matmul"),
]


def composites(mod, backend):
    """What the regions of a partitioned module are, by name."""
    regions = [f for f in mod.functions.values() if f.attrs.get("Codegen") == backend]
    return [str(f.body.blocks[0].bindings[0].value.attrs["Composite"]) for f in regions]


@pytest.mark.parametrize(("shapes", "dtype", "build", "made"), CASES)
def test_products(shapes, dtype, build, made):
    mod = partition_for_cublas(graph(build, *shapes, dtype=dtype))
    assert composites(mod, "cublas") == ([f"cublas.{made}"] if made else [])


def test_constants():
    mod = graph(product, A, W, dtype="float32")
    weights = {"x1": relax.const([[1.0] * 16] * 32, "float32").data}
    bound = BindParams("main", weights)(mod)
    for inside, count in ((True, 1), (False, 2)):
        made = partition_for_cublas(bound, bind_constants=inside)
        assert len(made["fused_relax_matmul_cublas"].params) == count


def test_the_patterns_names():
    names = [p.name for p in get_patterns_with_prefix("cublas")]
    assert names == [
        "cublas.matmul_transposed_multiply",
        "cublas.matmul_transposed_bias_gelu",
        "cublas.matmul_transposed_bias_relu",
        "cublas.matmul_transposed_bias",
        "cublas.matmul_transposed",
        "cublas.matmul_bias_gelu",
        "cublas.matmul_bias_relu",
        "cublas.matmul_bias",
        "cublas.matmul",
    ]
