"""Random graphs of our operators after passes that change graphs, and random ONNX models, imported."""

from __future__ import annotations

from typing import Any

import pytest

import loopwright as lw
from loopwright import relax
from loopwright.frontend.onnx import from_onnx
from loopwright.ir.module import IRModule
from tools.fuzz.onnx_graphs import onnx_case
from tools.fuzz.onnx_model import to_onnx
from tools.fuzz.passes import ARGUMENTS, RELAX_ANYWHERE, RELAX_CHAIN
from tools.fuzz.relax_graphs import relax_case
from tools.fuzz.relax_module import to_module

from .stages import CPU, c_text, graph_text, stages

GRAPHS = 12  # of a test


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("part", range(12))
def test_own_graphs(part: int, replay: Any) -> None:
    rows = {}
    for seed in range(part * GRAPHS, (part + 1) * GRAPHS):
        mod = to_module(relax_case(seed))
        texts = {"graph": graph_text(mod)}
        for name in (*RELAX_ANYWHERE, *RELAX_CHAIN):
            after = getattr(relax.transform, name)(*ARGUMENTS.get(name, ()))(mod)
            text = graph_text(after)
            if text != texts["graph"]:
                texts[name] = text
            if name in RELAX_CHAIN:
                mod = after
        rows[str(seed)] = texts
    replay(f"graphs/own-{part}", rows)


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("part", range(20))
def test_imported_graphs(part: int, replay: Any) -> None:
    pytest.importorskip("onnx")
    rows = {}
    for seed in range(part * GRAPHS, (part + 1) * GRAPHS):
        rows[str(seed)] = {"": graph_text(from_onnx(to_onnx(onnx_case(seed))))}
    replay(f"graphs/imported-{part}", rows)


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("part", range(4))
def test_compiled_graphs(part: int, replay: Any) -> None:
    rows = {}
    for seed in range(part * 10, (part + 1) * 10):
        mod = to_module(relax_case(seed))
        rows[str(seed)] = {**stages(lw.lower(mod, CPU)), "c": c_text(mod)}
    replay(f"graphs/compiled-{part}", rows)


@pytest.mark.no_roundtrip
def test_places(replay: Any) -> None:
    """Of which nodes of a model each binding is, after passes."""
    pytest.importorskip("onnx")
    rows = {}
    for seed in range(2 * GRAPHS):
        mod = from_onnx(to_onnx(onnx_case(seed)))
        texts = {"graph": places(mod)}
        for name in (*RELAX_ANYWHERE, *RELAX_CHAIN):
            after = getattr(relax.transform, name)(*ARGUMENTS.get(name, ()))(mod)
            texts[name] = places(after)
            if name in RELAX_CHAIN:
                mod = after
        rows[str(seed)] = texts
    replay("graphs/places", rows)


def places(mod: IRModule) -> str:
    functions = (f for f in mod.functions.values() if isinstance(f, relax.Function))
    bindings = (b for f in functions for block in f.body.blocks for b in block.bindings)
    return "\n".join(f"{b.var.name_hint}: {b.span} {b.value.span}" for b in bindings)
