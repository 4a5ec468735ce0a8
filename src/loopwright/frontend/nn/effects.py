"""The effect behind printing and debugging, and what effects call at run time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import relax
from ...base.errors import explain
from ...relax import BlockBuilder
from ...relax.struct_info import ObjectStructInfo
from ...runtime import Tensor, get_global_func, register_func, tensor
from .core import Effect

INVOKE = "vm.builtin.invoke_debug_func"
PRINT = "vm.builtin.debug_print"


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


@register_func(INVOKE, override=True)
def _invoke(state: Any, name: Any, line: Any, *args: Any) -> Any:
    get_global_func(str(name))(str(line), *args)
    return state


@register_func(PRINT, override=True)
def _print(line: Any, value: Any) -> None:
    shown = value.numpy() if isinstance(value, Tensor) else value
    print(f"[{line}] {shown}")


# ---------------------------------------------------------------- the cache of `nn.KVCache`

CACHE_CREATE = "vm.builtin.attention_kv_cache_create"
CACHE_APPEND = "vm.builtin.attention_kv_cache_append"
CACHE_VIEW = "vm.builtin.attention_kv_cache_view"


class CacheState:
    """Elements in the order they were appended, with room for more behind them."""

    def __init__(self, room: np.ndarray, filled: int) -> None:
        self.room = room
        self.filled = filled

    def append(self, values: np.ndarray) -> None:
        """Add elements, growing the room to twice its size where it is too small."""
        end = self.filled + len(values)
        if end > len(self.room):
            size = max(end, 2 * len(self.room))
            grown = np.zeros((size, *self.room.shape[1:]), self.room.dtype)
            grown[: self.filled] = self.room[: self.filled]
            self.room = grown
        self.room[self.filled : end] = values
        self.filled = end

    def view(self, shape: tuple[int, ...]) -> np.ndarray:
        """The elements as a tensor of that shape. Raises ValueError when there are others."""
        if shape[0] != self.filled:
            what = f"the cache holds {self.filled} elements"
            raise ValueError(explain(what, got=f"a view of {shape[0]}"))
        return self.room[: self.filled].reshape(shape)


@register_func(CACHE_CREATE, override=True)
def _create(initial: Any, shape: Any, filled: Any) -> CacheState:
    return CacheState(np.array(initial).reshape(tuple(shape)), int(filled))


@register_func(CACHE_APPEND, override=True)
def _append(cache: CacheState, values: Any) -> CacheState:
    cache.append(np.asarray(values))
    return cache


@register_func(CACHE_VIEW, override=True)
def _view(cache: CacheState, shape: Any) -> Any:
    return tensor(cache.view(tuple(int(d) for d in shape)))
