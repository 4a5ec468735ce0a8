"""The loops of topi's operators: those that tests compare with numpy."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from loopwright import te

from ..drawing import seeded
from ..topi import (
    test_conv,
    test_image,
    test_layers,
    test_more,
    test_search,
    test_vision,
)

MODULES = (test_conv, test_image, test_layers, test_more, test_search, test_vision)


def arguments(test: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """What a test is called with."""
    marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
    for values in itertools.product(*(mark.args[1] for mark in marks)):
        given: dict[str, Any] = {}
        for mark, value in zip(marks, values, strict=True):
            names = mark.args[0]
            several = isinstance(names, tuple)
            given |= zip(names, value, strict=True) if several else {names: value}
        yield given


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_operators(module: ModuleType, replay: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def check(make: Any, arrays: Any, expected: Any, *_: Any, **__: Any) -> None:
        tensors = [te.placeholder(a.shape, str(a.dtype), f"a{n}") for n, a in enumerate(arrays)]
        made = make(*tensors)
        outs = made if isinstance(made, (list, tuple)) else [made]
        texts.append(te.create_prim_func([*tensors, *outs]).script())

    monkeypatch.setattr(module, "check", check)
    rows = {}
    for name, test in vars(module).items():
        if name.startswith("test_") and "check(" in inspect.getsource(test):
            for k, given in enumerate(arguments(test)):
                texts.clear()
                if "rng" in inspect.signature(test).parameters:
                    given["rng"] = seeded(f"{name} {k}")
                test(**given)
                rows[f"{name} {k}"] = {str(n): text for n, text in enumerate(texts)}
    replay(f"topi/{module.__name__.rpartition('_')[2]}", rows)
