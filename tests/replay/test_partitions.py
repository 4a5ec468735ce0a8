"""What back ends take of small models and of random graphs, what they say of the rest, and the networks that
one of them describes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loopwright.ir.dtype import numpy_dtype
from loopwright.ir.module import IRModule
from loopwright.relax.backend import get_patterns_with_prefix
from loopwright.relax.byoc import get_backend
from loopwright.relax.transform import (
    BindParams,
    FuseOpsByPattern,
    MergeCompositeFunctions,
    RunCodegen,
)
from loopwright.tvm.cuda import cublas, cutlass
from loopwright.tvm.tensorrt.json import tensorrt
from tools.fuzz.relax_graphs import relax_case
from tools.fuzz.relax_module import to_module

from .models import GRAPHS, model
from .stages import said

PATTERNS = {
    "blas": lambda: get_backend("blas").fusion_patterns(),
    "tensorrt": lambda: get_backend("tensorrt").fusion_patterns(),
    "cublas": lambda: get_patterns_with_prefix(cublas.__name__.rpartition(".")[2]),
    "cutlass": lambda: get_patterns_with_prefix(cutlass.__name__.rpartition(".")[2]),
}


def bound(name: str) -> IRModule:
    """A small model whose weights, all inputs but the first, are known."""
    mod = model(name)
    weights = {}
    for param in mod["main"].params[1:]:
        shape = [int(d) if hasattr(d, "value") else 0 for d in param.struct_info.get_shape()]
        count = int(np.prod(shape))
        values = np.arange(count).reshape(shape) % 7
        weights[param.name_hint] = values.astype(numpy_dtype(param.struct_info.dtype))
    return BindParams("main", weights)(mod) if all(v.size for v in weights.values()) else mod


def taken(mod: IRModule, patterns: Any) -> tuple[IRModule, str]:
    refused: list[tuple[str, str]] = []
    mod = MergeCompositeFunctions()(FuseOpsByPattern(patterns, refused=refused)(mod))
    return mod, f"{sorted(refused)}\n{mod.script()}"


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("name", PATTERNS)
def test_taken(name: str, replay: Any) -> None:
    models = {n: (model(n), bound(n)) for n in GRAPHS}
    models |= {str(seed): (to_module(relax_case(seed)),) for seed in range(60)}
    rows, network = {}, tensorrt()
    for title, mods in models.items():
        for k, mod in enumerate(mods):
            made, text = taken(mod, PATTERNS[name]())
            if text.count("def ") > 1 or not text.startswith("[]"):
                rows[f"{title}-{k}"] = {"taken": text}
                if name == "tensorrt":
                    rows[f"{title}-{k}"]["networks"] = said(described, made, network)
    replay(f"partitions/{name}", rows)


def described(mod: IRModule, backend: Any) -> str:
    modules = RunCodegen(backends=[backend])(mod).attrs["external_mods"]
    return "\n".join(m.get_source("json") for m in modules)
