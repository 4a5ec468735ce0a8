"""Rules for AlterOpLayout by the vectors of the current target, TVM's `topi.nn.*_alter_layout`.

    relay.op.register_alter_op_layout("nn.conv2d", conv2d_alter_layout)

    before: nn.conv2d(%x, %w)                    # NCHW, OIHW, 32 channels; 8 lanes
    after:  nn.contrib_conv2d_NCHWc(...)         # NCHW8c, OIHW8i8o

No rule is registered: a build chooses blocks of channels on its own (`BlockedLayout`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ir.dtype import DataType
from ....ir.expr import Attrs
from ....ir.prim_expr import IntImm
from ....ir.target import Target
from ....te.tensor import Tensor
from ..expr import Expr
from ..operators.core import VIEWS
from ..types import TensorType, Type


def conv2d_alter_layout(
    attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[Tensor], out_type: Type
) -> Any:
    """A plain convolution of floating numbers, also one of each channel, in blocks of channels that
    fill vectors. None where it stays."""
    data, weight = tinfos
    plain = (attrs["data_layout"], attrs["kernel_layout"]) == ("NCHW", "OIHW")
    shapes = [_static(t) for t in (data, weight)]
    lanes = _lanes(data.dtype, weight.dtype)
    if not plain or None in shapes or lanes == 0 or attrs["out_layout"] not in ("", "NCHW"):
        return None
    (_, channels, _, _), (filters, per_group, _, _) = shapes
    groups = int(attrs["groups"])
    depthwise = groups == channels == filters and per_group == 1
    out = _block(filters, lanes)
    block = out if depthwise and groups > 1 else _block(channels, out)
    if out == 1 or (groups > 1 and not depthwise):
        return None
    alone = depthwise and groups > 1
    values = {
        "channels": filters,
        "data_layout": f"NCHW{block}c",
        "kernel_layout": f"OIHW{1 if alone else block}i{out}o",
        "out_layout": f"NCHW{out}c",
    }
    name = "nn.contrib_depthwise_conv2d_nchwc" if alone else "nn.contrib_conv2d_nchwc"
    return VIEWS[name](*inputs, **{**dict(attrs.items()), **values})


def dense_alter_layout(
    attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[Tensor], out_type: TensorType
) -> Any:
    """A product of rows by a weight in blocks of its rows. None where it stays."""
    shapes, lanes = [_static(t) for t in tinfos], _lanes(*(t.dtype for t in tinfos))
    if lanes == 0 or any(s is None or len(s) != 2 for s in shapes):
        return None
    block = _block(shapes[1][0], 2 * lanes)
    if block == 1:
        return None
    dtype = str(out_type.dtype)
    return VIEWS["nn.contrib_dense_pack"](*inputs, f"NC{block}n", None, dtype)


def _static(tensor: Any) -> Any:
    dims = list(tensor.shape)
    is_static = all(isinstance(d, (int, IntImm)) for d in dims)
    return [int(d) for d in dims] if is_static else None


def _lanes(*dtypes: DataType) -> int:
    """Elements in a vector; 0 without a rule."""
    target = Target.current()
    kinds = {str(d) for d in dtypes}
    if target is None or target.kind.name not in ("llvm", "c") or len(kinds) != 1:
        return 0
    dtype = DataType(kinds.pop())
    return target.vector_lanes(str(dtype)) if dtype.is_float else 0


def _block(size: int, most: int) -> int:
    """The greatest divisor of a size, at most `most`."""
    return next(b for b in range(most, 0, -1) if size % b == 0)
