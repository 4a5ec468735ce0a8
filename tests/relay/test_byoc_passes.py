"""Programs in parts for other compilers: patterns as functions, marks, regions, partitions."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relay
from loopwright.ir import GlobalVar, assert_structural_equal
from loopwright.relay import transform as passes
from loopwright.relay.annotated_regions import AnnotatedRegionSet
from loopwright.relay.dataflow_pattern import is_op, wildcard
from loopwright.relay.op.annotation import compiler_begin, compiler_end
from loopwright.relay.op.contrib import get_pattern_table, register_pattern_table
from loopwright.relay.testing.byoc import CcompilerAnnotator
from loopwright.relay.testing.temp_op_attr import TempOpAttr
from loopwright.relay.transform.annotate_target import BEGIN, END
from loopwright.relay.walk import post_order

pytestmark = pytest.mark.no_roundtrip

x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))


def module(body: Any) -> lw.IRModule:
    """A module of an expression, with types."""
    return passes.InferType()(lw.IRModule.from_expr(body))


def same(mod: lw.IRModule, body: Any) -> None:
    """The module's main is the function of `body`."""
    assert_structural_equal(mod["main"], module(body)["main"])


@pytest.fixture
def takes() -> Iterator[None]:
    """The compiler "c" takes relu and abs of float32."""

    def rule(call: Any) -> bool:
        return call.args[0].checked_type.dtype == "float32"

    with TempOpAttr("nn.relu", "target.c", rule), TempOpAttr("abs", "target.c", rule):
        yield


def regions(body: Any) -> list[str]:
    """The module of regions of an expression: what each function for "c" computes."""
    steps = [passes.AnnotateTarget(["c"]), passes.MergeCompilerRegions(), passes.PartitionGraph()]
    mod = passes.Sequential(steps)(module(body))
    functions = [f for f in mod.functions.values() if f.attrs.get("Compiler") == "c"]
    calls = [[n for n in post_order(f) if isinstance(n, relay.Call)] for f in functions]
    return [" ".join(call.op.name for call in each) for each in calls]


def test_merge_composite_takes_the_first_pattern_and_asks_the_check() -> None:
    add = is_op("add")(wildcard(), wildcard())
    table = [
        ("c.add_relu", is_op("nn.relu")(add), lambda found: found.args[0].args[0] is not None),
        ("c.add", add, lambda found: found.checked_type.dtype == "float32"),
        ("c.never", add, lambda found: False),
    ]
    mod = passes.MergeComposite(table)(module(relay.abs(relay.nn.relu(x + y) + y)))
    found = [
        n.attrs["Composite"] for n in post_order(mod["main"].body) if type(n) is relay.Function
    ]
    assert sorted(found) == ["c.add", "c.add_relu"]
    with pytest.raises(ValueError, match="a row of a pattern table is"):
        passes.MergeComposite([add])


def test_functions_of_compilers_are_left_alone() -> None:
    func = relay.Function([x], relay.abs(x)).with_attr("Compiler", "c")
    mod = passes.InferType()(lw.IRModule({"f": func}))
    table = [("c.abs", is_op("abs")(wildcard()))]
    assert_structural_equal(passes.MergeComposite(table)(mod), mod)

    @passes.function_pass(opt_level=0)
    def refuse(given: Any, mod: Any, ctx: Any) -> Any:
        raise AssertionError(given)

    assert refuse(mod)["f"].attrs["Compiler"] == "c"


def test_annotate_target(takes: None) -> None:
    marked = passes.AnnotateTarget("c")(module(relay.exp(relay.nn.relu(x))))
    inside = compiler_end(relay.nn.relu(compiler_begin(x, "c")), "c")
    expected = compiler_end(relay.exp(compiler_begin(inside, "default")), "default")
    same(marked, expected)
    again = passes.AnnotateTarget("c")(marked)
    same(again, expected)


