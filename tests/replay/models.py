"""Small graphs in which every rule of the compiler has something to choose."""

from __future__ import annotations

from loopwright.ir.module import IRModule

from ..programs import graph

F16, I8, U8, I32, I64 = "float16", "int8", "uint8", "int32", "int64"


def _t(*shape: int | str, dtype: str = "float32") -> str:
    dims = ", ".join(f'"{d}"' if isinstance(d, str) else str(d) for d in shape)
    return f'R.Tensor(({dims},), "{dtype}")'


def model(name: str) -> IRModule:
    """One of GRAPHS."""
    body, inputs = GRAPHS[name]
    return graph(body, **inputs)


IMAGE, CHANNELS = (1, 3, 18, 18), (16, 3, 3, 3)
GRAPHS: dict[str, tuple[str, dict]] = {  # bodies and parameters, as `graph` takes them
    "product": (
        "a = R.matmul(x, w); b = R.add(a, c); y = R.nn.relu(b)",
        {"x": (16, 64), "w": (64, 32), "c": (32,)},
    ),
    "odd_product": ("y = R.matmul(x, w)", {"x": (7, 65), "w": (65, 33)}),
    "product_of_rows": ("y = R.matmul(x, w)", {"x": (1, 128), "w": (128, 96)}),
    "product_by_transposed": (
        "t = R.permute_dims(w); y = R.matmul(x, t)",
        {"x": (24, 48), "w": (40, 48)},
    ),
    "products_of_batches": (
        "a = R.matmul(x, w); y = R.multiply(a, a)",
        {"x": (3, 8, 20), "w": (3, 20, 12)},
    ),
    "product_of_any_rows": (
        "a = R.matmul(x, w); y = R.nn.gelu(a)",
        {"x": _t("n", 40), "w": _t(40, 24)},
    ),
    "product_of_halves": (
        "y = R.matmul(x, w)",
        {"x": _t(8, 32, dtype=F16), "w": _t(32, 16, dtype=F16)},
    ),
    "product_of_bytes": (
        'y = R.matmul(x, w, out_dtype="int32")',
        {"x": _t(8, 32, dtype=U8), "w": _t(32, 16, dtype=I8)},
    ),
    "two_products": (
        "a = R.matmul(x, w); b = R.nn.silu(a); y = R.matmul(b, v)",
        {"x": (8, 16), "w": (16, 64), "v": (64, 8)},
    ),
    "convolution": (
        "a = R.nn.conv2d(x, w, padding=[1, 1, 1, 1]); b = R.nn.relu(a)\n"
        "y = R.nn.max_pool2d(b, pool_size=[2, 2], strides=[2, 2])",
        {"x": IMAGE, "w": CHANNELS},
    ),
    "convolution_of_steps": (
        "a = R.nn.conv2d(x, w, strides=[2, 2], padding=[0, 1, 2, 1], dilation=[2, 1]); y = R.add(a, b)",
        {"x": IMAGE, "w": CHANNELS, "b": (1, 16, 1, 1)},
    ),
    "convolutions_with_a_sum": (
        "a = R.nn.conv2d(x, w, padding=[1, 1, 1, 1]); b = R.nn.relu(a)\n"
        "c = R.nn.conv2d(b, v, padding=[1, 1, 1, 1]); d = R.add(c, b); y = R.nn.relu(d)",
        {"x": (1, 8, 12, 12), "w": (8, 8, 3, 3), "v": (8, 8, 3, 3)},
    ),
    "pointwise_convolution": (
        "a = R.nn.conv2d(x, w); y = R.clip(a, 0, 6)",
        {"x": (1, 24, 10, 10), "w": (32, 24, 1, 1)},
    ),
    "depthwise_convolution": (
        "a = R.nn.conv2d(x, w, padding=[1, 1, 1, 1], groups=16); y = R.clip(a, 0, 6)",
        {"x": (1, 16, 14, 14), "w": (16, 1, 3, 3)},
    ),
    "grouped_convolution": (
        "y = R.nn.conv2d(x, w, groups=4)",
        {"x": (1, 16, 9, 9), "w": (32, 4, 3, 3)},
    ),
    "convolution_of_any_size": (
        "a = R.nn.conv2d(x, w, padding=[1, 1, 1, 1]); y = R.nn.relu(a)",
        {"x": _t("n", 3, "h", "v"), "w": _t(8, 3, 3, 3)},
    ),
    "convolution_of_channels_last": (
        'a = R.nn.conv2d(x, w, padding=[1, 1, 1, 1], data_layout="NHWC", kernel_layout="HWIO"); y = R.tanh(a)',
        {"x": (1, 9, 9, 8), "w": (3, 3, 8, 16)},
    ),
    "convolution_1d": (
        "a = R.nn.conv1d(x, w, padding=[2, 2]); y = R.nn.relu(a)",
        {"x": (1, 8, 40), "w": (16, 8, 5)},
    ),
    "convolution_3d": ("y = R.nn.conv3d(x, w)", {"x": (1, 2, 6, 6, 6), "w": (4, 2, 3, 3, 3)}),
    "transposed_convolution": (
        "a = R.nn.conv2d_transpose(x, w, strides=[2, 2], padding=[1, 1, 1, 1]); y = R.nn.relu(a)",
        {"x": (1, 8, 7, 7), "w": (8, 6, 4, 4)},
    ),
    "average_pool": (
        "a = R.nn.avg_pool2d(x, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1], count_include_pad=False)\n"
        "y = R.nn.adaptive_avg_pool2d(a, [1, 1])",
        {"x": (1, 16, 15, 15)},
    ),
    "softmax": ("y = R.nn.softmax(x, axis=-1)", {"x": (8, 100)}),
    "softmax_of_columns": ("y = R.nn.softmax(x, axis=1)", {"x": (2, 10, 12)}),
    "log_softmax_of_any_size": ("y = R.nn.log_softmax(x, axis=-1)", {"x": _t("n", "m")}),
    "layer_norm": (
        "a = R.add(x, r); y = R.nn.layer_norm(a, g, b, axes=[-1])",
        {"x": (6, 48), "r": (6, 48), "g": (48,), "b": (48,)},
    ),
    "rms_norm": ("y = R.nn.rms_norm(x, g, axes=[-1])", {"x": (1, 5, 40), "g": (40,)}),
    "group_norm": (
        "y = R.nn.group_norm(x, g, b, num_groups=4, channel_axis=1, axes=[2, 3])",
        {"x": (1, 16, 6, 6), "g": (16,), "b": (16,)},
    ),
    "batch_norm": (
        "a = R.nn.batch_norm(x, g, b, m, v, axis=1, training=False); c = a[0]; y = R.nn.relu(c)",
        {"x": (1, 8, 6, 6), "g": (8,), "b": (8,), "m": (8,), "v": (8,)},
    ),
    "attention": ("y = R.nn.attention(q, k, v)", dict.fromkeys("qkv", (1, 20, 2, 16))),
    "attention_of_parts": (
        "t = R.permute_dims(k, [0, 1, 3, 2]); s = R.matmul(q, t); d = R.multiply(s, R.const(0.25))\n"
        "e = R.add(d, m); p = R.nn.softmax(e, axis=-1); y = R.matmul(p, v)",
        dict.fromkeys("qkv", (1, 2, 24, 16)) | {"m": (1, 1, 24, 24)},
    ),
    "attention_of_any_length": (
        "s = R.matmul(q, k); p = R.nn.softmax(s, axis=-1); y = R.matmul(p, v)",
        {"q": _t(1, 2, "n", 16), "k": _t(1, 2, 16, "m"), "v": _t(1, 2, "m", 16)},
    ),
    "sums": (
        "a = R.sum(x, axis=[1]); b = R.mean(x, axis=[0, 2]); y = (a, b)",
        {"x": (4, 30, 6)},
    ),
    "all_of_a_sum": ("y = R.sum(x)", {"x": (40, 50)}),
    "deviation": ("a = R.variance(x, axis=[-1]); y = R.sqrt(a)", {"x": (6, 64)}),
    "places_of_maxima": ("y = R.argmax(x, axis=1)", {"x": (5, 33)}),
    "running_sums": ("y = R.cumsum(x, axis=1)", {"x": (4, 25)}),
    "sorted": ("a = R.sort(x, axis=-1); b = R.topk(x, k=3); y = (a, b)", {"x": (3, 17)}),
    "joined": (
        "a = R.concat((x, z), axis=1); b = R.split(a, 3, axis=1); c = b[1]; y = R.exp(c)",
        {"x": (4, 7), "z": (4, 8)},
    ),
    "joined_of_any_size": ("y = R.concat((x, z), axis=0)", {"x": _t("n", 4), "z": _t("m", 4)}),
    "taken": (
        "a = R.take(x, i, axis=0); y = R.multiply(a, R.const(8.0))",
        {"x": (50, 24), "i": _t(7, dtype=I64)},
    ),
    "gathered": ("y = R.gather_elements(x, i, axis=1)", {"x": (5, 9), "i": _t(5, 4, dtype=I64)}),
    "scattered": (
        'y = R.scatter_elements(x, i, u, axis=1, reduction="add")',
        {"x": (5, 9), "i": _t(5, 4, dtype=I64), "u": (5, 4)},
    ),
    "turned": (
        "a = R.permute_dims(x, [0, 2, 1]); b = R.reshape(a, (2, 60)); c = R.flip(b, 1); y = R.tanh(c)",
        {"x": (2, 10, 6)},
    ),
    "sliced": (
        "a = R.strided_slice(x, [0, 1], [1, 0], [9, 12], [2, 3]); y = R.nn.pad(a, [1, 0, 2, 1])",
        {"x": (10, 14)},
    ),
    "elementwise": (
        "a = R.exp(x); b = R.divide(a, z); c = R.power(b, R.const(1.5)); d = R.erf(c); y = R.where(R.greater(d, z), d, x)",
        {"x": (3, 33), "z": (33,)},
    ),
    "elementwise_of_any_size": (
        "a = R.sigmoid(x); y = R.multiply(a, x)",
        {"x": _t("n", "m")},
    ),
    "whole_numbers": (
        "a = R.floor_divide(x, z); b = R.floor_mod(x, z); c = R.left_shift(a, b); y = R.bitwise_xor(c, x)",
        {"x": _t(6, 20, dtype=I32), "z": _t(20, dtype=I32)},
    ),
    "quantized": (
        'a = R.quantize(x, R.const(0.1), R.const(3, "int8"), out_dtype="int8")\n'
        'y = R.dequantize(a, R.const(0.1), R.const(3, "int8"), out_dtype="float32")',
        {"x": (4, 40)},
    ),
    "resized": (
        'y = R.image.resize2d(x, (12, 12), layout="NCHW", method="linear", coordinate_transformation_mode="half_pixel")',
        {"x": (1, 4, 6, 6)},
    ),
    "einsum": ('y = R.einsum((x, z), subscripts="bij,bjk->bik")', {"x": (2, 5, 6), "z": (2, 6, 7)}),
    "halves": (
        'a = R.astype(x, "float16"); b = R.exp(a); y = R.astype(b, "float32")',
        {"x": (5, 40)},
    ),
}
