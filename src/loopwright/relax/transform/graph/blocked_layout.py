"""BlockedLayout: convolutions and what stands between them work on blocks of channels.

Pass::

    BlockedLayout(block=4)

Before (-) and after (+)::

      @I.ir_module
      class Module:
          @R.function
          def main(x: R.Tensor((1, 2, 6, 6), dtype="float32")) -> R.Tensor((1, 1, 6, 6), dtype="float32"):
              with R.dataflow():
    -             lv: R.Tensor((1, 1, 6, 6), dtype="float32") = R.nn.conv2d(x, R.const([[[[1.0]], [[2.0]]]], "float32"))
    -             gv: R.Tensor((1, 1, 6, 6), dtype="float32") = R.nn.relu(lv)
    +             lv: R.Tensor((1, 2, 1, 1, 4), dtype="float32") = R.nn.pack_weight(R.const([[[[1.0]], [[2.0]]]], "float32"), layout="OIHW4o")
    +             lv1: R.Tensor((1, 1, 6, 6, 4), dtype="float32") = R.nn.conv2d(x, lv, data_layout="NCHW", kernel_layout="OIHW4o", out_layout="NCHW4c")
    +             gv1: R.Tensor((1, 1, 6, 6, 4), dtype="float32") = R.nn.relu(lv1)
    +             gv: R.Tensor((1, 1, 6, 6), dtype="float32") = R.nn.unpack_channels(gv1, channels=1)
                  R.output(gv)
              return gv

A convolution reads whole vectors of output channels when its tensors are laid out NCHW16c: the
vector length of the target stands at the end. The pass converts each convolution with a constant
weight, lets elementwise operators and pooling work on blocks, and converts back (unpack_channels)
where another operator needs the plain layout, or has a rule of somebody's own whose kernel does not
take blocks. Channels are filled up with zeros to whole blocks;
only operators that keep finite numbers finite see those (the keys of `_RULES`), and weights multiply
them by zero. FoldConstant packs the weights afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....arith import Analyzer
from ....ir.dtype import DataType
from ....ir.expr import Attrs
from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.prim_expr import IntImm
from ....ir.prim_op import multiply
from ....ir.target import Target
from ....ir.transform import ModulePass, PassContext
from ... import op as relax_op
from ...expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    Function,
    MatchCast,
    ShapeExpr,
    Var,
    VarBinding,
)
from ...functor import GraphRewriter
from ...struct_info import TensorStructInfo
from .._graph import device_of
from ..legalize_ops.common import may_be_taken, taker

_UNARY = {
    "relax.nn.relu",
    "relax.nn.relu6",
    "relax.nn.silu",
    "relax.nn.gelu",
    "relax.nn.gelu_tanh",
    "relax.nn.hardsigmoid",
    "relax.nn.hardswish",
    "relax.nn.leakyrelu",
    "relax.sigmoid",
    "relax.tanh",
    "relax.clip",
    "relax.abs",
    "relax.negative",
}
_BINARY = {
    "relax.add",
    "relax.subtract",
    "relax.multiply",
    "relax.maximum",
    "relax.minimum",
    "relax.divide",
}
_POOL = {"relax.nn.max_pool2d", "relax.nn.avg_pool2d", "relax.nn.adaptive_avg_pool2d"}
_FEW_CHANNELS = 8  # fewer input channels than this are read from the plain layout


@dataclass(frozen=True)
class BlockedLayout(ModulePass):
    """See the file's docstring. `block`: channels per block; 0 takes the target's vector length."""

    name = "BlockedLayout"
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
    """A tensor in blocks: how many channels are real, and its variable as (n, blocks, rows, cols,
    block), as (n, blocks, 1, rows * cols, block) where that was made, or both. Pointwise operators
    work on the flat one: one long row has one last tile."""

    channels: int
    _full: Any = None
    _flat: Any = None
    rows: Any = None
    cols: Any = None

    def full(self, work: _Blocker) -> Any:
        """The tensor with its rows and columns."""
        if self._full is None:
            n, blocks, _, _, size = self._flat.struct_info.get_shape()
            self._full = work.reshaped(self._flat, [n, blocks, self.rows, self.cols, size])
        return self._full

    def flat(self, work: _Blocker) -> Any:
        """The tensor with its rows and columns as one axis."""
        if self._flat is None:
            n, blocks, self.rows, self.cols, size = self._full.struct_info.get_shape()
            if _is_one(self.rows):
                self._flat = self._full
            else:
                pixels = work.analyzer.simplify(multiply(self.rows, self.cols))
                self._flat = work.reshaped(self._full, [n, blocks, 1, pixels, size])
        return self._flat

    @property
    def is_flat(self) -> bool:
        """Whether it is only there as one row."""
        return self._full is None

    def any(self) -> Any:
        """The variable that is there."""
        return self._flat if self._full is None else self._full


class _Blocker(GraphRewriter):
    def __init__(self, mod: IRModule, block: int) -> None:
        super().__init__(mod)
        self.size = block
        self.layout = f"NCHW{block}c"
        self.target = Target.current(allow_none=True)
        self.analyzer = Analyzer()
        self.blocked: dict[Var, _Blocked] = {}  # by the old variable
        self.plain: dict[Var, Any] = {}
        self.packed: dict[Var, _Blocked] = {}

    def function(self, func: Function) -> Function:
        self.blocked, self.plain, self.packed = {}, {}, {}
        return super().function(func)

    def block(self, block: BindingBlock) -> BindingBlock:
        # What is laid out here is known here only: after the block there are just its outputs.
        outer = self.blocked, self.plain, self.packed
        self.blocked, self.plain, self.packed = (dict(known) for known in outer)
        made = super().block(block)
        self.blocked, self.plain, self.packed = outer
        return made

    def binding(self, binding: Binding) -> None:
        if isinstance(binding, MatchCast) and self.match_cast(binding):
            return
        if isinstance(binding, VarBinding) and isinstance(binding.value, Call):
            call = binding.value
            rule = self.rule_of(call)
            made = rule(self, call) if rule is not None and _is_float_image(call) else None
            if made is not None:
                value, channels, flat = made
                value = value.with_span(call.span)
                var = self.builder.emit(value, binding.var.name_hint)
                if flat is None:
                    self.blocked[binding.var] = _Blocked(channels, var)
                else:
                    rows, cols = flat.rows, flat.cols
                    self.blocked[binding.var] = _Blocked(channels, None, var, rows, cols)
                if not _is_local(binding.var):
                    whole = self.blocked[binding.var].full(self)
                    self.emit(binding, relax_op.nn.unpack_channels(whole, channels))
                    self.plain[binding.var] = self.var_map.get(binding.var, binding.var)
                return
        super().binding(binding)

    def rule_of(self, call: Call) -> Any:
        """How a call is blocked; None for one that somebody lowers otherwise, if the operator is
        more than a function of each element: a kernel for those may fit blocks, too."""
        op = call.op
        if not isinstance(op, Op) or op.name not in _RULES:
            return None
        own = op.name not in _UNARY and may_be_taken(call, self.target_of(call))
        return None if own else _RULES[op.name]

    def target_of(self, call: Call) -> Target | None:
        """Whose rules lower a call."""
        device = device_of(call.args)
        return self.target if device is None else device.target

    def match_cast(self, binding: MatchCast) -> bool:
        """A check of a blocked tensor's extents is made on the blocks."""
        source = self.blocked.get(binding.value) if isinstance(binding.value, Var) else None
        channels = _channels(binding.struct_info)
        if (
            source is None
            or channels is None
            or channels != source.channels
            or not _is_local(binding.var)
        ):
            return False
        n, _, rows, cols = binding.struct_info.get_shape()
        have = source.full(self).struct_info.get_shape()
        info = TensorStructInfo([n, have[1], rows, cols, have[4]], binding.struct_info.dtype)
        var = self.builder.match_cast(source.full(self), info, binding.var.name_hint)
        self.blocked[binding.var] = _Blocked(channels, var)
        return True

    def value(self, expr: Any) -> Any:
        if isinstance(expr, Var) and expr in self.blocked:
            return self.unpacked(expr)
        return super().value(expr)

    def unpacked(self, var: Var) -> Any:
        """The plain tensor of a blocked one, made where it is first asked for."""
        found = self.plain.get(var)
        if found is None:
            blocked = self.blocked[var]
            call = relax_op.nn.unpack_channels(blocked.full(self), blocked.channels)
            found = self.plain[var] = self.builder.emit(call, f"{var.name_hint}_plain")
        return found

    def in_blocks(self, value: Any) -> _Blocked | None:
        """A tensor in blocks, packed where it is not yet; None when its channels are unknown."""
        if isinstance(value, Var) and value in self.blocked:
            return self.blocked[value]
        if isinstance(value, Var) and value in self.packed:
            return self.packed[value]
        info = value.struct_info
        channels = _channels(info)
        if channels is None:
            return None
        plain = super().value(value) if isinstance(value, Var) else value
        hint = value.name_hint if isinstance(value, Var) else "lv"
        made = relax_op.nn.pack_channels(plain, self.size)
        result = _Blocked(channels, self.builder.emit(made, f"{hint}_blocked"))
        if isinstance(value, Var):
            self.packed[value] = result
        return result

    def reshaped(self, var: Any, shape: list[Any]) -> Any:
        """A view of a blocked tensor in another shape."""
        view = relax_op.memory.view(var, ShapeExpr(shape))
        return self.builder.emit(view, f"{var.name_hint}_view")

    # -- rules: (the blocked call, channels, the flat tensor it follows or None), or None ---------

    def conv(self, call: Call) -> _Made | None:
        attrs, weight = call.attrs, call.args[1]
        if not isinstance(weight, Constant) or attrs.data_layout != "NCHW":
            return None
        if attrs.kernel_layout != "OIHW" or attrs.out_layout != "NCHW":
            return None
        data, kernel = call.args[0], weight.data.shape
        have = _channels(data.struct_info)
        if have is None or str(weight.data.dtype) != "float32":
            return None
        size = self.size
        depthwise = attrs.groups > 1 and kernel[1] == 1 and kernel[0] == have == attrs.groups
        if attrs.groups > 1 and not depthwise:
            return None
        changed: dict[str, Any] = {"out_layout": self.layout}
        flat: _Blocked | None = None
        if not depthwise and have < _FEW_CHANNELS and data not in self.blocked:
            source, layout = self.value(data), f"OIHW{size}o"
        else:
            blocked = self.in_blocks(data)
            assert blocked is not None
            if not depthwise and _is_pointwise(attrs, kernel):
                source, flat = blocked.flat(self), blocked
            else:
                source = blocked.full(self)
            layout = f"OIHW{size}o" if depthwise else f"OIHW{size}i{size}o"
            changed["data_layout"] = self.layout
        if depthwise:
            changed["groups"] = -(-have // size) * size
        changed["kernel_layout"] = layout
        packed = relax_op.nn.pack_weight(weight, layout)
        made = Call(call.op, [source, packed], _with(attrs, changed))
        return made, kernel[0], flat if flat is not None and not _is_one(flat.rows) else None

    def transposed(self, call: Call) -> _Made | None:
        attrs, weight = call.attrs, call.args[1]
        if not isinstance(weight, Constant) or str(weight.data.dtype) != "float32":
            return None
        kernel = weight.data.shape
        apart = list(attrs.strides) == list(kernel[2:]) and not any(attrs.padding)
        plain = attrs.data_layout == "NCHW" and attrs.groups == 1 and list(attrs.dilation) == [1, 1]
        if not (apart and plain and not any(attrs.output_padding)):
            return None
        source = self.in_blocks(call.args[0])
        if source is None:
            return None
        layout = f"IOHW{self.size}i{self.size}o"
        changed = {"data_layout": self.layout, "out_layout": self.layout, "kernel_layout": layout}
        packed = relax_op.nn.pack_weight(weight, layout)
        return Call(call.op, [source.full(self), packed], _with(attrs, changed)), kernel[1], None

    def unary(self, call: Call) -> _Made | None:
        source = self.blocked.get(call.args[0]) if isinstance(call.args[0], Var) else None
        if source is None:
            return None
        made = call.replace(args=(source.any(), *call.args[1:]))
        target = self.target_of(call)
        if may_be_taken(call, target):
            own = taker(call, target)
            if own is None or taker(self.builder.normalize(made), target) != own:
                return None
        return made, source.channels, source if source.is_flat else None

    def binary(self, call: Call) -> _Made | None:
        known = [self.blocked.get(a) if isinstance(a, Var) else None for a in call.args]
        lead = next((k for k in known if k is not None and not _is_pixel(k)), known[0] or known[1])
        if lead is None:
            return None
        if call.op.name == "relax.divide" and not _nonzero(call.args[1]):
            return None
        others = [k for k in known if k is not None and k is not lead]
        same = all(_is_pixel(k) or _same_pixels(k, lead, self) for k in others)
        flat = same and any(k.is_flat for k in (lead, *others))
        parts = []
        for arg, blocked in zip(call.args, known, strict=True):
            if blocked is None:
                part = self.operand(arg, lead)
            elif flat and not _is_pixel(blocked):
                part = blocked.flat(self)
            else:
                part = blocked.full(self)
            if part is None:
                return None
            parts.append(part)
        return call.replace(args=tuple(parts)), lead.channels, lead if flat else None

    def operand(self, value: Any, lead: _Blocked) -> Any:
        """The other side of a broadcasting operator, in blocks; None when it cannot be."""
        info = value.struct_info
        shape = info.get_shape() if isinstance(info, TensorStructInfo) else None
        if shape is None:
            return None
        if len(shape) == 0:
            return value
        if len(shape) != 4:
            ones = all(isinstance(d, IntImm) and d.value == 1 for d in shape)
            if isinstance(value, Constant) and ones:
                return Constant(value.data.numpy().reshape(()))
            if len(shape) == 3 and isinstance(value, Constant):
                value = Constant(value.data.numpy()[None])
            else:
                return None
        channels = _channels(value.struct_info)
        if channels not in (1, lead.channels) or (lead.channels == 1 and channels != 1):
            return None
        if isinstance(value, Var) and channels == 1 and lead.channels != 1:
            return None
        spatial = [d for d in shape[-2:] if not _is_one(d)]
        if spatial and lead.is_flat:
            return None
        packed = self.in_blocks(value)
        return None if packed is None else packed.full(self)

    def pool(self, call: Call) -> _Made | None:
        source = self.blocked.get(call.args[0]) if isinstance(call.args[0], Var) else None
        if source is None or call.attrs.layout != "NCHW":
            return None
        changed = {"layout": self.layout, "out_layout": self.layout}
        made = Call(call.op, [source.full(self)], _with(call.attrs, changed))
        return made, source.channels, None

    def mean(self, call: Call) -> _Made | None:
        """A mean over rows and columns that keeps them as extents of 1 is a global pooling."""
        source = self.blocked.get(call.args[0]) if isinstance(call.args[0], Var) else None
        axes = call.attrs.axis
        if source is None or axes is None or not call.attrs.keepdims:
            return None
        if sorted(a % 4 for a in axes) != [2, 3]:
            return None
        made = relax_op.mean(source.any(), [2, 3], True)
        return made, source.channels, None


_Made = tuple[Call, int, _Blocked | None]


def _is_one(dim: Any) -> bool:
    return isinstance(dim, IntImm) and dim.value == 1


def _is_pointwise(attrs: Attrs, kernel: tuple[int, ...]) -> bool:
    window = list(kernel[2:]) == [1, 1] and list(attrs.strides) == [1, 1]
    return window and not any(attrs.padding) and attrs.groups == 1


def _is_pixel(blocked: _Blocked) -> bool:
    """Whether rows and columns are both 1, so that it broadcasts over pixels."""
    shape = blocked.any().struct_info.get_shape()
    return _is_one(shape[2]) and _is_one(shape[3])


def _same_pixels(a: _Blocked, b: _Blocked, work: _Blocker) -> bool:
    """Whether two tensors have the same rows and columns."""
    pairs = zip(_pixels(a), _pixels(b), strict=True)
    return all(work.analyzer.can_prove_equal(x, y) for x, y in pairs)


def _pixels(blocked: _Blocked) -> tuple[Any, Any]:
    if blocked.is_flat:
        return blocked.rows, blocked.cols
    return blocked.any().struct_info.get_shape()[2:4]


def _with(attrs: Attrs, changed: dict[str, Any]) -> Attrs:
    return Attrs(attrs.key, {**attrs.values, **changed})


def _is_local(var: Var) -> bool:
    return type(var).__name__ == "DataflowVar"


def _channels(info: Any) -> int | None:
    """The channels of an NCHW float32 tensor, or None."""
    shape = info.get_shape() if isinstance(info, TensorStructInfo) else None
    if shape is None or len(shape) != 4 or info.dtype != DataType("float32"):
        return None
    return shape[1].value if isinstance(shape[1], IntImm) else None


def _is_float_image(call: Call) -> bool:
    return any(_channels(a.struct_info) is not None for a in call.args)


def _nonzero(value: Any) -> bool:
    return isinstance(value, Constant) and bool(np.all(value.data.numpy() != 0))


_RULES: dict[str, Any] = {
    "relax.nn.conv2d": _Blocker.conv,
    "relax.nn.conv2d_transpose": _Blocker.transposed,
    **dict.fromkeys(_UNARY, _Blocker.unary),
    **dict.fromkeys(_BINARY, _Blocker.binary),
    **dict.fromkeys(_POOL, _Blocker.pool),
    "relax.mean": _Blocker.mean,
}

__all__ = ["BlockedLayout"]
