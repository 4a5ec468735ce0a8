"""python -m tools.estimators [NAME ...]

Estimators of scikit-learn and lightgbm, made ONNX models by skl2onnx and onnxmltools: what a compiled
model says of rows must be what its estimator says. Needs the extra `references`, which `make test-references`
installs in an environment of its own.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import loopwright as lw

ROWS, COLUMNS = 300, 6
_OPSETS = {"": 18, "ai.onnx.ml": 3}
# Beyond these a difference is one of the model: thresholds and weights are float32 in the file.
_RELATIVE, _ABSOLUTE = 2e-3, 2e-4
_SAME_LABELS = 0.99


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, classes of three kinds, classes of two, numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    score = x[:, 0] + x[:, 1] * x[:, 2] + 0.1 * rng.normal(size=ROWS)
    return x, np.digitize(score, [-0.6, 0.6]), (score > 0).astype(np.int64), score


def estimators() -> Iterator[tuple[str, Callable[[], Any], str]]:
    """(name, how it is made, what it is taught: "three", "two", "number", "one")."""
    from lightgbm import LGBMClassifier, LGBMRegressor
    from sklearn import (
        ensemble,
        gaussian_process,
        linear_model,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
        tree,
    )
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.impute import SimpleImputer

    small = {"n_estimators": 12, "random_state": 0}
    quiet = {**small, "verbose": -1}
    known = preprocessing.StandardScaler
    makers: list[tuple[Callable[[], Any], str]] = [
        (lambda: linear_model.LogisticRegression(), "three"),
        (lambda: linear_model.LogisticRegression(), "two"),
        (lambda: linear_model.LinearRegression(), "number"),
        (lambda: linear_model.Ridge(), "number"),
        (lambda: linear_model.Lasso(0.01), "number"),
        (lambda: linear_model.ElasticNet(0.01), "number"),
        (lambda: linear_model.RidgeClassifier(), "three"),
        (lambda: linear_model.SGDClassifier(random_state=0), "three"),
        (lambda: linear_model.Perceptron(), "three"),
        (lambda: linear_model.BayesianRidge(), "number"),
        (lambda: linear_model.HuberRegressor(), "number"),
        (lambda: linear_model.PoissonRegressor(), "positive"),
        (lambda: svm.LinearSVC(), "three"),
        (lambda: svm.LinearSVC(), "two"),
        (lambda: svm.LinearSVR(), "number"),
        (lambda: svm.SVC(probability=True), "three"),
        (lambda: svm.SVC(probability=True), "two"),
        (lambda: svm.SVC(kernel="poly"), "three"),
        (lambda: svm.SVR(), "number"),
        (lambda: svm.NuSVR(kernel="sigmoid"), "number"),
        (lambda: svm.OneClassSVM(nu=0.2), "one"),
        (lambda: tree.DecisionTreeClassifier(max_depth=5), "three"),
        (lambda: tree.DecisionTreeRegressor(max_depth=5), "number"),
        (lambda: tree.ExtraTreeClassifier(max_depth=5, random_state=0), "two"),
        (lambda: ensemble.RandomForestClassifier(**small), "three"),
        (lambda: ensemble.RandomForestClassifier(**small), "two"),
        (lambda: ensemble.RandomForestRegressor(**small), "number"),
        (lambda: ensemble.ExtraTreesClassifier(**small), "three"),
        (lambda: ensemble.ExtraTreesRegressor(**small), "number"),
        (lambda: ensemble.GradientBoostingClassifier(**small), "three"),
        (lambda: ensemble.GradientBoostingClassifier(**small), "two"),
        (lambda: ensemble.GradientBoostingRegressor(**small), "number"),
        (lambda: ensemble.AdaBoostClassifier(**small), "three"),
        (lambda: ensemble.BaggingClassifier(**small), "three"),
        (lambda: ensemble.IsolationForest(**small), "one"),
        (lambda: naive_bayes.GaussianNB(), "three"),
        (lambda: naive_bayes.BernoulliNB(), "three"),
        (lambda: neighbors.KNeighborsClassifier(), "three"),
        (lambda: neighbors.KNeighborsRegressor(), "number"),
        (lambda: neural_network.MLPClassifier(max_iter=50, random_state=0), "three"),
        (lambda: neural_network.MLPRegressor(max_iter=50, random_state=0), "number"),
        (lambda: LinearDiscriminantAnalysis(), "three"),
        (lambda: gaussian_process.GaussianProcessRegressor(alpha=0.1), "number in float64"),
        (lambda: KMeans(4, n_init=2, random_state=0), "rows"),
        (lambda: PCA(3), "rows"),
        (lambda: preprocessing.StandardScaler(), "rows"),
        (lambda: preprocessing.MinMaxScaler(), "rows"),
        (lambda: preprocessing.RobustScaler(), "rows"),
        (lambda: preprocessing.Normalizer(), "rows"),
        (lambda: preprocessing.Binarizer(threshold=0.2), "rows"),
        (lambda: preprocessing.KBinsDiscretizer(4, encode="ordinal"), "rows"),
        (lambda: preprocessing.PolynomialFeatures(2), "rows"),
        (lambda: SimpleImputer(), "holes"),
        (lambda: pipeline.make_pipeline(SimpleImputer(), known(), svm.SVC()), "holes of three"),
        (lambda: LGBMClassifier(**quiet), "three"),
        (lambda: LGBMClassifier(**quiet), "two"),
        (lambda: LGBMRegressor(**quiet), "number"),
        (lambda: LGBMRegressor(**quiet), "holes of number"),
        (lambda: LGBMRegressor(**quiet, boosting_type="dart"), "number"),
    ]
    for make, taught in makers:
        yield f"{type(make()).__name__} ({taught})", make, taught


def problem(make: Callable[[], Any], taught: str) -> str | None:
    """What is wrong with one estimator's model, None where nothing is."""
    x, three, two, number = data()
    if taught.startswith("holes"):
        x = np.where(np.random.default_rng(1).random(x.shape) < 0.1, np.nan, x).astype(np.float32)
    if taught.endswith(
        " in float64"
    ):  # sums that cancel: float32 models are 1e-2 off in onnxruntime
        x, taught = x.astype(np.float64), taught.removesuffix(" in float64")
    targets = {"three": three, "two": two, "number": number, "positive": np.exp(number)}
    target = targets.get(taught.removeprefix("holes of "))
    fitted = make()
    fitted.fit(x) if target is None else fitted.fit(x, target)
    model = converted(fitted, x)
    found = [_array(v) for v in lw.compile(model).run([x]).values()]
    for name in ("predict", "transform"):
        if not hasattr(fitted, name):
            continue
        expected = np.asarray(getattr(fitted, name)(x))
        got = found[0].reshape(expected.shape)
        if expected.dtype.kind in "iu":
            same = (got == expected).mean()
            if same < _SAME_LABELS:
                return f"{name}: {same:.1%} of the labels"
        elif not np.allclose(got, expected, _RELATIVE, _ABSOLUTE):
            return f"{name}: off by {np.abs(got - expected).max():.3g}"
        break
    if hasattr(fitted, "predict_proba"):
        expected = fitted.predict_proba(x)
        if not np.allclose(found[1], expected, _RELATIVE, _ABSOLUTE * 10):
            return f"predict_proba: off by {np.abs(found[1] - expected).max():.3g}"
    return None


