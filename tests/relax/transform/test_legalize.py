"""LegalizeOps: which rule is asked, and what becomes of what it returns."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import compile as compile_module
from loopwright import relax, te, tir, topi
from loopwright.ir import trace
from loopwright.ir.module import IRModule
from loopwright.ir.op import Op, register_op_attr
from loopwright.ir.structural import assert_structural_equal, structural_equal
from loopwright.ir.target import Target, register_target_kind
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import LegalizeOps
from loopwright.relax.transform.legalize_ops.common import LEGALIZATIONS, register_legalize
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T

from ...programs import graph

# Operators that a test makes up have no builder by which their text could be read back.
pytestmark = pytest.mark.no_roundtrip


def test_operators_without_a_rule_are_logged(caplog):
    @I.ir_module
    class Prints:
        @R.function(pure=False)
        def main(x: R.Tensor((2,), "float32")):
            R.print(x, format="{}")
            return R.call_pure_packed("f", x, sinfo_args=R.Tensor((2,), "float32"))

    LegalizeOps()(Prints)
    assert not caplog.records
    LegalizeOps(enable_warning=True)(Prints)
    assert [r.getMessage() for r in caplog.records] == ["no legalization of relax.print"]


Add = graph("z = R.add(x, y)", x=(2, 3), y=(2, 3))


def callees(mod: IRModule) -> list[str]:
    """What main's call_tirs call, in order."""
    found = []
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.Call) and binding.value.op.name == "relax.call_tir":
                found.append(binding.value.args[0].name_hint)
    return found


@pytest.fixture
def made_up():
    """An operator of the test's own, forgotten afterwards."""
    name = "test_legalize.negate"
    register_op_attr(name, "FInferStructInfo", lambda call, bb: call.args[0].struct_info)
    register_op_attr(name, "FPurity", True)
    op = Op.get(name)
    with LEGALIZATIONS.registry.snapshot():
        yield op
    op.reset_attr("FLegalize")


def module_of(op: Op) -> IRModule:
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(bb.emit(relax.Call(op, [x])))
        bb.emit_func_output(out)
    return bb.get()


def to(name):
    """A rule that calls a PrimFunc of that name."""

    def rule(bb, call):
        return bb.call_te(topi.negative, call.args[0], primfunc_name_hint=name)

    return rule


def test_the_map_wins():
    def subtract(bb, call):
        return bb.call_te(topi.subtract, call.args[0], call.args[1])

    assert callees(LegalizeOps({"relax.add": subtract})(Add)) == ["subtract"]
    assert callees(LegalizeOps()(Add)) == ["add"]


def test_order_is_map_kind_keys_default(made_up):
    register_legalize(made_up.name, to("default"))
    register_legalize(made_up.name, to("cpu"), target="cpu")
    mod = module_of(made_up)
    assert callees(LegalizeOps()(mod)) == ["default"]
    with Target("llvm"):
        assert callees(LegalizeOps()(mod)) == ["cpu"]
        register_legalize(made_up.name, to("llvm"), target="llvm")
        assert callees(LegalizeOps()(mod)) == ["llvm"]
        assert callees(LegalizeOps({made_up.name: to("mine")})(mod)) == ["mine"]
    with Target("cuda"):
        assert callees(LegalizeOps()(mod)) == ["default"]


def test_none_means_not_mine(made_up):
    register_legalize(made_up.name, to("default"))
    register_legalize(made_up.name, lambda bb, call: None, target="llvm")
    with trace.trace() as seen, Target("llvm"):
        assert callees(LegalizeOps()(module_of(made_up))) == ["default"]
    (note,) = seen.explain(made_up.name, "legalize")
    assert note.facts["winner"].startswith("default")
    assert [loser.split(":")[0] for loser in note.facts["losers"]] == ["target llvm"]


def test_priority_and_later_registration(made_up):
    register_legalize(made_up.name, to("first"), target="llvm")
    register_legalize(made_up.name, to("second"), target="llvm")
    register_legalize(made_up.name, to("low"), target="llvm", priority=5)
    with Target("llvm"):
        assert callees(LegalizeOps()(module_of(made_up))) == ["second"]


def test_a_new_default_may_pass_to_the_old(made_up):
    register_legalize(made_up.name, to("old"))
    register_legalize(made_up.name, lambda bb, call: None)
    assert callees(LegalizeOps()(module_of(made_up))) == ["old"]


