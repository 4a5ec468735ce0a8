"""Tensor expressions of the operators of neural networks: `topi.nn.softmax(x)`.

Made by `python -m tools.make_stubs`.
"""

from collections.abc import Sequence as _Sequence
from loopwright import te as te, tir as tir
from loopwright.ir.dtype import DataType as _DataType
from loopwright.ir.prim_expr import PrimExpr as _PrimExpr
from loopwright.te.tensor import Tensor as Tensor
from loopwright.tvm.topi.bits import bitpack as bitpack
from loopwright.tvm.topi.conv import (
    conv as conv, conv1d as conv1d, conv1d_ncw as conv1d_ncw, conv1d_nwc as conv1d_nwc,
    conv1d_transpose_ncw as conv1d_transpose_ncw, conv2d as conv2d,
    conv2d_NCHWc as conv2d_NCHWc, conv2d_hwcn as conv2d_hwcn, conv2d_nchw as conv2d_nchw,
    conv2d_nhwc as conv2d_nhwc, conv2d_transpose_nchw as conv2d_transpose_nchw,
    conv3d_ncdhw as conv3d_ncdhw, conv3d_ndhwc as conv3d_ndhwc,
    conv3d_transpose_ncdhw as conv3d_transpose_ncdhw,
    depthwise_conv2d_NCHWc as depthwise_conv2d_NCHWc,
    depthwise_conv2d_backward_input_nhwc as depthwise_conv2d_backward_input_nhwc,
    depthwise_conv2d_backward_weight_nhwc as depthwise_conv2d_backward_weight_nhwc,
    depthwise_conv2d_nchw as depthwise_conv2d_nchw,
    depthwise_conv2d_nhwc as depthwise_conv2d_nhwc, dilate as dilate,
    group_conv1d_ncw as group_conv1d_ncw, group_conv1d_nwc as group_conv1d_nwc,
    group_conv1d_transpose_ncw as group_conv1d_transpose_ncw,
    group_conv2d_nchw as group_conv2d_nchw, group_conv2d_nhwc as group_conv2d_nhwc,
    group_conv2d_transpose_nchw as group_conv2d_transpose_nchw,
    group_conv3d_transpose_ncdhw as group_conv3d_transpose_ncdhw,
    unpack_NCHWc_to_nchw as unpack_NCHWc_to_nchw,
)
from loopwright.tvm.topi.fast import fast_softmax as fast_softmax
from loopwright.tvm.topi.layers import (
    batch_to_space_nd as batch_to_space_nd, circular_pad as circular_pad,
    correlation_nchw as correlation_nchw, deformable_conv2d_nchw as deformable_conv2d_nchw,
    deformable_conv2d_nhwc as deformable_conv2d_nhwc, depth_to_space as depth_to_space,
    fifo_buffer as fifo_buffer, get_padded_shape as get_padded_shape, lrn as lrn,
    mirror_pad as mirror_pad, reflect_pad as reflect_pad, replicate_pad as replicate_pad,
    space_to_batch_nd as space_to_batch_nd, space_to_depth as space_to_depth,
)
from loopwright.tvm.topi.padding import (
    get_pad_tuple as get_pad_tuple, get_pad_tuple1d as get_pad_tuple1d,
    get_pad_tuple_generic as get_pad_tuple_generic, infer_pad as infer_pad,
    infer_pad3d as infer_pad3d, infer_stride as infer_stride,
)
from loopwright.tvm.topi.pooling import (
    adaptive_pool as adaptive_pool, adaptive_pool1d as adaptive_pool1d,
    adaptive_pool3d as adaptive_pool3d, global_pool as global_pool, pool1d as pool1d,
    pool2d as pool2d, pool3d as pool3d, pool_grad as pool_grad,
)
from loopwright.tvm.topi.recurrent import (
    binarize_pack as binarize_pack, binary_dense as binary_dense, lstm as lstm,
    simulated_dequantize as simulated_dequantize, simulated_quantize as simulated_quantize,
)
from loopwright.tvm.topi.sparse import (
    sparse_add as sparse_add, sparse_dense as sparse_dense,
    sparse_transpose as sparse_transpose,
)
from loopwright.tvm.topi.upsampling import upsampling as upsampling, upsampling3d as upsampling3d
from loopwright.tvm.topi.utils import (
    functions_of as functions_of, get_const_int as get_const_int, prod as prod,
    simplify as simplify,
)
from typing import Any as _Any

