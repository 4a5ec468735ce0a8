"""Models that ask for more work than files of their size may, and those that only look so."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx import helper

from loopwright.base import budget
from loopwright.base.budget import BudgetError
from loopwright.base.errors import LoopwrightError
from loopwright.driver import compile, lower
from loopwright.frontend.onnx import from_onnx
from loopwright.relax.expr import Constant
from loopwright.relax.transform import FoldConstant
from tools.fuzz.hostile import HOSTILE

from .support import chain, close, floats, graph, ints, node, reference, value

pytestmark = [pytest.mark.no_roundtrip, pytest.mark.no_verify]


def row(count: int, make, first: str = "x") -> list[onnx.NodeProto]:
    """Nodes `make(input, output)` one after another; the last one's output is y."""
    names = [first, *(f"v{k}" for k in range(count - 1)), "y"]
    return [n for a, b in itertools.pairwise(names) for n in make(a, b)]


def local(*bodies: list[onnx.NodeProto]) -> onnx.ModelProto:
    """A model that calls own::f0; function k of one input a has the nodes `bodies[k]`."""
    versions = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    model = chain(node("f0", ["x"], ["y"], domain="own"), shape=[2], domains={"own": 1})
    for k, nodes in enumerate(bodies):
        made = helper.make_function("own", f"f{k}", ["a"], [nodes[-1].output[0]], nodes, versions)
        model.functions.append(made)
    return model


def calls(name: str, count: int) -> list[onnx.NodeProto]:
    domain = {} if name == "Relu" else {"domain": "own"}
    return row(count, lambda a, b: [node(name, [a], [b], **domain)], "a")


def runs(model: onnx.ModelProto, *inputs: np.ndarray) -> None:
    """A compiled model computes what onnxruntime does."""
    got = compile(model)["main"](*inputs)
    names = [port.name for port in model.graph.input]
    close([np.asarray(got)], reference(model, dict(zip(names, inputs, strict=True))))


# ---------------------------------------------------------------- nodes


def test_functions_that_double_are_refused_before_they_are_expanded():
    bodies = [calls(f"f{k + 1}", 2) for k in range(23)] + [calls("Relu", 2)]
    with pytest.raises(BudgetError) as refused:
        from_onnx(local(*bodies))
    assert str(refused.value) == (
        "this model takes more nodes once it is expanded than a file of its size may\n"
        "  got: 16777226 where 10000 are allowed\n"
        "  instead: set LOOPWRIGHT_BUDGET_NODES to more, or to 0 for no bound, if you trust the file\n"
        " --> onnx:f0:y"
    )


def test_functions_that_copy_large_constants_are_refused():
    large = helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(
        np.zeros(1 << 20, "float32")))  # fmt: skip
    model = local(calls("f1", 100), [large, node("Add", ["a", "c"], ["b"])])
    with pytest.raises(BudgetError, match=r"got: 401 where 32\d are allowed.*\n.*BUDGET_MB"):
        from_onnx(model)


def test_functions_that_call_each_other_are_named():
    with pytest.raises(LoopwrightError, match="a circle\n  got: own::f0 -> own::f1 -> own::f0"):
        from_onnx(local(calls("f1", 1), calls("f0", 1)))


def test_two_functions_of_one_name_are_refused():
    model = local(calls("Relu", 1))
    model.functions.append(model.functions[0])
    with pytest.raises(LoopwrightError, match="two functions of one name\n  got: own::f0"):
        from_onnx(model)


def test_the_bound_of_nodes_is_a_knob_and_grows_with_the_file(monkeypatch):
    weights = {"w": np.ones((64, 64), "float32")}
    model = graph(
        row(7, lambda a, b: [node("MatMul", [a, "w"], [b])]), [value("x", [1, 64])],
        [value("y", None)], weights,
    )  # fmt: skip
    monkeypatch.setenv("LOOPWRIGHT_BUDGET_NODES", "12")  # 7 nodes, 2 ports; 4 more for 16 KiB
    with pytest.raises(BudgetError, match="got: 17 where 16 are allowed"):
        from_onnx(model)
    for enough in ("13", "0"):
        monkeypatch.setenv("LOOPWRIGHT_BUDGET_NODES", enough)
        from_onnx(model)


