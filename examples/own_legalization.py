"""An operator lowered to a kernel of one's own, written in TVMScript, for one target.

python examples/own_legalization.py
"""

from __future__ import annotations

import numpy as np

import loopwright as lw
from loopwright import relax
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T


@T.prim_func(private=True)
def rough_tanh(x: T.handle, y: T.handle):
    """x (27 + x^2) / (27 + 9 x^2) between -3 and 3: at most 0.024 beside tanh."""
    n, m = T.int64(), T.int64()
    X = T.match_buffer(x, (n, m))
    Y = T.match_buffer(y, (n, m))
    for i, j in T.grid(n, m):
        with T.block("rough_tanh"):
            vi, vj = T.axis.remap("SS", [i, j])
            clipped = T.max(T.min(X[vi, vj], T.float32(3)), T.float32(-3))
            Y[vi, vj] = (
                clipped
                * (T.float32(27) + clipped * clipped)
                / (T.float32(27) + T.float32(9) * clipped * clipped)
            )


@lw.register_legalize("relax.tanh", target="llvm")
def tanh_on_cpu(bb: relax.BlockBuilder, call: relax.Call) -> relax.Expr | None:
    """Two dimensions and float32; anything else is not ours, and the next rule is asked."""
    (x,) = call.args
    info = x.struct_info
    if info.ndim != 2 or info.dtype != "float32":
        return None
    return relax.call_tir(bb.add_func(rough_tanh, "rough_tanh"), (x,), info)


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 64), "float32")):
        with R.dataflow():
            y = R.tanh(x)
            z = R.add(y, R.const(1.0, "float32"))
            R.output(z)
        return z


def main() -> None:
    trace = lw.lower(Module)
    for note in trace.explain("relax.tanh", "legalize"):
        print("chosen:", note.facts["winner"])
    print("fused:", ", ".join(f for f in trace["FuseTIR"].changed_functions() if "fused" in f))

    exe = lw.compile(Module)
    for n in (1, 5):
        x = np.linspace(-5, 5, n * 64, dtype="float32").reshape(n, 64)
        error = np.abs(exe["main"](x).numpy() - (np.tanh(x) + 1)).max()
        print(f"n = {n}: {error:.3f} beside numpy's tanh")


if __name__ == "__main__":
    main()
