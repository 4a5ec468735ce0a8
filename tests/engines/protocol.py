"""A client of the Open Inference Protocol, version 2, and what a server of the tests' model answers."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..serve.models import CLASSES, WIDTH, batch, expected

MODEL = "mlp"


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def get(self, path: str) -> tuple[int, Any]:
        self.connection.request("GET", path)
        return self._answer()[:2]

    def post(self, path: str, body: Any, headers: Any = None) -> tuple[int, Any, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        types = {"Content-Type": "application/json"} | (headers or {})
        self.connection.request("POST", path, data, types)
        return self._answer()

    def _answer(self) -> tuple[int, Any, Any]:
        answer = self.connection.getresponse()
        data = answer.read()
        length = answer.getheader("Inference-Header-Content-Length")
        if length:
            return answer.status, json.loads(data[: int(length)]), data[int(length) :]
        try:
            return answer.status, json.loads(data) if data else None, b""
        except ValueError:
            return answer.status, data.decode(), b""

    def infer(self, x: np.ndarray, **more: Any) -> tuple[int, Any, Any]:
        """An inference with the values in JSON."""
        tensor = {
            "name": "x",
            "shape": list(x.shape),
            "datatype": "FP32",
            "data": x.ravel().tolist(),
        }
        return self.post(f"/v2/models/{MODEL}/infer", {"inputs": [tensor | more]})


@contextmanager
def server(command: Sequence[str], port: int, **options: Any) -> Iterator[int]:
    """A server's process, once it is ready."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **quiet, **options)
    try:
        end = time.monotonic() + 90
        while True:
            assert process.poll() is None and time.monotonic() < end, "the server has not come up"
            try:
                if Client(port).get(f"/v2/models/{MODEL}/ready")[0] == 200:
                    break
            except OSError:
                pass
            time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def values(answer: Any) -> np.ndarray:
    (output,) = answer["outputs"]
    assert output["name"] == "out" and output["datatype"] == "FP32"
    return np.asarray(output["data"], "float32").reshape(output["shape"])


def check_server(port: int) -> None:
    """Health, metadata, inference in JSON, and errors."""
    client = Client(port)
    for path in ("/v2/health/live", "/v2/health/ready", f"/v2/models/{MODEL}/ready"):
        assert client.get(path)[0] == 200
    status, about = client.get("/v2")
    assert status == 200 and {"name", "version", "extensions"} <= about.keys()
    status, about = client.get(f"/v2/models/{MODEL}")
    assert status == 200 and about["name"] == MODEL
    (x,), (out,) = about["inputs"], about["outputs"]
    assert (x["name"], x["datatype"], x["shape"]) == ("x", "FP32", [-1, WIDTH])
    assert (out["name"], out["datatype"], out["shape"]) == ("out", "FP32", [-1, CLASSES])
    rows = batch(3)
    status, answer, _ = client.infer(rows)
    assert status == 200 and answer["model_name"] == MODEL
    np.testing.assert_allclose(values(answer), expected(rows), rtol=1e-5, atol=1e-5)
    nested = client.infer(rows, data=rows.tolist())
    assert nested[0] == 200 and np.array_equal(values(nested[1]), values(answer))
    check_errors(client, rows)


def check_errors(client: Client, rows: np.ndarray) -> None:
    """Bad requests are answered with 400 and what was expected."""
    bad = [
        ({"name": "y"}, "x float32[n, 16]"),
        ({"datatype": "INT64", "data": [1] * rows.size}, "datatype FP32"),
        ({"shape": [3, 5], "data": [0.5] * 15}, "expected 16"),
        ({"shape": [4, WIDTH]}, "48 values"),
        ({"data": ["a"] * rows.size}, "not values of FP32"),
    ]
    for more, said in bad:
        status, answer, _ = client.infer(rows, **more)
        assert status == 400 and said in json.dumps(answer), (status, answer)
    body = {"inputs": [], "outputs": [{"name": "out"}]}
    status, answer, _ = client.post(f"/v2/models/{MODEL}/infer", body)
    assert status == 400 and "x float32[n, 16]" in json.dumps(answer)
    status, answer, _ = client.post(f"/v2/models/{MODEL}/infer", b"{")
    assert 400 <= status < 500
    assert client.get("/v2/models/other")[0] == 404
    assert client.infer(rows)[0] == 200  # the server is well


def check_load(port: int, requests: int = 1000, connections: int = 8) -> float:
    """Many requests in several connections; returns how many a second."""

    def some(worker: int) -> int:
        client, wrong = Client(port), 0
        for k in range(requests // connections):
            x = batch(1 + (worker + k) % 7)
            status, answer, _ = client.infer(x)
            good = status == 200 and np.allclose(values(answer), expected(x), rtol=1e-5, atol=1e-5)
            wrong += not good
        return wrong

    begin = time.perf_counter()
    with ThreadPoolExecutor(connections) as pool:
        assert sum(pool.map(some, range(connections))) == 0
    return requests / (time.perf_counter() - begin)
