"""A compiled model behind FastAPI: MODEL=model.so uvicorn --app-dir examples/serve fastapi_app:app

POST /predict {"x": [[...], ...]} answers {"out": [[...], ...]}; what does not fit is a 422 that says what does.
"""

from __future__ import annotations

import os
from typing import Annotated, Any

import numpy as np
from fastapi import Body, FastAPI, HTTPException

from loopwright.serve import Predictor

app = FastAPI()
predict = Predictor(os.environ["MODEL"])


@app.get("/inputs")
def inputs() -> list[str]:
    """The inputs of the model: name, dtype and shape."""
    return [str(argument) for argument in predict.inputs]


@app.post("/predict")
def score(columns: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
    """The outputs of a batch, by name."""
    try:
        results = predict({name: np.asarray(column) for name, column in columns.items()})
    except (ValueError, TypeError) as error:
        raise HTTPException(422, str(error)) from None
    return {name: array.tolist() for name, array in results.items()}
