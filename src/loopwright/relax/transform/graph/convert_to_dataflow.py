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

from collections import Counter
from dataclasses import dataclass
from typing import Any

from ....ir.module import IRModule
from ....ir.transform import FunctionPass, PassContext
from ... import expr as rx
from .._graph import is_pure, merge_blocks, replace_vars, used_vars


@dataclass(frozen=True, repr=False)
class ConvertToDataflow(FunctionPass):
    """See the file's docstring.

    min_size: the fewest bindings that are made a block.
    """

    name = "ConvertToDataflow"
    function_type = rx.Function
    min_size: int = 2

    def run_function(self, func: Any, mod: IRModule, ctx: PassContext) -> Any:
        work = _Converter(self.min_size, func)
        body = work.seq(func.body)
        return func if body is func.body else func.replace(body=body)


class _Converter:
    def __init__(self, least: int, func: rx.Function) -> None:
        self.least = least
        self.uses = Counter(used_vars(func.body))

    def seq(self, seq: rx.SeqExpr) -> rx.SeqExpr:
        """A body with its pure bindings in dataflow blocks."""
        blocks: list[rx.BindingBlock] = []
        for block in seq.blocks:
            blocks += [block] if isinstance(block, rx.DataflowBlock) else self.parts(block)
        if len(blocks) == len(seq.blocks) and all(
            a is b for a, b in zip(blocks, seq.blocks, strict=True)
        ):
            return seq
        new = rx.SeqExpr._make(tuple(merge_blocks(blocks)), seq.body, span=seq.span)
        new._update_struct_info(seq.struct_info)
        return new

    def parts(self, block: rx.BindingBlock) -> list[rx.BindingBlock]:
        """The blocks that a block of bindings becomes."""
        parts: list[rx.BindingBlock] = []
        pure: list[rx.Binding] = []
        others: list[rx.Binding] = []

        def end() -> None:
            if len(pure) >= self.least:
                if others:
                    parts.append(rx.BindingBlock(others))
                parts.append(self.dataflow(pure))
                others.clear()
            else:
                others.extend(pure)
            pure.clear()

        for binding in block.bindings:
            inside = self.branches(binding)
            if _may_flow(inside):
                pure.append(inside)
                continue
            end()
            others.append(inside)
        end()
        if others:
            same = len(others) == len(block.bindings) and all(
                a is b for a, b in zip(others, block.bindings, strict=True)
            )
            parts.append(block if same else rx.BindingBlock(others))
        return parts

    def branches(self, binding: Any) -> Any:
        node = binding.value
        if not isinstance(node, rx.If):
            return binding
        new = node.with_branches(self.seq(node.true_branch), self.seq(node.false_branch))
        return binding if new is node else binding.replace(value=new)

    def dataflow(self, bindings: list[rx.Binding]) -> rx.DataflowBlock:
        """A dataflow block; what is used in it alone becomes local to it."""
        used = Counter(v for b in bindings for v in used_vars(b.value))
        local: dict[rx.Var, Any] = {}
        flowing: list[rx.Binding] = []
        for binding in bindings:
            var = binding.var
            if self.uses[var] == used[var]:
                info = var.struct_info
                local[var] = rx.DataflowVar._make(var.name_hint, info, span=var.span)
            value = replace_vars(binding.value, local)
            flowing.append(binding.replace(var=local.get(var, var), value=value))
        return rx.DataflowBlock(flowing)


def _may_flow(binding: Any) -> bool:
    value = binding.value
    return not isinstance(value, (rx.If, rx.Function)) and is_pure(value)


__all__ = ["ConvertToDataflow"]
