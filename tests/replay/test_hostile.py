"""What is said of ONNX models with a changed field, and of targets' texts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import loopwright as lw
from loopwright.frontend.onnx import from_onnx
from loopwright.ir import target_kinds
from loopwright.ir.target import KINDS
from tools.fuzz.files import change_field
from tools.fuzz.onnx_graphs import onnx_case
from tools.fuzz.onnx_model import to_onnx
from tools.fuzz.texts import target

from .stages import graph_text, said

ROW = 20  # models or targets


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("part", range(5))
def test_models(part: int, replay: Any, tmp_path: Path) -> None:
    rows, file = {}, tmp_path / "model.onnx"
    for first in range(part * 300, part * 300 + 300, ROW):
        answers = []
        for seed in range(first, first + ROW):
            model = to_onnx(onnx_case(seed))
            change_field(random.Random(seed), model)
            file.write_bytes(model.SerializePartialToString(deterministic=True))
            answers.append(said(lambda: graph_text(from_onnx(str(file)))))
        rows[str(first)] = {"": "\n".join(answers).replace(str(tmp_path), "")}
    replay(f"hostile/models-{part}", rows)


def test_targets(replay: Any) -> None:
    """Of the kinds that are always there, not of other tests and back ends: of these random targets are made."""
    rows = {}
    with KINDS.snapshot():
        for entry in KINDS.entries():
            if entry.origin != target_kinds.__name__:
                KINDS.remove(entry.key)
        for first in range(0, 600, ROW):
            texts = [t for t in map(target, range(first, first + ROW)) if "native" not in t]
            rows[str(first)] = {"": "\n".join(f"{t}: {said(_described, t)}" for t in texts)}
    replay("hostile/targets", rows)


def _described(text: str) -> str:
    found = lw.Target(text)
    facts = [found, found.export(), found.lookup_keys, found.device_type]
    return str([*facts, found.features if found.mcpu else ""])
