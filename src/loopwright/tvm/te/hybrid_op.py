"""Operations whose results are written by the statements of a hybrid script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from ...ir.functor import nodes_of, post_order_visit, rewrite
from ...ir.node import Node
from ...te.tensor import Operation, Tensor, replace_tensors
from ...tir.expr import ProducerLoad
from ...tir.stmt import Stmt
from .producer import ProducerStore


class HybridOp(Operation):
    """`body` computes the results, which are the placeholders `outputs` in it."""

    __slots__ = ("body", "inputs", "outputs")
    inlines: ClassVar[bool] = True

    def __init__(
        self, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor], body: Stmt
    ) -> None:
        super().__init__(name)
        self.inputs, self.outputs, self.body = tuple(inputs), tuple(outputs), body
        self._outputs = tuple(Tensor(t.shape, t.dtype, self, n) for n, t in enumerate(outputs))

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return self.inputs

    def replace_inputs(self, table: Mapping[Tensor, Tensor]) -> Operation:
        if not any(t in table for t in self.inputs):
            return self
        inputs = [table.get(t, t) for t in self.inputs]
        return HybridOp(self.name, inputs, self.outputs, replace_tensors(self.body, table))

    def with_body(self, change: Callable[[Any], Any]) -> HybridOp:
        body = change(self.body)
        read: dict[Any, None] = dict.fromkeys(n.producer for n in nodes_of(body, ProducerLoad))
        before: list[Any] = []
        post_order_visit(self.body, lambda n: before.append(getattr(n, "producer", None)))
        own = {t for t in before if t is not None and t not in self.inputs}
        inputs = [t for t in read if t not in own and t not in self.outputs]
        return HybridOp(self.name, inputs, self.outputs, body)

    def on_results(self) -> Stmt:
        """The statements, on the results themselves."""
        table: dict[Any, Tensor] = {t: self.output(n) for n, t in enumerate(self.outputs)}

        def post(node: Node) -> Any:
            if isinstance(node, ProducerStore) and node.producer in table:
                return node.replace(producer=table[node.producer])
            return None

        return rewrite(replace_tensors(self.body, table), post)
