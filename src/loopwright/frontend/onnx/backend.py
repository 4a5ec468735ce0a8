"""The `onnx.backend.base` interface: models and nodes through the compiled path.

from loopwright.frontend.onnx import backend
outputs = backend.run_model(model, [x, y])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...base.late import Slot

try:
    import onnx
    from onnx import helper
    from onnx.backend.base import Backend as _Backend
    from onnx.backend.base import BackendRep as _BackendRep
except ImportError as error:
    _WHAT = "ONNX's backend interface needs the package onnx"
    raise LoopwrightError(explain(_WHAT, instead="pip install 'loopwright[onnx]'")) from error

COMPILE: Slot[Callable[..., Any]] = Slot("frontend.compile")


class Prepared(_BackendRep):
    """A compiled model. compiled: the result of `loopwright.compile`."""

    def __init__(self, model: Any, compiled: Any) -> None:
        self.compiled = compiled
        self._ports = list(model.graph.output)

    def run(
        self,
        inputs: np.ndarray[Any, Any] | Sequence[Any] | Mapping[str, np.ndarray[Any, Any]],
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs as numpy arrays, sequences as lists, an optional without a value as None.

        inputs: values in the order of the model's inputs, one value, or a dict by name.
        """
        results = self.compiled.run(inputs)
        return tuple(_plain(results[p.name], p.type) for p in self._ports)


class Backend(_Backend):
    """Loopwright as a backend of ONNX. Device: "CPU"."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Prepared:
        """Compile a model for this machine. kwargs: keywords of `loopwright.compile`.

        Raises LoopwrightError for a model that cannot be imported and for another device.
        """
        if not cls.supports_device(device):
            raise LoopwrightError(explain("this backend runs on the CPU", got=device))
        return Prepared(model, COMPILE.get()(model, **kwargs))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
        """`prepare`, then `run` once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Sequence[Any] | Mapping[str, np.generic | np.ndarray[Any, Any]],
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: int,
    ) -> Any:
        """The outputs of one node. inputs: in order, or a dict by name; kwargs: `opset_version` of
        the node's domain (the newest), keywords of `loopwright.compile`."""
        names = list(dict.fromkeys(name for name in node.input if name))
        arrays = list(inputs) if isinstance(inputs, (list, tuple)) else inputs
        arrays = [arrays[n] for n in names] if isinstance(arrays, dict) else arrays
        ports = [_port(n, v) for n, v in zip(names, arrays, strict=True)]
        results = [_result(n, k, outputs_info) for k, n in enumerate(filter(None, node.output))]
        version = kwargs.pop("opset_version", None) or _newest(node.domain)
        graph = helper.make_graph([node], node.op_type, ports, results)
        imports = [helper.make_opsetid(node.domain, version)]
        model = helper.make_model(graph, opset_imports=imports)
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models run on a device, "CPU" or "CPU:0"."""
        return device.partition(":")[0] == "CPU"


def _newest(domain: str) -> int:
    return max(s.since_version for s in onnx.defs.get_all_schemas() if s.domain == domain)


def _port(name: str, value: Any) -> Any:
    """A graph input for a value of a node."""
    if isinstance(value, list):
        item = np.asarray(value[0]) if value else np.zeros(0, np.float32)
        kind = helper.np_dtype_to_tensor_dtype(item.dtype)
        return helper.make_tensor_sequence_value_info(name, kind, None)
    array = np.asarray(value)
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
    )


def _result(name: str, index: int, infos: Sequence[Any] | None) -> Any:
    if infos is None:
        return helper.make_empty_tensor_value_info(name)
    dtype, shape = infos[index]
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
    )


def _plain(value: Any, kind: Any) -> Any:
    """A result as numpy knows it. kind: its TypeProto."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        which = kind.WhichOneof("value")
        inner = getattr(kind, which).elem_type if which else kind
        return [_plain(v, inner) for v in value]
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    number = kind.tensor_type.elem_type  # 0 where it has no type
    dtype = helper.tensor_dtype_to_np_dtype(number) if number else array.dtype
    same_size = dtype.itemsize == array.dtype.itemsize  # a type below a byte, one element a byte
    return array.astype(dtype) if same_size and dtype.kind == "V" else array


prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
