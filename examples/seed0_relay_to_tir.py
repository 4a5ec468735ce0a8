"""From Relay to TensorIR, every step seen and changed: python -m examples.seed0_relay_to_tir"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import loopwright as lw
from loopwright import relay, te
from loopwright.contrib import graph_executor
from loopwright.ir import assert_structural_equal
from loopwright.relax.testing.relay_translator import from_relay
from loopwright.relay.strategy import get_valid_implementations, placeholders, select_implementation
from loopwright.script import from_source
from loopwright.script import tir as T

TARGETS = ("llvm", "c", "llvm -mtriple=aarch64-linux-gnu -mattr=+neon")
rng = np.random.default_rng(0)
data, weight = (rng.normal(size=s).astype("float32") for s in ((1, 10), (20, 10)))


def step(number: int, what: str, shown: object = "") -> None:
    print(f"\n({number}) {what}\n{shown}".rstrip())


def model() -> lw.IRModule:
    x, w = relay.var("x", shape=[1, 10]), relay.var("w", shape=[20, 10])
    return lw.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w))))


def run(mod: lw.IRModule) -> np.ndarray:
    runtime = graph_executor.GraphModule(relay.build(mod, target="llvm")["default"](lw.cpu()))
    runtime.set_input("x", data)
    runtime.set_input("w", weight)
    runtime.run()
    return runtime.get_output(0).numpy()


def see() -> None:
    """Steps 1 to 6: the model, its types, the kernels it becomes."""
    x, w = relay.var("x", shape=[1, 10]), relay.var("w")
    try:
        relay.dense(x, w)
    except AttributeError as error:
        assert "relay.nn.dense" in str(error)
        step(1, "a wrong name", error)

    mod = model()
    assert_structural_equal(relay.parse(mod.astext()), relay.transform.InferType()(mod))
    step(2, "the model, printed and parsed back", mod)

    shapeless = lw.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w, units=20)))
    typed = relay.transform.InferType()(shapeless)["main"]
    assert typed.params[1].type_annotation == relay.TensorType((20, 10))
    step(3, "the weight's type, from units=20", typed.params[1].type_annotation)

    dense = relay.transform.InferType()(mod)["main"].body.args[0]
    inputs = [p for a in dense.args for p in placeholders(a.checked_type)]
    for target in TARGETS:
        about = (dense.op, dense.attrs, inputs, dense.checked_type, target)
        best, outs = select_implementation(*about)
        assert best in get_valid_implementations(*about) or best.name == "dense.loopwright"
        assert tuple(outs[0].shape) == (1, 20)
        step(4, f"dense for {target}", f"{best}, of {get_valid_implementations(*about)}")

    x = relay.var("x", shape=[1, 10])
    folds = lw.IRModule.from_expr(x * (relay.const(2.0) + relay.const(3.0)))
    texts = []
    for level in (0, 3):
        with lw.transform.PassContext(opt_level=level):
            texts.append(relay.optimize(folds, "llvm")[0].astext())
        step(5, f"relay.optimize at level {level}", texts[-1])
    assert "2f" in texts[0] and "5f" in texts[1]


def print_passes() -> None:
    """Steps 6 to 10: the document's own pass, its mistake, and the modules without it."""
    seen: list[Any] = []

    @lw.tir.transform.prim_func_pass(opt_level=0)
    def print_tir(f: Any, mod: lw.IRModule, ctx: Any) -> Any:
        seen.append(f)
        return f

    for phase in (3, 0, 1, 2, 3):
        seen.clear()
        with lw.transform.PassContext(
            opt_level=3, config={"tir.add_lower_pass": [(phase, print_tir)]}
        ):
            relay.build(model(), target="llvm")
        names = [f.attrs["global_symbol"] for f in seen]
        assert len(set(names)) == len(names)  # each kernel once
        assert "tvmgen_default_fused_nn_dense_nn_relu" in names
        assert all(n.startswith("tvmgen_default_fused_") for n in names)  # the entry is none
        step(7 if phase < 3 else 6, f"print_tir after phase {phase}", names)

    @lw.tir.transform.prim_func_pass(opt_level=0)
    def forgets(f: Any, mod: lw.IRModule, ctx: Any) -> Any:
        print("a kernel:", f.attrs["global_symbol"])

    try:
        with lw.transform.PassContext(opt_level=3, config={"tir.add_lower_pass": [(3, forgets)]}):
            relay.build(model(), target="llvm")
    except TypeError as error:
        assert "forgets" in str(error) and "returned None" in str(error)
        step(8, "no `return f`", error)
    else:
        raise AssertionError("a pass that returns nothing is an error")

    for executor in ("graph", "aot"):
        factory = relay.build(model(), "llvm", executor=relay.backend.Executor(executor))
        for lowered in factory.lowered_ir_mods.values():
            assert_structural_equal(from_source(lowered.script(show_meta=True)), lowered)
            kernels = [gvar.name_hint for gvar in lowered.functions]
            step(9, f"lowered_ir_mods of the {executor} factory, reparsed", kernels)

    kernels = relay.lower(model(), "llvm")
    assert "vectorized" in kernels.script()  # as scheduled
    step(10, "relay.lower", kernels["tvmgen_default_fused_nn_dense_nn_relu"].script()[:700] + "...")


