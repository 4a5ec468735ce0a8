"""Loop on the virtual machine, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.frontend.onnx import from_onnx

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, info = helper.make_node, helper.make_tensor_value_info


def body(nodes, outs, state=(("v", F32, ["n"]),)):
    """A Loop's graph; each output is (name, type, shape)."""
    ins = [info("i", I64, []), info("go", BOOL, []), *(info(*s) for s in state)]
    return helper.make_graph(nodes, "body", ins, [info(*o) for o in outs])


def model(nodes: Any, inputs: Any, outputs: Any) -> Any:
    graph = helper.make_graph(
        nodes, "loops", [info(*i) for i in inputs], [info(*o) for o in outputs]
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def check(made: Any, *many: dict[str, Any]) -> Any:
    onnxruntime = pytest.importorskip("onnxruntime")
    exe = lw.compile(made)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    for feeds in many:
        got = exe.run(feeds)
        for want, (name, tensor) in zip(session.run(None, feeds), got.items(), strict=True):
            np.testing.assert_allclose(tensor.numpy(), want, rtol=1e-5, err_msg=name)
            assert tensor.dtype == want.dtype.name
    return exe


def ramp(*shape):
    return np.arange(np.prod(shape), dtype="float32").reshape(shape) + 1


def test_a_loop_until_its_limit_or_its_condition():
    turn = body(
        [
            node("Add", ["v", "step"], ["w"]),
            node("ReduceSum", ["w"], ["total"], keepdims=0),
            node("Less", ["total", "bound"], ["again"]),
            node("Mul", ["w", "w"], ["square"]),
        ],
        [("again", BOOL, []), ("w", F32, ["n"]), ("square", F32, ["n"])],
    )
    made = model(
        [node("Loop", ["limit", "", "x"], ["y", "squares"], body=turn), node("Neg", ["y"], ["z"])],
        [("x", F32, ["n"]), ("step", F32, ["n"]), ("bound", F32, []), ("limit", I64, [])],
        [("z", F32, ["n"]), ("squares", F32, ["k", "n"])],
    )

    def feeds(n, limit, bound):
        size = {"x": ramp(n), "step": ramp(n) / 8}
        return {**size, "bound": np.array(bound, "float32"), "limit": np.array(limit)}

    exe = check(made, feeds(3, 4, 1e9), feeds(3, 50, 30), feeds(5, 1, 0), feeds(2, 1200, 1e30))
    # A turn is one call of a native part, which computes whether there is another one, too; the call of
    # itself is a jump.
    text = exe.machine_runner.program.as_text().partition("@loop:")[2].partition("@")[0]
    assert "loop " not in text and "goto" in text and text.count("loop_part") == 1
    assert "truth" not in exe.machine_runner.source("loop")


def test_a_loop_without_turns_or_without_a_limit():
    turn = body(
        [
            node("Add", ["v", "v"], ["w"]),
            node("ReduceMax", ["w"], ["most"], keepdims=0),
            node("Less", ["most", "bound"], ["again"]),
        ],
        [("again", BOOL, []), ("w", F32, ["n"])],
    )
    inputs = [("x", F32, ["n"]), ("bound", F32, []), ("first", BOOL, [])]
    loop = node("Loop", ["", "first", "x"], ["y"], body=turn)
    made = model([loop], inputs, [("y", F32, ["n"])])
    feeds = {"x": ramp(3), "bound": np.array(100, "float32"), "first": np.array(True)}
    check(made, feeds, {**feeds, "first": np.array(False)})


def test_a_state_that_grows():
    one = node("Unsqueeze", ["f", "zero"], ["item"])
    turn = body(
        [
            node("Cast", ["i"], ["f"], to=F32),
            node("Constant", [], ["zero"], value=helper.make_tensor("z", I64, [1], [0])),
            one,
            node("Concat", ["v", "item"], ["w"], axis=0),
            node("Identity", ["go"], ["again"]),
        ],
        [("again", BOOL, []), ("w", F32, ["m"])],
    )
    made = model(
        [node("Loop", ["limit", "", "x"], ["y"], body=turn), node("Add", ["y", "y"], ["z"])],
        [("x", F32, ["n"]), ("limit", I64, [])],
        [("z", F32, ["k"])],
    )
    check(made, *({"x": ramp(2), "limit": np.array(k)} for k in (0, 1, 5)))


def test_a_state_of_which_a_turn_knows_the_rank_alone():
    """What the number of the turn cuts out has a shape that the run tells."""
    turn = body(
        [
            node("Constant", [], ["one"], value=helper.make_tensor("o", I64, [1], [1])),
            node("Reshape", ["i", "one"], ["first"]),
            node("Add", ["first", "one"], ["last"]),
            node("Slice", ["all", "first", "last"], ["part"]),
            node("Add", ["v", "part"], ["w"]),
            node("Identity", ["w"], ["kept"]),
            node("Identity", ["go"], ["again"]),
        ],
        [("again", BOOL, []), ("w", F32, ["m"]), ("kept", F32, ["k"])],
    )
    made = model(
        [node("Loop", ["limit", "", "x"], ["y", "z"], body=turn)],
        [("x", F32, [1]), ("limit", I64, []), ("all", F32, [6])],
        [("y", F32, ["a"]), ("z", F32, ["t", "b"])],
    )
    check(made, *({"x": ramp(1), "limit": np.array(k), "all": ramp(6)} for k in (1, 4)))


def test_a_loop_in_a_loop_and_in_a_branch():
    inner = helper.make_graph(
        [
            node("Add", ["iv", "x"], ["iw"]),
            node("Identity", ["igo"], ["iagain"]),
        ],
        "inner",
        [info("ii", I64, []), info("igo", BOOL, []), info("iv", F32, ["n"])],
        [info("iagain", BOOL, []), info("iw", F32, ["n"])],
    )
    turn = body(
        [
            node("Loop", ["i", "", "v"], ["w"], body=inner),
            node("Identity", ["go"], ["again"]),
        ],
        [("again", BOOL, []), ("w", F32, ["n"])],
    )
    outs = [info("y", F32, ["n"])]
    then = helper.make_graph([node("Loop", ["limit", "", "x"], ["y"], body=turn)], "t", [], outs)
    other = helper.make_graph([node("Neg", ["x"], ["y"])], "e", [], outs)
    made = model(
        [node("If", ["c"], ["r"], then_branch=then, else_branch=other)],
        [("x", F32, ["n"]), ("limit", I64, []), ("c", BOOL, [])],
        [("r", F32, ["n"])],
    )
    feeds = {"x": ramp(3), "limit": np.array(4), "c": np.array(True)}
    check(made, feeds, {**feeds, "c": np.array(False)})


def test_sizes_of_the_graph_around_a_loop():
    turn = body(
        [
            node("Shape", ["big"], ["dims"]),
            node("Cast", ["dims"], ["real"], to=F32),
            node("ReduceSum", ["real"], ["size"], keepdims=0),
            node("Add", ["v", "size"], ["w"]),
            node("Identity", ["go"], ["again"]),
        ],
        [("again", BOOL, []), ("w", F32, ["n"])],
    )
    made = model(
        [node("Loop", ["limit", "", "x"], ["y"], body=turn)],
        [("x", F32, ["n"]), ("big", F32, ["a", "b"]), ("limit", I64, [])],
        [("y", F32, ["n"])],
    )
    check(made, {"x": ramp(3), "big": ramp(4, 5), "limit": np.array(3)})


def test_what_a_loop_cannot_do_is_said():
    turn = body(
        [node("Unsqueeze", ["v", "zero"], ["w"]), node("Identity", ["go"], ["again"])],
        [("again", BOOL, []), ("w", F32, [1, "n"])],
    )
    made = model(
        [
            node("Constant", [], ["zero"], value=helper.make_tensor("z", I64, [1], [0])),
            node("Loop", ["limit", "", "x"], ["y"], name="grow", body=turn),
        ],
        [("x", F32, ["n"]), ("limit", I64, [])],
        [("y", F32, [1, "n"])],
    )
    with pytest.raises(lw.LoopwrightError, match="must keep its rank(?s:.)*onnx:grow"):
        from_onnx(made)


def test_data_dependent_shapes_in_a_model_with_control_flow():
    """NonZero -> Gather, If and Loop in one model."""
    turn = body(
        [node("Add", ["v", "v"], ["w"]), node("Identity", ["go"], ["again"])],
        [("again", BOOL, []), ("w", F32, ["m"])],
        [("v", F32, ["m"])],
    )
    outs = [info("b", F32, ["m"])]
    then = helper.make_graph([node("Neg", ["kept"], ["b"])], "t", [], outs)
    other = helper.make_graph([node("Abs", ["kept"], ["b"])], "e", [], outs)
    made = model(
        [
            node("NonZero", ["x"], ["places"]),
            node("Constant", [], ["axis"], value=helper.make_tensor("a", I64, [1], [0])),
            node("Squeeze", ["places", "axis"], ["flat"]),
            node("Gather", ["x", "flat"], ["kept"]),
            node("If", ["c"], ["r"], then_branch=then, else_branch=other),
            node("Loop", ["limit", "", "r"], ["y"], body=turn),
        ],
        [("x", F32, ["n"]), ("limit", I64, []), ("c", BOOL, [])],
        [("y", F32, ["k"])],
    )
    x = np.array([0, 2, 0, -3, 4, 0], "float32")
    feeds = {"x": x, "limit": np.array(3), "c": np.array(True)}
    check(made, feeds, {**feeds, "c": np.array(False)}, {**feeds, "x": x * 0})


def runtime(op_type: str, extra: dict[str, Any], x: Any = None, **attributes: Any) -> Any:
    """A model of one operator whose integer inputs are computed at run time."""
    numbers = {name: np.asarray(v, np.int64) for name, v in extra.items()}
    nodes = [node("Abs", [n], [f"{n}_abs"]) for n in numbers]
    nodes += [node("Sign", [n], [f"{n}_sign"]) for n in numbers]
    nodes += [node("Mul", [f"{n}_abs", f"{n}_sign"], [f"{n}_"]) for n in numbers]
    first = [] if x is None else ["x"]
    nodes.append(node(op_type, [*first, *(f"{n}_" for n in numbers)], ["y"], "it", **attributes))
    inputs = [(n, I64, list(v.shape)) for n, v in numbers.items()]
    inputs += [] if x is None else [("x", F32, ["a", "b"])]
    kind = F32 if x is not None or op_type == "ConstantOfShape" else I64
    rank = {"Reshape": 2, "ConstantOfShape": 2, "Range": 1}.get(op_type, 2)
    made = model(nodes, inputs, [("y", kind, [f"o{k}" for k in range(rank)])])
    return made, numbers | ({} if x is None else {"x": x})


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("op_type", "extra", "x"),
    [
        ("Reshape", {"shape": [3, 4]}, ramp(2, 6)),
        ("Reshape", {"shape": [-1, 4]}, ramp(2, 6)),
        ("Reshape", {"shape": [0, -1]}, ramp(2, 6)),
        ("Slice", {"starts": [1], "ends": [3]}, ramp(4, 2)),
        ("Slice", {"starts": [-3, 1], "ends": [-1, 99]}, ramp(4, 3)),
        ("Slice", {"starts": [3], "ends": [1]}, ramp(4, 2)),
        ("ConstantOfShape", {"shape": [2, 3]}, None),
        ("ConstantOfShape", {"shape": [0, 3]}, None),
        ("Expand", {"shape": [4, 3]}, ramp(1, 3)),
    ],
)
def test_integers_known_at_run_time(op_type, extra, x):
    if op_type == "Expand":
        made, feeds = runtime(op_type, extra, x)
        fixed = made.graph.input[-1].type.tensor_type.shape.dim
        for dim, size in zip(fixed, x.shape, strict=True):
            dim.Clear()
            dim.dim_value = size
    else:
        made, feeds = runtime(op_type, extra, x)
    exe = check(made, feeds)
    assert exe.machine_runner is not None


