"""What the functions that make expressions make of literals, variables and vectors of some types."""

from __future__ import annotations

import inspect
import random
from types import FunctionType, ModuleType
from typing import Any

import pytest

from loopwright import tir
from loopwright.ir import conversion, prim_op
from loopwright.tir import op, op_target

from .stages import said

BUFFER = tir.decl_buffer((4, 8), "float32", "A")
VALUES: list[Any] = [
    *(tir.IntImm(t, k) for t, k in (("int32", 5), ("int32", 0), ("int64", -3), ("uint8", 200))),
    *(tir.FloatImm(t, x) for t, x in (("float32", 2.5), ("float32", -0.5), ("float16", 1.0))),
    *(tir.Var(f"v_{t}", t) for t in ("int32", "int64", "uint8", "float32", "float16", "bool")),
    *(tir.Var("w", t) for t in ("float32x4", "handle")),
    tir.Ramp(tir.Var("i", "int32"), 2, 4),
    BUFFER[1, 2],
    BUFFER,
    3,
    0.5,
    True,
    "float32",
    "int64",
    "tir.exp",
]
TRIES = 24  # of a function


def functions(module: ModuleType) -> dict[str, FunctionType]:
    return {
        name: f
        for name, f in vars(module).items()
        if isinstance(f, FunctionType) and f.__module__ == module.__name__
        if not name.startswith(("_", "register"))
    }


def made(function: FunctionType) -> str:
    """What a function makes of random arguments: of each value once, if it takes one."""
    rng, lines = random.Random(function.__name__), []
    kinds = [p for p in inspect.signature(function).parameters.values() if p.name != "span"]
    few = sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in kinds)
    for k in range(TRIES):
        count = few if k % 3 else rng.randint(few, max(len(kinds), few))
        args = [rng.choice(VALUES) for _ in range(count)]
        if count == 1:
            args = [VALUES[k % len(VALUES)]]
        result = said(function, *args)
        dtype = said(lambda *args: function(*args).dtype, *args)
        lines.append(f"{', '.join(map(str, args))}: {result} {dtype}")
    return "\n".join(lines)


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("module", [op, op_target, conversion, prim_op], ids=lambda m: m.__name__)
def test_of_a_module(module: ModuleType, replay: Any) -> None:
    rows = {name: {"": made(f)} for name, f in functions(module).items()}
    replay(f"functions/{module.__name__}", rows)