@contextmanager
def strategy(made: relay.op.OpStrategy) -> Iterator[None]:
    """nn.relu has a strategy of its own inside the context."""
    op = relay.op.get("nn.relu")
    relay.op.register_strategy("nn.relu", lambda *_: made, 15)
    try:
        yield
    finally:
        op.reset_attr("FTVMStrategy")


def change() -> None:
    """Steps 11 and 12: own kernels by a strategy, and the same program by every way of running."""
    want = np.maximum(data @ weight.T, 0)

    def compute(attrs: Any, inputs: Any, out_type: Any) -> Any:
        return te.compute(inputs[0].shape, lambda *i: inputs[0](*i) * 2.0, name="twice")

    def schedule(attrs: Any, outs: Any, target: Any) -> te.Schedule:
        s = te.create_schedule([out.op for out in outs])
        s[outs[0]].split(outs[0].op.axis[1], 4)
        return s

    own = relay.op.OpStrategy()
    own.add_implementation(compute, schedule, "relu.twice", plevel=20)
    with te.SpecializedCondition(te.size_var("n") > 100):  # cannot be proved of these shapes
        own.add_implementation(compute, schedule, "relu.never", plevel=30)
    with strategy(own), lw.trace() as trace:
        assert np.allclose(run(model()), data @ weight.T * 2, atol=1e-5)
    step(11, "an own strategy", trace.explain("nn.relu", "legalize")[0])

    @T.prim_func
    def thrice(x: T.Buffer((1, 20), "float32"), y: T.Buffer((1, 20), "float32")):
        for i, j in T.grid(1, 20):
            with T.block("y"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi, vj] * T.float32(3)

    by_hand = relay.op.OpStrategy()
    by_hand.add_implementation(thrice, name="relu.thrice", plevel=20)
    with strategy(by_hand), lw.trace() as trace:
        assert np.allclose(run(model()), data @ weight.T * 3, atol=1e-5)
    step(11, "one in TensorIR without a compute", trace.explain("nn.relu", "legalize")[0])

    mod = model()
    params = relay.load_param_dict(relay.save_param_dict({"w": lw.nd.array(weight)}))
    bound = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](lw.cpu()))
    bound.run(x=data)
    by_vm = relay.create_executor("vm", mod=mod, device=lw.cpu(), target="llvm").evaluate()
    by_relax = lw.relax.build(from_relay(mod["main"], "llvm"), "llvm")
    machine = lw.relax.VirtualMachine(by_relax, lw.cpu())
    results = {
        "GraphModule": run(mod),
        "with saved parameters": bound.get_output(0).numpy(),
        "the virtual machine": by_vm(data, weight).numpy(),
        "from_relay, relax.build": machine["main"](lw.nd.array(data), lw.nd.array(weight)).numpy(),
    }
    assert all(np.allclose(r, want, atol=1e-5) for r in results.values())

    @lw.tir.transform.prim_func_pass(opt_level=0)
    def negated(f: Any, mod: lw.IRModule, ctx: Any) -> Any:
        def post(node: Any) -> Any:
            if not isinstance(node, lw.tir.Max):
                return None
            return lw.tir.Min(node.a, node.b)

        return f.with_body(lw.ir.functor.rewrite(f.body, post))

    with lw.transform.PassContext(opt_level=3, config={"tir.add_lower_pass": [(1, negated)]}):
        assert np.allclose(run(model()), np.minimum(data @ weight.T, 0), atol=1e-5)
    step(12, "equal to numpy, and changed by a lower pass", list(results))


def main() -> None:
    see()
    print_passes()
    change()


if __name__ == "__main__":
    main()