def test_integers_that_fit_nothing_are_errors():
    made, feeds = runtime("Reshape", {"shape": [3, 4]}, ramp(2, 6))
    exe = lw.compile(made)
    with pytest.raises(ValueError, match=r"of shape \(2, 6\) cannot be reshaped\n  got: \(5, -1\)"):
        exe.run({**feeds, "shape": np.array([5, -1])})
    made, feeds = runtime("ConstantOfShape", {"shape": [2, 3]})
    with pytest.raises(ValueError, match="a size may not be negative"):
        lw.compile(made).run({"shape": np.array([2, -3])})


def test_a_body_without_the_carried_values_is_refused():
    turn = body([node("Identity", ["go"], ["again"])], [("again", BOOL, [])])
    loop = node("Loop", ["count", "", "x"], ["y"], body=turn)
    inputs = [info("count", I64, []), info("x", F32, [2])]
    graph = helper.make_graph([loop], "loops", inputs, [info("y", F32, [2])])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(
        LoopwrightError, match="a condition and 1 carried values\n.*got: outputs: 1"
    ):
        from_onnx(made)


def test_bags_of_embeddings():
    """As torch exports EmbeddingBag: only the run tells how many starts a slice has, as they are a slice."""

    def const(name, value):
        return node("Constant", [], [name], value=numpy_helper.from_array(np.array(value)))

    def way(*nodes):
        return helper.make_graph(nodes, "way", [], [info(nodes[-1].output[0], F32, ["c"])])

    picked = way(
        node("Slice", ["picked", "begin", "end"], ["rows"]),
        node("ReduceSum", ["rows", "first"], ["sum"], keepdims=0),
    )
    nothing = way(const("zeros", np.zeros(3, "float32")))
    turn = body(
        [
            node("Reshape", ["i", "ones"], ["at"]),
            node("Add", ["at", "ones"], ["after"]),
            node("Add", ["after", "ones"], ["behind"]),
            node("Slice", ["offsets", "at", "after"], ["begin"]),
            node("Slice", ["offsets", "after", "behind"], ["end"]),
            node("Less", ["begin", "end"], ["some"]),
            node("If", ["some"], ["bag"], then_branch=picked, else_branch=nothing),
            node("Identity", ["go"], ["again"]),
        ],
        [("again", BOOL, []), ("bag", F32, ["c"])],
        (),
    )
    made = model(
        [
            const("ones", [1]),
            const("first", [0]),
            node("Gather", ["table", "words"], ["picked"]),
            node("Loop", ["count", ""], ["y"], body=turn),
        ],
        [("table", F32, ["v", 3]), ("words", I64, ["n"]), ("offsets", I64, ["m"]), ("count", I64, [])],
        [("y", F32, ["k", "c"])],
    )  # fmt: skip
    words = np.array([1, 0, 4, 4, 2])
    many = [
        {"table": ramp(5, 3), "words": words, "offsets": np.array(o), "count": np.array(len(o) - 1)}
        for o in ([0, 2, 2, 5], [0, 5])
    ]
    exe = check(made, *many)
    bags = [ramp(5, 3)[words[a:b]].sum(0) for a, b in ((0, 2), (2, 2), (2, 5))]
    np.testing.assert_array_equal(exe.run(many[0])["y"].numpy(), bags)