def test_nodes_of_many_results_count_as_many():
    names = [f"y{k}" for k in range(11_000)]
    split = node("Split", ["x"], names, num_outputs=len(names))
    with pytest.raises(BudgetError, match="got: 11010 where 100.. are allowed"):
        from_onnx(chain(split, shape=[len(names)], opset=18))


def test_a_chain_of_thousands_of_nodes_compiles():
    runs(chain(*row(4000, lambda a, b: [node("Relu", [a], [b])]), shape=[4]), floats(4))


# ---------------------------------------------------------------- bytes


def doubling(count: int) -> onnx.ModelProto:
    nodes = row(count, lambda a, b: [node("Concat", [a, a], [b], axis=0)], "w")
    return graph(nodes, [], [value("y", None)], {"w": floats(64, 64)})


def test_folding_stops_where_constants_outgrow_the_file(monkeypatch):
    def folded() -> int:
        main = FoldConstant()(from_onnx(doubling(9)))["main"]
        assert isinstance(main.body.body, Constant)
        return main.body.body.data.nbytes

    assert folded() == 512 * 16 << 10  # without a budget: these modules are the program's own
    monkeypatch.setenv("LOOPWRIGHT_BUDGET_MB", "1")  # and 16 * 16 KiB: 1.25 MiB in all
    trace = lower(doubling(9))
    assert trace["LegalizeOps"].before["main"].script().count("R.concat(") == 4
    runs(doubling(9))


def test_constants_that_an_operator_makes_are_bounded():
    resize = node("Resize", ["x", "", "s"], ["y"], mode="cubic")
    scales = np.array([1, 1, 1e8, 1], "float32")
    model = graph([resize], [value("x", [1, 1, 4, 4])], [value("y", None)], {"s": scales}, 18)
    with pytest.raises(
        BudgetError, match="Resize: .*MiB of constants.*\n  got: .*\n.*_MB(.|\n)*onnx:"
    ):
        from_onnx(model)


def test_a_range_without_room_is_no_constant():
    """16 GiB of numbers ended the process."""
    bounds = {"zero": np.array(0), "many": np.array(1 << 31), "one": np.array(1)}
    nodes = [node("Range", [*bounds], ["r"]), node("Gather", ["r", "x"], ["y"])]
    ports = [value("x", [2], "int64")], [value("y", None, "int64")]
    assert compile(graph(nodes, *ports, bounds)).outputs() == [("y", "int64", (2,))]


@pytest.mark.parametrize("attribute", ["pads", "strides"])
def test_windows_far_beyond_constants_are_not_folded(attribute):
    far = {"pads": [2**30, 0, 0, 0], "strides": [2**30, 1]}
    conv = node("Conv", ["w", "k"], ["y"], **{**far, attribute: far[attribute]})
    weights = {"w": floats(1, 1, 4, 4), "k": floats(1, 1, 3, 3)}
    model = graph([conv], [], [value("y", None)], weights)
    assert compile(model).outputs()[0][2] == (1, 1, 2, 2)


# ---------------------------------------------------------------- seconds


def test_seconds_are_bounded_and_say_where(monkeypatch):
    model = chain(*row(400, lambda a, b: [node("Relu", [a], [b], f"relu_{b}")]), shape=[4])
    clock = itertools.count()
    monkeypatch.setattr(budget.time, "thread_time", lambda: next(clock) / 150)
    monkeypatch.setattr(budget, "LEAST_SECONDS", -1)
    with pytest.raises(BudgetError) as refused:  # 4 s, and 5 ms for each node and port
        from_onnx(model)
    said = str(refused.value).split("\n")
    assert said[0] == "Relu: this model takes more seconds of computing than a file of its size may"
    assert said[1] == "  got: 6.0 where 6.0 are allowed" and said[3].startswith(" --> onnx:relu_v")
    monkeypatch.setenv("LOOPWRIGHT_BUDGET_SECONDS", "0")
    compile(model)


