"""The command line, on the bundled model."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

import loopwright as lw
from loopwright.driver import cli, doctor
from loopwright.driver.cli import app
from loopwright.relax.byoc import get_backend
from tools import demo

from ..house.source import ROOT

MODEL = str(demo.BUNDLED)
FEEDS = str(demo.BUNDLED.with_suffix(".npz"))
Refuse = Callable[..., str]


def call(*args: str) -> str:
    result = CliRunner().invoke(app, list(args), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def refuse(capsys: pytest.CaptureFixture[str]) -> Refuse:
    """Run a command that has to fail with that status; what it says on stderr."""

    def refused(*args: str | Path, status: int = 1) -> str:
        with pytest.raises(SystemExit) as stop:
            app([str(arg) for arg in args])
        shown = capsys.readouterr()
        assert stop.value.code == status, shown.err
        assert shown.out == ""
        return shown.err

    return refused


def test_show_lists_the_passes() -> None:
    text = call("show", MODEL)
    assert "LegalizeOps" in text and "GraphToTIR" in text


def test_show_one_pass_and_one_decision() -> None:
    assert "+" in call("show", MODEL, "--pass", "LegalizeOps")
    assert "legalize relax.nn.softmax" in call("show", MODEL, "--explain", "relax.nn.softmax")


def test_show_a_kernel_at_every_level() -> None:
    text = call("show", MODEL, "--kernel", "softmax")
    assert "T.prim_func" in text and "define i32" in text and "%rsp" in text
    heads = [line for line in text.splitlines() if line.startswith("=== softmax: ")]
    assert [head[13:21] for head in heads] == ["TensorIR", "TensorIR", "LLVM", "assembly"]
    assert "define i32" in call("show", MODEL, "--kernel", "graph functions")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no terminals of this kind here")
def test_show_pages_what_a_terminal_cannot_hold() -> None:
    """In a terminal of 24 lines, whose pager counts the lines."""
    script = f"from loopwright.driver.cli import app; app(['show', {MODEL!r}])"
    outer, inner = pty.openpty()
    environment = {**os.environ, "PAGER": "wc -l", "LINES": "24", "COLUMNS": "80"}
    subprocess.run(
        [sys.executable, "-c", script], stdin=inner, stdout=inner, env=environment, check=True
    )
    os.close(inner)
    shown = os.read(outer, 65536).decode()
    os.close(outer)
    assert shown.strip().isdigit() and int(shown) > 24, shown


def test_run_keeps_what_it_computed(tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    text = call("run", MODEL, "--feeds", FEEDS, "-o", str(out))
    assert text == "probability: float32 (10, 10)\n"
    assert call("run", MODEL, "--feeds", FEEDS, "-o", str(out), "--quiet") == ""
    assert "(1, 10)" in call("run", MODEL), "a symbolic size is 1 where none is given"
    with np.load(out) as arrays:
        assert arrays["probability"].argmax(1).tolist() == list(range(10))
    with np.load(FEEDS) as arrays:
        np.save(tmp_path / "one.npy", arrays["image"])
    assert "(10, 10)" in call("run", MODEL, "--feeds", str(tmp_path / "one.npy"))


def test_sequences_and_maps_in_files(tmp_path: Path) -> None:
    """Written as .json and .npz, and read again; the model gives a sequence back as it got it."""
    sequence, scalar = helper.make_tensor_sequence_value_info, helper.make_tensor_value_info
    inputs = [sequence("s", TensorProto.FLOAT, None), scalar("x", TensorProto.FLOAT, [2])]
    outputs = [sequence("t", TensorProto.FLOAT, None), scalar("y", TensorProto.FLOAT, [2])]
    nodes = [helper.make_node("Identity", ["s"], ["t"]), helper.make_node("Neg", ["x"], ["y"])]
    imports = [helper.make_opsetid("", 18)]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    model, feeds, out = (str(tmp_path / n) for n in ("m.onnx", "feeds.npz", "out.npz"))
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), model)
    parts = {"s.0": np.float32([[1, 2]]), "s.1": np.float32([3]), "x": np.float32([4, 5])}
    np.savez(feeds, **parts)
    text = call("run", model, "--feeds", feeds, "-o", out)
    assert text == "t.0: float32 (1, 2)\nt.1: float32 (1,)\ny: float32 (2,)\n"
    with np.load(out) as arrays:
        found = {name: arrays[name].tolist() for name in arrays}
    assert found == {"t.0": [[1, 2]], "t.1": [3], "y": [-4, -5]}
    written = tmp_path / "out.json"
    call("run", model, "--feeds", feeds, "-o", str(written))
    assert json.loads(written.read_text()) == {"t": [[[1.0, 2.0]], [3.0]], "y": [-4.0, -5.0]}
    assert "t: greatest relative difference 0.0e+00" in call("check", model, "--feeds", feeds)
    given = tmp_path / "feeds.json"
    given.write_text(json.dumps({"image": np.zeros((1, 1, 16, 16)).tolist()}))
    assert "probability: float32 (1, 10)" in call("run", MODEL, "--feeds", str(given))


def test_feeds_may_have_initializers_that_are_inputs(tmp_path: Path, refuse: Refuse) -> None:
    onnx = pytest.importorskip("onnx")
    kind, weight = onnx.TensorProto.FLOAT, np.float32([1, 2])
    ports = [onnx.helper.make_tensor_value_info(n, kind, [2]) for n in "xwy"]
    add = onnx.helper.make_node("Add", ["x", "w"], ["y"])
    stored = onnx.numpy_helper.from_array(weight, "w")
    graph = onnx.helper.make_graph([add], "g", ports[:2], ports[2:], [stored])
    onnx.save(onnx.helper.make_model(graph, ir_version=10), tmp_path / "model.onnx")
    np.savez(tmp_path / "feeds.npz", x=np.float32([10, 20]), w=np.float32([5, 6]))
    files = (str(tmp_path / "model.onnx"), "--feeds", str(tmp_path / "feeds.npz"))
    assert "[15. 26.]" in call("run", *files)
    assert "own initializers\n  got: w" in refuse("bench", *files)


@pytest.mark.budget(8)
def test_bench_prints_rates_and_compares(tmp_path: Path) -> None:
    file = str(tmp_path / "run.json")
    quick = ["bench", MODEL, "--seconds", "0.01", "--dims", "4"]
    text = call(*quick, "--save", file)
    assert "median of" in text and "softmax" in text and "of roof" in text
    assert "onnx:/conv1" in call(*quick, "--nodes")
    text = call(*quick, "--compare", file)
    assert "us before" in text and "fused_conv2d_relu" in text


def test_bench_has_percentiles_and_a_table_of_variants() -> None:
    quick = ["bench", MODEL, "--runs", "4", "--warmup", "0"]
    text = call(*quick, "--threads", "1,2", "--batch", "1,3")
    heads, rows = text.splitlines()[0].split(), [line.split() for line in text.splitlines()[2:6]]
    assert heads[:3] == ["threads", "batch", "calls"] and "p99" in heads and "items/s" in heads
    assert [row[:3] for row in rows] == [[t, b, "4"] for t in "12" for b in "13"]
    assert "threads 2, batch 3  #" in text and max(map(len, text.splitlines())) <= 100
    data = json.loads(call(*quick, "--batch", "3", "--seed", "5", "--json"))
    assert "seed 5" in data["conditions"]["inputs"][0] and data["conditions"]["cpus"]
    (times,) = data["times"]
    assert times["p50_ms"] <= times["p90_ms"] <= times["p99_ms"] and times["per_second"] > 0
    assert 0 < times["min_ms"] <= times["mean_ms"] <= times["max_ms"]
    assert {"softmax"} < {kernel["name"] for kernel in data["costs"]["kernels"]}


def test_bench_offloads_to_back_ends_that_are_installed() -> None:
    if get_backend("onednn").why_not():
        pytest.skip("no oneDNN here")
    assert "median of 3 calls" in call(
        "bench", MODEL, "--runs", "3", "--warmup", "0", "--backend", "onednn"
    )


@pytest.mark.budget(8)
def test_bench_prints_as_many_kernels_as_asked() -> None:
    command = ["bench", MODEL, "--seconds", "0", "--batch", "3"]
    one, all_of_them = (CliRunner().invoke(app, [*command, "--top", n]) for n in ("1", "0"))
    few = one.stdout
    assert re.search(r"total .* us in (\d+) kernels; 1 are shown", few)
    assert "softmax" in all_of_them.stdout and "are shown" not in all_of_them.stdout
    threads, batch, *_ = few.splitlines()[4].split()
    assert batch == "3" and threads.isdecimal()
    ready = r"ready   after .* s of loading or compiling; a first call: .* ms"
    assert re.search(ready, one.stderr)


PLUGIN = """
from loopwright import te
from loopwright.frontend.onnx import register_converter
from loopwright.ops import Tensor, op

