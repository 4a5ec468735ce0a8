"""Makers of nodes of ai.onnx.ml and of the previews of training and attention, and of operators
that are functions of others."""

from __future__ import annotations

from typing import Any

from .build import Builder, NotHere
from .onnx_ops import maker
from .onnx_tensor import UNIFORM, few, since, some

ML = "ai.onnx.ml::"
POSTS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]
BRANCHES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


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


# ---------------------------------------------------------------------- training

TRAINING = "ai.onnx.preview.training::"


@maker(*(f"{TRAINING}{n}" for n in ("Adagrad", "Adam", "Momentum")))
def optimizer(g, op):
    x = some(g, g.rng.randint(1, 2))
    rate = [g.weight("float32", [0.1], []), g.weight("int64", [g.rng.choice([0, 1, 7])], [])]
    kind = op.removeprefix(TRAINING)
    count = 2 if kind == "Adam" else 1
    # Sums of squares are not negative.
    states = [g.new("float32", x.shape, low=0, high=2, **UNIFORM) for _ in range(count)]
    given = [*rate, x, g.new("float32", x.shape, **UNIFORM), *states]
    more: dict[str, Any] = {"norm_coefficient": 0.1}
    if kind == "Momentum":
        more |= {"alpha": 0.9, "beta": 0.5, "mode": g.rng.choice(["standard", "nesterov"])}
    outs = [("float32", x.shape)] * (1 + count)
    g.add(op, given, outs=len(outs), **more)


# ---------------------------------------------------------------------- functions


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


@maker("RotaryEmbedding")
def rotated(g, op):
    since(g, 23)
    batch, length, heads = g.dim(least=1), g.dim(least=1), few(g)
    half = few(g)
    x = g.new("float32", [batch, heads, length, g.const(2 * half[0])], **UNIFORM)
    tables = [g.new("float32", [batch, length, half], **UNIFORM) for _ in "cs"]
    g.add(op, [x, *tables], interleaved=g.rng.choice([0, 1]))


@maker("CenterCropPad")
def cropped(g, op):
    since(g, 18)
    v = g.pick(["float32", "int64"], (1, 3), least=1)
    size = [g.rng.randint(1, 9) for _ in v.shape]
    g.add(op, [v, g.ints(size)])


@maker("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def losses(g, op):
    batch, classes = g.dim(least=1), g.dim(static=True, least=2)
    more = [g.dim(least=1)] * g.rng.choice([0, 1])
    x = g.new("float32", [batch, classes, *more], **UNIFORM)
    target = g.new("int64", [batch, *more], low=0, high=min(classes) - 1)
    way = g.rng.choice(["none", "mean", "sum"])
    weight = [g.new("float32", [classes], low=0.5, high=2, **UNIFORM)] * g.rng.choice([0, 1])
    g.add(op, [x, target, *weight], reduction=way)
