"""What single functions of Relay give: facts of operators, implementations, questions, steps of passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import IRModule, relay, te
from loopwright.base.errors import DiagnosticError, LoopwrightError, TVMError
from loopwright.ir import assert_structural_equal, structural_hash
from loopwright.ir.op import Op
from loopwright.ir.prim_op import min_value
from loopwright.ir.target import Target
from loopwright.relay import analysis
from loopwright.relay import transform as passes
from loopwright.relay.backend import Executor, Runtime
from loopwright.relay.backend.compiling import as_relay_module, compiled, one_target
from loopwright.relay.backend.te_compiler import get_shape, lower_to_primfunc
from loopwright.relay.dataflow_pattern import is_constant, is_op, is_tuple, is_var, wildcard
from loopwright.relay.expr_functor import ExprMutator
from loopwright.relay.op import registering
from loopwright.relay.op.strategy import wrap_compute_concat, wrap_topi_compute
from loopwright.relay.operators.layouts import axes_of
from loopwright.relay.operators.transform import reshaped
from loopwright.relay.strategy import OpImplementation, placeholders
from loopwright.relay.transform.fold_constant import folded
from loopwright.runtime.device import VirtualDevice

pytestmark = pytest.mark.no_roundtrip
x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
flag = relay.var("flag", shape=(), dtype="bool")
a = np.arange(6, dtype="float32").reshape(2, 3)
tensor = relay.TensorType


def run(body: Any, *args: Any) -> Any:
    """What a function of the free variables of `body` gives."""
    return relay.create_executor("debug").evaluate(relay.Function(analysis.free_vars(body), body))(
        *args
    )


def module(body: Any) -> IRModule:
    return passes.InferType()(IRModule.from_expr(body))


def becomes(step: Any, body: Any, wanted: Any) -> None:
    """A pass makes of the function of `body` that of `wanted`."""
    assert_structural_equal(step(module(body))["main"], module(wanted)["main"])


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (relay.trunc_divide(x, relay.const(4.0)), np.trunc(a / 4)),
        (relay.trunc_divide(relay.const(-7), relay.const(2)), -3),
        (relay.cumsum(x), a.reshape(-1).cumsum()),
        (relay.cumprod(x, 0), a.cumprod(0)),
        (relay.zeros(relay.const([2, 1]), "int8"), np.zeros((2, 1), "int8")),
        (relay.ones(2, "int8"), np.ones(2, "int8")),
        (relay.adv_index([x, relay.const([1, 0])]), a[[1, 0]]),
        (relay.adv_index(relay.Tuple([x, relay.const([1, -1])])), a[[1, -1]]),
        (relay.unravel_index(relay.const(5), relay.const([2, 3])), [1, 2]),
        (relay.argmax(x, (), exclude=True), 5),
        (relay.argmin(x, (0, 1), exclude=True), np.zeros((2, 3))),
        (relay.std(x, 1), a.std(1)),
        (relay.std(x, 0, unbiased=True, keepdims=True), a.std(0, ddof=1, keepdims=True)),
        (relay.reshape(x, (1, -2)), None),
        (relay.slice_like(x, relay.const(np.zeros((1, 2)))), a[:1, :2]),
        (relay.segment_sum(x, relay.const([1, 1]), [3]), [[0] * 3, a.sum(0), [0] * 3]),
        (relay.segment_sum(x, relay.const([1, 1]), (3,)), [[0] * 3, a.sum(0), [0] * 3]),
        (relay.segment_sum(x, relay.const([0, 0])), a.sum(0, keepdims=True)),
        (relay.annotation.compiler_end(relay.annotation.compiler_begin(x, "c"), "c"), a),
    ],
)
def test_what_is_computed(body: Any, wanted: Any) -> None:
    if wanted is None:  # the same number of elements is needed
        with pytest.raises(DiagnosticError, match="the number of elements must stay"):
            module(body)
        return
    args = [a] * len(analysis.free_vars(body))
    np.testing.assert_allclose(run(body, *args).numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("new", "wanted"),
    [
        ((0, -2), [2, 3, 4]),
        ((-2,), [2, 3, 4]),
        ((-3, -2), [6, 4]),
        ((0, 0, 0, -2), [2, 3, 4]),
        ((-2, 1), [2, 3, 4, 1]),
        ((0, -1), [2, 12]),
        ((-1, 4), [6, 4]),
        ((-4, 1, -1, 0, 0), [1, 2, 3, 4]),
        ((0, 0, -4, -1, 2), [2, 3, 2, 2]),
        ((0, -3), [2, 12]),
    ],
)
def test_codes_of_new_shapes(new: tuple[int, ...], wanted: list[int]) -> None:
    assert [getattr(d, "value", d) for d in reshaped([2, 3, 4], list(new))] == wanted


def test_axes_of_reductions() -> None:
    data = te.placeholder((2, 3, 4))
    for axis, exclude, wanted in (
        (None, False, [0, 1, 2]),
        ((), False, [0, 1, 2]),
        ((), True, [0, 1, 2]),
        (0, False, [0]),
        (-3, True, [1, 2]),
        ((2, 0), False, [0, 2]),
        ((-1, 0, 1), True, []),
    ):
        assert axes_of(data, axis, exclude) == wanted
    for axis in (3, -4, (0, -3)):
        with pytest.raises(ValueError, match="different ones of its operand"):
            axes_of(data, axis)
    with pytest.raises(ValueError, match="exclude needs axes"):
        axes_of(data, None, True)


def test_devices_of_functions() -> None:
    func = relay.annotation.function_on_device(relay.Function([x], x), ["cpu"], lw.cpu(0))
    assert func.attrs["param_virtual_devices"] == (VirtualDevice(lw.cpu(0)),)
    assert func.attrs["result_virtual_device"] == VirtualDevice(lw.cpu(0))
    mark = relay.annotation.on_device(x, VirtualDevice(lw.cpu(0)))
    assert mark.attrs["constrain_body"] and not mark.attrs["constrain_result"]
    free = relay.annotation.on_device(x, 3, constrain_body=False)
    assert free.attrs["virtual_device"] == VirtualDevice()
    with pytest.raises(ValueError, match="a device is a Device, its name"):
        relay.annotation.on_device(x, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: relay.tanh(x, y, x), "relay.tanh: too many positional arguments"),
        (lambda: relay.tanh(1), "relay.tanh: the argument data is an expression"),
        (lambda: relay.strided_slice(x, y, [1], axes=[0]), "with axes, the bounds must be numbers"),
        (lambda: relay.image.resize1d(x, y), "resize1d takes a size of numbers"),
        (lambda: relay.image.resize3d(x, y), "resize3d takes a size of numbers"),
        (lambda: relay.nn.utils.get_pad_tuple2d((1, 2, 3)), "can only be 1, 2 or 4"),
        (lambda: relay.testing.vgg.get_net(1, (3, 8, 8), 10, "float32", 12), "unknown VGG network"),
        (lambda: relay.testing.squeezenet.get_net(1, (3, 8, 8), 10, "2", "float32"), "unknown Sq"),
        (lambda: relay.build(x, "llvm", workspace_memory_pools=1), "workspace_memory_pools has no"),
        (lambda: relay.build(x, "llvm", constant_memory_pools=1), "constant_memory_pools has no"),
        (lambda: relay.create_executor("jit"), "unknown execution strategy\n  got: jit"),
        (lambda: relay.op.register_gradient("add"), "gradients of Relay's operators"),
        (lambda: as_relay_module(3), "this is not a module of Relay\n  got: int"),
        (lambda: one_target(["llvm", "c"]), "built for one target\n  got: 2"),
        (lambda: one_target([]), "built for one target\n  got: 0"),
        (lambda: one_target(None), "Target is not set"),
        (lambda: compiled(None, "llvm"), "no module to compile yet"),
        (lambda: placeholders(relay.FuncType([], tensor(()))), "a kernel takes tensors"),
        (lambda: Executor("jit"), 'Executor "jit" is not defined'),
        (lambda: Executor("graph", {"a": 1}), '"a" is not available'),
        (
            lambda: Runtime("cpp", {"system-lib": 1}),
            '"runtime.BoxBool" but instead found "runtime.',
        ),
        (lambda: analysis.check_kind(relay.RefType(relay.TypeVar("s", 1))), "ref contents"),
        (lambda: analysis.check_kind(relay.TypeCall(relay.TypeVar("t"), ())), "type call function"),
        (
            lambda: analysis.check_kind(relay.TypeCall(relay.GlobalTypeVar("L", 5), ())),
            "algebraic data types are left out",
        ),
        (
            lambda: analysis.check_kind(relay.FuncType([], tensor(()), None, [tensor(())])),
            "function type constraint",
        ),
        (
            lambda: ExprMutator().visit(tensor(())),
            "a functor does not visit this kind of expression",
        ),
        (lambda: ~wildcard(), "partition and rewrite take a check"),
        (lambda: wildcard() & wildcard(), "has_type, has_dtype"),
    ],
)
def test_errors(call: Any, message: str) -> None:
    kinds = (TypeError, ValueError, RuntimeError, NotImplementedError, TVMError, DiagnosticError)
    with pytest.raises(kinds, match=message):
        call()


def test_targets_and_modules_of_builds() -> None:
    target = Target("llvm")
    for given in (target, [target], {"cpu": target}, (target,)):
        assert one_target(given) is target
    with target:
        assert one_target(None) is target
    assert as_relay_module(x + y)["main"].params == (x, y)
    mod = IRModule.from_expr(x)
    assert as_relay_module(mod) is mod
    assert get_shape(tensor((2, relay.Any())).shape) == [2, relay.Any()]
    with pytest.raises(LoopwrightError, match="this function cannot be one kernel"):
        lower_to_primfunc(passes.InferType()(IRModule.from_expr(x))["main"], target)


def test_options_by_name() -> None:
    assert Executor.list_registered() == ["graph", "aot"] and Runtime.list_registered()[0] == "cpp"
    assert Executor.list_registered_options("graph") == {"link-params": "runtime.BoxBool"}
    assert Executor.list_registered_options(Executor("aot"))["unpacked-api"] == "runtime.BoxBool"
    assert Executor("aot")["link-params"] is True and Executor("graph")["link-params"] is False
    assert "unpacked-api" not in Executor("aot")


def test_what_a_build_gives() -> None:
    made = {}
    for kind in ("graph", "aot"):
        built = relay.build(x + y, "llvm", executor=Executor(kind), mod_name="m")
        made[kind] = built
        assert built.module is built and built["get_params"]() == {} == built.get_params()
        config, lib, params = built
        assert lib is built.get_lib() and params == {} and config == built.get_executor_config()
        assert built["get_graph_json"]() == config
        assert built["main"] is not None
    assert made["aot"].get_executor_config() is None and made["aot"].get_devices() == ["llvm"]
    assert '"nodes"' in made["graph"].graph_json and made["graph"].get_devices() == []


def test_questions_about_programs() -> None:
    seen: list[Any] = []
    analysis.post_order_visit((total := x + x), seen.append)
    assert (
        len(seen) == 3
        and seen[-1] is total
        and {*map(id, seen)} == {id(x), id(total.op), id(total)}
    )
    mod = relay.fromtext(
        """#[version = "0.0.5"]
        def @f(%a: Tensor[(2), float32], Compiler="c") { exp(%a) }
        def @main(%x: Tensor[(2), float32]) { add(@f(%x), @f(%x)) }
        """
    )
    with pytest.raises(LoopwrightError, match="called twice has more than one value\n  got: @f"):
        analysis.get_calibration_data(mod, {})
    assert analysis.get_calibration_data(IRModule.from_expr(x), {}) == {}
    t = relay.TypeVar("t")
    call = relay.Call(relay.GlobalVar("f"), [x], None, [t])
    assert analysis.all_type_vars(call) == [t]


def test_patterns_in_python() -> None:
    pair = relay.split(x, 3, 1)
    assert wildcard()[1].match(pair[1]) and not wildcard()[0].match(pair[1])
    assert (-wildcard()).match(relay.negative(x)) and not (-wildcard()).match(relay.exp(x))
    fields = is_tuple([is_var("x"), is_constant()])
    assert isinstance(fields[1], type(is_constant()))
    assert fields[0].name == "x"
    for narrow, fits, other in (
        (relay.dataflow_pattern.has_dtype, "float32", "int8"),
        (relay.dataflow_pattern.has_shape, (2, 3), (3, 2)),
        (relay.dataflow_pattern.has_type, tensor((2, 3)), tensor((2, 3), "int8")),
    ):
        typed = module(relay.exp(x) + x)["main"].body
        assert narrow(fits).match(typed) and not narrow(other).match(typed)
        call = is_op("add")(wildcard(), wildcard())
        assert narrow(fits, call).match(typed) and not narrow(fits, is_op("exp")(None)).match(typed)
    has_attr = relay.dataflow_pattern.has_attr
    cast = x.astype("int8")
    assert has_attr({"dtype": "int8"}).match(cast) and not has_attr({"dtype": "int32"}).match(cast)
    assert not has_attr({"dtype": "int8"}, is_op("exp")(None)).match(cast)


def test_parts_of_matches_that_patterns_do_not_say() -> None:
    body = relay.concatenate(relay.Tuple([relay.exp(x), y]), 0)
    found = is_op("concatenate")(is_tuple(None)).partition(body)
    assert isinstance(found.op, relay.Function) and [type(p) for p in found.args] == [
        relay.Call,
        relay.Var,
    ]
    assert [p.name_hint for p in found.op.params] == ["FunctionVar_0_0", "FunctionVar_0_1"]
    field = relay.split(x, 3, 1)[2]
    found = is_op("split")(wildcard())[2].partition(field)
    assert found.op.attrs["PartitionedFromPattern"] == "split_TupleGetItem2_"
    assert analysis.free_vars(found) == [x]


def test_kernels_of_functions_of_te() -> None:
    p, q = te.placeholder((2,)), te.placeholder((3,))
    attrs = relay.concatenate([x, y], 1).attrs
    assert wrap_topi_compute(lambda a, b: (a, b))(attrs, [p, q], None) == [p, q]
    assert wrap_topi_compute(lambda a: a)(attrs, [p], None) == [p]
    assert wrap_compute_concat(lambda inputs, axis: (axis, *inputs))(attrs, (p, q), None) == [
        1,
        p,
        q,
    ]
    assert wrap_compute_concat(lambda inputs, axis: inputs[1])(attrs, [p, q], None) == [q]
    kernel = OpImplementation(lambda *given: p, None, "k.cpu", 7)
    assert repr(kernel) == "OpImplementation('k.cpu', plevel=7)"
    assert kernel.compute(attrs, [p], None) == [p] and kernel.schedule(attrs, [p], "llvm") is None


def test_facts_of_operators() -> None:
    name = "relay.test.small_facts"
    registering.register(name, "says")
    with pytest.raises(LoopwrightError, match="is registered before"):
        registering.register(name)
    op = Op.get(name)
    relay.op.register_stateful(name, True)
    assert op.get_attr("TOpIsStateful") is True
    assert registering.register_shape_func(name, False, len) is len
    assert op.get_attr("TShapeDataDependent") is False and op.get_attr("FShapeFunc") is len
    assert relay.op.register_external_compiler(name, max) is max
    assert op.get_attr("FTVMExternalCompiler") is max


def test_steps_of_passes() -> None:
    one = relay.const(1.0)
    v = relay.var("v")
    assert folded(relay.Let(v, one, v + v)).data.numpy() == 2
    assert passes.FoldConstantExpr(one + one).data.numpy() == 2
    becomes(passes.FoldConstant(), relay.Let(v, one + one, x * v), x * relay.const(2.0))
    becomes(passes.DivToMul(), x / relay.const(4.0), x * relay.const(0.25))
    for kept in (x / y, x / relay.const(0.0), relay.exp(x)):
        becomes(passes.DivToMul(), kept, kept)
    whole = relay.var("i", shape=(2,), dtype="int32")
    becomes(passes.DivToMul(), whole / relay.const(4), whole / relay.const(4))
    assert passes.ToANormalFormExpr(relay.exp(relay.tanh(x))).value.op.name == "tanh"
    names = [type(p).__name__ for p in passes.BatchingOps().passes]
    assert names == [f"CombineParallel{n}" for n in ("Conv2D", "Dense", "BatchMatmul")]
    becomes(passes.SplitArgs(0), relay.concatenate([x, y], 0), relay.concatenate([x, y], 0))
    pair = relay.Tuple([x, y])
    p = relay.var("p", module(pair)["main"].ret_type)
    becomes(passes.SplitArgs(1), relay.concatenate(p, 0), relay.concatenate(p, 0))
    atrous = passes.FlattenAtrousConv()
    for other in (
        relay.nn.batch_to_space_nd(
            relay.nn.space_to_batch_nd(relay.var("b", shape=(1, 4, 4, 1)), [2, 2], [[0, 0]] * 2),
            [2, 2],
            [[0, 0]] * 2,
        ),
        x,
    ):
        becomes(atrous, other, other)


@pytest.mark.parametrize(
    ("count", "limit", "parts"), [(4, 5, 1), (4, 6, 0), (4, 3, 3), (1, 1, 0), (3, 1, 3)]
)
def test_concatenations_in_parts(count: int, limit: int, parts: int) -> None:
    values = [relay.var(f"v{k}", shape=(k + 1,)) for k in range(count)]
    mod = passes.SplitArgs(limit)(module(relay.concatenate(values, 0)))
    marks = analysis.list_op_freqs(mod).get("annotation.stop_fusion", 0)
    assert marks == parts, mod


@pytest.mark.parametrize(("limit", "parts"), [(9, 2), (11, 2), (12, 1), (13, 0)])
def test_arguments_of_kernels_of_free_extents(limit: int, parts: int) -> None:
    """A matrix of an unknown extent is 4 arguments: its data, the extent, and 2 strides."""
    free = [relay.var(f"f{k}", relay.TensorType((2, relay.Any()))) for k in range(2)]
    mod = passes.SplitArgs(limit)(module(relay.concatenate(free, 1)))
    assert analysis.list_op_freqs(mod).get("annotation.stop_fusion", 0) == parts, mod


def test_variables_that_are_bound() -> None:
    z = relay.var("z", shape=(2, 3))
    unused = relay.bind(relay.Function([x, y], x), {y: z})
    assert unused.params == (x, z) and unused.body is x
    free = relay.bind(relay.Function([x], x + y), {y: z})
    assert free.params == (x, z) and free.body.args[1] is z
    same = relay.Function([x], x + y)
    assert relay.bind(same, {z: x}) is same
    again = relay.bind(relay.Function([x, y], x + y), {y: x * z})
    assert again.params == (x, z)


def test_devices_of_executors() -> None:
    assert relay.create_executor().device == lw.cpu(0)
    assert relay.create_executor("vm", device=lw.cpu(1)).device == lw.cpu(1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_one_of_the_pads_of_a_pool(dtype: str) -> None:
    image = relay.var("i", shape=(1, 2, 4, 4), dtype=dtype)
    least, pads = float(min_value(dtype).value), ((0, 0), (0, 0), (1, 0), (2, 1))
    for value, calls in ((least, ["nn.max_pool2d"]), (0.0, ["nn.pad", "nn.max_pool2d"])):
        pad = relay.nn.pad(image, pads, relay.const(value, dtype))
        pool = relay.nn.max_pool2d(pad, (2, 2), padding=(0, 1))
        func = passes.FoldExplicitPadding()(module(pool))["main"]
        assert [*relay.testing.count_ops(func)] == calls
        wanted = (1, 3, 0, 2) if len(calls) == 1 else (0, 1, 0, 1)
        assert tuple(func.body.attrs.padding) == wanted


def test_shapes_that_are_constants() -> None:
    for shape in (relay.const([2, 3]), (2, 3), [2, 3]):
        assert module(relay.zeros(shape, "int8"))["main"].ret_type == tensor((2, 3), "int8")
    assert module(relay.zeros(relay.const(4), "int8"))["main"].ret_type == tensor((4,), "int8")


def test_names_that_are_meant() -> None:
    for name, hint in (("conv2d", "relay.nn.conv2d"), ("tanhh", "relay.tanh")):
        with pytest.raises(AttributeError, match=f"has no operator '{name}'\n.*did you.*{hint}"):
            getattr(relay.op, name)
    with pytest.raises(AttributeError, match="has no operator 'qqqqqqqq'$"):
        _ = relay.op.qqqqqqqq


def test_matches_are_numbered() -> None:
    body = relay.exp(relay.tanh(relay.exp(x)))
    found = is_op("exp")(wildcard()).partition(body)
    funcs = [n for n in relay.walk.post_order(found) if isinstance(n, relay.Function)]
    assert [f.params[0].name_hint for f in funcs] == [
        "FunctionVar_0_0",
        "FunctionVar_1_0",
    ]  # the last one first


def test_what_is_in_a_match_is_in_no_other() -> None:
    e = relay.exp(x)
    pattern = is_op("add")(is_op("exp")(wildcard()), wildcard())
    found = pattern.partition(e + (e + y))
    funcs = [n for n in relay.walk.post_order(found) if isinstance(n, relay.Function)]
    assert len(funcs) == 1 and found.op is funcs[0]


def test_marks_of_products_alone() -> None:
    def marks(body: Any) -> list[int]:
        made = relay.testing.byoc.CcompilerAnnotator().visit(body)
        found = relay.testing.count_ops(made)
        return [found["annotation.compiler_begin"], found["annotation.compiler_end"]]

    z, u = relay.var("z", shape=(2, 3)), relay.var("u", shape=(2, 3))
    assert marks((x + y - z) * u) == [4, 1]
    assert marks(x + y) == [0, 0] and marks(x - y) == [0, 0]
    assert marks(relay.exp(x + y)) == [0, 0]


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_types_of_weights_follow(rank: int, groups: int) -> None:
    w, window = relay.var("w"), (3, 2, 1)[:rank]
    options = {"channels": 8, "kernel_size": window, "groups": groups}
    for name, lead in (("", (8, 4 // groups)), ("_transpose", (4, 8 // groups))):
        conv = getattr(relay.nn, f"conv{rank}d{name}")
        func = module(conv(relay.var("d", shape=(1, 4, *[6] * rank)), w, **options))["main"]
        assert func.params[1].type_annotation == tensor((*lead, *window))
    free = relay.var("d", tensor((1, relay.Any(), *[6] * rank)))
    conv = getattr(relay.nn, f"conv{rank}d")
    weight = module(conv(free, w, **options))["main"].params[1].type_annotation
    assert isinstance(weight.shape[1], relay.Any) and weight.shape[0] == 8


def test_hashes_of_types_and_attributes() -> None:
    funcs = [
        relay.Function([x], relay.exp(x)),
        relay.Function([x], relay.exp(x), tensor((2, 3))),
        relay.Function([x], relay.exp(x)).with_attr("a", 1),
        relay.Function([x], relay.exp(x), None, [relay.TypeVar("t")]),
    ]
    assert len({structural_hash(f) for f in funcs}) == 4
    assert structural_hash(funcs[3]) == structural_hash(
        relay.Function([y], relay.exp(y), None, [relay.TypeVar("s")])
    )


@pytest.mark.parametrize(
    ("begin", "end", "stride", "wanted"),
    [(4, -6, -1, [4, 3, 2, 1, 0]), (3, 0, -2, [3, 1]), (4, -100, -2, [4, 2, 0]), (1, 9, 3, [1, 4])],
)
def test_slices_to_either_end(begin: int, end: int, stride: int, wanted: list[int]) -> None:
    a = relay.var("a", shape=(5,))
    body = relay.strided_slice(a, begin=[begin], end=[end], strides=[stride])
    run = relay.create_executor("debug").evaluate(relay.Function([a], body))
    np.testing.assert_array_equal(run(np.arange(5, dtype="float32")).numpy(), wanted)


def test_features_have_tvm_s_numbers() -> None:
    numbers = {"fVar": 0, "fFunction": 5, "fOp": 6, "fCall": 7, "fIf": 9, "fGraph": 15}
    assert {name: relay.analysis.Feature[name].value for name in numbers} == numbers
