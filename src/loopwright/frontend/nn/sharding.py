"""Models of several workers: how parameters are cut, and the part of each worker.

    self.up = nn.Linear(64, 256, shard="column", tensor_parallel_shards=2)
    self.down = nn.Linear(256, 64, shard="row", tensor_parallel_shards=2)
    own = nn.shard_params(model, weights, rank)       # this worker's weights

A column-parallel layer computes a part of its features; the row-parallel one after it takes these and adds up the
workers' results (`relax.ccl.allreduce`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.errors import explain
from .core import Module, Parameter

STRATEGY = "shard_strategy"  # the key of a parameter's attributes, as MLC has it


@dataclass(frozen=True)
class ShardSingleDim:
    """A parameter is cut along one dimension; with `segs`, each of the segments that it is joined of, such as
    those of queries, keys and values.

    >>> nn.ShardSingleDim("rows", dim=0).part(np.arange(8), rank=1, shards=2)
    array([4, 5, 6, 7])
    """

    name: str
    dim: int
    segs: Sequence[int] | None = None

    def part(self, array: np.ndarray, rank: int, shards: int) -> np.ndarray:
        """The part of a worker. Raises ValueError for what cannot be cut into equal parts."""
        sizes = [array.shape[self.dim]] if self.segs is None else list(self.segs)
        if any(size % shards for size in sizes) or sum(sizes) != array.shape[self.dim]:
            what = f"{self.name}: dimension {self.dim} is cut into {shards} equal parts"
            raise ValueError(explain(what, got=f"{array.shape}, segments {sizes}"))
        segments = np.split(array, np.cumsum(sizes)[:-1], self.dim)
        parts = [np.split(segment, shards, self.dim)[rank] for segment in segments]
        return np.ascontiguousarray(np.concatenate(parts, self.dim))


def mark(parameter: Parameter, name: str, dim: int) -> Parameter:
    """The parameter, of which each worker has a part."""
    parameter.attrs[STRATEGY] = ShardSingleDim(name, dim)
    return parameter


def shard_params(module: Module, params: Mapping[str, Any], rank: int) -> dict[str, np.ndarray]:
    """The weights of one worker, of those of the whole model by path. Parameters without a strategy are
    every worker's. Raises KeyError for a missing one, ValueError for another shape.

    >>> layer = nn.Linear(4, 8, bias=False, shard="column", tensor_parallel_shards=2)
    >>> nn.shard_params(layer, {"weight": np.ones((8, 4), "float32")}, rank=0)["weight"].shape
    (4, 4)
    """
    result = {}
    for path, parameter in module.named_parameters():
        array, strategy = np.asarray(params[path]), parameter.attrs.get(STRATEGY)
        own = tuple(parameter.shape)
        if strategy is not None:
            shards = array.shape[strategy.dim] // int(own[strategy.dim])
            array = strategy.part(array, rank, shards)
        if array.shape != own:
            what = f"parameter {path} of a worker has the shape {own}"
            raise ValueError(explain(what, got=array.shape))
        result[path] = array
    return result


def split_features(count: Any, shards: int, what: str) -> Any:
    """The features of one worker. Raises ValueError where they cannot be cut into equal parts."""
    if shards < 1 or (shards > 1 and (not isinstance(count, int) or count % shards)):
        raise ValueError(explain(f"{what} are cut into {shards} equal parts", got=count))
    return count if shards == 1 else count // shards