@pytest.mark.parametrize(
    ("definition", "later", "order"),
    [  # names say the levels; among equal ones the later registered is asked first
        (10, [], [10]),
        (10, [5], [10, 5]),
        (10, [15], [15, 10]),
        (12, [11, 13, 12], [13, 12, 12, 11]),
        (3, [2, 7, 1], [7, 3, 2, 1]),
    ],
)
@pytest.mark.parametrize("near", [False, True])
def test_levels_order_the_rules_of_one_place(made_up, definition, later, order, near):
    """And only these: a target's own rule of level 0 is asked before defaults of any level, a map's
    rule before it."""

    def named(name):
        def rule(bb, call):
            return None

        rule.__qualname__ = name
        return rule

    register_legalize(made_up.name, named(f"{definition} first"), priority=definition)
    for level in later:
        register_legalize(made_up.name, named(f"{level} later"), priority=level)
    if near:
        register_legalize(made_up.name, named("key"), target="cpu", priority=1)
        register_legalize(made_up.name, named("kind"), target="llvm", priority=0)
    given = {made_up.name: named("map")} if near else {}
    with trace.trace() as seen, Target("llvm"):
        LegalizeOps(given)(module_of(made_up))
    (note,) = seen.explain(made_up.name, "legalize")
    shown = [loser.partition(" (")[0].split(".")[-1] for loser in note.facts["losers"]]
    words = [word.split() for word in shown]
    assert [word[0] for word in words] == ["map", "kind", "key"] * near + [str(k) for k in order]
    twice = [word for word in words if word[0] == str(definition)]
    assert twice[-1][-1] == "first" and len(twice) == order.count(definition)


def test_a_rule_must_be_callable():
    with pytest.raises(TypeError, match="is a function f"):
        register_legalize("test_legalize.negate", 3, target="llvm")


@pytest.mark.parametrize(
    ("rule", "kind", "text"),
    [
        (lambda bb, call: topi.sum, TypeError, "must return a Relax expression\n  got: function"),
        (lambda bb, call: tir.PrimFunc([], tir.Evaluate(0)), TypeError, "give a kernel as"),
        (
            lambda bb, call: relax.op.astype(call.args[0], "int32"),
            ValueError,
            'another struct info\n  got: R.Tensor((4,), dtype="int32") for R.Tensor((4,), dtype="fl',
        ),
        (
            lambda bb, call: relax.op.sum(call.args[0], keepdims=True),
            ValueError,
            'got: R.Tensor((1,), dtype="float32") for R.Tensor((4,), dtype="float32")\n  instead',
        ),
    ],
)
def test_a_result_that_does_not_fit_is_refused(made_up, rule, kind, text):
    rule.__qualname__ = "mine"
    register_legalize(made_up.name, rule, target="llvm")
    with Target("llvm"), pytest.raises(kind) as error:
        LegalizeOps()(module_of(made_up))
    start = "the legalization of test_legalize.negate (target llvm: tests.relax.transform"
    assert str(error.value).startswith(start) and ".mine) " in str(error.value)
    assert text in str(error.value)


def test_misspelt_names(made_up, caplog):
    with pytest.raises(ValueError) as error:
        register_legalize("relax.tanhh", to("new"), target="llvm")
    assert str(error.value) == (
        "a legalization of an operator that does not exist\n"
        "  got: relax.tanhh\n  instead: did you mean relax.tanh, relax.atanh? @op defines one"
    )
    register_legalize("relax.tanh", to("new"), target="lvm")
    (record,) = caplog.records
    assert record.getMessage() == (
        "a legalization for a target that is not known yet\n"
        "  got: lvm\n  instead: did you mean llvm?"
    )
    register_legalize("relax.tanh", to("new"), target="brand_new")
    assert len(caplog.records) == 1


def test_without_rule_the_call_stays(made_up):
    mod = module_of(made_up)
    assert LegalizeOps()(mod) is mod


def test_unknown_shape_stays():
    Mod = graph("y = R.exp(x)", s="R.Shape(ndim=2)", x='R.Tensor(ndim=2, dtype="float32")')

    assert_structural_equal(LegalizeOps()(Mod), Mod)


def test_what_a_rule_returns_is_legalized(made_up):
    def by_operators(bb, call):
        x = bb.emit(relax.op.exp(call.args[0]))
        return relax.op.add(relax.op.negative(x), x)

    register_legalize(made_up.name, by_operators)
    mod = LegalizeOps()(module_of(made_up))
    assert callees(mod) == ["tir_exp", "tir_negative", "add"]
    assert LegalizeOps()(mod) is mod


def test_a_rule_may_return_a_variable(made_up):
    register_legalize(made_up.name, lambda bb, call: bb.emit(relax.op.exp(call.args[0])))
    assert callees(LegalizeOps()(module_of(made_up))) == ["tir_exp"]


