"""Builders of the operators `grad.*`.

Made by `python -m tools.make_stubs`.
"""

from collections.abc import Sequence as _Sequence
from loopwright.relax.expr import Call as _Call, Expr as _Expr, TensorLike as _TensorLike

def avg_pool2d_backward(output_grad: _TensorLike, data: _TensorLike, pool_size: int | _Sequence[int] | None = (1, 1), strides: int | _Sequence[int] | None = (1, 1), padding: int | _Sequence[int] | None = (0, 0, 0, 0), dilation: int | _Sequence[int] | None = (1, 1), ceil_mode: bool = False, count_include_pad: bool = False, layout: str = 'NCHW', out_layout: str | None = None) -> _Call: """The gradient of avg_pool2d for `data`."""
def end_checkpoint(input: _Expr) -> _Call: """`input`, where the part that is computed again ends."""
def max_pool2d_backward(output_grad: _TensorLike, data: _TensorLike, pool_size: int | _Sequence[int] | None = (1, 1), strides: int | _Sequence[int] | None = (1, 1), padding: int | _Sequence[int] | None = (0, 0, 0, 0), dilation: int | _Sequence[int] | None = (1, 1), ceil_mode: bool = False, count_include_pad: bool = False, layout: str = 'NCHW', out_layout: str | None = None) -> _Call: """The gradient of max_pool2d for `data`. It is added to the first of equal elements of a window."""
def nll_loss_backward(output_grad: _TensorLike, predictions: _TensorLike, targets: _TensorLike, weights: _TensorLike | None = None, reduction: str = 'mean', ignore_index: int = -100) -> _Call: """The gradient of nll_loss for its predictions."""
def no_grad(input: _Expr) -> _Call: """`input`, which counts as a constant: no gradient flows into it."""
def start_checkpoint(input: _Expr) -> _Call: """`input`, kept for the backward pass; later values are computed again."""
def take_backward(output_grad: _TensorLike, x: _TensorLike, indices: _TensorLike, axis: int | None = None) -> _Call: """The gradient of take for `x`: each element of output_grad added where it was taken."""