def adaptive_avg_pool1d(data: Tensor, output_size: int | _Sequence[int] | None = None, layout: str = 'NCW', out_layout: str | None = None) -> _Any: """The mean of output_size windows that cover the image (None: one per pixel). Window i of n over an extent s is [floor(i * s / n), ceil((i + 1) * s / n))."""
def adaptive_avg_pool2d(data: Tensor, output_size: int | _Sequence[int] | None = None, layout: str = 'NCHW', out_layout: str | None = None) -> _Any: """The mean of output_size windows that cover the image (None: one per pixel). Window i of n over an extent s is [floor(i * s / n), ceil((i + 1) * s / n))."""
def adaptive_avg_pool3d(data: Tensor, output_size: int | _Sequence[int] | None = None, layout: str = 'NCDHW', out_layout: str | None = None) -> _Any: """The mean of output_size windows that cover the image (None: one per pixel). Window i of n over an extent s is [floor(i * s / n), ceil((i + 1) * s / n))."""
def append_cache(past: Tensor, new: Tensor, starts: Tensor, length: _PrimExpr | float) -> _Any: """The cache of `length` elements that begins as `past` [batch, groups, other, size], with `new` [batch, rows, groups, size] from starts [batch] on, and zeros where neither is."""
def append_paged(pages: Tensor, keys: Tensor, values: Tensor, slots: Tensor, scales: Tensor | None = None) -> _Any: """The pages with keys and values [n, groups, size] written to their slots [n]: the argument itself."""
def attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None, scale: float | None = None, causal_mask: str | None = None, window_size: int | None = None) -> _Any: """softmax(query @ key^T * scale + bias) @ value for each head, in float32."""
def attention_cached(queries: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, scale: float | None = None, causal_mask: str | None = 'BottomRight', window_size: int | None = None, softcap: float | None = None) -> _Any: """`attention` of queries [batch, rows, heads, size] to the first lengths [batch] of cached keys and values [batch, groups, other, size]; scores s become softcap * tanh(s / softcap)."""
def attention_paged(queries: Tensor, seqstart: Tensor, pages: Tensor, page_starts: Tensor, page_ids: Tensor, lengths: Tensor, scales: Tensor | None = None, scale: float | None = None, causal_mask: str | None = 'BottomRight', window_size: int | None = None, softcap: float | None = None) -> _Any: """`attention` of several sequences, whose keys and values are in pages; results [n, heads, size]."""
def attention_var_len(queries: Tensor, keys: Tensor, values: Tensor, seqstart_q: Tensor, max_seqlen_q: Tensor, seqstart_k: Tensor | None = None, max_seqlen_k: Tensor | None = None, scale: float | None = None, causal_mask: str | None = None, window_size: int | None = None) -> _Any: """`attention` of each of several sequences, whose elements follow each other."""
def avg_pool1d(data: Tensor, pool_size: int | _Sequence[int] | None = (1,), strides: int | _Sequence[int] | None = (1,), padding: int | _Sequence[int] | None = (0,), dilation: int | _Sequence[int] | None = (1,), ceil_mode: bool = False, count_include_pad: bool = True, layout: str = 'NCW', out_layout: str | None = None) -> _Any: """The mean of each window of `pool_size`. `ceil_mode` lets a last partial window in; `count_include_pad` counts the padding in a mean."""
def avg_pool2d(data: Tensor, pool_size: int | _Sequence[int] | None = (1, 1), strides: int | _Sequence[int] | None = (1, 1), padding: int | _Sequence[int] | None = (0, 0), dilation: int | _Sequence[int] | None = (1, 1), ceil_mode: bool = False, count_include_pad: bool = False, layout: str = 'NCHW', out_layout: str | None = None) -> _Any: """The mean of each window of `pool_size`. `ceil_mode` lets a last partial window in; `count_include_pad` counts the padding in a mean."""
def avg_pool3d(data: Tensor, pool_size: int | _Sequence[int] | None = (1, 1, 1), strides: int | _Sequence[int] | None = (1, 1, 1), padding: int | _Sequence[int] | None = (0, 0, 0), dilation: int | _Sequence[int] | None = (1, 1, 1), ceil_mode: bool = False, count_include_pad: bool = True, layout: str = 'NCDHW', out_layout: str | None = None) -> _Any: """The mean of each window of `pool_size`. `ceil_mode` lets a last partial window in; `count_include_pad` counts the padding in a mean."""
def batch_matmul(tensor_a: Tensor, tensor_b: Tensor, oshape: _Any = None, out_dtype: _Any = None, transpose_a: bool = False, transpose_b: bool = True) -> Tensor: """Products of matrices, one per batch element. `oshape` is ignored: it is inferred."""
def batch_norm(data: Tensor, gamma: Tensor, beta: Tensor, moving_mean: Tensor, moving_var: Tensor, axis: int | None = None, epsilon: float | None = None, center: bool | None = None, scale: bool | None = None, training: bool | None = None, momentum: float | None = None) -> list[Tensor]: """[normalized, moving mean, moving variance] of each channel of `axis` (None: 1); see the graph's operator. Not in training unless requested."""
def bias_add(data: Tensor, bias: Tensor, axis: int | None = -1) -> _Any: """data + bias along `axis`."""
def byte_conv1d(data: Tensor, weight: Tensor, zero: Tensor, strides: int | _Sequence[int] | None = (1,), padding: int | _Sequence[int] | None = (0,), dilation: int | _Sequence[int] | None = (1,), groups: int = 1, data_layout: str = 'NCW', kernel_layout: str = 'OIW', out_layout: str | None = None, narrow: bool = False) -> _Any: """1-D convolution of uint8 or int8 by int8, in int32: `relax.nn.conv1d` of an image around which is `zero`, a scalar of its dtype. narrow: any two bytes of its dtype times the weights of two adjacent inputs of an output (in depthwise ones: pixels) add up to 16 bits."""
def byte_conv2d(data: Tensor, weight: Tensor, zero: Tensor, strides: int | _Sequence[int] | None = (1, 1), padding: int | _Sequence[int] | None = (0, 0), dilation: int | _Sequence[int] | None = (1, 1), groups: int = 1, data_layout: str = 'NCHW', kernel_layout: str = 'OIHW', out_layout: str | None = None, narrow: bool = False) -> _Any: """2-D convolution of uint8 or int8 by int8, in int32: `relax.nn.conv2d` of an image around which is `zero`, a scalar of its dtype. narrow: any two bytes of its dtype times the weights of two adjacent inputs of an output (in depthwise ones: pixels) add up to 16 bits."""
def byte_conv3d(data: Tensor, weight: Tensor, zero: Tensor, strides: int | _Sequence[int] | None = (1, 1, 1), padding: int | _Sequence[int] | None = (0, 0, 0), dilation: int | _Sequence[int] | None = (1, 1, 1), groups: int = 1, data_layout: str = 'NCDHW', kernel_layout: str = 'OIDHW', out_layout: str | None = None, narrow: bool = False) -> _Any: """3-D convolution of uint8 or int8 by int8, in int32: `relax.nn.conv3d` of an image around which is `zero`, a scalar of its dtype. narrow: any two bytes of its dtype times the weights of two adjacent inputs of an output (in depthwise ones: pixels) add up to 16 bits."""
def byte_matmul(data: Tensor, weight: Tensor, narrow: bool = False) -> _Any: """data uint8 or int8 (rows, depth) by weight int8 (depth, columns), in int32. narrow: any two bytes of its dtype times two adjacent weights of a column add up to 16 bits."""
def conv1d_transpose(data: Tensor, weight: Tensor, strides: int | _Sequence[int] | None = 1, padding: int | _Sequence[int] | None = 0, output_padding: int | _Sequence[int] | None = 0, dilation: int | _Sequence[int] | None = 1, groups: int = 1, data_layout: str = 'NCW', kernel_layout: str = 'IOW', out_layout: str | None = None, out_dtype: str | _DataType | None = None) -> _Any: """The gradient of conv1d with respect to its data."""
def conv2d_transpose(data: Tensor, weight: Tensor, strides: int | _Sequence[int] | None = (1, 1), padding: int | _Sequence[int] | None = (0, 0, 0, 0), output_padding: int | _Sequence[int] | None = (0, 0), dilation: int | _Sequence[int] | None = (1, 1), groups: int = 1, data_layout: str = 'NCHW', kernel_layout: str = 'IOHW', out_layout: str | None = None, out_dtype: str | _DataType | None = None) -> _Any: """The gradient of conv2d with respect to its data: out[n, o, y * stride + k - padding] gathers data[n, i, y] * weight[i, o, k]."""
def conv3d(data: Tensor, weight: Tensor, strides: int | _Sequence[int] | None = (1, 1, 1), padding: int | _Sequence[int] | None = (0, 0, 0), dilation: int | _Sequence[int] | None = (1, 1, 1), groups: int = 1, data_layout: str = 'NCDHW', kernel_layout: str = 'OIDHW', out_layout: str | None = None, out_dtype: str | _DataType | None = None) -> _Any: """3-D convolution: out[n, o, y] = sum over i, k of data[n, i, y * stride + k * dilation - padding] * weight[o, i, k], channels in `groups`. `padding` is 1, 3 or 6 numbers (all before, then all after)."""
def cross_entropy_with_logits(predictions: Tensor, labels: Tensor) -> _Any: """-sum(predictions * labels), of a batch (2-d tensors) divided by its size. The predictions are logarithms of probabilities."""
def deform_conv2d(data: Tensor, offset: Tensor, weight: Tensor, mask: Tensor | None = None, strides: int | _Sequence[int] | None = (1, 1), padding: int | _Sequence[int] | None = (0, 0, 0, 0), dilation: int | _Sequence[int] | None = (1, 1), groups: int = 1, offset_groups: int = 1) -> _Any: """A convolution of data (NCHW) by a weight (OIHW) whose taps read moved positions, between pixels; 0 outside. offset: (batch, 2 * offset_groups * taps, rows, columns), a distance down and one to the right for each tap; mask (batch, offset_groups * taps, rows, columns): factors of the taps. padding: top, left, bottom, right."""
def dense(data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: _DataType | str | None = None) -> Tensor: """data @ weight transposed, plus `bias`."""
def dense_pack(data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: _DataType | str | None = None) -> Tensor: """`dense` by a weight in blocks of outputs (blocks, inputs, outputs in the block), or by a plain one."""
def dropout(data: Tensor, rate: float = 0.5) -> _Any: """The identity, as at inference: (data, a mask of ones)."""
def flatten(data: Tensor) -> Tensor: """A matrix: the first dimension, and all others fused."""
def gelu(data: Tensor) -> _Any: """x times the normal distribution's cumulative function: x / 2 * (1 + erf(x / sqrt(2)))"""
def gelu_tanh(data: Tensor) -> _Any: """gelu by its tanh approximation (Hendrycks and Gimpel, 2016)"""
get_pad_tuple3d = get_pad_tuple
def group_norm(data: Tensor, gamma: Tensor, beta: Tensor, num_groups: int, channel_axis: int, axes: int | _Sequence[int] | None, epsilon: float = 1e-05, center: bool = True, scale: bool = True) -> _Any: """(x - mean) / sqrt(var + epsilon) * gamma + beta, mean and variance over `axes` and over the channels of each of `num_groups` groups; gamma and beta have one element per channel."""
def hardsigmoid(data: Tensor) -> _Any: """clip(x + 3, 0, 6) / 6"""
def hardswish(data: Tensor) -> _Any: """x * (clip(x + 3, 0, 6) / 6)"""
def instance_norm(data: Tensor, gamma: Tensor, beta: Tensor, channel_axis: _Any, axis: _Any = None, epsilon: float = 1e-05) -> Tensor: """Each channel of each element of the batch normalized over `axis`. Before TVM 0.19 there was no `channel_axis`, which is 1 then: the axes and epsilon come in its place."""
def join_phases(data: Tensor, strides: int | _Sequence[int] | None, before: int | _Sequence[int] | None, after: int | _Sequence[int] | None) -> _Any: """(batch, product of strides * channels, *sides) as (batch, channels, *(side * stride - before - after)): pixels that are a stride apart come from one group of channels, the first pixels from the first group; before, after: the widths that are cut off at the ends."""
def layer_norm(data: Tensor, gamma: Tensor, beta: Tensor, axes: int | _Sequence[int] | None, epsilon: float = 1e-05, center: bool = True, scale: bool = True) -> _Any: """(x - mean) / sqrt(var + epsilon) * gamma + beta, mean and variance over `axes`."""
def leaky_relu(data: Tensor, alpha: float = 0.01) -> _Any: """x where positive, else alpha * x."""
leakyrelu = leaky_relu
def linear_attention(query: Tensor, key: Tensor, value: Tensor, state: Tensor, gates: _Sequence[Tensor], update_rule: str = 'gated_delta', scale: float | None = None) -> _Any: """Attention by a state that each element of a sequence updates: (results, the last state)."""
def log_softmax(data: Tensor, axis: int | None = -1) -> _Any: """x - max - log(sum(exp(x - max))) over `axis`."""
def matmul(tensor_a: Tensor, tensor_b: Tensor, bias: Tensor | None = None, out_dtype: _Any = None, transpose_a: bool = False, transpose_b: bool = False) -> Tensor: """The product of matrices, each optionally transposed, plus `bias`."""
def matmul_packed(data: _Sequence[Tensor], planes: _Sequence[Tensor], scale: _Sequence[Tensor], least: _Sequence[Tensor] = (), chosen: Tensor | None = None, bits: int | _Sequence[int] | None = (4,), block: int = 32, zero: int = 0, matrices: int = 1) -> _Any: """Rows by packed weights, float32 (rows, panels, 64): see `pack`."""
def max_pool1d(data: Tensor, pool_size: int | _Sequence[int] | None = (1,), strides: int | _Sequence[int] | None = (1,), padding: int | _Sequence[int] | None = (0,), dilation: int | _Sequence[int] | None = (1,), ceil_mode: bool = False, count_include_pad: bool = False, layout: str = 'NCW', out_layout: str | None = None) -> _Any: """The greatest value of each window of `pool_size`. `ceil_mode` lets a last partial window in; `count_include_pad` counts the padding in a mean."""
def max_pool2d(data: Tensor, pool_size: int | _Sequence[int] | None = (1, 1), strides: int | _Sequence[int] | None = (1, 1), padding: int | _Sequence[int] | None = (0, 0), dilation: int | _Sequence[int] | None = (1, 1), ceil_mode: bool = False, count_include_pad: bool = False, layout: str = 'NCHW', out_layout: str | None = None) -> _Any: """The greatest value of each window of `pool_size`. `ceil_mode` lets a last partial window in; `count_include_pad` counts the padding in a mean."""
def max_pool3d(data: Tensor, pool_size: int | _Sequence[int] | None = (1, 1, 1), strides: int | _Sequence[int] | None = (1, 1, 1), padding: int | _Sequence[int] | None = (0, 0, 0), dilation: int | _Sequence[int] | None = (1, 1, 1), ceil_mode: bool = False, count_include_pad: bool = False, layout: str = 'NCDHW', out_layout: str | None = None) -> _Any: """The greatest value of each window of `pool_size`. `ceil_mode` lets a last partial window in; `count_include_pad` counts the padding in a mean."""
def nll_loss(predictions: Tensor, targets: Tensor, weights: Tensor | None = None, reduction: str = 'mean', ignore_index: int = -100) -> _Any: """-predictions[n, targets[n, ...], ...] * weights[targets[n, ...]], and 0 where the target is `ignore_index`. `reduction`: "none", "sum", or "mean", by the sum of the weights."""
def pack_channels(x: Tensor, block: int) -> _Any: """(n, c, ...) as (n, ceil(c / block), ..., block); channels past the last are 0. An extent of 1 stays 1 outside and is repeated inside, so that it still broadcasts."""
def pack_weight(weight: Tensor, layout: str) -> _Any: """A convolution's weight OIHW (or IOHW) in a blocked kernel layout, blocks filled with 0."""
def pad(data: Tensor, pad_before: _Sequence[_PrimExpr | int], pad_after: _Sequence[int] | None = None, pad_value: float = 0.0, name: str = 'PadInput', attrs: dict[str, _Any] | None = None) -> Tensor: """Padding with `pad_value`: the numbers of elements before and after each dimension. The stage has a name, and `attrs` besides its own."""
def pad_by(data: Tensor, before: _Sequence[int | _PrimExpr], after: _Sequence[int | _PrimExpr], pad_value: float = 0.0) -> _Any: """Grow the tensor by `before` and `after` elements of pad_value along each axis: `pad` by widths known only at run time. A negative width cuts."""
def pixel_shuffle(data: Tensor, upscale_factor: int) -> _Any: """(..., channels * r * r, h, w) as (..., channels, h * r, w * r), r the upscale_factor: each pixel becomes r x r of them."""
def prelu(data: Tensor, alpha: Tensor, axis: int | None = 1) -> _Any: """x, times the alpha of its channel, or the only one, where negative."""
def quantize_blocks(data: Tensor, block: int) -> _Any: """Blocks of rows of float32 (rows, depth) as int8, to 127 of their largest magnitude: the numbers, float32 (rows, blocks) that they are multiplied by, and their sums, int32 (rows, blocks)."""
def recurrence(gates: Tensor, weight: Tensor, lengths: Tensor, states: _Sequence[Tensor], extra: Tensor | None = None, kind: str = 'lstm', direction: str = 'forward', activations: _Any = ('Sigmoid', 'Tanh', 'Tanh'), alpha: _Any = (0.0, 0.0, 0.0), beta: _Any = (0.0, 0.0, 0.0), clip: float = 0.0, input_forget: bool = False, linear_before_reset: bool = False, rounded: bool = False) -> _Any: """The steps of a recurrent layer: (states (length, directions, batch, size), the last state (directions, batch, size), and for "lstm" the last cell)."""
def relu(data: Tensor) -> _Any: """max(x, 0)"""
def relu6(data: Tensor) -> _Any: """x limited to [0, 6]."""
def rms_norm(data: Tensor, weight: Tensor, axes: int | _Sequence[int] | None = -1, epsilon: float = 1e-05) -> _Any: """x / sqrt(mean(x * x) + epsilon) * weight, the mean over `axes`."""
def scale_shift_nchw(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor: """Each channel times its scale plus its shift."""
def scale_shift_nchwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor: """Each channel times its scale plus its shift."""
def scale_shift_nhwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor: """Each channel times its scale plus its shift."""
def selu(data: Tensor) -> _Any: """x where positive, else alpha * (exp(x) - 1), both times a scale: self-normalizing."""
def silu(data: Tensor) -> _Any: """x * sigmoid(x)"""
def softmax(x: Tensor, axis: int = -1) -> Tensor: """exp(x - max) / sum(exp(x - max)) along `axis`."""
def softmax_common(x: Tensor, axis: int, use_fast_exp: bool) -> Tensor: """softmax along `axis`, by `fast_exp` on request."""
def softplus(data: Tensor, beta: float = 1.0, threshold: float = 20.0) -> _Any: """log(1 + exp(beta * x)) / beta; x itself if beta * x exceeds the threshold."""
def take_packed(ids: Tensor, planes: _Sequence[Tensor], scale: _Sequence[Tensor], least: _Sequence[Tensor] = (), bits: int | _Sequence[int] | None = (4,), block: int = 32, zero: int = 0) -> _Any: """Columns of packed weights as rows, float32 (n, depth), by their numbers (n), which are clamped: the embeddings of tokens. The others: see `matmul_packed`."""
def unpack_channels(x: Tensor, channels: int) -> _Any: """The inverse of pack_channels: (n, blocks, ..., block) as (n, channels, ...)."""
def winograd_join(products: Tensor, tile: int, sides: int | _Sequence[int] | None, block: int) -> _Any: """(m, m, n, tiles, tiles, channels) with m = tile + 2 as (n, blocks, rows, cols, block): A^T p A of each tile. sides: rows and cols. Products in int32 are of bytes."""
def winograd_tiles(data: Tensor, zero: Tensor, tile: int, padding: int | _Sequence[int] | None) -> _Any: """(n, blocks, rows, cols, block) as (m, m, n, tiles, tiles, channels) with m = tile + 2: B^T d B of the tiles of pixels that overlap by 2, of bytes in int16. padding: pixels of `zero` at the top, left, bottom and right."""
def winograd_weight(weight: Tensor, tile: int, block: int) -> _Any: """Windows (outputs, inputs, 3, 3) as matrices (m * m, inputs, outputs) with m = tile + 2: G g G^T, of int8 in int16. Zeros fill blocks of inputs and outputs."""
