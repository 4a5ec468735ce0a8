"""The effect behind printing and debugging, and the names of what effects call at run time."""

from __future__ import annotations

from typing import Any

from ... import relax
from ...base.errors import explain
from ...relax import BlockBuilder
from ...relax.struct_info import ObjectStructInfo
from .core import Effect

# The functions that the effects call; see `runtime.vm.builtins`.
INVOKE = "vm.builtin.invoke_debug_func"


class IOEffect(Effect):
    """The order of prints and debug calls, as a value that each of them takes and returns."""

    def __init__(self) -> None:
        self.effect: relax.Var | None = None

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[relax.Var]:
        """Bind the first state."""
        return [builder.emit(relax.op.null_value(), f"{name_hint}_io")]

    def create(self, name_hint: str) -> list[relax.Var]:
        """The parameter that holds the state."""
        return [relax.Var(f"{name_hint}_io", ObjectStructInfo())]

    def set_state(self, state_vars: list[relax.Var]) -> None:
        """Take the state."""
        (self.effect,) = state_vars

    def finalize(self) -> list[relax.Var]:
        """Give the state back."""
        effect, self.effect = self.effect, None
        return [] if effect is None else [effect]

    def call(self, builder: BlockBuilder, name: str, line: str, args: list[Any]) -> None:
        """Emit a call of the debug function `name` with these arguments."""
        if self.effect is None:
            what = f"{name} is called in a subroutine, to which no effect is passed"
            raise RuntimeError(
                explain(what, instead="set define_subroutine = False to look inside")
            )
        text = [relax.StringImm(name), relax.StringImm(line)]
        token = relax.op.call_pure_packed(
            INVOKE, self.effect, *text, *args, sinfo_args=ObjectStructInfo()
        )
        self.effect = builder.emit(token, "_io")


# What `nn.KVCache` calls; see `runtime.vm.builtins`.
CACHE_CREATE = "vm.builtin.attention_kv_cache_create"
CACHE_APPEND = "vm.builtin.attention_kv_cache_append"
CACHE_VIEW = "vm.builtin.attention_kv_cache_view"
