"""The border of a compiled model: what its callers pass and get, and what its code takes and returns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..base.errors import explain
from ..runtime.native import NativeFunction, from_ffi
from ..runtime.tensor import Tensor
from .state import State

if TYPE_CHECKING:
    from .compiled import CompiledModel


class Border:
    """Where calls of a model pass. state: the buffers that they write. pairs: the results of a model of
    torch that are complex, as real and imaginary parts; None of other models."""

    __slots__ = ("pairs", "state")

    def __init__(self, state: State | None = None, pairs: Sequence[int] | None = None) -> None:
        self.state, self.pairs = state, pairs

    def call(self, model: CompiledModel, args: Sequence[Any], options: Mapping[str, bool]) -> Any:
        """Call the model's function. With tensors of torch among the arguments, results are tensors of
        torch, too, and of a model of torch with complex tensors, or without inputs, always."""
        state = self.state
        if state is None and self.pairs is None:
            return _call(model[model.entry_name], args, options)
        if state is None:
            return self._converted(model, args, options)
        if options:
            what = "a model that writes buffers returns new tensors"
            raise TypeError(explain(what, got=", ".join(options), instead="inputs alone"))
        result = self._converted(model, state.completed(args), {})
        results = state.update(args, model.signature(model.entry_name).leaves(result))
        return results if len(results) > 1 else results[0] if results else None

    def run(
        self, model: CompiledModel, state: State, feeds: Any, named: Mapping[str, Any]
    ) -> dict[str, Tensor]:
        """A run of a model with state, by the names of its inputs and outputs."""
        names = model.input_names()[: -len(state.tensors) or None]
        if not isinstance(feeds, Mapping):
            listed = feeds if isinstance(feeds, (list, tuple)) else [feeds]
            if len(listed) > len(names):
                what = f"this model has {len(names)} inputs; its buffers are its own"
                raise ValueError(explain(what, got=len(listed), instead=", ".join(names)))
            feeds = dict(zip(names, listed, strict=False))
        feeds = {**feeds, **named}
        if feeds.keys() != set(names):
            what = "inputs are given by name"
            raise ValueError(explain(what, got=", ".join(feeds), instead=", ".join(names)))
        args = [feeds[n] for n in names]
        result = _call(model[model.entry_name], state.completed(args), {})
        results = state.update(args, model.signature(model.entry_name).leaves(result))
        return dict(zip(model.output_names()[len(state.written) :], results, strict=True))

    def _converted(
        self, model: CompiledModel, args: Sequence[Any], options: Mapping[str, bool]
    ) -> Any:
        torch: Any = sys.modules.get("torch")
        function = model[model.entry_name]
        if self.pairs is None or torch is None:
            return _call(function, args, options)
        plain = [torch.view_as_real(a.resolve_conj()) if _is_complex(a) else a for a in args]
        result = _as_torch(_call(function, plain, options), torch.from_dlpack)
        if not isinstance(result, (list, tuple)):
            return torch.view_as_complex(result) if self.pairs else result
        parts = [torch.view_as_complex(r) if k in self.pairs else r for k, r in enumerate(result)]
        return type(result)(parts)


def _call(function: Any, args: Sequence[Any], options: Mapping[str, bool]) -> Any:
    torch = sys.modules.get("torch")
    if torch is None or not any(isinstance(a, torch.Tensor) for a in args):
        return function(*args, **options)
    if type(function) is NativeFunction and function.returns and not options:
        with suppress(BufferError, TypeError, ValueError):  # the call below converts, or explains
            result = function.raw(*map(_plain, args))
            if type(result) is torch.Tensor:
                return result
            return _as_torch(from_ffi(result), torch.from_dlpack)
    plain = [a.detach() if isinstance(a, torch.Tensor) else a for a in args]
    return _as_torch(function(*plain, **options), torch.from_dlpack)


def _plain(tensor: Any) -> Any:
    """A tensor of torch as native code takes it: contiguous, its signs and conjugates computed. Another
    value as it is."""
    if not hasattr(tensor, "is_neg"):
        return tensor
    if tensor.is_contiguous() and not (tensor.is_neg() or tensor.is_conj()):
        return tensor
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _is_complex(value: Any) -> bool:
    return hasattr(value, "is_complex") and value.is_complex()


def _as_torch(result: Any, convert: Callable[[Any], Any]) -> Any:
    """Results with their tensors converted."""
    if isinstance(result, (list, tuple)):
        return type(result)(_as_torch(r, convert) for r in result)
    return convert(result) if isinstance(result, Tensor) else result
