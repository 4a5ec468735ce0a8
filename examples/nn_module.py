"""A model written as a module, exported for any number of rows, compiled once.

python examples/nn_module.py
"""

from __future__ import annotations

import math

import numpy as np

import loopwright as lw
from loopwright.frontend import nn


class Block(nn.Module):
    """Normalize, widen, gelu, narrow, add the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return x + self.down(nn.op.gelu(self.up(self.norm(x))))


def reference(x: np.ndarray, p: dict[str, np.ndarray]) -> np.ndarray:
    """The same by numpy."""
    centred = x - x.mean(-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    hidden = (normal * p["norm.weight"] + p["norm.bias"]) @ p["up.weight"].T + p["up.bias"]
    hidden = 0.5 * hidden * (1 + np.vectorize(math.erf)(hidden / np.sqrt(2)))
    return x + hidden @ p["down.weight"].T + p["down.bias"]


def main() -> None:
    mod, params = Block(64).export_tvm({"forward": {"x": nn.spec.Tensor(("n", 64), "float32")}})
    mod.show()

    rng = np.random.default_rng(0)
    weights = {
        name: rng.normal(0, 0.125, [int(d) for d in param.shape]).astype("float32")
        for name, param in params
    }
    exe = lw.compile(mod)
    for n in (1, 7, 64):
        x = rng.standard_normal((n, 64), "float32")
        got = exe["forward"](x, *weights.values()).numpy()
        error = np.abs(got - reference(x, weights)).max()
        print(f"n = {n}: {'right' if error < 1e-4 else 'WRONG'}, {error:.0e} beside numpy")


if __name__ == "__main__":
    main()
