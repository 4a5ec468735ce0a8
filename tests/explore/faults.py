"""Faults of every kind, put into a compilation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from loopwright import relax, te
from loopwright.backend.llvm import graph_pipeline
from loopwright.ir.functor import Rewriter
from loopwright.relax import register_legalize
from loopwright.relax.byoc import Backend
from loopwright.relax.dpl import is_op, wildcard
from loopwright.relax.expr_functor import PyExprMutator, mutator
from loopwright.relax.transform import ToMixedPrecision
from loopwright.relax.transform.legalize_ops.common import LEGALIZATIONS
from loopwright.runtime import Module
from loopwright.sched import register_schedule_rule
from loopwright.sched.apply import SCHEDULES
from loopwright.tir import Schedule
from loopwright.tir.transform import default_tir_pipeline, prim_func_pass
from loopwright.transform import module_pass

Keywords = dict[str, Any]


@mutator
class Halves(PyExprMutator):
    def visit_call_(self, call):
        call = super().visit_call_(call)
        if getattr(call.op, "name", "") != "relax.multiply":
            return call
        args = [relax.op.astype(arg, "float16") for arg in call.args]
        return relax.op.astype(relax.op.multiply(*args), "float32")


@module_pass(opt_level=0, name="ProductsInHalf")
def in_half(mod, ctx):
    graphs = {g: f for g, f in mod.functions.items() if isinstance(f, relax.Function)}
    return mod.with_functions({g: Halves(mod).visit_expr(f) for g, f in graphs.items()})


@contextmanager
def masked() -> Iterator[Keywords]:
    """An attention's mask, the least float32, is an infinity in half precision, and 0 of it a NaN."""
    yield {"relax_pipeline": graph_pipeline().insert_before("LegalizeOps", in_half)}


@mutator
class Subtracts(PyExprMutator):
    def visit_call_(self, call):
        call = super().visit_call_(call)
        if getattr(call.op, "name", "") == "relax.add":
            return relax.op.subtract(*call.args)
        return call


@module_pass(opt_level=0, name="AddsAreDifferences")
def differences(mod, ctx):
    graphs = {g: f for g, f in mod.functions.items() if isinstance(f, relax.Function)}
    return mod.with_functions({g: Subtracts(mod).visit_expr(f) for g, f in graphs.items()})


@contextmanager
def user_pass() -> Iterator[Keywords]:
    yield {"relax_pipeline": graph_pipeline().insert_before("LegalizeOps", differences)}


class _Sums(Rewriter):
    def visit_Mul(self, node):
        a, b = self.visit(node.a), self.visit(node.b)
        return a + b if node.dtype.is_float else a * b


@prim_func_pass(opt_level=0, name="ProductsAreSums")
def sums(func, mod, ctx):
    return func.with_body(_Sums().visit(func.body)) if "onnx:/conv1" in str(func.span) else func


@contextmanager
def loop_pass() -> Iterator[Keywords]:
    yield {"tir_pipeline": default_tir_pipeline().insert_before("tir.LoopPartition", sums)}


@contextmanager
def legalization() -> Iterator[Keywords]:
    """A softmax that is not normalized."""

    def exponential(x):
        return te.compute(x.shape, lambda *i: te.exp(x(*i)), "exponential")

    with LEGALIZATIONS.registry.snapshot():
        rule = lambda bb, call: bb.call_te(exponential, call.args[0])  # noqa: E731
        register_legalize("relax.nn.softmax", rule, target="llvm", priority=90)
        yield {}


@contextmanager
def schedule() -> Iterator[Keywords]:
    """A softmax divides by the sum before it is there."""

    def rule(func, target):
        sch = Schedule(func, enable_check=False)
        names = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
        if "T_softmax_norm" not in names:
            return None
        rows = sch.get_loops(sch.get_block("T_softmax_exp"))[0]
        sch.reverse_compute_at(sch.get_block("T_softmax_norm"), rows)
        return sch.mod["main"]

    with SCHEDULES.registry.snapshot():
        register_schedule_rule("early", "llvm", first=True)(rule)
        yield {}


def product(a, b, out):
    """The last element is wrong."""
    result = np.matmul(np.from_dlpack(a), np.from_dlpack(b))
    result.flat[-1] += 1e3
    np.copyto(np.from_dlpack(out), result)


@contextmanager
def external() -> Iterator[Keywords]:
    def codegen(functions, options, constant_names):
        return [Module({f.attrs["global_symbol"]: product for f in functions})]

    pattern = is_op("relax.matmul")(wildcard(), wildcard())
    yield {
        "backends": [
            Backend("faulty", [("faulty.matmul", pattern)], codegen=codegen, bind_constants=False)
        ]
    }


@contextmanager
def overflow() -> Iterator[Keywords]:
    passes = graph_pipeline().insert_after("FoldBatchnormToConv2D", ToMixedPrecision())
    yield {"relax_pipeline": passes}
