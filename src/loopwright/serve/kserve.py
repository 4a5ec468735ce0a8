"""A model of KServe, and the server of one:

python -m loopwright.serve.kserve --model_name mlp --path model.so
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import argparse
import asyncio
import uuid
from typing import Any

import kserve
from kserve.errors import InvalidInput, ModelNotReady
from kserve.protocol.infer_type import InferOutput, InferRequest, InferResponse

from .predictor import Predictor
from .protocol import DATATYPES, array_of, infer, metadata


class Model(kserve.Model):
    """A compiled model that answers the Open Inference Protocol, version 2. options: of `Predictor`."""

    def __init__(self, name: str, path: str, **options: Any) -> None:
        super().__init__(name)
        self.path, self.options = path, options
        self.predictor: Predictor | None = None

    def load(self) -> bool:
        self.predictor = Predictor(self.path, **self.options)
        self.ready = True
        return True

    def stop(self) -> None:
        self.ready = False
        if self.predictor is not None:
            self.predictor.unload()
            self.predictor = None

    def get_input_types(self) -> list[dict[str, Any]]:
        return metadata(self.predictor.inputs) if self.predictor else []

    def get_output_types(self) -> list[dict[str, Any]]:
        return metadata(self.predictor.results) if self.predictor else []

    async def predict(
        self, payload: Any, headers: Any = None, response_headers: Any = None
    ) -> InferResponse:
        if self.predictor is None:
            raise ModelNotReady(self.name)
        if not isinstance(payload, InferRequest):
            raise InvalidInput(
                "this model answers version 2 of the protocol: /v2/models/NAME/infer"
            )
        try:
            tensors = {i.name: _array(i) for i in payload.inputs}
            requested = [o.name for o in payload.request_outputs or ()]
            results = await asyncio.to_thread(infer, self.predictor, tensors, requested)
        except ValueError as error:
            raise InvalidInput(str(error)) from None
        outputs = []
        for name, array in results.items():
            output = InferOutput(name, list(array.shape), DATATYPES[array.dtype.name])
            output.set_data_from_numpy(array, binary_data=payload.use_binary_outputs)
            outputs.append(output)
        return InferResponse(
            payload.id or str(uuid.uuid4()),
            self.name,
            outputs,
            from_grpc=payload.from_grpc,
            use_binary_outputs=payload.use_binary_outputs,
            requested_outputs=payload.request_outputs,
        )


def _array(tensor: Any) -> Any:
    data = tensor._raw_data if tensor._raw_data is not None else tensor.data
    return array_of(tensor.name, tensor.datatype, tensor.shape, data)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(parents=[kserve.model_server.parser])
    parser.add_argument("--path", required=True, help="a library or a model file")
    parser.add_argument("--threads", type=int, default=1, help="the model's threads")
    args = parser.parse_args()
    model = Model(args.model_name, args.path, threads=args.threads)
    model.load()
    kserve.ModelServer().start([model])
