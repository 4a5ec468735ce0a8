"""Importers of models, to Relay: `from_onnx`, `from_tflite`."""

from __future__ import annotations

import os
from typing import Any

from ....base.errors import explain
from ....frontend.onnx import from_onnx as relax_from_onnx
from ....frontend.tflite import from_tflite as relax_from_tflite
from ....ir.module import IRModule
from ....runtime.tensor import Tensor
from ..left_out import served
from .from_relax import from_relax


def from_onnx(
    model: Any,
    shape: dict[str, Any] | None = None,
    dtype: str | dict[str, str] | None = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: dict[str, Any] | None = None,
    export_node_renamed_model_path: str | None = None,
) -> tuple[IRModule, dict[str, Tensor]]:
    """Import an ONNX model: (its module, its parameters by name).

    model: a path, the bytes of a file, or an onnx.ModelProto. shape, dtype: of inputs by name, instead of the model's. freeze_params: weights are constants,
    not parameters. convert_config: {"use_nt_batch_matmul": True} expresses products of batches by
    a transposed matrix; other entries are accepted for compatibility.

    Raises ValueError for an `export_node_renamed_model_path`, and what
    `loopwright.frontend.onnx.from_onnx` raises.
    """
    if export_node_renamed_model_path is not None:
        what = "export_node_renamed_model_path is not supported"
        hint = "expressions have the names of their nodes, as spans"
        raise ValueError(explain(what, got=export_node_renamed_model_path, instead=hint))
    mod = relax_from_onnx(model, shape, dtype, opset, keep_params_in_input=not freeze_params)
    main = mod["main"]
    count = int(main.attrs["num_input"])
    names = [p.name_hint for p in main.params]
    params = main.attrs.get("params", ())
    transposed = bool((convert_config or {}).get("use_nt_batch_matmul", False))
    return from_relax(mod, transposed), dict(zip(names[count:], params, strict=True))


def from_tflite(
    model: str | os.PathLike[str] | bytes,
    shape_dict: dict[str, Any] | None = None,
    dtype_dict: str | dict[str, str] | None = None,
) -> tuple[IRModule, dict[str, Tensor]]:
    """Import a TFLite model: (its module, {}), since its weights are constants of the module.

    model: a path, or the bytes of a file. shape_dict, dtype_dict: of inputs by name, instead of the
    model's. Raises what `loopwright.frontend.tflite.from_tflite` raises.
    """
    return from_relax(relax_from_tflite(model, shape_dict, dtype_dict)), {}


__getattr__ = served(__name__)
