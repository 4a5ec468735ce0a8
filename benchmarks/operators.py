"""Single operators as models: what our kernels and those of onnxruntime reach.

    python -m benchmarks.operators [--only PART] [--threads N] [--torch]

times every case in this process, in turn with onnxruntime (and torch), and prints the twenty largest ratios to
the better one and the geometric mean. Weights are constants, as in a network, so each engine may pack them when it
loads the model. `python -m benchmarks.run softmax_1024 ...` measures cases by name, `python -m
benchmarks.kernels` compares their kernels with the floor of this machine.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

Shape = tuple[int, ...]


class Case(NamedTuple):
    """A node: its inputs by shape, constants by shape or value, attributes, outputs."""

    op: str
    inputs: tuple[Shape, ...]
    constants: tuple[Any, ...] = ()
    attrs: dict[str, Any] = {}
    outputs: int = 1
    dtype: str = "float32"


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _cases() -> dict[str, Case]:
    cases: dict[str, Case] = {}

    def add(name: str, *spec: Any, **more: Any) -> None:
        cases[name] = Case(*spec, **more)

    for op in [
        "Exp",
        "Tanh",
        "Erf",
        "Sigmoid",
        "Log",
        "Sqrt",
        "Relu",
        "Gelu",
        "Softplus",
        "HardSwish",
        "Mish",
        "Sin",
        "Round",
    ]:
        for label, shape in (("small", (64,)), ("1M", (1024, 1024)), ("odd", (101, 103))):
            add(f"{op.lower()}_{label}", op, (shape,))
    add("gelu_3072", "Gelu", ((128, 3072),))
    for op in ("Add", "Mul", "Div", "Pow"):
        for label, other in (
            ("same", (1024, 1024)), ("row", (1024,)), ("column", (1024, 1)), ("scalar", (1,)),
        ):  # fmt: skip
            add(f"{op.lower()}_{label}", op, ((1024, 1024), other))
    add("add_outer", "Add", ((1024, 1), (1, 1024)))
    add("add_channels", "Add", ((1, 64, 56, 56), (64, 1, 1)))
    for op in ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceL2", "ReduceLogSumExp"):
        for label, shape, axes in (
            ("all", (1024, 1024), (0, 1)), ("first", (1024, 1024), (0,)),
            ("last", (1024, 1024), (1,)), ("middle", (64, 64, 256), (1,)),
            ("odd", (257, 509), (1,)), ("pixels", (1, 64, 56, 56), (2, 3)),
            ("few", (8, 100_000), (1,)), ("columns", (100_000, 8), (0,)),
        ):  # fmt: skip
            add(f"{op.lower()}_{label}", op, (shape,), (_ints(*axes),), {"keepdims": 0})
    for op in ("ArgMax", "ArgMin"):
        for axis in (0, 1):
            add(f"{op.lower()}_{axis}", op, ((1024, 1024),), (), {"axis": axis})
    add("argmax_logits", "ArgMax", ((1, 8, 32_000),), (), {"axis": 2})
    for op in ("Softmax", "LogSoftmax"):
        for label, shape, axis in (
            ("1024", (1024, 1024), -1), ("32000", (8, 32_000), -1), ("short", (4096, 10), -1),
            ("first", (256, 1024), 0), ("channels", (1, 21, 128, 128), 1),
        ):  # fmt: skip
            add(f"{op.lower()}_{label}", op, (shape,), (), {"axis": axis})
    add("layer_norm_768", "LayerNormalization", ((128, 768),), ((768,), (768,)))
    add("layer_norm_long", "LayerNormalization", ((4, 65_536),), ((65_536,), (65_536,)))
    add("instance_norm", "InstanceNormalization", ((1, 32, 256, 256),), ((32,), (32,)))
    add("group_norm", "GroupNormalization", ((1, 64, 64, 64),), ((64,), (64,)), {"num_groups": 8})
    add("lp_norm", "LpNormalization", ((512, 512),))
    add("lrn", "LRN", ((1, 64, 56, 56),), (), {"size": 5})
    for label, m, k, n in (
        ("1024", 1024, 1024, 1024), ("256", 256, 256, 256), ("32", 32, 32, 32),
        ("odd", 509, 1021, 1031), ("skinny", 8, 4096, 4096), ("narrow", 1024, 1024, 3),
        ("width_1", 1024, 1024, 1), ("width_8", 1024, 1024, 8), ("width_17", 1024, 1024, 17),
        ("short_sum", 1024, 3, 1024), ("long_sum", 16, 65_536, 16), ("three_rows", 3, 768, 3072),
    ):  # fmt: skip
        add(f"gemm_{label}", "MatMul", ((m, k),), ((k, n),))
        add(f"gemm_{label}_given", "MatMul", ((m, k), (k, n)))
    add("matvec_4096", "MatMul", ((1, 4096),), ((4096, 4096),))
    add("matmul_heads", "MatMul", ((12, 128, 64), (12, 64, 128)))
    add("matmul_batch", "MatMul", ((64, 32, 32), (64, 32, 32)))
    add("gemm_transposed", "Gemm", ((128, 768),), ((3072, 768), (3072,)), {"transB": 1})
    add("einsum_bhqk", "Einsum", ((2, 8, 64, 64), (2, 8, 64, 64)), (),
        {"equation": "bhqd,bhkd->bhqk"})  # fmt: skip
    for label, shape, weight, more in (
        ("64_56", (1, 64, 56, 56), (64, 64, 3, 3), {"pads": [1] * 4}),
        ("256_14", (1, 256, 14, 14), (256, 256, 3, 3), {"pads": [1] * 4}),
        ("pointwise", (1, 256, 28, 28), (512, 256, 1, 1), {}),
        ("first", (1, 3, 224, 224), (64, 3, 7, 7), {"pads": [3] * 4, "strides": [2, 2]}),
        ("stride", (1, 64, 56, 56), (128, 64, 3, 3), {"pads": [1] * 4, "strides": [2, 2]}),
        ("dilated", (1, 64, 32, 32), (64, 64, 3, 3), {"pads": [2] * 4, "dilations": [2, 2]}),
        ("groups", (1, 64, 32, 32), (64, 16, 3, 3), {"pads": [1] * 4, "group": 4}),
        ("odd_channels", (1, 13, 60, 60), (29, 13, 3, 3), {"pads": [1] * 4}),
        ("one_channel", (1, 1, 128, 128), (1, 1, 5, 5), {"pads": [2] * 4}),
        ("1d", (1, 64, 1024), (64, 64, 3), {"pads": [1] * 2}),
        ("3d", (1, 16, 16, 32, 32), (16, 16, 3, 3, 3), {"pads": [1] * 6}),
        ("batch", (8, 32, 28, 28), (64, 32, 3, 3), {"pads": [1] * 4}),
    ):  # fmt: skip
        add(f"conv_{label}", "Conv", (shape,), (weight,), more)
    add("depthwise_32_112", "Conv", ((1, 32, 112, 112),), ((32, 1, 3, 3),),
        {"pads": [1] * 4, "group": 32})  # fmt: skip
    add("depthwise_1d", "Conv", ((1, 256, 512),), ((256, 1, 7),), {"pads": [3, 3], "group": 256})
    add("conv_transpose", "ConvTranspose", ((1, 64, 32, 32),), ((64, 32, 4, 4),),
        {"strides": [2, 2], "pads": [1] * 4})  # fmt: skip
    for op, kind in (("MaxPool", "max"), ("AveragePool", "average")):
        for label, kernel, stride, pad in (("3_2", 3, 2, 1), ("2_2", 2, 2, 0), ("3_1", 3, 1, 1)):
            how = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
            add(f"{kind}_pool_{label}", op, ((1, 64, 112, 112),), (), how)
    add("global_pool", "GlobalAveragePool", ((1, 512, 7, 7),))
    add("global_max_pool", "GlobalMaxPool", ((1, 64, 56, 56),))
    for label, shape, perm in (
        ("2d", (1024, 1024), (1, 0)), ("heads", (1, 128, 12, 64), (0, 2, 1, 3)),
        ("channels_last", (1, 64, 56, 56), (0, 2, 3, 1)), ("front", (64, 64, 256), (2, 0, 1)),
        ("short", (4096, 3, 16), (1, 0, 2)),
    ):  # fmt: skip
        add(f"transpose_{label}", "Transpose", (shape,), (), {"perm": perm})
    add("concat_0", "Concat", ((512, 512), (512, 512)), (), {"axis": 0})
    add("concat_1", "Concat", ((512, 512), (512, 300)), (), {"axis": 1})
    add("split_1", "Split", ((512, 512),), (_ints(256, 256),), {"axis": 1}, 2)
    add("slice_step", "Slice", ((1024, 1024),), (_ints(0, 0), _ints(1024, 1024), _ints(0, 1),
        _ints(2, 2)))  # fmt: skip
    rows = np.random.default_rng(1).integers(0, 1000, (256,))
    add("gather_rows", "Gather", ((1000, 768),), (rows,))
    add("gather_columns", "Gather", ((256, 1000),), (rows,), {"axis": 1})
    add("gather_elements", "GatherElements", ((256, 1000),), (np.tile(rows, (256, 1)),),
        {"axis": 1})  # fmt: skip
    add("scatter_elements", "ScatterElements", ((256, 1000), ), (np.tile(rows, (256, 1)),
        np.ones((256, 256), np.float32)), {"axis": 1})  # fmt: skip
    add("scatter_nd", "ScatterND", ((1000, 64),), (rows[:, None], (256, 64)))
    add("pad", "Pad", ((1, 64, 56, 56),), (_ints(0, 0, 1, 1, 0, 0, 1, 1),))
    add("pad_reflect", "Pad", ((1, 64, 56, 56),), (_ints(0, 0, 3, 3, 0, 0, 3, 3),),
        {"mode": "reflect"})  # fmt: skip
    add("tile", "Tile", ((64, 256),), (_ints(4, 4),))
    add("expand", "Expand", ((64, 1, 256),), (_ints(64, 64, 256),))
    add("where_mask", "Where", (), ((1024, 1024), (1024, 1024)))
    add("depth_to_space", "DepthToSpace", ((1, 64, 64, 64),), (), {"blocksize": 2})
    for mode in ("nearest", "linear", "cubic"):
        sizes = np.array([], np.float32)
        add(f"resize_{mode}", "Resize", ((1, 16, 64, 64),), (sizes, sizes, _ints(1, 16, 128, 128)),
            {"mode": mode})  # fmt: skip
    add("cumsum_0", "CumSum", ((1024, 1024),), (np.array(0),))
    add("cumsum_1", "CumSum", ((1024, 1024),), (np.array(1),))
    for label, shape, k, axis in (
        ("8", (64, 4096), 8, 1), ("300", (8, 8400), 300, 1), ("1", (8, 32_000), 1, 1),
        ("50", (8, 32_000), 50, 1), ("first", (256, 256), 4, 0), ("all", (64, 256), 256, 1),
    ):  # fmt: skip
        add(f"topk_{label}", "TopK", (shape,), (_ints(k),), {"axis": axis}, 2)
    add("nonzero", "NonZero", ((256, 256),))
    add("one_hot_matmul", "MatMul", ((256, 1000),), ((1000, 64),))
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        h = 128
        add(op.lower(), op, ((64, 1, h),), ((1, gates * h, h), (1, gates * h, h)),
            {"hidden_size": h}, 2)  # fmt: skip
    for name in ("Add", "MatMul", "Softmax", "Relu"):
        shapes = ((256, 256),) * (2 if name in ("Add", "MatMul") else 1)
        add(f"{name.lower()}_float16", name, shapes, dtype="float16")
    scale, zero = np.float32(0.02), np.uint8(128)
    add("quantize", "QuantizeLinear", ((1024, 1024),), (scale, zero))
    byte = np.random.default_rng(2).integers(-100, 100, (512, 512)).astype(np.int8)
    for rows_ in (1, 256):
        add(f"dynamic_quantize_matmul_{rows_}", "DynamicQuantizeMatMul", ((rows_, 512),),
            (byte, scale), {"domain": "com.microsoft"})  # fmt: skip
    return cases


CASES = _cases()
OPERATORS = tuple(CASES)


def operator(name: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model of one operator, and its inputs."""
    case, rng = CASES[name], np.random.default_rng(0)
    kind = np.dtype(case.dtype)

    def drawn(shape: Shape) -> np.ndarray:
        return (rng.standard_normal(shape) / max(shape, default=1) ** 0.5).astype(kind)

    values = [drawn(c) if isinstance(c, tuple) else np.asarray(c) for c in case.constants]
    if case.op == "Where":
        values = [rng.random(values[0].shape) < 0.5, *values]
    feeds = {f"x{k}": rng.standard_normal(s).astype(kind) for k, s in enumerate(case.inputs)}
    if case.op in ("Log", "Sqrt", "Pow"):
        feeds = {n: np.abs(v) + np.asarray(0.1, kind) for n, v in feeds.items()}
    constants = [numpy_helper.from_array(v, f"w{k}") for k, v in enumerate(values)]
    attrs = dict(case.attrs)
    names = [*feeds, *(c.name for c in constants)]
    if case.op == "Where" and not feeds:  # a mask of the model, two inputs
        names = ["w0", "x0", "x1"]
        feeds = {"x0": values.pop().astype(kind), "x1": values.pop().astype(kind)}
        constants = constants[:1]
    ends = [f"y{k}" for k in range(case.outputs)]
    domain = attrs.pop("domain", "")
    node = helper.make_node(case.op, names, ends, domain=domain, **attrs)
    graph = helper.make_graph(
        [node],
        name,
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in feeds.items()
        ],
        [onnx.ValueInfoProto(name=n) for n in ends],
        constants,
    )
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=9)
    return onnx.shape_inference.infer_shapes(model), feeds


