"""Graphs for the tests of fusion, and what a module calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loopwright import relax
from loopwright.ir.module import IRModule
from loopwright.ir.transform import Sequential
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import AnnotateTIROpPattern, FuseOps, FuseTIR, LegalizeOps
from loopwright.tir.function import PrimFunc

FUSE = Sequential([LegalizeOps(), AnnotateTIROpPattern(), FuseOps()])


def graph(build: Callable[..., Any], *shapes: Any, dtype: str = "float32") -> IRModule:
    """A module whose `main` computes `build(emit, *params)` in one dataflow block."""
    bb = relax.BlockBuilder()
    infos = [
        s if isinstance(s, relax.StructInfo) else relax.TensorStructInfo(s, dtype) for s in shapes
    ]
    params = [relax.Var(f"x{i}", info) for i, info in enumerate(infos)]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(build(bb.emit, *params))
        bb.emit_func_output(out)
    return bb.finalize()


def kernels(mod: IRModule) -> list[str]:
    """Names of the PrimFuncs, sorted."""
    return sorted(g.name_hint for g, f in mod.functions.items() if isinstance(f, PrimFunc))


def primitives(mod: IRModule) -> list[str]:
    """Names of the fused graph functions, sorted."""
    found = (g.name_hint for g, f in mod.functions.items() if "Primitive" in f.attrs)
    return sorted(found)


def check_fusion(mod: IRModule, *inputs: Any, rtol: float = 1e-5) -> IRModule:
    """Fuse, compare what comes out at each stage with the operators' meaning, and return the
    module of fused loops."""
    expected = Interpreter(mod)["main"](*inputs)
    stages = [FUSE(mod)]
    stages.append(FuseTIR()(stages[0]))
    for stage in stages:
        _same(Interpreter(stage)["main"](*inputs), expected, rtol)
    return stages[-1]


def _same(got: Any, expected: Any, rtol: float) -> None:
    if isinstance(expected, tuple):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            _same(a, b, rtol)
        return
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=rtol, atol=rtol)


def values(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Random inputs."""
    rng = np.random.default_rng(7)
    return [rng.uniform(-1, 1, s).astype("float32") for s in shapes]
