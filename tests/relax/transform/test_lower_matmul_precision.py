"""Products in bfloat16 on request: rounded factors, sums in float32, whatever the processor has."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import LowerMatmulPrecision
from loopwright.relax.transform.legalize_ops.common import LEGALIZATIONS

from ...programs import graph

LOWER = {"relax.matmul_precision": "bfloat16"}


def product(
    rng: np.random.Generator, rows: object, depth: int, columns: int
) -> tuple[lw.IRModule, np.ndarray]:
    """relu(x @ w + b) of constants w and b, and w."""
    w, b = (rng.standard_normal(s).astype("float32") for s in ((depth, columns), (columns,)))
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo([rows, depth], "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            total = bb.emit(op.add(bb.emit(op.matmul(x, relax.const(w))), relax.const(b)))
            made = bb.emit_output(op.nn.relu(total))
        bb.emit_func_output(made)
    return bb.get(), w


@pytest.mark.sample(4)
@pytest.mark.parametrize("rows", [1, 5, 40, "n"])
@pytest.mark.parametrize(("depth", "columns"), [(64, 48), (37, 50), (128, 33), (2, 7)])
def test_factors_are_rounded_and_sums_are_not(
    rng: np.random.Generator, rows: object, depth: int, columns: int
) -> None:
    dim = lw.tir.Var("n", "int64") if rows == "n" else rows
    mod, w = product(rng, dim, depth, columns)
    x = rng.standard_normal((19 if rows == "n" else rows, depth)).astype("float32")
    short = [v.astype(ml_dtypes.bfloat16).astype("float64") for v in (x, w)]
    plain = lw.compile(mod)(x).numpy()
    with lw.transform.PassContext(config=LOWER):
        got = lw.compile(mod)(x).numpy()
    exact = (got > 0) & (plain > 0)
    wanted = plain + (short[0] @ short[1] - x.astype("float64") @ w)
    np.testing.assert_allclose(got[exact], wanted[exact], atol=2e-4)
    assert not np.array_equal(got, plain)


def test_the_instruction_is_used_where_the_processor_has_it(rng: np.random.Generator) -> None:
    mod, _ = product(rng, 40, 64, 48)
    with lw.transform.PassContext(config=LOWER):
        for cpu, count in (("cooperlake", True), ("skylake-avx512", False)):
            target = f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}"
            text = lw.lower(mod, target)["tir.LowerMatchBuffer"].after.script()
            assert ("dpbf16ps" in text) == count


def test_what_stays(rng: np.random.Generator) -> None:
    mod, _ = product(rng, 4, 8, 8)
    assert LowerMatmulPrecision()(mod) is mod, "unless asked for"
    with pytest.raises(ValueError, match="relax.matmul_precision is float32 or bfloat16"):
        LowerMatmulPrecision("float8")(mod)
    x = relax.Var("x", relax.TensorStructInfo([3, 3], "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            made = bb.emit_output(op.matmul(x, x))
        bb.emit_func_output(made)
    assert "bfloat16" not in LowerMatmulPrecision("bfloat16")(bb.get()).script(), "no constant"


def test_without_a_target():
    w = np.arange(9, dtype="float32").reshape(3, 3) / 7
    mod = graph("a = R.matmul(x, w)", values={"w": relax.const(w)}, x=(2, 3))
    made = LowerMatmulPrecision("bfloat16")(mod)
    x = np.ones((2, 3), "float32")
    want = x @ w.astype(ml_dtypes.bfloat16).astype("float32")
    np.testing.assert_allclose(Interpreter(made)["main"](x).numpy(), want, rtol=1e-6)
    for info in ('R.Tensor((2, 3), "float16")', 'R.Tensor((2, 3), "float64")'):
        other = {"w": relax.const(w.astype(info[-9:-2].strip('"')))}
        mod = graph("a = R.matmul(x, w)", values=other, x=info)
        assert LowerMatmulPrecision("bfloat16")(mod) is mod
    batch = {"w": relax.const(np.ones((2, 3, 3), "float32"))}
    mod = graph("a = R.matmul(x, w)", values=batch, x=(2, 3))
    assert LowerMatmulPrecision("bfloat16")(mod) is mod
    with LEGALIZATIONS.registry.snapshot():
        lw.register_legalize("relax.matmul", lambda bb, call: None)
        mod = graph("a = R.matmul(x, w)", values={"w": relax.const(w)}, x=(2, 3))
        assert LowerMatmulPrecision("bfloat16")(mod) is mod, "a rule of the user's may take it"
