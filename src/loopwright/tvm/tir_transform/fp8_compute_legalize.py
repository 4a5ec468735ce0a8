"""`FP8ComputeLegalize`: computes 8-bit floats in a wider type and rounds when storing.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "float8_e4m3fn"), B: T.Buffer((8,), "float8_e4m3fn")):
          for i in range(8):
    -         B[i] = A[i] * A[i]
    +         B[i] = T.Cast("float8_e4m3fn", T.Cast("float32", A[i]) * T.Cast("float32", A[i]))
"""

from __future__ import annotations

from typing import Any

from ...ir.dtype import DataType
from ...tir.transform.base import RewriterPass
from ._promote import Promote


def is_float8(dtype: DataType) -> bool:
    """Whether a type, or a vector's element, is a float of 8 bits."""
    return str(dtype.element).startswith("float8")


class FP8ComputeLegalize(RewriterPass):
    """Computes 8-bit floats in a wider type and rounds when storing. `promote_dtype_str` is the
    wider type."""

    promote_dtype_str: str = "float32"

    def rewriter(self) -> Any:
        return Promote(is_float8, self.promote_dtype_str)
