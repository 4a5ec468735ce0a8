"""Networks in bytes and in float16, made by onnxruntime's tools, beside it: python -m benchmarks.quantized

A stack of convolutions and a transformer block, and, where torch is installed, exports of resnet18, resnet50,
mobilenet_v2 and a small BERT, in each form of the quantizer: static QDQ and QOperator, dynamic, scales per
tensor and per channel, activations in uint8 and int8, weights also in 7 bits (onnxruntime's larger ones
saturate on processors without VNNI); in float16 and, for comparison, as they are; interleaved as in
`benchmarks.run`. Two also have weights of a normal distribution: how many pairs of weights are large decides
what processors without VNNI do.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnxruntime import quantization as oq
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxruntime.transformers.float16 import convert_float_to_float16

from tools.zoo import Feeds

from .models import Case, load, names
from .run import Result, measure, table

EXPORTED = ("resnet18", "resnet50", "mobilenet_v2", "bert_tiny")
_NORMAL = ("resnet18", "mobilenet_v2")
_RNG = np.random.default_rng(0)


def _saved(nodes: list[Any], x: list[Any], weights: dict[str, np.ndarray], path: Path) -> Path:
    ports = [helper.make_tensor_value_info(n, 1, d) for n, d in (("x", x), ("y", None))]
    arrays = [numpy_helper.from_array(a, n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], arrays)
    imports = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    return path


def convolutions(path: Path, channels: int = 64, size: int = 56, depth: int = 6) -> Path:
    """3 x 3 convolutions with a residual around each second one."""
    nodes, weights, x = [], {}, "x"
    for k in range(depth):
        weights[f"w{k}"] = _RNG.normal(size=(channels, channels, 3, 3)).astype(np.float32) / 24
        weights[f"b{k}"] = _RNG.normal(size=channels).astype(np.float32) / 24
        nodes.append(helper.make_node("Conv", [x, f"w{k}", f"b{k}"], [f"c{k}"], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
        last = "y" if k == depth - 1 else f"a{k}"
        if k % 2:
            nodes.append(helper.make_node("Add", [f"r{k}", f"r{k - 1}"], [last]))
        x = last if k % 2 else f"r{k}"
    return _saved(nodes, ["n", channels, size, size], weights, path)


def layers(path: Path, width: int = 256, rows: int = 128) -> Path:
    """The matrix products of a transformer block's feed-forward part, with a normalization."""
    pairs = {"1": (width, 4 * width), "2": (4 * width, width)}
    weights = {f"w{k}": _RNG.normal(size=s).astype(np.float32) / 16 for k, s in pairs.items()}
    weights |= {f"b{k}": np.ones(s[1], np.float32) for k, s in pairs.items()}
    weights |= {"g": np.ones(width, np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["m1"]),
        helper.make_node("Add", ["m1", "b1"], ["a1"]),
        helper.make_node("Relu", ["a1"], ["r1"]),
        helper.make_node("MatMul", ["r1", "w2"], ["m2"]),
        helper.make_node("Add", ["m2", "b2"], ["a2"]),
        helper.make_node("LayerNormalization", ["a2", "g", "b2"], ["y"], axis=-1),
    ]
    return _saved(nodes, ["n", rows, width], weights, path)


class _Rows(oq.CalibrationDataReader):
    def __init__(self, feeds: Feeds) -> None:
        half = {n: x * 0.5 if x.dtype.kind == "f" else x[:, ::-1] for n, x in feeds.items()}
        self.rest = [feeds, half]

    def get_next(self) -> Any:
        return self.rest.pop() if self.rest else None


def networks(folder: Path) -> Iterator[Case]:
    """In float32."""
    for name, make, shape in (
        ("conv", convolutions, (1, 64, 56, 56)),
        ("layers", layers, (1, 128, 256)),
    ):
        x = _RNG.normal(size=shape).astype(np.float32)
        yield Case(name, make(folder / f"{name}.onnx"), {"x": x})
    for name in (n for n in EXPORTED if n in names()):
        exported = load(name)
        path = folder / f"{name}.onnx"
        quant_pre_process(str(exported.path), str(path))
        yield Case(name, path, exported.feeds)
        if name in _NORMAL:
            yield Case(f"{name}-normal", _normal(path, folder), exported.feeds)


def _normal(path: Path, folder: Path) -> Path:
    """The same with windows of a normal distribution, not PyTorch's uniform one: as torchvision initializes
    its networks, and nearer to trained ones."""
    model = onnx.load(path)
    for weight in model.graph.initializer:
        if len(weight.dims) == 4:
            old = numpy_helper.to_array(weight)
            new = _RNG.normal(0, old.std(), old.shape).astype(old.dtype)
            weight.CopyFrom(numpy_helper.from_array(new, weight.name))
    onnx.save(model, folder / f"normal-{path.name}")
    return folder / f"normal-{path.name}"


def cases(plain: Case, folder: Path, only: str) -> Iterator[Case]:
    """A network in every form whose name `only` is in."""
    if re.search(only, f"{plain.name}-float32"):
        yield Case(f"{plain.name}-float32", plain.path, plain.feeds)
    if re.search(only, f"{plain.name}-float16"):
        case = Case(f"{plain.name}-float16", folder / "half.onnx", plain.feeds)
        whole = onnx.load(plain.path)
        onnx.save(convert_float_to_float16(whole, keep_io_types=True), case.path)
        yield case
    for each in (False, True):
        scales = "channel" if each else "tensor"
        types = (
            (oq.QuantType.QUInt8, False),
            (oq.QuantType.QUInt8, True),
            (oq.QuantType.QInt8, False),
        )
        forms = [(f, *t) for f in oq.QuantFormat for t in types]
        for form, short, reduced in [*forms, ("dynamic", None, False)]:
            kind = form if short is None else f"{form.name}-{short.name}{'-7bits' * reduced}"
            case = Case(f"{plain.name}-{kind}-{scales}", folder / "quantized.onnx", plain.feeds)
            if not re.search(only, case.name):
                continue
            if short is None:
                oq.quantize_dynamic(plain.path, case.path, per_channel=each)
            else:
                options = {"activation_type": short, "weight_type": oq.QuantType.QInt8}
                options["reduce_range"] = reduced
                rows = _Rows(plain.feeds)
                oq.quantize_static(
                    plain.path, case.path, rows, quant_format=form, per_channel=each, **options
                )
            yield case


def main() -> int:
    """Measure, print each as it comes, then the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="a regular expression that names must contain")
    options = parser.parse_args()
    engines = dict.fromkeys(["loopwright", "onnxruntime"], sys.executable)
    rows: dict[str, dict[str, Result]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for plain in networks(Path(folder)):
            for case in cases(plain, Path(folder), options.only):
                row, failures = measure(case, engines, options.threads, options.rounds, 0.2)
                rows[case.name] = row
                times = [f"{engine} {result.median_ms:8.3f} ms" for engine, result in row.items()]
                print(f"{case.name:44}", *times, flush=True)
                for engine, why in failures.items():
                    print(f"{case.name}: {engine}: {why}", file=sys.stderr)
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
