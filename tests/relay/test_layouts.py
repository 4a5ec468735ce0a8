"""Layouts of Relay's operators: what moves, what stays, and that no number changes."""

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relay
from loopwright.relay import transform as passes
from loopwright.relay.operators.layouts import InferCorrectLayoutOutput
from loopwright.relay.testing.temp_op_attr import TempOpAttr
from loopwright.relay.transform.alter_rules import conv2d_alter_layout, dense_alter_layout
from loopwright.relay.walk import post_order
from tests.relay.test_passes import after, agree, names

pytestmark = pytest.mark.no_roundtrip

nn = relay.nn
x = relay.var("x", shape=(1, 8, 6, 6))
w = relay.var("w", shape=(16, 8, 3, 3))
v = relay.var("v", shape=(16, 16, 3, 3))
c = [relay.var(f"c{i}", shape=(16,)) for i in range(4)]
conv = nn.conv2d(x, w, padding=(1, 1))
NHWC = passes.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})


class InBlocks(passes.AlterOpLayout):
    """AlterOpLayout with convolutions in blocks of four channels."""

    def run_function(self, func: Any, mod: Any) -> Any:
        def rule(attrs: Any, inputs: Any, infos: Any, out_type: Any) -> Any:
            return nn.conv2d(*inputs, **{**dict(attrs), "data_layout": "NCHW4c"})

        with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", rule):
            return super().run_function(func, mod)


def moves(func: Any) -> list[tuple[str, str]]:
    """The layouts between which a function moves values."""
    calls = [n for n in post_order(func) if isinstance(n, relay.Call)]
    return [
        (n.attrs.src_layout, n.attrs.dst_layout) for n in calls if n.op.name == "layout_transform"
    ]


def attrs_of(func: Any, name: str) -> Any:
    calls = [n for n in post_order(func) if isinstance(n, relay.Call)]
    return next(n.attrs for n in calls if n.op.name == name)


def both(data: Any) -> Any:
    return data.astuple() if isinstance(data, relay.TupleWrapper) else data