def test_a_pass_is_named_where_the_seconds_are_over(monkeypatch):
    mod = from_onnx(chain(node("Relu", ["x"], ["y"]), shape=[4]))
    with budget.started(), pytest.raises(BudgetError, match=" --> pass FoldConstant"):
        monkeypatch.setattr(budget.time, "thread_time", lambda: 1e9)
        FoldConstant()(mod)


def test_modules_that_a_program_builds_have_no_bounds(monkeypatch):
    mod = from_onnx(chain(node("Relu", ["x"], ["y"]), shape=[4]))
    monkeypatch.setenv("LOOPWRIGHT_BUDGET_SECONDS", "1e-9")
    compile(mod)


# ---------------------------------------------------------------- what grows fast, but need not


def test_values_read_twice_many_times_in_a_row():
    def swish(a: str, b: str) -> list[onnx.NodeProto]:
        return [node("Sigmoid", [a], [f"s{b}"]), node("Mul", [a, f"s{b}"], [b])]

    runs(chain(*row(40, swish), shape=["n", 3]), floats(2, 3))


def test_values_read_twice_many_times_after_a_product():
    def swish(a: str, b: str) -> list[onnx.NodeProto]:
        return [node("Sigmoid", [a], [f"s{b}"]), node("Mul", [a, f"s{b}"], [b])]

    nodes = [node("MatMul", ["x", "w"], ["m"]), *row(20, swish, "m")]
    model = graph(nodes, [value("x", ["n", 3])], [value("y", None)], {"w": floats(3, 5)})
    runs(model, floats(2, 3))


def test_many_tensors_joined_and_split():
    joined = chain(node("Concat", ["x"] * 5000, ["y"], axis=0), shape=[2])
    runs(joined, floats(2))
    names = [f"p{k}" for k in range(200)]
    nodes = [
        node("Split", ["x", "sizes"], names, axis=1),
        node("Concat", names[::-1], ["y"], axis=1),
    ]
    sizes = np.arange(200) % 3
    wide = graph(
        nodes, [value("x", [2, int(sizes.sum())])], [value("y", None)], {"sizes": ints(*sizes)}
    )
    runs(wide, floats(2, int(sizes.sum())))


def test_a_window_of_channels_wider_than_there_are():
    for size in (1, 3, 9, 10**6 + 1):
        lrn = node("LRN", ["x"], ["y"], size=size)
        runs(chain(lrn, shape=["n", 5, 2, 1]), floats(1, 5, 2, 1))


@pytest.mark.parametrize("grow", ["Mul", "Max", "Mod"])
def test_integers_that_grow_without_end_are_refused(grow):
    def step(a: str, b: str) -> list[onnx.NodeProto]:
        both = [node(grow, [a, "m"], [f"g{b}"]), node("Add", [a, f"g{b}"], [f"s{b}"])]
        return [*both, node("Mul", [f"s{b}", f"g{b}"], [b])]

    nodes = [node("Shape", ["x"], ["n"]), node("Shape", ["z"], ["m"]), *row(30, step, "n")]
    nodes[-1].output[0] = "count"
    nodes.append(node("ConstantOfShape", ["count"], ["y"]))
    model = graph(nodes, [value("x", ["n"]), value("z", ["m"])], [value("y", None)])
    with pytest.raises(LoopwrightError, match="more than 2,000 operations(.|\n)*shape_dict"):
        from_onnx(model)


def test_tensors_of_more_dimensions_than_numpy_has_are_refused():
    wide = chain(node("Relu", ["x"], ["y"]), shape=[1] * 65)
    with pytest.raises(LoopwrightError, match="at most 64 dimensions\n  got: 65"):
        from_onnx(wide)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a tree of 2147483648 targets", "more MiB of constants"),
        ("RoiAlign, samples 2147483648", "at most 1,000"),
        ("RandomNormal 1099511627776", "out of memory for a result"),
        ("mel bins 1099511627776", "out of memory for a result"),
        ("RandomNormal -1", "may not be negative"),
        ("DFT of -1", "may not be negative"),
        ("mel bins 4611686018427387904", "out of memory for a result"),
    ],
)
def test_numbers_that_no_machine_has_room_for(name, message):
    with pytest.raises((LoopwrightError, MemoryError), match=message):
        exe = compile(onnx.load_from_string(HOSTILE[name]()))
        exe.run({})
