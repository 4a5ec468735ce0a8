"""Op strategies: whose kernel an operator becomes, and why."""

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relay, te
from loopwright.relay.backend import te_compiler
from loopwright.relay.strategy import (
    StrategyChoice,
    get_valid_implementations,
    placeholders,
    select_implementation,
)
from loopwright.relay.translate import to_relax
from loopwright.script import tir as T


@pytest.fixture(autouse=True)
def _(forgotten: None) -> Iterator[None]:
    yield


def model() -> lw.IRModule:
    x = relay.var("x", shape=(4, 8))
    mod = lw.IRModule({"main": relay.Function([x], relay.nn.relu(x))})
    return relay.transform.InferType()(mod)


def scaled(factor: float) -> Any:
    """An implementation that is no relu, to be known by its result."""

    def compute(attrs: Any, inputs: Any, out_type: Any) -> Any:
        (x,) = inputs
        return te.compute(x.shape, lambda *i: x(*i) * te.const(factor, "float32"), name="scaled")

    return compute


def schedule(attrs: Any, outs: Any, target: Any) -> te.Schedule:
    s = te.create_schedule([out.op for out in outs])
    s[outs[0]].split(outs[0].op.axis[1], 4)
    return s


def ran(mod: lw.IRModule, target: str = "llvm") -> np.ndarray:
    data = np.linspace(-1, 1, 32, dtype="float32").reshape(4, 8)
    run = lw.compile(to_relax(mod, StrategyChoice(target)), target)
    return (run(data).numpy() / data).mean().round(3)


def test_the_highest_level_wins() -> None:
    @lw.target.generic_func
    def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> relay.op.OpStrategy:
        made = relay.op.OpStrategy()
        made.add_implementation(scaled(2.0), schedule, "low", 11)
        made.add_implementation(scaled(3.0), schedule, "high", 20)
        with te.SpecializedCondition(inputs[0].shape[0] > 100):
            made.add_implementation(scaled(5.0), schedule, "only of many rows", 30)
        return made

    relay.op.register_strategy("nn.relu", strategy, 15)
    mod = model()
    with lw.trace() as trace:
        assert ran(mod) == 3.0
    (note,) = trace.explain("nn.relu", "legalize")
    assert note.facts["winner"] == "high"
    assert note.facts["others"] == ["low (11)"]
    func = to_relax(mod, StrategyChoice("llvm"))["nn_relu"]
    assert "i1_outer" in func.script()  # as scheduled
    assert func.attrs["tir.is_scheduled"]

    call = mod["main"].body
    inputs = placeholders(call.args[0].checked_type)
    valid = get_valid_implementations(call.op, call.attrs, inputs, call.checked_type, "llvm")
    assert [i.name for i in valid] == ["low", "high"]
    best, outs = select_implementation(call.op, call.attrs, inputs, call.checked_type, "llvm")
    assert (best.name, [tuple(o.shape) for o in outs]) == ("high", [(4, 8)])


def test_a_version_for_a_target_and_none() -> None:
    @lw.target.override_native_generic_func("relu_strategy")
    def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> Any:
        return None

    @strategy.register(["my_key"])
    def _(attrs: Any, inputs: Any, out_type: Any, target: Any) -> relay.op.OpStrategy:
        made = relay.op.OpStrategy()
        made.add_implementation(scaled(7.0), None, "mine")
        return made

    relay.op.register_strategy("nn.relu", strategy, 15)
    assert ran(model()) == 0.5  # the row's own
    assert ran(model(), "llvm -keys=my_key,cpu") == 7.0


def test_a_kernel_without_a_compute() -> None:
    @T.prim_func
    def kernel(x: T.Buffer((4, 8), "float32"), y: T.Buffer((4, 8), "float32")):
        for i, j in T.grid(4, 8):
            with T.block("y"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi, vj] * T.float32(9)

    def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> relay.op.OpStrategy:
        made = relay.op.OpStrategy()
        made.add_implementation(kernel, name="by hand", plevel=20)
        return made

    relay.op.register_strategy("nn.relu", strategy, 15)
    assert ran(model()) == 9.0


def test_a_wrong_strategy_is_an_error() -> None:
    relay.op.register_strategy("nn.relu", lambda *args: 3, 15)
    with pytest.raises(
        TypeError, match=r"the strategy of nn.relu must return an OpStrategy or None"
    ):
        to_relax(model(), StrategyChoice("llvm"))
    with pytest.raises(TypeError, match="computes by a function or is a PrimFunc"):
        relay.op.OpStrategy().add_implementation(3, None)