def test_annotate_target_of_structures(takes: None) -> None:
    pair = relay.TupleGetItem(relay.Tuple([relay.abs(x), relay.nn.relu(y)]), 1)
    inner = [relay.abs(compiler_begin(x, "c")), relay.nn.relu(compiler_begin(y, "c"))]
    ended = [compiler_end(each, "c") for each in inner]
    whole = passes.AnnotateTarget(["c"])(module(pair))
    marked = compiler_end(relay.Tuple([compiler_begin(each, "c") for each in ended]), "c")
    field = relay.TupleGetItem(compiler_begin(marked, "c"), 1)
    same(whole, relay.Function([x, y], compiler_end(field, "c")))
    calls = passes.AnnotateTarget(["c"], include_non_call_ops=False)(module(pair))
    same(calls, relay.Function([x, y], relay.TupleGetItem(relay.Tuple(ended), 1)))


def test_annotate_target_of_bound_values(takes: None) -> None:
    a, f = relay.var("a"), relay.var("f")
    body = relay.Let(a, relay.abs(x), relay.Let(f, relay.Function([y], relay.abs(y)), f(a)))
    marked = passes.AnnotateTarget(["c"], include_non_call_ops=False)(module(body))
    wanted = relay.Let(
        a,
        compiler_begin(compiler_end(relay.abs(compiler_begin(x, "c")), "c"), "c"),
        relay.Let(
            f,
            relay.Function([y], compiler_end(relay.abs(compiler_begin(y, "c")), "c")),
            f(a),
        ),
    )
    same(marked, wanted)


def test_a_test_of_a_compiler_marks_products_of_sums() -> None:
    z, w = relay.var("z", shape=(2, 3)), relay.var("w", shape=(2, 3))

    def begin(value: Any) -> Any:
        return compiler_begin(value, "ccompiler")

    def marked(body: Any) -> Any:
        return CcompilerAnnotator().visit(body)

    found = marked(relay.exp((relay.tanh(x) + y - z) * w))
    total = begin(relay.tanh(x)) + begin(y)
    wanted = relay.exp(compiler_end((total - begin(z)) * begin(w), "ccompiler"))
    assert_structural_equal(found, wanted, map_free_vars=True)
    assert_structural_equal(marked(x + y - z), x + y - z, map_free_vars=True)
    twice = marked((x + y) * (z + w))
    assert_structural_equal(
        twice,
        compiler_end((begin(x) + begin(y)) * (z + w), "ccompiler"),
        map_free_vars=True,
    )
    mod = passes.PartitionGraph()(module(marked(x * (y + z))))
    assert len(mod.functions) == 2


def test_a_region_begins_behind_the_marks_of_others() -> None:
    inner = compiler_end(relay.exp(compiler_begin(x, "d")), "d")
    ends = compiler_end(relay.abs(compiler_begin(inner, "c")), "c")
    mod = passes.PartitionGraph()(module(ends))
    made = [f for f in mod.functions.values() if f.attrs.get("Compiler")]
    assert sorted(f.attrs["Compiler"] for f in made) == ["c", "d"]
    assert [len(f.params) for f in made] == [1, 1]


def test_a_composite_belongs_to_the_compiler_of_its_name() -> None:
    func = relay.Function([y], relay.exp(y)).with_attr("Composite", "c.exp")
    marked = passes.AnnotateTarget(["d", "c"])(module(func(x)))
    same(marked, compiler_end(func(compiler_begin(x, "c")), "c"))


def test_neighbours_become_one_region(takes: None) -> None:
    assert regions(relay.nn.relu(relay.abs(x))) == ["abs nn.relu"]
    assert regions(relay.nn.relu(relay.exp(relay.abs(x)))) == ["abs", "nn.relu"]


def test_a_region_is_left_and_not_entered_again(takes: None) -> None:
    start = relay.abs(x)
    around = relay.exp(start)  # of no compiler, between two that could be one
    assert regions(relay.nn.relu(relay.concatenate([around, start], 0))) == ["abs", "nn.relu"]


def test_a_region_of_two_results(takes: None) -> None:
    first = relay.abs(x)
    body = relay.exp(first) + relay.exp(relay.nn.relu(first))
    steps = [
        passes.AnnotateTarget(["c"]),
        passes.MergeCompilerRegions(),
        passes.PartitionGraph("m"),
    ]
    mod = passes.Sequential(steps)(module(body))
    (name,) = [g.name_hint for g in mod.functions if g.name_hint != "main"]
    assert name.startswith("tvmgen_m_c_main_")
    assert set(mod[name].attrs.keys()) == {"global_symbol", "Primitive", "Compiler", "Inline"}
    assert isinstance(mod[name].body, relay.Tuple)
    calls = [n for n in post_order(mod["main"]) if isinstance(n, relay.Call)]
    assert sum(isinstance(c.op, GlobalVar) for c in calls) == 1


