"""Models of several workers, as `mpirun -n 2 python -m mpi4py -m tests.engines.sharded WHAT` runs one.

TIMES=1 prints the time of one process of two threads, too; SIZES=2048,5632,32 makes a block of a llama's size.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import numpy as np

import loopwright as lw
from loopwright import relax
from loopwright.frontend import nn

SIZE, HIDDEN, HEADS = map(int, os.environ.get("SIZES", "256,704,8").split(","))
LENGTH = 64


class MLP(nn.Module):
    """Two layers, cut by columns, then by rows."""

    def __init__(self, shards: int, size: int = SIZE, hidden: int = HIDDEN) -> None:
        cut = {"tensor_parallel_shards": shards}
        self.up = nn.Linear(size, hidden, shard="column", **cut)
        self.down = nn.Linear(hidden, size, shard="row", **cut)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        return self.down(nn.op.relu(self.up(x)))


class Block(nn.Module):
    """A block of a llama: attention and a gated MLP, each after a norm. Each worker has its heads."""

    def __init__(self, shards: int) -> None:
        cut: Any = {"bias": False, "tensor_parallel_shards": shards}
        self.heads = HEADS // shards
        self.before = nn.RMSNorm(SIZE, axes=-1, bias=False)
        for name in "qkv":
            setattr(self, name, nn.Linear(SIZE, SIZE, shard="column", **cut))
        self.out = nn.Linear(SIZE, SIZE, shard="row", **cut)
        self.after = nn.RMSNorm(SIZE, axes=-1, bias=False)
        self.gate = nn.Linear(SIZE, HIDDEN, shard="column", **cut)
        self.up = nn.Linear(SIZE, HIDDEN, shard="column", **cut)
        self.down = nn.Linear(HIDDEN, SIZE, shard="row", **cut)

    def forward(self, x: nn.Tensor) -> nn.Tensor:
        op, normed = nn.op, self.before(x)
        parts = (self.q(normed), self.k(normed), self.v(normed))
        q, k, v = (op.reshape(p, (1, LENGTH, self.heads, SIZE // HEADS)) for p in parts)
        seen = op.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(op.reshape(seen, (1, LENGTH, self.heads * SIZE // HEADS)))
        normed = self.after(x)
        return x + self.down(op.silu(self.gate(normed)) * self.up(normed))


MODELS = {"mlp": (MLP, (LENGTH, SIZE)), "block": (Block, (1, LENGTH, SIZE))}


def whole(kind: str) -> dict[str, np.ndarray]:
    """The weights of the whole model."""
    rng = np.random.default_rng(0)
    shapes = {n: p.shape for n, p in MODELS[kind][0](1).named_parameters()}
    return {n: (rng.standard_normal(s) / SIZE**0.5).astype("float32") for n, s in shapes.items()}


def compiled(kind: str, shards: int, rank: int, threads: int) -> Any:
    """The model of one of the workers, with its weights."""
    cls, shape = MODELS[kind]
    model = cls(shards)
    mod, _ = model.export_tvm({"forward": {"x": nn.spec.Tensor(shape, "float32")}})
    own = nn.shard_params(model, whole(kind), rank)
    bound = relax.transform.BindParams("forward", own)(mod)
    return lw.compile(bound, threads=threads)


def feeds(kind: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {"x": rng.standard_normal(MODELS[kind][1]).astype("float32")}


def median_ms(call: Any, number: int = 50) -> float:
    times = []
    for _ in range(number):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return float(np.median(times)) * 1e3


def main(what: str) -> None:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    if what in ("raise", "kill"):
        exe = compiled("mlp", size, rank, 1)
        for step in range(1000):
            if rank == 1 and step == 3:
                if what == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("this worker has a fault")
            exe.run(feeds("mlp"), function="forward", comm=comm)
        return
    exe, x = compiled(what, size, rank, 1), feeds(what)

    def run() -> Any:
        return exe.run(x, function="forward", comm=comm)["out"]

    result = np.asarray(run())
    own = np.asarray(compiled(what, 1, 0, 1).run(x, function="forward")["out"])
    error = np.abs(result - own).max() / np.abs(own).max()
    assert error < 1e-5, error
    comm.Barrier()
    time_of_both = median_ms(run)
    comm.Barrier()
    if rank == 0:
        one = compiled(what, 1, 0, 2)
        print(f"{what}: error {error:.1e}, {time_of_both:.2f} ms on {size} ranks, ", end="")
        if os.environ.get("TIMES"):
            print(f"{median_ms(lambda: one.run(x, function='forward')):.2f} ms in one", end="")
        print(flush=True)
    comm.Barrier()


if __name__ == "__main__":
    main(sys.argv[1])
