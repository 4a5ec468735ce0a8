"""Computes whose elements an intrinsic computes, many at once: `te.compute((n, 16), lambda i:
vadd(A[i, 0:16], B[i, 0:16]))`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...base.errors import CallTypeError, CallValueError, explain
from ...ir.prim_expr import IterVar, PrimExpr, Range, Var
from ...ir.prim_op import const, convert
from ...ir.variables import substitute
from ...te.tensor import BaseComputeOp, BodyOperation, Operation, Tensor, TensorSlice

if TYPE_CHECKING:
    from .tensor_intrin import TensorIntrin

Region = tuple[Range, ...]


class TensorIntrinCall(BodyOperation):
    """A call of an intrinsic on parts of tensors: the result of a compute's function."""

    def __init__(
        self,
        intrin: TensorIntrin,
        tensors: Sequence[Tensor],
        regions: Sequence[Region],
        reduce_axis: Sequence[IterVar],
    ) -> None:
        self.intrin = intrin
        self.tensors = tuple(tensors)
        self.regions = tuple(regions)
        self.reduce_axis = tuple(reduce_axis)

    def operation(
        self, name: str, tag: str, axis: Sequence[IterVar], rest: Sequence[IterVar]
    ) -> TensorComputeOp:
        return TensorComputeOp(name, tag, [*axis, *rest], len(axis), self)


def call_intrin(intrin: TensorIntrin, args: Sequence[Any], reduce_axis: Any) -> TensorIntrinCall:
    """The call of an intrinsic on slices, `A[i, 0:16]`. Raises CallTypeError for other arguments, CallValueError
    for another number of them."""
    for arg in args:
        if not isinstance(arg, (TensorSlice, Tensor)):
            what = f"{intrin.name} takes parts of tensors"
            raise CallTypeError(explain(what, got=type(arg).__name__, instead="A[i, 0:16]"))
    slices = [TensorSlice(a, ()) if isinstance(a, Tensor) else a for a in args]
    count = len(intrin.op.input_tensors)
    if len(slices) != count:
        what = f"{intrin.name} reads {count} tensors"
        raise CallValueError(explain(what, got=f"{len(slices)} parts of some"))
    axes = [reduce_axis] if isinstance(reduce_axis, IterVar) else list(reduce_axis or ())
    return TensorIntrinCall(
        intrin, [s.tensor for s in slices], [region_of(s) for s in slices], axes
    )


def region_of(part: TensorSlice) -> Region:
    """The ranges of a slice; the last dimensions may be left out. Raises CallValueError for a step."""
    shape = part.tensor.shape
    indices = [*part.indices, *([slice(None)] * (len(shape) - len(part.indices)))]
    ranges = []
    for index, extent in zip(indices, shape, strict=True):
        if isinstance(index, slice):
            if index.step not in (None, 1):
                what = f"a part of {part.tensor.op.name} has a step"
                raise CallValueError(explain(what, got=index.step, instead="consecutive elements"))
            start = const(0, extent.dtype) if index.start is None else convert(index.start)
            ranges.append(Range(start, extent if index.stop is None else index.stop))
        else:
            at = index.var if isinstance(index, IterVar) else convert(index)
            ranges.append(Range.from_min_extent(at, const(1, at.dtype)))
    return tuple(ranges)


class TensorComputeOp(BaseComputeOp):
    """`intrin` of the inputs' regions for each index of the first `schedulable_ndim` axes; the other axes are
    inside of the intrinsic."""

    __slots__ = ("_axis", "_reduce", "input_regions", "inputs", "intrin", "schedulable_ndim")

    def __init__(
        self,
        name: str,
        tag: str,
        axis: Sequence[IterVar],
        schedulable_ndim: int,
        call: TensorIntrinCall,
    ) -> None:
        super().__init__(name, tag)
        self._axis = tuple(axis)
        self._reduce = call.reduce_axis
        self.schedulable_ndim = schedulable_ndim
        self.intrin = call.intrin
        self.inputs = call.tensors
        self.input_regions = call.regions
        dims = [a.dom.extent for a in self._axis]
        self._outputs = (Tensor(dims, call.intrin.op.output(0).dtype, self),)

    @property
    def axis(self) -> tuple[IterVar, ...]:
        return self._axis

    @property
    def reduce_axis(self) -> tuple[IterVar, ...]:
        return self._reduce

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return self.inputs

    @property
    def call(self) -> TensorIntrinCall:
        """The intrinsic and what it reads."""
        return TensorIntrinCall(self.intrin, self.inputs, self.input_regions, self._reduce)

    @property
    def region(self) -> Region:
        """The part of the result that one call computes."""
        n = self.schedulable_ndim
        one = [Range.from_min_extent(a.var, const(1, a.var.dtype)) for a in self._axis[:n]]
        return (*one, *(a.dom for a in self._axis[n:]))

    def replace_inputs(self, table: Mapping[Tensor, Tensor]) -> Operation:
        if not any(t in table for t in self.inputs):
            return self
        call = self.call
        call.tensors = tuple(table.get(t, t) for t in self.inputs)
        return TensorComputeOp(self.name, self.tag, self._axis, self.schedulable_ndim, call)

    def moved(
        self, name: str, axis: Sequence[IterVar], values: Mapping[Var, PrimExpr]
    ) -> tuple[TensorComputeOp, list[IterVar]]:
        """The operation along other axes, of which the old ones have `values`; and its axes inside of the
        intrinsic, as loops of the copy."""
        inner = self._axis[self.schedulable_ndim :]
        own = [IterVar(a.dom, a.var.copy_with_suffix("_c"), a.iter_type) for a in inner]
        call = self.call
        call.regions = tuple(
            tuple(
                Range.from_min_extent(
                    substitute(r.min, dict(values)), substitute(r.extent, dict(values))
                )
                for r in region
            )
            for region in self.input_regions
        )
        new = TensorComputeOp(name, self.tag, [*axis, *own], len(axis), call)
        return new, [IterVar(a.dom, a.var, IterVar.DataPar) for a in inner]
