"""Questions about programs of Relay, and the visitors of expressions and types."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from loopwright import relay
from loopwright.base.errors import DiagnosticError, LoopwrightError
from loopwright.ir.module import IRModule
from loopwright.ir.structural import assert_structural_equal
from loopwright.relay import analysis, transform
from loopwright.relay.data_dep_optimization import simplify_fc_transpose


def typed(expr: Any) -> Any:
    return transform.InferType()(IRModule.from_expr(expr))["main"]


def named(variables: Sequence[Any]) -> list[str]:
    return [v.name_hint for v in variables]


def test_variables():
    x, y, z = (relay.var(n, shape=(2,)) for n in "xyz")
    func = relay.Function([x], relay.Let(y, relay.exp(x), y + z))
    assert named(analysis.all_vars(func)) == ["x", "y", "z"]
    assert named(analysis.bound_vars(func)) == ["x", "y"]
    assert named(analysis.free_vars(func)) == ["z"]
    inner = relay.Let(z, x, z)
    assert named(analysis.bound_vars(relay.Let(y, inner, y))) == ["y", "z"]


def test_type_variables():
    a, b, c = map(relay.TypeVar, "abc")
    func = relay.Function([relay.var("x", a)], relay.var("y", b), c, [a])
    assert named(analysis.all_type_vars(func)) == ["a", "c", "b"]
    assert named(analysis.bound_type_vars(func)) == ["a"]
    assert named(analysis.free_type_vars(func)) == ["c", "b"]
    kind = relay.FuncType([b], relay.TupleType([a, c]), [a])
    assert named(analysis.all_type_vars(kind)) == ["a", "b", "c"]
    assert named(analysis.free_type_vars(kind)) == ["b", "c"]
    assert analysis.all_dtypes(typed(relay.cast(relay.var("v", shape=(3,)), "int8"))) == {
        "float32",
        "int8",
    }


def test_well_formed():
    x, y = relay.var("x"), relay.var("y")
    once = relay.Let(x, y, x)
    assert analysis.well_formed(once)
    assert not analysis.well_formed(relay.Tuple([once, relay.Let(x, y, x)]))
    assert not analysis.well_formed(relay.Let(x, once, x))
    assert not analysis.well_formed(relay.Tuple([once, x]))
    assert not analysis.well_formed(relay.Tuple([x, once]))
    deep = x
    for _ in range(20_000):
        deep = relay.exp(deep)
    assert analysis.well_formed(relay.Function([x], deep))


def test_kinds():
    shape = relay.TypeVar("s", relay.TypeKind.ShapeVar)
    plain = relay.scalar_type("int32")
    assert analysis.check_kind(shape) == relay.TypeKind.ShapeVar
    assert analysis.check_kind(relay.FuncType([plain], plain)) == relay.TypeKind.Type
    assert analysis.check_kind(relay.TypeRelation(None, (plain,), 1, None)) == (
        relay.TypeKind.Constraint
    )
    for bad in (relay.TupleType([shape]), relay.FuncType([plain], relay.TupleType([shape]))):
        with pytest.raises(DiagnosticError, match="tuple member"):
            analysis.check_kind(bad)
    one = relay.const(1)
    assert analysis.check_constant(relay.Tuple([one, relay.Tuple([one])]))
    assert not analysis.check_constant(one + one)


def test_features():
    feature = analysis.Feature
    x = relay.var("x", shape=())
    twice = relay.exp(x)
    func = relay.Function([x], twice + twice)
    used = {feature.fVar, feature.fCall, feature.fOp, feature.fFunction}
    assert analysis.detect_feature(func) == used | {feature.fGraph}
    assert analysis.detect_feature(IRModule({"main": relay.Function([x], relay.exp(x))})) == used
    f = relay.var("f")
    loop = relay.Let(f, relay.Function([x], f(x)), f)
    assert feature.fLetRec in analysis.detect_feature(loop)


def test_counts():
    x, w = relay.var("x", shape=(1, 8, 6, 6)), relay.var("w", shape=(4, 2, 3, 3))
    conv = relay.nn.conv2d(x, w, groups=4, channels=4, kernel_size=(3, 3))
    flat = relay.nn.batch_flatten(conv)
    out = typed(relay.nn.dense(flat, relay.var("d", shape=(5, 64))) + relay.const(1.0))
    assert analysis.get_total_mac_number(out) == 4 * 4 * 4 * 2 * 9 + 64 * 5
    back = typed(relay.nn.conv2d_transpose(x, relay.var("w", shape=(8, 3, 2, 2)), channels=3))
    assert analysis.get_total_mac_number(back) == 3 * 7 * 7 * 8 * 4
    assert analysis.count_layers(out, ["nn.conv2d", "nn.dense"]) == 2
    assert analysis.list_op_freqs(IRModule({"main": out})) == {
        "nn.conv2d": 1, "nn.batch_flatten": 1, "nn.dense": 1, "add": 1,
    }  # fmt: skip
    free = typed(relay.nn.dense(relay.var("x", shape=(relay.Any(), 4)), relay.ones((2, 4), "int8")))
    with pytest.raises(ValueError, match="cannot be counted"):
        analysis.get_total_mac_number(free)


def test_layers_are_those_of_the_longest_path():
    x = relay.var("x", shape=(2,))
    assert analysis.count_layers(x, ["exp"]) == 0
    short, long = relay.exp(x), relay.exp(relay.tanh(relay.exp(x)))
    for out in (relay.Tuple([short, long]), relay.Tuple([long, short])):
        assert analysis.count_layers(out, ["exp"]) == 2
        assert analysis.count_layers(out, ["exp", "tanh"]) == 3
        assert analysis.count_layers(IRModule.from_expr(out), ["tanh"]) == 1


def test_features_have_the_numbers_of_tvm():
    assert [analysis.Feature(k).name for k in (0, 5, 9, 15, 16)] == [
        "fVar",
        "fFunction",
        "fIf",
        "fGraph",
        "fLetRec",
    ]
    assert [f.value for f in analysis.Feature] == list(range(17))


def test_call_graph():
    mod = relay.fromtext(
        """#[version = "0.0.5"]
        def @leaf(%x: int32) -> int32 { add(%x, 1) }
        def @loop(%x: int32) -> int32 { if (less(%x, 0)) { @leaf(%x) } else { @loop(@leaf(%x)) } }
        """
    )
    graph = analysis.CallGraph(mod)
    assert graph.is_recursive("loop")
    assert not graph.is_recursive(mod.get_global_var("leaf"))
    assert (graph.ref_count("leaf"), graph.global_call_count("loop")) == (1, 2)
    assert str(graph) == (
        "Call graph node: leaf,  #refs = 1\n\n"
        "Call graph node: loop,  #refs = 1\n  call site: <loop> calls leaf\n"
        "  call site: <loop> calls loop\n"
    )
    with pytest.raises(TypeError, match="a function's name or GlobalVar"):
        graph.ref_count(3)
    with pytest.raises(ValueError, match="one of: leaf, loop"):
        graph.ref_count(relay.GlobalVar("other"))


def test_parts_of_programs():
    x = relay.var("x", shape=(2, 4))
    parts = relay.split(relay.exp(x), 2)
    mod = IRModule.from_expr(parts[0] + parts[1])
    assert_structural_equal(
        analysis.extract_intermdeiate_expr(mod, 1), IRModule.from_expr(parts.astuple())
    )
    for wrong in (-1, 5):
        with pytest.raises(ValueError, match=f"{wrong} of 5"):
            analysis.extract_intermdeiate_expr(mod, wrong)
    assert analysis.list_op_freqs(analysis.extract_intermdeiate_expr(mod, 0)) == {"exp": 1}
    assert analysis.list_op_freqs(analysis.extract_intermdeiate_expr(mod, 4)) == {
        "exp": 1, "split": 1, "add": 1,
    }  # fmt: skip
    soft = relay.nn.softmax(relay.nn.softmax(x))
    kernels = analysis.extract_fused_functions(IRModule.from_expr(soft))
    (kernel,) = kernels.values()
    assert analysis.list_op_freqs(kernel) == {"nn.softmax": 1}


def test_calibration_data():
    mod = relay.fromtext(
        """#[version = "0.0.5"]
        def @region(%a: Tensor[(2), float32], Compiler="other") { (exp(%a), negative(%a)) }
        def @main(%x: Tensor[(2), float32]) { %0 = @region(add(%x, %x)); add(%0.0, %0.1) }
        """
    )
    x = np.array([1, 2], "float32")
    ((gvar, found),) = analysis.get_calibration_data(mod, {"x": x}).items()
    assert gvar.name_hint == "region"
    np.testing.assert_allclose(found["inputs"][0].numpy(), 2 * x)
    np.testing.assert_allclose(found["outputs"][0].numpy(), np.exp(2 * x), rtol=1e-6)
    np.testing.assert_allclose(found["outputs"][1].numpy(), -2 * x)


def test_weights_are_transposed_before(rng):
    x, w, v = (relay.var(n, shape=(3, 3)) for n in "xwv")
    out = relay.nn.dense(relay.nn.dense(x, relay.transpose(w)), relay.transpose(v, [0, 1])) + w
    values = {n: rng.random((3, 3)).astype("float32") for n in "wv"}
    func = typed(relay.Function([x, w, v], out))
    assert analysis.search_fc_transpose(func) == ["w"]
    new, params = simplify_fc_transpose.convert(func, values)
    assert named(new.params) == ["x", "w", "w.T", "v"]
    data = rng.random((3, 3)).astype("float32")
    got = relay.create_executor("graph", IRModule.from_expr(new), params=params).evaluate()(data)
    want = data @ values["w"] @ values["v"].T + values["w"]
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)


class Subtracts(relay.ExprMutator):
    def visit_call(self, call: Any) -> Any:
        new = super().visit_call(call)
        return relay.subtract(*new.args) if new.op.name == "add" else new


class Counts(relay.ExprVisitor):
    calls = 0

    def visit_call(self, call: Any) -> None:
        self.calls += 1
        super().visit_call(call)


def test_functors():
    x = relay.var("x", shape=())
    shared = x
    for _ in range(60):
        shared = shared + shared
    count = Counts()
    count.visit(relay.If(relay.const(True), shared, relay.exp(x)))
    assert count.calls == 61
    func = relay.Function([x], relay.Tuple([relay.exp(x), x + x]))
    assert relay.ExprMutator().visit(func) is func
    assert_structural_equal(
        Subtracts().visit(func), relay.Function([x], relay.Tuple([relay.exp(x), x - x]))
    )
    deep = x
    for _ in range(3_000):
        deep = relay.exp(deep)
    assert relay.ExprMutator().visit(deep) is deep
    with pytest.raises(NotImplementedError, match="visit_var"):
        relay.ExprFunctor().visit(x)
    with pytest.raises(TypeError, match="visit_call"):
        relay.ExprVisitor().visit(3)


class Narrow(relay.TypeMutator):
    def visit_tensor_type(self, typ: Any) -> Any:
        return relay.TensorType(typ.shape, "int8")


def test_type_functors():
    var = relay.TypeVar("t")
    kind = relay.FuncType([relay.scalar_type("int32"), var], relay.TupleType([var]), [var])
    assert relay.TypeMutator().visit(kind) is kind
    new = Narrow().visit(kind)
    assert [str(t) for t in new.arg_types] == ["int8", "t"]
    assert relay.TypeVisitor().visit(kind) is None
    with pytest.raises(NotImplementedError, match="visit_func_type"):
        relay.TypeFunctor().visit(kind)


def test_scopes():
    x, cond = relay.var("x", shape=()), relay.var("c", shape=(), dtype="bool")
    sb = relay.ScopeBuilder()
    y = sb.let(("y", relay.scalar_type("float32")), relay.exp(x))
    with pytest.raises(LoopwrightError, match="must follow an if scope"), sb.else_scope():
        pass
    with sb.if_scope(cond):
        sb.ret(y)
    with pytest.raises(LoopwrightError, match="without else"):
        sb.get()
    with sb.else_scope():
        sb.ret(sb.let("z", x + y))
    found = sb.get()
    z = relay.var("z")
    want = relay.Let(y, relay.exp(x), relay.If(cond, y, relay.Let(z, x + y, z)))
    assert_structural_equal(found, want, map_free_vars=True)
    with pytest.raises(LoopwrightError, match="already set"):
        sb.ret(x)


def test_left_out_modules_may_be_named():
    import loopwright.relay.left_out as left_out

    for name in ("Prelude", "TypeData"):
        with pytest.raises(
            NotImplementedError, match="left out of Loopwright: .*algebraic data types"
        ):
            getattr(left_out, name)()
    with pytest.raises(NotImplementedError, match="left out of Loopwright: .*quantization"):
        left_out.attach_simulated_quantize(relay.var("x"), 1)
    for module, place in ((relay.transform, "gradient"), (analysis, "unmatched_cases")):
        with pytest.raises(NotImplementedError, match=r"left out.*\n.*\n  instead: "):
            getattr(module, place)(None)
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        relay.transform.Nonsense
