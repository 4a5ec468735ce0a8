"""Running a scheduled program against the one it came from."""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwright import tir
from loopwright.arith import Analyzer
from loopwright.ir.prim_expr import IntImm, Var
from loopwright.ir.prim_op import const
from loopwright.ir.structural import assert_structural_equal
from loopwright.script import from_source
from loopwright.tir.interpreter import run
from loopwright.tir.stmt_functor import substitute


def arguments(func: tir.PrimFunc, dims: dict[str, int] | None = None, seed: int = 0) -> list[Any]:
    """Random arrays for the parameters; `dims` gives the symbolic dimensions by name."""
    rng = np.random.default_rng(seed)
    dims = dims or {}
    made: list[Any] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            made.append(dims[param.name])
            continue
        shape = tuple(_extent(e, dims) for e in buffer.shape)
        values = rng.standard_normal(shape) * 2
        made.append(np.asarray(np.round(values, 2)).astype(str(buffer.dtype)))
    return made


def _extent(extent: Any, dims: dict[str, int]) -> int:
    values = {v: const(dims[v.name], v.dtype) for v in _vars(extent)}
    made = Analyzer().simplify(substitute(extent, values))
    assert isinstance(made, IntImm)
    return made.value


def _vars(expr: Any) -> list[Var]:
    if isinstance(expr, Var):
        return [expr]
    return [v for child in expr.children() for v in _vars(child)]


def outcome(func: tir.PrimFunc, dims: dict[str, int] | None = None) -> list[np.ndarray]:
    """The arrays after running on random arguments."""
    args = arguments(func, dims)
    run(func, args)
    return args


def check(
    sch: tir.Schedule,
    before: tir.PrimFunc,
    *sizes: dict[str, int],
    replay: bool = True,
) -> None:
    """The scheduled program computes what `before` does; its text can be read; its trace can be
    done again, from Python and from JSON."""
    after = sch.mod["main"]
    for dims in sizes or ({},):
        for want, got in zip(outcome(before, dims), outcome(after, dims), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    assert_structural_equal(from_source(after.script()), after)
    if replay:
        again = tir.Schedule(before)
        sch.trace.apply_to_schedule(again)
        assert_structural_equal(again.mod, sch.mod)
        again = tir.Schedule(before)
        tir.schedule.Trace.apply_json_to_schedule(sch.trace.as_json(), again)
        assert_structural_equal(again.mod, sch.mod)
