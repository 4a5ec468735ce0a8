"""Copies of Relay's nodes with a field changed: `CallWithFields` and kin."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from loopwright import relay
from loopwright.base.span import Span
from loopwright.ir.function import as_attrs
from loopwright.ir.structural import structural_hash
from loopwright.ops.core import OPAQUE, TUPLE
from loopwright.relay import expr as nodes
from loopwright.relay.backend.config import Executor, Runtime
from loopwright.relay.infer import infer_function
from loopwright.relay.operators.core import kind_of
from loopwright.relay.text import pretty_print
from loopwright.relay.transform import mixed_precision as mixed

x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
yes = relay.const(True)
# The node, and a new value of each of its fields.
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "Constant": (relay.const(1.0), {"data": relay.const(np.ones(3)).data}),
    "Tuple": (relay.Tuple([x]), {"fields": [x, y]}),
    "Call": (
        relay.add(x, y),
        {"op": relay.multiply(x, x).op, "args": [y, y], "attrs": as_attrs({"a": 1})},
    ),
    "Let": (relay.Let(x, y, x), {"variable": y, "value": x, "body": y}),
    "If": (relay.If(yes, x, y), {"cond": relay.const(False), "true_branch": y, "false_branch": x}),
    "TupleGetItem": (
        relay.TupleGetItem(relay.Tuple([x, y]), 0),
        {"tuple_value": relay.Tuple([y, x]), "index": 1},
    ),
    "Function": (
        relay.Function([x], x),
        {
            "params": [y, x],
            "body": y,
            "ret_type": relay.TensorType((2,)),
            "ty_params": [relay.TypeVar("t")],
            "attrs": as_attrs({"Primitive": 1}),
        },
    ),
    "Var": (x, {"vid": relay.var("z").vid, "type_annotation": relay.TensorType((3,))}),
}


def _shown(value: Any) -> str:
    return str([*map(str, value)] if isinstance(value, (list, tuple)) else value)


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("kind", CASES)
def test_a_field_changes(kind: str) -> None:
    node, changes = CASES[kind]
    change = getattr(nodes, f"{kind}WithFields")
    names = {"variable": "var" if kind == "Let" else "", "ty_params": "type_params"}
    fields = [names.get(name, name) for name in changes]
    assert change(node) is node
    for k, (name, value) in enumerate(changes.items()):
        new = change(node, **{name: value})
        assert type(new) is type(node) and new is not node
        for j, field in enumerate(fields):
            wanted = value if j == k else getattr(node, field)
            assert _shown(getattr(new, field)) == _shown(wanted)
    assert str(change(node, *changes.values())) == str(change(node, **changes))
    placed = change(node, span=Span("a place"))
    assert placed.span == Span("a place")


@pytest.mark.no_roundtrip
def test_what_is_known_of_a_node_stays() -> None:
    typed = infer_function(relay.Function([x], relay.exp(x)))
    call, param = typed.body, typed.params[0]
    new = nodes.CallWithFields(call, args=[y])
    assert new.checked_type == call.checked_type == relay.TensorType((2,))
    assert nodes.VarWithFields(param, param.vid, param.type_annotation) is param
    other = nodes.VarWithFields(param, relay.var("z").vid)
    assert other.checked_type == param.checked_type and other.name_hint == "z"
    placed = param.with_span(Span("here"))
    assert nodes.VarWithFields(placed, other.vid).span == Span("here")
    assert nodes.VarWithFields(placed, other.vid, span=Span("there")).span == Span("there")


def test_a_field_that_does_not_exist() -> None:
    with pytest.raises(TypeError, match="Call has no field .'other'.\n  instead: it has"):
        nodes.CallWithFields(relay.add(x, y), other=1)


def test_variables_of_types_are_themselves() -> None:
    for kind in (relay.TypeVar, relay.GlobalTypeVar):
        a, b = kind("a"), kind("a")
        assert a == a and a != b and len({a, b}) == 2
    open_ = relay.IncompleteType()
    assert open_ == open_ and open_ != relay.IncompleteType()
    assert relay.Any() == relay.Any() and relay.Any() != 3
    assert not operator.ne(relay.Any(), relay.Any())


def test_texts_and_hashes_of_constants() -> None:
    one, same, other = (relay.const([1.0, n]) for n in (2.0, 2.0, 3.0))
    hashes = [structural_hash(c) for c in (one, same, other, relay.const([[1.0, 2.0]]))]
    assert hashes[0] == hashes[1] and len({*hashes}) == 3
    assert one.script() == one.astext() and "b64ndarrays" in one.script()
    assert one.script(show_meta=False) == one.astext(show_meta_data=False) != one.script()
    assert pretty_print(one) == "meta[relay.Constant][0]"


def test_choices_of_executors_compare() -> None:
    made = [
        Executor("graph"),
        Executor("graph"),
        Executor("graph", {"link-params": True}),
        Executor("aot"),
    ]
    assert made[0] == made[1] and made[0] != made[2] and made[0] != made[3]
    assert made[0] != Runtime("cpp") and hash(made[0]) == hash(made[1])
    assert "link-params" in made[2] and "other" not in made[2]


def test_layers_of_a_path() -> None:
    counter = relay.analysis.LayerCounter(["exp"])
    assert counter.count() == 0
    counter.visit(relay.exp(relay.exp(x)) + relay.exp(y))
    assert counter.count() == 2


def test_layers_that_are_left_as_they_are() -> None:
    config = relay.transform.LayoutConfig(skip_layers=[1])
    assert [config.check_skip() for _ in range(3)] == [False, True, False]
    config.reset()
    assert [config.check_skip() for _ in range(3)] == [False] * 3


def test_kinds_of_fusion_have_names() -> None:
    names = ("exp", "add", "transpose", "sum", "nn.conv2d")
    kinds = [relay.op.get(name).get_attr("TOpPattern") for name in names]
    p = relay.op.OpPattern
    named = [p.ELEMWISE, p.BROADCAST, p.INJECTIVE, p.COMM_REDUCE, p.OUT_ELEMWISE_FUSABLE]
    assert kinds == named and [p.TUPLE, p.OPAQUE] == [7, 8]
    assert [TUPLE, OPAQUE] == [p.TUPLE, p.OPAQUE] == [TUPLE, kind_of(relay.op.get("topk"))]


def test_lists_of_mixed_precision_are_read_off_the_operators() -> None:
    rules = {
        mixed.generic_always_op: mixed.DEFAULT_ALWAYS_LIST,
        mixed.generic_follow_op: mixed.DEFAULT_FOLLOW_LIST,
        mixed.generic_never_op: mixed.DEFAULT_NEVER_LIST,
        mixed.clip_op: ["clip"],
        None: ["nn.matmul", "reverse", "dyn.squeeze"],
    }
    for rule, names in rules.items():
        assert {relay.op.get(name).get_attr(mixed.KEY) for name in names} == {rule}
    members = ("nn.conv2d_transpose", "image.resize2d", "nn.adaptive_avg_pool1d")
    assert all(one in names for one, names in zip(members, rules.values(), strict=False))
