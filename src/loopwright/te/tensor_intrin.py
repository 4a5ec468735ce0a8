"""`decl_tensor_intrin`: statements that implement a small tensor expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.errors import explain
from ..ir.prim_expr import Range, Var
from ..ir.prim_op import const
from ..tir import Schedule as TirSchedule
from ..tir.buffer import Buffer, BufferRegion, decl_buffer
from ..tir.function import PrimFunc
from ..tir.function import TensorIntrin as TirTensorIntrin
from ..tir.stmt import Block, BlockRealize, Evaluate, Stmt
from .prim_func import create_prim_func
from .tensor import ComputeOp, Operation, Tensor


class TensorIntrin:
    """A computation `op` and its implementation: `body` computes all of it; for a reduction,
    `reset` sets the result to the identity and `update` accumulates one part of the reduction."""

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

    def whole(self) -> TirTensorIntrin:
        """The intrinsic that computes the result at once."""
        return TirTensorIntrin(self.desc(), self.impl(self.body, self.buffers, self.buffers[:-1]))

    def in_steps(self) -> tuple[TirTensorIntrin, TirTensorIntrin]:
        """(reset, update). Raises ValueError if it was declared without them."""
        if self.reset is None or self.update is None:
            what = f"{self.name} is used inside of a reduction, of which it does a part"
            hint = "fcompute gives (body, reset, update), or tensorize the whole reduction"
            raise ValueError(
                explain(what, got="an intrinsic without reset or update", instead=hint)
            )
        sch = TirSchedule(self.desc())
        block = sch.get_child_blocks(sch.get_block("root"))[0]
        # At the outermost loop the two are adjacent, each with its own loops.
        init = sch.decompose_reduction(block, sch.get_loops(block)[0])
        func = sch.mod["main"]
        first, then = (sch.get(sch.get_loops(b)[0]) for b in (init, block))
        result = self.buffers[-1:]
        reset = self.impl(self.reset, result, reads=())
        update = self.impl(self.update, self.buffers, reads=self.buffers)
        return (
            TirTensorIntrin(_only(func, first, func.params[-1:]), reset),
            TirTensorIntrin(_only(func, then, func.params), update),
        )

    def desc(self) -> PrimFunc:
        """The computation as a function of its inputs and result."""
        return create_prim_func([*self.op.input_tensors, self.op.output(0)])

    def impl(self, body: Stmt, buffers: list[Buffer], reads: Any) -> PrimFunc:
        """The statements as a function with the same signature."""
        block = Block(
            (), [_whole(b) for b in reads], [_whole(b) for b in buffers[-1:]], "root", body
        )
        params = [Var(f"var_{b.name}", "handle") for b in buffers]
        realize = BlockRealize((), const(True), block)
        return PrimFunc(params, realize, None, dict(zip(params, buffers, strict=True)))


def _whole(buffer: Buffer) -> BufferRegion:
    ranges = [Range.upto(e) for e in buffer.shape]
    return BufferRegion(buffer, tuple(ranges))


def _only(func: PrimFunc, nest: Stmt, params: Any) -> PrimFunc:
    """The function with one of its loop nests, and the parameters used in it."""
    root: Any = func.body
    body = root.replace(block=root.block.replace(body=nest))
    return func.replace(
        params=tuple(params), buffer_map={p: func.buffer_map[p] for p in params}, body=body
    )


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[..., Any],
    name: str = "tensor_intrin",
    binds: dict[Tensor, Buffer] | None = None,
    scalar_params: Any = None,
    default_buffer_params: dict[str, Any] | None = None,
) -> TensorIntrin:
    """An intrinsic for `s[C].tensorize(loop, intrin)`.

    `op` is the computation, a compute of one result over placeholders. `fcompute(ins, outs)`
    is given buffers and returns the statement; or (body, reset, update) for a reduction of
    which one call computes a part. `binds` gives the buffers of some tensors, with variable strides
    if the program's may not be compact; the others are declared with
    `default_buffer_params` (`decl_buffer`'s).

    Raises ValueError for another kind of operation.
    """
    if not isinstance(op, ComputeOp) or op.num_outputs != 1:
        what = "decl_tensor_intrin describes a compute of one result"
        raise ValueError(explain(what, got=str(op), instead="C.op of a te.compute"))
    if scalar_params:
        what = f"{name}: scalar parameters are not passed to intrinsics"
        raise ValueError(explain(what, got=str(scalar_params), instead="read them from a tensor"))
    given = binds or {}
    settings = {"offset_factor": 1, **(default_buffer_params or {})}
    tensors = [*op.input_tensors, op.output(0)]
    for tensor, buffer in given.items():
        if tensor not in tensors:
            what = f"{name} binds a tensor that it does not use"
            known = ", ".join(t.op.name for t in tensors)
            raise ValueError(explain(what, got=tensor.op.name, instead=f"one of {known}"))
        if buffer.dtype != tensor.dtype or len(buffer.shape) != tensor.ndim:
            what = f"{name}: {tensor.op.name} is {tensor.dtype} with {tensor.ndim} dimensions"
            got = f"a buffer of {buffer.dtype} with {len(buffer.shape)}"
            raise ValueError(explain(what, got=got))
    buffers = [
        given[t] if t in given else decl_buffer(t.shape, t.dtype, t.op.name, **settings)
        for t in tensors
    ]
    value = fcompute(buffers[:-1], buffers[-1:])
    parts = list(value) if isinstance(value, (tuple, list)) else [value]
    if len(parts) not in (1, 3) or parts[0] is None:
        what = f"{name}: fcompute gives a body, or (body, reset, update)"
        raise ValueError(explain(what, got=f"{len(parts)} statements"))
    body, reset, update = (*map(_stmt, parts), None, None)[:3]
    assert body is not None
    return TensorIntrin(name, op, buffers, body, reset, update)


def _stmt(value: Any) -> Stmt | None:
    return value if value is None or isinstance(value, Stmt) else Evaluate(value)


__all__ = ["TensorIntrin", "decl_tensor_intrin"]
