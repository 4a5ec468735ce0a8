"""Makers of nodes of ai.onnx.ml and of the previews of training and attention, and of operators
that are functions of others."""

from __future__ import annotations

from typing import Any

from .build import Builder, NotHere, Value
from .onnx_ops import maker
from .onnx_tensor import UNIFORM, few, since, some

ML = "ai.onnx.ml::"
POSTS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]
BRANCHES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def rows(g: Builder, width: int) -> Value:
    """Rows of a width that trees, classifiers and scalers read."""
    return g.new("float32", [g.dim(least=1), g.const(width)])


def uniform(g: Builder, count: int) -> list[float]:
    return [round(g.rng.uniform(-1, 1), 3) for _ in range(count)]


def labels(g: Builder, count: int) -> list[int]:
    return g.rng.sample(range(-9, 30), count)


def forest(
    g: Builder, width: int, targets: int, leaves: str, whole: bool = False
) -> dict[str, Any]:
    """Attributes of a random ensemble of trees. whole: each leaf gives to all targets."""
    nodes: list[list[Any]] = []  # tree, node, column, value, mode, yes, no, missing
    weights: list[list[Any]] = []  # tree, node, target, weight
    modes = g.rng.choice([BRANCHES[:1], BRANCHES[1:2], BRANCHES])

    def grow(tree: int, depth: int) -> int:
        own = sum(n[0] == tree for n in nodes)
        node = [tree, own, g.rng.randrange(width), g.rng.randint(-8, 8) / 4, "LEAF", 0, 0, 0]
        nodes.append(node)
        if depth == 0 or g.rng.random() < 0.2:
            for target in g.rng.sample(
                range(targets), g.rng.randint(targets if whole else 1, targets)
            ):
                weights.append([tree, own, target, *uniform(g, 1)])
            return own
        node[4], node[7] = g.rng.choice(modes), g.rng.choice([0, 0, 1])
        node[5] = grow(tree, depth - 1)
        node[6] = grow(tree, depth - 1)
        return own

    for tree in range(g.rng.choice([1, 2, 5, 17])):
        grow(tree, g.rng.randint(0, 4))
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    names += ("missing_value_tracks_true",)
    made = {f"nodes_{n}": list(v) for n, v in zip(names, zip(*nodes))}
    parts = ("treeids", "nodeids", "ids", "weights")
    return made | {f"{leaves}_{n}": list(v) for n, v in zip(parts, zip(*weights))}


@maker(f"{ML}TreeEnsembleRegressor", f"{ML}TreeEnsembleClassifier")
def trees(g, op):
    if any(node[0] == f"{ML}TreeEnsemble" for node in g.case.nodes):
        raise NotHere  # of another version
    width, targets = g.rng.choice([1, 3, 5]), g.rng.choice([1, 2, 3])
    x = rows(g, width)
    if op.endswith("Regressor"):
        # onnxruntime leaves out the base of a target that no leaf of a row gives to.
        based = g.rng.random() < 0.4
        made = forest(g, width, targets, "target", whole=based)
        more = {"aggregate_function": g.rng.choice(["SUM", "AVERAGE", "MIN", "MAX"])}
        more |= {"base_values": uniform(g, targets)} if based else {}
        result = ("float32", [x.shape[0], g.const(targets)])
        g.add(op, [x], result, exact=False, n_targets=targets, **made, **more)
        return
    # Of two classes that both have scores onnxruntime gives 0 or 1, not their labels.
    # A class that no leaf of a row gives to is never its label there.
    targets = targets if targets != 2 else 1
    made = forest(g, width, targets, "class", whole=True)
    count = max(targets, 2)
    outs = [("int64", [x.shape[0]]), ("float32", [x.shape[0], g.const(count)])]
    posts = POSTS if targets > 1 else POSTS[:2]
    more = {"post_transform": g.rng.choice(posts), "classlabels_int64s": labels(g, count)}
    g.add(op, [x], *outs, exact=False, final=True, **made, **more)


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
    x = rows(g, width)
    g.add(op, [x], ("float32", [x.shape[0], g.const(targets)]), exact=False, **more)


