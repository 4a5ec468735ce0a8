"""A user's script over the public API. `pyright` in strict mode has no complaint about it."""

from __future__ import annotations

from typing import Annotated

import numpy as np

import loopwright as lw
from loopwright import relax, te, tir
from loopwright.frontend import nn
from loopwright.ops import Tensor, op
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T

# ---------------------------------------------------------------- a custom operator


@op("typing_example.swish")
def swish(x: Tensor, beta: float = 1.0) -> te.Tensor:
    """x * sigmoid(beta x)."""

    def element(*i: tir.PrimExpr) -> tir.PrimExpr:
        return x(*i) * tir.sigmoid(tir.const(beta, x.dtype) * x(*i))

    return te.compute(x.shape, element, "swish")


@swish.numpy
def swish_numpy(x: np.ndarray[tuple[int, ...], np.dtype[np.float32]], beta: float) -> object:
    return x / (1 + np.exp(-beta * x))


@lw.register_legalize("typing_example.swish", target="llvm")
def twice_is_relu(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
    """A custom legalization: a large beta is a relu."""
    return relax.op.nn.relu(call.args[0]) if call.attrs["beta"] > 100 else None


# ---------------------------------------------------------------- programs as text


@I.ir_module
class Model(lw.IRModule):
    @T.prim_func
    @staticmethod
    def scale(a: T.handle, B: Annotated[T.Buffer, (64, 64), "float32"]):
        A = T.match_buffer(a, (64, 64), "float32")
        for i, j in T.grid(64, 64):
            with T.block("scale"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)

    @R.function
    @staticmethod
    def main(x: Annotated[R.Tensor, (64, 64), "float32"]):
        with R.dataflow():
            y = R.call_tir(Model.scale, [x], R.Tensor((64, 64), "float32"))
            z = R.nn.relu(R.add(y, x))
            R.output(z)
        return z


# ---------------------------------------------------------------- a schedule, a model, a pass


def scheduled() -> tir.PrimFunc:
    """`scale` with rows on threads and columns in vectors."""
    sch = tir.Schedule(Model["scale"])
    row, column = sch.get_loops(sch.get_block("scale"))
    _, lanes = sch.split(column, [None, 8])
    sch.parallel(row)
    sch.vectorize(lanes)
    return sch.mod["main"]


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, 2 * width)
        self.last = nn.Linear(2 * width, 4, bias=False)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.last(nn.op.relu(self.first(x)))


@lw.transform.module_pass(opt_level=0, name="CountCalls")
def count_calls(mod: lw.IRModule, ctx: lw.transform.PassContext) -> lw.IRModule:
    """A custom pass: counts the calls of each graph function."""
    for var, func in mod.functions.items():
        if isinstance(func, relax.Function):
            bindings = [b for block in func.body.blocks for b in block.bindings]
            calls = [b.var.name_hint for b in bindings if isinstance(b.value, relax.Call)]
            mod = mod.with_attr(f"calls_{var.name_hint}", len(calls))
    return mod


def built() -> lw.IRModule:
    """A graph without text: the operator from above after a product."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((8, 8), "float32"))
    with bb.function("main", [x]):
        product = bb.emit(relax.op.matmul(x, relax.const(np.eye(8, dtype="float32"))))
        bb.emit_func_output(bb.emit(swish.builder(product, beta=2.0)))
    return bb.get()


def main() -> list[np.ndarray]:
    """What each of the models computes."""
    x = np.linspace(-2, 2, 64 * 64, dtype="float32").reshape(64, 64)
    executable = lw.compile(Model, target="llvm")
    results = executable.run({"x": x})
    trace = lw.lower(built())
    print(trace.explain("typing_example.swish"), trace["LegalizeOps"].diff())
    mod, _ = Net(8).export_tvm({"forward": {"x": nn.spec.Tensor((1, 8), "float32")}})
    counted = count_calls(mod)
    print(counted.attrs["calls_forward"], scheduled().script())
    swished = lw.compile(built())["main"](np.ones((8, 8), "float32"))
    return [*(value.numpy() for value in results.values()), swished.numpy()]


if __name__ == "__main__":
    main()