def test_constants_are_bound_or_arguments(takes: None) -> None:
    data = relay.const(np.ones((2, 3), "float32"))
    marked = module(relay.exp(compiler_end(x + compiler_begin(data, "c"), "c")))
    with pytest.raises(
        lw.LoopwrightError, match="some arguments are in a region, and some are not"
    ):
        passes.PartitionGraph()(marked)
    inside = compiler_begin(x, "c") + compiler_begin(data, "c")
    marked = module(compiler_end(inside, "c"))
    counts = []
    for bound in (True, False):
        mod = passes.PartitionGraph(bind_constants=bound)(marked)
        counts.append([len(f.params) for f in mod.functions.values() if f.attrs.get("Compiler")])
    assert counts == [[1], [2]]


def test_the_end_of_a_tuple_is_that_of_its_fields() -> None:
    begun = compiler_begin(x, "c")
    pair = compiler_end(relay.Tuple([relay.abs(begun), relay.exp(begun)]), "c")
    mod = passes.PartitionGraph()(module(pair))
    made = mod["tvmgen_default_c_main_0"]
    assert_structural_equal(mod["main"].ret_type, made.ret_type)
    assert [type(f) for f in mod["main"].body.fields] == [relay.TupleGetItem] * 2


def test_marks_that_do_not_go_together_are_errors() -> None:
    with pytest.raises(lw.LoopwrightError, match="Cannot find the corresponding region"):
        AnnotatedRegionSet(compiler_end(x, "c"), BEGIN, END)
    with pytest.raises(lw.LoopwrightError, match="a region of compiler c ends as one of d"):
        AnnotatedRegionSet(compiler_end(relay.abs(compiler_begin(x, "c")), "d"), BEGIN, END)


def test_a_long_chain_is_partitioned(takes: None) -> None:
    body: Any = x
    for i in range(1000):
        body = relay.abs(relay.nn.relu(body)) if i != 500 else relay.exp(body)
    assert [len(names.split()) for names in regions(body)] == [1000, 998]


def test_recursive_functions_compare() -> None:
    def loop(name: str) -> relay.Function:
        again = relay.var(
            name, relay.FuncType([relay.TensorType((2, 3))], relay.TensorType((2, 3)))
        )
        arg = relay.var("a", shape=(2, 3))
        return relay.Function([], relay.Let(again, relay.Function([arg], again(arg)), x))

    assert_structural_equal(loop("f"), loop("g"), map_free_vars=True)


def test_pattern_tables_by_compiler() -> None:
    row = ("c.abs", is_op("abs")(wildcard()))

    @register_pattern_table("test_pattern_tables")
    def table() -> Any:
        return [row]

    assert get_pattern_table("test_pattern_tables") == [row]
    assert get_pattern_table("nobody") is None


def test_functions_of_alike_names_have_functions_of_their_own(takes: None) -> None:
    func = relay.Function([x], relay.abs(x))
    mod = passes.InferType()(lw.IRModule({"f-a": func, "f_a": func}))
    steps = [passes.AnnotateTarget(["c"]), passes.PartitionGraph()]
    made = passes.Sequential(steps)(mod)
    names = {f.attrs["global_symbol"] for f in made.functions.values() if f.attrs.get("Compiler")}
    assert names == {"tvmgen_default_c_f_a_0", "tvmgen_default_c_f_a_0_"}


def test_labels_say_what_functions_compute() -> None:
    def labelled(body: Any) -> relay.Function:
        with passes.PassContext(opt_level=3):
            return passes.LabelOps()(module(body))["main"]

    image, weight = relay.var("i", shape=(1, 4, 6, 6)), relay.var("w", shape=(4, 4, 3, 3))
    conv = labelled(relay.nn.conv2d(image, weight, kernel_size=(3, 3)))
    assert conv.attrs["data_layout"] == "NCHW"
    hashes = [labelled(body).attrs["hash"] for body in (x + y, y + x, x * y)]
    assert hashes[0] == hashes[1] != hashes[2]
    assert len(hashes[0]) == 16
