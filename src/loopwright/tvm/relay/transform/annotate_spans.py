"""AnnotateSpans: each expression comes from its place in the module's text.

before: def @main(%x: float32) { negative(%x) }
after:  def @main(%x: float32) { negative(%x) }    where `negative(%x)` has a span: GeneratedSource:3:3
"""

from __future__ import annotations

from ....ir.module import IRModule
from ....ir.pass_context import PassContext
from ..expr import Function
from ..parser import parse
from ..types import TEXT
from .base import RelayPass


class AnnotateSpans(RelayPass):
    """Give the expressions of Relay in a module positions in its text, which errors show."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        own = {g: f for g, f in mod.functions.items() if isinstance(f, Function)}
        others = {g: f for g, f in mod.functions.items() if g not in own}
        read = parse(TEXT.get()(IRModule(own)), "GeneratedSource", IRModule(others))
        return mod.with_functions({g: read[g] for g in own})
