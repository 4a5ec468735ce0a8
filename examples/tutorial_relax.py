"""A model from graph to loops: legalize, fuse, rewrite, and the compiled result against numpy.

    python examples/tutorial_relax.py

The first four steps print what the transformation tutorial (docs/seeds/2-...) prints.
"""

from __future__ import annotations

import numpy as np

import loopwright as lw
from loopwright import IRModule, relax
from loopwright.frontend import nn
from loopwright.relax.expr_functor import PyExprMutator, mutator


class MLP(nn.Module):
    """784 -> 128 -> 10, for any number of rows."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(784, 128)
        self.relu1 = nn.ReLU()
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = self.fc1(x)
        x = self.relu1(x)
        x = self.fc2(x)
        return x


@mutator
class ReluRewriter(PyExprMutator):
    """Each relu becomes a gelu."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        if call.op.name == "relax.nn.relu":
            return relax.op.nn.gelu(call.args[0])
        return super().visit_call_(call)


@lw.transform.module_pass(opt_level=0, name="ReluToGelu")
class ReluToGelu:
    """A pass of our own."""

    def transform_module(self, mod: IRModule, _ctx: lw.transform.PassContext) -> IRModule:
        rewriter = ReluRewriter(mod)
        for g_var, func in mod.functions_items():
            if isinstance(func, relax.Function):
                rewriter.builder_.update_func(g_var, rewriter.visit_expr(func))
        return rewriter.builder_.get()


def main() -> None:
    spec = {"forward": {"x": nn.spec.Tensor(("n", 784), "float32")}}
    graph, params = MLP().export_tvm(spec)
    print("# the graph")
    graph.show()

    loops = relax.transform.LegalizeOps()(graph)
    print("# each operator as loops")
    loops.show()

    fused = lw.transform.Sequential(
        [
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
        ]
    )(loops)
    print("# loops of one kernel together")
    fused.show()

    print("# the pass of our own")
    ReluToGelu()(graph).show()

    exe = lw.compile(graph)
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(p.shape, "float32") for _, p in params]
    for n in (1, 7, 64):
        x = rng.standard_normal((n, 784), "float32")
        hidden = np.maximum(x @ weights[0].T + weights[1], 0)
        expected = hidden @ weights[2].T + weights[3]
        got = exe["forward"](x, *weights).numpy()
        print(f"# compiled, n = {n}: max error {np.abs(got - expected).max():.2e}")


if __name__ == "__main__":
    main()
