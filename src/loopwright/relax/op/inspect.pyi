"""Builders of the operators `inspect.*`.

Made by `python -m tools.make_stubs`.
"""

from loopwright.relax.expr import Call as _Call, Expr as _Expr

def tensor_byte_offset(tensor: _Expr, *axis: _Expr | int) -> _Call: """A field of a tensor at run time, a scalar of uint64."""
def tensor_dtype_bits(tensor: _Expr, *axis: _Expr | int) -> _Call: """A field of a tensor at run time, a scalar of uint8."""
def tensor_dtype_code(tensor: _Expr, *axis: _Expr | int) -> _Call: """A field of a tensor at run time, a scalar of uint8."""
def tensor_dtype_lanes(tensor: _Expr, *axis: _Expr | int) -> _Call: """A field of a tensor at run time, a scalar of uint16."""
def tensor_elem_offset(tensor: _Expr, *axis: _Expr | int) -> _Call: """A field of a tensor at run time, a scalar of uint64."""
def tensor_ndim(tensor: _Expr, *axis: _Expr | int) -> _Call: """A field of a tensor at run time, a scalar of int32."""
def tensor_shape_i(tensor: _Expr, *axis: _Expr | int) -> _Call: """A field of a tensor at run time, a scalar of int64: that of an axis."""
def tensor_stride_i(tensor: _Expr, *axis: _Expr | int) -> _Call: """A field of a tensor at run time, a scalar of int64: that of an axis."""
