"""`te.hybrid.script`: a Python function over elements of tensors, as an operation.

    @te.hybrid.script
    def outer(a, b):
        c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
        for i in range(a.shape[0]):
            for j in range(b.shape[0]):
                c[i, j] = a[i] * b[j]
        return c

Called with tensors it returns tensors; with numpy arrays Python runs it. Loops are
`range`, `parallel`, `vectorize`, `unroll`, `bind(thread, n)`, and `const_range`, whose iterations are
expanded. A name that is assigned once, a value known now, is that value; other scalars are memory
of one element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...te.tensor import Tensor
from .bounds import infer_bound
from .hybrid_op import HybridOp  # noqa: F401
from .hybrid_parser import HybridScript
from .hybrid_source import HybridModule, source_of  # noqa: F401
from .nest import schedule_ops
from .schedule import Schedule


def build(
    s: Schedule, inputs: Sequence[Tensor], outputs: Sequence[Tensor], name: str = "hybrid_func"
) -> Any:
    """A schedule as the source of a hybrid script (`HybridModule`), without its compilation."""
    normal = s.normalize()

    def current(arg: Tensor) -> Any:
        return normal[arg].op.output(arg.value_index) if isinstance(arg, Tensor) else arg

    args, results = ([current(a) for a in tensors] for tensors in (inputs, outputs))
    return source_of(schedule_ops(normal, infer_bound(normal)), args, results, name)


def script(pyfunc: Callable[..., Any]) -> HybridScript:
    """A decorator: the function as an operation on tensors, see the top of this file."""
    return HybridScript(pyfunc)
