"""The operators of `benchmarks.operators` as calls of torch, for those that torch has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper

T = torch.Tensor
Attrs = dict[str, Any]


def _axes(inputs: list[T], attrs: Attrs, at: int = 1) -> list[int]:
    listed = inputs[at].tolist() if len(inputs) > at else attrs.get("axes")
    return listed or list(range(inputs[0].ndim))


def _reduce(function: Callable[..., T]) -> Callable[[list[T], Attrs], T]:
    return lambda i, a: function(i[0], dim=_axes(i, a), keepdim=bool(a.get("keepdims", 1)))


def _window(attrs: Attrs) -> Attrs:
    """Strides and symmetric padding as torch takes them."""
    pads = attrs.get("pads", [0, 0])
    padding = pads[: len(pads) // 2] if len(pads) > 2 else pads[0]
    return {"stride": attrs.get("strides", 1), "padding": padding}


def _conv(i: list[T], a: Attrs) -> T:
    more = {"dilation": a.get("dilations", 1), "groups": a.get("group", 1)}
    function = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[i[0].ndim]
    return function(*i, **_window(a), **more)


def _average_pool(i: list[T], a: Attrs) -> T:
    counted = bool(a.get("count_include_pad", 0))
    return F.avg_pool2d(i[0], a["kernel_shape"], **_window(a), count_include_pad=counted)


def _pad(i: list[T], a: Attrs) -> T:
    begin, end = i[1].tolist()[: i[0].ndim], i[1].tolist()[i[0].ndim :]
    pairs = [w for pair in zip(begin[::-1], end[::-1], strict=True) for w in pair]
    mode = _text(a.get("mode", "constant"))
    return F.pad(i[0], pairs if mode == "constant" else pairs[:4], mode)


def _resize(i: list[T], a: Attrs) -> T:
    modes = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}
    return F.interpolate(i[0], size=i[-1].tolist()[2:], mode=modes[_text(a["mode"])])


def _gelu(i: list[T], a: Attrs) -> T:
    return F.gelu(i[0], approximate=_text(a.get("approximate", b"none")))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _plain(function: Callable[..., T]) -> Callable[[list[T], Attrs], T]:
    return lambda i, a: function(*i)


CALLS: dict[str, Callable[[list[T], Attrs], Any]] = {
    **{n: _plain(getattr(torch, n.lower())) for n in
       ("Exp", "Tanh", "Erf", "Sigmoid", "Log", "Sqrt", "Relu", "Sin", "Round", "Add", "Mul", "Div",
        "Pow", "MatMul", "Where")},
    **{n: _plain(getattr(F, n.lower())) for n in ("Softplus", "HardSwish", "Mish")},
    "Gelu": _gelu,
    "Gemm": lambda i, a: torch.addmm(i[2], i[0], i[1].T if a.get("transB") else i[1]),
    "Conv": _conv,
    "ConvTranspose": lambda i, a: F.conv_transpose2d(*i, **_window(a)),
    "MaxPool": lambda i, a: F.max_pool2d(i[0], a["kernel_shape"], **_window(a)),
    "AveragePool": _average_pool,
    "GlobalAveragePool": lambda i, a: i[0].mean((2, 3), keepdim=True),
    "GlobalMaxPool": lambda i, a: i[0].amax((2, 3), keepdim=True),
    "ReduceSum": _reduce(torch.sum),
    "ReduceMax": _reduce(torch.amax),
    "ReduceMean": _reduce(torch.mean),
    "ReduceL2": _reduce(torch.linalg.vector_norm),
    "ReduceLogSumExp": _reduce(torch.logsumexp),
    "Softmax": lambda i, a: i[0].softmax(a.get("axis", -1)),
    "LogSoftmax": lambda i, a: i[0].log_softmax(a.get("axis", -1)),
    "TopK": lambda i, a: i[0].topk(int(i[1]), a.get("axis", -1), bool(a.get("largest", 1))),
    "Transpose": lambda i, a: i[0].permute(a["perm"]).contiguous(),
    "ArgMax": lambda i, a: i[0].argmax(a.get("axis", 0), bool(a.get("keepdims", 1))),
    "ArgMin": lambda i, a: i[0].argmin(a.get("axis", 0), bool(a.get("keepdims", 1))),
    "LayerNormalization": lambda i, a: F.layer_norm(i[0], i[1].shape, *i[1:]),
    "InstanceNormalization": lambda i, a: F.instance_norm(i[0], weight=i[1], bias=i[2]),
    "GroupNormalization": lambda i, a: F.group_norm(i[0], a["num_groups"], *i[1:]),
    "LpNormalization": lambda i, a: F.normalize(i[0], a.get("p", 2), a.get("axis", -1)),
    "LRN": lambda i, a: F.local_response_norm(i[0], a["size"], a.get("alpha", 1e-4), a.get("beta", 0.75), a.get("bias", 1)),
    "Einsum": lambda i, a: torch.einsum(_text(a["equation"]), *i),
    "Concat": lambda i, a: torch.cat(i, a["axis"]),
    "Gather": lambda i, a: i[0].index_select(a.get("axis", 0), i[1].flatten()),
    "GatherElements": lambda i, a: i[0].gather(a.get("axis", 0), i[1]),
    "ScatterElements": lambda i, a: i[0].scatter(a.get("axis", 0), i[1], i[2]),
    "ScatterND": lambda i, a: i[0].index_copy(0, i[1][:, 0], i[2]),
    "Pad": _pad,
    "CumSum": lambda i, a: i[0].cumsum(int(i[1])),
    "Split": lambda i, a: [p.contiguous() for p in i[0].chunk(a.get("num_outputs", 2), a.get("axis", 0))],
    "Tile": lambda i, a: i[0].tile(i[1].tolist()),
    "Expand": lambda i, a: i[0].expand(i[1].tolist()).contiguous(),
    "NonZero": lambda i, a: i[0].nonzero().T.contiguous(),
    "Resize": _resize,
}  # fmt: skip


def call_of(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> Callable[[], Any] | None:
    """A call of the model's node, in eager torch without gradients; None for what torch lacks."""
    (node,) = model.graph.node
    function = CALLS.get(node.op_type)
    if function is None:
        return None
    values = feeds | {c.name: numpy_helper.to_array(c) for c in model.graph.initializer}
    inputs = [torch.from_numpy(np.array(values[n])) for n in node.input if n]
    attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}

    @torch.inference_mode()
    def call() -> Any:
        return function(inputs, attrs)

    return call
