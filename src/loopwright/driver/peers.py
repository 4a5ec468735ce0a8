"""Other evaluators of a model, which users install themselves: their numbers and their times.

    run = open_peer("onnxruntime", "model.onnx", threads=2)
    run.version, run({"x": x})          # the outputs by name

They judge the numbers of `bisect` and `compare`, and are what `compare` measures next to.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import LoopwrightError, UnknownName, explain, suggest
from ..frontend.torch.models import EAGER, is_program
from ..relax.interpreter import Interpreter
from .differences import flat
from .feeds import Feed
from .steps import as_module

if TYPE_CHECKING:
    from onnx import ModelProto

Outputs = dict[str, Any]  # an engine's own arrays, and sequences and maps of them


@dataclass(frozen=True)
class Peer:
    """A model in another evaluator: `peer(feeds)` returns its outputs by name. times: whether its time
    is one that a user would compare with."""

    name: str
    version: str
    run: Callable[[Mapping[str, Feed]], Outputs]
    times: bool = True

    def __call__(self, feeds: Mapping[str, Feed]) -> Outputs:
        with _named(self.name):
            return self.run(feeds)


def open_peer(
    name: str, model: object, threads: int | None = None, outputs: Sequence[str] | None = None
) -> Peer:
    """A model in an evaluator of `PEERS`. outputs: values to return, of nodes too; None for the
    model's outputs. Raises LoopwrightError for an unknown evaluator, one that is not installed, and a
    model that it does not take."""
    if name not in PEERS:
        what = "unknown judge of the numbers"
        raise UnknownName(explain(what, got=name, instead=suggest(name, PEERS, "one of")))
    with _named(name):
        return PEERS[name](model, threads, outputs)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """A context in which an error of an evaluator names it."""
    try:
        yield
    except (LoopwrightError, OSError):
        raise
    except Exception as error:
        got = f"{type(error).__name__}: {error}"
        raise LoopwrightError(
            explain(f"{name} refuses the model or its inputs", got=got)
        ) from error


@contextmanager
def _needed(name: str) -> Iterator[None]:
    """A context in which a package is imported. Raises LoopwrightError where it is not installed."""
    try:
        yield
    except ImportError as error:
        what, hint = f"{name} is to judge, and is not installed", f"pip install {name}"
        raise LoopwrightError(explain(what, instead=f"{hint}, or against interpreter")) from error


def as_proto(model: object) -> ModelProto:
    """A model as ONNX."""
    import onnx

    if isinstance(model, (str, os.PathLike)) and str(model).endswith(".onnx"):
        return onnx.load(model)
    if not isinstance(model, onnx.ModelProto):
        what = "only ONNX models have this evaluator"
        got = model if isinstance(model, (str, os.PathLike)) else type(model).__name__
        raise LoopwrightError(explain(what, got=got, instead='against="interpreter"'))
    return model


def _onnxruntime(model: object, threads: int | None, outputs: Sequence[str] | None) -> Peer:
    with _needed("onnxruntime"):
        import onnxruntime
    source: Any = os.fspath(model) if isinstance(model, (str, os.PathLike)) else None
    if source is None or outputs is not None or not source.endswith(".onnx"):
        source = _with_outputs(as_proto(model), outputs or ()).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    inputs = {value.name for value in session.get_inputs()}

    def run(feeds: Mapping[str, Feed]) -> Outputs:
        values = session.run(names, {n: v for n, v in feeds.items() if n in inputs})
        return dict(zip(names, values, strict=True))

    return Peer("onnxruntime", onnxruntime.__version__, run)


def _with_outputs(model: ModelProto, names: Sequence[str]) -> ModelProto:
    """The model with more values among its outputs."""
    import onnx

    shown = {value.name for value in model.graph.output}
    more = [onnx.helper.make_empty_tensor_value_info(n) for n in names if n not in shown]
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.output.extend(more)
    return copy


def _reference(model: object, threads: int | None, outputs: Sequence[str] | None) -> Peer:
    import onnx.reference

    session: Any = onnx.reference.ReferenceEvaluator(as_proto(model))

    def run(feeds: Mapping[str, Feed]) -> Outputs:
        if outputs is not None:
            return session.run(None, dict(feeds), intermediate=True)
        return dict(zip(session.output_names, session.run(None, dict(feeds)), strict=True))

    return Peer("reference", onnx.__version__, run, times=False)


def _openvino(model: object, threads: int | None, outputs: Sequence[str] | None) -> Peer:
    with _needed("openvino"):
        openvino = import_module("openvino")
    # By default it computes in bfloat16 where the CPU has it, and differs from everything.
    config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    config |= {"INFERENCE_NUM_THREADS": threads} if threads else {}
    compiled = openvino.Core().compile_model(
        os.fspath(model) if isinstance(model, (str, os.PathLike)) else model, "CPU", config
    )

    def run(feeds: Mapping[str, Feed]) -> Outputs:
        return {next(iter(p.names), ""): v for p, v in compiled(dict(feeds)).items()}

    return Peer("openvino", openvino.__version__.split("-")[0], run)


def _torch(model: object, threads: int | None, outputs: Sequence[str] | None) -> Peer:
    with _needed("torch"):
        torch = import_module("torch")
    if isinstance(model, (str, os.PathLike)) and str(model).endswith(".pt2"):
        model = torch.export.load(os.fspath(model))
    if not is_program(model):
        what, hint = "torch runs programs that torch.export.save wrote", "--against torch:FILE.pt2"
        raise LoopwrightError(explain(what, got=model, instead=hint))
    torch.set_num_threads(threads or torch.get_num_threads())
    module = model.module()

    def run(feeds: Mapping[str, Feed]) -> Outputs:
        values = [torch.from_numpy(np.ascontiguousarray(v)) for v in feeds.values()]
        with torch.no_grad():
            leaves = torch.utils._pytree.tree_leaves(module(*values))
        return {f"output {k}": v.numpy() for k, v in enumerate(leaves)}

    return Peer("torch", torch.__version__, run)


def _eager(model: object, threads: int | None, outputs: Sequence[str] | None) -> Peer:
    if not is_program(model):
        what, hint = "only models of torch run in eager", 'against="interpreter"'
        raise LoopwrightError(explain(what, got=type(model).__name__, instead=hint))
    return Peer("eager", "", lambda feeds: EAGER.get()(model, dict(feeds), outputs), times=False)


def _interpreter(model: object, threads: int | None, outputs: Sequence[str] | None) -> Peer:
    main = Interpreter(as_module(model))["main"]

    def run(feeds: Mapping[str, Feed]) -> Outputs:
        return {f"output {k}": v for k, v in enumerate(flat(main(*feeds.values())))}

    return Peer("interpreter", np.__version__, run, times=False)


PEERS: dict[str, Callable[[object, int | None, Sequence[str] | None], Peer]] = {
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
    "torch": _torch,
    "interpreter": _interpreter,
    "reference": _reference,
    "eager": _eager,
}
