"""ai.onnx.ml beside onnxruntime: (operator, inputs, attributes), static and symbolic."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from loopwright.base.errors import LoopwrightError
from loopwright.frontend.onnx import from_onnx

from .support import check, close, floats, integers, interpreted, operator

VERSION = 4  # the newest in which no operator is deprecated
DOMAIN = "ai.onnx.ml"
X = floats(7, 4)
F32, F64 = np.float32, np.float64


def tensor(values, dtype=F32):
    return numpy_helper.from_array(np.asarray(values, dtype))


def trees(
    count,
    targets,
    seed=0,
    modes=("BRANCH_LEQ",),
    missing=False,
    leaves="target",
    signs=True,
    whole=False,
):
    """Attributes of a random ensemble over 4 columns; whole: each leaf adds to all targets."""
    rng = np.random.default_rng(seed)
    rows = []  # tree, node, feature, value, mode, yes, no, missing
    weights = []  # tree, node, target, weight

    def grow(tree, depth):
        own = sum(r[0] == tree for r in rows)
        row = [tree, own, int(rng.integers(4)), float(rng.choice(np.round(X.ravel(), 1)))]
        if depth == 0 or rng.random() < 0.2:
            rows.append([tree, own, 0, 0.0, "LEAF", 0, 0, 0])
            for target in rng.permutation(targets)[
                : targets if whole else rng.integers(1, targets + 1)
            ]:
                weight = rng.uniform(-1 if signs else 0, 1 / (1 if signs else count))
                weights.append([tree, own, int(target), float(weight)])
            return own
        row += [str(rng.choice(modes)), 0, 0, int(missing and rng.integers(2))]
        rows.append(row)
        row[5], row[6] = grow(tree, depth - 1), grow(tree, depth - 1)
        return own

    for t in range(count):
        grow(t, 4)
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    names += ("missing_value_tracks_true",)
    out = {f"nodes_{n}": list(v) for n, v in zip(names, zip(*rows, strict=True), strict=True)}
    parts = ("treeids", "nodeids", "ids", "weights")
    return out | {f"{leaves}_{n}": list(v) for n, v in zip(parts, zip(*weights), strict=True)}


def model(op_type, *inputs, version=VERSION, outputs=1, symbolic=False, **attributes):
    made, feeds = operator(
        op_type, *inputs, domain=DOMAIN, outputs=outputs, symbolic=symbolic, **attributes
    )
    made.opset_import[1].version = version
    return made, feeds


ROUNDED, HOLES = np.round(X, 1), np.where(X < -1, np.nan, np.round(X, 1)).astype(F32)
ALL = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
LABELS2, LABELS3 = [3, 7], [5, 2, 9]


def classes(count, targets, labels, **options):
    post = {"post_transform": options.pop("post")} if "post" in options else {}
    base = {"base_values": options.pop("base")} if "base" in options else {}
    made = trees(count, targets, leaves="class", **options)
    return {**made, **post, **base, "classlabels_int64s": labels, "outputs": 2}


POSTS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
CASES = [
    *[("TreeEnsembleRegressor", [ROUNDED], {**trees(5, 1, seed=k, modes=ALL), "n_targets": 1}) for k in range(3)],
    ("TreeEnsembleRegressor", [HOLES], {**trees(9, 3, modes=ALL, missing=True), "n_targets": 3, "base_values": [1.0, 2.0, -0.5]}),
    *[("TreeEnsembleRegressor", [ROUNDED], {**trees(4, 2, seed=4), "n_targets": 2, "aggregate_function": a}) for a in ("SUM", "AVERAGE", "MIN", "MAX")],
    ("TreeEnsembleRegressor", [ROUNDED], {**trees(4, 1), "n_targets": 1, "aggregate_function": "MIN", "base_values": [0.25]}),
    *[("TreeEnsembleRegressor", [ROUNDED], {**trees(1, 3), "n_targets": 3, "aggregate_function": a, **b}) for a in ("MIN", "MAX") for b in ({}, {"base_values": [0.5, 1.5, -2.0]})],
    ("TreeEnsembleRegressor", [np.tile(ROUNDED, (30, 1))], {**trees(40, 1), "n_targets": 1}),
    *[("TreeEnsembleClassifier", [ROUNDED], classes(5, 3, LABELS3, post=p)) for p in POSTS],
    ("TreeEnsembleClassifier", [ROUNDED], classes(5, 3, LABELS3, base=[0.5, 1.0, 0.0])),
    *[("TreeEnsembleClassifier", [ROUNDED], classes(5, 1, LABELS2, **p)) for p in ({"signs": False}, {}, {"post": "LOGISTIC"}, {"signs": False, "post": "LOGISTIC"})],
    ("TreeEnsembleClassifier", [ROUNDED], classes(5, 1, LABELS2, base=[0.3])),
    ("TreeEnsembleClassifier", [ROUNDED], classes(5, 1, LABELS2, signs=False, base=[0.1])),
    *[("LinearClassifier", [X], {"coefficients": floats(12).tolist(), "intercepts": [0.1, 0.2, -0.3], "classlabels_ints": LABELS3, "post_transform": p, "outputs": 2}) for p in POSTS],
    *[("LinearClassifier", [X], {"coefficients": floats(4).tolist(), "intercepts": [0.1], "classlabels_ints": LABELS2, "post_transform": p, "outputs": 2}) for p in POSTS[:2]],
    *[("LinearClassifier", [X], {"coefficients": floats(8).tolist(), "intercepts": [0.1, 0.2], "classlabels_ints": LABELS2, "post_transform": p, "outputs": 2}) for p in POSTS],
    ("LinearRegressor", [X], {"coefficients": floats(8).tolist(), "intercepts": [0.5, -0.5], "targets": 2}),
    ("LinearRegressor", [X], {"coefficients": floats(4).tolist()}),
    ("LinearRegressor", [X[0]], {"coefficients": floats(8).tolist(), "targets": 2}),
    ("SVMRegressor", [X[0]], {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "coefficients": floats(4).tolist(), "rho": [0.2]}),
    ("LinearClassifier", [X[0]], {"coefficients": floats(12).tolist(), "intercepts": [0.1, 0.2, -0.3], "classlabels_ints": LABELS3, "outputs": 2}),
    ("LinearRegressor", [X], {"coefficients": floats(8).tolist(), "targets": 2, "post_transform": "SOFTMAX"}),
    *[("SVMRegressor", [X], {"kernel_type": k, "kernel_params": [0.3, 0.5, 3.0], "n_supports": 5, "support_vectors": floats(20, seed=5).tolist(), "coefficients": floats(5).tolist(), "rho": [0.2], "one_class": one}) for k in ("LINEAR", "POLY", "RBF", "SIGMOID") for one in (0, 1)],
    ("SVMRegressor", [X], {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "coefficients": floats(4).tolist(), "rho": [0.2]}),
    *[("SVMClassifier", [X], {"kernel_type": "RBF", "kernel_params": [0.3, 0.5, 3.0], "vectors_per_class": [2, 1, 3], "support_vectors": floats(24, seed=5).tolist(), "coefficients": floats(12).tolist(), "rho": [0.2, -0.1, 0.3], "classlabels_ints": LABELS3, "outputs": 2, **p}) for p in ({}, {"prob_a": [-1.0, -0.5, -2.0], "prob_b": [0.1, -0.2, 0.3]})],
    *[("SVMClassifier", [X], {"kernel_type": "RBF", "kernel_params": [0.3, 0.5, 3.0], "vectors_per_class": [2, 3], "support_vectors": floats(20, seed=5).tolist(), "coefficients": (floats(5) + s).tolist(), "rho": [0.2], "classlabels_ints": LABELS2, "outputs": 2, **p}) for s in (0, 3) for p in ({}, {"prob_a": [-1.0], "prob_b": [0.1]}, {"post_transform": "LOGISTIC"})],
    *[("SVMClassifier", [X], {"kernel_type": k, "kernel_params": [0.3, 0.5, 3.0], "vectors_per_class": [2, 3], "support_vectors": floats(20, seed=5).tolist(), "coefficients": floats(5).tolist(), "rho": [0.2], "classlabels_ints": LABELS2, "outputs": 2}) for k in ("POLY", "SIGMOID")],
    ("SVMClassifier", [X], {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "coefficients": floats(12).tolist(), "rho": [0.2], "classlabels_ints": LABELS3, "outputs": 2, "post_transform": "SOFTMAX"}),
    ("Scaler", [X], {"offset": [0.5, 1.0, -1.0, 0.0], "scale": [2.0, 0.5, 1.0, 3.0]}),
    ("Scaler", [integers(3, 4)], {"offset": [0.5], "scale": [2.0]}),
    *[("Normalizer", [x], {"norm": n}) for n in ("MAX", "L1", "L2") for x in (X, integers(3, 4), np.zeros((2, 4), F32))],
    ("Binarizer", [X], {"threshold": 0.3}),
    ("Imputer", [HOLES], {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": float("nan")}),
    ("Imputer", [ROUNDED], {"imputed_value_floats": [9.0], "replaced_value_float": 0.0}),
    ("Imputer", [integers(3, 4)], {"imputed_value_int64s": [7], "replaced_value_int64": 2}),
    ("OneHotEncoder", [integers(3, 4)], {"cats_int64s": [1, -2, 3], "zeros": 1}),
    ("OneHotEncoder", [np.asarray([[1.0, 3.0], [-2.0, 3.0]], F32)], {"cats_int64s": [1, -2, 3], "zeros": 0}),
    ("ArrayFeatureExtractor", [X, np.asarray([[2, 0]])], {}),
    ("FeatureVectorizer", [X, X[:, :2].copy()], {"inputdimensions": [4, 2]}),
    ("LabelEncoder", [integers(3, 4)], {"keys_int64s": [3, -2, 0], "values_int64s": [7, 8, 9]}),
    ("LabelEncoder", [integers(3, 4)], {"keys_int64s": [3, -2, 0], "values_floats": [7.0, 8.0, 9.0], "default_float": -2.5}),
    ("LabelEncoder", [HOLES], {"keys_floats": [0.5, float("nan"), -0.5], "values_floats": [7.0, 8.0, 9.0]}),
    ("LabelEncoder", [integers(3, 4)], {"keys_tensor": tensor([3, -2, 0], np.int64), "values_tensor": tensor([1.5, 2.5, 3.5], F64), "default_tensor": tensor([-1], F64)}),
    ("OneHotEncoder", [integers(3, 4)], {"cats_int64s": [1, -2, 3, 1], "zeros": 1}),
]  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("row", CASES, ids=[f"{r[0]}-{i}" for i, r in enumerate(CASES)])
def test_beside_onnxruntime(row, symbolic):
    op_type, inputs, attributes = row
    check(*model(op_type, *inputs, symbolic=symbolic, **attributes))


def ensemble(modes, splits, yes, no, members=(), missing=None, **more):
    """Attributes of a TreeEnsemble of one tree; a way of -k - 1 leads to leaf k."""
    ways = {"true": yes, "false": no}
    lost = {} if missing is None else {"nodes_missing_value_tracks_true": missing}
    sets = {"membership_values": tensor(members)} if len(members) else {}
    return {
        "n_targets": 2,
        "nodes_modes": tensor(modes, np.uint8),
        "nodes_splits": tensor(splits),
        "nodes_featureids": [k % 4 for k in range(len(modes))],
        **{f"nodes_{n}nodeids": [max(w, -w - 1) for w in way] for n, way in ways.items()},
        **{f"nodes_{n}leafs": [int(w < 0) for w in way] for n, way in ways.items()},
        "leaf_targetids": [0, 1, 0, 1],
        "leaf_weights": tensor([1.5, -2.0, 0.25, 4.0]),
        "tree_roots": [0],
        **sets,
        **lost,
        **more,
    }


NAN = float("nan")
ENSEMBLES = [
    *[ensemble([m, 0], [0.5, 0.1], [1, -1], [-2, -3]) for m in range(6)],
    *[ensemble([m, 4], [0.5, 0.1], [1, -1], [-2, -3], missing=[1, 0]) for m in (0, 2, 4)],
    ensemble([0, 6], [0.5, NAN], [1, -1], [-2, -3], [0.4, 0.2, -0.6, -1.4, NAN]),
    ensemble([6, 6], [NAN, NAN], [-1, -2], [1, -3], [-1, 0.3, NAN, 0.4, 0.2, -0.6, NAN]),
    ensemble([0], [0.0], [-4], [-4]),
]


def test_thresholds_and_weights_as_tensors():
    """The form that has doubles, too."""
    given = {**trees(4, 1), "n_targets": 1}
    tensors = {n: v for n, v in given.items() if n in ("nodes_values", "target_weights")}
    others = {n: v for n, v in given.items() if n not in tensors}
    others |= {f"{n}_as_tensor": tensor(v, F64) for n, v in tensors.items()}
    made, feeds = model("TreeEnsembleRegressor", X.astype(F64), **others)
    plain, _ = model("TreeEnsembleRegressor", X, **given)
    close(
        [interpreted(from_onnx(made), feeds)[0].astype(F32)],
        interpreted(from_onnx(plain), {"x0": X}),
    )


def test_membership_before_another_test_is_of_one_number():
    """Of several, each would need a copy of the test that follows."""
    wide = ensemble([6, 0], [NAN, 0.1], [1, -1], [-2, -3], [0.4, 0.2, NAN])
    with pytest.raises(LoopwrightError, match="a test for membership that leads to another test"):
        from_onnx(model("TreeEnsemble", HOLES, version=5, **wide)[0])
    one = ensemble([6, 0], [NAN, 0.1], [1, -1], [-2, -3], [0.4, NAN])
    made, feeds = model("TreeEnsemble", HOLES, version=5, **one)
    close(interpreted(from_onnx(made), feeds), ReferenceEvaluator(made).run(None, feeds))


@pytest.mark.parametrize("attributes", ENSEMBLES, ids=range(len(ENSEMBLES)))
def test_tree_ensemble(attributes):
    made, feeds = model("TreeEnsemble", HOLES, version=5, **attributes)
    if "membership_values" not in attributes:
        check(made, feeds)
        return
    expected = ReferenceEvaluator(made).run(None, feeds)  # onnxruntime refuses these
    close(interpreted(from_onnx(made), feeds), expected)


def test_rows_of_integers_and_of_doubles_are_those_of_floats():
    attributes = {**trees(4, 1), "n_targets": 1}
    whole = np.round(X * 3)
    results = []
    for dtype in (F32, F64, np.int32, np.int64):
        made, feeds = model("TreeEnsembleRegressor", whole.astype(dtype), **attributes)
        results.append(interpreted(from_onnx(made), feeds))
    for other in results[1:]:
        close(other, results[0])


def test_a_kind_that_the_encoder_has_not_is_an_error():
    rows = np.asarray([[1], [4]])
    made, feeds = model("OneHotEncoder", rows, cats_int64s=[1, 2], zeros=0)
    with pytest.raises(IndexError):
        interpreted(from_onnx(made), feeds)


def test_columns_are_checked_where_only_the_run_knows_them():
    made, _ = model("TreeEnsembleRegressor", X, symbolic=True, **trees(4, 1), n_targets=1)
    mod = from_onnx(made)
    with pytest.raises(ValueError, match="dimension|shape|extent"):
        interpreted(mod, {"x0": X[:, :2].copy()})


TREE = {**trees(1, 1), "n_targets": 1}
BROKEN = [
    ("nodes_truenodeids", [0] * len(TREE["nodes_modes"]), "two ways to it"),
    ("nodes_truenodeids", [99] * len(TREE["nodes_modes"]), "not there"),
    ("nodes_featureids", [4] * len(TREE["nodes_modes"]), "column that is not there"),
    ("nodes_modes", ["BRANCH_LIKE"] * len(TREE["nodes_modes"]), "unknown mode"),
    ("nodes_values", [0.5], "one length"),
    ("target_ids", [3] * len(TREE["target_ids"]), "target that does not exist"),
    ("target_nodeids", [99] * len(TREE["target_ids"]), "not there"),
    ("aggregate_function", "MEDIAN", "unknown aggregate_function"),
    ("post_transform", "TANH", "unknown post_transform"),
]


@pytest.mark.parametrize(("name", "given", "message"), BROKEN, ids=[m for _, _, m in BROKEN])
def test_broken_trees_are_refused(name, given, message):
    made, _ = model("TreeEnsembleRegressor", ROUNDED, **{**TREE, name: given})
    with pytest.raises(LoopwrightError, match=message):
        from_onnx(made)


def test_another_number_of_intercepts_than_of_rows_is_refused():
    given = {"coefficients": floats(8).tolist(), "intercepts": [0.1], "classlabels_ints": LABELS2}
    made, _ = model("LinearClassifier", X, **given, outputs=2)
    with pytest.raises(LoopwrightError, match="one number is added\n.*got: 2 rows, numbers: 1"):
        from_onnx(made)
