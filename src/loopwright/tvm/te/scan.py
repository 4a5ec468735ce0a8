"""`scan`: tensors whose rows are computed from previous rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.errors import explain
from ...ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from ...ir.prim_op import subtract
from ...ir.serialize import register_codec
from ...te.operation import current_tag
from ...te.prim_func import Builder
from ...te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from ...tir.stmt import Stmt
from .scan_blocks import scan_blocks


class ScanOp(Operation):
    """Result n is `init[n]` in its first rows and `update[n]` in the others, where
    `state_placeholder[n]` is the result itself.

    `scan_axis` ranges over the rows after the first; `chain` are the operations that read the
    state, in order; they run row by row.

    >>> state = te.placeholder((4, 8))
    >>> first = te.compute((1, 8), lambda _, i: 1.0)
    >>> step = te.compute((4, 8), lambda t, i: state[t - 1, i] * 2.0)
    >>> te.scan(first, step, state).op.scan_axis.dom
    I.Range(1, 4)
    """

    __slots__ = ("chain", "init", "inputs", "scan_axis", "spatial_axis_",
                 "state_placeholder", "update")  # fmt: skip

    def __init__(
        self, name: str, tag: str, attrs: dict[Any, Any] | None, init: Sequence[Tensor],
        update: Sequence[Tensor], state_placeholder: Sequence[Tensor],
        inputs: Sequence[Tensor] = (),
    ) -> None:  # fmt: skip
        super().__init__(name, tag, attrs)
        self.init = tuple(init)
        self.update = tuple(update)
        self.state_placeholder = tuple(state_placeholder)
        self.inputs = tuple(inputs)
        _check(name, self.init, self.update, self.state_placeholder)
        self.chain = _chain(name, self.update, self.state_placeholder)
        states = self.state_placeholder
        start, rows = self.init[0].shape[0], states[0].shape[0]
        domain = Range.from_min_extent(start, subtract(rows, start))
        self.scan_axis = IterVar(domain, Var(f"{name}.idx", rows.dtype), IterVar.Ordered)
        self._outputs = tuple(Tensor(s.shape, s.dtype, self, n) for n, s in enumerate(states))
        self.spatial_axis_ = tuple(
            IterVar(Range.upto(e), Var(f"out{n}.i{k}", e.dtype), IterVar.Opaque)
            for n, s in enumerate(states)
            for k, e in enumerate(s.shape[1:], 1)
        )

    @property
    def root_iter_vars(self) -> tuple[IterVar, ...]:
        return (self.scan_axis, *self.spatial_axis_)

    def spatial_axes(self, result: int) -> tuple[IterVar, ...]:
        """The axes of a result within a row."""
        at = sum(s.ndim - 1 for s in self.state_placeholder[:result])
        return self.spatial_axis_[at : at + self.state_placeholder[result].ndim - 1]

    def replace_inputs(self, table: Mapping[Tensor, Tensor]) -> Operation:
        parts = (self.init, self.update, self.inputs)
        init, update, inputs = ([table.get(t, t) for t in p] for p in parts)
        if (tuple(init), tuple(update), tuple(inputs)) == parts:
            return self
        new = ScanOp(self.name, self.tag, self.attrs, init, update, self.state_placeholder, inputs)
        new.scan_axis, new.spatial_axis_ = self.scan_axis, self.spatial_axis_
        return new

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """Its first rows, and the others."""
        return (*self.init, *self.update)

    @property
    def computed_before(self) -> tuple[Tensor, ...]:
        """The tensors computed before the scan: its first rows, and other inputs of the chain."""
        tensors = dict.fromkeys(self.init)
        for op in self.chain:
            for tensor in op.input_tensors:
                if tensor not in self.state_placeholder and tensor.op not in self.chain:
                    tensors.setdefault(tensor)
        return tuple(tensors)

    def blocks(self, builder: Builder) -> Stmt:
        return scan_blocks(builder, self)


def _check(
    name: str, init: Sequence[Tensor], update: Sequence[Tensor], state: Sequence[Tensor]
) -> None:
    if len(set(update)) != len(update):
        what = f"scan {name} updates each state by a tensor of its own"
        raise ValueError(explain(what, got=", ".join(t.op.name for t in update)))
    if not len(init) == len(update) == len(state) or not init:
        what = f"scan {name} needs an init, an update and a state for each result"
        raise ValueError(explain(what, got=f"{len(init)}, {len(update)} and {len(state)}"))
    for first, then, state_tensor in zip(init, update, state, strict=True):
        if not isinstance(state_tensor.op, PlaceholderOp):
            what = f"scan {name}: the state is a placeholder"
            raise ValueError(explain(what, got=str(state_tensor.op)))
        if not isinstance(then.op, ComputeOp):
            what = f"scan {name}: the update is a compute"
            raise ValueError(explain(what, got=str(then.op)))
        for other in (first, then):
            if (
                other.dtype != state_tensor.dtype
                or other.ndim != state_tensor.ndim
                or not state_tensor.ndim
            ):
                kind = f"{state_tensor.dtype} with {state_tensor.ndim} dimensions"
                what = f"scan {name}: the state is {kind}"
                got = f"{other.op.name}, {other.dtype} with {other.ndim}"
                raise ValueError(explain(what, got=got))
            for n, (other_extent, extent) in enumerate(
                zip(other.shape, state_tensor.shape, strict=True)
            ):
                if n == 0 and other is first:
                    continue  # the number of rows may differ
                if _differ(other_extent, extent):
                    what = f"scan {name}: the state has {extent} elements in dimension {n}"
                    raise ValueError(explain(what, got=f"{other_extent} of {other.op.name}"))


def _differ(a: PrimExpr, b: PrimExpr) -> bool:
    return isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value


def _chain(name: str, update: tuple[Any, ...], state: tuple[Any, ...]) -> tuple[ComputeOp, ...]:
    """The operations from the state to the update, each after its inputs."""
    depends: dict[Operation, bool] = {}
    order: list[ComputeOp] = []

    def visit(op: Operation) -> bool:
        if op in depends:
            return depends[op]
        depends[op] = False
        moving = [visit(t.op) for t in op.input_tensors]
        depends[op] = any(moving) or any(t in state for t in op.input_tensors)
        if depends[op]:
            if not isinstance(op, ComputeOp):
                what = f"scan {name}: what reads the state is a compute"
                raise ValueError(explain(what, got=str(op)))
            order.append(op)
        return depends[op]

    for tensor in update:
        if not visit(tensor.op) and tensor.op not in order:
            order.append(tensor.op)  # does not depend on previous rows
    return tuple(order)


def scan(
    init: Tensor | Sequence[Tensor],
    update: Tensor | Sequence[Tensor],
    state_placeholder: Tensor | Sequence[Tensor],
    inputs: Sequence[Tensor] | None = None,
    name: str = "scan",
    tag: str = "",
    attrs: dict[str, Any] | None = None,
) -> Any:
    """Tensors computed row by row along their first axis.

    `init` has the first rows, `update` computes row t from `state_placeholder[t - 1, ...]`, which
    is the result. Lists define several results together. The running sum of the rows of X:

    >>> m, n = te.var("m"), te.var("n")
    >>> X, state = te.placeholder((m, n), name="X"), te.placeholder((m, n))
    >>> first = te.compute((1, n), lambda _, i: X[0, i])
    >>> step = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i])
    >>> te.scan(first, step, state, inputs=[X])
    Tensor(shape=[m, n], op.name=scan)

    Raises ValueError if an init, update or state does not fit the others.
    """
    single = isinstance(init, Tensor)
    lists = [
        [v] if isinstance(v, Tensor) else list(v or ())
        for v in (init, update, state_placeholder, inputs)
    ]
    op = ScanOp(name, current_tag(tag), attrs, *lists)
    outputs = [op.output(n) for n in range(op.num_outputs)]
    return outputs[0] if single else outputs


def _loaded(parts: list[Any]) -> ScanOp:
    *rest, axis, spatial = parts
    op = ScanOp(*rest)
    op.scan_axis, op.spatial_axis_ = axis, tuple(spatial)
    return op


register_codec(
    ScanOp,
    "te.scan",
    lambda op: [op.name, op.tag, op.attrs, op.init, op.update, op.state_placeholder, op.inputs,
                op.scan_axis, op.spatial_axis_],
    _loaded,
)  # fmt: skip
