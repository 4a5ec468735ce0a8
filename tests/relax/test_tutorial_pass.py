"""The hand-written pass of the tutorial (seed 2), down to the printed text."""

from __future__ import annotations

import numpy as np

from loopwright import relax
from loopwright.ir.module import IRModule
from loopwright.ir.prim_expr import Var as TirVar
from loopwright.relax.expr_functor import PyExprMutator, mutator
from loopwright.relax.interpreter import Interpreter

from .support import var

op = relax.op


def mlp() -> IRModule:
    """The tutorial's module, built by hand."""
    n = TirVar("n", "int64")
    x, w1, b1 = var("x", n, 784), var("fc1_weight", 128, 784), var("fc1_bias", 128)
    w2, b2 = var("fc2_weight", 10, 128), var("fc2_bias", 10)
    bb = relax.BlockBuilder()
    with bb.function("forward", [x, w1, b1, w2, b2], attrs={"num_input": 1}):
        with bb.dataflow():
            weight = bb.emit(op.permute_dims(w1), "permute_dims")
            hidden = bb.emit(op.add(bb.emit(op.matmul(x, weight), "matmul"), b1), "add")
            hidden = bb.emit(op.nn.relu(hidden), "relu")
            weight = bb.emit(op.permute_dims(w2), "permute_dims")
            out = bb.emit(op.add(bb.emit(op.matmul(hidden, weight), "matmul"), b2), "add")
            out = bb.emit_output(out)
        bb.emit_func_output(out)
    return bb.get()


@mutator
class ReluRewriter(PyExprMutator):
    def __init__(self, mod):
        super().__init__(mod)

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        if call.op.name == "relax.nn.relu":
            return relax.op.nn.gelu(call.args[0])
        return super().visit_call_(call)


def relu_to_gelu(mod: IRModule) -> IRModule:
    rewriter = ReluRewriter(mod)
    for g_var, func in mod.functions_items():
        if isinstance(func, relax.Function):
            rewriter.builder_.update_func(g_var, rewriter.visit_expr(func))
    return rewriter.builder_.get()


def test_printed_as_in_the_tutorial(golden):
    before = mlp()
    golden("seed2/export.txt", before.script())
    golden("seed2/gelu.txt", relu_to_gelu(before).script())


def test_every_stage_computes_the_same():
    mod = mlp()
    rng = np.random.default_rng(0)
    shapes = [(3, 784), (128, 784), (128,), (10, 128), (10,)]
    x, w1, b1, w2, b2 = args = [rng.standard_normal(s).astype("float32") for s in shapes]
    expected = np.maximum(x @ w1.T + b1, 0) @ w2.T + b2
    passes = [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern()]
    passes += [relax.transform.FuseOps(), relax.transform.FuseTIR()]
    for step in [lambda m: m, *passes]:
        mod = step(mod)
        made = Interpreter(mod)["forward"](*args).numpy()
        np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-3)
