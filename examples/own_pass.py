"""Passes of one's own: on the graph, on loops, and on what other passes do.

python examples/own_pass.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import loopwright as lw
from loopwright import relax, tir
from loopwright.backend import cpu
from loopwright.relax.expr_functor import PyExprMutator, mutator

DATA = Path(lw.__file__).parent / "driver/data"


@mutator
class WithoutSoftmax(PyExprMutator):
    """Each softmax becomes its argument."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        call = super().visit_call_(call)
        return call.args[0] if call.op.name == "relax.nn.softmax" else call


@lw.transform.module_pass(opt_level=0, name="DropSoftmax")
class DropSoftmax:
    """The greatest score is the greatest probability: a classifier needs no softmax."""

    def transform_module(self, mod: lw.IRModule, ctx: lw.transform.PassContext) -> lw.IRModule:
        work = WithoutSoftmax(mod)
        for gvar, func in mod.functions_items():
            if isinstance(func, relax.Function):
                work.builder_.update_func(gvar, work.visit_expr(func))
        return work.builder_.get()


@tir.transform.prim_func_pass(opt_level=0, name="CountStores")
class CountStores:
    """Changes nothing; writes down how many stores each kernel's text has."""

    def __init__(self) -> None:
        self.found: list[int] = []

    def transform_function(
        self, func: tir.PrimFunc, mod: lw.IRModule, ctx: lw.transform.PassContext
    ) -> tir.PrimFunc:
        stores: list[tir.BufferStore] = []

        def visit(node: object) -> None:
            if isinstance(node, tir.BufferStore):
                stores.append(node)

        tir.stmt_functor.post_order_visit(func.body, visit)
        self.found.append(len(stores))
        return func


@lw.instrument.pass_instrument
class Watch:
    """Writes down the names of the passes that run."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def run_before_pass(self, mod: lw.IRModule, info: lw.transform.PassInfo) -> None:
        self.names.append(info.name)


def main() -> None:
    model, digits = DATA / "digits.onnx", np.load(DATA / "digits.npz")

    pipeline = cpu.graph_pipeline().insert_before("LegalizeOps", DropSoftmax())
    count, watch = CountStores(), Watch()
    with lw.transform.PassContext(
        opt_level=3,
        config={"tir.add_lower_pass": [(3, count)]},  # phase 3: after the last pass on loops
        instruments=[watch],
    ):
        exe = lw.compile(model, relax_pipeline=pipeline)

    scores = exe.run({"image": digits["image"]})["probability"].numpy()
    print("passes around ours:", " ".join(_around(watch.names, "DropSoftmax")))
    print("stores in each kernel:", sorted(count.found))
    print("kernels:", ", ".join(sorted(exe.program.texts)))
    print("scores of the first picture:", scores[0].round(1))
    print("the digits are still read:", bool((scores.argmax(1) == digits["label"]).all()))


def _around(names: list[str], name: str) -> list[str]:
    place = names.index(name)
    return names[place - 1 : place + 2]


if __name__ == "__main__":
    main()
