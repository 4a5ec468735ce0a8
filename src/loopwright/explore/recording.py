"""Which statement stored what: a kernel that notes, for each element of its buffers, the last
statement that stored it and its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..driver.differences import errors
from ..ir.dtype import numpy_dtype
from ..ir.functor import post_order_visit, rewrite
from ..ir.prim_expr import Broadcast, PrimExpr, Var
from ..ir.prim_op import const
from ..relax.interpreter import evaluate_scalar
from ..tir import stmt as st
from ..tir.buffer import Buffer, decl_buffer
from ..tir.expr import BufferLoad
from ..tir.function import PrimFunc
from ..tir.transform.lower.unpack_signatures import symbolic_dims


@dataclass
class Stored:
    """What was stored in a buffer: the number of the statement that did last, -1 for none, and the
    values, in order of memory. param: which argument it is, None for memory of the kernel's own."""

    buffer: Buffer
    param: int | None
    who: np.ndarray
    values: np.ndarray


@dataclass
class Recording:
    """A kernel with two more parameters for each buffer that it stores to."""

    func: PrimFunc
    statements: list[st.BufferStore] = field(default_factory=list)
    shadows: dict[Buffer, tuple[Buffer, Buffer]] = field(default_factory=dict)
    noting: PrimFunc | None = None

    def run(self, args: Sequence[Any], run: Callable[[PrimFunc, list[Any]], Any]) -> list[Stored]:
        """The values that a run of the kernel stored; `args` are changed. run: `f(kernel, arguments)`."""
        assert self.noting is not None
        sizes = sizes_of(self.func, args)
        more: list[np.ndarray] = []
        for who, values in self.shadows.values():
            shape = [int(evaluate_scalar(d, sizes)) for d in who.shape]
            more += [np.full(shape, -1, "int32"), np.zeros(shape, numpy_dtype(values.dtype))]
        run(self.noting, [*args, *more])
        return [
            Stored(buffer, self.param_of(buffer), more[2 * k].ravel(), more[2 * k + 1].ravel())
            for k, buffer in enumerate(self.shadows)
        ]

    def param_of(self, buffer: Buffer) -> int | None:
        """The index of the argument that a buffer is, in any shape; None for other buffers."""
        views = [self.func.buffer_map.get(param) for param in self.func.params]
        return next((k for k, b in enumerate(views) if b and b.data is buffer.data), None)


def recorded(func: PrimFunc) -> Recording:
    """The kernel that records its stores. Buffers whose shape depends on loops are left out."""
    recording = Recording(func)
    params = {*func.params, *symbolic_dims(func)}

    def noted(node: st.BufferStore) -> Any:
        buffer = node.buffer
        if not _vars(buffer.shape) <= params or buffer.dtype.lanes > 1:
            return None
        if buffer not in recording.shadows:
            name = f"{buffer.name}_{len(recording.shadows)}"
            who = decl_buffer(buffer.shape, "int32", f"{name}_who")
            recording.shadows[buffer] = who, decl_buffer(buffer.shape, buffer.dtype, f"{name}_copy")
        who, values = recording.shadows[buffer]
        number, lanes = const(len(recording.statements), "int32"), node.value.dtype.lanes
        recording.statements.append(node)
        number = Broadcast(number, lanes) if lanes > 1 else number
        now = BufferLoad(buffer, node.indices, node.predicate)
        extra = ((who, number), (values, now))
        stores = [st.BufferStore(b, v, node.indices, node.predicate) for b, v in extra]
        return st.SeqStmt([node, *stores])

    def in_order(node: st.For) -> Any:  # so that there is a last one
        parallel = node.kind is st.ForKind.PARALLEL
        return node.replace(kind=st.ForKind.SERIAL) if parallel else None

    body = rewrite(func.body, {st.BufferStore: noted, st.For: in_order})
    more = [buffer for pair in recording.shadows.values() for buffer in pair]
    handles = [Var(f"{buffer.name}_handle", "handle") for buffer in more]
    views = {**func.buffer_map, **dict(zip(handles, more, strict=True))}
    recording.noting = func.replace(params=(*func.params, *handles), buffer_map=views, body=body)
    return recording


def first_wrong(
    stored: Sequence[Stored], want: Sequence[np.ndarray], like: Sequence[Stored], tolerance: float
) -> tuple[int, tuple[int, ...], float, float] | None:
    """The number of the first statement that stored something else than it should, the element, what
    it stored and what it should have. want: the results, finite where they are not given; like: the stores
    of a right kernel."""
    results = iter(want)
    keys = {(s.buffer.name, s.values.size): s for s in like}
    for s in stored:
        right, where = None, s.who >= 0
        if s.param is not None:
            finite = np.isfinite(s.values) if s.values.dtype.kind == "f" else where
            right = next(results, np.where(finite, s.values, 0))
        elif (s.buffer.name, s.values.size) in keys:
            other = keys[s.buffer.name, s.values.size]
            right, where = other.values, (s.who >= 0) & (other.who >= 0)
        if right is None or right.size != s.values.size:
            continue
        wrong = where & (errors(s.values, right.ravel()) > tolerance)
        if wrong.any():
            number = int(s.who[wrong].min())
            at = int(np.argmax(wrong & (s.who == number)))
            element = tuple(map(int, np.unravel_index(at, right.shape)))
            return number, element, float(s.values[at].real), float(right.ravel()[at].real)
    return None


def sizes_of(func: PrimFunc, args: Sequence[Any]) -> dict[Var, int]:
    """The symbolic sizes that arguments have."""
    sizes = {}
    for param, arg in zip(func.params, args, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is None:
            sizes[param] = arg
        else:
            sizes |= {
                d: n for d, n in zip(buffer.shape, arg.shape, strict=True) if isinstance(d, Var)
            }
    return sizes


def _vars(exprs: Sequence[PrimExpr]) -> set[Var]:
    variables: set[Var] = set()
    for expr in exprs:
        post_order_visit(expr, lambda n: variables.add(n) if isinstance(n, Var) else None)
    return variables
