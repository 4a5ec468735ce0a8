"""AnnotateTIROpPattern, FuseOps, FuseTIR: what is fused, and that it computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax, tir
from loopwright.base.span import Span
from loopwright.ir import trace
from loopwright.ir.functor import post_order_visit
from loopwright.ir.module import IRModule
from loopwright.ir.prim_expr import IntImm
from loopwright.ir.structural import assert_structural_equal
from loopwright.ir.transform import PassContext
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import AnnotateTIROpPattern, FuseOps, FuseTIR, LegalizeOps
from loopwright.script import from_source
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T

from .graphs import FUSE, check_fusion, graph, kernels, primitives, values

ONE = relax.const(1.0, "float32")
n = tir.Var("n", "int64")

# (what it computes, shapes of the inputs, kernels after fusion)
GRAPHS = {
    "chain": (
        lambda e, x: e(op.squeeze(e(op.exp(e(op.add(x, ONE)))))),
        [(4, 5)],
        ["fused_add_tir_exp_squeeze"],
    ),
    "conv_epilogue": (
        lambda e, x, w, b: e(op.nn.relu(e(op.add(e(op.nn.conv2d(x, w, padding=1)), b)))),
        [(1, 2, 4, 4), (3, 2, 3, 3), (1, 3, 1, 1)],
        ["fused_conv2d_add_relu"],
    ),
    "softmax_cast": (
        lambda e, x: e(op.astype(e(op.nn.softmax(x)), "float64")),
        [(2, 5)],
        ["fused_softmax_cast"],
    ),
    "layer_norm_relu": (
        lambda e, x, g, b: e(op.nn.relu(e(op.nn.layer_norm(x, g, b, axes=[-1])))),
        [(2, 6), (6,), (6,)],
        ["fused_layer_norm_relu"],
    ),
    "matmul_stays_out_of_reshape": (
        lambda e, x, w: e(op.reshape(e(op.nn.relu(e(op.matmul(x, w)))), (6,))),
        [(2, 4), (4, 3)],
        ["fused_matmul_relu", "reshape"],
    ),
    "reduction_ends_a_chain": (
        lambda e, x: e(op.negative(e(op.sqrt(e(op.sum(e(op.exp(x)), axis=[1])))))),
        [(3, 4)],
        ["fused_tir_exp_sum", "fused_tir_sqrt_tir_negative"],
    ),
    "tuple_fields": (
        lambda e, x: _gate(e, x),
        [(2, 6)],
        ["fused_split_tir_sigmoid_tir_tanh_multiply"],
    ),
    "parallel_injective": (
        lambda e, x: _twice_transposed(e, x),
        [(3, 3)],
        ["fused_add_transpose_transpose_add1"],
    ),
    "concat_of_injective": (
        lambda e, x, y: e(op.exp(e(op.concat([e(op.repeat(x, 2, 1)), y], axis=1)))),
        [(2, 3), (2, 4)],
        ["fused_repeat_concatenate_tir_exp"],
    ),
    # Both axes of an image are interpolated: each of the second takes would repeat the first two.
    "gathers_along_memory": (
        lambda e, x: _interpolated(e, _interpolated(e, x, 2), 1),
        [(2, 3, 3)],
        ["fused_take1_take1_add1", "fused_take_take_add"],
    ),
    "gathers_of_rows": (
        lambda e, x: _interpolated(e, _interpolated(e, x, 1), 0),
        [(3, 3, 2)],
        ["fused_take_take_add_take1_take1_add1"],
    ),
    "symbolic": (
        lambda e, x, y: e(op.nn.relu(e(op.add(e(op.exp(x)), y)))),
        [(n, 4), (n, 4)],
        ["fused_tir_exp_add_relu"],
    ),
}


def _interpolated(e, x, axis):
    taps = (relax.const(np.array(at, np.int64)) for at in ([0, 0, 1, 2], [1, 2, 2, 0]))
    return e(op.add(*(e(op.take(x, at, axis)) for at in taps)))


def _gate(e, x):
    parts = e(op.split(x, 2, axis=1))
    a, b = e(relax.TupleGetItem(parts, 0)), e(relax.TupleGetItem(parts, 1))
    return e(op.multiply(e(op.sigmoid(a)), e(op.tanh(b))))


def _twice_transposed(e, x):
    y = e(op.add(x, ONE))
    return e(op.add(e(op.permute_dims(y)), e(op.permute_dims(y))))


@pytest.mark.parametrize("name", GRAPHS)
def test_graph(name):
    build, shapes, expected = GRAPHS[name]
    mod = graph(build, *shapes)
    sizes = [tuple(3 if d is n else d for d in s) for s in shapes]
    assert kernels(check_fusion(mod, *values(*sizes))) == expected


def test_diamond_of_convolutions():
    def build(e, x, w1, w2):
        y = e(op.nn.conv2d(x, w1, padding=1))
        y = e(op.add(e(op.add(y, ONE)), y))
        return e(op.add(e(op.nn.conv2d(y, w2)), e(op.nn.conv2d(y, w1, padding=1))))

    shapes = [(1, 2, 4, 4), (2, 2, 3, 3), (2, 2, 1, 1)]
    mod = check_fusion(graph(build, *shapes), *values(*shapes), rtol=1e-4)
    assert kernels(mod) == ["conv2d", "fused_conv2d1_add1", "fused_conv2d_add_add1"]


def test_level_zero_fuses_nothing():
    mod = AnnotateTIROpPattern()(LegalizeOps()(graph(GRAPHS["chain"][0], (4, 5))))
    assert FuseOps(0)(mod) is mod
    with PassContext(opt_level=0):
        assert FuseOps()(mod) is mod


def test_without_annotation_nothing_is_fused():
    mod = LegalizeOps()(graph(GRAPHS["chain"][0], (4, 5)))
    assert_structural_equal(FuseOps()(mod), mod)


def test_depth_is_bounded():
    def build(e, x):
        for _ in range(6):
            x = e(op.exp(x))
        return x

    with PassContext(opt_level=2, config={"relax.FuseOps.max_depth": 3}):
        fused = FUSE(graph(build, (2,)))
    assert primitives(fused) == ["fused_tir_exp_tir_exp_tir_exp"]


def test_results_of_the_block_are_not_fused_away():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit_output(op.exp(x))
            b = bb.emit_output(op.negative(a))
        bb.emit_func_output(relax.Tuple([a, b]))
    mod = bb.finalize()
    assert kernels(check_fusion(mod, *values((4,)))) == ["tir_exp", "tir_negative"]


def test_constants_become_parameters():
    weight = relax.const(values((4,))[0])
    mod = FUSE(graph(lambda e, x: e(op.exp(e(op.add(x, weight)))), (3, 4)))
    (name,) = primitives(mod)
    assert len(mod[name].params) == 2
    call = mod["main"].body.blocks[0].bindings[0].value
    assert isinstance(call.args[1], relax.Constant)


def test_spans_are_merged():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            bb.span = Span("onnx:/a/Exp")
            y = bb.emit(op.exp(x))
            bb.span = Span("onnx:/b/Neg")
            y = bb.emit_output(op.negative(y))
        bb.emit_func_output(y)
    mod = FUSE(bb.finalize())
    assert str(mod["fused_tir_exp_tir_negative"].span) == "onnx:/a/Exp, onnx:/b/Neg"
    mod = FuseTIR()(mod)
    assert str(mod["fused_tir_exp_tir_negative"].span) == "onnx:/a/Exp, onnx:/b/Neg"
    call = mod["main"].body.blocks[0].bindings[0].value
    assert str(call.span) == "onnx:/a/Exp, onnx:/b/Neg"


def test_equal_groups_have_the_places_of_all():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            for name in "ab":
                bb.span = Span(f"onnx:/{name}/Exp")
                y = bb.emit(op.exp(x if name == "a" else y))
                bb.span = Span(f"onnx:/{name}/Matmul")
                y = bb.emit(op.cumsum(op.negative(y), 0))
            y = bb.emit_output(y)
        bb.emit_func_output(y)
    mod = FUSE(bb.finalize())
    func = mod["fused_tir_exp_tir_negative"]
    inner = [str(b.span) for b in func.body.blocks[0].bindings]
    assert inner == ["onnx:/a/Exp, onnx:/b/Exp", "onnx:/a/Matmul, onnx:/b/Matmul"]
    assert str(func.span) == ", ".join(f"onnx:/{n}/{o}" for n in "ab" for o in ("Exp", "Matmul"))


def test_reasons_are_noted():
    with trace.trace() as seen:
        FUSE(graph(GRAPHS["reduction_ends_a_chain"][0], (3, 4)))
    (note,) = seen.explain("sum", "fuse")
    assert note.facts["group"] == ["tir_exp", "sum"]
    assert "comm reduce" in note.facts["reason"]


@I.ir_module
class Dynamic:
    """Loops over n rows, called with another number of rows than the graph has."""

    @T.prim_func(private=True)
    def exp(x: T.handle, y: T.handle):
        T.func_attr({"op_pattern": 0})
        m = T.int64()
        X = T.match_buffer(x, (m, T.int64(2)))
        Y = T.match_buffer(y, (m, T.int64(2)))
        for i, j in T.grid(m, T.int64(2)):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.exp(X[vi, vj])

    @R.function
    def main(x: R.Tensor((3, 2), "float32")) -> R.Tensor((3, 2), "float32"):
        cls = Dynamic
        with R.dataflow():
            a = R.call_tir(cls.exp, (x,), out_sinfo=R.Tensor((3, 2), "float32"))
            b = R.call_tir(cls.exp, (a,), out_sinfo=R.Tensor((3, 2), "float32"))
            R.output(b)
        return b


def test_dynamic_loops_are_specialized():
    mod = FuseTIR()(FuseOps()(Dynamic))
    func = mod["fused_exp_exp"]
    assert [tuple(d.value for d in b.shape) for b in func.buffers] == [(3, 2), (3, 2)]
    names = [s.body.body.block.name_hint for s in func.body.block.body.seq]
    assert names == ["Y", "Y_1"]
    assert func.attrs.get("tir.noalias") and "op_pattern" not in func.attrs


@I.ir_module
class Scalars:
    """A size that no buffer tells is passed as a shape."""

    @T.prim_func(private=True)
    def fill(y: T.handle, k: T.int64):
        T.func_attr({"op_pattern": 0})
        m = T.int64()
        Y = T.match_buffer(y, (m,))
        for i in range(m):
            with T.block("Y"):
                vi = T.axis.spatial(m, i)
                Y[vi] = T.Cast("float32", k)

    @T.prim_func(private=True)
    def twice(x: T.handle, y: T.handle):
        T.func_attr({"op_pattern": 0})
        m = T.int64()
        X = T.match_buffer(x, (m,))
        Y = T.match_buffer(y, (m,))
        for i in range(m):
            with T.block("Y"):
                vi = T.axis.spatial(m, i)
                Y[vi] = X[vi] + X[vi]

    @R.function
    def main(s: R.Shape(["n"])) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        cls = Scalars
        with R.dataflow():
            a = R.call_tir(
                cls.fill, (), out_sinfo=R.Tensor((n,), "float32"), tir_vars=R.shape([n + 1])
            )
            b = R.call_tir(cls.twice, (a,), out_sinfo=R.Tensor((n,), "float32"))
            R.output(b)
        return b


def test_symbolic_values_are_passed_as_a_shape():
    fused = FuseOps()(Scalars)
    (name,) = primitives(fused)
    assert isinstance(fused[name].params[-1].struct_info, relax.ShapeStructInfo)
    mod = FuseTIR()(fused)
    assert str(mod[name].params[-1].dtype) == "int64"
    got = relax.interpreter.Interpreter(mod)["main"]((3,))
    assert got.numpy().tolist() == [8.0, 8.0, 8.0]


def test_same_buffer_read_twice():
    def build(e, x):
        y = e(op.exp(x))
        return e(op.multiply(y, y))

    mod = check_fusion(graph(build, (3, 2)), *values((3, 2)))
    reads = mod["fused_tir_exp_multiply"].body.block.body.seq[1].body.body.block.reads
    assert len(reads) == 1


def test_gather_with_two_results():
    def build(e, x):
        parts = e(op.split(e(op.exp(x)), 2, axis=0))
        return e(relax.Tuple([relax.TupleGetItem(parts, 1), relax.TupleGetItem(parts, 0)]))

    check_fusion(graph(build, (4, 2)), *values((4, 2)))


def test_fields_of_a_tuple_that_are_used_are_passed():
    three = relax.TupleStructInfo([relax.TensorStructInfo((2,), "float32")] * 3)

    def build(e, x, y):
        a, b = e(relax.TupleGetItem(x, 0)), e(relax.TupleGetItem(x, 2))
        return e(op.exp(e(op.add(e(op.multiply(a, b)), y))))

    mod = graph(build, three, (2,))
    fused = FUSE(mod)["fused_multiply_add_tir_exp"]
    assert [p.name_hint for p in fused.params] == ["x0_0", "x0_2", "x1"]
    assert len(fused.body.blocks[0].bindings) == 3
    a, b, c, y = values((2,), (2,), (2,), (2,))
    check_fusion(mod, (a, b, c), y)


@I.ir_module
class Nested:
    @T.prim_func(private=True)
    def add(
        x: T.Buffer((T.int64(2),), "float32"),
        y: T.Buffer((T.int64(2),), "float32"),
        z: T.Buffer((T.int64(2),), "float32"),
    ):
        for i in range(T.int64(2)):
            with T.block("z"):
                vi = T.axis.spatial(T.int64(2), i)
                z[vi] = x[vi] + y[vi]

    @R.function(private=True)
    def fused(
        p: R.Tuple(
            R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")), R.Tensor((2,), "float32")
        ),
    ):
        R.func_attr({"Primitive": True})
        cls = Nested
        with R.dataflow():
            q = p[0]
            a = q[1]
            b = p[1]
            c = R.call_tir(cls.add, (a, b), out_sinfo=R.Tensor((2,), "float32"))
            d = R.call_tir(cls.add, (c, b), out_sinfo=R.Tensor((2,), "float32"))
            o = (d, (c,))
            R.output(o)
        return o

    @R.function
    def main(
        x: R.Tensor((2,), "float32"),
        y: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32")),
    ):
        cls = Nested
        with R.dataflow():
            t = (y, x)
            r = cls.fused(t)
            R.output(r)
        return r


def test_nested_tuples():
    mod = FuseTIR()(Nested)
    assert len(mod["fused"].params) == 4  # two of the three tensors, and two results
    x, y, z = values((2,), (2,), (2,))
    first, (second,) = relax.interpreter.Interpreter(mod)["main"](x, (y, z))
    assert (second.numpy() == z + x).all()
    assert (first.numpy() == z + x + x).all()


@I.ir_module
class Inplace:
    @T.prim_func(private=True)
    def add_one(x: T.Buffer((T.int64(2),), "float32")):
        T.func_attr({"op_pattern": 0})
        for i in range(T.int64(2)):
            with T.block("x"):
                vi = T.axis.spatial(T.int64(2), i)
                x[vi] = x[vi] + T.float32(1)

    @R.function(private=True)
    def fused(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        R.func_attr({"Primitive": True})
        cls = Inplace
        with R.dataflow():
            a = R.call_tir_inplace(cls.add_one, (x,), [0], out_sinfo=R.Tensor((2,), "float32"))
            b = R.call_tir_inplace(cls.add_one, (a,), [0], out_sinfo=R.Tensor((2,), "float32"))
            R.output(b)
        return b

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        cls = Inplace
        with R.dataflow():
            a: R.Tensor((2,), "float32") = cls.fused(x)
            R.output(a)
        return a


def test_inplace_calls_stay_inplace():
    mod = FuseTIR()(Inplace)
    call = mod["main"].body.blocks[0].bindings[0].value
    assert call.op.name == "relax.call_tir_inplace"
    assert call.attrs.inplace_indices == [0]
    assert len(mod["fused"].params) == 1


def test_other_functions_are_left_alone():
    @I.ir_module
    class Mod:
        @R.function(private=True)
        def fused(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            R.func_attr({"Primitive": True})
            with R.dataflow():
                a = R.call_dps_packed("foreign", (x,), out_sinfo=R.Tensor((2,), "float32"))
                R.output(a)
            return a

        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            cls = Mod
            with R.dataflow():
                a: R.Tensor((2,), "float32") = cls.fused(x)
                R.output(a)
            return a

    assert_structural_equal(FuseTIR()(Mod), Mod)


def separators(first: int, second: int):
    """Two kernels on one intermediate, with axis separators of their own."""
    made = {}
    for name, axis in (("first", first), ("second", second)):
        src = tir.decl_buffer((4, 4), "float32", "A", axis_separators=[axis])
        dst = tir.decl_buffer((4, 4), "float32", "B", axis_separators=[axis])
        i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
        store = tir.BufferStore(dst, src[i, j], [i, j])
        body = tir.For(i, 0, 4, 0, tir.For(j, 0, 4, 0, store))
        made[name] = tir.PrimFunc([src, dst], body, attrs={"op_pattern": 0})
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4, 4), "float32"))
    gvars = [bb.add_func(f, name) for name, f in made.items()]
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit(relax.call_tir(gvars[0], [x], x.struct_info))
            b = bb.emit_output(relax.call_tir(gvars[-1], [a], x.struct_info))
        bb.emit_func_output(b)
    return FuseOps()(bb.finalize())


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
def test_axis_separators():
    mod = FuseTIR()(separators(1, 1))
    func = mod["fused_first_first"]
    assert func.body.block.alloc_buffers[0].axis_separators == (1,)
    with pytest.raises(RuntimeError, match=r"Inconsistent buffers.*and.*mapped to the same relax"):
        FuseTIR()(separators(1, 2))


def pattern(func) -> int:
    (marked,) = AnnotateTIROpPattern()(IRModule.from_expr(func)).functions.values()
    return marked.attrs["op_pattern"]


def test_patterns_of_operators():
    expected = {
        "exp": (0, lambda e, x: e(op.exp(x))),
        "bias": (0, lambda e, x: e(op.add(x, relax.const(values((6,))[0])))),
        "transpose": (2, lambda e, x: e(op.permute_dims(x))),
        "sum": (3, lambda e, x: e(op.sum(x, axis=[1]))),
        "softmax": (4, lambda e, x: e(op.nn.softmax(x))),
        "matmul": (4, lambda e, x: e(op.matmul(x, e(op.permute_dims(x))))),
        "broadcast_to": (1, lambda e, x: e(op.broadcast_to(x, (3, 4, 6)))),
        "layer_norm": (
            4,
            lambda e, x: e(
                op.nn.layer_norm(
                    x, relax.const(values((6,))[0]), relax.const(values((6,))[0]), axes=[-1]
                )
            ),
        ),
    }
    for name, (kind, build) in expected.items():
        mod = AnnotateTIROpPattern()(LegalizeOps()(graph(build, (4, 6))))
        func = mod[{"bias": "add", "exp": "tir_exp"}.get(name, name)]
        assert func.attrs["op_pattern"] == kind, name


def test_pattern_of_pooling_and_opaque_loops():
    mod = LegalizeOps()(graph(lambda e, x: e(op.nn.max_pool2d(x, 2)), (1, 2, 4, 4)))
    assert AnnotateTIROpPattern()(mod)["max_pool2d"].attrs["op_pattern"] == 4

    @T.prim_func
    def packed(x: T.Buffer((4,), "float32")):
        with T.block("call"):
            T.reads()
            T.writes()
            T.evaluate(T.call_packed("foreign", x.data))

    assert pattern(packed) == 8

    @T.prim_func
    def dependent(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(3):
            with T.block("two"):
                vi = T.axis.spatial(3, i)
                y[vi] = x[vi]
                y[vi + 1] = y[vi] + x[vi]

    assert pattern(dependent) == 8


def test_a_pattern_that_is_there_is_kept():
    @T.prim_func
    def marked(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        T.func_attr({"op_pattern": 8})
        for i in range(4):
            with T.block("y"):
                vi = T.axis.spatial(4, i)
                y[vi] = x[vi]

    assert pattern(marked) == 8


KERNEL_CALLS = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def add(x: T.Buffer((T.int64(2),), "float32"), y: T.Buffer((T.int64(2),), "float32"), z: T.Buffer((T.int64(2),), "float32")):
        for i in range(T.int64(2)):
            with T.block("z"):
                vi = T.axis.spatial(T.int64(2), i)
                z[vi] = x[vi] + y[vi]

    @R.function(private=True)
    def fused(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        R.func_attr({"Primitive": True})
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.add, (x, y), out_sinfo=R.Tensor((2,), "float32"))
            b = a
            o = (b,)
            R.output(o)
        return o

    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        cls = Module
        with R.dataflow():
            r = cls.fused(x, y)
            R.output(r)
        return r
"""
NOT_FUSED = {
    "a parameter of an unknown shape": (
        'def fused(x: R.Tensor((2,), "float32")',
        'def fused(x: R.Tensor(ndim=1, dtype="float32")',
        "R.call_tir(cls.add, (x, y)",
        "R.call_tir(cls.add, (y, y)",
    ),
    "one result twice": ("o = (b,)", "o = (a, b)"),
    "no kernels": ('R.call_tir(cls.add, (x, y), out_sinfo=R.Tensor((2,), "float32"))', "x"),
    "a parameter as a result": ("o = (b,)", "o = (b, y)", "(x, y), out", "(x, x), out"),
    "an argument that is no variable": (
        "R.call_tir(cls.add, (x, y)",
        'R.call_tir(cls.add, (x, R.const([1, 2], "float32"))',
    ),
}


