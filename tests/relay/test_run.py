"""Running modules of Relay: the executors, `relay.build`, the graph executor, parameters as bytes."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relay, tir
from loopwright.base.errors import TVMError
from loopwright.base.span import Span
from loopwright.relay.backend import Executor, Runtime
from loopwright.relay.backend.graph_executor_codegen import GraphExecutorCodegen
from loopwright.relay.backend.interpreter import ADT, argument, in_order
from loopwright.relay.backend.te_compiler import lower_to_primfunc
from loopwright.relay.translate import CallSpan
from loopwright.tvm.graph_executor import GraphModule, create


def dense_relu(rng: np.random.Generator) -> tuple[relay.Function, np.ndarray, np.ndarray]:
    """relu(x @ w.T), and arguments."""
    x, w = relay.var("x", shape=(2, 8)), relay.var("w", shape=(5, 8))
    func = relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))
    return func, *(rng.normal(size=s).astype("float32") for s in ((2, 8), (5, 8)))


def test_parameters_of_one_name_are_given_by_number():
    params = [relay.var("in.x", shape=()) for _ in range(3)]
    func = relay.Function(params, params[0] - params[1] * params[2])
    run = relay.create_executor("debug", lw.IRModule({"main": func})).evaluate()
    assert run(**{"in.x2": 3.0, "in.x": 1.0, "in.x1": 2.0}).numpy() == -5


@pytest.mark.parametrize("kind", ["debug", "graph", "vm", "aot"])
def test_executors(rng: np.random.Generator, kind: str) -> None:
    func, x, w = dense_relu(rng)
    run = relay.create_executor(kind, lw.IRModule({"main": func})).evaluate()
    want = np.maximum(x @ w.T, 0)
    np.testing.assert_allclose(run(x, w).numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(run(x, w=w.astype("float64")).numpy(), want, rtol=1e-5)
    with pytest.raises(TypeError, match="missing w"):
        run(x)
    with pytest.raises(TypeError, match="the argument w has dtype float32"):
        run(x, w.astype("complex64"))


@pytest.mark.parametrize("kind", ["debug", "graph", "vm"])
def test_evaluate(kind: str) -> None:
    executor = relay.create_executor(kind)
    x, y = relay.var("x", shape=()), relay.var("y", shape=())
    add = relay.Function([x, y], x + y)
    assert float(executor.evaluate(add)(10.0, 1)) == 11
    assert float(executor.evaluate(x + y, {x: 1.0, y: 2.0})) == 3
    a, (b, c) = executor.evaluate(relay.Function([x, y], relay.Tuple([x, relay.Tuple([y, x])])))(
        1, 2
    )
    assert (float(a), float(b), float(c)) == (1, 2, 1)
    mod = lw.IRModule({"double": relay.Function([x], x + x)})
    gvar = mod.get_global_var("double")
    z = relay.var("z", shape=())
    executor = relay.create_executor(kind, mod)
    assert float(executor.evaluate(gvar)(3.0)) == 6
    assert float(executor.evaluate(relay.Function([z], relay.Call(gvar, [z]) + z))(3.0)) == 9


def test_build(rng: np.random.Generator) -> None:
    func, x, w = dense_relu(rng)
    lib = relay.build(lw.IRModule({"main": func}), "llvm", params={"w": w}, mod_name="net")
    m = GraphModule(lib["net"](lw.cpu()))
    assert (m.get_num_inputs(), m.get_input_index("x"), m.get_input_index("w")) == (1, 0, -1)
    m.set_input("x", x)
    m.run()
    want = np.maximum(x @ w.T, 0)
    np.testing.assert_allclose(m.get_output(0).numpy(), want, rtol=1e-5)
    out = lw.runtime.empty((2, 5), "float32")
    m.run(x=2 * x)
    assert m.get_output(0, out) is out
    np.testing.assert_allclose(out.numpy(), 2 * want, rtol=1e-5)
    m.load_params(relay.save_param_dict(lib.get_params()))
    with pytest.raises(ValueError, match="compiled into the model"):
        m.set_input("w", w + 1)
    with pytest.raises(ValueError, match="no such input"):
        m.set_input("z", x)
    with pytest.raises(ValueError, match="input x has shape"):
        m.set_input("x", x[:1])
    shapes, dtypes = m.get_input_info()
    assert (shapes, dtypes) == ({"x": (2, 8)}, {"x": "float32"})
    assert m.benchmark(lw.cpu(), repeat=2, number=1, end_to_end=True, x=x).mean > 0


def test_build_gives_a_tuple(rng: np.random.Generator, tmp_path: Path) -> None:
    func, x, w = dense_relu(rng)
    graph, lib, params = relay.build(func, "llvm")
    assert not params
    m = create(graph, lib, lw.cpu())
    m.set_input(x=x, w=w, other=w)
    m.run()
    np.testing.assert_allclose(m.get_output(0).numpy(), np.maximum(x @ w.T, 0), rtol=1e-5)
    lib = relay.build(func, "llvm", executor=Executor("aot"), mod_name="net")
    lib.export_library(tmp_path / "net.so")
    m = GraphModule(lw.runtime.load_module(tmp_path / "net.so")["net"](lw.cpu()))
    m.load_params(relay.save_param_dict({"w": w, "unknown": w}))
    m.run(x=x)
    np.testing.assert_allclose(m.get_output(0).numpy(), np.maximum(x @ w.T, 0), rtol=1e-5)


def test_memory_without_copies(rng: np.random.Generator) -> None:
    func, x, w = dense_relu(rng)
    m = GraphModule(relay.build(func, "llvm")["default"](lw.cpu()))
    held, out = lw.runtime.tensor(x), lw.runtime.empty((2, 5), "float32")
    m.set_input("w", w)
    m.set_input_zero_copy("x", held)
    m.set_output_zero_copy(0, out)
    for scale in (1, 3):
        held.copyfrom(scale * x)
        m.run()
        np.testing.assert_allclose(out.numpy(), scale * np.maximum(x @ w.T, 0), rtol=1e-5)


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "bfloat16", "int8", "uint8", "int64", "bool"]
)
def test_parameters_as_bytes(dtype: str) -> None:
    given = {"a": lw.runtime.tensor(np.arange(6).reshape(2, 3) % 2, dtype=dtype),
             "scalar": lw.runtime.tensor(np.array(1), dtype=dtype),
             "empty": lw.runtime.empty((0, 3), dtype)}  # fmt: skip
    data = relay.save_param_dict(given)
    found = relay.load_param_dict(data)
    assert list(found) == list(given)
    for name, value in given.items():
        assert (found[name].dtype, found[name].shape) == (dtype, value.shape)
        np.testing.assert_array_equal(found[name].numpy(), value.numpy())
    for broken in (data[:-1], data[: len(data) // 2], b"x" * 40, b""):
        with pytest.raises(ValueError, match="parameters"):
            relay.load_param_dict(broken)


def test_choices_by_name() -> None:
    assert not Executor("graph")["link-params"]
    assert str(Runtime("crt", {"system-lib": True})) == "crt"
    wrong: list[tuple[Any, str]] = [
        (("woof",), 'Executor "woof" is not defined'),
        (("aot", {"woof": 1}), 'Attribute "woof" is not available on this Executor'),
        (("aot", {"interface-api": True}), '"runtime.String" but instead found "runtime.BoxBool"'),
    ]
    for args, message in wrong:
        with pytest.raises(TVMError, match=message):
            Executor(*args)


def test_two_parameters_of_one_name() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("x", shape=(2,))
    func = relay.Function([x, y], x + y)
    with pytest.raises(ValueError, match="Multiple args in the function have name x"):
        relay.bind_params_by_name(func, {"x": np.ones(2, "float32")})


def test_kernels_have_the_names_of_their_operators(capsys: pytest.CaptureFixture[str]) -> None:
    x, w, y = (relay.var(n, shape=s) for n, s in (("x", (1, 10)), ("w", (20, 10)), ("y", (1, 20))))
    func = relay.Function([x, w, y], relay.nn.relu(relay.nn.dense(x, w) + y))

    @tir.transform.prim_func_pass(opt_level=0)
    def print_tir(f: tir.PrimFunc, mod: lw.IRModule, ctx: Any) -> tir.PrimFunc:
        print(f)
        return f

    added = {"tir.add_lower_pass": [(3, print_tir)]}
    with lw.transform.PassContext(opt_level=3, config=added):
        lib = relay.build(lw.IRModule({"main": func}), "llvm")
    names = ["tvmgen_default_fused_nn_dense_add_nn_relu", "tvmgen_default_fused_transpose"]
    printed = capsys.readouterr().out
    assert sorted(re.findall(r"def (\w+)\(", printed)) == names
    (kernels,) = lib.lowered_ir_mods.values()
    assert sorted(g.name_hint for g in kernels.functions) == names
    assert lw.ir.structural_equal(kernels, lw.script.from_source(kernels.script()))
    graph = json.loads(lib.get_graph_json())
    assert [n["name"] for n in graph["nodes"]] == ["x", "w", "y", *reversed(names)]
    assert [n["inputs"] for n in graph["nodes"]][3:] == [
        [[1, 0, 0]],
        [[0, 0, 0], [3, 0, 0], [2, 0, 0]],
    ]
    assert (graph["arg_nodes"], graph["heads"]) == ([0, 1, 2], [[4, 0, 0]])
    assert graph["attrs"]["shape"][1] == [[1, 10], [20, 10], [1, 20], [10, 20], [1, 20]]


def test_long_names_of_kernels() -> None:
    x = relay.var("x", shape=(4,))
    body: Any = x
    for _ in range(30):
        body = relay.tanh(body)
    (mod,) = relay.build(relay.Function([x], body), "llvm", mod_name="m").lowered_ir_mods.values()
    (name,) = (g.name_hint for g in mod.functions)
    assert len(name) == 80 and name.startswith("tvmgen_m_fused_tanh_tanh")


def test_an_added_pass_changes_the_result() -> None:
    x = relay.var("x", shape=(4,))

    def doubled(f: tir.PrimFunc, mod: lw.IRModule, ctx: Any) -> tir.PrimFunc:
        def post(node: tir.Stmt) -> Any:
            return node.replace(value=node.value * 2) if isinstance(node, tir.BufferStore) else None

        return f.with_body(tir.stmt_functor.ir_transform(f.body, None, post, ["tir.BufferStore"]))

    with lw.transform.PassContext(config={"tir.add_lower_pass": [(1, doubled)]}):
        run = relay.create_executor("graph").evaluate(relay.Function([x], relay.negative(x)))
    np.testing.assert_array_equal(run(np.ones(4)).numpy(), -2 * np.ones(4, "float32"))


def test_lower() -> None:
    x, w = relay.var("x", shape=(1, 10)), relay.var("w", shape=(20, 10))
    func = relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w)))
    kernels = relay.lower(lw.IRModule({"main": func}), "llvm", mod_name="net")
    names = ["tvmgen_net_fused_nn_dense_nn_relu", "tvmgen_net_fused_transpose"]
    assert sorted(g.name_hint for g in kernels.functions) == names
    (built,) = relay.build(func, "llvm", mod_name="net").lowered_ir_mods.values()
    assert lw.ir.structural_equal(kernels[names[0]], built[names[0]])
    with pytest.raises(ValueError, match="Target is not set"):
        relay.lower(func)


def test_one_kernel_of_a_function() -> None:
    x = relay.var("x", shape=(4,))
    kernel = lower_to_primfunc(relay.Function([x], relay.tanh(relay.negative(x))), "llvm")
    out = np.zeros(4, "float32")
    lw.compile(kernel, "llvm")(np.ones(4, "float32"), out)
    np.testing.assert_allclose(out, np.tanh(-np.ones(4)), rtol=1e-5)


def test_the_graph_step_by_step() -> None:
    x = relay.var("x", shape=(4,))
    func = relay.Function([x], relay.tanh(x + relay.const(np.ones(4, "float32"))))
    target = lw.Target("llvm")
    text, kernels, params = GraphExecutorCodegen(None, target).codegen(lw.IRModule(), func)
    names = [node["name"] for node in json.loads(text)["nodes"]]
    assert names == ["x", "p0", "tvmgen_default_fused_add_tanh"]
    assert [g.name_hint for g in kernels[target].functions] == names[2:]
    np.testing.assert_array_equal(params["p0"].numpy(), np.ones(4))


def test_virtual_machine(rng: np.random.Generator) -> None:
    func, x, w = dense_relu(rng)
    vm = lw.runtime.VirtualMachine(relay.vm.compile(func, "llvm", params={"w": w}), lw.cpu())
    want = np.maximum(x @ w.T, 0)
    np.testing.assert_allclose(vm.run(x).numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(vm.invoke("main", x=x).numpy(), want, rtol=1e-5)


def test_a_program_of_the_virtual_machine_is_saved_and_loaded(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    func, x, w = dense_relu(rng)
    exe = relay.vm.compile(func, "llvm", params={"w": w})
    assert any(name.startswith("tvmgen_default_fused_nn_dense") for name in exe.primitive_ops)
    assert exe.globals == ["main"] and exe.get_function_params("main") == ["x"]
    assert "main(x)" in exe.bytecode and "functions: 1" in exe.stats
    code, lib = exe.save()
    lib.export_library(tmp_path / "vm.so")
    vm_classes: Any = lw.runtime.vm
    load = vm_classes.Executable.load_exec
    loaded = load(code, lw.runtime.load_module(str(tmp_path / "vm.so")))
    vm = vm_classes.VirtualMachine(loaded, lw.cpu())
    np.testing.assert_allclose(vm.run(x).numpy(), np.maximum(x @ w.T, 0), rtol=1e-5)
    with pytest.raises(TypeError, match="the code is a bytearray"):
        load("text", lib)
    with pytest.raises(ValueError, match="not written by save"):
        load(b"other", lib)
    with pytest.raises(ValueError, match="lacks functions"):
        load(code.replace(b"main", b"more"), lib)


def test_inputs_of_the_virtual_machine_are_set() -> None:
    x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(3,))
    func = relay.Function([x, y], relay.Tuple([x - y, y]))
    vm = lw.runtime.VirtualMachine(relay.vm.compile(func, "llvm"), lw.cpu())
    a, b = np.arange(3, dtype="float32"), np.ones(3, "float32")
    assert [vm.get_input_index(n) for n in ("x", "y", "z")] == [0, 1, -1]
    vm.set_one_input("main", 1, b)
    with pytest.raises(ValueError, match="not all inputs were set for main"):
        vm.invoke("main")
    vm.set_one_input("main", x=a)
    assert vm.invoke("main")[0].numpy().tolist() == [-1, 0, 1]
    with pytest.raises(ValueError, match="main takes x, y"):
        vm.set_one_input("main", "z", a)
    with pytest.raises(ValueError, match="one input is set"):
        vm.set_one_input("main", a)
    vm.invoke_stateful("main", b, a)
    assert [out.numpy().tolist() for out in vm.get_outputs()] == [[1, 0, -1], [0, 1, 2]]
    into = [lw.runtime.empty((3,), "float32") for _ in range(2)]
    vm.invoke_with_outputs("main", {"x": a, "y": b}, into)
    assert into[0].numpy().tolist() == [-1, 0, 1]
    with pytest.raises(ValueError, match="main has 2 results"):
        vm.invoke_with_outputs("main", None, into[:1])
    assert len(vm.benchmark(lw.cpu(), a, b, repeat=2, number=1).results) == 2


def test_a_free_variable_is_named() -> None:
    x, free = relay.var("x", shape=(3,)), relay.var("free", shape=(3,))
    with pytest.raises(lw.LoopwrightError, match="a variable is free(.|\n)*%free(.|\n)*free_vars"):
        relay.build(lw.IRModule({"main": relay.Function([x], x + free)}), "llvm")


def test_a_build_by_its_parts(rng: np.random.Generator) -> None:
    func, x, w = dense_relu(rng)
    builder = relay.build_module.BuildModule()
    with pytest.raises(ValueError, match="nothing was built"):
        builder.get_module()
    builder.set_params({"w": w})
    text, lib, params = builder.build(lw.IRModule({"main": func}), "llvm")
    assert (text, lib) == (builder.get_graph_json(), builder.get_module()) and [*params] == ["w"]
    run = create(text, lib, lw.cpu())
    run.run(x=x)
    np.testing.assert_allclose(run.get_output(0).numpy(), np.maximum(x @ w.T, 0), rtol=1e-5)
    assert [*builder.get_params()] == ["w"] and builder.get_devices() == []
    optimized, _ = builder.optimize(lw.IRModule({"main": func}), "llvm")
    assert lw.ir.structural_equal(optimized, builder.get_irmodule())


def test_parameters_of_other_types_are_named() -> None:
    x, w = relay.var("x", shape=(relay.Any(), 3)), relay.var("w")
    with pytest.raises(ValueError, match="%x has the type Tensor(.|\n)*an array of .*(2, 4)"):
        relay.build(relay.Function([x], x), "llvm", params={"x": np.ones((2, 4), "float32")})
    relay.build(relay.Function([x], x), "llvm", params={"x": np.ones((2, 3), "float32")})
    with pytest.raises(lw.LoopwrightError, match="type of a parameter is not known(.|\n)*%w"):
        relay.build(relay.Function([w], relay.nn.relu(w)), "llvm")


@pytest.mark.parametrize("kind", ["vm", "graph", "debug"])
def test_a_function_that_a_function_returns(kind: str) -> None:
    x, y, a, b = (relay.var(name, shape=()) for name in "xyab")
    minus = relay.var("minus")
    inner = relay.Let(b, y + y, relay.Function([x], x - b))  # b is of each call of `minus`
    calls = (relay.Call(minus, [a]), relay.Call(minus, [relay.const(2.0)]))
    one, two = (relay.Call(call, [relay.const(9.0)]) for call in calls)
    body = relay.Let(minus, relay.Function([y], inner), one * two)
    run = relay.create_executor(kind, lw.IRModule({"main": relay.Function([a], body)})).evaluate()
    assert float(run(1.0)) == (9 - 2) * (9 - 4)


@pytest.mark.parametrize(
    ("args", "kwargs", "got"),
    [
        ((1,), {}, "missing b"),
        ((), {"b": 2}, "missing a"),
        ((1, 2), {"c": 3}, "unknown or given twice: c"),
        ((1, 2), {"a": 3}, "unknown or given twice: a"),
        ((1,), {"c": 3}, "missing b; unknown or given twice: c"),
        ((1, 2, 3), {}, "3 arguments"),
    ],
)
def test_arguments_that_do_not_fit_the_parameters(args: Any, kwargs: Any, got: str) -> None:
    params = relay.var("a", shape=()), relay.var("b", shape=())
    assert in_order(params, (1,), {"b": 2}) == in_order(params, (), {"b": 2, "a": 1}) == [1, 2]
    with pytest.raises(TypeError) as caught:
        in_order(params, args, kwargs)
    assert str(caught.value) == f"the function takes 2 arguments (a, b)\n  got: {got}"


@pytest.mark.parametrize(
    ("dtype", "value", "wanted"),
    [
        ("int32", [1.5, -2.5], [1, -2]),
        ("float32", 3, 3.0),
        ("float32", True, 1.0),
        ("float32", (1, 2), [1.0, 2.0]),
        ("float32", np.float64([0.1]), [np.float32(0.1)]),
        ("float32", np.int64([7]), [7.0]),
        ("int8", np.int64([7]), [7]),
        ("float32", relay.const(2.0), 2.0),
        ("int32", np.float32([1.0]), "the argument x has dtype int32\n  got: float32\n"),
        ("bool", np.int32([1]), "the argument x has dtype bool\n  got: int32\n"),
    ],
)
def test_an_argument_has_the_dtype_of_its_parameter(dtype: str, value: Any, wanted: Any) -> None:
    type_ = relay.TensorType(np.shape(wanted), dtype)
    if isinstance(wanted, str):
        with pytest.raises(TypeError) as caught:
            argument("x", type_, value)
        assert str(caught.value).startswith(wanted)
        return
    found = argument("x", type_, value).numpy()
    np.testing.assert_array_equal(found, wanted)
    assert str(found.dtype) == dtype
    (one,) = argument("x", relay.TupleType([type_]), [value])
    np.testing.assert_array_equal(one.numpy(), wanted)


def test_arguments_that_stay_as_they_are() -> None:
    given = lw.runtime.tensor(np.int64([1]))
    assert argument("x", relay.TensorType((1,), "float32"), given) is given
    assert argument("x", relay.FuncType([], relay.TensorType(())), given) is given
    with pytest.raises(TypeError, match=r"the argument x.1 has dtype int8"):
        two = relay.TupleType([relay.TensorType((1,)), relay.TensorType((1,), "int8")])
        argument("x", two, [np.ones(1), np.ones(1)])


def test_values_of_expressions() -> None:
    x = relay.var("x", shape=(2,))
    run = relay.create_executor("debug")
    pair = run.evaluate(relay.Tuple([x, relay.Tuple([x + x])]), {x: np.float32([1, 2])})
    assert type(pair) is ADT and type(pair[1]) is ADT and pair.tag == 0
    np.testing.assert_array_equal(pair[1][0].numpy(), [2, 4])
    mod = lw.IRModule({"main": relay.Function([x], x), "twice": relay.Function([x], x + x)})
    run = relay.create_executor("debug", mod)
    for which, wanted in ((None, [1, 2]), (mod.get_global_var("twice"), [2, 4])):
        np.testing.assert_array_equal(run.evaluate(which)([1.0, 2.0]).numpy(), wanted)


def test_bindings_know_the_calls_they_are_made_of() -> None:
    x = relay.var("x", shape=(2,))
    placed = relay.exp(x).with_span(Span("net.py", 3, 5, 7, 9))
    named = relay.exp(x).with_span(Span("onnx:/exp"))
    spans = [CallSpan(call) for call in (placed, named, relay.exp(x), relay.exp(x))]
    assert [s.source for s in spans] == ["net.py", "onnx:/exp", "relay:exp", "relay:exp"]
    assert (spans[0].line, spans[0].end_line, spans[0].column, spans[0].end_column) == (3, 5, 7, 9)
    assert spans[1].line == 0 and spans[2] != spans[3] and len({*spans}) == 4
