"""Spark: a predictor as the function of `predict_batch_udf`."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import numpy as np
import pytest

from loopwright.serve import Predictor

from ..serve.models import CLASSES, WIDTH, batch, mlp

sql = pytest.importorskip("pyspark.sql")
pandas = pytest.importorskip("pandas")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
]


@pytest.mark.budget(60)
def test_a_table(tmp_path, monkeypatch):
    from pyspark.ml.functions import predict_batch_udf
    from pyspark.sql.types import ArrayType, FloatType

    path, x = str(tmp_path / "model.so"), batch(1000)
    mlp(threads=1).export_library(path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    settings["spark.ui.enabled"] = "false"
    session: Any = sql.SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()

    def make() -> Any:
        return Predictor(path)

    shapes = {"input_tensor_shapes": [[WIDTH]], "return_type": ArrayType(FloatType())}
    scores = predict_batch_udf(make, batch_size=128, **shapes)
    table = session.createDataFrame(pandas.DataFrame({"id": range(1000), "x": x.tolist()}))
    result = table.withColumn("y", scores("x")).select("id", "y").toPandas().sort_values("id")
    session.stop()
    assert list(result["id"]) == list(range(1000))
    got = np.stack(result["y"]).astype("float32")
    assert got.shape == (1000, CLASSES) and np.array_equal(got, Predictor(path)(x))
