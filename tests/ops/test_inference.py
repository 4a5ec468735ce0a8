"""What operators infer for unknown shapes, shapes given by variables and scalars; wrong calls."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, te, tir
from loopwright.ir.structural import assert_structural_equal
from loopwright.ops import OPERATORS, Tensor
from loopwright.ops import op as operator
from loopwright.relax import op
from loopwright.relax.struct_info import PrimStructInfo, ShapeStructInfo, TensorStructInfo
from loopwright.script import from_source

n, c, w = (tir.Var(name, "int64") for name in "ncw")
SIZE = relax.Var("s", ShapeStructInfo(ndim=2))


def var(*shape, dtype="float32", ndim=-1):
    return relax.Var("x", TensorStructInfo(shape or None, dtype, ndim=ndim))


def tensor(*shape, dtype="float32", ndim=-1):
    return TensorStructInfo(shape or None, dtype, ndim=ndim)


def inferred(call):
    return relax.BlockBuilder().normalize(call).struct_info


SCALAR = TensorStructInfo([], "float32")
PLACED, NUMBER = relax.Var("x", TensorStructInfo(SIZE, "float32")), relax.Var("x", SCALAR)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (op.sum(var()), SCALAR),
        (op.mean(var(ndim=2), axis=None, keepdims=True), tensor(1, 1)),
        (op.sum(var(), axis=None, keepdims=True), tensor()),
        (op.sum(var(), axis=0), tensor()),
        (op.sum(var(ndim=3), axis=[0, 2]), tensor(ndim=1)),
        (op.sum(var(ndim=3), axis=1, keepdims=True), tensor(ndim=3)),
        (op.sum(var(2, n, 4), axis=[-1, 0]), tensor(n)),
        (op.add(var(ndim=2), var(ndim=3)), tensor(ndim=3)),
        (op.nn.pack_channels(var(ndim=2), 4), tensor(ndim=3)),
        (op.nn.pack_channels(var(), 4), tensor()),
        (op.add(var(ndim=2), var(3)), tensor(ndim=2)),
        (op.add(var(), var(3)), tensor()),
        (op.add(PLACED, PLACED), TensorStructInfo(SIZE, "float32")),
        (op.add(PLACED, NUMBER), TensorStructInfo(SIZE, "float32")),
        (op.add(NUMBER, PLACED), TensorStructInfo(SIZE, "float32")),
        (op.add(PLACED, var(ndim=2)), tensor(ndim=2)),
        (op.add(NUMBER, NUMBER), SCALAR),
        (op.add(var(n, 1), var(n, c)), tensor(n, c)),
        (op.add(var(n), var(c)), tensor(ndim=1)),
        (op.add(var(n), var(3)), tensor(ndim=1)),
        (op.zeros(SIZE, "float32"), TensorStructInfo(SIZE, "float32")),
        (op.broadcast_to(var(1), SIZE), TensorStructInfo(SIZE, "float32")),
        (op.nn.leakyrelu(PLACED), TensorStructInfo(SIZE, "float32")),
        (op.strided_slice(PLACED, [], [], []), TensorStructInfo(SIZE, "float32")),
        (
            op.strided_slice(var(8), [0], [0], [8], [w], True),
            tensor(tir.const(7, "int64") // w + 1),
        ),
        (op.nn.max_pool1d(var()), tensor(ndim=3)),
        (op.nn.max_pool1d(var(2, 3, 8), out_layout="NWC"), tensor(2, 8, 3)),
        (op.nn.max_pool1d(var(n, c, w), 3, 3, 2, 2), tensor(n, c, (w - 1) // 3 + 1)),
        (op.nn.max_pool1d(var(n, c, w), 3, 2, 1, 2, True), tensor(n, c, w // 2)),
        (op.nn.layer_norm(var(n, c), var(w), var(w), -1), tensor(ndim=2)),
        (op.take(var(4, 10, dtype="int8"), var(6, dtype=""), 1), tensor(4, 6, dtype="int8")),
        (op.add(var(2, 3), relax.PrimValue(tir.const(1, "float32"))), tensor(2, 3)),
        (op.topk(var(2, 4), k=6, ret_type="values"), tensor(2, 4)),
        (op.dynamic_strided_slice(var(2), *[var(1, dtype="int64")] * 3), tensor(ndim=1)),
        (op.flatten(var()), tensor(ndim=1)),
        (op.repeat(var(), 2), tensor(ndim=1)),
        (op.tile(var(), [2, 2]), tensor()),
        (op.gather_nd(var(2, 3), var(4, 2, dtype="")), tensor(4)),
        (op.gather_nd(var(2, 3), var(4, n, dtype="int64")), tensor()),  # n decides the rank
        (op.less(var(2, 3), var(2, 3, dtype="int32")), tensor(2, 3, dtype="bool")),
        (op.split(var(n, 4), 1), tensor(n, 4)),
        (op.split(var(n, 4), [], 1), tensor(n, 4)),
        (
            op.split(var(n + 5), [2, 5]),
            relax.TupleStructInfo([tensor(2), tensor(3), tensor(n)]),
        ),
        (op.strided_slice(var(n), [0], [1], [3]), tensor(tir.min(3, n) - tir.min(1, n))),
        (op.nn.conv1d(var(n, 3, w), var(4, 3, c)), tensor(n, 4, w + 1 - c)),
        (
            op.nn.conv2d_transpose(var(2, 8, 8, 3), var(3, 5, 3, 3), data_layout="NHWC"),
            tensor(2, 10, 10, 5),
        ),
        (
            op.nn.conv1d_transpose(var(2, 3, 8), var(3, 6, 3), out_layout="NCW4c"),
            tensor(2, 2, 10, 4),
        ),
        (op.full(SIZE, NUMBER), TensorStructInfo(SIZE, "float32")),
        (op.arange(0, relax.Var("m", PrimStructInfo("int64"))), tensor(ndim=1, dtype="int64")),
        (op.arange(n, 0, -3), tensor(tir.max(n // -3 * -1, 0), dtype="int64")),
        (op.arange(0, n, w), tensor(tir.max((0 - n) // w * -1, 0), dtype="int64")),
        (op.eye(relax.Var("m", PrimStructInfo("int64"))), tensor(ndim=2)),
        (op.eye(3, relax.Var("m", PrimStructInfo("int64"))), tensor(ndim=2)),
        (
            op.hamming_window(relax.Var("m", PrimStructInfo("int64")), True, 0.5, 0.5, "float32"),
            tensor(ndim=1),
        ),
        (op.stack([var(), var()]), tensor()),
        (op.stack([var(), var(ndim=2)]), tensor(ndim=3)),
        (op.stack([var(3), var(ndim=1)], 1), tensor(ndim=2)),
        (op.stack([var(3), var(3, dtype="")]), tensor(2, 3, dtype="")),
        (op.meshgrid([var(3), var(ndim=1)]), relax.TupleStructInfo([tensor(ndim=2)] * 2)),
        (op.meshgrid([var(3), var(4)], "xy"), relax.TupleStructInfo([tensor(4, 3)] * 2)),
        (op.matmul(var(), var(2, 3)), tensor()),
        (op.matmul(var(ndim=3), var(2, 3)), tensor(ndim=3)),
        (op.matmul(var(3), var(ndim=4)), tensor(ndim=3)),
        (op.matmul(var(2, 3), var(ndim=1)), tensor(ndim=1)),
        (op.matmul(var(n, 2, 3), var(c, 3, 2)), tensor(ndim=3)),
        (op.matmul(var(n, 2, 3), var(1, 3, 2)), tensor(n, 2, 2)),
        (op.einsum([var(), var(2, 3)], "ij,jk->ik"), tensor()),
        (op.einsum([var(ndim=2), var(2, 3)], "ij,jk->ik"), tensor(ndim=2)),
        (op.einsum([var(2, 1), var(n, 3)], "ij,jk->ik"), tensor(2, 3)),
        (op.collapse_sum_to(var(4, 2, 3), SIZE), TensorStructInfo(SIZE, "float32")),
        (op.reshape(var(2, 3), 6), tensor(6)),
        (op.reshape(var(2, 3), n), tensor(n)),
        (op.add(1, var(2, dtype="float16")), tensor(2, dtype="float16")),
        (op.add(var(2, dtype=""), 1), tensor(2, dtype="")),
        (op.power(2.5, var(2)), tensor(2)),
    ],
    ids=lambda value: value.op.name if isinstance(value, relax.Call) else "",
)
def test_inferred(call, expected):
    assert_structural_equal(inferred(call), expected)


VECTOR = var(3)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: op.full([2], VECTOR), "fill_value must be a 0-d tensor"),
        (lambda: op.exp([VECTOR]), "argument x must be a Relax expression\n  got: list"),
        (lambda: op.zeros(4, "float32"), "argument shape must be a Relax expression"),
        (lambda: op.ones([2], ""), "needs a dtype"),
        (lambda: op.tril(VECTOR), "two axes or more"),
        (lambda: op.mean(var(2, 3), axis=[1, -1]), "an axis is named twice"),
        (lambda: op.take(var(2, 3), var(2, dtype="int64")), "without an axis"),
        (lambda: op.take(VECTOR, var(2), 0), "indices must be integers"),
        (lambda: op.strided_slice(VECTOR, [0], [], [1]), "must have one length"),
        (lambda: op.strided_slice(var(8), [0], [0], [8], [w]), "the stride of a slice is a number"),
        (lambda: op.where(VECTOR, VECTOR, VECTOR), "tensor of bool"),
        (lambda: op.nn.max_pool2d(var(2, 3, 4)), "has 4 axes"),
        (lambda: op.nn.max_pool2d(var(2, 3, 4, 4), layout="OIHW"), "layout of other axes"),
        (lambda: op.nn.layer_norm(var(2, 3), var(3), var(4), -1), "beta does not fit"),
        (lambda: op.nn.layer_norm(var(2, 3), var(3, 1), VECTOR, -1), "one axis for each"),
        (
            lambda: op.nn.group_norm(var(2, 4, 3), var(4), var(4, dtype="float16"), 2, 1, [2]),
            "beta of float16",
        ),
    ],
)
def test_wrong_calls_are_errors_of_both_kinds(build, text):
    with pytest.raises(lw.TVMError, match=text) as caught:
        inferred(build())
    assert isinstance(caught.value, (ValueError, TypeError))


def test_a_scalar_parameter_as_an_operand():
    x, y = var(n, 3), relax.Var("y", PrimStructInfo("float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, y]):
        bb.emit_func_output(bb.emit(op.subtract(x, y)))
    array = np.arange(6, dtype="float32").reshape(2, 3)
    kernel = relax.transform.LegalizeOps()(bb.get())["subtract"]
    assert len(kernel.params) == 3 and len(kernel.buffer_map) == 2
    for stage in (bb.get(), relax.transform.LegalizeOps()(bb.get())):
        got = relax.interpreter.Interpreter(stage)["main"](array, 1.5)
        np.testing.assert_array_equal(got.numpy(), array - np.float32(1.5))


def test_what_is_filled_like_a_tensor_does_not_read_it():
    x = var(2, 3)
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(op.ones_like(x)))
    lowered = relax.transform.LegalizeOps()(bb.get())
    assert len(lowered["ones"].params) == 1


def test_shapes_and_scalars_have_no_gradient():
    """The mark is put on them too; a rule may leave out those at the end."""
    bb = relax.BlockBuilder()
    out, g = relax.Var("y", tensor(3, 3)), relax.Var("g", tensor(3, 3))
    call = op.broadcast_to(var(1, 3), relax.ShapeExpr([3, 3]))
    grads = call.op.get_attr("FPrimalGradient")(out, call, g, bb)
    assert_structural_equal(inferred(grads[1]), call.args[1].struct_info)
    call = op.triu(var(3, 3), 1)
    assert len(call.op.get_attr("FPrimalGradient")(out, call, g, bb)) == 1


def test_mixed_precision_policies():
    policy = lambda name: relax.op.base.Op.get(name).get_attr("TMixedPrecisionPolicy")  # noqa: E731
    assert [policy(f"relax.{k}") for k in ("matmul", "add", "nn.softmax")] == [0, 1, 2]
    call = op.matmul(var(2, 3), var(3, 4))
    shorter = call.op.get_attr("FInferMixedPrecision")(call, "float16")
    assert str(inferred(shorter).dtype) == "float16"


def test_the_dtype_is_known_where_the_rank_is_not():
    for call in (op.flatten(var()), op.tile(var(), [2]), op.expand_dims(var(), [0])):
        assert str(inferred(call).dtype) == "float32"


def test_operators_of_scalars_give_scalars():
    one = relax.PrimValue(tir.const(1, "float32"))
    assert_structural_equal(inferred(op.less(one, one)), PrimStructInfo("bool"))


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: op.squeeze(var(ndim=2), [2]), "out of range"),
        (lambda: op.split(var(ndim=2), 2, axis=2), "out of range"),
        (lambda: op.concat([var(ndim=2)], axis=2), "out of range"),
        (lambda: op.concat([]), "at least one tensor"),
        (lambda: op.gather_elements(var(2), var(2)), "must be integers"),
        (lambda: op.nn.conv1d(var(1, 2, 4), var(3, 2, 1, dtype="float16")), "different dtypes"),
    ],
)
def test_axes_are_checked_without_shapes(build, text):
    with pytest.raises(lw.TVMError, match=text):
        inferred(build())


def test_axis_separators_of_a_layout():
    """Those given count, else those that the function of indices names."""
    separator = tir.IndexMap.AXIS_SEPARATOR
    for given, wanted in ((None, [2]), ([1], [1])):
        call = op.layout_transform(
            var(4, 4), lambda i, j: (i // 2, i % 2, separator, j), axis_separators=given
        )
        assert list(call.attrs.axis_separators) == wanted


def test_the_extent_of_a_window_over_a_quotient_is_a_quotient():
    n = tir.Var("n", "int64")
    half = tir.floordiv(n + 1, tir.const(2, "int64"))
    info = inferred(op.nn.conv2d(var(1, 1, half, 8), var(1, 1, 3, 3), strides=2, padding=1))
    assert str(info.shape.values[2]) == "(n + T.int64(3)) // T.int64(4)"


def test_pieces_that_end_before_they_start_are_empty():
    x = relax.Var("x", TensorStructInfo((10,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(op.split(x, [-2, 2, 6, 4, 12, 9])))
    data = np.arange(10, dtype="float32")
    got = [t.numpy() for t in lw.compile(bb.get())["main"](data)]
    wanted = [data[0:0], data[0:2], data[2:6], data[6:6], data[4:10], data[10:10], data[9:10]]
    infos = bb.get()["main"].ret_struct_info.fields
    for piece, expected, info in zip(got, wanted, infos, strict=True):
        np.testing.assert_array_equal(piece, expected)
        assert [int(d) for d in info.shape] == list(expected.shape)


def test_a_checkpoint_marks_one_computed_value():
    x = relax.Var("x", TensorStructInfo((2,), "float32"))
    for mark in (op.grad.start_checkpoint, op.grad.end_checkpoint):
        for value in ((x, x), relax.const(1.0)):
            with pytest.raises(TypeError, match="marks one value that is computed"):
                mark(value)
    assert op.grad.no_grad(relax.const(1.0)).args


def own(body):
    """What is inferred of a tensor by an operator of that body."""

    def infer(info):
        with OPERATORS.snapshot():
            made = operator("testinfer.own")(body)
        return inferred(made.builder(relax.Var("x", info)))

    return infer


@pytest.mark.parametrize(
    ("taken", "result", "expected"),
    [
        (("float32", "float64"), None, ""),
        (("float32", "float64"), "bool", "bool"),
        (("int64",), "bool", ""),  # that of one type may be another one's too
        (("int32", "int64"), "int8", "int8"),
    ],
)
def test_an_unknown_dtype_stands_for_those_that_a_body_takes(taken, result, expected):
    def body(x: Tensor):
        if x.dtype not in taken:
            raise TypeError(f"not {x.dtype}")
        return te.compute(x.shape, lambda *i: x(*i).astype(result or x.dtype), "f")

    assert_structural_equal(own(body)(tensor(3, dtype="")), tensor(3, dtype=expected))


def test_a_body_that_takes_no_dtype():
    def body(x: Tensor):
        raise TypeError(f"not {x.dtype}")

    with pytest.raises(TypeError, match="not int64"):
        own(body)(tensor(3, dtype=""))


@pytest.mark.parametrize(
    ("ranks", "dtype", "expected"),
    [
        ((1,), "float32", tensor(ndim=1)),
        ((6,), "float32", tensor(ndim=6)),
        ((6,), "", tensor(ndim=6, dtype="")),
        ((2, 3), "float32", tensor()),
        ((7,), "float32", tensor(dtype="")),
    ],
)
def test_an_unknown_rank_stands_for_those_that_a_body_takes(ranks, dtype, expected):
    def body(x: Tensor):
        if len(x.shape) not in ranks:
            raise ValueError("another rank")
        return te.compute(x.shape, lambda *i: x(*i), "f")

    assert_structural_equal(own(body)(tensor(dtype=dtype)), expected)


def test_sizes_of_the_scope_are_not_negative() -> None:
    """As many numbers as a tensor has rows; a scalar may be negative."""
    mod = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n",), "int64"), k: R.Prim(value="k")):
        n, k = T.int64(), T.int64()
        with R.dataflow():
            a = R.arange(0, R.prim_value(n), 1)
            b = R.add(a, x)
            c = R.arange(0, R.prim_value(k), 1)
            d = R.arange(3, R.prim_value(n), 2)
            R.output(b, c, d)
        return b, c, d
""")
    shapes = [str(info.shape.values[0]) for info in mod["main"].ret_struct_info.fields]
    assert shapes[:2] == ["n", "T.max(k, T.int64(0))"]
    exe = lw.compile(mod)
    for n, k in ((0, -2), (2, 0), (6, 3)):
        results = [r.numpy() for r in exe["main"](np.arange(n), k)]
        want = [np.arange(n) * 2, np.arange(max(k, 0)), np.arange(3, n, 2)]
        for got, wanted in zip(results, want, strict=True):
            np.testing.assert_array_equal(got, wanted)