# what follows the convolution, the attributes in blocks, the attributes as NHWC. None: it does not
# follow, and gets the convolution's result as it was
AFTER: list[tuple[Any, Any, Any]] = [
    (nn.relu(conv), {}, {}),
    (nn.leaky_relu(conv, 0.1), {}, {}),
    (relay.cast(conv, "float64"), {}, {}),
    (nn.max_pool2d(conv, (2, 2)), {"layout": "NCHW4c"}, {"layout": "NHWC"}),
    (nn.avg_pool2d(conv, (3, 2), (2, 1)), {"layout": "NCHW4c"}, {"layout": "NHWC"}),
    (nn.global_avg_pool2d(conv), {"layout": "NCHW4c"}, {"layout": "NHWC"}),
    (nn.adaptive_max_pool2d(conv, (3, 3)), {"layout": "NCHW4c"}, {"layout": "NHWC"}),
    (nn.upsampling(conv, 2, 2), {"layout": "NCHW4c"}, {"layout": "NHWC"}),
    (relay.image.resize2d(conv, (9, 4)), None, {"layout": "NHWC"}),
    (relay.sum(conv, 1, keepdims=True), {"axis": (1, 4)}, {"axis": (3,)}),
    (relay.sum(conv, [0, 2]), {"axis": (0, 2)}, {"axis": (0, 1)}),
    (relay.max(conv, 1, exclude=True), {"axis": (1, 4)}, {"axis": (3,)}),
    (relay.mean(conv, [1, 3]), {"axis": (1, 3, 4)}, {"axis": (2, 3)}),
    (relay.variance(conv, 1, True), {"axis": (1, 4)}, {"axis": (3,)}),
    (relay.argmax(conv, 1), {"axis": (1, 4)}, {"axis": (3,)}),
    (relay.argmin(conv, [2, 3]), {"axis": (2, 3)}, {"axis": (1, 2)}),
    (relay.argmax(conv, [1, 3]), None, None),
    (relay.concatenate([conv, nn.relu(conv)], 1), {"axis": 1}, {"axis": 3}),
    (both(relay.split(conv, 4, 1)), {"axis": 1}, {"axis": 3}),
    (both(relay.split(conv, 8, 1)), None, {"axis": 3}),
    (both(relay.split(conv, (8, 12), 1)), {"indices_or_sections": (2, 3)}, {"axis": 3}),
    (both(relay.split(conv, (6,), 1)), None, {"indices_or_sections": (6,)}),
    (relay.squeeze(conv, [0]), {"axis": (0,)}, {"axis": (0,)}),
    (relay.squeeze(conv), {"axis": (0,)}, {"axis": (0,)}),
    (nn.dropout(conv), {}, {}),
    (relay.transpose(conv, (0, 2, 3, 1)), None, {"axes": (0, 1, 2, 3)}),
    (relay.transpose(conv), None, {"axes": (2, 1, 3, 0)}),
    (
        nn.pad(conv, ((0, 0), (0, 0), (1, 0), (0, 2))),
        {"pad_width": ((0, 0), (0, 0), (1, 0), (0, 2), (0, 0))},
        {"pad_width": ((0, 0), (1, 0), (0, 2), (0, 0))},
    ),
    (
        nn.pad(conv, ((0, 0), (1, 0), (0, 0), (0, 0))),
        None,
        {"pad_width": ((0, 0), (0, 0), (0, 0), (1, 0))},
    ),
    (
        relay.strided_slice(conv, [0, 4], [1, 12]),
        {"begin": (0, 1), "end": (1, 3)},
        {"begin": (0, 0, 0, 4), "end": (1, 6, 6, 12)},
    ),
    (
        relay.strided_slice(conv, [3, 1], [7, 6], [1, 2], axes=[1, 2]),
        None,
        {"begin": (3, 1), "end": (7, 6), "strides": (1, 2), "axes": (3, 1)},
    ),
    (
        relay.strided_slice(conv, [1, 4], [3, 8], axes=[3, 1], slice_mode="size"),
        {"begin": (1, 1), "end": (4, 3), "axes": (3, 1)},
        {"begin": (1, 4), "end": (4, 12), "axes": (2, 3)},
    ),
    (relay.slice_like(conv, nn.relu(conv), (2, 3)), {"axes": (2, 3)}, {"axes": (1, 2)}),
    (nn.l2_normalize(conv, 1e-5, [1]), None, {"axis": (3,)}),
    (nn.layer_norm(conv, c[0], c[1], axis=1), None, {"axis": 3}),
    (nn.instance_norm(conv, c[0], c[1]), None, {"axis": 3}),
    (nn.batch_norm(conv, *c)[0], None, {"axis": 3}),
    (both(relay.topk(conv, 2, 3)), {"axis": 3}, {"axis": 2}),
    (relay.topk(conv, 2, 2, "values"), {"axis": 2}, {"axis": 1}),
    (nn.prelu(conv, c[0]), None, None),
    (nn.batch_flatten(conv), None, None),
]


@pytest.mark.parametrize("number", range(len(AFTER)))
@pytest.mark.parametrize("steps", [InBlocks(), NHWC], ids=["blocks", "NHWC"])
def test_operators_follow_a_convolution(number: int, steps: Any) -> None:
    expr, blocks, nhwc = AFTER[number]
    want = nhwc if steps is NHWC else blocks
    changed = after(expr, steps)
    inner = expr.tuple_value if isinstance(expr, relay.TupleGetItem) else expr
    name = inner.op.name
    have = attrs_of(changed, name)
    if want is None:
        calls = [n for n in post_order(changed) if isinstance(n, relay.Call)]
        assert {n.op.name for n in calls if n.op.name == name} and moves(changed)[-1][1] == "NCHW"
        want = {}
    for key, value in want.items():
        assert have[key] == value, f"{key} of {name}"


