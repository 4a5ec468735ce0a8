"""Builders of the operators `ccl.*`.

Made by `python -m tools.make_stubs`.
"""

from loopwright.relax.expr import Call as _Call, TensorLike as _TensorLike

def allgather(x: _TensorLike, num_workers: int, in_group: bool = True) -> _Call: """All workers' tensors, joined along the first axis."""
def allreduce(x: _TensorLike, op_type: str = 'sum', in_group: bool = True) -> _Call: """The sum of all workers' tensors (op_type: "sum", "prod", "min", "max", "avg")."""
def broadcast_from_worker0(x: _TensorLike) -> _Call: """The first worker's tensor."""
def scatter_from_worker0(x: _TensorLike, num_workers: int, axis: int = 0) -> _Call: """This worker's part of the first one's tensor, which is cut along `axis`."""
