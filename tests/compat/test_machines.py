"""TVM 0.18's `topi.generic`, `topi.x86`, `topi.cuda` and `autotvm`, as scripts use them."""

from __future__ import annotations

import importlib
import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import te, tir, topi
from loopwright.compat import autotvm, contrib, questions, topi_cpu, topi_gpu
from loopwright.topi import testing

IMPLEMENTED = {
    "generic": (topi_cpu.conv2d_nchw, topi_cpu.schedule_conv2d_nchw),
    "gpu": (topi_gpu.conv2d_nchw, topi_gpu.schedule_conv2d_nchw),
}


def test_a_computation_and_its_schedule():
    x = np.random.default_rng(1).random((1, 3, 6, 6)).astype("float32")
    w = np.random.default_rng(2).random((4, 3, 3, 3)).astype("float32")
    compute, schedule = testing.dispatch("llvm", IMPLEMENTED)
    X, W = te.placeholder(x.shape, name="X"), te.placeholder(w.shape, name="W")
    unused = te.placeholder((4, 1, 1), name="bias")
    with autotvm.context("llvm"):
        C = topi.nn.relu(compute(X, W, 1, 1, 1))
        f = te.build(schedule([C]), [X, W, unused, C], "llvm")
    out = np.zeros((1, 4, 6, 6), "float32")
    f(x, w, np.zeros((4, 1, 1), "float32"), out)
    np.testing.assert_allclose(out, testing.conv2d_nchw_python(x, w, 1, 1), rtol=1e-5)
    testing.compare_numpy_tvm(
        [x, w], out, "llvm", lw.cpu(), lambda x, w: compute(x, w, 1, 1, 1), schedule
    )


def test_a_variant_is_the_same_computation():
    assert topi_cpu.conv2d_nhwc_spatial_pack is topi.nn.conv2d_nhwc
    assert topi_gpu.argsort is topi.argsort
    for name in ("no_such", "conv2d", "nn"):  # the latter are files, which import statements find
        with pytest.raises(AttributeError, match=name):
            getattr(topi_gpu, name)


def test_a_schedule_of_tir_is_scheduled():
    A = te.placeholder((64, 64), name="A")
    func = te.create_prim_func([A, topi.exp(A)])
    done = topi_cpu.schedule_injective(tir.Schedule(func))
    assert done.mod["main"].attrs["tir.is_scheduled"]


def test_what_is_not_here_says_so():
    A = te.placeholder((4,))
    with pytest.raises(NotImplementedError, match="a machine that no code is made for"):
        topi_gpu.schedule_injective([topi.exp(A)])
    with pytest.raises(NotImplementedError, match="a machine that no code is made for"):
        topi_gpu.conv2d_hwnc_tensorcore(A, A)
    with pytest.raises(ValueError, match="one of the layouts"):
        autotvm.get_workload(A, A, 1, 0, 1, "float32", "CHWN")


def test_paths():
    from loopwright.topi.generic import schedule_injective
    from loopwright.topi.x86.conv2d_avx_common import _fallback_schedule

    assert schedule_injective is topi_cpu.schedule_reduce
    assert _fallback_schedule is autotvm.fallback_schedule
    rule = topi_cpu.dense_alter_op._alter_dense_layout
    assert rule is lw.relay.transform.alter_rules.dense_alter_layout


@pytest.mark.parametrize(
    ("layout", "image", "filters", "out"),
    [
        ("NCHW", (1, 64, 56, 57), (128, 64, 3, 3), 128),
        ("NCHW", (1, 64, 56, 57), (64, 2, 3, 3), 128),  # depthwise, two of each channel
        ("NHWC", (1, 56, 57, 64), (3, 3, 64, 128), 128),
        ("NCHWc", (1, 4, 56, 57, 16), (4, 1, 3, 3, 1, 16), 64),
    ],
)
def test_the_choices_of_a_convolution_without_a_record(layout, image, filters, out):
    data, kernel = te.placeholder(image), te.placeholder(filters)
    load = autotvm.get_workload(data, kernel, (2, 2), "SAME", 2, "float32", layout)
    cfg = autotvm.get_config()
    with lw.target.Target("llvm -mcpu=skylake-avx512"):
        autotvm.fallback_schedule(cfg, load)
    width = (57 + 4 - 5) // 2 + 1  # by the formula of convolutions, of a window of 5
    tiles = [math.prod(cfg[name].size) for name in ("tile_ic", "tile_oc", "tile_ow")]
    assert tiles == [64, out, width] and cfg["tile_oc"].size[1] == 16


def test_results_are_kept():
    @contrib.memoize("numbers")
    def make(k):
        return [2 * k]

    assert make(3) == [6] and make(3) is make(3) and make(4) == [8]


def test_results_are_kept_for_later_programs(tmp_path):
    text = (
        "from loopwright.compat.contrib import memoize\n"
        "@memoize('squares', save_at_exit=True)\ndef square(k):\n    print('computed', end=' ')\n"
        "    return k * k\nprint(square(3), square(3), end='')\n"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    for wanted in ("computed 9 9", "9 9"):
        done = subprocess.run(
            [sys.executable, "-c", text],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == wanted
    file = tmp_path / "tvm" / "pkl_memoize_py3" / "squares.pkl"
    file.chmod(0o666)  # others could have written it
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "computed 9 9"


def test_questions():
    assert questions.have_fp16("7.0") and not questions.have_fp16("5.2")
    assert questions.exists() in (True, False)
    built = questions.libinfo()
    assert (built["USE_LLVM"], built["USE_MICRO"]) == ("ON", "OFF")


def test_what_tunes_says_what_to_use() -> None:
    auto_scheduler: Any = importlib.import_module("loopwright.auto_scheduler")
    tuner: Any = importlib.import_module("loopwright.autotvm.tuner")
    for ask in (autotvm.extract_from_program, auto_scheduler.extract_tasks, tuner.XGBTuner):
        with pytest.raises(NotImplementedError, match="templates of AutoTVM(.|\n)*relay.build"):
            ask()