@pytest.mark.parametrize("name", ["none", *NOT_FUSED])
def test_functions_that_cannot_be_one_kernel(name):
    text, edits = KERNEL_CALLS, NOT_FUSED.get(name, ())
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    mod = from_source(text)
    after = FuseTIR()(mod)
    assert ("Primitive" in after.script()) == (name in NOT_FUSED)
    args = values((2,), (2,))
    for got, want in zip(*(Interpreter(m)["main"](*args) for m in (after, mod)), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())


@I.ir_module
class Rows:
    """Loops over the rows but one, and a scalar parameter of the fused function."""

    @T.prim_func(private=True)
    def shift(x: T.handle, y: T.handle, k: T.int64):
        m = T.int64()
        X = T.match_buffer(x, (m,))
        Y = T.match_buffer(y, (m,))
        for i in range(m * T.int64(2) - m):
            with T.block("Y"):
                vi = T.axis.spatial(m * T.int64(2) - m, i)
                Y[vi] = X[vi] + T.Cast("float32", k)

    @R.function(private=True)
    def fused(
        x: R.Tensor((4,), "float32"), s: R.Prim(value="k"), unused: R.Tensor(("n",), "float32")
    ):
        R.func_attr({"Primitive": True})
        k, n = T.int64(), T.int64()
        cls = Rows
        with R.dataflow():
            a = R.call_tir(
                cls.shift, (x,), out_sinfo=R.Tensor((4,), "float32"), tir_vars=R.shape([k + n])
            )
            b = R.call_tir(
                cls.shift, (a,), out_sinfo=R.Tensor((4,), "float32"), tir_vars=R.shape([k])
            )
            R.output(b)
        return b

    @R.function
    def main(x: R.Tensor((4,), "float32"), s: R.Prim(value="q"), u: R.Tensor(("p",), "float32")):
        q = T.int64()
        cls = Rows
        with R.dataflow():
            a = cls.fused(x, R.prim_value(q + 1), u)
            b = cls.fused(a, s, u)
            R.output(b)
        return b


def test_scalars_are_passed_and_known_extents_are_folded():
    after = FuseTIR()(Rows)
    extents = []
    post_order_visit(
        after["fused"].body, lambda n: extents.append(n.extent) if isinstance(n, tir.For) else None
    )
    assert extents and all(isinstance(e, IntImm) and e.value == 4 for e in extents)
    x, u = values((4,), (5,))
    got, want = (Interpreter(m)["main"](x, 3, u).numpy() for m in (after, Rows))
    np.testing.assert_array_equal(got, want)
    np.testing.assert_allclose(got, x + (4 + 5) + 4 + (3 + 5) + 3, rtol=1e-6)
