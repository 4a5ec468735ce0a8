"""The rule for products by packed weights: which instruction it takes, in tiles of any rows."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, tir
from loopwright.ir.dtype import DataType
from loopwright.ir.target import Target
from loopwright.llm.block import _product
from loopwright.ops import OPERATORS, packed
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import AnnotateTIROpPattern, FuseOps, FuseTIR, LegalizeOps
from loopwright.sched.apply import ApplyDefaultSchedule

from ..ops.matrix import make
from .test_dots import ARM, X86

DOTS = {
    X86 + "haswell": ("pmadd.ub.sw", "pmadd.wd"),
    X86 + "skylake-avx512": ("pmaddubs.w.512", "pmaddw.d.512"),
    X86 + "cascadelake": ("vpdpbusd.512", "vpdpbusd.512"),
    ARM + "neoverse-v1": ("neon.sdot", "neon.usdot"),
    ARM + "cortex-a76": ("neon.sdot", None),
    ARM + "cortex-a72": ("smull", None),
    X86 + "nehalem": (None, None),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("cpu", DOTS)
@pytest.mark.parametrize(("rows", "bits"), [(1, (4,)), (5, (8,)), (3, (4, 2))])
def test_products_of_bytes(rows, bits, cpu):
    """By the cheapest instruction of each processor, interpreted."""
    zero, groups = 1 << sum(bits) - 1, 1 if len(bits) > 1 else 0
    given = packed._sample(rows, 64, 64, bits, 32, zero, groups=groups, data=True)
    sample = make(OPERATORS["relax.nn.matmul_packed"], given)
    with Target(cpu):
        scheduled = ApplyDefaultSchedule()(LegalizeOps()(sample.module))
    text, instruction = scheduled.script(), DOTS[cpu][bits == (8,)]
    assert (instruction or "call_llvm_pure_intrin") in text or instruction is None
    assert ("call_llvm_pure_intrin" in text) == (instruction is not None)
    assert "products_init" in text  # the rule's tile, not separate nests
    got, expected = Interpreter(scheduled)["main"](*sample.inputs).numpy(), sample.expected()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("cpu", "fetched"), [("cascadelake", True), ("haswell", False)])
def test_panels_are_fetched_ahead(cpu, fetched):
    """Where a tile is as wide as a panel, and several rows need it more than once."""
    n = tir.Var("n", "int64")
    forms = [((n, 64), "int8"), ((n, 2), "float32"), ((n, 2), "int32")]
    forms += [((2, 8, 64, 4), "uint8"), ((2, 2, 64), "float16")]
    infos = enumerate(relax.TensorStructInfo(*form) for form in forms)
    params = [relax.Var(f"x{k}", info) for k, info in infos]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            *data, plane, scale = params
            weight = relax.Tuple([plane]), relax.Tuple([scale]), relax.Tuple([])
            out = relax.op.nn.matmul_packed(relax.Tuple(data), *weight, bits=(4,), block=32, zero=8)
            out = builder.emit_output(out)
        builder.emit_func_output(out)
    with Target(X86 + cpu):
        text = ApplyDefaultSchedule()(LegalizeOps()(builder.finalize())).script()
    assert ("T.prefetch" in text) == fetched
    assert ("if n > T.int64(1) and n != T.int64(4)" in text) == fetched


@pytest.mark.parametrize("rows", [1, 6])
def test_products_of_floats(rows):
    sample = make(OPERATORS["relax.nn.matmul_packed"], packed._sample(rows, 64, 70, (4,), 32, 8))
    with Target(X86 + "haswell"):
        scheduled = ApplyDefaultSchedule()(LegalizeOps()(sample.module))
    assert "products_init" in scheduled.script()
    got, expected = Interpreter(scheduled)["main"](*sample.inputs).numpy(), sample.expected()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("cpu", ["cascadelake", "haswell"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_plain_weights_in_panels(cpu, dtype):
    """In the rule's tile, whose rows share vectors of weights; the last few rows one by one."""
    n, builder = tir.Var("n", "int64"), relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((n, 12), "float32"))
    weight = relax.Var("weight", relax.TensorStructInfo((2, 12, 64), dtype))
    with builder.function("main", [x, weight]):
        out = builder.emit_te(partial(_product, 1), x, weight, primfunc_name_hint="product")
        builder.emit_func_output(builder.emit(relax.op.nn.relu(out)))
    with Target(X86 + cpu):
        module = FuseTIR()(FuseOps()(AnnotateTIROpPattern()(LegalizeOps()(builder.finalize()))))
        scheduled = ApplyDefaultSchedule()(module)
    text = scheduled.script()
    assert "product_init" in text and "if n - " in text
    rng = np.random.default_rng(0)
    weights = rng.uniform(-1, 1, (2, 12, 64)).astype(DataType(dtype).numpy())
    for rows in (1, 3, 6):
        given = rng.uniform(-1, 1, (rows, 12)).astype(np.float32)
        got = Interpreter(scheduled)["main"](given, weights).numpy()
        expected = np.einsum("nk,pkc->npc", given, weights.astype(np.float32)).clip(0)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("data", [True, False])
def test_rows_choose_among_matrices(data):
    """Each has numbers of its own, in the rule's tile."""
    options = {"data": data, "chosen": [[2, 0], [1, 2]], "matrices": 3}
    given = packed._sample(2, 64, 192, (4,), 32, 8, **options)
    sample = make(OPERATORS["relax.nn.matmul_packed"], given)
    with Target(X86 + "cascadelake"):
        scheduled = ApplyDefaultSchedule()(LegalizeOps()(sample.module))
    text = scheduled.script()
    assert "products_init" in text and ("vpdpbusd" in text) == data
    got, expected = Interpreter(scheduled)["main"](*sample.inputs).numpy(), sample.expected()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_few_rows_of_a_batch():
    """The rows of a product may be the batch: then a loop over one row is around the tile."""
    weight, n = relax.const(np.ones((64, 96), np.float32)), tir.Var("n", "int64")
    x = relax.Var("x", relax.TensorStructInfo((n, 1, 64), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            product = bb.emit(relax.op.matmul(x, weight))
            out = bb.emit_output(relax.op.nn.leakyrelu(product, 0.1))
        bb.emit_func_output(out)
    run = lw.compile(bb.finalize())["main"]
    for rows in (1, 2, 3, 9):
        given = np.full((rows, 1, 64), -1, np.float32)
        np.testing.assert_allclose(run(given).numpy(), np.full((rows, 1, 96), -6.4), rtol=1e-6)
