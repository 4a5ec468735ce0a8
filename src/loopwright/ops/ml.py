"""Operators for ai.onnx.ml's models beyond arithmetic: ensembles of decision trees, and the probabilities
of classes from the classifiers of all pairs of them."""

from __future__ import annotations

from math import isqrt

import numpy as np

from .. import tir
from ..base.errors import explain
from ..ir.prim_expr import IntImm
from ..ir.prim_op import cast, const
from ..relax.struct_info import TensorStructInfo
from .core import case, op
from .extents import differ, extents_of
from .params import Tensor
from .statements import long, written

FOLDS = ("sum", "min", "max")
_BLOCK = 16  # rows of a task, which take trees in turn, while their nodes are in the cache
_TOGETHER = (
    4  # trees that a row walks at once: each step waits for three loads, one after the other
)


@op("relax.ml.tree_ensemble", alone=True, choices={"aggregate": FOLDS})
def tree_ensemble(
    data: Tensor, roots: Tensor, features: Tensor, thresholds: Tensor, children: Tensor,
    targets: Tensor, weights: Tensor, start: Tensor, aggregate: str = "sum",
):  # fmt: skip
    """For each row of data (rows, columns) and each target: `start` (targets,) and the weights of the
    leaves that the row reaches in the trees, added, or the least or greatest of them.

    A node of `features` (nodes,) >= 0 tests one column: from node k a row continues at children[k, 0] where
    its number is at most thresholds[k], else to children[k, 1]; for NaN to children[k, 2]. A node of feature
    -1 is a leaf: it adds weights[e] to targets[e] for e from children[k, 0]
    up to children[k, 1]. `roots` (trees,) are the first nodes. Children have larger numbers than their
    node, so that every walk ends; raises an IndexError where they do not, or where a number is out of range."""
    rows, columns = extents_of(data, "data", None, None)
    (trees,) = extents_of(roots, "roots", None)
    (nodes,) = extents_of(features, "features", None)
    (leaves,) = extents_of(weights, "weights", None)
    (width,) = extents_of(start, "start", None)

    def write(ib, x, root, feature, threshold, child, target, weight, first, out):
        fold = {"sum": lambda a, b: a + b, "min": tir.min, "max": tir.max}[aggregate]
        inside = lambda n, size: tir.checked_index(cast("int64", n), size)  # noqa: E731
        with ib.for_range(
            long(0), (rows + _BLOCK - 1) // _BLOCK, "block", "int64", "parallel"
        ) as b:
            begin = ib.let("begin", b * _BLOCK)
            count = ib.let("count", tir.min(rows - begin, long(_BLOCK)))
            at, tested = (ib.allocate("int64", _TOGETHER, name) for name in ("at", "tested"))
            with ib.for_range(long(0), count, "r") as r, ib.for_range(long(0), width, "c") as c:
                out[begin + r, c] = first[c]
            groups = ib.for_range(long(0), (trees + _TOGETHER - 1) // _TOGETHER, "group")
            with groups as group, ib.for_range(long(0), count, "r") as r:
                row = ib.let("row", begin + r)
                for k in range(_TOGETHER):  # the last group walks the last tree more than once
                    number = tir.min(group * _TOGETHER + k, trees - 1)
                    at[k] = inside(root[number], nodes)
                    tested[k] = cast("int64", feature[at[k]])
                with ib.while_loop(tir.any(*(tested[k] >= 0 for k in range(_TOGETHER)))):
                    for k in range(_TOGETHER):
                        with ib.if_scope(tested[k] >= 0):
                            node = ib.let("node", at[k])
                            value = ib.let("value", x[row, inside(tested[k], columns)])
                            branch = tir.Select(value <= threshold[node], 0, 1)
                            branch = tir.Select(tir.isnan(value), 2, branch)
                            below = ib.let("below", cast("int64", child[node, branch]))
                            at[k] = inside(tir.Select(below > node, below, nodes), nodes)
                            tested[k] = cast("int64", feature[at[k]])
                for k in range(_TOGETHER):
                    with ib.if_scope(group * _TOGETHER + k < trees):
                        base = ib.let("base", child[at[k], 0])
                        with ib.for_range(0, child[at[k], 1] - base, "e") as e:
                            leaf = ib.let("leaf", inside(base + e, leaves))
                            column = ib.let("place", inside(target[leaf], width))
                            out[row, column] = fold(out[row, column], weight[leaf])

    inputs = [data, roots, features, thresholds, children, targets, weights, start]
    return written([(rows, width)], inputs, write, start.dtype, "tree_ensemble")


@tree_ensemble.infer
def _(data, roots, features, thresholds, children, targets, weights, start, aggregate="sum"):
    ranks = {"data": (data, 2), "children": (children, 2)}
    ranks |= {"roots": (roots, 1), "features": (features, 1), "thresholds": (thresholds, 1)}
    ranks |= {"targets": (targets, 1), "weights": (weights, 1), "start": (start, 1)}
    for name, (info, rank) in ranks.items():
        if info.ndim not in (-1, rank):
            raise ValueError(explain(f"{name} must be of rank {rank}", got=f"rank {info.ndim}"))
    for name, (info, _) in ranks.items():
        if name in ("roots", "features", "children", "targets") and str(info.dtype) != "int32":
            raise TypeError(explain(f"{name} must hold int32", got=str(info.dtype)))
    for one, other in ((data, thresholds), (weights, start)):
        if one.dtype != other.dtype:
            what = "data and thresholds, and weights and start, must be of one dtype each"
            raise TypeError(explain(what, got=f"{one.dtype} and {other.dtype}"))
    pairs = [(features, thresholds), (features, children), (targets, weights)]
    for one, other in pairs:
        dims = one.get_shape(), other.get_shape()
        if None not in dims and differ(dims[0][0], dims[1][0]):
            what = "the arrays of nodes, and those of weights, must be of one length"
            raise ValueError(explain(what, got=f"{dims[0][0]} and {dims[1][0]}"))
    if children.get_shape() is not None:
        extents_of(children, "children", None, 3)
    shape, width = data.get_shape(), start.get_shape()
    if shape is None or width is None:
        return TensorStructInfo(dtype=start.dtype, ndim=2)
    return TensorStructInfo([shape[0], width[0]], start.dtype)


@tree_ensemble.numpy
def _(data, roots, features, thresholds, children, targets, weights, start, aggregate="sum"):
    fold = {"sum": np.add, "min": np.minimum, "max": np.maximum}[aggregate]
    out = np.repeat(start[None], len(data), 0)
    rows = np.arange(len(data))
    for root in roots:
        at = np.full(len(data), root)
        while (features[at] >= 0).any():
            inner = features[at] >= 0
            value = data[rows, np.maximum(features[at], 0)]
            branch = np.where(np.isnan(value), 2, np.where(value <= thresholds[at], 0, 1))
            below = children[at, branch]
            if (inner & (below <= at)).any():
                raise IndexError(explain("a child must have a larger number than its node"))
            at = np.where(inner, below, at)
        for row, (first, end, _) in enumerate(children[at]):
            for e in range(first, end):
                out[row, targets[e]] = fold(out[row, targets[e]], weights[e])
    return out


_TREES = (
    np.array([0, 5], np.int32),
    np.array([0, -1, 2, -1, -1, 1, -1, -1], np.int32),
    np.array([0.1, 0, -0.5, 0, 0, 0.3, 0, 0], np.float32),
    np.array(
        [[1, 2, 2], [0, 1, 0], [3, 4, 3], [1, 3, 0], [3, 4, 0], [6, 7, 6], [4, 5, 0], [5, 5, 0]],
        np.int32,
    ),
    np.array([0, 1, 2, 0, 2], np.int32),
    np.array([1, 2, 3, -4, 0.5], np.float32),
    np.array([0, 0.25, 0], np.float32),
)
_ROWS = np.array([[0.1, 0, np.nan], [np.nan, 1, 0], [1, 0.3, -0.5]], np.float32)
tree_ensemble.samples(
    case(_ROWS, *_TREES),
    case(_ROWS, *_TREES, aggregate="max"),
    case(("n", 3), *_TREES, aggregate="min"),
)


_MOST_ROUNDS = 100  # as in libsvm, whose iteration this is


@op("relax.ml.couple_pairs", alone=True)
def couple_pairs(chances: Tensor):
    """The probability of each class (rows, classes) from those of pairs, (rows, classes * (classes - 1)
    / 2): for each i < j that of i, knowing that it is i or j. The second method of Wu, Lin, Weng:
    Probability Estimates for Multi-class Classification by Pairwise Coupling (2004), as libsvm."""
    rows, pairs = extents_of(chances, "chances", None, None)
    kind, k = chances.dtype, _classes(pairs)
    one, zero = const(1, kind), const(0, kind)

    def write(ib, pairwise, out):
        with ib.for_range(long(0), rows, "row", "int64", "parallel") as row:
            r, q = (ib.allocate(kind, k * k, name) for name in ("r", "q"))
            weighted, scratch = ib.allocate(kind, k, "weighted"), ib.allocate(kind, 2, "held")
            number = 0
            for i in range(k):
                for j in range(i + 1, k):
                    r[i * k + j] = pairwise[row, number]
                    r[j * k + i] = one - pairwise[row, number]
                    number += 1
            classes = lambda name: ib.for_range(long(0), long(k), name, "int64")  # noqa: E731
            with classes("t") as t:
                out[row, t] = const(1 / k, kind)
                q[t * k + t] = zero
                with classes("j") as j, ib.if_scope(tir.NE(t, j)):
                    q[t * k + t] = q[t * k + t] + r[j * k + t] * r[j * k + t]
                    q[t * k + j] = -r[j * k + t] * r[t * k + j]
            rounds, total, error = ib.allocate("int32", 1, "rounds"), scratch, scratch
            rounds[0] = const(0, "int32")
            with ib.while_loop(rounds[0] < max(_MOST_ROUNDS, k)):
                total[0] = zero
                with classes("t") as t:
                    weighted[t] = zero
                    with classes("j") as j:
                        weighted[t] = weighted[t] + q[t * k + j] * out[row, j]
                    total[0] = total[0] + out[row, t] * weighted[t]
                error[1] = zero
                with classes("t") as t:
                    error[1] = tir.max(error[1], tir.abs(weighted[t] - total[0]))
                rounds[0] = rounds[0] + 1
                with ib.if_scope(error[1] < const(0.005 / k, kind)):
                    rounds[0] = const(max(_MOST_ROUNDS, k), "int32")
                with ib.else_scope(), classes("t") as t:
                    diff = ib.let("diff", (total[0] - weighted[t]) / q[t * k + t])
                    out[row, t] = out[row, t] + diff
                    step = diff * (diff * q[t * k + t] + const(2, kind) * weighted[t])
                    total[0] = (total[0] + step) / (one + diff) / (one + diff)
                    with classes("j") as j:
                        weighted[j] = (weighted[j] + diff * q[t * k + j]) / (one + diff)
                        out[row, j] = out[row, j] / (one + diff)

    return written([(rows, long(k))], [chances], write, kind, "couple_pairs")


def _classes(pairs):
    """The number of classes that have this number of pairs. Raises ValueError if no number has."""
    count = pairs.value if isinstance(pairs, IntImm) else 0
    k = (1 + isqrt(1 + 8 * count)) // 2
    if not count or k * (k - 1) // 2 != count:
        what = "chances must have a column for each pair of classes"
        raise ValueError(explain(what, got=f"{pairs} columns"))
    return k


@couple_pairs.numpy
def _(chances):
    rows, pairs = chances.shape
    k = (1 + isqrt(1 + 8 * pairs)) // 2
    out = np.full((rows, k), 1 / k, chances.dtype)
    for p, pairwise in zip(out, chances, strict=True):
        r = np.zeros((k, k), chances.dtype)
        r[np.triu_indices(k, 1)] = pairwise
        r += np.tril(1 - r.T, -1)
        q = -r.T * r
        np.fill_diagonal(q, (r * r).sum(0))
        for _ in range(max(_MOST_ROUNDS, k)):
            weighted = q @ p
            total = p @ weighted
            if abs(weighted - total).max() < 0.005 / k:
                break
            for t in range(k):
                diff = (total - weighted[t]) / q[t, t]
                p[t] += diff
                total = (total + diff * (diff * q[t, t] + 2 * weighted[t])) / (1 + diff) ** 2
                weighted = (weighted + diff * q[t]) / (1 + diff)
                p /= 1 + diff
    return out


couple_pairs.samples(case((3, 1), low=0.1, high=0.9), case(("n", 6), low=0.1, high=0.9))
