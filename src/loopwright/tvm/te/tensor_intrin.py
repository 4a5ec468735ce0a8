"""`decl_tensor_intrin`: statements that implement a small tensor expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base.errors import explain
from ...ir.prim_expr import PrimExpr
from ...te.tensor import ComputeOp, Operation, Tensor, TensorSlice
from ...tir.buffer import Buffer, decl_buffer
from ...tir.stmt import Evaluate, Stmt
from .tensor_compute import TensorIntrinCall, call_intrin


class TensorIntrin:
    """A computation `op` and its implementation: `body` computes all of it; for a reduction,
    `reset` sets the result to the identity and `update` accumulates one part of the reduction.

    >>> x = te.placeholder((8,), "float32", "x")
    >>> y = te.compute((8,), lambda i: x[i] * 2.0, "y")
    >>> def body(ins, outs):
    ...     return tir.call_packed("double", ins[0].access_ptr("r"), outs[0].access_ptr("w"))
    >>> te.decl_tensor_intrin(y.op, body, name="double").name
    'double'
    """

    def __init__(
        self,
        name: str,
        op: ComputeOp,
        buffers: list[Buffer],
        body: Stmt,
        reset: Stmt | None,
        update: Stmt | None,
    ) -> None:
        self.name = name
        self.op = op
        self.buffers = buffers
        self.body, self.reset, self.update = body, reset, update

    def __repr__(self) -> str:
        return f"TensorIntrin({self.name})"

    def __call__(self, *args: TensorSlice | int, reduce_axis: Any = None) -> TensorIntrinCall:
        """The result of a compute's function: the intrinsic on parts of tensors, `A[i, 0:16]`."""
        return call_intrin(self, args, reduce_axis)


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[..., Any],
    name: str = "tensor_intrin",
    binds: dict[Tensor, Buffer] | None = None,
    scalar_params: Sequence[int] | None = None,
    default_buffer_params: dict[str, Any] | None = None,
) -> TensorIntrin:
    """An intrinsic for `s[C].tensorize(loop, intrin)`.

    `op` is the computation, a compute of one result over placeholders. `fcompute(ins, outs)`
    is given buffers and returns the statement; or (body, reset, update) for a reduction of
    which one call computes a part. `binds` has the buffers of some tensors, with variable strides
    if the program's may not be compact; the others are declared with
    `default_buffer_params` (`decl_buffer`'s).

    Raises ValueError for another kind of operation.

    >>> x = te.placeholder((8,), "float32", "x")
    >>> y = te.compute((8,), lambda i: x[i] * 2.0, "y")
    >>> def body(ins, outs):
    ...     return tir.call_packed("double", ins[0].access_ptr("r"), outs[0].access_ptr("w"))
    >>> te.decl_tensor_intrin(y.op, body, name="double").op
    ComputeOp(y)
    """
    if not isinstance(op, ComputeOp) or op.num_outputs != 1:
        what = "decl_tensor_intrin describes a compute of one result"
        raise ValueError(explain(what, got=str(op), instead="C.op of a te.compute"))
    if scalar_params:
        what = f"{name}: scalar parameters are not passed to intrinsics"
        raise ValueError(explain(what, got=str(scalar_params), instead="read them from a tensor"))
    bound_buffers = binds or {}
    settings = {"offset_factor": 1, **(default_buffer_params or {})}
    tensors = [*op.input_tensors, op.output(0)]
    for tensor, buffer in bound_buffers.items():
        if tensor not in tensors:
            what = f"{name} binds a tensor that it does not use"
            names = ", ".join(t.op.name for t in tensors)
            raise ValueError(explain(what, got=tensor.op.name, instead=f"one of {names}"))
        if buffer.dtype != tensor.dtype or len(buffer.shape) != tensor.ndim:
            what = f"{name}: {tensor.op.name} is {tensor.dtype} with {tensor.ndim} dimensions"
            got = f"a buffer of {buffer.dtype} with {len(buffer.shape)}"
            raise ValueError(explain(what, got=got))
    buffers = [
        bound_buffers[t]
        if t in bound_buffers
        else decl_buffer(t.shape, t.dtype, t.op.name, **settings)
        for t in tensors
    ]
    value = fcompute(buffers[:-1], buffers[-1:])
    parts = list(value) if isinstance(value, (tuple, list)) else [value]
    if len(parts) not in (1, 3) or parts[0] is None:
        what = f"{name}: fcompute returns a body, or (body, reset, update)"
        raise ValueError(explain(what, got=f"{len(parts)} statements"))
    body, reset, update = (*map(_stmt, parts), None, None)[:3]
    assert body is not None
    return TensorIntrin(name, op, buffers, body, reset, update)


def _stmt(value: PrimExpr | Stmt | None) -> Stmt | None:
    return value if value is None or isinstance(value, Stmt) else Evaluate(value)