def leaves(expr: Any) -> list[Any]:
    """An expression, or the fields of one whose value is a tuple."""
    count = getattr(after(expr).body.checked_type, "fields", None)
    return [expr] if count is None else [relay.TupleGetItem(expr, i) for i in range(len(count))]


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize("steps", [InBlocks(), NHWC], ids=["blocks", "NHWC"])
def test_what_follows_a_convolution_is_computed_as_before(
    rng: np.random.Generator, steps: Any
) -> None:
    agree(rng, relay.Tuple([leaf for expr, _, _ in AFTER for leaf in leaves(expr)]), steps)


SHAPES = [(16, 1, 1), (6, 6), (1,), (), (1, 1, 1, 1), (1, 16, 6, 6), (2, 1, 1, 6)]


@pytest.mark.parametrize("steps", [InBlocks(), NHWC], ids=["blocks", "NHWC"])
def test_operands_are_broadcast_in_any_layout(rng: np.random.Generator, steps: Any) -> None:
    found = []
    for n, shape in enumerate(SHAPES):
        other = relay.var(f"other{n}", shape=shape)
        found += [nn.relu(relay.subtract(*pair)) for pair in ((other, conv), (conv, other))]
        for expr in found[-2:]:  # the result alone moves back
            assert len([m for m in moves(after(expr, steps)) if m[1] == "NCHW"]) == 1
    agree(rng, relay.Tuple(found), steps)


def test_a_value_moves_once() -> None:
    y = nn.relu(conv)
    found = after(relay.Tuple([nn.conv2d(y, v), nn.conv2d(y, v), nn.batch_flatten(y)]), InBlocks())
    assert moves(found) == [("NCHW", "NCHW4c"), *[("NCHW4c", "NCHW")] * 3]
    assert names(found).count("layout_transform") == 4


def test_a_field_of_a_tuple_is_taken_as_it_is_stored() -> None:
    found = after(relay.Tuple([nn.relu(conv), x])[0], InBlocks())
    assert len(moves(found)) == 2 and names(found)[-1] == "layout_transform"


def test_nothing_to_alter_is_the_same_function() -> None:
    mod = passes.InferType()(lw.IRModule.from_expr(nn.relu(conv)))
    assert passes.AlterOpLayout()(mod)["main"] is mod["main"]


def test_blocks_in_blocks(rng: np.random.Generator) -> None:
    def rule(attrs: Any, inputs: Any, infos: Any, out_type: Any) -> Any:
        assert [tuple(map(int, i.shape)) for i in infos] == [(1, 8, 6, 6), (16, 8, 3, 3)]
        layouts = {"data_layout": "NCHW2c", "kernel_layout": "OHWI2i8o2i"}
        return nn.conv2d(*inputs, **{**dict(attrs), **layouts})

    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", rule):
        agree(rng, conv, passes.AlterOpLayout())


def test_a_rule_of_ones_own() -> None:
    met: list[Any] = []

    def rule(attrs: Any, new: Any, old: Any, types: Any) -> Any:
        met.append((new and str(new[0]), old[0] and str(old[0])))
        return InferCorrectLayoutOutput([(new or old)[0]], [(new or old)[0]], attrs)

    with TempOpAttr("nn.relu", "FInferCorrectLayout", rule):
        assert len(moves(after(nn.relu(conv), NHWC))) == 3
    assert met == [(None, "NCHW"), ("NHWC", "NCHW")]


@pytest.mark.parametrize(
    "rule, message",
    [
        (lambda *_: x, "the rule of nn.conv2d returns a call"),
        (lambda attrs, args, *_: nn.relu(args[0]), "nn.relu, with 1"),
    ],
)
def test_what_stands_for_a_call_is_checked(rule: Any, message: str) -> None:
    alter = passes.AlterOpLayout()
    temporary = TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", rule)
    with temporary, pytest.raises(lw.LoopwrightError, match=message):
        after(conv, alter)


