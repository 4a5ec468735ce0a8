"""`from_relay`: modules of Relay as modules of Relax."""

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, relay
from loopwright.script import tir as T
from loopwright.testing.relay_translator import from_relay


@T.prim_func
def softplus_like(x: T.Buffer((2, 5), "float32"), y: T.Buffer((2, 5), "float32")):
    """max(x, 0) + 1: no nn.relu, so that it shows."""
    T.func_attr({"tir.noalias": True})
    for i, j in T.grid(2, 5):
        with T.block("y"):
            vi, vj = T.axis.remap("SS", [i, j])
            y[vi, vj] = T.max(x[vi, vj], T.float32(0)) + T.float32(1)


def model(rng: np.random.Generator) -> tuple[relay.Function, dict[str, np.ndarray]]:
    x, w, b = relay.var("x", shape=(2, 8)), relay.var("w"), relay.var("b", shape=(5,))
    body = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, w, units=5), b))
    params = {"w": rng.normal(size=(5, 8)), "b": rng.normal(size=5)}
    return relay.Function([x, w, b], body), {n: p.astype("float32") for n, p in params.items()}


def run(mod: lw.IRModule, *args: Any) -> np.ndarray:
    return relax.VirtualMachine(relax.build(mod, "llvm"), lw.cpu())["main"](*args).numpy()


def test_result_and_parameters(rng: np.random.Generator) -> None:
    func, params = model(rng)
    x = rng.normal(size=(2, 8)).astype("float32")
    want = np.maximum(x @ params["w"].T + params["b"], 0)
    mod = from_relay(func, "llvm")
    assert [p.name_hint for p in mod["main"].params] == ["x", "w", "b"]
    np.testing.assert_allclose(run(mod, x, *params.values()), want, rtol=1e-5)
    bound = from_relay(func, "llvm", params)
    assert [p.name_hint for p in bound["main"].params] == ["x"]
    np.testing.assert_allclose(run(bound, x), want, rtol=1e-5)


def test_a_kernel_for_an_operator(rng: np.random.Generator) -> None:
    func, params = model(rng)
    x = rng.normal(size=(2, 8)).astype("float32")
    mod = from_relay(func, "llvm", params, translate_op_with_tir={"nn.relu": softplus_like})
    assert lw.ir.structural_equal(
        mod["nn_relu"], softplus_like.with_attr("global_symbol", "nn_relu")
    )
    want = np.maximum(x @ params["w"].T + params["b"], 0) + 1
    np.testing.assert_allclose(run(mod, x), want, rtol=1e-5)
    with pytest.raises(ValueError, match="the kernel for nn.dense takes 2 tensors"):
        from_relay(func, "llvm", translate_op_with_tir={"nn.dense": softplus_like})
    with pytest.raises(ValueError, match="the passes replaced all calls of nn.bias_add"):
        from_relay(func, "llvm", translate_op_with_tir={"nn.bias_add": softplus_like})
    with pytest.raises(ValueError, match="has a kernel for relu, which(.|\n)*did you mean nn.relu"):
        from_relay(func, "llvm", translate_op_with_tir={"relu": softplus_like})


def test_attributes_of_calls(rng: np.random.Generator) -> None:
    x, y = (relay.var(n, shape=(10, 16)) for n in "xy")
    func = relay.Function([x, y], relay.tanh(relay.concatenate((x, y), axis=-1)))
    mod = from_relay(func, "llvm", append_op_attrs=True)
    assert mod["concatenate"].attrs["op_attrs"] == {"op_name": "concatenate", "axis": -1}
    assert mod["tanh"].attrs["op_attrs"] == {"op_name": "tanh"}
    a, b = rng.normal(size=(2, 10, 16)).astype("float32")
    np.testing.assert_allclose(run(mod, a, b), np.tanh(np.hstack([a, b])), rtol=1e-5)


def test_extents_that_only_the_run_knows(rng: np.random.Generator) -> None:
    a = relay.var("a", shape=(relay.Any(), 5, relay.Any()))
    mod = from_relay(relay.Function([a], a + a), "llvm")
    for shape in ((2, 5, 10), (7, 5, 3)):
        value = rng.normal(size=shape).astype("float32")
        np.testing.assert_allclose(run(mod, value), 2 * value)


def test_the_context_of_the_passes(rng: np.random.Generator) -> None:
    seen: list[str] = []

    @lw.instrument.pass_instrument
    class Note:
        def run_before_pass(self, mod: lw.IRModule, info: Any) -> None:
            seen.append(info.name)

    func, _ = model(rng)
    from_relay(func, "llvm", opt_level=2, instruments=[Note()])
    assert seen
