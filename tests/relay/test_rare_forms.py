"""Forms of programs that are rare: types, names, branches, and what passes make of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from loopwright import IRModule, relay, te
from loopwright.ir import assert_structural_equal
from loopwright.relay import analysis
from loopwright.relay import transform as passes
from loopwright.relay.annotated_regions import AnnotatedRegionSet
from loopwright.relay.backend.vm import VMCompiler
from loopwright.relay.dataflow_pattern import is_op, wildcard
from loopwright.relay.dataflow_pattern.nodes import FunctionPattern
from loopwright.relay.dominators import Flow
from loopwright.relay.expr_functor import ExprFunctor
from loopwright.relay.external import lifted
from loopwright.relay.op import registering
from loopwright.relay.strategy import get_valid_implementations
from loopwright.relay.testing import layers, rand, vgg
from loopwright.relay.translate import to_relax

pytestmark = pytest.mark.no_roundtrip
x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
line, image = relay.var("line", shape=(3,)), relay.var("image", shape=(1, 3, 8, 8))
flag = relay.var("flag", shape=(), dtype="bool")
truths = relay.var("truths", shape=(2, 3), dtype="bool")
tall = relay.var("tall", shape=(1, 3, relay.Any(), 8))
exp, v = relay.exp(x), relay.var("v")
a = np.arange(6, dtype="float32").reshape(2, 3)
begin, end = relay.annotation.compiler_begin, relay.annotation.compiler_end
three = relay.const([1.0, 2.0, 3.0])
row, first = relay.const(np.zeros((1, 3), "float32")), relay.const([0])


def typed(body: Any) -> IRModule:
    return passes.InferType()(IRModule.from_expr(body))


def run(body: Any, *args: Any) -> Any:
    func = relay.Function(analysis.free_vars(body), body)
    return relay.create_executor("debug").evaluate(func)(*args)


def of_ref(*shape: int) -> Any:
    return relay.var("r", relay.RefType(relay.TensorType(shape)))


def generic(given: Any) -> Any:
    """A call of fn[t](t, Tensor[(1,)]) -> t."""
    kind = relay.TypeVar("t")
    p, q = relay.var("p", kind), relay.var("q", shape=(1,))
    module = IRModule({"g": relay.Function([p, q], p, kind, [kind])})
    call = relay.Call(relay.GlobalVar("g"), [x, given])
    return module.with_functions({relay.GlobalVar("main"): relay.Function([x, given], call)})


def chosen(*fields: Any) -> Any:
    """An `if` between two parameters."""
    return typed(relay.Function([flag, *fields], relay.If(flag, *fields)))["main"].ret_type


@pytest.mark.parametrize(
    ("type_", "wanted"),
    [
        (
            lambda: passes.InferType()(generic(relay.var("w", shape=(1,))))["main"].ret_type,
            "Tensor[(2, 3), float32]",
        ),
        (lambda: chosen(of_ref(2), of_ref(2)), "ref(Tensor[(2), float32])"),
        (
            lambda: (
                typed(
                    relay.nn.bias_add(
                        relay.var("d", shape=(1, relay.Any())), relay.var("b", shape=(3,))
                    )
                )["main"].ret_type
            ),
            "Tensor[(1, ?), float32]",
        ),
        (  # the extents of the offsets are not known
            lambda: (
                typed(
                    relay.nn.deformable_conv2d(
                        tall, relay.var("o"), relay.var("w"), channels=2, kernel_size=(3, 3)
                    )
                )["main"].ret_type
            ),
            "_",
        ),
    ],
)
def test_types(type_: Callable[[], Any], wanted: str) -> None:
    assert str(type_()) == wanted


@pytest.mark.parametrize(
    "call",
    [
        lambda d, w: relay.nn.prelu(d, w),
        lambda d, w: relay.nn.conv2d(d, w, channels=3, kernel_size=(3, 3), padding=(1, 1)),
        lambda d, w: relay.nn.nll_loss(d, relay.var("t", shape=(1, 8, 8), dtype="int32"), w),
    ],
)
def test_the_type_of_a_weight_follows_that_of_a_bound_value(call: Any) -> None:
    w = relay.var("w")
    bound = typed(relay.Let(v, image, call(v, w)))["main"]
    direct = typed(call(image, relay.var("w")))["main"]
    assert bound.ret_type == direct.ret_type
    assert [p.checked_type for p in bound.params if p.name_hint == "w"] == [
        p.checked_type for p in direct.params if p.name_hint == "w"
    ]


def registered(name: str, *rule: Any) -> Any:
    registering.register(name)
    op = relay.op.get(name)
    for given in rule:
        op.add_type_rel("rule", given)
    return op


@cache
def calls_of_own(rule: bool) -> Any:
    op = registered(f"own.rare{rule}", *[lambda types, attrs: types[0]] * rule)
    return relay.Call(op, [x])


def kernels_of_own() -> Any:
    op = calls_of_own(True).op
    args = [te.placeholder((2, 3))]
    return get_valid_implementations(op, None, args, relay.TensorType((2, 3)), "llvm")


def call_of_a_kernel() -> Any:
    A = te.placeholder((2, 3), name="A")
    kernel = te.create_prim_func([A, te.compute((2, 3), lambda i, j: A[i, j] + 1)])
    called = relay.Function([x], relay.Call(relay.GlobalVar("g"), [x]))
    return to_relax(IRModule({"g": kernel, "main": called}))


REFUSED: dict[str, Callable[[], Any]] = {
    r"unable to unify: `ref\(Tensor\[\(2\)": lambda: chosen(of_ref(2), of_ref(3)),
    r"Tensor\[\(1\), float32\] are not the same: 2 against 1": lambda: passes.InferType()(
        generic(relay.var("w", shape=(2,)))
    ),
    "the operator own.rareFalse has no type rule\n  instead: relay.op.get": lambda: typed(
        calls_of_own(False)
    ),
    "the operator own.rareTrue has no meaning in Relax\n  got: own.rareTrue": lambda: run(
        calls_of_own(True), a
    ),
    r"no implementation of own.rareTrue fits\n  got: Tensor\[\(2, 3\), float32\]": kernels_of_own,
    "has no function of this name\n  got: @g": lambda: typed(relay.Call(relay.GlobalVar("g"), [x])),
    "dyn.topk: unknown ret_type\n  got: 'no'\n": lambda: typed(
        relay.topk(x, relay.var("k", shape=(), dtype="int64"), ret_type="no")
    ),
    r"only a function can be called\n  got: .*\"g\"": call_of_a_kernel,
    "an extent or axis is a number\n  got: 'k'": lambda: relay.reshape(x, (1, "k")),
    "no usual layout of the weight for data of layout NCHW4c": lambda: passes.ConvertLayout(
        {"nn.conv2d": ["NCHW4c", "default"]}
    )(typed(relay.nn.conv2d(image, relay.var("w", shape=(4, 3, 3, 3))))),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    with pytest.raises((ValueError, RuntimeError), match=message):
        REFUSED[message]()


@pytest.mark.parametrize(
    ("body", "args", "wanted"),
    [
        (lambda: relay.strided_set(x, row, first, relay.const([1])), [a], [[0, 0, 0], [3, 4, 5]]),
        (
            lambda: relay.strided_set(x, row, first, relay.const([1]), relay.const([1])),
            [a],
            [[0, 0, 0], [3, 4, 5]],
        ),
        (  # row 0 has 2.0 in column 1: parts as an object with the names of scipy's matrices
            lambda: relay.nn.sparse_dense(
                x,
                SimpleNamespace(
                    data=relay.const([2.0]), indices=relay.const([1]), indptr=relay.const([0, 1])
                ),
            ),
            [a],
            2 * a[:, 1:2],
        ),
        (
            lambda: relay.nn.upsampling3d(
                relay.var("p", shape=(1, 1, 1, 1, 2)),
                2,
                1,
                2,
                coordinate_transformation_mode="asymmetric",
            ),
            [np.array([[[[[3, 4]]]]], "float32")],
            [[[[[3, 3, 4, 4]], [[3, 3, 4, 4]]]]],
        ),
        (lambda: relay.shape_of(relay.var("n", shape=(relay.Any(), 3))), [a], [2, 3]),
        (lambda: relay.ndarray_size(relay.var("n", shape=(relay.Any(), 3))), [a], 6),
        (lambda: relay.random.threefry_key(3), [], None),
        (lambda: relay.exp(relay.split(x, 1, 0)[0]), [a], np.exp(a)),
    ],
)
def test_what_is_computed(body: Callable[[], Any], args: list[Any], wanted: Any) -> None:
    found = run(body(), *args).numpy()
    if wanted is None:  # a key begins with its seed
        assert found[0] == 3 and found.shape == (10,) and found.dtype == "uint64"
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def quadratic(other: Any, factor: float) -> Any:
    """x x + factor x other + 2 other other."""
    mixed = relay.multiply(relay.const(factor), relay.multiply(x, other))
    square = relay.multiply(relay.const(2.0), relay.multiply(other, other))
    return relay.add(relay.add(relay.multiply(x, x), mixed), square)


def atrous(pad: int) -> Any:
    data = relay.var("data", shape=(1, 8, 8, 3))
    taps = relay.var("taps", shape=(3, 3, 3, 4))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    there = relay.nn.space_to_batch_nd(data, [2, 2], [[pad, pad]] * 2)
    conv = relay.nn.conv2d(there, taps, **layouts)
    left = (pad - 1,) * 4
    direct = relay.nn.conv2d(data, taps, padding=left, dilation=(2, 2), **layouts)
    back = relay.nn.batch_to_space_nd(conv, [2, 2], [[1, 1]] * 2)
    return back, direct if pad else back


def weighed(layout: str) -> Any:
    grad = relay.var("grad", shape=(1, 4, 6, 6))
    moved = [relay.layout_transform(t, "NCHW", layout) for t in (grad, image)]
    options: dict[str, Any] = {"kernel_size": (3, 3), "channels": 4}
    layouts = {"grad_layout": layout, "data_layout": layout, "kernel_layout": "HWIO"}
    conv = relay.op.nn.conv2d_backward_weight
    new = relay.layout_transform(conv(*moved, **options, **layouts), "HWIO", "OIHW")
    return conv(grad, image, **options), new


PASSES: list[tuple[Any, Callable[[], tuple[Any, Any]]]] = [
    (passes.SimplifyExpr(), lambda: (relay.multiply(flag, relay.ones((), "bool")), flag)),
    (
        passes.SimplifyExpr(),
        lambda: (relay.multiply(truths, relay.full(relay.const(True), (2, 3), "bool")), truths),
    ),
    (passes.SimplifyExpr(), lambda: (relay.add(truths, relay.zeros((2, 3), "bool")), truths)),
    (
        passes.SimplifyExpr(),
        lambda: (
            quadratic(y, 3.0),
            relay.multiply(relay.add(x, relay.multiply(y, relay.const(2.0))), relay.add(x, y)),
        ),
    ),
    (passes.SimplifyExpr(), lambda: (quadratic(y, 2.5),) * 2),  # no real factors
    (passes.SimplifyExpr(), lambda: (quadratic(line, 3.0),) * 2),  # the factors are broadcast
    (passes.FlattenAtrousConv(), lambda: atrous(2)),
    (passes.FlattenAtrousConv(), lambda: atrous(1)),
    (passes.FlattenAtrousConv(), lambda: atrous(0)),
    (
        passes.ConvertLayout({"nn.conv2d_backward_weight": ["NHWC", "default"]}),
        lambda: weighed("NHWC"),
    ),
    (
        passes.ConvertLayout(
            {"nn.conv2d": ["NCHW4c", "OIHW4i4o"]}
        ),  # 3 channels are no blocks of 4
        lambda: (relay.nn.conv2d(image, relay.var("w", shape=(4, 3, 3, 3))),) * 2,
    ),
    (
        passes.ToGraphNormalForm(),
        lambda: (relay.Tuple([exp, relay.Let(v, exp, v + v)]), relay.Tuple([exp, exp + exp])),
    ),
    (
        passes.AnnotateTarget("rare"),
        lambda: (
            relay.If(flag, relay.exp(x), x),
            relay.If(flag, end(relay.exp(begin(x, "default")), "default"), x),
        ),
    ),
]


@pytest.mark.parametrize("case", range(len(PASSES)))
def test_passes(case: int) -> None:
    step, programs = PASSES[case]
    given, wanted = map(typed, programs())
    assert_structural_equal(step(given)["main"], wanted["main"])


def test_alike_calls_that_are_skipped() -> None:
    pairs = relay.Tuple([relay.exp(x), relay.exp(x), relay.tanh(x), relay.tanh(x)])
    step = passes.EliminateCommonSubexpr(lambda call: call.op.name == "exp")
    made = step(typed(pairs))["main"].body.fields
    assert made[0] is not made[1] and made[2] is made[3]


def test_a_value_bound_behind_its_first_use() -> None:
    body = relay.Tuple([exp, relay.Let(v, exp, v + v)])
    func = passes.ToANormalForm()(typed(body))["main"]
    exps = [n for n in nodes_of(func) if isinstance(n, relay.Call) and n.op.name == "exp"]
    assert len(exps) == 1
    one, two = relay.create_executor("debug").evaluate(func)(a)
    np.testing.assert_allclose(two.numpy(), 2 * one.numpy())


def nodes_of(func: Any) -> list[Any]:
    found: list[Any] = []
    analysis.post_order_visit(func, found.append)
    return found


def test_functions_and_their_names() -> None:
    p = relay.var("p", shape=(2, 3))
    names = {"Compiler": "rare", "global_symbol": "main"}
    inner = relay.Function([p], relay.exp(p)).with_attrs(names)
    module = lifted(IRModule.from_expr(relay.Function([x], relay.Call(inner, [x]))))
    assert sorted(g.name_hint for g in module.functions) == ["main", "main_"]
    assert module["main"].body.op.name_hint == "main_"
    primitive = relay.Function([x], exp).with_attr("Primitive", 1)
    kept = typed(primitive)
    assert passes.FuseOps()(kept)["main"] is kept["main"]
    g = relay.GlobalVar("g")
    twice = relay.Call(g, [relay.Call(relay.GlobalVar("g"), [x])])
    extern = {"g": relay.Function([x], exp), "h": primitive, "main": relay.Function([x], twice)}
    used = passes.RemoveUnusedFunctions(["main", "absent"])(IRModule(extern))
    assert [n.name_hint for n in used.functions] == ["g", "main"]
    assert str(passes.InferType()(used)["main"].ret_type) == "Tensor[(2, 3), float32]"


def test_kernels_beside_functions() -> None:
    A = te.placeholder((2, 3), name="A")
    kernel = te.create_prim_func([A, te.compute((2, 3), lambda i, j: A[i, j] + 1)])
    g = relay.GlobalVar("g")
    module = IRModule({"g": kernel, "main": relay.Function([x], exp)})
    assert to_relax(module)["g"].same_as(kernel)
    calls = IRModule({"g": kernel, "main": relay.Function([x], relay.Call(g, [x]))})
    assert isinstance(passes.InferType()(calls)["main"].ret_type, relay.ty.IncompleteType)


def test_questions() -> None:
    unused = relay.Let(v, exp, relay.Let(relay.var("w"), exp, relay.Let(relay.var("u"), exp, y)))
    assert Flow(unused).of(exp).parent is None
    type_ = relay.TensorType((2,))
    assert ExprFunctor().visit_type(type_) is type_
    ops = [relay.op.get(f"annotation.compiler_{n}") for n in ("begin", "end")]
    inside = begin(x, "c")
    called = relay.exp(inside)
    (region,) = regions = AnnotatedRegionSet(end(called, "c"), *ops)
    assert region.nodes[:2] == [inside, called] and region.args == [inside]
    regions.merge(region, region)
    assert list(regions) == [region]
    func = relay.Function([x], exp)
    pattern = FunctionPattern([wildcard()], is_op("exp")(wildcard()))
    assert pattern.match(func) and pattern.partition(func) is func
    called = relay.copy(relay.split(x, 2, 0))  # a wrapped tuple as one argument
    assert called.args[0].op.name == "split"


def test_networks_and_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vgg, "create_workload", lambda net: net)
    plain = vgg.get_net(2, (3, 224, 224), 1000, "float32", 11, False)
    assert_structural_equal(vgg.get_workload(2), plain, map_free_vars=True)
    assert rand("int8", 2, 3).shape == (2, 3) and rand("int8", 1).dtype == "int8"
    volume = relay.var("volume", shape=(1, 1, 3, 3, 3))
    conv = layers.conv3d(volume, name="c", channels=2, kernel_size=(3, 3, 3))
    assert [p.name_hint for p in analysis.free_vars(conv)] == ["volume", "c_weight"]


def test_compilers_step_by_step() -> None:
    compiler = VMCompiler()
    assert compiler.get_params() == {}
    module = IRModule.from_expr(relay.Function([x, y], relay.add(x, y)))
    made, params = compiler.optimize(module, "llvm", params={"y": a})
    assert len(made["main"].params) == 1
    assert params is compiler.get_params() and list(params) == ["y"]


def test_numbers_of_numpy_as_attributes() -> None:
    assert "alpha=0.25f" in relay.astext(relay.nn.leaky_relu(x, np.float32(0.25)))