@maker(f"{ML}LinearRegressor", f"{ML}LinearClassifier")
def linear(g, op):
    width, count = g.rng.choice([1, 3, 17]), g.rng.choice([1, 2, 3])
    x = rows(g, width)
    more: dict[str, Any] = {"coefficients": uniform(g, width * count)}
    more |= {"intercepts": uniform(g, count), "post_transform": g.rng.choice(POSTS)}
    if op.endswith("Regressor"):
        more["post_transform"] = "NONE"
        result = ("float32", [x.shape[0], g.const(count)])
        g.add(op, [x], result, exact=False, targets=count, **more)
        return
    many = max(count, 2)
    if count == 1:  # as it does not of one
        more["post_transform"] = g.rng.choice(POSTS[:2])
    outs = [("int64", [x.shape[0]]), ("float32", [x.shape[0], g.const(many)])]
    g.add(op, [x], *outs, exact=False, final=True, classlabels_ints=labels(g, many), **more)


@maker(f"{ML}SVMRegressor", f"{ML}SVMClassifier")
def support_vectors(g, op):
    width, x = 3, None
    x = rows(g, width)
    kind = g.rng.choice(["LINEAR", "POLY", "RBF", "SIGMOID"])
    more: dict[str, Any] = {"kernel_type": kind, "kernel_params": [0.3, 0.5, 2.0]}
    if op.endswith("Regressor"):
        count = g.rng.choice([1, 5])
        more |= {"n_supports": count, "coefficients": uniform(g, count), "rho": [0.2]}
        more["support_vectors"] = uniform(g, count * width)
        g.add(op, [x], ("float32", [x.shape[0], g.const(1)]), exact=False, **more)
        return
    classes = g.rng.choice([2, 3])
    each = [g.rng.randint(1, 3) for _ in range(classes)]
    pairs = classes * (classes - 1) // 2
    more |= {"vectors_per_class": each, "support_vectors": uniform(g, sum(each) * width)}
    more |= {"coefficients": uniform(g, sum(each) * (classes - 1)), "rho": uniform(g, pairs)}
    if g.rng.random() < 0.4:
        more |= {"prob_a": [-1.0] * pairs, "prob_b": uniform(g, pairs)}
    scores = g.const(classes if classes == 2 or "prob_a" in more else pairs)
    outs = [("int64", [x.shape[0]]), ("float32", [x.shape[0], scores])]
    more["classlabels_ints"] = labels(g, classes)
    g.add(op, [x], *outs, exact=False, final=True, **more)


@maker(f"{ML}Scaler", f"{ML}Normalizer", f"{ML}Binarizer", f"{ML}Imputer")
def scaled(g, op):
    width = g.rng.choice([1, 2, 5])
    x = rows(g, width)
    more: dict[str, Any] = {}
    if op.endswith("Scaler"):
        count = g.rng.choice([1, width])
        more = {"offset": uniform(g, count), "scale": uniform(g, count)}
    if op.endswith("Normalizer"):
        more = {"norm": g.rng.choice(["MAX", "L1", "L2"])}
    if op.endswith("Binarizer"):
        more = {"threshold": 0.25}
    if op.endswith("Imputer"):
        more = {"imputed_value_floats": uniform(g, g.rng.choice([1, width]))}
        more["replaced_value_float"] = g.rng.choice([0.0, 1.0, float("nan")])
    exact = op.endswith(("Binarizer", "Imputer"))
    g.add(op, [x], ("float32", x.shape), exact=exact, **more)


