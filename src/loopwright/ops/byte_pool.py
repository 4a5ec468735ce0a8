"""Max pooling of bytes in plain layout, for x86: first over rows, whose greatest numbers are in one line.

A vector of the line has 64 bytes at most, of which a shuffle takes for each lane what its window needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import tir
from ..ir.prim_expr import Broadcast, IntImm, Shuffle
from ..ir.prim_op import min_value
from ..relax.transform.legalize_ops.common import register_legalize
from .integer import (
    open_shape,
    ramp,
)
from .statements import long, prim_func

if TYPE_CHECKING:
    from ..relax.expr import Call

READ = 64  # bytes of a vector


def pieces(count: int, lanes: int) -> list[int]:
    """The starts of vectors of `lanes` that cover `count` pixels; the last may overlap the one before."""
    return list(dict.fromkeys([*range(0, count - lanes, lanes), count - lanes]))


def largest_power(most: int) -> int:
    """The largest power of 2 up to a number of 1 or more."""
    return 1 << most.bit_length() - 1


def _vector_max_pool(call: Call) -> Any:
    """Max pooling of bytes, first over rows. A row outside is replaced by the nearest one inside,
    which the window has, too. None for other layouts, dtypes and sizes."""
    attrs, info = call.attrs, call.args[0].struct_info
    data, out = open_shape(info.get_shape() or ()), call.struct_info.get_shape()
    dtype = str(info.dtype)
    layouts = {str(v) for v in (attrs.layout, attrs.out_layout) if v}
    if dtype not in ("uint8", "int8") or layouts != {"NCHW"} or not data or out is None:
        return None
    if not all(isinstance(d, IntImm) and d.value for d in (*data[1:], *out[1:])):
        return None
    lists = (attrs.pool_size, attrs.strides, attrs.dilation, attrs.padding)
    pool, strides, dilation, (top, left, *_) = ([int(v) for v in a] for a in lists)
    h, w = (d.value for d in data[2:])
    height, width = (d.value for d in out[2:])
    lanes = min(READ // 2, largest_power(width))
    while lanes > 1 and (lanes - 1) * strides[1] >= READ:
        lanes //= 2
    read = largest_power(2 * ((lanes - 1) * strides[1] + 1) - 1)
    span = (width - 1) * strides[1] + (pool[1] - 1) * dilation[1]
    # Every window must have a pixel inside: then the nearest one belongs to it.
    last = [(n - 1) * s - b for n, s, b in zip((height, width), strides, (top, left), strict=True)]
    inside = all(a < d for a, d in zip(last, (h, w), strict=True))
    inside = inside and all(
        (p - 1) * d >= b and d == 1 for p, d, b in zip(pool, dilation, (top, left), strict=True)
    )
    if lanes < 4 or not inside or read > READ:
        return None
    size = -(-(max(left + w, span + 1) + 2 * READ) // READ) * READ
    whole = min(READ, largest_power(w))
    order = [k * strides[1] for k in range(lanes)]
    dims = {"data": data, "out": (*data[:2], *out[2:])}
    buffers = [tir.decl_buffer(s, dtype, n) for n, s in dims.items()]

    def write(ib, x, y):
        with ib.for_range(long(0), data[0] * data[1], "channel", "int64", "parallel") as item:
            n, c = ib.let("n", item // data[1]), ib.let("c", item % data[1])
            line = ib.allocate(dtype, size, "line", scope="local")
            for k in range(0, size, READ):
                line[ramp(long(k), READ)] = Broadcast(min_value(dtype), READ)
            with ib.for_range(long(0), long(height), "i", "int64") as i:
                rows = [
                    ib.let(f"row{a}", tir.max(tir.min(i * strides[0] + a - top, h - 1), long(0)))
                    for a in range(pool[0])
                ]
                for j in pieces(w, whole):
                    at = ramp(long(j), whole)
                    most = x[n, c, rows[0], at]
                    for row in rows[1:]:
                        most = tir.max(most, x[n, c, row, at])
                    line[ramp(long(left + j), whole)] = most
                for j in pieces(width, lanes):
                    parts = [
                        Shuffle([line[ramp(long(j * strides[1] + b), read)]], order)
                        for b in range(pool[1])
                    ]
                    most = parts[0]
                    for part in parts[1:]:
                        most = tir.max(most, part)
                    y[n, c, i, ramp(long(j), lanes)] = most

    return prim_func(buffers, write)


register_legalize("relax.nn.max_pool2d", tir=_vector_max_pool, target="llvm")
