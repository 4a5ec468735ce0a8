"""ToBasicBlockNormalForm: a `let` for each expression that several scopes use, before them.

before: %0 = exp(%x); if (%c) { %0 } else { negative(%0) }
after:  let %a = exp(%x); if (%c) { %a } else { negative(%a) }
"""

from __future__ import annotations

from ....ir.module import IRModule
from ..expr import Function
from ..scopes import Binder
from .base import RelayPass


class ToBasicBlockNormalForm(RelayPass):
    """A `let` for each expression that several scopes use, before them."""

    opt_level = 1

    def run_function(self, func: Function, mod: IRModule) -> Function:
        return Binder(func, all=False).run()
