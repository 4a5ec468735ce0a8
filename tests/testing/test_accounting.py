"""What a run of the tests says of itself."""

from __future__ import annotations

import pytest

from .. import accounting


@pytest.mark.parametrize(
    ("required", "reason", "missing"),
    [
        ("gcc", "there is no gcc", True),
        ("gcc", "there is no arm-none-eabi-gcc", False),
        ("gcc", "needs qemu-aarch64 and aarch64-linux-gnu-gcc, and Python", False),
        ("gdb", "gdb is not installed", True),
        ("onnxruntime", "could not import 'onnxruntime': No module named 'onnxruntime'", True),
        ("onnxruntime", "onnxruntime has no such kernel for this processor", False),
        ("gcc,ai-edge-litert", "the package ai-edge-litert is not installed", True),
        ("zoo", "the package registry is out of reach, so no magika: no route", True),
        ("zoo", "this machine has them all", False),
    ],
)
def test_what_is_required_is_missed(
    required: str, reason: str, missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounting, "REQUIRED", required.split(","))
    assert accounting._missing(reason) == missing