def test_wrapped_functions_of_topi() -> None:
    x, w = relay.var("x", shape=(1, 4, 5, 5)), relay.var("w", shape=(3, 4, 3, 3))
    conv = relay.nn.conv2d(x, w, padding=(1, 1), channels=3, kernel_size=(3, 3))
    mod = relay.transform.InferType()(lw.IRModule.from_expr(conv))
    call = mod["main"].body
    inputs = [p for a in call.args for p in placeholders(a.checked_type)]
    taken: list[Any] = []

    def conv2d(data: Any, weight: Any, *options: Any) -> Any:
        taken.extend(options)
        return lw.topi.nn.conv2d_nchw(data, weight, *options[:3], options[-1])

    types: list[Any] = []

    def strategy(attrs: Any, inputs: Any, out_type: Any, target: Any) -> relay.op.OpStrategy:
        types.append(out_type)
        made = relay.op.OpStrategy()
        wrap = relay.op.strategy.wrap_compute_conv2d(conv2d, has_groups=True, need_data_layout=True)
        plan = relay.op.strategy.wrap_topi_schedule(lambda outs: te.create_schedule(outs[0].op))
        made.add_implementation(wrap, plan, "wrapped", 12)
        return made

    found = te_compiler.lower_call(call, inputs, "llvm")
    assert found.implement.name == "conv2d.loopwright"
    relay.op.register_strategy("nn.conv2d", strategy, 15)
    found = te_compiler.lower_call(call, inputs, "llvm")
    assert (found.implement.name, tuple(found.outputs[0].shape)) == ("wrapped", (1, 3, 5, 5))
    assert types == [relay.TensorType((1, 3, 5, 5))]
    te_compiler.lower_call(call, inputs, "llvm", relay.TensorType((3,)))
    assert types[1:] == [relay.TensorType((3,))]
    taken[6:] = []
    assert taken == [(1, 1), (1, 1, 1, 1), (1, 1), 1, "NCHW", "float32"]
    assert isinstance(found.implement.schedule(call.attrs, found.outputs, "llvm"), te.Schedule)
    with pytest.raises(TypeError, match="has no option"):
        relay.op.strategy.wrap_compute_dense(conv2d, has_groups=True)
    with pytest.raises(NotImplementedError, match="layouts of searches"):
        relay.op.strategy.wrap_compute_dense(conv2d, need_auto_scheduler_layout=True)
    with pytest.raises(TypeError, match="only a call of an operator"):
        te_compiler.lower_call(relay.Call(relay.var("f"), []), [], "llvm")


def test_functions_are_lowered_once() -> None:
    def function(*shape: int) -> Any:
        x = relay.var("x", shape=shape)
        return relay.transform.InferType()(lw.IRModule.from_expr(x + x))["main"]

    compiler = te_compiler.TECompiler()
    first = compiler.lower(function(4), "llvm")
    assert compiler.lower(function(4), "llvm") is first
    assert not compiler.lower(function(5), "llvm").same_as(first)
    assert compiler.lower(function(4), "c") is not first
    assert next(found.funcs for _, found in compiler.items()) is first.funcs
    compiler.clear()
    assert not compiler.items()
    run = te_compiler.get().jit(function(3), "llvm")
    into = lw.runtime.tensor(np.zeros(3, "float32"))
    run(lw.runtime.tensor(np.arange(3, dtype="float32")), into)
    assert into.numpy().tolist() == [0, 2, 4]
    with pytest.raises(TypeError, match="takes 1 tensors and fills 1"):
        run(into)


def test_the_strategy_of_an_operator_gets_a_version_for_a_target() -> None:
    strategy = relay.op.strategy.relu_strategy
    assert strategy is relay.op.strategy.relu_strategy
    assert ran(model()) == 0.5  # the default is the operator's row
    try:

        @strategy.register("llvm")
        def for_llvm(attrs: Any, inputs: Any, out_type: Any, target: Any) -> relay.op.OpStrategy:
            made = relay.op.OpStrategy()
            made.add_implementation(scaled(4.0), relay.op.strategy.schedule_injective, "own")
            return made

        assert ran(model()) == 4
    finally:
        relay.op.get("nn.relu").reset_attr("FTVMStrategy")
    with pytest.raises(AttributeError, match="no_such_strategy"):
        relay.op.strategy.no_such_strategy


def test_facts_by_the_names_of_their_parameters() -> None:
    relay.op.register("test.fact")
    relay.op.register_strategy("test.fact", fstrategy=scaled, level=11)
    assert relay.op.get("test.fact").get_attr("FTVMStrategy") is scaled
    with pytest.raises(TypeError, match="register_legalize takes op_name, legal_op and level"):
        relay.op.register_legalize("test.fact", fstrategy=scaled)


def test_kinds_of_attributes() -> None:
    kinds: Any = importlib.import_module("loopwright.relay.op.op_attrs")
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    attrs = relay.nn.conv2d(x, w).attrs
    assert isinstance(attrs, kinds.Conv2DAttrs) and not isinstance(attrs, kinds.DenseAttrs)
    with pytest.raises(AttributeError, match="did you mean.*Conv2DAttrs"):
        kinds.Conv2dAttrs


@pytest.mark.parametrize("above", [False, True])
def test_a_tensor_expression_is_registered_by_a_call_or_above_a_function(above: bool) -> None:
    compute = scaled(11.0)
    register = relay.op.register_compute
    kept = register("nn.relu", level=20)(compute) if above else register("nn.relu", compute, 20)
    assert kept is compute
    relay.op.register_schedule("nn.relu", schedule, 20)
    assert ran(model()) == 11.0


def test_a_schedule_of_the_row_of_an_operator() -> None:
    relay.op.register_schedule("nn.relu", schedule, 20)
    mod = model()
    with lw.trace() as trace:
        assert ran(mod) == 0.5
    (note,) = trace.explain("nn.relu", "legalize")
    assert note.facts["winner"] == "relu.generic"
    relay.op.register("test.plan")
    relay.op.register_schedule("test.plan", schedule)
    strategy = relay.op.get("test.plan").get_attr("FTVMStrategy")
    with pytest.raises(ValueError, match=r"test\.plan has no tensor expression"):
        strategy(None, [], None, None)


def test_default_rules_schedule_a_tensor_expression() -> None:
    for name in ("test.broad", "test.reduced"):
        relay.op.register(name)
        relay.op.register_reduce_schedule(name)
        assert relay.op.get(name).get_attr("FTVMStrategy") is None
        relay.op.register_compute(name, scaled(2.0))
        relay.op.register_injective_schedule(name)
        (made,) = relay.op.get(name).get_attr("FTVMStrategy")(None, [], None, None).specializations
        (found,) = made.implementations
        assert found.name == f"{name[5:]}.generic"
