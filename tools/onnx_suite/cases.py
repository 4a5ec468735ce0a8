"""The cases of the installed package onnx, and how one is run and judged."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from loopwright.base.errors import LoopwrightError
from loopwright.frontend.onnx.backend import Backend
from tools.fuzz.judge import Outcome

from .standard import verdict

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted", "real")
_ROOT = Path(onnx.__file__).parent.parent


@functools.cache
def all_cases() -> list[Any]:
    """Every case, in a fixed order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [c for k in KINDS for c in sorted(load_model_tests(kind=k), key=lambda c: c.name)]


def model_of(case: Any) -> Any:
    """The case's model. Real networks come without their weights' values ("light")."""
    if case.model is not None:
        return case.model
    return onnx.load(_ROOT / case.url if case.url else Path(case.model_dir) / "model.onnx")


def data_of(case: Any, model: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """(inputs, expected outputs) of each data set."""
    if case.data_sets is not None:
        for inputs, outputs in case.data_sets:
            yield [_array(v) for v in inputs], [_array(v) for v in outputs]
    elif case.url:
        weights = {t.name for t in model.graph.initializer}
        ports = [p for p in model.graph.input if p.name not in weights]
        prefix = (_ROOT / case.url).with_suffix("")
        outputs = [
            _read(Path(f"{prefix}_output_{k}.pb"), p.type) for k, p in enumerate(model.graph.output)
        ]
        yield [Runner.generate_dummy_data(p, name=case.name) for p in ports], outputs
    else:
        for folder in sorted(Path(case.model_dir).glob("test_data_set*")):
            yield (
                _folder(folder, "input", model.graph.input),
                _folder(folder, "output", model.graph.output),
            )


def run(index: int, say: Callable[[str], None] = lambda stage: None) -> Outcome:
    """Compile and run one case, its outputs compared as onnx's own runner compares them."""
    case = all_cases()[index]
    model = model_of(case)
    ops = ", ".join(sorted({n.op_type for n in model.graph.node})[:3])
    stage = "compile"
    say(stage)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prepared = Backend.prepare(copy.deepcopy(model))
            for inputs, expected in data_of(case, model):
                stage = "run"
                say(stage)
                outputs = prepared.run(inputs)
                stage = "compare"
                _same_kinds(expected, outputs)
                # onnx's runner takes a tensor in a sequence for a sequence of rows: it has none of rank 0.
                parts = list(_tensors(expected)), list(_tensors(outputs))
                Runner.assert_similar_outputs(*parts, case.rtol, case.atol)
    except AssertionError as error:
        lines = " ".join(str(error).split())
        kind = verdict(model, inputs, expected, outputs, case) if stage == "compare" else "error"
        return Outcome(kind, stage, lines[:600], ops)
    except (LoopwrightError, ValueError, TypeError) as error:
        kind = "wrong" if stage == "compare" else "refused"
        return Outcome(kind, stage, f"{type(error).__name__}: {error}", ops)
    except Exception as error:
        return Outcome("error", stage, f"{type(error).__name__}: {error}", ops)
    return Outcome("right", "", "", ops)


def _same_kinds(expected: list[Any], outputs: Any) -> None:
    """Whether sequences are as long, and None where None is expected."""
    for a, b in zip(expected, outputs, strict=True):
        if (a is None) != (b is None) or isinstance(a, list) != isinstance(b, list):
            raise AssertionError(f"{type(b).__name__} for {type(a).__name__}")
        if isinstance(a, list):
            assert len(a) == len(b), f"a sequence of {len(b)} for {len(a)}"
            _same_kinds(a, b)


def _tensors(values: Any) -> Iterator[Any]:
    """The tensors of sequences in sequences; what is not there is left out."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _tensors(value)
        elif value is not None:
            yield value


def _array(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def _folder(folder: Path, side: str, ports: Any) -> list[Any]:
    count = len(list(folder.glob(f"{side}_*.pb")))
    return [_read(folder / f"{side}_{k}.pb", ports[k].type) for k in range(count)]


def _read(path: Path, kind: Any) -> Any:
    found: list[Any] = []
    Runner._load_proto(Runner, str(path), found, kind)  # type: ignore[arg-type]
    (value,) = found
    return value
