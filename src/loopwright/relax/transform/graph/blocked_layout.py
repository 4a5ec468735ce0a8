"""BlockedLayout: convolutions and the operators between them work on blocks of channels.

Pass::

    BlockedLayout(block=4)

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
          def main(x: R.Tensor((1, 2, 6, 6), dtype="float32")) -> R.Tensor((1, 4, 6, 6), dtype="float32"):
              with R.dataflow():
    -             lv: R.Tensor((1, 4, 6, 6), dtype="float32") = R.nn.conv2d(x, R.const([[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]], [[[5.0]], [[6.0]]], [[[7.0]], [[8.0]]]], "float32"))
    -             gv: R.Tensor((1, 4, 6, 6), dtype="float32") = R.nn.relu(lv)
    +             lv: R.Tensor((1, 2, 1, 1, 4), dtype="float32") = R.nn.pack_weight(R.const([[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]], [[[5.0]], [[6.0]]], [[[7.0]], [[8.0]]]], "float32"), layout="OIHW4o")
    +             lv1: R.Tensor((1, 1, 6, 6, 4), dtype="float32") = R.nn.conv2d(x, lv, data_layout="NCHW", kernel_layout="OIHW4o", out_layout="NCHW4c")
    +             gv1: R.Tensor((1, 1, 6, 6, 4), dtype="float32") = R.nn.relu(lv1)
    +             gv: R.Tensor((1, 4, 6, 6), dtype="float32") = R.nn.unpack_channels(gv1, channels=4)
                  R.output(gv)
              return gv

A convolution reads whole vectors of output channels when its tensors are laid out NCHW16c
(NCW16c, NCDHW16c), with the vector length of the target at the end. Each operator's hook `layout` (`relax.layout`)
returns whether and how it works on blocks: convolutions request them, other operators follow; their results are in
blocks, or plain (`relax.quantize_range`). The pass
converts back (unpack_channels) where an operator needs the plain tensor, or where the user has
registered a kernel that does not take blocks. The last block is padded with zeros; only operators
that keep finite numbers finite see these, and weights multiply them by zero. FoldConstant packs
the weights afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

from ....arith import Analyzer
from ....ir.literals import is_one
from ....ir.prim_expr import IntImm
from ....ir.prim_op import multiply
from ....ir.target import Target
from ....ir.transform import IRModule, ModulePass, PassContext
from ....tir import layout as layout_of
from ... import op as relax_op
from ...expr import (
    Binding,
    Call,
    Constant,
    DataflowVar,
    Expr,
    MatchCast,
    ShapeExpr,
    Var,
    VarBinding,
)
from ...layout import LETTERS, LayoutQuery, LayoutRewriter, tensor_arguments, with_tensors
from ...struct_info import StructInfo, TensorStructInfo
from ...weights import computed
from ..legalize_ops.common import may_be_taken, taker
from ..queries import device_of

_DTYPES = ("float32", "float16", "bfloat16", "uint8", "int8", "int32")


class BlockedLayout(ModulePass):
    """Converts to blocks of channels. `block`: channels per block; 0 means the target's vector length."""

    block: int = 0

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rewrite every function."""
        block = self.block
        if not block:
            target = Target.current(allow_none=True)
            block = target.vector_bits // 32 if target is not None else 16
        return _Blocker(mod, block).run() if block > 1 else mod


@dataclass
class _Blocked:
    """A tensor in blocks: its actual number of channels, and its variable as (n, blocks, *sides,
    block), as (n, blocks, 1, rows * cols, block), or both. Pointwise operators work on the
    flat one: one long row has only one partial tile."""

    channels: int
    _full: Any = None
    _flat: Any = None
    _sides: tuple[Any, ...] = ()

    @property
    def sides(self) -> tuple[Any, ...]:
        """The extents of the image: (rows, cols), (depth, rows, cols)."""
        return self._sides or tuple(self._full.struct_info.get_shape()[2:-1])

    def full(self, work: _Blocker) -> Any:
        """The tensor with separate rows and columns."""
        if self._full is None:
            shape = self._flat.struct_info.get_shape()
            self._full = work.reshaped(self._flat, [*shape[:2], *self.sides, shape[-1]])
        return self._full

    def flat(self, work: _Blocker) -> Any:
        """The tensor with its rows and columns as one axis."""
        if self._flat is None:
            if self.is_row:
                self._flat = self._full
            else:
                shape, ones = self._full.struct_info.get_shape(), [1] * (len(self.sides) - 1)
                pixels = work.analyzer.simplify(reduce(multiply, self.sides))
                self._flat = work.reshaped(self._full, [*shape[:2], *ones, pixels, shape[-1]])
        return self._flat

    @property
    def is_row(self) -> bool:
        """Whether the image is one row."""
        return all(is_one(d) for d in self.sides[:-1])

    @property
    def is_pixel(self) -> bool:
        """Whether the image is one pixel, so that it broadcasts over pixels."""
        return all(is_one(d) for d in self.sides)

    @property
    def is_flat(self) -> bool:
        """Whether only the flat variable exists."""
        return self._full is None

    def any(self) -> Any:
        """The full variable, or else the flat one."""
        return self._flat if self._full is None else self._full


class _Blocker(LayoutRewriter):
    def __init__(self, mod: IRModule, block: int) -> None:
        super().__init__(mod)
        self.size = block
        self.target = Target.current(allow_none=True)
        self.analyzer = Analyzer()

    def binding(self, binding: Binding) -> None:
        if not (isinstance(binding, MatchCast) and self.match_cast(binding)):
            super().binding(binding)

    def match_cast(self, binding: MatchCast) -> bool:
        """Check a blocked tensor's extents on the blocks; False if that is not possible."""
        source = self.laid.get(binding.value) if isinstance(binding.value, Var) else None
        channels = _channels(binding.struct_info)
        if source is None or channels is None or channels != source.channels:
            return False
        if not isinstance(binding.var, DataflowVar):
            return False
        n, _, *sides = binding.struct_info.get_shape()
        have = source.full(self).struct_info.get_shape()
        info = TensorStructInfo([n, have[1], *sides, have[-1]], binding.struct_info.dtype)
        var = self.builder.match_cast(source.full(self), info, binding.var.name_hint)
        self.laid[binding.var] = _Blocked(channels, var)
        return True

    def restore(self, laid: _Blocked) -> Any:
        return relax_op.nn.unpack_channels(laid.full(self), laid.channels)

    def laid_out(self, binding: VarBinding) -> _Blocked | Expr | None:
        call = binding.value
        if not isinstance(call, Call):
            return None
        hook, channels = self.hook(call), _channels(call.struct_info)
        if hook is None:
            return None
        tensors = tensor_arguments(call)
        blocked = [self.laid.get(t) if isinstance(t, Var) else None for t in tensors]
        if channels is None and not any(blocked):
            return None
        layout = None if channels is None else self.in_letters(call.struct_info.ndim)
        layouts = tuple(None if b is None else self.in_letters(2 + len(b.sides)) for b in blocked)
        plan = hook(call, LayoutQuery(layouts, block=self.size))
        target = self.target_of(call)
        owned = may_be_taken(call, target)
        if plan is None or plan.outputs != (layout,) or (owned and not plan.elementwise):
            return None
        in_blocks = [b for b in blocked if b is not None]
        lead = next((b for b in in_blocks if not b.is_pixel), in_blocks[0] if in_blocks else None)
        flat = plan.pixels == "merged" or (
            plan.pixels == "any"
            and self.same_pixels(in_blocks, lead)
            and any(b.is_flat for b in in_blocks)
        )
        parts: list[Any] = []
        for tensor, source, required in zip(tensors, blocked, plan.inputs, strict=True):
            part: Any = source
            if required is None:
                part = self.unblocked(tensor, lead)
            elif source is None:
                part = self.in_blocks(tensor) if lead is None else self.operand(tensor, lead, flat)
            elif lead is not None and source.channels != lead.channels:
                return None
            if part is None:
                return None
            if isinstance(part, _Blocked):
                lead = lead or part
                part = part.flat(self) if flat and not part.is_pixel else part.full(self)
            parts.append(part)
        changed = with_tensors(call, parts, plan)
        if owned:  # the kernel may also take blocks
            own = taker(call, target)
            if own is None or taker(self.builder.normalize(changed), target) != own:
                return None
        if channels is None:
            return changed.with_span(call.span)
        var = self.builder.emit(changed.with_span(call.span), binding.var.name_hint)
        result = _Blocked(channels, var)
        if flat and lead is not None and not lead.is_row and not result.is_pixel:
            return _Blocked(channels, None, var, lead.sides)
        return result

    def in_letters(self, ndim: int) -> Any:
        """The layout in blocks of a tensor: NCHW16c."""
        return layout_of(f"{LETTERS[:ndim]}{self.size}b")

    def target_of(self, call: Call) -> Target | None:
        """The target whose rules lower a call."""
        device = device_of(call.args)
        return self.target if device is None else device.target

    def same_pixels(self, tensors: list[_Blocked], lead: _Blocked | None) -> bool:
        """Whether the tensors have the rows and columns of `lead`, or a single pixel."""
        return all(
            self.analyzer.can_prove_equal(x, y)
            for one in tensors
            if lead is not None and one is not lead and not one.is_pixel
            for x, y in zip(one.sides, lead.sides, strict=True)
        )

    def unblocked(self, value: Expr, lead: _Blocked | None) -> Any:
        """A tensor that needs no blocks; a one-element constant becomes a literal."""
        if lead is not None and isinstance(value, Constant):
            data = value.data
            scalar = data.size == 1 and not value.is_weight
            if scalar and data.ndim != 2 + len(lead.sides):
                return Constant(data.numpy().reshape(()))
        return self.value(value)

    def in_blocks(self, value: Expr) -> _Blocked | None:
        """A plain tensor in blocks; None if its number of channels is unknown."""
        if value in self.packed:
            return self.packed[value]
        channels = _channels(value.struct_info)
        if channels is None:
            return None
        hint = value.name_hint if isinstance(value, Var) else "lv"
        packed = relax_op.nn.pack_channels(self.value(value), self.size)
        result = _Blocked(channels, self.builder.emit(packed, f"{hint}_blocked"))
        if isinstance(value, Var):
            self.packed[value] = result
        return result

    def operand(self, value: Expr, lead: _Blocked, flat: bool) -> _Blocked | None:
        """The other operand of a broadcasting operator, in blocks; None if that is not possible."""
        if isinstance(value, Constant) and value.data.ndim == 1 + len(lead.sides):
            value = (
                computed(self.builder.normalize(relax_op.expand_dims(value, 0)))
                if value.is_weight
                else Constant(value.data.numpy()[None])
            )
        channels = _channels(value.struct_info)
        if channels != lead.channels and (channels != 1 or isinstance(value, Var)):
            return None
        if flat and not all(is_one(d) for d in value.struct_info.get_shape()[2:]):
            return None
        return self.in_blocks(value)

    def reshaped(self, var: DataflowVar, shape: list[Any]) -> Any:
        """A view of a blocked tensor in another shape."""
        view = relax_op.memory.view(var, ShapeExpr(shape))
        return self.builder.emit(view, f"{var.name_hint}_view")


def _channels(info: StructInfo) -> int | None:
    """The channels of an NCW, NCHW or NCDHW tensor of a type that is computed in vectors of 32 bits, or None."""
    shape = info.get_shape() if isinstance(info, TensorStructInfo) else None
    if shape is None or len(shape) not in (3, 4, 5) or str(info.dtype) not in _DTYPES:
        return None
    return shape[1].value if isinstance(shape[1], IntImm) else None
