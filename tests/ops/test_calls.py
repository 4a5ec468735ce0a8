"""Random calls of every operator, as the fuzzer draws them: see `tools.fuzz.relax_calls`."""

from __future__ import annotations

import pytest

from loopwright.ops import Tensor
from loopwright.ops.common import compute
from loopwright.ops.core import OPERATORS, case, op
from loopwright.ops.extents import broadcast_differ
from tools.fuzz.judge import judge
from tools.fuzz.relax_calls import LEFT_OUT
from tools.fuzz.relax_graphs import names, relax_case

pytestmark = [pytest.mark.no_roundtrip, pytest.mark.no_verify]


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", names())
def test_drawn(name):
    """By the graph interpreter, the loops' and compiled; a new operator is here by its samples."""
    drawn = relax_case(5, [name], [1])
    assert [node[0] for node in drawn.nodes] == [f"relax.{name}"]
    outcome = judge(drawn)
    assert outcome.kind == "right", outcome


def test_what_is_left_out_is_an_operator():
    assert {f"relax.{name}" for name in LEFT_OUT} <= set(OPERATORS)


def test_a_new_operator_is_drawn_from_its_sample():
    with OPERATORS.snapshot():

        @op("relax.test_calls.rows", view=False)
        def rows(x: Tensor, y: Tensor):
            """x + y, of matrices of the same shape."""
            broadcast_differ(x.shape, y.shape)
            return compute(x.shape, lambda i, j: x(i, j) + y(i, j), "rows")

        rows.numpy(lambda x, y: x + y)
        rows.samples(case(("n", 4), ("n", 4)))
        drawn = [relax_case(seed, ["test_calls.rows"], [1]) for seed in range(20)]
        assert all(judge(one).kind == "right" for one in drawn[:3])
    shapes = [[spec["shape"] for spec in (*d.inputs.values(), *d.weights.values())] for d in drawn]
    assert len({str(s) for s in shapes}) > 10
