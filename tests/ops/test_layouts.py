"""The hook `layout`: a call computed in another layout gives the same numbers."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from loopwright import relax, tir
from loopwright.ops import OPERATORS
from loopwright.ops.layout_rules import inserted, moved, numbered, spelled
from loopwright.relax import op
from loopwright.relax.layout import LayoutQuery, plain, rank, tensor_arguments, with_tensors
from loopwright.relax.struct_info import TensorStructInfo, TupleStructInfo

from .matrix import make

HOOKED = [op for op in OPERATORS.values() if op.op.has_attr("FRelaxInferLayout")]
# What takes part only where channels come in blocks, or the user names it.
ASKED_FOR = {"relax.nn.conv2d_transpose"}


def stored(array, layout):
    """An array as it is stored in a layout."""
    return array if layout is None else array.transpose(["ABCDEF".index(c) for c in layout])


def unstored(array, layout):
    """The plain array of a stored one."""
    return (
        array
        if layout is None
        else array.transpose([layout.index_of(c) for c in plain(rank(layout))])
    )


def permutations(ndim):
    """Some layouts other than the plain one."""
    every = ["".join(p) for p in itertools.permutations("ABCDEF"[:ndim])][1:]
    return random.Random(ndim).sample(every, min(len(every), 8))


@pytest.mark.sample(2)
@pytest.mark.parametrize("operator", HOOKED, ids=lambda op: op.name)
def test_numbers_stay(operator):
    """All operators with the hook, with their own samples: a plan's call of transposed tensors
    has the type that it says, and gives the transposed result."""
    hook, meaning = operator.op.get_attr("FRelaxInferLayout"), operator.op.get_attr("FNumpy")
    checked = answered = 0
    for case in operator.cases:
        sample = make(operator, case)
        tensors = tensor_arguments(sample.call)
        ndim = tensors[0].struct_info.ndim
        for text in permutations(ndim):
            checked += 1
            given = (tir.layout(text), *[None] * (len(tensors) - 1))
            plan = hook(sample.call, LayoutQuery(given))
            if plan is None:
                continue
            answered += 1
            layouts = iter(plan.inputs)
            args = []
            for value in sample.args:
                if isinstance(value, tuple) and isinstance(value[0], np.ndarray):
                    value = tuple(stored(v, next(layouts)) for v in value)
                elif isinstance(value, np.ndarray) and len(args) < len(sample.call.args):
                    value = stored(value, next(layouts))
                args.append(value)
            if plan.moves_nothing:
                got, results = args[0], [args[0]]
            else:
                changed = with_tensors(
                    sample.call,
                    [
                        relax.Var("t", TensorStructInfo(shape_of(t, layout), t.struct_info.dtype))
                        for t, layout in zip(tensors, plan.inputs, strict=True)
                    ],
                    plan,
                )
                for place, value in plan.args.items():
                    args[place] = tuple(int(f.value) for f in value.fields)
                got = meaning(*args, **dict(changed.attrs.items() if changed.attrs else {}))
                info = relax.BlockBuilder().normalize(changed).struct_info
                sample.check_type(got, info)
                results = got if isinstance(info, TupleStructInfo) else [got]
            want = sample.expected()
            want = want if isinstance(want, tuple) else [want]
            for result, wanted, layout in zip(results, want, plan.outputs, strict=True):
                np.testing.assert_allclose(
                    unstored(np.asarray(result), layout), wanted, rtol=1e-5, atol=1e-5
                )
    assert answered or not checked or operator.name in ASKED_FOR


def shape_of(tensor, layout):
    """The dims of a tensor as it is stored."""
    dims = tensor.struct_info.get_shape()
    return list(dims) if layout is None else [dims["ABCDEF".index(c)] for c in layout]


def test_names_of_axes():
    assert numbered("NHWC", "NCHW") == "ACDB" and spelled(tir.layout("ACDB"), "NCHW") == "NHWC"
    assert numbered("NCHW16c", "NCHW") == "ABCD16b" and numbered("NCHW", "NHWC") == "ADBC"
    assert moved(tir.layout("ACDB"), [0, 2, 3, 1]) is None  # to NHWC: it is there
    assert inserted(tir.layout("BA"), [1]) == "CBA"
    with pytest.raises(ValueError, match="the axes NCHW\n  got: NDHWC"):
        numbered("NDHWC", "NCHW")


def call_of(builder, *shapes, **attrs):
    given = [relax.Var("x", TensorStructInfo(shape, "float32")) for shape in shapes]
    return relax.BlockBuilder().normalize(builder(*given, **attrs))


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "layout", "answers"),
    [
        ("softmax", [(2, 32, 4, 4)], {"axis": 1}, "ABCD16b", False),  # over blocks
        ("softmax", [(2, 32, 4, 4)], {"axis": 2}, "ABCD16b", True),
        ("add", [(2, 32, 4, 4), (4,)], {}, "ACDB", False),  # along columns, which are not last
        ("add", [(2, 32, 4, 4), (1,)], {}, "ACDB", True),
        ("add", [(2, 32, 4, 4), (32, 1, 1)], {}, "ACDB", True),
        ("add", [(2, 32, 4, 4), (32, 1, 1)], {}, "BACD", False),  # the batch is not in front
        ("sum", [(2, 32, 4, 4)], {"axis": [1, 2]}, "ABCD16b", False),
        ("sum", [(2, 32, 4, 4)], {"axis": [2]}, "ABCD16b", True),
        ("layer_norm", [(2, 32, 4, 4), (4, 4), (4, 4)], {"axes": [2, 3]}, "ACDB", True),
        ("layer_norm", [(2, 32, 4, 4), (4, 4), (4, 4)], {"axes": [2, 3]}, "ADCB", False),
    ],
)
def test_borders(name, shapes, attrs, layout, answers):
    operator = OPERATORS.get(f"relax.{name}") or OPERATORS[f"relax.nn.{name}"]
    call = call_of(operator.builder, *shapes, **attrs)
    given = (tir.layout(layout), *[None] * (len(shapes) - 1))
    plan = operator.op.get_attr("FRelaxInferLayout")(call, LayoutQuery(given))
    assert (plan is not None) == answers


IMAGE = relax.Var("x", TensorStructInfo((2, 32, 1, 4), "float32"))
BLOCKS = relax.Var("z", TensorStructInfo((2, 8, 1, 4, 4), "float32"))
UNKNOWN = relax.Var("y", TensorStructInfo(None, "float32", ndim=4))
BORDER = [0, 0, 0, 0, 1, 2, 3, 4]  # of rows 1 and 2, of columns 3 and 4


@pytest.mark.parametrize(
    ("call", "layout", "block", "wanted"),
    [
        (op.nn.pad(IMAGE, BORDER), "ACDB", 0, ["ACDB", {"pad_width": [0, 0, 1, 2, 3, 4, 0, 0]}]),
        (op.nn.pad(IMAGE, BORDER), "ABCD16b", 0, ["ABCD16b", {"pad_width": [*BORDER, 0, 0]}]),
        (op.nn.pad(IMAGE, BORDER), "ABCD4d", 0, None),
        (op.nn.pad(IMAGE, BORDER), "ACDB", 16, None),
        (op.split(IMAGE, 2, axis=3), "ABCD16b", 0, ["ABCD16b", "ABCD16b", {"axis": 3}]),
        (op.split(IMAGE, 2, axis=-1), "ADCB", 0, ["ADCB", "ADCB", {"axis": 1}]),
        (op.split(IMAGE, 2, axis=1), "ABCD16b", 0, None),
        (op.squeeze(IMAGE, [2]), "ACDB", 0, ["ACB", {"axis": [1]}]),
        (op.squeeze(IMAGE), "ACBD", 0, [None, {"axis": [1]}]),
        (op.squeeze(IMAGE, [2]), "ABCD16b", 0, None),
        (op.sum(IMAGE, [0, 1, 2, 3]), "ACDB", 0, [None, {"axis": [0, 1, 2, 3]}]),
        (op.sum(IMAGE, [1]), "ACDB", 0, [None, {"axis": [3]}]),
        (op.sum(IMAGE, 1), "DBAC", 0, ["CAB", {"axis": [1]}]),
        (op.sum(IMAGE, [1]), "ACDB", 16, None),
        (op.mean(IMAGE, [2, 3], keepdims=True), "ABCD16b", 16, ["ABCD16b", {"axis": [2, 3]}]),
        (op.mean(IMAGE, [2, 3]), "ABCD16b", 16, None),
        (op.mean(IMAGE, [3], keepdims=True), "ABCD16b", 16, None),
        (op.add(IMAGE, UNKNOWN), "ACDB", 0, None),
        (op.add(IMAGE, IMAGE), None, 0, None),
        (op.divide(IMAGE, IMAGE), "ABCD16b", 16, None),
        (op.strided_slice(IMAGE, [1], [0], [2]), "ABCD16b", 0, None),
        (op.nn.max_pool2d(IMAGE), None, 0, None),
        (op.nn.max_pool2d(BLOCKS, layout="NCHW4c"), "ACBDE", 0, None),
        (op.nn.max_pool2d(IMAGE, out_layout="NHWC"), "ACDB", 0, None),
        (op.nn.max_pool2d(IMAGE), "ACDB", 0, ["ACDB", {"layout": "NHWC", "out_layout": "NHWC"}]),
        (op.nn.max_pool2d(IMAGE), "ADCB", 0, None),
        (op.nn.max_pool2d(IMAGE), "ABCD4d", 0, None),
    ],
    ids=str,
)  # fmt: skip
def test_plans(call, layout, block, wanted):
    """The layouts of the results and what changes in the call."""
    given = None if layout is None else tir.layout(layout)
    call = relax.BlockBuilder().normalize(call)
    query = LayoutQuery((given, *[None] * (len(tensor_arguments(call)) - 1)), block=block)
    plan = call.op.get_attr("FRelaxInferLayout")(call, query)
    found = plan and [*(o if o is None else str(o) for o in plan.outputs), dict(plan.attrs)]
    assert found == wanted


def test_blocks_are_for_what_keeps_finite_numbers_finite():
    layout = tir.layout("ABCD16b")
    for name, answers in (("nn.relu", True), ("exp", False), ("log", False), ("clip", True)):
        operator = OPERATORS[f"relax.{name}"]
        x = relax.Var("x", TensorStructInfo((2, 20, 4, 4), "float32"))
        call = operator.builder(x, 0, 1) if name == "clip" else operator.builder(x)
        plan = operator.op.get_attr("FRelaxInferLayout")(call, LayoutQuery((layout,), block=16))
        assert (plan is not None) == answers, name
