"""The border of a compiled model: what its callers pass and get, and what its code takes and returns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..base.errors import explain
from ..runtime.native import NativeFunction, from_ffi
from ..runtime.tensor import Tensor
from .state import State

if TYPE_CHECKING:
    from .compiled import CompiledModel


class Structure:
    """The arguments of a model of torch. tree: those by position and those by name, as containers are: a
    number is a value, others are (the keys of a dict, or None; the parts). constants: for each value that
    is not a tensor, what it was when the model was exported, as text; "" for a tensor."""

    def __init__(self, tree: Any, constants: Sequence[str]) -> None:
        self.tree, self.constants = tree, list(constants)

    def flattened(
        self, args: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The tensors of a call, and the other keywords. Tensors that are passed one after another are
        these already. Raises TypeError for a call of another structure, or another constant."""
        plain = not any(isinstance(a, (list, tuple, dict)) for a in args)
        names = self.tree[1][1][0]
        if plain and len(args) == self.constants.count("") and not named.keys() & set(names):
            return args, named
        by_name = {k: v for k, v in named.items() if k in names}
        values = list(_leaves(self.tree, (args, by_name)))
        for value, constant in zip(values, self.constants, strict=True):
            if constant not in ("", repr(value)):
                what = (
                    "this model was exported for another value of an argument that is not a tensor"
                )
                raise TypeError(explain(what, got=repr(value), instead=constant))
        tensors = [v for v, c in zip(values, self.constants, strict=True) if not c]
        return tensors, {k: v for k, v in named.items() if k not in names}


def _leaves(tree: Any, value: Any) -> Iterator[Any]:
    """The values in containers. Raises TypeError for others than those of the tree."""
    if isinstance(tree, int):
        yield value
        return
    keys, parts = tree
    if keys is not None:
        fits = isinstance(value, Mapping) and value.keys() == set(keys)
        value = [value[k] for k in keys] if fits else None
    if not isinstance(value, (list, tuple)) or len(value) != len(parts):
        what = "this model is called with the structure of the arguments that it was exported with"
        raise TypeError(explain(what, got=type(value).__name__, instead=f"{len(parts)} values"))
    for part, v in zip(parts, value, strict=True):
        yield from _leaves(part, v)


class Border:
    """Where calls of a model pass. state: the buffers that they write. pairs: the results of a model of
    torch that are complex, as real and imaginary parts; None of other models. structure: how that model's
    callers pass its inputs, where it is not one after another."""

    __slots__ = ("pairs", "state", "structure")

    def __init__(
        self,
        state: State | None = None,
        pairs: Sequence[int] | None = None,
        structure: Structure | None = None,
    ) -> None:
        self.state, self.pairs, self.structure = state, pairs, structure

    def __reduce__(self) -> Any:
        return Border, (self.state, self.pairs, self.structure)

    def call(self, model: CompiledModel, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """Call the model's function. With tensors of torch among the arguments, results are tensors of
        torch, too, and of a model of torch with complex tensors, or without inputs, always."""
        if self.structure is not None:
            args, options = self.structure.flattened(args, options)
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