@maker(f"{ML}OneHotEncoder", f"{ML}LabelEncoder")
def encoded(g, op):
    v = g.new("int64", [g.dim(), g.dim()], low=-3, high=4)
    keys = g.rng.sample(range(-3, 5), g.rng.randint(1, 5))
    if op.endswith("OneHotEncoder"):
        shape = [*v.shape, g.const(len(keys))]
        g.add(op, [v], ("float32", shape), cats_int64s=keys, zeros=1)
    elif g.rng.random() < 0.5:
        values = labels(g, len(keys))
        g.add(op, [v], ("int64", v.shape), keys_int64s=keys, values_int64s=values)
    else:
        values = {"values_floats": uniform(g, len(keys)), "default_float": -2.5}
        g.add(op, [v], ("float32", v.shape), keys_int64s=keys, **values)


@maker(f"{ML}ArrayFeatureExtractor", f"{ML}FeatureVectorizer")
def features(g, op):
    x = g.new("float32", [g.dim(least=1), g.const(g.rng.randint(1, 5))])
    width = x.shape[1][0]
    if op.endswith("Extractor"):
        count = g.rng.randint(1, 4)
        at = g.new("int64", [g.const(1), g.const(count)], low=0, high=width - 1)
        g.add(op, [x, at], ("float32", [x.shape[0], g.const(count)]))
        return
    y = g.new("float32", [x.shape[0], g.const(2)])
    shape = [x.shape[0], g.const(width + 2)]
    g.add(op, [x, y], ("float32", shape), inputdimensions=[width, 2])


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
    g.add(op, given, *outs, exact=False, **more)


# ---------------------------------------------------------------------- functions


@maker("Attention", "ai.onnx.preview::FlexAttention")
def attention(g, op):
    groups, size, width = few(g, 2), few(g), few(g)
    heads = g.const(groups[0] * g.rng.choice([1, 2]))
    batch, length, keys = g.dim(least=1), g.dim(least=1), g.dim(least=1)
    q = g.new("float32", [batch, heads, length, size], **UNIFORM)
    k = g.new("float32", [batch, groups, keys, size], **UNIFORM)
    v = g.new("float32", [batch, groups, keys, width], **UNIFORM)
    result = ("float32", [batch, heads, length, width])
    if op != "Attention":
        g.add(op, [q, k, v], result, exact=False)
        return
    since(g, 23)
    mask: list[Any] = []
    if g.rng.random() < 0.4:
        mask = [g.new(g.rng.choice(["float32", "bool"]), [length, keys], **UNIFORM)]
    more = {"is_causal": g.rng.choice([0, 1])} if not mask else {}
    more |= {"softcap": 2.0} if g.rng.random() < 0.3 else {}
    g.add(op, [q, k, v, *mask], result, exact=False, **more)


@maker("RotaryEmbedding")
def rotated(g, op):
    since(g, 23)
    batch, length, heads = g.dim(least=1), g.dim(least=1), few(g)
    half = few(g)
    x = g.new("float32", [batch, heads, length, g.const(2 * half[0])], **UNIFORM)
    tables = [g.new("float32", [batch, length, half], **UNIFORM) for _ in "cs"]
    g.add(op, [x, *tables], ("float32", x.shape), exact=False, interleaved=g.rng.choice([0, 1]))


@maker("CenterCropPad")
def cropped(g, op):
    since(g, 18)
    v = g.pick(["float32", "int64"], (1, 3), least=1)
    size = [g.rng.randint(1, 9) for _ in v.shape]
    g.add(op, [v, g.ints(size)], (v.dtype, [g.const(n) for n in size]))


@maker("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def losses(g, op):
    batch, classes = g.dim(least=1), g.dim(static=True, least=2)
    more = [g.dim(least=1)] * g.rng.choice([0, 1])
    x = g.new("float32", [batch, classes, *more], **UNIFORM)
    target = g.new("int64", [batch, *more], low=0, high=min(classes) - 1)
    way = g.rng.choice(["none", "mean", "sum"])
    weight = [g.new("float32", [classes], low=0.5, high=2, **UNIFORM)] * g.rng.choice([0, 1])
    shape = [batch, *more] if way == "none" else []
    g.add(op, [x, target, *weight], ("float32", shape), exact=False, reduction=way)