def test_endless_rules_are_cut_off(made_up):
    register_legalize(made_up.name, lambda bb, call: relax.Call(made_up, list(call.args)))
    with pytest.raises(RuntimeError, match="does not terminate"):
        LegalizeOps()(module_of(made_up))


def test_scalar_constants_become_literals_of_the_tensors_dtype():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2,), "uint8")):
            with R.dataflow():
                y = R.add(x, R.const(3, "uint8"))
                R.output(y)
            return y

    mod = LegalizeOps()(Mod)
    assert len(mod["add"].params) == 2
    store = mod["add"].body.block.body.body.block.body
    assert str(store.value.b.dtype) == "uint8"


def test_products_of_one_number_share_a_kernel():
    """The scales of a quantized network: a hundred layers, a hundred constants."""

    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((), "float32")):
            with R.dataflow():
                a = R.multiply(x, R.const(2.0, "float32"))
                b = R.multiply(a, R.const(3.0, "float32"))
                c = R.full_like(b, R.const(0.5, "float32"))  # which takes a number, not a tensor
                d = R.full_like(b, R.const(0.25, "float32"))
                e = R.add(b, R.add(c, d))
                R.output(e)
            return e

    lowered = LegalizeOps()(Mod)
    assert callees(lowered) == ["multiply", "multiply", "full", "full1", "add", "add"]
    assert float(Interpreter(lowered)["main"](np.float32(5))) == 30.75
    compiled = compile_module(Mod)["main"](np.array(5, np.float32))
    assert float(compiled.numpy()) == 30.75


def test_equal_loops_are_shared():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.exp(a)
                c = R.exp(y)
                R.output(b, c)
            return b, c

    assert callees(LegalizeOps()(Mod)) == ["tir_exp", "tir_exp", "tir_exp1"]


def test_matmul_of_unknown_dtype():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2, 3)), y: R.Tensor((3, 4))):
            with R.dataflow():
                z = R.matmul(x, y)
                R.output(z)
            return z

    with pytest.raises(AssertionError, match=r"^To legalize R\.matmul"):
        LegalizeOps()(Mod)


def test_a_virtual_device_says_the_target():
    @I.ir_module
    class Mod:
        I.module_global_infos({"vdevice": [I.vdevice("llvm")]})

        @R.function
        def main(
            x: R.Tensor((2, 3), "float32", "llvm"), y: R.Tensor((2, 3), "float32", "llvm")
        ) -> R.Tensor((2, 3), "float32", "llvm"):
            z: R.Tensor((2, 3), "float32", "llvm") = R.add(x, y)
            return z

    mod = LegalizeOps()(Mod)
    assert callees(mod) == ["add_llvm"]
    assert mod["add_llvm"].attrs["target"] == Target("llvm")
    assert "add" not in mod
    with Target("cuda"):
        assert "target" not in LegalizeOps()(Add)["add"].attrs


def test_custom_operator_with_its_own_facts(rng):
    name = "test_legalize.matmul_bias"

    def infer(call, bb):
        x, w, _ = (a.struct_info for a in call.args)
        return relax.TensorStructInfo((x.shape[0], w.shape[1]), x.dtype)

    def body(x, w, b):
        k = te.reduce_axis((0, x.shape[1]), "k")
        prod = te.compute((x.shape[0], w.shape[1]), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k))
        return te.compute(prod.shape, lambda i, j: prod[i, j] + b[j])

    register_op_attr(name, "FInferStructInfo", infer)
    register_op_attr(name, "FLegalize", lambda bb, call: bb.call_te(body, *call.args))
    register_op_attr(name, "FPurity", True)
    bb = relax.BlockBuilder()
    shapes = {"x": (2, 3), "w": (3, 4), "b": (4,)}
    params = [relax.Var(n, relax.TensorStructInfo(s, "float32")) for n, s in shapes.items()]
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(relax.Call(Op.get(name), params)))
    mod = LegalizeOps()(bb.get())
    values = [rng.random(s).astype("float32") for s in shapes.values()]
    from_loops = relax.interpreter.Interpreter(mod)["main"](*values).numpy()
    np.testing.assert_allclose(from_loops, values[0] @ values[1] + values[2], rtol=1e-5)


def test_symbolic_sizes_that_no_buffer_tells_are_passed():
    bb = relax.BlockBuilder()
    n = tir.Var("n", "int64")
    s = relax.Var("s", relax.ShapeStructInfo([n]))
    with bb.function("main", [s]):
        out = bb.emit(relax.op.full((n * 2,), relax.const(1.0), "float32"))
        bb.emit_func_output(out)
    mod = LegalizeOps()(bb.get())
    call = mod["main"].body.blocks[0].bindings[0].value
    assert structural_equal(call.args[2], relax.ShapeExpr([n]))
    assert [str(p.dtype) for p in mod["full"].params] == ["handle", "int64"]


