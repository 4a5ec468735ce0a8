"""Control flow: the graphs of branches and of iterations are arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from ...graph.registry import Converter, register_converter
from ..context import Arg, Term
from ..context import TorchContext as Context
from ..model import DOMAIN
from ..model import TorchNode as Node
from .shapes import with_shape


@dataclass(frozen=True)
class Body:
    """A graph within a node, and what its placeholders are."""

    module: fx.GraphModule
    operands: Sequence[Any]


def _run(cx: Context, module: fx.GraphModule, operands: Sequence[Any]) -> list[Any]:
    """The results of a graph."""
    return [cx.value(v) for v in cx.walk.subgraph(Body(module, operands))]


def higher_order(name: str) -> Callable[[Converter], Converter]:
    """Register a converter of torch.ops.higher_order's operators."""
    return lambda convert: register_converter(name, convert=convert, domain=DOMAIN)


@higher_order("cond")
def cond(
    cx: Context, node: Node, condition: Arg, yes: fx.GraphModule, no: fx.GraphModule,
    operands: Sequence[Any] = (),
) -> list[Any]:  # fmt: skip
    return cx.walk.choice(cx.tensor(condition, "bool"), Body(yes, operands), Body(no, operands))


@higher_order("while_loop")
def while_loop(
    cx: Context, node: Node, test: fx.GraphModule, body: fx.GraphModule, carried: Sequence[Arg],
    more: Sequence[Any] = (),
) -> list[Any]:  # fmt: skip
    start = [cx.tensor(v) for v in carried]

    def iteration(feeds: list[Any]) -> list[Any]:
        state = _run(cx, body, [*map(cx.value, feeds[2:]), *more])
        return [*_run(cx, test, [*state, *more]), *state]

    first = _run(cx, test, [*start, *more])[0]
    return _shaped(cx, node, cx.walk.loop(iteration, None, first, list(start), 0))


@higher_order("map_impl")
def each(
    cx: Context, node: Node, body: fx.GraphModule, rows: Sequence[Term], more: Sequence[Any] = ()
) -> list[Any]:
    return scan(cx, node, body, [], rows, more)


@higher_order("scan")
def scan(
    cx: Context, node: Node, body: fx.GraphModule, initial: Sequence[Arg], rows: Sequence[Term],
    more: Sequence[Any] = (),
) -> list[Any]:  # fmt: skip
    """The state after all rows, and the other results for each row, stacked."""
    start = [cx.tensor(v) for v in initial]

    def iteration(feeds: list[Any]) -> list[Any]:
        parts = [x.take(feeds[0], 0) for x in rows]
        return [feeds[1], *_run(cx, body, [*map(cx.value, feeds[2:]), *parts, *more])]

    count = cx.tensor(rows[0].shape[0], "int64")
    collected = len(node.value) - len(start)
    return _shaped(cx, node, cx.walk.loop(iteration, count, None, list(start), collected))


def _shaped(cx: Context, node: Node, values: Sequence[Any]) -> list[Any]:
    """Results of a loop in the shapes that torch inferred, as far as these are known."""
    return [
        with_shape(cx, fake, cx.value(v)) if hasattr(fake, "shape") else v
        for v, fake in zip(values, node.value, strict=True)
    ]
