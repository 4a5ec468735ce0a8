"""Compiled models in the engines that run them: Ray, Dask, Spark, MLServer, KServe, Triton.

    predict = loopwright.serve.Predictor("model.so")
    predict({"x": rows})                       # {"out": array}

`Predictor` takes batches; `mlserver` and `kserve` have the classes that these servers load.
"""

from __future__ import annotations

from .predictor import Predictor as Predictor
