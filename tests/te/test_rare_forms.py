"""Rare forms of operations and of their schedules: what they compute stays what numpy says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import te, tir
from loopwright.te.prim_func import in_order
from loopwright.tir.interpreter import run

ROWS = np.random.default_rng(3).integers(-9, 9, (5, 8)).astype("float32")


@pytest.mark.parametrize(
    ("read", "rolls"),
    [
        (lambda b, i, j: b[i, j] + b[i + 1, j], True),
        (lambda b, i, j: b[i, j] + b[i + 2, j], True),
        (lambda b, i, j: b[i, i] + b[i + 1, i + 1], False),  # in two dimensions
        (lambda b, i, j: b[i * 2, j] + b[i * 2 + 1, j], False),  # no overlap
        (lambda b, i, j: b[3, j] + b[4, j], False),  # it stays
        (lambda b, i, j: b[j, i] + b[j, i + 1], True),
    ],
)  # fmt: skip
def test_parts_that_overlap_roll(read: Callable[..., Any], rolls: bool) -> None:
    a = te.placeholder((20, 20), name="A")
    b = te.compute((20, 20), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((6, 8), lambda i, j: read(b, i, j), name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].rolling_buffer()
    func = lw.lower(s, [a, c])["main"]
    x, out = np.arange(400, dtype="float32").reshape(20, 20), np.zeros((6, 8), "float32")
    run(func, [x, out])
    want = [[read(2 * x, i, j) for j in range(8)] for i in range(6)]
    np.testing.assert_array_equal(out, want)
    assert ("if i < 1 or" in func.script()) == rolls


def scan(update: Callable[..., Any], inputs: Any = None) -> tuple[te.Tensor, te.Tensor]:
    x, state = te.placeholder((5, 8), name="X"), te.placeholder((5, 8), name="state")
    init = te.compute((1, 8), lambda _, i: x[0, i])
    return x, te.scan(init, update(x, state), state, inputs=[x])


UPDATES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "of other rows": (
        lambda x, s: te.compute((5, 8), lambda t, i: s[t - 1, i] + x[t, i]), lambda x, s, t: s[t - 1] + x[t],
    ),
    "of no other row": (lambda x, s: te.compute((5, 8), lambda t, i: x[t, i] * 2.0), lambda x, s, t: 2 * x[t]),
    "of another step": (
        lambda x, s: (h := te.compute((5, 8), lambda t, i: s[t - 1, i] * 2.0, name="h"))
        and te.compute((5, 8), lambda t, i: h[t, i] - tir.if_then_else(t > 1, h[t - 1, i], 0.0)),
        lambda x, s, t: 2 * s[t - 1] - (2 * s[t - 2] if t > 1 else 0),
    ),
    "in two steps": (
        lambda x, s: (h := te.compute((5, 8), lambda t, i: s[t - 1, i] * 2.0, name="h"))
        and te.compute((5, 8), lambda t, i: h[t, i] - x[t, i]),
        lambda x, s, t: 2 * s[t - 1] - x[t],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UPDATES)
def test_rows_of_a_scan(name: str) -> None:
    update, rule = UPDATES[name]
    x, result = scan(update)
    want = ROWS.copy()
    for t in range(1, 5):
        want[t] = rule(ROWS, want, t)
    funcs = [te.create_prim_func([x, result])]
    if name not in ("of no other row", "of another step"):  # a schedule needs a stage of the state
        funcs.append(lw.lower(te.create_schedule(result.op), [x, result])["main"])
    for func in funcs:
        run(func, [ROWS, out := np.zeros((5, 8), "float32")])
        np.testing.assert_array_equal(out, want)


def test_threads_around_a_scan_are_its_outermost_loops() -> None:
    _, result = scan(UPDATES["of other rows"][0])
    s = te.create_schedule(result.op)
    stage = s[result]
    before = (list(stage.leaf_iter_vars), list(stage.all_iter_vars))
    x, y = te.thread_axis((0, 4), "threadIdx.x"), te.thread_axis((0, 2), "threadIdx.y")
    stage.env_threads([x, y])
    assert (stage.leaf_iter_vars, stage.all_iter_vars) == ([x, y, *before[0]], [x, y, *before[1]])
    assert stage.threads == [x, y]
    a = result.op.inputs[0]
    text = lw.lower(s, [a, result])["main"].script()
    assert 'launch_thread("threadIdx.x", 4)' in text and 'launch_thread("threadIdx.y", 2)' in text
    other = te.create_schedule(result.op)[result]
    other.env_threads(x)
    assert other.leaf_iter_vars[0] is x and other.threads == [x]


def test_operations_whose_inputs_are_replaced() -> None:
    a, z = te.placeholder((8,), name="A"), te.placeholder((8,), name="Z")
    called = te.extern((8,), [a], lambda i, o: tir.call_packed("f", i[0], o[0]), name="E").op
    doubled = te.compute((8,), lambda i: a[i] * 2.0, name="D").op
    x = te.placeholder((8,), name="x")
    intrin = te.decl_tensor_intrin(
        te.compute((8,), lambda i: x[i] * 2.0).op, lambda i, o: tir.Evaluate(0)
    )
    part = te.compute((8,), lambda: intrin(a[0:8]), name="P").op
    for op in (called, doubled, part):
        assert op.replace_inputs({z: a}) is op
        made = op.replace_inputs({a: z})
        assert list(made.input_tensors) == [z] and list(op.input_tensors) == [a]


def test_an_operation_of_itself() -> None:
    a = te.placeholder((8,), name="A")
    op = te.extern((8,), [a], lambda i, o: tir.call_packed("f", i[0], o[0]), name="E").op
    assert in_order([op.output(0)]) == [a.op, op]
    op.inputs = [op.output(0)]
    with pytest.raises(
        ValueError,
        match="E is computed from itself\n  got: a cycle of operations\n  instead: te.scan",
    ):
        in_order([op.output(0)])


def test_groups_in_groups() -> None:
    """A group of operations of two groups is beside these."""
    a = te.placeholder((8,), name="A")
    b, c, d, e = (None,) * 4
    made = [a]
    for name in "BCDE":
        made.append(te.compute((8,), lambda i, last=made[-1]: last[i] + 1.0, name=name))
    _, b, c, d, e = made
    s = te.create_schedule(e.op)
    first = s.create_group(outputs=[c], inputs=[b], include_inputs=True)
    second = s.create_group(outputs=[d], inputs=[c])
    assert s[b].group is s[c].group is first and s[d].group is second
    assert first.group is None and second.group is None
    whole = s.create_group(outputs=[d], inputs=[b], include_inputs=True)
    assert first.group is whole and second.group is whole and s[e].group is None
    inner = s.create_group(outputs=[c], inputs=[c], include_inputs=True)
    assert s[c].group is inner and inner.group is first