def converted(fitted: Any, x: np.ndarray) -> Any:
    """The ONNX model of a fitted estimator."""
    from skl2onnx import to_onnx

    if type(fitted).__module__.startswith("lightgbm"):
        from onnxmltools.convert import convert_lightgbm
        from onnxmltools.convert.common.data_types import FloatTensorType

        kind = FloatTensorType([None, x.shape[1]])
        return convert_lightgbm(fitted, initial_types=[("x", kind)], target_opset=15)
    return to_onnx(fitted, x[:1], target_opset=_OPSETS)


def _array(value: Any) -> np.ndarray:
    """An output, the maps from classes to numbers as rows."""
    maps = isinstance(value, list)
    return np.array([list(row.values()) for row in value]) if maps else value.numpy()


def main(names: list[str]) -> int:
    warnings.simplefilter("ignore")
    wrong = count = 0
    for name, make, taught in estimators():
        if names and not any(n.lower() in name.lower() for n in names):
            continue
        try:
            found = problem(make, taught)
        except Exception as error:  # each is to be reported
            found = f"{type(error).__name__}: {str(error)[:300]}"
        count, wrong = count + 1, wrong + (found is not None)
        print(f"{'wrong' if found else 'right'}  {name}{'' if found is None else ': ' + found}")
    print(f"{count - wrong} of {count} right")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
