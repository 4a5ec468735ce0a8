"""Faults are found: the pass, the kernel, the statement."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.base.host import host
from loopwright.codegen.llvm import expr, workers
from loopwright.driver.cli import app
from loopwright.explore.bisect import replay
from loopwright.frontend.graph.registry import CONVERTERS
from loopwright.frontend.onnx import register_converter
from loopwright.ir.op import FACTS, Op
from loopwright.ir.prim_expr import Div
from loopwright.ir.transform import PassContext
from loopwright.tir.transform import FillNewMemory
from tools.zoo import MODELS, RegistryError, fetch

from . import faults

LANES = 16 if "avx512f" in host().record.features else 8  # channels side by side

# Kernels that are wrong, modules with functions of this process, whole models.
pytestmark = [pytest.mark.no_roundtrip, pytest.mark.no_verify]

DIGITS = "src/loopwright/driver/data/digits.onnx"
SUM, PRODUCT, SOFTMAX = "onnx:/fc/Add", "onnx:/fc/MatMul", "onnx:/softmax"
SOON = "= T_softmax_exp[v_i0, v_i1] * T_softmax_factor[v_i0]"
CALL = 'R.call_dps_packed("fused_relax_matmul1_faulty"'
# fault -> pass, kernel, node, part of the statement
FOUND = {
    "user_pass": ("AddsAreDifferences", "subtract", SUM, "T_subtract[v_ax0, v_ax1] = lv7["),
    "loop_pass": (
        "ProductsAreSums",
        "conv2d_relu",
        "onnx:/conv1",
        f"conv2d_nchw{LANES}c_intermediate[",
    ),
    "legalization": ("LegalizeOps", "exponential", SOFTMAX, "= T.exp(lv8[v_i0, v_i1])"),
    "schedule": ("ApplyDefaultSchedule", "softmax", SOFTMAX, SOON),
    "external": ("RunCodegen", "fused_relax_matmul1_faulty", PRODUCT, CALL),
    "overflow": ("ToMixedPrecision", "cast", PRODUCT, 'T.Cast("float16", lv6['),
}


def image(scale=1.0):
    return {"image": np.random.default_rng(0).random((1, 1, 16, 16), "float32") * np.float32(scale)}


def check(found, name, node, statement):
    passed, kernel = FOUND[name][:2]
    assert found.pass_name == passed, str(found)
    assert kernel in found.kernel and node in found.nodes, str(found)
    assert statement in found.statement and (found.line or name == "external"), str(found)


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", FOUND)
def test_a_fault_is_found(name, tmp_path):
    half = name == "overflow"
    with getattr(faults, name)() as keywords:
        feeds, tolerance = image(4e4 if half else 1.0), 2e-2 if half else 1e-4
        found = lw.bisect(DIGITS, feeds, tolerance=tolerance, **keywords)
    check(found, name, *FOUND[name][2:])
    if name == "user_pass":
        changed = found.before.script().replace("R.add(", "R.subtract(")
        assert found.after.script() == changed != found.before.script()
    if name != "external":  # its function is of this process
        found.save(tmp_path)
        assert replay(tmp_path, found.entry, found.interpreted) == 1


LAYER = "onnx:/model/model.0/auto_model/encoder/layer.0/attention/self/"
# fault -> node and part of the statement
ON_MINILM = {
    "user_pass": ("onnx:/model/model.0/auto_model/embeddings/Add", "T_subtract["),
    "legalization": (f"{LAYER}Softmax", "= T.exp("),
    "schedule": (f"{LAYER}Softmax", "] * T_softmax_factor["),
    "external": (f"{LAYER}query/MatMul", "R.call_dps_packed("),
}


def zoo(name):
    try:
        return fetch(name), MODELS[name].feeds()
    except RegistryError as error:
        pytest.skip(f"{name}: {error}")


@contextmanager
def within_a_minute():
    """Fail where the block takes more: by the processor time of this process, all its threads and
    the processes it started, so that other work on the machine does not count."""
    start = processor_seconds()
    yield
    seconds = processor_seconds() - start
    print(f"{seconds:.1f} s of processor time")
    assert seconds <= 60


def processor_seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + time.process_time() + workers.processor_seconds()


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_MINILM)
def test_a_fault_is_found_in_minilm(name):
    model, feeds = zoo("minilm-l3")
    apart = PassContext(disabled_pass=["FuseAttention"])  # the softmax is a kernel
    with getattr(faults, name)() as keywords, apart, within_a_minute():
        found = lw.bisect(model, feeds, **keywords)
    check(found, name, *ON_MINILM[name])


@pytest.mark.slow
def test_an_overflow_is_found_in_minilm():
    model, feeds = zoo("minilm-l3")
    with faults.masked() as keywords, within_a_minute():
        found = lw.bisect(model, feeds, tolerance=2e-2, **keywords)
    assert (found.pass_name, found.kernel) == ("ProductsInHalf", "relax.astype"), str(found)
    assert found.nodes == ("onnx:/model/model.0/auto_model/Mul_1",), str(found)
    # The constant is converted when it is folded, before there are kernels.
    assert "= R.astype(R.const(-3402823466385288" in found.statement, str(found)
    assert 'dtype="float16"' in found.statement and found.difference == np.inf, str(found)


def test_a_wrong_code_generator_is_found(monkeypatch, tmp_path):
    monkeypatch.setenv("LOOPWRIGHT_CACHE_DIR", str(tmp_path))  # no wrong code for others
    monkeypatch.setitem(expr._BINARY, Div, ("sdiv", "udiv", "fmul"))
    found = lw.bisect(DIGITS, image())
    assert found.pass_name == "machine code" and found.kernel == "softmax", str(found)
    with pytest.raises(LoopwrightError, match="a fault in one module cannot be replayed"):
        found.save(tmp_path)


def test_right_numbers_are_no_finding():
    pytest.importorskip("onnxruntime")
    found = lw.bisect(DIGITS, image(), "onnxruntime")
    assert not found and "the numbers agree" in str(found)
    assert not lw.bisect(DIGITS, image(), "reference")
    assert not lw.bisect(DIGITS, image(), lambda feeds: lw.compile(DIGITS)["main"](feeds["image"]))


@pytest.mark.parametrize("against", ["onnxruntime", "reference"])
def test_a_wrong_converter_is_found(against):
    if against == "onnxruntime":
        pytest.importorskip("onnxruntime")
    with CONVERTERS.snapshot():
        register_converter("Relu", 1, to="relax.abs")
        register_converter("Relu", 14, to="relax.abs")
        found = lw.bisect(DIGITS, image(), against)
    assert (found.pass_name, found.kernel) == ("import", "relax.abs"), str(found)
    assert found.nodes == ("onnx:/relu1",) and "R.abs(lv)" in found.statement


REGISTERS = """import loopwright
from tests.explore.faults import product
loopwright.register_func("fused_relax_matmul1_faulty", product)"""


@pytest.mark.sample(2)
@pytest.mark.parametrize(("name", "setup"), [("loop_pass", ""), ("external", REGISTERS)])
def test_the_script_replays_the_difference(name, setup, tmp_path):
    with getattr(faults, name)() as keywords:
        found = lw.bisect(DIGITS, image(), **keywords)
    script = found.save(tmp_path / "replay", setup)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, script]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "greatest relative difference of the results: " in done.stdout
    assert f"# first pass: {found.pass_name}" in script.read_text()


@pytest.mark.budget(8)
def test_modules_that_cannot_be_run_are_left_out():
    def unknown(*args, **attrs):
        raise ValueError("no definition")

    want = [np.asarray(lw.compile(DIGITS)["main"](image()["image"]))]
    with FACTS.snapshot():
        Op.get("relax.nn.softmax").set_attr("FNumpy", unknown)
        with faults.schedule() as keywords:
            found = lw.bisect(DIGITS, image(), want, **keywords)
        check(found, "schedule", *FOUND["schedule"][2:])
        with faults.legalization() as keywords:
            found = lw.bisect(DIGITS, image(), want, **keywords)
    names = found.pass_name.split(", ")
    assert (names[0], names[-1]) == ("import", "LegalizeOps"), str(found)


def test_what_cannot_be_asked():
    with pytest.raises(LoopwrightError, match="did you mean onnxruntime"):
        lw.bisect(DIGITS, image(), "onnxruntim")
    mod = lw.frontend.onnx.from_onnx(onnx.load(DIGITS))
    with pytest.raises(LoopwrightError, match="only ONNX models have this evaluator"):
        lw.bisect(mod, image(), "reference")


def test_a_judge_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(LoopwrightError, match="not installed\n  instead: pip install onnxruntime"):
        lw.bisect(DIGITS, image(), "onnxruntime")


def test_the_command(tmp_path):
    pytest.importorskip("onnxruntime")
    args = ["bisect", DIGITS, "--dims", "2", "--against", "onnxruntime"]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0 and "the numbers agree" in done.output
    with faults.legalization():
        done = CliRunner().invoke(app, [*args, "-o", str(tmp_path)])
    assert done.exit_code == 1 and "first pass: LegalizeOps" in done.output
    assert (tmp_path / "replay.py").exists()


def test_new_memory_is_not_zero():
    from loopwright.script import tir as T

    @T.prim_func
    def reads_early(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "int32")):
        kept, count = T.alloc_buffer((4,), "float32"), T.alloc_buffer((4,), "int32")
        for i in range(4):
            a[i] = kept[i]
            b[i] = count[i]

    a, b = np.zeros(4, "float32"), np.zeros(4, "int32")
    with lw.transform.PassContext(config={"tir.add_lower_pass": [(1, FillNewMemory())]}):
        lw.compile(reads_early)(a, b)
    assert np.isnan(a).all() and (b == np.iinfo("int32").min).all()
