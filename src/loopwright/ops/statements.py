"""Helpers for operators that are TensorIR, not tensor expressions: they read elements that they
wrote before, or write where an index says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from .. import te, tir
from ..ir.dtype import DataType
from ..ir.literals import int_value, is_one
from ..ir.prim_expr import PrimExpr, Select
from ..ir.prim_op import cast, const, floordiv, floormod
from ..tir.buffer import Buffer
from ..tir.interpreter.meaning import index_from_data
from ..tir.ir_builder import IRBuilder
from .extents import simplify


def long(value: int) -> PrimExpr:
    return const(value, "int64")


def count_in(count: PrimExpr, most: PrimExpr) -> PrimExpr:
    """A count or a start that comes from data, 0 to `most`; where it is another, the function fails with
    an IndexError. (An index below 0 would count from the end.)"""
    count = cast("int64", count)
    return tir.checked_index(count, Select(count < 0, long(0), most + 1))


def check_counts(counts: np.ndarray, most: int) -> None:
    """`count_in` of arrays."""
    for count in counts.ravel().tolist():
        index_from_data(count, 0 if count < 0 else most + 1, "")


def prim_func(buffers: list[tir.Buffer], write: Callable[..., None]) -> tir.PrimFunc:
    """A PrimFunc over `buffers`; `write(ib, *pointers)` builds its body."""
    ib = tir.ir_builder.create()
    write(ib, *[ib.buffer_ptr(b) for b in buffers])
    params = {tir.Var(f"var_{b.name}", "handle"): b for b in buffers}
    return tir.PrimFunc(list(params), ib.get(), None, params)


def loops(ib: IRBuilder, stack: ExitStack, dims: list[Any], parallel: bool) -> list[Any]:
    """Nested loops over `dims`, open until the stack is closed; the first long one may be
    parallel."""
    variables = []
    for n, extent in enumerate(dims):
        kind = "parallel" if parallel and not is_one(extent) else "serial"
        parallel = parallel and kind == "serial"
        loop = ib.for_range(long(0), extent, f"i{n}", dtype="int64", kind=kind)
        variables.append(stack.enter_context(loop))
    return variables


LANES = 16  # of a vector; targets with shorter ones split it


def in_vectors(ib: IRBuilder, extent: PrimExpr, parallel: bool = False) -> Iterator[PrimExpr]:
    """The index of a loop over an axis along memory, whose body is built once in vectors, maybe `parallel`, and
    once for the rest: code generators do not vectorize statements themselves."""
    size = int_value(extent)
    lanes, rest = LANES if size is None else min(size, LANES), floormod(extent, LANES)
    if size != 0:
        kind = "parallel" if parallel else "serial"
        whole = ib.for_range(long(0), floordiv(extent, lanes), "v", dtype="int64", kind=kind)
        with whole as v, ib.for_range(0, lanes, "lane", dtype="int64", kind="vectorize") as lane:
            yield v * lanes + lane
    if size is None or (size > LANES and size % LANES):
        kind = "serial" if size is None else "vectorize"
        with ib.for_range(long(0), simplify(rest), "lane", dtype="int64", kind=kind) as lane:
            yield extent - rest + lane


def written(
    shapes: Sequence[Any],
    inputs: Sequence[te.Tensor],
    write: Callable[..., None],
    dtypes: DataType | str | Sequence[DataType | str],
    name: str,
) -> Any:
    """Tensors that `write(ib, *inputs, *results)` writes by statements."""

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Any:
        ib = tir.ir_builder.create()
        write(ib, *(ib.buffer_ptr(b) for b in (*ins, *outs)))
        return ib.get()

    kinds = [dtypes] * len(shapes) if isinstance(dtypes, str) else dtypes
    ins = [tir.decl_buffer(t.shape, t.dtype, t.op.name) for t in inputs]
    outs = [tir.decl_buffer(s, k, name) for s, k in zip(shapes, kinds, strict=True)]
    spec = list(shapes), list(inputs), body, name
    return te.extern(*spec, dtype=dtypes, in_buffers=ins, out_buffers=outs)
