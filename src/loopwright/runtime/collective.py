"""Collectives between the processes that run one model, over a communicator that the caller brings.

exe.run(feeds, comm=MPI.COMM_WORLD)             # of mpi4py
with runtime.communicator(MPI.COMM_WORLD):      # the same for other calls
    exe["main"](x)

Other communicators are objects with `rank`, `size`, `allreduce(array, op)` and `broadcast(array, root)`, both
in place, and `allgather(part, whole)`; op is "sum", "prod", "min" or "max". The operators of `relax.ccl` call the
functions here under TVM's names. Its sessions (`runtime.disco`) are not here: processes are started by
the caller's launcher.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np

from ..base.errors import LoopwrightError, explain
from .packed_func import register_func
from .tensor import from_dlpack

_PARTS = ("rank", "size", "allreduce", "broadcast", "allgather")
OPS = ("sum", "prod", "min", "max", "avg")  # in the order of TVM's numbers


class Communicator(Protocol):
    """The parts of a communicator; that of mpi4py is taken as it is."""

    rank: int
    size: int

    def allreduce(self, array: np.ndarray, op: str) -> None: ...
    def broadcast(self, array: np.ndarray, root: int) -> None: ...
    def allgather(self, part: np.ndarray, whole: np.ndarray) -> None: ...


class Alone:
    """The communicator of one process."""

    rank, size = 0, 1

    def allreduce(self, array: np.ndarray, op: str) -> None:
        """The array is the result."""

    def broadcast(self, array: np.ndarray, root: int) -> None:
        """The array is the result."""

    def allgather(self, part: np.ndarray, whole: np.ndarray) -> None:
        """The part is the whole."""
        whole[...] = part.reshape(whole.shape)


class _OfMPI:
    """The communicator of mpi4py, which calls these methods by other names."""

    def __init__(self, comm: Any) -> None:
        self.comm, self.rank, self.size = comm, comm.Get_rank(), comm.Get_size()
        self.mpi: Any = sys.modules["mpi4py.MPI"]

    def allreduce(self, array: np.ndarray, op: str) -> None:
        self.comm.Allreduce(self.mpi.IN_PLACE, array, getattr(self.mpi, op.upper()))

    def broadcast(self, array: np.ndarray, root: int) -> None:
        self.comm.Bcast(array, root)

    def allgather(self, part: np.ndarray, whole: np.ndarray) -> None:
        self.comm.Allgather(part, whole)


COMMUNICATOR: ContextVar[Communicator | None] = ContextVar("communicator", default=None)


@contextmanager
def communicator(comm: Any) -> Iterator[None]:
    """Calls of models within the context are those of one worker of several. Raises TypeError for an object
    that is not a communicator."""
    if hasattr(comm, "Allreduce"):
        comm = _OfMPI(comm)
    missing = [name for name in _PARTS if not hasattr(comm, name)]
    if missing:
        what = "a communicator has rank, size, allreduce, broadcast and allgather"
        raise TypeError(explain(what, got=f"{type(comm).__name__} without {', '.join(missing)}"))
    token = COMMUNICATOR.set(comm)
    try:
        yield
    finally:
        COMMUNICATOR.reset(token)


def current(workers: int | None = None) -> Communicator:
    """The communicator of this call. Raises LoopwrightError without one, and for another number of workers."""
    comm = COMMUNICATOR.get()
    if comm is None or workers not in (None, comm.size):
        several = "several workers" if workers is None else f"{workers} workers"
        got = "no communicator" if comm is None else f"a communicator of {comm.size}"
        hint = "exe.run(feeds, comm=MPI.COMM_WORLD), or with runtime.communicator(...)"
        raise LoopwrightError(explain(f"this model is one of {several}", got=got, instead=hint))
    return comm


def allreduce(array: np.ndarray, op: str = "sum") -> np.ndarray:
    """The sum ("prod", "min", "max", "avg") of the workers' arrays."""
    comm, result = current(), _plain(array)
    comm.allreduce(result, "sum" if op == "avg" else op)
    return (result / comm.size if op == "avg" else result).astype(array.dtype, copy=False)


def broadcast(array: np.ndarray) -> np.ndarray:
    """The first worker's array."""
    result = np.array(array, order="C")
    current().broadcast(result.reshape(-1).view(np.uint8), 0)
    return result


def allgather(array: np.ndarray, workers: int) -> np.ndarray:
    """The workers' arrays, joined along the first axis."""
    part = np.ascontiguousarray(array)
    whole = np.empty((workers * array.shape[0], *array.shape[1:]), array.dtype)
    current(workers).allgather(*(a.reshape(-1).view(np.uint8) for a in (part, whole)))
    return whole


def scatter(array: np.ndarray, workers: int, axis: int) -> np.ndarray:
    """This worker's part of the first one's array."""
    comm = current(workers)
    return np.split(broadcast(array), workers, axis)[comm.rank]


def _plain(array: np.ndarray) -> np.ndarray:
    """A copy to reduce: of float32 where communicators do not know the dtype."""
    return np.array(
        array,
        order="C",
        dtype=np.float32 if array.dtype.itemsize == 2 and array.dtype.kind not in "iu" else None,
    )


# ---------------------------------------------------------------------- for compiled code


def _function(name: str, compute: Callable[..., np.ndarray]) -> None:
    def call(x: Any, *options: Any) -> None:
        *rest, out = options
        target = from_dlpack(out).view()
        target[...] = compute(from_dlpack(x).view(), target, *rest).reshape(target.shape)

    register_func(f"runtime.disco.{name}", call)


def _number(value: Any) -> int:
    """A number, or the shape that TVM passes one in."""
    return int(value[0]) if isinstance(value, tuple) else int(value)


def _workers(x: np.ndarray, out: np.ndarray) -> int:
    return max(out.size, 1) // max(x.size, 1)


_function("allreduce", lambda x, out, op, in_group: allreduce(x, OPS[_number(op)]))
_function("broadcast_from_worker0", lambda x, out, in_group: broadcast(x))
_function("allgather", lambda x, out, in_group: allgather(x, _workers(x, out)))
_function("scatter_from_worker0", lambda x, out, axis: scatter(x, _workers(out, x), _number(axis)))