@op("test_cli.twice")
def twice(x: Tensor, times: float = 2.0):
    return te.compute(x.shape, lambda *i: x(*i) * times, "twice")

register_converter("Twice", domain="test.cli", to="test_cli.twice")
"""


@pytest.mark.usefixtures("forgotten")
def test_a_file_of_python_is_a_plugin(tmp_path: Path, refuse: Refuse) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy")
    graph = helper.make_graph(
        [helper.make_node("Twice", ["x"], ["y"], domain="test.cli")], "g", [x], [y]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("test.cli", 1)]
    model, feeds, plugin = (str(tmp_path / f) for f in ("model.onnx", "x.npz", "of_test_cli.py"))
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), model)
    np.savez(feeds, x=np.array([1, 3], "float32"))
    assert "--plugin FILE.py" in refuse("run", model)
    Path(plugin).write_text(PLUGIN, encoding="utf-8")
    assert "[2. 6.]" in call("run", model, "--feeds", feeds, "--plugin", plugin)
    Path(plugin).write_text("x = 1\nx.y = 2\n", encoding="utf-8")
    shown = refuse("run", model, "--plugin", plugin)
    assert f"{plugin}:2: the plug-in cannot be used" in shown and "AttributeError: 'int'" in shown
    assert "instead: --plugin FILE.py" in refuse("run", model, "--plugin", feeds)
    assert "No such file" in refuse("run", model, "--plugin", tmp_path / "none.py")


@pytest.mark.budget(8)
def test_compare_with_another_engine_file_and_target(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    quick = ["compare", MODEL, "--dims", "3", "--seconds", "0.01"]
    for against in ("onnxruntime", "interpreter", MODEL, "llvm -mcpu=x86-64", "c"):
        text = call(*quick, "--against", against)
        assert text.split("\n")[2].split()[:2] == ["probability", "float32[3,10]"], against
        assert ("loopwright takes " in text) == (against != "interpreter")
    data = json.loads(call(*quick, "--against", "onnxruntime", "--json"))
    assert data["ok"] and data["outputs"][0]["relative"] < 1e-5 and len(data["times"]) == 2
    wrong = onnx.load(MODEL)
    for weight in wrong.graph.initializer:
        if weight.data_type == TensorProto.FLOAT:
            weight.raw_data = bytes(len(weight.raw_data))
    onnx.save(wrong, tmp_path / "wrong.onnx")
    command = [*quick, "--against", f"onnxruntime:{tmp_path / 'wrong.onnx'}"]
    found = CliRunner().invoke(app, [*command, "--bisect"])
    assert found.exit_code == 1 and "DIFFERS" in found.stdout
    assert "bisect against interpreter: the numbers agree" in found.stdout


def test_check_is_for_programs_too() -> None:
    data = json.loads(call("check", MODEL, "--json"))
    assert data["ok"] and data["missing"] == [] and data["differences"]["probability"] < 1e-5
    failed = CliRunner().invoke(app, ["check", "none.onnx", "--json"])
    assert failed.exit_code == 1 and "does not exist" in json.loads(failed.stdout)["error"]


def test_a_back_end_that_only_describes_is_not_run(refuse: Refuse) -> None:
    assert "describes regions; to run, tensorrt(runner=...)" in call("doctor")
    shown = refuse("run", MODEL, "--backend", "tensorrt")
    assert "got: tensorrt" in shown and "instead: tensorrt(runner=...) in Python" in shown


def test_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    text, data = call("doctor"), json.loads(call("doctor", "--json"))
    assert "caches" in text and data["versions"]["numpy"] == np.__version__ and data["ok"]
    assert "LOOPWRIGHT_CACHE_DIR" in data["environment"] or data["environment"]["cache"]
    monkeypatch.setattr(doctor, "_version", lambda name: "missing")
    data = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
    assert not data["ok"] and data["extras"]["onnx"] == "no onnx: pip install 'loopwright[onnx]'"
    assert data["extras"]["onnxruntime"].endswith("pip install onnxruntime")


def test_as_a_module_and_in_a_pipe(tmp_path: Path) -> None:
    feeds = Path(FEEDS).read_bytes()
    command = ["run", "-", "--dims", "4", "-o", "-"]
    piped = CliRunner().invoke(app, command, input=Path(MODEL).read_bytes())
    command = [sys.executable, "-m", "loopwright", "run", MODEL, "--feeds", "-", "-o", "-"]
    done = subprocess.run(command, input=feeds, capture_output=True, check=True)
    for data, rows in ((piped.stdout_bytes, 4), (done.stdout, 10)):
        with np.load(io.BytesIO(data)) as out:
            assert out["probability"].shape == (rows, 10)


def test_check_compares() -> None:
    assert "greatest relative difference" in call("check", MODEL, "--dims", "n=3")


@pytest.mark.parametrize("option", ["--dims", "--size"])
def test_sizes_are_given_by_name_or_for_all(option: str) -> None:
    assert "(3, 10)" in call("run", MODEL, option, "n=3")
    assert "(4, 10)" in call("run", MODEL, option, "4")
    assert '"n", 1, 16, 16' not in call("show", MODEL, option, "2", "--pass", "FoldConstant")


def test_sizes_that_are_not_given_are_reported() -> None:
    result = CliRunner().invoke(app, ["run", MODEL])
    assert result.stdout.startswith("probability: float32 (1, 10)\n")
    assert "image float32[1, 1, 16, 16], random, seed 0" in result.stderr
    assert "open sizes: n=1 (default of batch axes)" in result.stderr
    assert CliRunner().invoke(app, ["run", MODEL, "-q"]).stderr == ""


def test_a_model_that_refuses_its_sizes_names_the_option(tmp_path: Path, refuse: Refuse) -> None:
    """A convolution over an axis whose default is not what the product behind it takes."""
    kind = TensorProto.FLOAT
    ports = [helper.make_tensor_value_info("x", kind, ["n", 1, "h", "w"])]
    outs = [helper.make_tensor_value_info("y", kind, None)]
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
    ]
    weight = onnx.numpy_helper.from_array(np.ones((12, 2), "float32"), "m")
    graph = helper.make_graph(nodes, "g", ports, outs, [weight])
    model = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, ir_version=10), model)
    shown = refuse("run", model)
    assert "the model refuses this, where not all sizes were given" in shown
    assert "h=224 (default of image axes)" in shown and "instead: --shape x=1,1,224,224" in shown
    assert "y: float32 (5, 2)" in call("run", str(model), "--shape", "x=5,1,3,4")


def of_rows(path: Path, rows: int) -> Path:
    """A model whose product takes images of so many rows, and any width."""
    kind = TensorProto.FLOAT
    ports = [helper.make_tensor_value_info("x", kind, ["n", "w", "h"])]
    outs = [helper.make_tensor_value_info("y", kind, None)]
    weight = onnx.numpy_helper.from_array(np.ones((rows, 2), "float32"), "m")
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "two"], ["h"]),
        helper.make_node("Concat", ["least", "h"], ["flat"], axis=0),
        helper.make_node("Reshape", ["x", "flat"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
    ]
    two = onnx.numpy_helper.from_array(np.array([2]), "two")
    least = onnx.numpy_helper.from_array(np.array([-1]), "least")
    graph = helper.make_graph(nodes, "g", ports, outs, [weight, two, least])
    onnx.save(helper.make_model(graph, ir_version=10), path)
    return path


def test_a_model_that_refuses_its_sizes_gets_ones_that_it_takes(
    tmp_path: Path, refuse: Refuse
) -> None:
    model = of_rows(tmp_path / "model.onnx", 48)
    shown = refuse("run", model)
    assert "h=224 (default of image axes)" in shown
    assert "instead: --shape x=1,224,48, as it takes h=48" in shown
    shown = refuse("run", model, "--shape", "x=2,5,7")
    assert "h=7 (--shape)" in shown and "instead: --shape x=2,5,48" in shown
    assert "y: float32 (10, 2)" in call("run", str(model), "--shape", "x=2,5,48")


def test_the_source_of_each_input_is_said(tmp_path: Path, refuse: Refuse) -> None:
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
        helper.make_tensor_value_info("rate", TensorProto.INT64, []),
    ]
    outs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    nodes = [
        helper.make_node("Cast", ["rate"], ["r"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "r"], ["y"]),
    ]
    model = tmp_path / "model.onnx"
    graph = helper.make_graph(nodes, "g", ports, outs)
    onnx.save(helper.make_model(graph, ir_version=10), model)
    drawn = CliRunner().invoke(app, ["run", str(model)]).stderr
    assert "x float32[2], random, seed 0" in drawn
    assert re.search(r"rate int64\[\] = [01], 0 or 1 at random, seed 0", drawn)
    filled = CliRunner().invoke(app, ["run", str(model), "--fill", "rate=16000"]).stderr
    assert "rate int64[] = 16000, --fill" in filled and "x float32[2], random" in filled
    ranges = ["--fill", "rate=5:7", "--fill", "x=2:3", "--json"]
    shown = CliRunner().invoke(app, ["run", str(model), *ranges])
    y = np.array(json.loads(shown.stdout)["outputs"]["y"]["values"])
    assert (y >= 10).all() and (y < 21).all() and y[0] != y[1]
    assert "rate=a" in refuse("run", model, "--fill", "rate=a")


def test_every_command_on_a_model_takes_sizes() -> None:
    for command in ("show", "run", "bench", "check", "compile"):
        shown = call(command, "--help")
        assert "--dims" in shown and "--quiet" in shown and "--traceback" in shown


@pytest.mark.budget(8)
def test_commands_that_run_a_model_take_a_number_of_threads(tmp_path: Path, refuse: Refuse) -> None:
    one = call("run", MODEL, "--feeds", FEEDS, "--threads", "1")
    assert one == call("run", MODEL, "--feeds", FEEDS, "--threads", "3")
    assert "median" in call("bench", MODEL, "--threads", "1", "--seconds", "0")
    assert "difference" in call("check", MODEL, "--threads", "2")
    path = tmp_path / "two.so"
    call("compile", MODEL, "--threads", "2", "-o", str(path))
    assert b"lw_threads" in path.read_bytes()
    assert "threads" in refuse("run", MODEL, "--threads", "0", status=2)
    c = ("compile", MODEL, "--target", "c", "--dims", "1", "-o", tmp_path / "c", "--threads", "2")
    assert "C code runs in the thread that calls it" in refuse(*c)


def test_the_version_says_what_runs() -> None:
    assert call("--version").startswith(f"loopwright {lw.__version__}, LLVM ")
    assert f'version = "{lw.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_compile_writes_libraries_and_c_source(tmp_path: Path, refuse: Refuse) -> None:
    text = call("compile", MODEL, "-o", str(tmp_path / "digits.so"))
    assert "digits.so: " in text and (tmp_path / "digits.h").is_file()
    assert call("compile", MODEL, "-q", "-o", str(tmp_path / "digits.a")) == ""
    folder = tmp_path / "out"
    sizes = ["--target", "c", "--dims", "n=10", "--weights", "binary", "--arena", "sram=128KiB"]
    text = call("compile", MODEL, "-o", str(folder), *sizes)
    assert "pool sram: " in text and "of 131072 (128KiB)" in text
    own = {"digits.c", "digits.h", "digits.weights"}
    assert {p.name for p in folder.iterdir()} == {*own, "main.c", "CMakeLists.txt", "README.md"}
    assert "a folder is written for C source only" in refuse("compile", MODEL, "-o", folder)


# ---------------------------------------------------------------------- errors

# What is wrong -> (the command, what the error says). FILE and FOLDER are made by the test.
WRONG: dict[str, tuple[list[str], str]] = {
    "pass": (["show", MODEL, "--pass", "FuseOpz"], "did you mean FuseOps?"),
    "kernel": (["show", MODEL, "--kernel", "softmx"], "did you mean softmax?"),
    "decision": (["show", MODEL, "--explain", "nope"], "no decision about this name"),
    "no model": (["run", "FOLDER/none.onnx"], "the ONNX file does not exist"),
    "no model, no suffix": (["run", "FOLDER/none"], "the model file does not exist"),
    "folder": (["run", "FOLDER"], "an ONNX model is one file"),
    "other file": (["check", "FILE"], "no ONNX model, or only a part of one"),
    "kind": (["show", MODEL, "--target", "lvm"], "unknown target kind"),
    "triple": (["show", MODEL, "--target", "llvm -mtriple=foo-bar"], "unknown target triple"),
    "triple of run": (["run", MODEL, "--target", "llvm -mtriple=foo-bar"], "unknown target tri"),
    "processor": (["show", MODEL, "--target", "llvm -mcpu=zenn4"], "no such processor"),
    "feature": (["bench", MODEL, "--target", "llvm -mattr=+avx9"], "no such feature"),
    "option": (["show", MODEL, "--target", "llvm -foo=3"], "has no option"),
    "no feeds": (["run", MODEL, "--feeds", "FOLDER/none.npz"], "No such file or directory: "),
    "feeds of another kind": (["run", MODEL, "--feeds", "FILE"], "inputs come from a .npz file"),
    "feeds of another model": (["run", MODEL, "--feeds", "OTHER"], "got: other, without image"),
    "folder of feeds": (["bench", MODEL, "--feeds", "FOLDER"], "Is a directory: "),
    "unknown size": (["run", MODEL, "--dims", "m=3"], "it has: n"),
    "unknown size of compile": (["compile", MODEL, "-o", "x.a", "--dims", "m=3"], "it has: n"),
    "size without number": (["bench", MODEL, "--dims", "n"], "a size is a whole number"),
    "negative size": (["check", MODEL, "--dims", "n=-1"], "a size is a whole number"),
    "suffix": (["compile", MODEL, "-o", "x.xyz"], "the file's suffix selects"),
    "below a file": (["compile", MODEL, "-o", "FILE/x.so"], "FILE"),
    "onto a folder": (["run", MODEL, "-o", "FOLDER"], "this is a folder, not a file to write: "),
    "limit of sizes that are open": (
        ["compile", MODEL, "-o", "x.a", "--arena", "sram=1KiB"],
        "the limit of arena sram cannot be checked for main",
    ),
    "limit below a bound": (
        ["compile", MODEL, "-o", "x.a", "--arena", "sram=1KiB", "--dims", "n<=8"],
        "the memory of main does not fit arena sram (1KiB)",
    ),
    "shape": (["run", MODEL, "--shape", "image=1,3,16,16"], "does not have this shape"),
    "input of a shape": (["run", MODEL, "--shape", "img=1,1,16,16"], "did you mean image?"),
    "engine": (["compare", MODEL, "--against", "onnxrt"], "not an engine, a file or a target"),
    "engine of torch": (["compare", MODEL, "--against", "torch"], "torch"),
    "back end": (["bench", MODEL, "--backend", "onednm"], "did you mean onednn?"),
    "numbers of threads": (["bench", MODEL, "--threads", "1,x"], "--threads takes positive"),
    "size of an arena": (["compile", MODEL, "-o", "x.a", "--arena", "s=b"], "this is not a size"),
}


@pytest.mark.parametrize(
    "command",
    [
        ["compile", MODEL, "-o", "none/x.so"],
        ["compile", MODEL, "-o", "none/x.a"],
        ["compile", MODEL, "-o", "none/out", "--target", "c", "--dims", "n=1"],
        ["compile", MODEL, "-o", "out", "--target", "c"],  # its workspace has no bound
        ["run", MODEL, "-o", "none/x.npz"],
    ],
)
def test_a_refused_output_makes_nothing(
    command: list[str], refuse: Refuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = refuse(*command)
    assert shown.startswith("error: ")
    assert "none" not in command[3] or "the folder to write to does not exist: none" in shown
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sample(6)
@pytest.mark.parametrize("what", WRONG)
def test_errors_are_located_and_have_no_frames(what: str, refuse: Refuse, tmp_path: Path) -> None:
    names = {"FOLDER": str(tmp_path), "FILE": str(tmp_path / "file.npz")}
    names["OTHER"] = str(tmp_path / "other.npz")
    Path(names["FILE"]).write_text("not what is expected")
    np.savez(names["OTHER"], other=np.zeros(2))
    command, says = WRONG[what]
    for name, path in names.items():
        command = [word.replace(name, path) for word in command]
        says = says.replace(name, path)
    shown = refuse(*command)
    assert shown.startswith("error: ") and says in shown
    assert "Traceback" not in shown and len(shown.splitlines()) < 12


def test_a_missing_linker_is_named(
    refuse: Refuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("compile", MODEL, "-o", str(tmp_path / "digits.a"))  # before PATH is emptied: workers
    monkeypatch.setenv("PATH", str(tmp_path))
    for suffix in ("a", "o"):
        call("compile", MODEL, "-o", str(tmp_path / f"digits.{suffix}"))
    shown = refuse("compile", MODEL, "-o", tmp_path / "digits.so")
    assert "instead: apt install binutils, or pip install ziglang" in shown


def test_usage_errors_keep_their_status(refuse: Refuse) -> None:
    assert "seconds" in refuse("bench", MODEL, "--seconds", "-1", status=2)
    assert "weights" in refuse("compile", MODEL, "-o", "x", "--weights", "foo", status=2)


def test_where_an_error_was_raised(refuse: Refuse, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(lw.LoopwrightError, match="no pass of this name ran"):
        app(["show", MODEL, "--pass", "FuseOpz", "--traceback"], standalone_mode=False)

    def broken(*args: object, **keywords: object) -> None:
        raise KeyError("a fault of ours")

    monkeypatch.setattr(cli, "lower", broken)
    shown = refuse("show", MODEL, status=70)
    assert "in broken" in shown and "Please report it" in shown


def test_the_demo_shows_the_bundled_model_without_a_network(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "fetch", Mock(side_effect=demo.RegistryError("no network")))
    monkeypatch.setattr(demo, "median", lambda call: float(call() is None) + 1.0)
    assert demo.main() == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Nothing could be fetched (no network): this is the bundled")
    assert "digits: [0 1 2 3 4 5 6 7 8 9]" in shown and "the results agree" in shown
    levels = re.findall(r"^  (\w+) +\d+ lines  \S", shown, re.MULTILINE)
    assert levels == ["graph", "loops", "schedule", "LLVM", "assembly"]
    assert len(shown.splitlines()) < 40 and max(map(len, shown.splitlines())) <= 100
