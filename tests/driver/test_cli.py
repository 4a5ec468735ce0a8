"""The command line, on the bundled model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from loopwright.base.errors import LoopwrightError
from loopwright.driver import demo
from loopwright.driver.cli import app, main

MODEL = str(demo.BUNDLED)
FEEDS = str(demo.BUNDLED.with_suffix(".npz"))


def call(*args: str) -> str:
    result = CliRunner().invoke(app, list(args), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_show_lists_the_passes() -> None:
    text = call("show", MODEL)
    assert "LegalizeOps" in text and "GraphToTIR" in text


def test_show_one_pass_and_one_decision() -> None:
    assert "+" in call("show", MODEL, "--pass", "LegalizeOps")
    assert "legalize relax.nn.softmax" in call("show", MODEL, "--explain", "relax.nn.softmax")


def test_show_a_kernel_at_every_level() -> None:
    text = call("show", MODEL, "--kernel", "softmax")
    assert "T.prim_func" in text and "define i32" in text and "%rsp" in text


def test_an_unknown_kernel() -> None:
    result = CliRunner().invoke(app, ["show", MODEL, "--kernel", "nope"])
    assert result.exit_code == 2
    assert "no kernel 'nope'" in result.output


def test_run_keeps_what_it_computed(tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    text = call("run", MODEL, "--feeds", FEEDS, "-o", str(out))
    assert text == "probability: float32 (10, 10)\n"
    with np.load(out) as arrays:
        assert arrays["probability"].argmax(1).tolist() == list(range(10))


def test_bench_names_the_kernels() -> None:
    text = call("bench", MODEL, "--seconds", "0.01")
    assert "median of" in text and "softmax" in text


def test_check_compares() -> None:
    assert "greatest relative difference" in call("check", MODEL, "--size", "3")


def test_an_error_has_no_frames(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    monkeypatch.setattr("sys.argv", ["loopwright", "run", str(broken)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    shown = capsys.readouterr().err
    assert shown.startswith("error: ") and "Traceback" not in shown


def test_compile_writes_libraries_and_c_source(tmp_path: Path) -> None:
    text = call("compile", MODEL, "-o", str(tmp_path / "digits.so"))
    assert "digits.so: " in text and (tmp_path / "digits.h").is_file()
    folder = tmp_path / "out"
    sizes = ["--target", "c", "--dims", "n=10", "--weights", "binary", "--arena", "sram=128KiB"]
    text = call("compile", MODEL, "-o", str(folder), *sizes)
    assert "pool sram: " in text and "of 131072 (128KiB)" in text
    assert sorted(p.suffix for p in folder.iterdir()) == [".c", ".h", ".weights"]
    with pytest.raises(LoopwrightError, match="a folder is written for C source only"):
        call("compile", MODEL, "-o", str(folder))
    for command in ("run", "bench", "check"):
        with pytest.raises(LoopwrightError, match="C source is not run from here"):
            call(command, MODEL, "--target", "c")
