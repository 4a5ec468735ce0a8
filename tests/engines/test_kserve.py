"""KServe answers the protocol with a compiled model, in JSON and with bytes."""

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
from .protocol import MODEL, Client, check_load, check_server, free_ports, server

pytest.importorskip("kserve")

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
# Its server listens on all addresses of a machine: here on loopback alone.
PROGRAM = """
import sys, functools, uvicorn, runpy
init = uvicorn.Config.__init__
uvicorn.Config.__init__ = lambda self, app, **options: init(self, app, **{**options, "host": "127.0.0.1"})
sys.argv[0] = "kserve"
runpy.run_module("loopwright.serve.kserve", run_name="__main__")
"""


@pytest.fixture(scope="module")
def port(tmp_path_factory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("kserve") / "model.so"
    mlp(threads=1).export_library(path)
    (port,) = free_ports(1)
    command = [sys.executable, "-c", PROGRAM, "--model_name", MODEL, "--path", str(path)]
    command += ["--http_port", str(port), "--enable_grpc", "false"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with server(command, port, env=environment):
        yield port


@pytest.mark.budget(60)
def test_the_protocol(port):
    check_server(port)
    print(f"requests a second: {check_load(port):.0f}")


@pytest.mark.budget(30)
def test_bytes(port):
    x, client = batch(5), Client(port)
    tensor = {"name": "x", "shape": list(x.shape), "datatype": "FP32"}
    tensor["parameters"] = {"binary_data_size": x.nbytes}
    head = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    text = json.dumps(head).encode()
    headers = {"Inference-Header-Content-Length": str(len(text))}
    headers["Content-Type"] = "application/octet-stream"
    status, answer, data = client.post(f"/v2/models/{MODEL}/infer", text + x.tobytes(), headers)
    assert status == 200
    (output,) = answer["outputs"]
    result = np.frombuffer(data, "float32").reshape(output["shape"])
    np.testing.assert_allclose(result, expected(x), rtol=1e-5, atol=1e-5)
