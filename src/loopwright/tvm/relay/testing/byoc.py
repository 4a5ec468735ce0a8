"""What tests of other compilers use: marks around small programs."""

from __future__ import annotations

from typing import Any

from ..expr import Call, Var
from ..expr_functor import ExprMutator
from ..op import annotation

_COMPILER = "ccompiler"


class CcompilerAnnotator(ExprMutator):
    """Marks sums, differences of these, and products of those as one region of "ccompiler": it ends
    with the product, and begins at the operands of the sum, and at variables."""

    def __init__(self) -> None:
        super().__init__()
        self._in_product = self._begun = False

    def visit_call(self, call: Call) -> Any:
        """Mark a call that is part of such a region."""
        name = call.op.name
        if name == "multiply":
            self._in_product, self._begun = True, False
            product = self._with_args(call, begin_all=False)
            ends, self._in_product = self._begun, False
            return annotation.compiler_end(product, _COMPILER) if ends else product
        if name == "add" and self._in_product and not self._begun:
            total = self._with_args(call, begin_all=True)
            self._begun = True
            return total
        if name == "subtract" and self._in_product and not self._begun:
            return self._with_args(call, begin_all=False)
        return ExprMutator.visit_call(self, call)

    def _with_args(self, call: Call, begin_all: bool) -> Call:
        """A call with its arguments visited, and begun where they come from outside."""
        args = [self.visit(arg) for arg in call.args]
        begun = [begin_all or isinstance(arg, Var) for arg in args]
        pairs = zip(args, begun, strict=True)
        return Call(
            call.op,
            [annotation.compiler_begin(a, _COMPILER) if b else a for a, b in pairs],
            call.attrs,
        )
