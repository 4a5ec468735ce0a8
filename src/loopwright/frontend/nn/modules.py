"""The common modules: layers with their parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from ... import relax
from ...base.errors import explain
from ...base.examples import add_examples
from ...base.late import own_names
from ...ir.prim_expr import IntImm, PrimExpr
from ...relax import BlockBuilder
from ...relax.struct_info import ObjectStructInfo, TensorStructInfo
from . import op
from .core import Effect, Module, ModuleList, Parameter, Tensor, get_default_dtype
from .effects import CACHE_APPEND, CACHE_CREATE, CACHE_VIEW
from .effects import IOEffect as IOEffect
from .exporter import Exporter
from .sharding import mark, split_features


class ReLU(Module):
    """max(x, 0)"""

    def forward(self, x: Tensor) -> Tensor:
        """Apply to a tensor of any shape."""
        return op.relu(x)


class SiLU(Module):
    """x * sigmoid(x)"""

    def forward(self, x: Tensor) -> Tensor:
        """Apply to a tensor of any shape."""
        return op.silu(x)


class GELU(Module):
    """x times the normal distribution's cumulative function."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply to a tensor of any shape."""
        return op.gelu(x)


class Identity(Module):
    """x itself."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply to a tensor of any shape."""
        return x


class Linear(Module):
    """x @ weight^T + bias, weight [out_features, in_features]. Features may be names of symbolic
    dimensions.

    shard: "column" for the layer of which each of `tensor_parallel_shards` workers has a part of the output's
        features, "row" for a part of the input's, whose results are added up over the workers.

    Raises ValueError for another `shard`, and features that cannot be cut into equal parts.
    """

    def __init__(
        self,
        in_features: int,
        out_features: str | int,
        bias: bool = True,
        dtype: str | None = None,
        out_dtype: str | None = None,
        shard: Literal["column", "row"] | None = None,
        tensor_parallel_shards: int = 1,
    ) -> None:
        if shard == "column":
            out_features = split_features(out_features, tensor_parallel_shards, "out_features")
        elif shard == "row":
            in_features = split_features(in_features, tensor_parallel_shards, "in_features")
        elif shard is not None or tensor_parallel_shards != 1:
            what = "a layer of several workers is cut by columns or rows"
            raise ValueError(explain(what, got=repr(shard), instead='shard="column" or "row"'))
        self.in_features = in_features
        self.out_features = out_features
        self.out_dtype = out_dtype
        self.weight = Parameter((out_features, in_features), dtype)
        kind = dtype if out_dtype is None else out_dtype
        self.bias = Parameter((out_features,), kind) if bias else None
        self.reduced = shard == "row" and tensor_parallel_shards > 1
        if tensor_parallel_shards > 1:
            mark(self.weight, "weight", 0 if shard == "column" else 1)
            if self.bias is not None and shard == "column":
                mark(self.bias, "bias", 0)

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in_features] to [..., out_features]."""
        # The transpose is worked out ahead of time where the weight is a constant.
        out = op.matmul(x, op.permute_dims(self.weight), out_dtype=self.out_dtype)
        out = op.ccl_allreduce(out) if self.reduced else out
        return out if self.bias is None else out + self.bias

    def to(self, dtype: str | None = None) -> Linear:
        """Change the dtype; a bias of `out_dtype` keeps it."""
        if isinstance(self.weight, Parameter):
            self.weight.to(dtype)
        if self.bias is not None and self.out_dtype is None:
            self.bias.to(dtype)
        if dtype is not None and isinstance(getattr(self, "dtype", None), str):
            self.dtype = dtype
        return self


class _Conv(Module):
    """A convolution: weight [out_channels, in_channels / groups, *window], bias [out_channels]."""

    rank: int
    convolve: Callable[..., Tensor]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, ...],
        stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        dtype: str | None = None, data_layout: str | None = None,
    ) -> None:  # fmt: skip
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups
        self.data_layout = data_layout or "NC" + "DHW"[3 - self.rank :]
        window = [kernel_size] * self.rank if isinstance(kernel_size, int) else list(kernel_size)
        self.weight = Parameter((out_channels, in_channels // groups, *window), dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x in the layout of the module, by default [batch, in_channels, *spatial]."""
        window = [self.stride, self.padding, self.dilation, self.groups]
        layout = [self.data_layout] if self.rank > 1 else []
        return type(self).convolve(x, self.weight, self.bias, *window, *layout)


