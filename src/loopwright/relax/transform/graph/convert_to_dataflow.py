"""ConvertToDataflow: puts pure bindings that follow each other into dataflow blocks.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
    -     y: R.Tensor((4,), dtype="float32") = R.exp(x)
    -     z: R.Tensor((4,), dtype="float32") = R.add(y, y)
    +     with R.dataflow():
    +         y: R.Tensor((4,), dtype="float32") = R.exp(x)
    +         z: R.Tensor((4,), dtype="float32") = R.add(y, y)
    +         R.output(z)
          return z

Fusion looks at dataflow blocks only: a model written without them is fused like any other.
"""

from __future__ import annotations

from typing import Any

from ....ir.transform import FunctionPass, IRModule, PassContext
from ... import expr as rx
from ..queries import is_pure, merge_blocks
from .canonicalize import canonicalize


class ConvertToDataflow(FunctionPass, repr=False):
    """Groups runs of pure bindings into dataflow blocks.

    min_size: the fewest bindings that are made a block.
    """

    function_type = rx.Function
    min_size: int = 2

    def run_function(self, func: rx.Function, mod: IRModule, ctx: PassContext) -> Any:
        new = _Converter(self.min_size).function(func)
        return func if new is func else canonicalize(new, mod)


class _Converter:
    def __init__(self, least: int) -> None:
        self.least = least

    def function(self, func: rx.Function) -> rx.Function:
        """A function with its pure bindings in dataflow blocks."""
        body = self.seq(func.body)
        return func if body is func.body else func.replace(body=body)

    def seq(self, seq: rx.SeqExpr) -> rx.SeqExpr:
        """A body likewise. Bindings directly before or after a dataflow block join it."""
        parts: list[tuple[bool, list[rx.Binding]]] = []  # (whether it may flow, bindings)
        joined = set()  # the parts with a dataflow block in them
        for block in seq.blocks:
            flows = isinstance(block, rx.DataflowBlock)
            for binding in map(self.inside, block.bindings):
                pure = flows or (not isinstance(binding.value, rx.If) and is_pure(binding.value))
                if not parts or parts[-1][0] != pure:
                    parts.append((pure, []))
                parts[-1][1].append(binding)
            if flows and block.bindings:
                joined.add(len(parts) - 1)
        blocks: list[Any] = []
        for n, (pure, bindings) in enumerate(parts):
            whole = pure and (n in joined or len(bindings) >= self.least)
            blocks.append((rx.DataflowBlock if whole else rx.BindingBlock)(bindings))
        blocks = merge_blocks(blocks)
        if len(blocks) == len(seq.blocks) and all(map(_same, blocks, seq.blocks)):
            return seq
        new = rx.SeqExpr._make(tuple(blocks), seq.body, span=seq.span)
        new._update_struct_info(seq.struct_info)
        return new

    def inside(self, binding: rx.Binding) -> Any:
        """A binding with the branches, or the body, of its value converted."""
        node = binding.value
        if isinstance(node, rx.If):
            new: Any = node.with_branches(self.seq(node.true_branch), self.seq(node.false_branch))
        else:
            new = self.function(node) if isinstance(node, rx.Function) else node
        return binding if new is node else binding.replace(value=new)


def _same(a: rx.BindingBlock, b: rx.BindingBlock) -> bool:
    pairs = zip(a.bindings, b.bindings, strict=False)
    return (
        type(a) is type(b) and len(a.bindings) == len(b.bindings) and all(x is y for x, y in pairs)
    )