def _calls(name: str, threads: int, with_torch: bool) -> dict[str, Callable[[], Any]]:
    """A call of each engine, ours first. Raises ValueError where results differ."""
    import onnxruntime

    import loopwright as lw

    model, feeds = operator(name)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    ours, values = lw.compile(model)["main"], list(feeds.values())
    calls = {"ours": lambda: ours(*values), "onnxruntime": lambda: session.run(None, feeds)}
    if with_torch:
        import torch

        from .torch_operators import call_of

        torch.set_num_threads(threads)
        if (call := call_of(model, feeds)) is not None:
            calls["torch"] = call
    loose = 0.02 if CASES[name].dtype == "float16" else 1e-3
    results = [
        got if isinstance(got, (list, tuple)) else (got,) for got in (c() for c in calls.values())
    ]
    for peer, got in zip([*calls][1:], results[1:], strict=True):
        for a, b in zip(results[0], got, strict=True):
            if not np.allclose(np.asarray(a, float), np.asarray(b, float), loose, loose):
                raise ValueError(f"{name}: the results differ from those of {peer}")
    return calls


def ratio(
    name: str, threads: int, with_torch: bool = False, rounds: int = 5, seconds: float = 0.02
) -> tuple[float, float, str]:
    """Our time of a call in microseconds, as a multiple of the better peer's (interleaved, the best of
    `rounds`), and that peer."""
    calls = _calls(name, threads, with_torch)
    best = dict.fromkeys(calls, math.inf)
    for _ in range(rounds):
        for engine, call in calls.items():
            end, first = time.perf_counter() + seconds, True
            while first or time.perf_counter() < end:
                start, first = time.perf_counter(), False
                call()
                best[engine] = min(best[engine], time.perf_counter() - start)
    ours = best.pop("ours")
    peer = min(best, key=lambda engine: best[engine])
    return ours * 1e6, ours / best[peer], peer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--torch", action="store_true", help="torch is a peer, too")
    options = parser.parse_args()
    os.environ["LOOPWRIGHT_NUM_THREADS"] = str(options.threads)
    results: list[tuple[float, float, str, str]] = []
    for name in OPERATORS:
        if options.only in name:
            try:
                us, times, peer = ratio(name, options.threads, options.torch)
            except Exception as error:  # a case that one of the engines refuses
                print(f"{name}: {str(error).splitlines()[0][:150]}", flush=True)
                continue
            results.append((times, us, name, peer))
    for times, us, name, peer in sorted(results, reverse=True)[:20]:
        print(f"{name:28}{us:12.1f} us {times:8.2f} x {peer}")
    mean = math.exp(sum(math.log(t) for t, *_ in results) / max(len(results), 1))
    print(f"{len(results)} cases, {options.threads} threads: geometric mean {mean:.2f}")


if __name__ == "__main__":
    main()

__all__ = ["OPERATORS", "operator"]
