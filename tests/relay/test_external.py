"""Functions for other compilers: who generates their code, and what is said where nobody does."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, relay
from loopwright.relax.byoc import Backend, register_backend
from loopwright.relax.byoc.registry import BACKENDS
from loopwright.relay import transform as passes
from loopwright.relay.dataflow_pattern import is_op, wildcard
from loopwright.relay.translate import to_relax
from loopwright.runtime import Module, register_func
from loopwright.runtime.packed_func import remove_global_func

pytestmark = pytest.mark.no_roundtrip

NUMPY = {"relax.add": np.add, "relax.nn.relu": lambda a: np.maximum(a, 0), "relax.exp": np.exp}
x, y = relay.var("x", shape=(3, 4)), relay.var("y", shape=(3, 4))
ADD_RELU = is_op("nn.relu")(is_op("add")(wildcard(), wildcard()))
TABLE = [("toy.add_relu", ADD_RELU), ("toy.exp", is_op("exp")(wildcard()))]
DATA = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)


def partitioned(body: Any) -> lw.IRModule:
    """The module of an expression, in parts for the compiler "toy"."""
    steps = [
        passes.InferType(),
        passes.MergeComposite(TABLE),
        passes.AnnotateTarget("toy"),
        passes.MergeCompilerRegions(),
        passes.PartitionGraph(),
    ]
    return passes.Sequential(steps)(lw.IRModule.from_expr(relay.Function([x, y], body)))


def evaluated(func: relax.Function, inputs: list[Any], seen: list[str]) -> Any:
    """What a region computes, by numpy; `seen` gets the names of its matches."""
    values = dict(zip(func.params, inputs, strict=True))
    for binding in [b for block in func.body.blocks for b in block.bindings]:
        value = binding.value
        if isinstance(value, relax.Function):
            seen.append(str(value.attrs["Composite"]))
            values[binding.var] = value
            continue
        args = [values[arg] for arg in value.args]
        inner = isinstance(value.op, relax.Var)
        values[binding.var] = (
            evaluated(values[value.op], args, seen) if inner else NUMPY[value.op.name](*args)
        )
    return values[func.body.body]


@pytest.fixture
def toy() -> Iterator[list[str]]:
    """The back end "toy", and the names of the matches that it has computed."""
    seen: list[str] = []

    def codegen(functions: Any, options: Any, constant_names: Any) -> list[Module]:
        def compiled(func: Any) -> Any:
            def call(*tensors: Any) -> None:
                *inputs, out = map(np.from_dlpack, tensors)
                np.copyto(out, evaluated(func, inputs, seen))

            return call

        return [Module({f.attrs["global_symbol"]: compiled(f) for f in functions})]

    with BACKENDS.snapshot():
        register_backend(Backend("toy", [], codegen=codegen))
        yield seen


BODY = relay.tanh(relay.nn.relu(relay.exp(relay.abs(x)) + y))
WANT = np.tanh(np.maximum(np.exp(np.abs(DATA)) + DATA, 0))


@pytest.mark.parametrize("kind", ["graph", "vm", "aot"])
def test_a_back_end_computes_its_regions(toy: list[str], kind: str) -> None:
    executor = relay.create_executor(kind, partitioned(BODY), target="llvm")
    np.testing.assert_allclose(executor.evaluate()(DATA, DATA).numpy(), WANT, rtol=1e-5)
    assert toy == ["toy.exp", "toy.add_relu"]


def test_the_interpreter_needs_no_back_end() -> None:
    result = relay.create_executor("debug", partitioned(BODY), target="llvm").evaluate()(DATA, DATA)
    np.testing.assert_allclose(result.numpy(), WANT, rtol=1e-5)


def test_a_region_of_several_results(toy: list[str]) -> None:
    shared = relay.exp(x)
    mod = partitioned(relay.tanh(shared) * relay.abs(relay.nn.relu(shared + y)))
    (region,) = [f for f in to_relax(mod).functions.values() if "Codegen" in f.attrs]
    assert isinstance(region.ret_struct_info, relax.TupleStructInfo)
    result = relay.create_executor("debug", mod, target="llvm").evaluate()(DATA, DATA)
    want = np.tanh(np.exp(DATA)) * np.abs(np.maximum(np.exp(DATA) + DATA, 0))
    np.testing.assert_allclose(result.numpy(), want, rtol=1e-5)


def test_a_function_called_where_it_stands(toy: list[str]) -> None:
    a = relay.var("a", shape=(3, 4))
    func = relay.Function([a], relay.exp(a)).with_attrs(
        {"Compiler": "toy", "global_symbol": "toy_0"}
    )
    mod = lw.IRModule.from_expr(relay.Function([x], relay.tanh(func(x)) + func(x)))
    lib = relay.build(mod, target="llvm")
    result = lib.lib["main"](DATA)
    np.testing.assert_allclose(result.numpy(), np.tanh(np.exp(DATA)) + np.exp(DATA), rtol=1e-5)


def test_a_generator_that_takes_relay() -> None:
    given: list[Any] = []

    def generate(func: Any) -> Module:
        given.append(func)

        def call(a: Any, out: Any) -> None:
            np.copyto(np.from_dlpack(out), np.exp(np.from_dlpack(a)))

        return Module({func.attrs["global_symbol"]: call})

    register_func("relay.ext.toy", generate)
    try:
        lib = relay.build(partitioned(relay.tanh(relay.exp(x)) + y), target="llvm")
    finally:
        remove_global_func("relay.ext.toy")
    np.testing.assert_allclose(
        lib.lib["main"](DATA, DATA).numpy(), np.tanh(np.exp(DATA)) + DATA, rtol=1e-5
    )
    assert isinstance(given[0], relay.Function)
    assert given[0].attrs["Compiler"] == "toy"


def test_where_nobody_generates_code_the_error_says_so() -> None:
    with pytest.raises(lw.LoopwrightError, match="the back end toy has no code generator"):
        relay.build(partitioned(BODY), target="llvm")
