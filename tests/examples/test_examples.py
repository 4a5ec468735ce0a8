"""Every script in examples/ runs in a separate process and prints the expected output."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.house.source import ROOT

EXAMPLES = {
    "tutorial_relax": [
        "# the graph",
        "def fused_matmul_add_relu",
        "R.nn.gelu",
        "n = 64: max error",
    ],
    "see_every_step": [
        "graph_pipeline",
        "onnx:/conv1",
        "BlockedLayout changed ['main']",
        "legalize relax.nn.softmax",
        "schedule fused_conv2d_relu",
        "tir.VectorizeLoop",
        "T.parallel",
        "; onnx:/conv1\n",
        "; onnx:/relu1\n",
        "; onnx:/conv1, onnx:/relu1\n",
    ],
    "seed0_relay_to_tir": [
        "did you mean relay.nn.dense?",
        "pass 'forgets' returned None",
        "legalize nn.relu: winner: relu.thrice, reason: plevel 20",
        "(12) equal to numpy, and changed by a lower pass",
    ],
    "seed1_relay_translator": [
        "nn.conv2d(",
        "calls of the kernel by hand: 42",
        "as ONNX Runtime: True",
    ],
    "seed1_own_kernel": [
        "legalize relax.nn.hardswish (in LegalizeOps), 18 times",
        "group: conv2d, add, my_hardswish",
        "as by default, as ONNX Runtime: [True, True]",
    ],
    "seed3_legalization_per_target": [
        "offload mynpu.dense_relu (in PartitionFor)",
        "winner: target mynpu: kernel packed_relu",
        "losers: target mynpu: kernel packed (the function that makes the kernel answered None)",
        "numbers equal: True",
    ],
    "own_pass": [
        "passes around ours: FuseAttention DropSoftmax LegalizeOps",
        "the digits are still read: True",
    ],
    "own_legalization": [
        "chosen: target llvm: __main__.tanh_on_cpu",
        "fused: fused_rough_tanh_add",
        "n = 5: 0.024 beside numpy's tanh",
    ],
    "own_schedule_rule": ["rule: four vectors at a time", "in T.unroll(", "right: True"],
    "onnx_decoder": ["3 29 24 26 15 6 32 15 17 5"],
    "own_onnx_operator": ["before: operators of this model have no converter", "after: right True"],
    "toy_dialect": ['lv1: R.Tensor((n, 3), dtype="float32") = R.nn.relu(lv)', "right: True"],
    "seed4_c_codegen": [
        "LLVM: max error",
        "uint8_t* const alloc = workspace;",
        "model_dense_bias_relu_kernel(x, model_const0, model_const1, (float*)alloc)",
        "model_dense_bias_kernel((const float*)alloc, model_const2, model_const3, out)",
        "C: max error",
    ],
    "c_export": ["ratio 1.000", "digits.c, digits.h", "reads a 0; as in Python: True"],
    "nn_module": ["R.nn.layer_norm", "n = 1: right", "n = 7: right", "n = 64: right"],
}


def test_every_script_is_tested():
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(EXAMPLES)


WHOLE_MODELS = ("seed1_own_kernel", "seed1_relay_translator")  # they compile some of the zoo


@pytest.mark.budget(15)
@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in WHOLE_MODELS)) for n in EXAMPLES]
)
def test_runs(name):
    done = subprocess.run(
        [sys.executable, f"examples/{name}.py"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "RegistryError" in done.stderr:
        pytest.skip("the registry with the zoo's models is out of reach")
    if "No module named 'onnxruntime'" in done.stderr:
        pytest.skip("needs onnxruntime, with which it compares")
    assert done.returncode == 0, done.stderr
    assert [text for text in EXAMPLES[name] if text not in done.stdout] == []
    if name == "seed4_c_codegen":
        errors = [float(line.split()[-1]) for line in done.stdout.splitlines() if "error" in line]
        assert len(errors) == 2 and max(errors) < 1e-4
    if name == "own_pass":
        assert "softmax" not in next(
            line for line in done.stdout.splitlines() if line.startswith("kernels:")
        )
