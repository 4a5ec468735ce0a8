"""The models that are measured: real ones from the zoo, and plain architectures for speed.

`load(name)` gives an ONNX file, of the form that suits every engine, and one input. The MLPs need numpy
and onnx only; the large ones are exported from torch (benchmarks/torch_models.py) and kept in the
cache folder.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tools.zoo import MODELS, Feeds, fetch, zoo_folder

from .operators import OPERATORS, operator

ZOO = ("centerface", "ppocr-cls", "magika")
MLP = {"mlp_b64": 64, "mlp_b1": 1}
DEFAULT = (*ZOO, *MLP)
_PLAIN = ("resnet50", "mobilenet_v2", "bert_base", "vit_b16", "gpt2_s64", "llama_decode", *MLP)
GROUPS = {"plain": _PLAIN, "zoo": tuple(MODELS), "operators": OPERATORS}
TORCH = (
    "resnet18",
    "resnet50",
    "mobilenet_v2",
    "bert_tiny",
    "bert_base",
    "vit_b16",
    "gpt2_s64",
    "llama_decode",
)


@dataclass(frozen=True)
class Case:
    """A model file and the input it is measured with."""

    name: str
    path: Path
    feeds: Feeds


def mlp_weights() -> dict[str, np.ndarray]:
    """784-128-10, torch's default scale: weights (out, in) and biases."""
    rng = np.random.default_rng(0)

    def uniform(shape: tuple[int, ...], fan_in: int) -> np.ndarray:
        return rng.uniform(-(fan_in**-0.5), fan_in**-0.5, shape).astype(np.float32)

    return {
        "fc1.weight": uniform((128, 784), 784),
        "fc1.bias": uniform((128,), 784),
        "fc2.weight": uniform((10, 128), 128),
        "fc2.bias": uniform((10,), 128),
    }


def mlp(batch: int | str) -> onnx.ModelProto:
    """The MLP as ONNX: x (batch, 784) to y (batch, 10); a string is a symbolic batch."""
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["h"], "/fc1/Gemm", transB=1),
            helper.make_node("Relu", ["h"], ["a"], "/relu/Relu"),
            helper.make_node("Gemm", ["a", "fc2.weight", "fc2.bias"], ["y"], "/fc2/Gemm", transB=1),
        ],
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 784])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 10])],
        [numpy_helper.from_array(value, name) for name, value in mlp_weights().items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def mlp_input(batch: int) -> Feeds:
    """Standard normal input of the MLP."""
    return {"x": np.random.default_rng(1).normal(size=(batch, 784)).astype(np.float32)}


def names() -> list[str]:
    """What `load` knows here: the torch models only where torch is installed."""
    large = TORCH if importlib.util.find_spec("torch") else ()
    return [*dict.fromkeys([*DEFAULT, *MODELS]), *OPERATORS, *large]


def _with_constants(file: Path, path: Path) -> Path:
    """The model of a file with constant weights. Where it lists them as inputs, which a caller may
    replace, onnxruntime cannot fold them; then this writes a copy."""
    model = onnx.load(file)
    weights = {w.name for w in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in weights]
    if len(inputs) == len(model.graph.input):
        return file
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    onnx.save(model, path)
    return path


def load(name: str) -> Case:
    """The model called `name`, made or fetched when it is not there yet."""
    folder = zoo_folder().parent / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.onnx"
    if name in MODELS:
        return Case(name, _with_constants(fetch(name), path), MODELS[name].feeds())
    if name in MLP:
        onnx.save(mlp(MLP[name]), path)
        return Case(name, path, mlp_input(MLP[name]))
    if name in OPERATORS:
        model, feeds = operator(name)
        onnx.save(model, path)
        return Case(name, path, feeds)
    if name not in TORCH:
        raise KeyError(f"no model {name!r} to measure; there are {', '.join(names())}")
    inputs = path.with_suffix(".npz")
    if not inputs.exists():
        from . import torch_models

        torch_models.export(name, path, inputs)
    return Case(name, path, dict(np.load(inputs)))