@pytest.mark.parametrize("made", [None, relay.reshape(x, (1, 288))])
def test_operators_without_a_rule_of_layouts(made: Any) -> None:
    flat = nn.batch_flatten(x)
    with TempOpAttr("nn.batch_flatten", "FTVMAlterOpLayout", lambda *_: made):
        found = after(nn.relu(flat), passes.AlterOpLayout())
    assert names(found) == ["nn.batch_flatten" if made is None else "reshape", "nn.relu"]


def test_a_conversion_of_ones_own() -> None:
    asked: list[Any] = []

    def rule(attrs: Any, inputs: Any, infos: Any, desired: Any) -> Any:
        asked.append(([tuple(map(int, i.shape)) for i in infos], desired))
        return relay.reshape(inputs[0], (1, 288)) if len(asked) == 1 else None

    with TempOpAttr("nn.batch_flatten", "FTVMConvertOpLayout", rule):
        for wanted in ("reshape", "nn.batch_flatten"):
            steps = passes.ConvertLayout({"nn.batch_flatten": ["NHWC"]})
            assert names(after(nn.batch_flatten(x), steps)) == [wanted]
    assert asked == [([(1, 8, 6, 6)], ["NHWC"])] * 2


def test_desired_layouts(rng: np.random.Generator) -> None:
    pool = nn.max_pool2d(conv, (2, 2))
    found = after(
        pool, passes.ConvertLayout({"nn.conv2d": ["NHWC", "OHWI"], "nn.max_pool2d": ["NCHW"]})
    )
    assert attrs_of(found, "nn.conv2d").kernel_layout == "OHWI"
    assert attrs_of(found, "nn.max_pool2d").layout == "NCHW"
    depthwise = nn.conv2d(x, relay.var("d", shape=(8, 1, 3, 3)), groups=8)
    assert attrs_of(after(depthwise, NHWC), "nn.conv2d").kernel_layout == "HWOI"
    agree(rng, depthwise, NHWC)
    tiles = passes.ConvertLayout({"nn.conv2d": ["NCHW4c", "OIHW4i4o"]})
    assert "nn.contrib_conv2d_NCHWc" in names(after(conv, tiles))
    agree(rng, conv, tiles)
    with pytest.raises(ValueError, match="no usual layout"):
        after(conv, passes.ConvertLayout({"nn.conv2d": ["CHWN", "default"]}))
    with pytest.raises(ValueError, match="desired layouts of nn.conv2d"):
        after(conv, passes.ConvertLayout({"nn.conv2d": ["default"]}))


def test_layers_that_are_skipped() -> None:
    two = nn.conv2d(conv, v)
    with passes.LayoutConfig(skip_layers=[0]) as config:
        found = after(two, NHWC)
    calls = [n for n in post_order(found) if isinstance(n, relay.Call) and n.op.name == "nn.conv2d"]
    assert [n.attrs.data_layout for n in calls] == ["NCHW", "NHWC"] and config.skip_counter == 2
    assert passes.LayoutConfig.current is None


@pytest.mark.parametrize(
    "source, target", [("NCHW", "NCHW1c"), ("NCHW1c", "NHWC"), ("NC1c4n", "CN2n1c")]
)
def test_blocks_of_one_element(source: str, target: str) -> None:
    shape = {"NCHW": (2, 3, 4, 5), "NCHW1c": (2, 3, 4, 5, 1), "NC1c4n": (2, 3, 1, 4)}[source]
    data = relay.var("data", shape=shape)
    there = relay.layout_transform(data, source, target)
    func = relay.Function([data], relay.layout_transform(there, target, source))
    array = np.random.default_rng(0).random(shape, "float32")
    made = relay.create_executor("graph", lw.IRModule.from_expr(func), target="llvm").evaluate()
    np.testing.assert_array_equal(made(array).numpy(), array)


