"""FuseOpsByPattern. The goldens' functions, names, parameters and attributes agree with TVM 0.26's
for the same graphs, but for `Renamed` (TVM finds a cycle there)."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir.structural import structural_equal
from loopwright.relax.dpl import is_const, is_tuple_get_item, wildcard
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import BindParams, FuseOpsByPattern, FusionPattern
from loopwright.script import ir as I
from loopwright.script import relax as R

from ...programs import graph
from ..byoc import graphs as g
from ..byoc.graphs import CONV, CONV_RELU, EXP_RELU, each, op

ANY = wildcard
DENSE = op("add", op("matmul", ANY(), is_const()), is_const())
WEIGHTS = {"w": np.arange(12, dtype="float32").reshape(4, 3), "b": np.ones(3, "float32")}
SPLIT = op("split")
HALVES = op("add", is_tuple_get_item(SPLIT, 0), is_tuple_get_item(SPLIT, 1))
BROADCAST = [("x.bcast_exp", op("exp", op("broadcast_to", ANY(), ANY())))]
bound = BindParams("main", WEIGHTS)(g.Dense)

CASES = {
    "two matches of one pattern": (g.TwoConvs, [("dnnl.conv2d_relu", CONV_RELU)], {}),
    "annotated": (g.TwoConvs, [("dnnl.conv2d_relu", CONV_RELU)], {"annotate_codegen": True}),
    "the first pattern has priority": (g.TwoConvs, [("d.c", CONV), ("d.cr", CONV_RELU)], {}),
    "a value used outside": (g.Branching, [("x.cr", CONV_RELU)], {}),
    "the other pattern finds nothing": (
        g.Branching,
        [("x.cg", op("nn.gelu", CONV)), ("x.cr", CONV_RELU)],
        {},
    ),
    "two results": (g.TwoResults, [("x.er", EXP_RELU)], {}),
    "two results, annotated": (g.TwoResults, [("x.er", EXP_RELU)], {"annotate_codegen": True}),
    "constants inside": (bound, [("x.dense", DENSE)], {}),
    "constants as parameters": (bound, [("x.dense", DENSE)], {"bind_constants": False}),
    "constants as parameters, annotated": (
        bound,
        [("x.dense", DENSE)],
        {"bind_constants": False, "annotate_codegen": True},
    ),
    "a symbolic shape is a parameter": (
        g.Reshaped,
        [("x.er", op("reshape", op("exp"), ANY()))],
        {},
    ),
    "symbolic shapes of tensors": (g.Reshaped, each("x", "add"), {}),
    "a shape that no tensor has": (g.Broadcast, BROADCAST, {}),
    "a shape that no tensor has, annotated": (g.Broadcast, BROADCAST, {"annotate_codegen": True}),
    "in both branches": (g.If, [("x.er", EXP_RELU), ("x.sr", op("nn.relu", op("sin")))], {}),
    "in a branch, annotated": (g.If, [("x.er", EXP_RELU)], {"annotate_codegen": True}),
    "a tuple inside": (g.Split, [("x.halves", HALVES)], {}),
    "a tuple as result": (g.Split, [("x.split", SPLIT)], {}),
    "a tuple as result, annotated": (g.Split, [("x.split", SPLIT)], {"annotate_codegen": True}),
    "fields of a parameter": (g.Fields, [("x.ar", op("nn.relu", op("add", ANY(), ANY())))], {}),
    "fields of a parameter in the pattern": (
        g.Fields,
        [("x.a", op("add", is_tuple_get_item(ANY(), 0), is_tuple_get_item(ANY(), 2)))],
        {},
    ),
    "a tuple as argument": (g.Concat, [("x.cr", op("nn.relu", op("concat")))], {}),
    "a skipping edge inside": (g.Skip, [("x.ea", op("add", op("exp"), op("sin")))], {}),
    "the larger match wins": (g.Chain, [("x.ee", op("exp", op("exp"))), ("x.e", op("exp"))], {}),
    "as large as an alternative is": (
        g.Chain,
        [("x.ee", op("exp", op("exp") | ANY()))],
        {},
    ),
}


def test_goldens(golden):
    text = []
    for title, (mod, patterns, options) in CASES.items():
        made = FuseOpsByPattern(patterns, **options)(mod)
        text += [f"# ---- {title}", made.script(show_meta=False)]
    golden("fuse_ops_by_pattern.txt", "\n".join(text))


@pytest.mark.parametrize("title", [t for t in CASES if "shape" not in t])
def test_what_is_computed_stays(title):
    mod, patterns, options = CASES[title]
    made = FuseOpsByPattern(patterns, **options)(mod)
    rng = np.random.default_rng(1)

    def value(info):
        if isinstance(info, relax.TupleStructInfo):
            return tuple(value(f) for f in info.fields)
        shape = [int(d) for d in info.get_shape()]
        return rng.uniform(0, 1, shape).astype(str(info.dtype))

    inputs = [value(p.struct_info) for p in mod["main"].params]
    want, got = (Interpreter(m)["main"](*inputs) for m in (mod, made))
    pairs = zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]
    for a, b in pairs:
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


# What is returned besides: a group that needs another one, and both a third value; a field.
BESIDES = {
    "an order that no binding has": (
        "a = R.exp(x); b = R.exp(y); c = R.sin(x); h = R.tanh(a); d = R.multiply(c, c); "
        "e = R.add(b, d); f = R.multiply(c, e); g = R.add(a, f)",
        ("g", "h"),
        op("add", op("exp"), op("multiply", ANY(), ANY())),
    ),
    "a field is a result": (
        "p = (x, y, x); a = p[0]; b = p[1]; c = R.add(a, b)",
        ("c", "a"),
        op("add", is_tuple_get_item(ANY(), 0), is_tuple_get_item(ANY(), 1)),
    ),
}


@pytest.mark.parametrize("title", BESIDES)
def test_groups_with_several_results(title):
    body, results, pattern = BESIDES[title]
    mod = graph(body, ", ".join(results), x=(4,), y=(4,))
    made = FuseOpsByPattern([("x.p", pattern)])(mod)
    assert len(made.functions) == body.count("R.add") + 1
    inputs = [np.linspace(-1, 1, 4, dtype="float32"), np.linspace(0, 3, 4, dtype="float32")]
    for want, got in zip(*(Interpreter(m)["main"](*inputs) for m in (mod, made)), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_symbolic_shapes_compute_the_same():
    x, y = np.ones((3, 4), "float32"), np.ones((3, 5), "float32")
    made = FuseOpsByPattern(CASES["a symbolic shape is a parameter"][1])(g.Reshaped)
    for a, b in zip(
        Interpreter(made)["main"](x, y), Interpreter(g.Reshaped)["main"](x, y), strict=True
    ):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize(
    ("mod", "patterns"),
    [
        (g.Renamed, [("x.er", EXP_RELU)]),  # another name between the two values
        (g.NoDataflow, [("x.er", EXP_RELU)]),
        (g.TwoConvs, []),
        (g.TwoConvs, each("x", "exp")),
        (g.Calls, [("x.ee", op("exp", op("exp")))]),  # loops are between them
    ],
    ids=["renamed", "no dataflow", "no pattern", "no match", "call_tir"],
)
def test_unchanged(mod, patterns):
    made = FuseOpsByPattern(patterns)(mod)
    assert structural_equal(made, mod)


def test_call_tir_stays():
    made = FuseOpsByPattern(each("x", "exp"))(g.Calls)
    called = [b.value.op for b in made["main"].body.blocks[0].bindings]
    assert [getattr(c, "name_hint", None) or c.name for c in called] == [
        "fused_relax_exp",
        "relax.call_tir",
        "fused_relax_exp",
    ]


@pytest.mark.parametrize("annotate", [False, True])
def test_a_second_run_changes_nothing(annotate):
    fuse = FuseOpsByPattern([("d.cr", CONV_RELU)], annotate_codegen=annotate)
    once = fuse(g.TwoConvs)
    assert structural_equal(fuse(once), once)


def test_a_tuple_field_as_root():
    # TVM looks for matches at calls only; here at fields too, as in a batch norm's first result.
    made = FuseOpsByPattern([("x.first", is_tuple_get_item(op("split"), 0))])(g.Split)
    x = np.arange(16, dtype="float32").reshape(4, 4)
    assert "fused_relax_split" in [v.name_hint for v in made.functions]
    np.testing.assert_array_equal(np.asarray(Interpreter(made)["main"](x)), x[:2] + x[2:])


@I.ir_module
class Local:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        @R.function
        def inner(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            with R.dataflow():
                a = R.exp(y)
                b = R.nn.relu(a)
                R.output(b)
            return b

        z = inner(x)
        return z


def test_local_functions():
    made = FuseOpsByPattern([("x.er", EXP_RELU)])(Local)
    assert "fused_relax_exp_relax_nn_relu" in [v.name_hint for v in made.functions]
    x = np.linspace(-1, 1, 4, dtype="float32")
    np.testing.assert_allclose(np.asarray(Interpreter(made)["main"](x)), np.exp(x), rtol=1e-6)
    assert structural_equal(FuseOpsByPattern(each("x", "sin"))(Local), Local)


def test_entry_functions():
    mod = lw.ir.IRModule(
        {
            "main": g.Chain["main"],
            "other": relax.utils.copy_with_new_vars(g.Chain["main"]).with_attr(
                "global_symbol", "other"
            ),
        }
    )
    made = FuseOpsByPattern(each("x", "exp"), entry_functions=["other"])(mod)
    assert made["main"] is mod["main"]
    assert "fused_relax_exp" in made["other"].script()


# ---------------------------------------------------------------------- checks and attributes


def test_what_a_check_sees():
    seen = []
    conv = op("nn.conv2d", ANY(), ANY())
    relu = op("nn.relu", conv)

    def check(context):
        seen.append(context)
        return (
            len(context.var_usages[context.value_to_bound_var[context.annotated_expr["conv"]]]) < 2
        )

    pattern = ("x.cr", relu, {"conv": conv, "relu": relu}, check)
    assert structural_equal(FuseOpsByPattern([pattern])(g.Branching), g.Branching)
    (context,) = seen
    block = g.Branching["main"].body.blocks[0].bindings
    data, weight = g.Branching["main"].params
    c, r, gelu, o = (b.var for b in block)
    assert context.matched_expr is block[1].value
    assert context.annotated_expr == {"conv": block[0].value, "relu": block[1].value}
    assert dict(context.matched_bindings) == {c: block[0].value, r: block[1].value}
    assert {v: list(u) for v, u in context.var_usages.items()} == {
        data: [c],
        weight: [c],
        c: [r, gelu],
        r: [o],
        gelu: [o],
        o: [],
    }
    # The values of the block up to the match: what comes later is not bound yet.
    assert dict(context.value_to_bound_var) == {block[0].value: c, block[1].value: r}
    both = ("x.cr", relu, {"conv": conv, "relu": relu}, lambda context: True)
    assert "fused_relax_nn_conv2d_relax_nn_relu" in FuseOpsByPattern([both])(g.Branching).script()


def test_a_check_without_annotations():
    pattern = ("x.exp", op("exp"), lambda context: context.matched_expr.args[0].name_hint != "x")
    made = FuseOpsByPattern([pattern])(g.Chain)
    called = [b.value.op for b in made["main"].body.blocks[0].bindings]
    assert [getattr(c, "name_hint", None) or c.name for c in called] == [
        "relax.exp",
        "fused_relax_exp",
        "fused_relax_exp",
    ]


def test_attributes_of_matches():
    conv = op("nn.conv2d", ANY(), ANY())
    pattern = FusionPattern(
        "x.c",
        op("nn.relu", conv),
        {"conv": conv},
        None,
        lambda found: {"pad": str(found["conv"].attrs.padding[0])},
    )
    made = FuseOpsByPattern([pattern])(g.TwoConvs)["fused_relax_nn_conv2d_relax_nn_relu"]
    assert dict(made.attrs) == {"Composite": "x.c", "Primitive": True, "pad": "1"}


# ---------------------------------------------------------------------- errors


def test_a_cycle():
    with pytest.raises(lw.TVMError) as error:
        FuseOpsByPattern([("x.ea", op("add", op("exp"), ANY()))])(g.Skip)
    assert str(error.value).splitlines()[:3] == [
        "A cyclic dependency detected: a match of pattern x.ea would need its own result",
        "  got: the match a, c and b need each other",
        "  instead: the values between the parts must be in the pattern, or refused by its check",
    ]


def test_a_cycle_between_two_matches():
    Crossed = graph(
        """
        a = R.exp(x)
        b = R.exp(y)
        c = R.add(a, R.sin(b))
        d = R.add(b, R.sin(a))
        """,
        "c, d",
        x=(4,),
        y=(4,),
    )

    with pytest.raises(lw.TVMError, match="A cyclic dependency detected"):
        FuseOpsByPattern([("x.ea", op("add", op("exp"), ANY()))])(Crossed)


def test_a_variable_defined_twice():
    again = g.Chain["main"].with_attr("global_symbol", "again")
    mod = lw.ir.IRModule({"main": g.Chain["main"], "again": again})
    with pytest.raises(ValueError) as error:
        FuseOpsByPattern(each("x", "exp"))(mod)
    assert str(error.value) == (
        "the variable x is defined in two functions\n"
        "  got: main and again\n"
        "  instead: copy a function with relax.utils.copy_with_new_vars"
    )


test_a_variable_defined_twice = pytest.mark.no_roundtrip(test_a_variable_defined_twice)


def test_an_unknown_entry_function():
    with pytest.raises(ValueError) as error:
        FuseOpsByPattern(each("x", "exp"), entry_functions=["mian"])(g.Chain)
    assert str(error.value) == (
        "entry_functions names a function that is not in the module\n"
        "  got: mian\n"
        "  instead: did you mean main?"
    )


def test_a_name_without_back_end():
    with pytest.raises(lw.TVMError) as error:
        FuseOpsByPattern([("conv", CONV_RELU)], annotate_codegen=True)(g.TwoConvs)
    assert str(error.value) == (
        "the name of a composite function begins with its back end's, before a dot\n"
        "  got: 'conv'\n"
        '  instead: such as "dnnl.conv2d"'
    )


@pytest.mark.parametrize(
    "given", ["x.exp", ("x.exp",), ("x.exp", "exp"), (1, op("exp")), ("x.exp", op("exp"), {}, 1)]
)
def test_what_is_no_pattern(given):
    with pytest.raises(TypeError, match="a pattern is a FusionPattern or a tuple"):
        FuseOpsByPattern([given])
