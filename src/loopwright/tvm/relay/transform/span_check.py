"""SpanCheck: whether every expression says where it came from.

before: def @main(%x: float32) { negative(%x) }
after:  the same, or an error that shows the expressions without a span
"""

from __future__ import annotations

from ....base.errors import DiagnosticError, explain
from ....ir.expr import GlobalVar
from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Function
from ..walk import post_order
from .base import RelayPass


class SpanCheck(RelayPass):
    """Report the expressions of Relay in a module that have no span. Raises DiagnosticError."""

    typed = False

    def run_function(self, func: Function, mod: IRModule) -> Function:
        nodes = [n for n in post_order(func) if not isinstance(n, (Op, GlobalVar))]
        without = [node for node in nodes if node.span is None]
        if without:
            what = f"{len(without)} of {len(nodes)} expressions have no span"
            hint = "relay.transform.AnnotateSpans() sets them to positions in the module's text"
            raise DiagnosticError(explain(what, got=str(without[0])[:500], instead=hint))
        return func
