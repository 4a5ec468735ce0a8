"""Short ways to write the programs that tests of several folders start from."""

from __future__ import annotations

from typing import Any

from loopwright.ir.module import IRModule
from loopwright.script import from_source
from loopwright.tir.function import PrimFunc


def graph(
    body: str, result: str = "", values: dict[str, Any] | None = None, **parameters: Any
) -> IRModule:
    """A module whose `main` has one dataflow block with the bindings of `body`, which ";" or the
    end of a line separates. It returns the last variable, or `result`. A parameter is given by the
    shape of a float32 tensor or by its annotation; `body` may use the `values` by name."""
    lines = [line.strip() for line in body.replace(";", "\n").strip().splitlines()]
    result = result or lines[-1].partition(" = ")[0]
    infos = {
        k: f'R.Tensor({v}, "float32")' if isinstance(v, tuple) else v for k, v in parameters.items()
    }
    indented = "\n".join(f"            {line}" for line in [*lines, f"R.output({result})"])
    return from_source(
        f"""
@I.ir_module
class Module:
    @R.function
    def main({", ".join(f"{name}: {info}" for name, info in infos.items())}):
        with R.dataflow():
{indented}
        return {result}
""",
        values,
    )


def pointwise(name: str, value: str, more: str = "") -> PrimFunc:
    """A kernel `name` over matrices of any size: Y is `value` of X[vi, vj], and `more` parameters."""
    return from_source(f"""
@T.prim_func
def {name}(x: T.handle, y: T.handle{more}):
    n, m = T.int64(), T.int64()
    X = T.match_buffer(x, (n, m))
    Y = T.match_buffer(y, (n, m))
    for i, j in T.grid(n, m):
        with T.block("{name}"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = {value}
""")


def pointwise_convolution(name: str) -> PrimFunc:
    """A kernel `name`: a convolution of NCHW data with filters of one by one."""
    return from_source(f"""
@T.prim_func
def {name}(x: T.handle, w: T.handle, y: T.handle):
    n, c, h, v, o = T.int64(), T.int64(), T.int64(), T.int64(), T.int64()
    X = T.match_buffer(x, (n, c, h, v))
    W = T.match_buffer(w, (o, c, 1, 1))
    Y = T.match_buffer(y, (n, o, h, v))
    for b, f, i, j, k in T.grid(n, o, h, v, c):
        with T.block("{name}"):
            vb, vf, vi, vj, vk = T.axis.remap("SSSSR", [b, f, i, j, k])
            with T.init():
                Y[vb, vf, vi, vj] = 0.0
            Y[vb, vf, vi, vj] += X[vb, vk, vi, vj] * W[vf, vk, 0, 0]
""")
