"""Code for aarch64 under qemu's user mode: `python -m tools.aarch64` runs more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import loopwright as lw
from loopwright.script import ir as I
from loopwright.script import relax as R
from tests.sched.test_dots import product
from tools import aarch64
from tools.fuzz import networks
from tools.fuzz.judge import judge

from .c_programs import tool

pytestmark = pytest.mark.no_roundtrip
# The instructions of products of data and int8; without one for it, data are made int8.
USED = {
    "int8": {"neon": ["smull"], "dotprod": ["sdot"], "i8mm": ["sdot"]},
    "uint8": {"neon": [], "dotprod": [], "i8mm": ["usdot"]},
}


@pytest.fixture(params=list(aarch64.CPUS))
def cpu(request: pytest.FixtureRequest) -> str:
    for name in aarch64.TOOLS:
        tool(name)
    return str(request.param)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("rows", "dtype"), [("n", "int8"), (5, "uint8")])
def test_products_of_bytes(cpu: str, rows: Any, dtype: str) -> None:
    """Where the processor has no instruction for unsigned by signed bytes they are plain loops."""
    mod, data, expected = product(rows, 36, 50, dtype)
    with aarch64.on(aarch64.CPUS[cpu]):
        exe = lw.compile(mod)
        np.testing.assert_array_equal(exe["main"](data).numpy(), expected)
    text = exe.as_text()
    used = [name for name in ("smull", "sdot", "usdot") if f"llvm.aarch64.neon.{name}." in text]
    assert used == USED[dtype][cpu]


@pytest.mark.sample(3)
def test_a_quantized_network(cpu: str) -> None:
    seed = next(
        s for s in range(50) if any(n[0] == "QuantizeLinear" for n in networks.make(s).nodes)
    )
    with aarch64.on(aarch64.CPUS[cpu]):
        outcome = judge(networks.make(seed))
    assert outcome.kind == "right", outcome.message


@pytest.mark.sample(3)
def test_floats_vectors_and_sizes(cpu: str) -> None:
    """Elementary functions in vectors, a reduction, a scalar result and a size of the run."""

    @I.ir_module
    class Network:
        @R.function
        def main(x: R.Tensor(("n", 33), "float32")):
            with R.dataflow():
                y = R.nn.softmax(R.tanh(x))
                out = (y, R.sum(y))
                R.output(out)
            return out

    data = np.random.default_rng(0).standard_normal((7, 33), "float32")
    here = lw.compile(Network)["main"](data)
    with aarch64.on(aarch64.CPUS[cpu]):
        there = lw.compile(Network)["main"](data)
    for a, b in zip(there, here, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)


def test_kernels_of_the_virtual_machine(cpu: str) -> None:
    """The size of the result is the data's: the machine runs here, its kernels there."""
    node = helper.make_node("NonZero", ["x"], ["y"])
    ports = [
        helper.make_tensor_value_info(n, t, s) for n, t, s in (("x", 1, [3, 4]), ("y", 7, None))
    ]
    model = helper.make_model(helper.make_graph([node], "g", ports[:1], ports[1:]), ir_version=8)
    data = np.arange(12, dtype="float32").reshape(3, 4) % 3
    with aarch64.on(aarch64.CPUS[cpu]):
        result = lw.compile(model).run({"x": data})["y"].numpy()
    np.testing.assert_array_equal(result, np.array(np.nonzero(data)))


def test_what_fails_there_is_an_error_here(cpu: str) -> None:
    mod, data, _ = product(5, 36, 50, "int8")
    with aarch64.on(aarch64.CPUS[cpu]):
        exe = lw.compile(mod)
        with pytest.raises(ValueError, match="main: x has 2 axes"):
            exe["main"](data[0])
    with pytest.raises(lw.LoopwrightError, match="was compiled for aarch64"):
        exe["main"](data)
