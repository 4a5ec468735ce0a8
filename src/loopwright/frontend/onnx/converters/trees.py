"""ai.onnx.ml's ensembles of decision trees, as the arrays that `relax.ml.tree_ensemble` walks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....base import budget
from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....relax import op
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter
from .ml import DOMAIN, both_classes, class_labels, floating, transformed

_MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")  # as TreeEnsemble numbers them
_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER = range(7)
_LEAF = -1
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass
class _Forest:
    """An ensemble as its file has it. Of each node its mode (or _LEAF), the tested feature, the next node
    from it, and the weights of a leaf, sorted by node: `first` (nodes + 1,) is where each one's are."""

    mode: np.ndarray
    feature: np.ndarray
    split: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    missing: np.ndarray  # whether NaN takes the branch `yes`
    roots: np.ndarray
    first: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    members: list[np.ndarray]  # of the nodes of mode MEMBER, in order


def _same_length(**arrays: np.ndarray[Any, Any] | Sequence[str | int]) -> None:
    sizes = {name: len(values) for name, values in arrays.items()}
    if len(set(sizes.values())) > 1:
        what = "these attributes must be of one length"
        raise ValueError(explain(what, got=", ".join(f"{k} {v}" for k, v in sizes.items())))


def _numbers(node: Node, name: str, dtype: type | None = None) -> np.ndarray:
    """Floats that an attribute or its form as a tensor has; as `dtype`."""
    tensor, values = node.tensor(f"{name}_as_tensor", None), node.reals(name, None)
    if tensor is not None:
        return np.asarray(tensor).ravel().astype(dtype or tensor.dtype)
    return np.asarray([] if values is None else values, dtype or np.float32)


def _precision(x: Value) -> Any:
    return np.float64 if x.dtype == "float64" else np.float32


def _by_names(node: Node, leaves: str, dtype: type) -> _Forest:
    """The ensemble of TreeEnsembleClassifier and Regressor, whose nodes have names (tree, node) and
    whose leaves' weights are the attributes `leaves`_treeids, _nodeids, _ids, _weights."""
    node.skip("nodes_hitrates", "nodes_hitrates_as_tensor")
    names = ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")
    tree, own, feature, yes, no = (
        np.asarray(node.integers(f"nodes_{name}"), np.int64) for name in names
    )
    modes = node.texts("nodes_modes")
    split = _numbers(node, "nodes_values", dtype)
    count = len(tree)
    missing = np.asarray(node.integers("nodes_missing_value_tracks_true", [0] * count), bool)
    missing = missing if len(missing) else np.zeros(count, bool)
    _same_length(nodes_treeids=tree, nodes_nodeids=own, nodes_featureids=feature, nodes_modes=modes,
                 nodes_values=split, nodes_truenodeids=yes, nodes_falsenodeids=no,
                 nodes_missing_value_tracks_true=missing)  # fmt: skip
    mode_of = {"LEAF": _LEAF, **{f"BRANCH_{name}": k for k, name in enumerate(_MODES[:_MEMBER])}}
    unknown = sorted(set(modes) - set(mode_of))
    if unknown:
        raise ValueError(
            explain("unknown mode of a node", got=unknown[0], instead=", ".join(mode_of))
        )
    mode = np.asarray([mode_of[m] for m in modes], np.int64)
    index_of = {key: k for k, key in enumerate(zip(tree.tolist(), own.tolist(), strict=True))}
    if len(index_of) != count:
        raise ValueError(explain("two nodes of a tree have one number", got=f"{count} nodes"))

    def nodes_at(
        trees: np.ndarray[Any, Any] | Sequence[int],
        nodes: np.ndarray[Any, Any] | Sequence[int],
        what: str,
    ) -> np.ndarray:
        keys = zip(np.asarray(trees).tolist(), np.asarray(nodes).tolist(), strict=True)
        at = [index_of.get(key, -1) for key in keys]
        if -1 in at:
            raise ValueError(explain(f"attribute {what} names a node that is not there"))
        return np.asarray(at, np.int64)

    inner = mode != _LEAF
    for child, name in ((yes, "truenodeids"), (no, "falsenodeids")):
        child[inner] = nodes_at(tree[inner], child[inner], f"nodes_{name}")
    trees, nodes = (node.integers(f"{leaves}_{k}ids") for k in ("tree", "node"))
    target = np.asarray(node.integers(f"{leaves}_ids"), np.int64)
    weight = _numbers(node, f"{leaves}_weights", dtype)
    _same_length(**{f"{leaves}_treeids": trees, f"{leaves}_nodeids": nodes, f"{leaves}_ids": target,
                    f"{leaves}_weights": weight})  # fmt: skip
    at = nodes_at(trees, nodes, f"{leaves}_nodeids")
    order = np.argsort(at, kind="stable")
    first = np.searchsorted(at[order], np.arange(count + 1))
    roots = np.unique(tree, return_index=True)[1]
    return _Forest(mode, feature, split, yes, no, missing, np.sort(roots), first, target[order],
                   weight[order], [])  # fmt: skip


