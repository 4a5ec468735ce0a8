"""The models of these tests, and what they compute."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import loopwright as lw
from loopwright import relax
from loopwright.frontend import nn

WIDTH, HIDDEN, CLASSES = 16, 64, 4


class MLP(nn.Module):
    def __init__(self, width: int = WIDTH, hidden: int = HIDDEN) -> None:
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, CLASSES)

    def main(self, x: nn.Tensor) -> nn.Tensor:
        return self.down(nn.op.relu(self.up(x)))


@cache
def weights(width: int = WIDTH, hidden: int = HIDDEN) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {n: p.shape for n, p in MLP(width, hidden).named_parameters()}
    return {n: rng.standard_normal(s).astype("float32") / 8 for n, s in shapes.items()}


def module(rows: Any = "n", width: int = WIDTH, hidden: int = HIDDEN) -> Any:
    """The model with its weights."""
    spec = {"main": {"x": nn.spec.Tensor([rows, width], "float32")}}
    mod, _ = MLP(width, hidden).export_tvm(spec)
    return relax.transform.BindParams("main", weights(width, hidden))(mod)


@cache
def mlp(rows: Any = "n", **options: Any) -> Any:
    """The model, compiled."""
    return lw.compile(module(rows), **options)


def batch(count: int, width: int = WIDTH) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, width)).astype("float32")


def expected(x: np.ndarray) -> np.ndarray:
    """What the model computes, in numpy."""
    w = weights()
    hidden = np.maximum(x @ w["up.weight"].T + w["up.bias"], 0)
    return hidden @ w["down.weight"].T + w["down.bias"]
