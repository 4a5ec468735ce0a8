"""A runtime of MLServer, named in `model-settings.json`:

{"name": "mlp", "implementation": "loopwright.serve.mlserver.Runtime",
 "parameters": {"uri": "./model.so", "extra": {"threads": 1}}}
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
from typing import Any

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.errors import InferenceError
from mlserver.types import InferenceRequest, InferenceResponse, MetadataTensor
from mlserver.utils import get_model_uri

from .predictor import Predictor
from .protocol import array_of, infer, metadata


class Runtime(MLModel):
    """A compiled model. extra: the options of `Predictor`."""

    predictor: Predictor | None = None

    async def load(self) -> bool:
        uri = await get_model_uri(self._settings)
        extra = self._settings.parameters.extra if self._settings.parameters else None
        self.predictor = await asyncio.to_thread(Predictor, uri, **(extra or {}))
        self.inputs = [MetadataTensor(**t) for t in metadata(self.predictor.inputs)]
        self.outputs = [MetadataTensor(**t) for t in metadata(self.predictor.results)]
        return True

    async def unload(self) -> bool:
        if self.predictor is not None:
            self.predictor.unload()
            self.predictor = None
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        if self.predictor is None:
            raise InferenceError(f"model {self.name} is not loaded")
        try:
            tensors = {i.name: _array(i) for i in payload.inputs}
            requested = [o.name for o in payload.outputs or ()]
            results = await asyncio.to_thread(infer, self.predictor, tensors, requested)
        except ValueError as error:
            raise InferenceError(str(error)) from None
        outputs = [NumpyCodec.encode_output(n, r) for n, r in results.items()]
        return InferenceResponse(
            id=payload.id, model_name=self.name, model_version=self.version, outputs=outputs
        )


def _array(tensor: Any) -> Any:
    data = tensor.data.root if hasattr(tensor.data, "root") else tensor.data
    if isinstance(data, list) and len(data) == 1 and isinstance(data[0], bytes):
        data = data[0]
    return array_of(
        tensor.name, str(getattr(tensor.datatype, "value", tensor.datatype)), tensor.shape, data
    )
