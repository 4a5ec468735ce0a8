"""Seed 4: a network on a vendor's C library, as C, with planned memory between the calls.

python examples/seed4_c_codegen.py
"""

from __future__ import annotations

import numpy as np
from toy_cg import BACKEND

import loopwright as lw
from loopwright.relax.byoc import PartitionReport, partition
from loopwright.script import ir as I
from loopwright.script import relax as R

rng = np.random.default_rng(0)
X = rng.standard_normal((64, 800), "float32")
W1, B1 = rng.standard_normal((500, 800), "float32") / 28, rng.standard_normal(500, "float32")
W2, B2 = rng.standard_normal((10, 500), "float32") / 22, rng.standard_normal(10, "float32")


@I.ir_module
class Network:
    @R.function
    def main(x: R.Tensor((64, 800), "float32")):
        with R.dataflow():
            h = R.add(R.matmul(x, R.permute_dims(R.const(W1))), R.const(B1))
            y = R.add(R.matmul(R.nn.relu(h), R.permute_dims(R.const(W2))), R.const(B2))
            R.output(y)
        return y


def main() -> None:
    report = PartitionReport()
    partition(Network, BACKEND, report=report)
    print(report)
    expected = np.maximum(X @ W1.T + B1, 0) @ W2.T + B2

    exe = lw.compile(Network, backends=[BACKEND])
    print("LLVM: max error", np.abs(exe["main"](X).numpy() - expected).max())


if __name__ == "__main__":
    main()
