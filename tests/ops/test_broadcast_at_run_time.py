"""Extents that only the run can compare: they broadcast, or are refused, in every target."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, tir
from loopwright.ir.structural import assert_structural_equal
from loopwright.ops.core import OPERATORS
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.struct_info import TensorStructInfo
from loopwright.relax.transform import LegalizeOps
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T


@I.ir_module
class Sum:
    @R.function
    def main(x: R.Tensor(("a", "b"), "float32"), y: R.Tensor(("m", 3), "float32")):
        return R.add(x, y)


@I.ir_module
class Product:
    @R.function
    def main(x: R.Tensor(("a", "b"), "float32"), y: R.Tensor(("m", 3), "float32")):
        return R.matmul(x, y)


@I.ir_module
class Choice:
    @R.function
    def main(x: R.Tensor(("a", "b"), "float32"), y: R.Tensor(("m", 3), "float32")):
        positive = R.greater(y, R.const(0, "float32"))
        return R.where(positive, x, y)


@I.ir_module
class Spread:
    @R.function
    def main(x: R.Tensor(("a", "b"), "float32"), y: R.Tensor(("m", 3), "float32")):
        m = T.int64()
        return R.add(R.broadcast_to(x, (m, 3)), y)


MEANINGS = {
    "Sum": (Sum, np.add),
    "Product": (Product, np.matmul),
    "Choice": (Choice, lambda x, y: np.where(y > 0, x, y)),
    "Spread": (Spread, lambda x, y: np.broadcast_to(x, y.shape) + y),
}
SIZES = [
    (2, 3, 2),
    (2, 3, 1),
    (1, 3, 4),
    (1, 1, 3),
    (2, 1, 1),
    (0, 3, 1),
    (1, 3, 0),
    (2, 3, 5),
    (4, 2, 4),
]


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("name", list(MEANINGS))
def test_extents_that_only_the_run_compares(name, target, tmp_path):
    mod, meaning = MEANINGS[name]
    exe = lw.compile(mod, target=target)
    run = (exe.build(tmp_path) if target == "c" else exe)["main"]
    rng, right = np.random.default_rng(0), 0
    for a, b, m in SIZES:
        x, y = rng.uniform(-1, 1, (a, b)), rng.uniform(-1, 1, (m, 3))
        x, y = x.astype("float32"), y.astype("float32")
        try:
            expected = meaning(x, y)
        except ValueError:
            with pytest.raises((ValueError, RuntimeError), match="another extent than expected"):
                run(x, y)
            continue
        np.testing.assert_allclose(np.from_dlpack(run(x, y)), expected, rtol=1e-5)
        right += 1
    assert 1 <= right < len(SIZES)


BINARY = [
    name
    for name, operator in OPERATORS.items()
    if operator.body.__module__.endswith(".family") and len(operator.graph_params) == 2
]


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", BINARY)
def test_operators_of_two_tensors(name, rng):
    """On the inner and on the outer axis, compiled and by their loops, as numpy does it."""
    operator = OPERATORS[name]
    dtype = operator.cases[0].dtype
    a, b, m, n = (tir.Var(name, "int64") for name in "abmn")
    x = relax.Var("x", TensorStructInfo([a, b], dtype))
    y = relax.Var("y", TensorStructInfo([m, n], dtype))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, y]):
        bb.emit_func_output(bb.emit(operator.builder(x, y)))
    mod = bb.get()
    runs = [lw.compile(mod)["main"], Interpreter(LegalizeOps()(mod))["main"]]
    meaning = operator.op.get_attr("FNumpy")
    for shape, other in (
        ((3, 20), (3, 20)),
        ((3, 20), (1, 20)),
        ((3, 1), (3, 20)),
        ((1, 1), (3, 20)),
        ((0, 20), (1, 1)),
    ):
        given = [rng.integers(1, 5, s).astype(dtype) for s in (shape, other)]
        for inputs in (given, given[::-1]):
            for run in runs:
                expected = meaning(*inputs)
                got = run(*inputs).numpy()
                assert got.shape == expected.shape
                np.testing.assert_allclose(got, expected, rtol=1e-5)
    for run in runs:
        with pytest.raises(ValueError, match=r"another extent than expected|dimension \d must be"):
            run(np.ones((3, 2), dtype), np.ones((4, 2), dtype))


@I.ir_module
class Chain:
    @R.function
    def main(x: R.Tensor(("a", 3), "float32"), y: R.Tensor(("b", 3), "float32")):
        with R.dataflow():
            first = R.add(x, y)
            second = R.multiply(first, x)
            third = R.subtract(R.add(y, x), second)
            last = R.divide(third, R.add(first, R.multiply(y, third)))
            R.output(last)
        return last


def test_a_chain_has_the_extent_of_its_first_sum():
    """Neither more operators nor another order of the operands add a case."""
    func = LegalizeOps()(Chain)["main"]
    a, b = (p.struct_info.shape[0] for p in func.params)
    assert_structural_equal(func.ret_struct_info.shape[0], T.Select(a == 1, b, a))


@I.ir_module
class Collapsed:
    @R.function
    def main(x: R.Tensor(("n", 4, "k"), "float32"), y: R.Tensor(("m", 4, "j"), "float32")):
        n, k = T.int64(), T.int64()
        return R.collapse_sum_to(y, (n, 1, k))


@pytest.mark.parametrize(
    "sizes", [(3, 3, 2, 2), (1, 3, 2, 2), (3, 3, 1, 5), (1, 4, 1, 3), (1, 0, 2, 2)]
)
def test_sums_over_what_was_broadcast(sizes, rng):
    """The gradient of an operand is summed over the axes on which the run found it to be 1."""
    n, m, k, j = sizes
    y = rng.uniform(-1, 1, (m, 4, j)).astype("float32")
    axes = tuple(a for a, d in enumerate((n, 1, k)) if d == 1)
    got = lw.compile(Collapsed)["main"](np.zeros((n, 4, k), "float32"), y)
    np.testing.assert_allclose(got.numpy(), y.sum(axes, keepdims=True), rtol=1e-5, atol=1e-6)