class Conv1D(_Conv):
    """Convolution in one dimension."""

    rank, convolve = 1, op.conv1d


class Conv2D(_Conv):
    """Convolution in two dimensions."""

    rank, convolve = 2, op.conv2d


class Conv3D(_Conv):
    """Convolution in three dimensions."""

    rank, convolve = 3, op.conv3d


class ConvTranspose1D(Module):
    """Transposed convolution in one dimension."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, stride: Any = 1,
        padding: int = 0, output_padding: int = 0, dilation: int = 1, groups: int = 1,
        bias: bool = True, dtype: str | None = None,
    ) -> None:  # fmt: skip
        self.stride = stride
        self.padding = padding
        self.output_padding = output_padding
        self.dilation = dilation
        self.groups = groups
        self.weight = Parameter((in_channels, out_channels // groups, kernel_size), dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, in_channels, width]."""
        where = (self.stride, self.padding, self.output_padding, self.dilation, self.groups)
        return op.conv1d_transpose(x, self.weight, self.bias, *where)


class LayerNorm(Module):
    """Normalize over the last axes, of `normalized_shape`."""

    def __init__(
        self,
        normalized_shape: int | list[int],
        eps: float | None = 1e-5,
        elementwise_affine: bool = True,
        dtype: str | None = None,
    ) -> None:
        shape = [normalized_shape] if isinstance(normalized_shape, int) else normalized_shape
        self.normalized_shape = list(shape)
        self.eps = 1e-5 if eps is None else eps
        self.elementwise_affine = elementwise_affine
        self.weight = Parameter(tuple(shape), dtype) if elementwise_affine else None
        self.bias = Parameter(tuple(shape), dtype) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        """x [..., *normalized_shape]."""
        return op.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """x / sqrt(mean(x * x) + epsilon) * weight + bias over `axes`."""

    def __init__(
        self,
        hidden_size: int,
        axes: int | list[int],
        epsilon: float = 1e-5,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.axes = axes
        self.epsilon = epsilon
        self.weight = Parameter((hidden_size,), dtype)
        self.bias = Parameter((hidden_size,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x whose axes `axes` have hidden_size elements."""
        out = op.rms_norm(x, self.weight, self.axes, self.epsilon)
        return out if self.bias is None else out + self.bias


class GroupNorm(Module):
    """Normalize groups of channels."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight = Parameter((num_channels,), dtype) if affine else None
        self.bias = Parameter((num_channels,), dtype) if affine else None

    def forward(self, x: Tensor, channel_axis: int = 1, axes: list[int] | None = None) -> Tensor:
        """`axes`: the axes normalized over (None: all but batch and channels)."""
        groups = self.num_groups
        return op.group_norm(x, groups, self.weight, self.bias, self.eps, channel_axis, axes)


class Embedding(Module):
    """A table of `num` vectors of `dim` elements, looked up by index."""

    def __init__(self, num: int, dim: int, dtype: str | None = None) -> None:
        self.num = num
        self.dim = dim
        self.weight = Parameter((num, dim), dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Indices [...] to vectors [..., dim]."""
        if x.ndim == 1:
            return op.take(self.weight, x, axis=0)
        flat = op.take(self.weight, op.reshape(x, [-1]), axis=0)
        return op.reshape(flat, [*x.shape, self.weight.shape[1]])


class KVCache(Effect):
    """A cache that grows as elements are appended: elements of `unit_shape`, room for `init_seq_len`
    of them at first."""

    init_seq_len: int
    unit_shape: list[int]

    def __init__(self, init_seq_len: int, unit_shape: list[int], dtype: str | None = None) -> None:
        self.init_seq_len = init_seq_len
        self.unit_shape = list(unit_shape)
        self.dtype = get_default_dtype() if dtype is None else dtype
        self.cache: relax.Var | None = None

    def emit_init(self, name_hint: str, bb: BlockBuilder) -> list[relax.Var]:
        """Bind the empty cache."""
        shape = relax.ShapeExpr([self.init_seq_len, *self.unit_shape])
        room = bb.emit(relax.op.zeros(shape, self.dtype))
        cache = relax.op.call_pure_packed(
            CACHE_CREATE, room, shape, relax.PrimValue(0), sinfo_args=ObjectStructInfo()
        )
        return [bb.emit(cache, name_hint)]

    def create(self, name_hint: str) -> list[relax.Var]:
        """The parameter that holds the cache."""
        return [relax.Var(name_hint, ObjectStructInfo())]

    def set_state(self, state_vars: list[relax.Var]) -> None:
        """Take the cache."""
        (self.cache,) = state_vars

    def finalize(self) -> list[relax.Var]:
        """Give the cache back."""
        cache, self.cache = self.cache, None
        return [] if cache is None else [cache]

    def to(self, dtype: str | None = None) -> None:
        """Change the dtype of the elements."""
        self.dtype = self.dtype if dtype is None else dtype

    def view(self, seq_len: int | PrimExpr) -> Tensor:
        """The first `seq_len` elements: [seq_len, *unit_shape]."""
        length = seq_len if isinstance(seq_len, PrimExpr) else IntImm("int64", seq_len)
        shape = relax.ShapeExpr([length, *self.unit_shape])
        tensor = relax.op.call_pure_packed(
            CACHE_VIEW, self.cache, shape, sinfo_args=TensorStructInfo(shape, self.dtype)
        )
        return Tensor(_expr=_emit(tensor))

    def append(self, new_element: Tensor) -> None:
        """Add elements [n, *unit_shape] at the end. Raises TypeError for another dtype."""
        if new_element.dtype != self.dtype:
            what = f"KVCache holds {self.dtype}, got {new_element.dtype}"
            raise TypeError(f"{what}; cast it with astype")
        cache = relax.op.call_inplace_packed(
            CACHE_APPEND,
            self.cache,
            new_element._expr,
            inplace_indices=[0],
            sinfo_args=ObjectStructInfo(),
        )
        self.cache = _emit(cache)


def _emit(expr: relax.Expr) -> relax.Var:
    return Exporter.current().builder.emit(expr)


class TimestepEmbedding(Module):
    """Two linear layers on embedded timesteps."""

    def __init__(
        self,
        in_channels: int,
        time_embed_dim: int,
        act_fn: str = "silu",
        out_dim: int | None = None,
        post_act_fn: str | None = None,
        cond_proj_dim: int | None = None,
    ) -> None:
        self.linear_1 = Linear(in_channels, time_embed_dim)
        self.cond_proj = (
            None if cond_proj_dim is None else Linear(cond_proj_dim, in_channels, bias=False)
        )
        self.act = _activation(act_fn)
        self.linear_2 = Linear(time_embed_dim, time_embed_dim if out_dim is None else out_dim)
        self.post_act = None if post_act_fn is None else _activation(post_act_fn)

    def forward(self, sample: Tensor, condition: Tensor | None = None) -> Tensor:
        """sample [n, in_channels] to [n, out_dim]; a condition is projected and added first."""
        if condition is not None and self.cond_proj is not None:
            sample = sample + self.cond_proj(condition)
        out = self.linear_2(self.act(self.linear_1(sample)))
        return out if self.post_act is None else self.post_act(out)


_ACTIVATIONS: dict[str, Callable[[], Module]] = {"silu": SiLU, "gelu": GELU, "relu": ReLU}


def _activation(name: str) -> Module:
    if name not in _ACTIVATIONS:
        raise ValueError(f"unknown activation {name!r}; use one of {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]()


class Timesteps(Module):
    """Sines and cosines of timesteps, `num_channels` for each."""

    def __init__(
        self, num_channels: int, flip_sin_to_cos: bool = False, downscale_freq_shift: float = 1
    ) -> None:
        self.num_channels = num_channels
        self.flip_sin_to_cos = flip_sin_to_cos
        self.downscale_freq_shift = downscale_freq_shift

    def forward(self, x: Tensor) -> Tensor:
        """x [n] to [n, num_channels]."""
        flip, shift = self.flip_sin_to_cos, self.downscale_freq_shift
        return op.get_timestep_embedding(x, self.num_channels, flip, shift)


class Attention(Module):
    """Attention with several heads; the keys and values may come from another sequence."""

    def __init__(
        self, query_dim: int, cross_attention_dim: int | None = None, heads: int = 8,
        dim_head: int = 64, bias: bool = False, norm_num_groups: int | None = None,
        out_bias: bool = True, scale_qk: bool = True,
    ) -> None:  # fmt: skip
        inner = dim_head * heads
        other = query_dim if cross_attention_dim is None else cross_attention_dim
        self.heads = heads
        self.dim_head = dim_head
        self.scale = None if scale_qk else 1.0  # None: dim_head**-0.5
        self.to_q = Linear(query_dim, inner, bias=bias)
        self.to_k = Linear(other, inner, bias=bias)
        self.to_v = Linear(other, inner, bias=bias)
        self.group_norm = None if norm_num_groups is None else GroupNorm(norm_num_groups, query_dim)
        self.to_out = ModuleList([Linear(inner, query_dim, bias=out_bias)])

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **cross_attention_kwargs: Any,
    ) -> Tensor:
        """hidden_states [batch, length, query_dim]."""
        if self.group_norm is not None:
            hidden_states = self.group_norm(hidden_states, channel_axis=2, axes=[1])
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        projected = self.to_q(hidden_states), self.to_k(source), self.to_v(source)
        query, key, value = map(self._heads, projected)
        out = op.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask, scale=self.scale
        )
        batch, length = out.shape[0], out.shape[1]
        joined = op.reshape(out, [batch, length, self.heads * self.dim_head])
        return self.to_out[0](joined)

    def _heads(self, x: Tensor) -> Tensor:
        """[batch, length, heads * size] to [batch, length, heads, size]."""
        return op.reshape(x, [x.shape[0], x.shape[1], self.heads, self.dim_head])


__all__ = own_names(globals())

add_examples(
    globals(),
    't = nn.Tensor.placeholder; x = t([2, 4], "float32")',
    """
    nn.Attention(query_dim=4, heads=2, dim_head=8).to_q.weight  # Tensor([16, 4], "float32")
    nn.Conv1D(4, 6, 3).weight  # Tensor([6, 4, 3], "float32")
    nn.Conv2D(4, 6, 3, padding=1).weight  # Tensor([6, 4, 3, 3], "float32")
    nn.Conv3D(4, 6, 3).weight  # Tensor([6, 4, 3, 3, 3], "float32")
    nn.ConvTranspose1D(4, 6, 3).weight  # Tensor([4, 6, 3], "float32")
    nn.Embedding(100, 8).weight  # Tensor([100, 8], "float32")
    nn.GELU()(x)  # Tensor([2, 4], "float32")
    nn.GroupNorm(2, 4).weight  # Tensor([4], "float32")
    nn.Identity()(x)  # Tensor([2, 4], "float32")
    nn.KVCache(16, [2, 4]).unit_shape  # [2, 4]
    nn.LayerNorm(4)(x)  # Tensor([2, 4], "float32")
    nn.Linear(4, 8).weight  # Tensor([8, 4], "float32")
    nn.RMSNorm(4, axes=-1).weight  # Tensor([4], "float32")
    nn.ReLU()(x)  # Tensor([2, 4], "float32")
    nn.SiLU()(x)  # Tensor([2, 4], "float32")
    nn.TimestepEmbedding(4, 8).linear_1.weight  # Tensor([8, 4], "float32")
    nn.Timesteps(8).num_channels  # 8
    """,
)
