"""LowerAllocTensor: allocates a storage of its own for each unplanned tensor.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
          R.func_attr({"relax.force_pure": True})
    -     alloc: R.Tensor((4,), dtype="float32") = R.builtin.alloc_tensor(R.shape([4]), R.dtype("float32"), R.prim_value(0), R.str("global"))
    +     storage: R.Object = R.memory.alloc_storage(R.shape([16]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
    +     alloc: R.Tensor((4,), dtype="float32") = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([4]), R.dtype("float32"))
          return alloc
"""

from __future__ import annotations

from typing import Any

from ...expr import Call
from ...functor import GraphRewriter
from ...op.storage import BUILTIN_ALLOC_TENSOR, memory_alloc_storage, memory_alloc_tensor
from ..decorators import RewriterPass
from .static_plan_block_memory import nbytes


class _Lower(GraphRewriter):
    def call(self, call: Call) -> Any:
        if call.op is not BUILTIN_ALLOC_TENSOR:
            return call
        shape, dtype, device, scope = call.args
        size = nbytes(shape, dtype.value)
        allocation = memory_alloc_storage([size], device, scope, "uint8").with_span(call.span)
        storage = self.builder.emit(allocation, "storage")
        return memory_alloc_tensor(storage, 0, shape, dtype)


class LowerAllocTensor(RewriterPass):
    """Replace builtin.alloc_tensor by a storage and a tensor in it."""

    rewriter = _Lower
