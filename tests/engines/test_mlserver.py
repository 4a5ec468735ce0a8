"""MLServer answers the protocol with a compiled model, in JSON and over gRPC with bytes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ..serve.models import batch, expected, mlp
from .protocol import MODEL, check_load, check_server, free_ports, server

pytest.importorskip("mlserver")

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def ports(tmp_path_factory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("mlserver")
    mlp(threads=1).export_library(folder / "model.so")
    http, grpc, metrics = free_ports(3)
    settings = {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "metrics_port": metrics}
    settings |= {"parallel_workers": 0, "debug": False}
    (folder / "settings.json").write_text(json.dumps(settings))
    text = (ROOT / "examples" / "serve" / "model-settings.json").read_text()
    (folder / "model-settings.json").write_text(text)
    command = [str(Path(sys.executable).parent / "mlserver"), "start", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with server(command, http, env=environment):
        yield http, grpc


@pytest.mark.budget(60)
def test_the_protocol(ports):
    check_server(ports[0])
    print(f"requests a second: {check_load(ports[0]):.0f}")


@pytest.mark.budget(30)
def test_bytes(ports):
    import grpc
    from mlserver.grpc import dataplane_pb2 as pb
    from mlserver.grpc.dataplane_pb2_grpc import GRPCInferenceServiceStub

    x = batch(5)
    with grpc.insecure_channel(f"127.0.0.1:{ports[1]}") as channel:
        stub = GRPCInferenceServiceStub(channel)
        tensor = pb.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=x.shape)
        request = pb.ModelInferRequest(model_name=MODEL, inputs=[tensor])
        request.raw_input_contents.append(x.tobytes())
        answer = stub.ModelInfer(request)
        result = (
            np.frombuffer(answer.raw_output_contents[0], "float32")
            if (answer.raw_output_contents)
            else np.asarray(answer.outputs[0].contents.fp32_contents, "float32")
        )
        np.testing.assert_allclose(
            result.reshape(answer.outputs[0].shape), expected(x), rtol=1e-5, atol=1e-5
        )
