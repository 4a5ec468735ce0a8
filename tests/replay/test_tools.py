"""What the command line and the explorer say of models."""

from __future__ import annotations

import re
from typing import Any

import pytest

import loopwright as lw
from loopwright.explore import Explored
from loopwright.explore.exports import model_explorer
from tools.fuzz.onnx_graphs import onnx_case
from tools.fuzz.onnx_model import to_onnx

from ..driver.test_cli import MODEL, call
from .stages import CPU

QUESTIONS = {
    "passes": [],
    **{f"pass {name}": ["--pass", name] for name in ("BlockedLayout", "FuseOps", "GraphToTIR")},
    **{
        f"decisions {name}": ["--explain", name]
        for name in ("/conv1", "softmax", "fused_matmul_add")
    },
    "kernel": ["--kernel", "softmax", "--dims", "n=3"],
}


@pytest.mark.no_roundtrip
def test_command_line(replay: Any) -> None:
    rows = {}
    for name, words in QUESTIONS.items():
        text = call("show", MODEL, "--target", CPU, *words).replace(MODEL, "MODEL")
        text = re.sub(r" +\d+\.\d\d ", " ms ", text).partition(": assembly")[0]
        rows[name] = {"": text}
    replay("tools/command-line", rows)


@pytest.mark.no_roundtrip
def test_explorer(replay: Any) -> None:
    models = {"digits": MODEL, **{str(s): to_onnx(onnx_case(s)) for s in (1, 2, 5)}}
    replay("tools/explorer", {name: explored(model) for name, model in models.items()})


def explored(model: Any) -> dict[str, str]:
    found, sizes = Explored(lw.lower(model, CPU)), dict.fromkeys("nmk", 4)
    facts = [[str(found.node(n)), found.fate(n), sorted(found.subjects(n))] for n in found.nodes]
    kernels = [
        [
            k,
            found.work(k, sizes),
            sorted(found.shares(k, sizes).items()),
            sorted(found.kernel_lines(k).items()),
        ]
        for k in found.kernels
    ]
    return {
        "nodes": "\n".join(map(str, facts)),
        "kernels": "\n".join(map(str, kernels)),
        "readers": f"{sorted(found.readers.items())} {sorted(found.makers.items())}",
        "export": model_explorer(found),
    }