def _by_indices(node: Node, dtype: type[np.float32]) -> _Forest:
    """The ensemble of TreeEnsemble: its leaves become nodes, one for each way to it."""
    node.skip("nodes_hitrates")
    names = ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs")
    feature, yes, no, yes_leaf, no_leaf = (
        np.asarray(node.integers(f"nodes_{name}"), np.int64) for name in names
    )
    mode = np.asarray(node.tensor("nodes_modes"), np.int64).ravel()
    split = np.asarray(node.tensor("nodes_splits"), dtype).ravel()
    count = len(mode)
    missing = np.asarray(node.integers("nodes_missing_value_tracks_true", [0] * count), bool)
    target = np.asarray(node.integers("leaf_targetids"), np.int64)
    weight = np.asarray(node.tensor("leaf_weights"), dtype).ravel()
    roots = np.asarray(node.integers("tree_roots"), np.int64)
    _same_length(nodes_modes=mode, nodes_splits=split, nodes_featureids=feature,
                 nodes_truenodeids=yes, nodes_falsenodeids=no, nodes_trueleafs=yes_leaf,
                 nodes_falseleafs=no_leaf, nodes_missing_value_tracks_true=missing)  # fmt: skip
    _same_length(leaf_targetids=target, leaf_weights=weight)
    if ((mode < 0) | (mode > _MEMBER)).any():
        raise ValueError(explain("unknown mode of a node", got=mode.max(), instead="0 to 6"))
    if count == 0 or (len(roots) and not 0 <= roots.min() <= roots.max() < count):
        raise ValueError(explain("attribute tree_roots names a node that is not there"))
    leaves = []
    for child, leaf, name in ((yes, yes_leaf, "true"), (no, no_leaf, "false")):
        at = np.flatnonzero(leaf)
        own, limits = child[at], (len(target), count)
        inner = child[leaf == 0]
        for indices, limit in ((own, limits[0]), (inner, limits[1])):
            if len(indices) and not 0 <= indices.min() <= indices.max() < limit:
                raise ValueError(explain(f"attribute nodes_{name}nodeids is out of range"))
        child[at] = count + sum(map(len, leaves)) + np.arange(len(at))
        leaves.append(own)
    own = np.concatenate(leaves)
    more = len(own)
    first = np.concatenate([np.zeros(count, np.int64), np.arange(more + 1)])
    members_tensor, members = node.tensor("membership_values", None), []
    if members_tensor is not None:
        ends = np.flatnonzero(np.isnan(members_tensor))
        members = [m[~np.isnan(m)] for m in np.split(np.asarray(members_tensor, dtype), ends)]
    if len(members) < (mode == _MEMBER).sum():
        raise ValueError(explain("attribute membership_values has too few lists"))
    zeros = np.zeros(more, np.int64)
    mode = np.concatenate([mode, zeros + _LEAF])
    yes, no, feature = (np.concatenate([v, zeros]) for v in (yes, no, feature))
    split, missing = np.concatenate([split, zeros]), np.concatenate([missing, zeros != 0])
    return _Forest(mode, feature, split.astype(dtype), yes, no, missing, roots, first, target[own],
                   weight[own], members)  # fmt: skip


def _in_order(f: _Forest) -> np.ndarray:
    """The nodes that the roots reach, each before its children, level by level."""
    level, levels = f.roots, []
    seen = np.zeros(len(f.mode), bool)
    while len(level):
        again = seen[level].any() or len(np.unique(level)) < len(level)
        if again:
            what = "a node of the ensemble has two ways to it"
            raise ValueError(explain(what, instead="trees, whose nodes have one parent each"))
        seen[level] = True
        levels.append(level)
        inner = level[f.mode[level] != _LEAF]
        level = np.stack([f.yes[inner], f.no[inner]], 1).ravel()
    return np.concatenate([np.zeros(0, np.int64), *levels])


def _below(split: np.ndarray) -> np.ndarray:
    """The greatest number below each; nothing is <= that of the lowest, NaN."""
    lower = np.nextafter(split, split.dtype.type(-np.inf))
    return np.where(split == -np.inf, np.nan, lower).astype(split.dtype)


