"""Makers of nodes of trees, of ai.onnx.ml, and of attention."""

from __future__ import annotations

from typing import Any

from tests.frontend.onnx.test_ml import ALL, trees

from .build import UNIFORM, Builder, NotHere, few, since
from .onnx_ops import maker

ML = "ai.onnx.ml::"


def uniform(g: Builder, count: int) -> list[float]:
    return [round(g.rng.uniform(-1, 1), 3) for _ in range(count)]


@maker(f"{ML}TreeEnsemble")
def ensemble(g, op):
    if any(node[0].startswith(f"{ML}TreeEnsemble") for node in g.case.nodes):
        raise NotHere
    width, targets, count = g.rng.choice([1, 4]), g.rng.choice([1, 2]), g.rng.choice([1, 3, 7])
    # A chain: each node's no leads to the next one.
    modes = [g.rng.randrange(6) for _ in range(count)]
    leaves = count + 1
    more = {
        "n_targets": targets,
        "nodes_modes": {"tensor": ["uint8", modes]},
        "nodes_splits": {"tensor": ["float32", [g.rng.randint(-8, 8) / 4 for _ in modes]]},
        "nodes_featureids": [g.rng.randrange(width) for _ in modes],
        "nodes_missing_value_tracks_true": [g.rng.choice([0, 1]) for _ in modes],
        "nodes_truenodeids": list(range(count)),
        "nodes_trueleafs": [1] * count,
        "nodes_falsenodeids": [*range(1, count), count],
        "nodes_falseleafs": [*[0] * (count - 1), 1],
        "leaf_targetids": [g.rng.randrange(targets) for _ in range(leaves)],
        "leaf_weights": {"tensor": ["float32", uniform(g, leaves)]},
        "tree_roots": [0],
        "aggregate_function": g.rng.choice([0, 1, 2, 3]),
        # Of one score onnxruntime makes something else, and it has 1 and 2 the other way round.
        "post_transform": g.rng.choice([0, 3]) if targets > 1 else 0,
    }
    x = g.new("float32", [g.dim(), g.const(width)])
    g.add(op, [x], final=True, **more)


@maker("Attention", "ai.onnx.preview::FlexAttention")
def attention(g, op):
    groups, size, width = few(g, 2), few(g), few(g)
    heads = g.const(groups[0] * g.rng.choice([1, 2]))
    batch, length, keys = g.dim(least=1), g.dim(least=1), g.dim(least=1)
    q = g.new("float32", [batch, heads, length, size], **UNIFORM)
    k = g.new("float32", [batch, groups, keys, size], **UNIFORM)
    v = g.new("float32", [batch, groups, keys, width], **UNIFORM)
    if op != "Attention":
        g.add(op, [q, k, v])
        return
    since(g, 23)
    mask: list[Any] = []
    if g.rng.random() < 0.4:
        mask = [g.new(g.rng.choice(["float32", "bool"]), [length, keys], **UNIFORM)]
    more = {"is_causal": g.rng.choice([0, 1])} if not mask else {}
    more |= {"softcap": 2.0} if g.rng.random() < 0.3 else {}
    g.add(op, [q, k, v, *mask], **more)


@maker("ai.onnx.ml::TreeEnsembleRegressor", "ai.onnx.ml::TreeEnsembleClassifier")
def ensembles(g, op):
    """Random trees. onnxruntime forgets classes, and bases of targets, that no leaf adds to, and of two
    classes that both have scores it has 0 or 1, not their labels."""
    leaves = "class" if op.endswith("Classifier") else "target"
    targets, count = g.rng.choice([1, 3] if leaves == "class" else [1, 2, 3]), g.rng.randint(1, 4)
    seed, modes = g.rng.randrange(10**6), g.rng.sample(ALL, g.rng.randint(1, 6))
    made = trees(count, targets, seed, modes, g.rng.random() < 0.3, leaves, whole=True)
    if leaves == "class":
        posts = ["NONE", "LOGISTIC", *["SOFTMAX", "SOFTMAX_ZERO"] * (targets > 1)]
        labels = g.rng.sample(range(-9, 30), max(2, targets))
        made |= {"classlabels_int64s": labels, "post_transform": g.rng.choice(posts)}
    else:
        how = g.rng.choice(["SUM", "AVERAGE", "MIN", "MAX"])
        made |= {"n_targets": targets, "aggregate_function": how}
        base = [round(g.rng.uniform(-1, 1), 3) for _ in range(targets)]
        made |= g.rng.choice([{}, {"base_values": base}])
    x = g.new("float32", [g.dim(), g.const(4)])
    g.add(op, [x], outs=1 + (leaves == "class"), final=True, **made)
