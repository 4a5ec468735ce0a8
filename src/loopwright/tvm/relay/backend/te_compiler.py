"""The kernel that a function of Relay is lowered to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....base.errors import LoopwrightError, explain
from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.prim_expr import PrimExpr
from ....ir.structural import structural_equal
from ....ir.target import Target
from ....relax.transform import AnnotateTIROpPattern, LegalizeOps
from ....relax.transform.fuse.fuse_tir import fuse
from ....runtime.tensor import Tensor
from ....tir.function import PrimFunc
from ..expr import Call, Function
from ..strategy import OpImplementation, get_valid_implementations, select_implementation  # noqa: F401
from ..translate import to_relax
from ..types import Type
from .compiling import compiled, lowered, one_target


def get_shape(shape: Sequence[PrimExpr]) -> list[Any]:
    """A shape with numbers where extents are known."""
    return [getattr(dim, "value", dim) for dim in shape]


def lower_to_primfunc(relay_func: Function, target: Target | str) -> PrimFunc:
    """One kernel that computes a function: its operators' loops in sequence, as they are before
    schedules. Raises LoopwrightError for a function that is not made of kernels alone."""
    with one_target(target):
        plain = relay_func.without_attr("Primitive")
        mod = LegalizeOps()(to_relax(IRModule({"main": plain})))
        mod = AnnotateTIROpPattern()(mod)
        kernel = fuse(mod["main"].with_attr("Primitive", True), mod)
    if kernel is None:
        what = "this function cannot be one kernel"
        hint = "relay.lower(mod, target) returns the kernels of a module"
        raise LoopwrightError(explain(what, got=str(relay_func), instead=hint))
    return kernel.func


@dataclass(frozen=True)
class LoweredOutput:
    """The results of a call as te tensors, and the implementation that they are of."""

    outputs: list[Any]
    implement: OpImplementation


def lower_call(
    call: Call, inputs: Sequence[Any], target: str, otype: Type | None = None
) -> LoweredOutput:
    """The tensor expression of a call of an operator, by its best implementation.

    inputs: te tensors. otype: the result's type, by default the call's. Raises TypeError for a call of
    something else."""
    if not isinstance(call.op, Op):
        raise TypeError(explain("only a call of an operator has strategies", got=str(call.op)))
    kind = call.checked_type if otype is None else otype
    best, outputs = select_implementation(call.op, call.attrs, list(inputs), kind, target)
    return LoweredOutput(outputs, best)


@dataclass(frozen=True)
class CachedFunc:
    """A function that was lowered: its kernels in `funcs`, for a target."""

    source: Function
    target: Target
    funcs: IRModule

    def same_as(self, other: object) -> bool:
        """Whether it is the same object."""
        return self is other


class TECompiler:
    """Lowers functions; equal ones for equal targets once."""

    def __init__(self) -> None:
        self._lowered: list[CachedFunc] = []

    def lower(
        self, source_func: Function, target: str | None = None, mod_name: str = "default"
    ) -> Any:
        """The kernels of a function whose types are known, as a `CachedFunc`."""
        chosen = one_target(target)
        for cached in self._lowered:
            if str(cached.target) == str(chosen) and structural_equal(cached.source, source_func):
                return cached
        kernels, _ = lowered(IRModule({"main": source_func}), chosen, mod_name)
        result = CachedFunc(source_func, chosen, kernels)
        self._lowered.append(result)
        return result

    def jit(self, source_func: Function, target: str | None = None) -> Callable[..., None]:
        """A function as code: `f(*arguments, *results)`, which fills the results' tensors."""
        model, _ = compiled(IRModule({"main": source_func}), one_target(target))
        count, run = len(source_func.params), model["main"]

        def call(*tensors: Tensor) -> None:
            result = run(*tensors[:count])
            results = [result] if isinstance(result, Tensor) else list(result)
            if len(tensors) != count + len(results):
                what = f"the function takes {count} tensors and fills {len(results)}"
                raise TypeError(explain(what, got=str(len(tensors))))
            for into, value in zip(tensors[count:], results, strict=True):
                into.copyfrom(value)

        return call

    def clear(self) -> None:
        """Forget what was lowered."""
        self._lowered.clear()

    def items(self) -> list[tuple[Function, CachedFunc]]:
        """(function, what it was lowered to) of all."""
        return [(cached.source, cached) for cached in self._lowered]


_COMPILER = TECompiler()


def get() -> TECompiler:
    """The one of the process."""
    return _COMPILER
