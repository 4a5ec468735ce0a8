"""Models of PyTorch as `compile` takes them, recognised without importing torch."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ...base.errors import LoopwrightError, explain
from ...base.late import Slot
from ...ir.module import IRModule
from ..importers import importers

# These import torch.
IMPORTED: Slot[Callable[[Any], IRModule]] = Slot("frontend.torch_program")
EAGER: Slot[Callable[..., dict[str, Any]]] = Slot("frontend.torch_eager")
_PROGRAM = "torch.export.exported_program.ExportedProgram"
_MODULE = "torch.nn.modules.module.Module"
_ONNX = "ONNXProgram"


def _kinds(model: object) -> set[str]:
    return {f"{c.__module__}.{c.__qualname__}" for c in type(model).__mro__}


def is_program(model: object) -> bool:
    """Whether a model is an ExportedProgram."""
    return _PROGRAM in _kinds(model)


def from_model(model: Any) -> IRModule | None:
    """The module of an ExportedProgram, of the file (.pt2) that `torch.export.save` wrote of one, or of
    an ONNXProgram; None for anything else. Raises LoopwrightError for an nn.Module, which says
    nothing of its inputs."""
    if isinstance(model, (str, os.PathLike)) and str(model).endswith(".pt2"):
        import torch

        model = torch.export.load(os.fspath(model))
    kinds = _kinds(model)
    if is_program(model):
        return IMPORTED.get()(model)
    if any(k.startswith("torch.onnx.") and k.endswith(_ONNX) for k in kinds):
        proto = model.model_proto
        return next(mod for mod in (f(proto) for f in importers()) if mod is not None)
    if _MODULE in kinds:
        what = "a module of torch says nothing of the shapes and types of its inputs"
        hint = "compile(model, args=(x, ...)), or compile(torch.export.export(model, args))"
        raise LoopwrightError(explain(what, got=type(model).__name__, instead=hint))
    return None


def exported(model: Any, args: tuple[Any, ...]) -> Any:
    """An nn.Module as the program that it is for these arguments. Raises LoopwrightError for another model."""
    if _MODULE not in _kinds(model):
        what = "args are the example inputs of a torch module"
        raise LoopwrightError(explain(what, got=type(model).__name__, instead="leave them out"))
    import torch

    return torch.export.export(model, args)