def _flat(f: _Forest, columns: PrimExpr | int) -> list[np.ndarray]:
    """roots, features, thresholds, children, targets, weights: every test becomes `<=`, a test for
    equality two of them."""
    order = _in_order(f)
    mode, split = f.mode[order], f.split[order]
    feature = np.where(mode == _LEAF, -1, f.feature[order])
    most = int(feature.max(initial=-1))
    if ((feature < 0) & (mode != _LEAF)).any() or (isinstance(columns, int) and most >= columns):
        what = "attribute nodes_featureids names a column that is not there"
        raise ValueError(explain(what, got=most, instead=f"0 to {columns - 1}"))
    if mode.max(initial=_LEAF) == _MEMBER:
        return _with_members(f, columns)
    double = (mode == _EQ) | (mode == _NEQ)
    start = np.cumsum(1 + double) - (1 + double)
    position = np.zeros(len(f.mode), np.int64)  # of a node in the new arrays
    position[order] = start
    leaf = mode == _LEAF
    yes, no = (
        np.where(leaf, 0, position[np.where(leaf, 0, child[order])]) for child in (f.yes, f.no)
    )
    never = np.isnan(split)
    lost = np.where(f.missing[order] | (mode == _NEQ), yes, no)
    swapped = ((mode == _GTE) | (mode == _GT)) & ~never
    low, high = np.where(swapped, no, yes), np.where(swapped, yes, no)
    limit = np.where((mode == _LT) | (mode == _GTE), _below(split), split).astype(split.dtype)
    equal, other = np.where(mode == _EQ, yes, no), np.where(mode == _EQ, no, yes)
    low, high = np.where(double, start + 1, low), np.where(double, other, high)
    first, end = f.first[order], f.first[order + 1]
    low, high = np.where(leaf, first, low), np.where(leaf, end, high)
    count = int((1 + double).sum())
    features, thresholds = np.full(count, -1, np.int32), np.zeros(count, split.dtype)
    children = np.zeros((count, 3), np.int32)
    features[start], thresholds[start] = feature, limit
    children[start] = np.stack([low, high, np.where(leaf, 0, lost)], 1)
    second = start[double] + 1
    features[second], thresholds[second] = feature[double], _below(split[double])
    children[second] = np.stack([other, equal, lost], 1)[double]
    roots = position[f.roots].astype(np.int32)
    return [roots, features, thresholds, children, f.target.astype(np.int32), f.weight]


def _with_members(f: _Forest, columns: int | PrimExpr) -> list[np.ndarray]:
    """`_flat` of an ensemble whose tests for one of several numbers become tests for each: what
    equals it continues at `yes`, the child of the last of them."""
    mode, feature, split, yes, no, missing = (
        list(v) for v in (f.mode, f.feature, f.split, f.yes, f.no, f.missing)
    )
    copies = list(range(len(mode)))  # the node whose leaf a new node is
    which = np.flatnonzero(f.mode == _MEMBER)
    for at, members in zip(which, f.members, strict=False):
        if f.mode[yes[at]] != _LEAF and len(members) > 1:
            what = "a test for membership that leads to another test"
            raise ValueError(explain(what, instead="several tests for equality"))
        mode[at], split[at] = (_EQ, members[0]) if len(members) else (_EQ, np.nan)
        for value in members[1:]:  # no -> another test with a leaf of its own
            fresh = len(mode)
            mode += [_EQ, _LEAF]
            feature += [feature[at], 0]
            split += [value, 0]
            missing += [missing[at], False]
            copies += [copies[at], copies[yes[at]]]
            yes += [fresh + 1, 0]
            no += [no[at], 0]
            no[at], at = fresh, fresh
    sizes = np.diff(f.first)[copies]
    spans = [np.arange(f.first[k], f.first[k + 1]) for k in copies]
    own = np.concatenate([np.zeros(0, np.int64), *spans])
    first = np.concatenate([[0], np.cumsum(sizes)])
    arrays = (np.asarray(v) for v in (mode, feature, split, yes, no, missing))
    m, c, s, y, n, lost = arrays
    grown = _Forest(m, c, s.astype(f.split.dtype), y, n, lost, f.roots, first, f.target[own],
                    f.weight[own], [])  # fmt: skip
    return _flat(grown, columns)


def _scores(cx: Context, x: Value, f: _Forest, width: int, start: np.ndarray, how: str) -> Value:
    """(rows, width): the sum of the trees' outputs, from `start`."""
    if len(f.target) and not 0 <= f.target.min() <= f.target.max() < width:
        what = "a leaf adds to a target that does not exist"
        raise ValueError(explain(what, got=f.target.max(), instead=f"0 to {width - 1}"))
    if x.ndim != 2:
        raise ValueError(explain("input X must be a matrix", got=str(x.info)))
    columns = literal(x.shape[1])
    arrays = _flat(f, columns)
    if not isinstance(columns, int):
        needed = int(arrays[1].max(initial=0)) + 1
        x = cx.value(op.strided_slice(x.expr, [1], [0], [needed]))
        x = cx.with_dims(x, {1: needed})
    arrays.append(start.astype(f.weight.dtype))
    kind = {"AVERAGE": "sum"}.get(how, how.lower())
    return cx.value(op.ml.tree_ensemble(x.expr, *map(cx.constant, arrays), kind))