AVX2 = lw.Target("llvm -mcpu=core-avx2")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "shape, weight, groups, want",
    [
        ((1, 32, 6, 6), (16, 32, 3, 3), 1, ("NCHW8c", "OIHW8i8o", "NCHW8c")),
        ((1, 3, 6, 6), (20, 3, 3, 3), 1, ("NCHW3c", "OIHW3i5o", "NCHW5c")),
        ((1, 12, 6, 6), (12, 1, 3, 3), 12, ("NCHW6c", "OIHW1i6o", "NCHW6c")),
        ((1, 8, 6, 6), (8, 4, 3, 3), 2, None),
        ((1, 4, 6, 6), (7, 4, 3, 3), 1, ("NCHW4c", "OIHW4i7o", "NCHW7c")),
        ((1, 4, 6, 6), (11, 4, 3, 3), 1, None),
    ],
)
def test_blocks_that_fill_vectors(
    rng: np.random.Generator, shape: Any, weight: Any, groups: int, want: Any
) -> None:
    data, kernel = relay.var("data", shape=shape), relay.var("kernel", shape=weight)
    expr = nn.conv2d(data, kernel, groups=groups, kernel_size=weight[2:])
    with AVX2, TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", conv2d_alter_layout):
        found = after(expr, passes.AlterOpLayout())
        last = next(n for n in names(found)[::-1] if n.startswith("nn."))
        attrs = attrs_of(found, last)
        assert (attrs.get_int("groups"), attrs.get_int_tuple("kernel_size")) == (groups, weight[2:])
        layouts = [attrs.get_str(f"{n}_layout") for n in ("data", "kernel", "out")]
        assert layouts == list(want or ("NCHW", "OIHW", ""))
        agree(rng, expr, passes.AlterOpLayout())


def test_rows_that_fill_vectors(rng: np.random.Generator) -> None:
    data, kernel = relay.var("data", shape=(3, 5)), relay.var("kernel", shape=(24, 5))
    expr = nn.dense(data, kernel)
    with AVX2, TempOpAttr("nn.dense", "FTVMAlterOpLayout", dense_alter_layout):
        assert (
            attrs_of(after(expr, passes.AlterOpLayout()), "nn.contrib_dense_pack").weight_layout
            == "NC12n"
        )
        agree(rng, expr, passes.AlterOpLayout())
        odd = nn.dense(data, relay.var("k", shape=(17, 5)))
        assert names(after(odd, passes.AlterOpLayout())) == ["nn.dense"]
    with TempOpAttr("nn.dense", "FTVMAlterOpLayout", dense_alter_layout):  # no target is known
        assert names(after(expr, passes.AlterOpLayout())) == ["nn.dense"]


@pytest.mark.parametrize(
    "shape, weight, options",
    [
        ((1, 6, 6, 32), (3, 3, 32, 16), {"data_layout": "NHWC", "kernel_layout": "HWIO"}),
        ((1, 6, 6, 32), (16, 32, 3, 3), {"data_layout": "NHWC"}),
        ((1, 32, 6, 6), (16, 32, 3, 3), {"out_layout": "NHWC"}),
        ((relay.Any(), 32, 6, 6), (16, 32, 3, 3), {}),
    ],
)
def test_convolutions_that_are_not_plain_stay(shape: Any, weight: Any, options: Any) -> None:
    data, kernel = relay.var("data", shape=shape), relay.var("kernel", shape=weight)
    expr = nn.conv2d(data, kernel, kernel_size=3, channels=16, **options)
    with AVX2, TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", conv2d_alter_layout):
        found = after(expr, passes.AlterOpLayout())
    assert names(found) == ["nn.conv2d"]
    assert attrs_of(found, "nn.conv2d").data_layout == options.get("data_layout", "NCHW")