def test_calls_of_functions_and_loops_stay():
    @I.ir_module
    class Mod:
        @T.prim_func(private=True)
        def copy(x: T.Buffer((T.int64(2),), "float32"), y: T.Buffer((T.int64(2),), "float32")):
            for i in range(T.int64(2)):
                with T.block("y"):
                    vi = T.axis.spatial(T.int64(2), i)
                    y[vi] = x[vi]

        @R.function(private=True)
        def same(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            cls = Mod
            y = R.call_tir(cls.copy, (x,), out_sinfo=R.Tensor((2,), "float32"))
            return y

        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            cls = Mod
            y: R.Tensor((2,), "float32") = cls.same(x)
            return y

    assert LegalizeOps()(Mod) is Mod


def test_a_rule_may_give_other_operators():
    """Which are lowered in turn, by the rules of the same target; the map's too."""

    def as_swish(bb, call):
        (x,) = call.args
        return relax.op.multiply(x, relax.op.sigmoid(x))

    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((3, 4), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(relax.op.exp(x))
        bb.emit_func_output(out)
    with trace.trace() as seen:
        made = LegalizeOps({"relax.exp": as_swish})(bb.get())
    assert sorted(g.name_hint for g in made.functions) == ["main", "multiply", "tir_sigmoid"]
    (note,) = seen.explain("relax.exp", "legalize")
    assert note.facts["winner"].startswith("call-site map: ")
    assert [c.split(":")[0] for c in note.facts["not_asked"]] == ["default"]


def test_the_order_of_all_places(made_up):
    """The map, the kind, its keys in their order, the parent kind and its keys, the default."""
    register_target_kind("legalize_kind", keys=("first", "second"), parent="llvm", override=True)
    places = ["legalize_kind", "first", "second", "llvm", "cpu"]
    for place in places:
        register_legalize(made_up.name, lambda bb, call: None, target=place)
    register_legalize(made_up.name, to("default"))
    with trace.trace() as seen, Target("legalize_kind"):
        made = LegalizeOps({made_up.name: lambda bb, call: None})(module_of(made_up))
    assert callees(made) == ["default"]
    (note,) = seen.explain(made_up.name, "legalize")
    asked = [loser.split(":")[0] for loser in note.facts["losers"]]
    assert asked == ["call-site map", *(f"target {place}" for place in places)]


def test_a_kernel_is_built_once_for_shapes_that_differ_in_names(monkeypatch) -> None:
    built = []
    build = relax.BlockBuilder.call_te
    monkeypatch.setattr(
        relax.BlockBuilder,
        "call_te",
        lambda *given, **more: built.append(1) or build(*given, **more),
    )
    flips = "a = R.flip(x, axis=0); b = R.flip(y, axis=0); c = R.flip(z, axis=0)"
    joins = "d = R.concat([a, x]); e = R.concat([b, y]); f = R.concat([a, c])"
    again = "g = R.flip(d, axis=0); h = R.flip(e, axis=0); i = (f, g, h)"
    mod = graph(f"{flips}; {joins}; {again}", x=("n", 3), y=("m", 3), z=("n", 3))
    made = LegalizeOps()(mod)
    assert callees(made) == ["flip"] * 3 + ["concatenate"] * 3 + ["flip1"] * 2
    assert len(built) == 3
    run = Interpreter(made)["main"]
    x, y, z = (np.arange(3 * n, dtype="float32").reshape(n, 3) + n for n in (2, 4, 2))
    want = [[x[::-1], z[::-1]], [x[::-1], x], [y[::-1], y]]
    for got, parts in zip(run(x, y, z), want, strict=True):
        joined = np.concatenate(parts)
        np.testing.assert_array_equal(got, joined if parts is want[0] else joined[::-1])


def test_numbers_that_are_known_become_constants():
    @I.ir_module
    class Module:
        @R.function
        def main():
            steps = R.arange(1, 10, 4)
            half = R.astype(R.const(1.5, "float32"), "int32")
            return (steps, half)

    main = LegalizeOps()(Module)["main"]
    steps, half = (binding.value for binding in main.body.blocks[0].bindings[:2])
    assert steps.data.numpy().tolist() == [1, 5, 9]
    assert steps.struct_info.dtype == "int64"
    assert half.data.numpy() == 1