def _regression(cx: Context, x: Value, f: _Forest, width: int, base: np.ndarray, how: str) -> Value:
    """The scores of a regression."""
    if how not in _AGGREGATES:
        what = "unknown aggregate_function"
        raise ValueError(explain(what, got=how, instead=", ".join(_AGGREGATES)))
    budget.spend(size=8 * width)
    if len(base) not in (0, 1, width):
        raise ValueError(explain("base_values must be one for each target", got=len(base)))
    base = np.broadcast_to(base, width) if len(base) else np.zeros(width)
    if how == "SUM":
        return _scores(cx, x, f, width, base, how)
    if how == "AVERAGE":
        f.weight = (f.weight / max(len(f.roots), 1)).astype(f.weight.dtype)
        return _scores(cx, x, f, width, base, how)
    start = np.full(width, np.inf if how == "MIN" else -np.inf)
    scores, o = _scores(cx, x, f, width, start, how), cx.onnx
    zero = np.zeros((), f.weight.dtype)  # where a row comes to no leaf of a target, as onnxruntime
    return o.Where(o.IsInf(scores), zero, o.Add(scores, base.astype(f.weight.dtype)))


@converter("TreeEnsembleRegressor", 1, DOMAIN)
def tree_ensemble_regressor(cx: Context, node: Node, x: Value) -> Any:
    x = floating(cx, x)
    dtype = _precision(x)
    f = _by_names(node, "target", dtype)
    width = node.integer("n_targets", 1)
    base, how = _numbers(node, "base_values", dtype), node.text("aggregate_function", "SUM")
    out = _regression(cx, x, f, width, base, how)
    out = transformed(cx, out, node.text("post_transform", "NONE"))
    return cx.onnx.Cast(out, to=1)


@converter("TreeEnsemble", 5, DOMAIN)
def tree_ensemble(cx: Context, node: Node, x: Value) -> Any:
    dtype = x.dtype
    wide = cx.onnx.Cast(x, to=1) if dtype == "float16" else x
    f = _by_indices(node, _precision(x))
    how, transform = node.integer("aggregate_function", 1), node.integer("post_transform", 0)
    if not (0 <= how < len(_AGGREGATES) and 0 <= transform < len(_TRANSFORMS)):
        what = "unknown aggregate_function or post_transform"
        raise ValueError(explain(what, got=f"{how} and {transform}"))
    width = node.integer("n_targets")
    out = _regression(cx, wide, f, width, np.zeros(0), _AGGREGATES[how])
    out = transformed(cx, out, _TRANSFORMS[transform])
    return out if out.dtype == dtype else op.astype(out.expr, str(dtype))


@converter("TreeEnsembleClassifier", 1, DOMAIN)
def tree_ensemble_classifier(cx: Context, node: Node, x: Value) -> Any:
    x = floating(cx, x)
    dtype = _precision(x)
    f = _by_names(node, "class", dtype)
    labels = class_labels(node, "classlabels_int64s")
    base, transform = _numbers(node, "base_values", dtype), node.text("post_transform", "NONE")
    count, o = len(labels), cx.onnx
    if count > 2 or len(np.unique(f.target)) > 1:
        if len(base) not in (0, count):
            raise ValueError(explain("base_values must be one for each class", got=len(base)))
        start = base if len(base) else np.zeros(count)
        scores = _scores(cx, x, f, count, start, "SUM")
        chosen = o.ArgMax(scores, axis=1, keepdims=0)
        scores = transformed(cx, scores, transform)
    else:  # one score, the second class's
        if len(base) > 2:
            raise ValueError(explain("base_values must be one for each class", got=len(base)))
        # Weights that are all positive add up to a chance, until it is transformed.
        positive = bool((f.weight >= 0).all())
        f.target = np.zeros_like(f.target)
        start = base[-1:] if len(base) else np.zeros(1)
        score = _scores(cx, x, f, 1, start, "SUM")
        above = o.Greater(score, 0.5 if positive and count == 2 else 0.0)
        chosen = o.Squeeze(o.Cast(above, to=7), [1])
        scores = both_classes(cx, score, positive and transform == "NONE", transform)
    return [labels.of(cx, chosen), o.Cast(scores, to=1)]
