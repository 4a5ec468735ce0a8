"""Random kernels of every default rule, decisions by chance, and whether schedules replay."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import loopwright as lw
from loopwright import relax, tir
from loopwright.ir import trace as tracing
from loopwright.ir.structural import assert_structural_equal
from loopwright.ops import packed
from loopwright.relax import op
from loopwright.sched.apply import named_apart
from loopwright.tir import Var
from loopwright.tir.schedule import Trace

SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 48, 64, 65, 100, 130)
Build = Callable[[Any, random.Random], Any]


def _constant(rng: random.Random, *shape: int, dtype: str = "float32") -> relax.Constant:
    draw = np.random.default_rng(rng.getrandbits(32))
    if dtype == "float32":
        return relax.const(draw.standard_normal(shape).astype(dtype) * 0.3)
    return relax.const(draw.integers(-60, 60, shape).astype(dtype))


def _size(rng: random.Random) -> int:
    return rng.choice(SIZES)


class Case:
    """A module, and inputs for its function `main`."""

    def __init__(self, name: str, mod: lw.IRModule, inputs: list[np.ndarray]) -> None:
        self.name, self.mod, self.inputs = name, mod, inputs


def module(
    name: str, shapes: list[tuple[Any, ...]], build: Any, rng: random.Random, dtype: str = "float32"
) -> Case:
    """The module of a graph of tensors; a text in a shape is a symbolic size."""
    sizes = {d: Var(d, "int64") for shape in shapes for d in shape if isinstance(d, str)}
    values = {d: _size(rng) for d in sizes}
    bb = relax.BlockBuilder()
    infos = [relax.TensorStructInfo([sizes.get(d, d) for d in shape], dtype) for shape in shapes]
    params = [relax.Var(f"x{n}", info) for n, info in enumerate(infos)]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(build(bb, *params))
        bb.emit_func_output(out)
    draw = np.random.default_rng(rng.getrandbits(32))
    inputs = []
    for shape in shapes:
        extents = [values.get(d, d) for d in shape]
        whole = (
            draw.integers(0, 250, extents) if dtype == "uint8" else draw.standard_normal(extents)
        )
        inputs.append(whole.astype(dtype))
    return Case(name, bb.get(), inputs)


def _product(rng: random.Random) -> Case:
    rows, terms, columns = rng.choice([_size(rng), "n"]), _size(rng), rng.choice([*SIZES, 300])
    weight, bias = _constant(rng, terms, columns), _constant(rng, columns)
    tail = rng.choice([op.nn.relu, op.tanh, op.nn.gelu])

    def build(bb: Any, x: Any) -> Any:
        return tail(bb.emit(op.add(bb.emit(op.matmul(x, weight)), bias)))

    return module("product", [(rows, terms)], build, rng)


def _product_of_arguments(rng: random.Random) -> Case:
    batch, rows, terms, columns = rng.choice([1, 3]), *(_size(rng) for _ in range(3))
    shapes = [(batch, rows, terms), (batch, terms, columns)]
    return module("product of arguments", shapes, lambda bb, x, y: op.matmul(x, y), rng)


def few_rows(rng: random.Random, *sizes: int) -> Case:
    """A product of few rows by a large argument."""
    rows, terms, columns = sizes or (rng.choice([1, 2, 7, 63]), _size(rng) + 257, _size(rng) + 1023)
    bias = _constant(rng, columns)

    def build(bb: Any, x: Any, y: Any) -> Any:
        return op.nn.relu(bb.emit(op.add(bb.emit(op.matmul(x, y)), bias)))

    return module("few rows", [(rows, terms), (terms, columns)], build, rng)


def _convolution(rng: random.Random) -> Case:
    channels, out = rng.choice([3, 16, 32, 64]), rng.choice([8, 16, 32, 64, 96])
    side, window = rng.choice([5, 8, 14, 28]), rng.choice([1, 3, 5])
    weight, bias = _constant(rng, out, channels, window, window), _constant(rng, 1, out, 1, 1)
    attrs = {"strides": rng.choice([1, 2]), "padding": rng.choice([0, window // 2])}

    def build(bb: Any, x: Any) -> Any:
        return op.nn.relu(bb.emit(op.add(bb.emit(op.nn.conv2d(x, weight, **attrs)), bias)))

    high = rng.choice([side, side, "h"])
    return module("convolution", [(1, channels, high if window == 1 else side, side)], build, rng)


def _depthwise(rng: random.Random) -> Case:
    channels, side = rng.choice([16, 24, 32]), rng.choice([7, 14, 30])
    weight = _constant(rng, channels, 1, 3, 3)
    attrs = {"groups": channels, "strides": rng.choice([1, 2]), "padding": 1}
    return module(
        "depthwise",
        [(1, channels, side, side)],
        lambda bb, x: op.nn.relu6(bb.emit(op.nn.conv2d(x, weight, **attrs))),
        rng,
    )


def _rows(rng: random.Random) -> Case:
    rows, columns = rng.choice([_size(rng), 300, "n"]), rng.choice([*SIZES, 512, 1000])
    scale, offset = _constant(rng, columns), _constant(rng, columns)
    build = rng.choice([
        lambda bb, x: op.nn.softmax(x, axis=-1),
        lambda bb, x: op.nn.log_softmax(x, axis=-1),
        lambda bb, x: op.nn.layer_norm(x, scale, offset, axes=[-1]),
        lambda bb, x: op.nn.rms_norm(x, scale, axes=[-1]),
        lambda bb, x: op.nn.softmax(x, axis=0),
    ])  # fmt: skip
    return module("rows", [(rows, columns)], build, rng)


def _reduction(rng: random.Random) -> Case:
    shape = rng.choice(
        [(_size(rng), _size(rng)), (2, 1 << 17), (1 << 16, 8), (16, 7, 7), (512, 512)]
    )
    axes = rng.choice([[0], [len(shape) - 1], list(range(len(shape))), [len(shape) - 2]])
    fold = rng.choice([op.sum, op.max, op.min, op.mean])
    return module("reduction", [shape], lambda bb, x: fold(x, axis=axes), rng)


def _elementwise(rng: random.Random) -> Case:
    shape = rng.choice([(_size(rng), _size(rng)), (300, 513), (70_000,)])
    function = rng.choice([op.exp, op.tanh, op.nn.gelu, op.sigmoid, op.nn.relu])
    return module("elementwise", [shape], lambda bb, x: function(x), rng)


def _transposed(rng: random.Random) -> Case:
    shape = (rng.choice([1, 3]), _size(rng), _size(rng), rng.choice([16, 40]))
    order = rng.choice([[0, 3, 1, 2], [0, 2, 1, 3], [3, 1, 2, 0], [0, 1, 3, 2]])
    return module("transposed", [shape], lambda bb, x: op.permute_dims(x, order), rng)


def _pool(rng: random.Random) -> Case:
    shape = (1, rng.choice([3, 16, 40]), rng.choice([9, 20]), rng.choice([9, 33]))
    pool = rng.choice([op.nn.max_pool2d, op.nn.avg_pool2d])
    attrs = {"pool_size": rng.choice([2, 3]), "strides": rng.choice([1, 2]), "padding": 1}
    return module("pool", [shape], lambda bb, x: pool(x, **attrs), rng)


def _attention(rng: random.Random) -> Case:
    heads, depth, length = (
        rng.choice([1, 4]),
        rng.choice([16, 32, 40]),
        rng.choice([5, 16, 33, "n"]),
    )
    shapes = [(1, length, heads, depth)] * 3
    return module("attention", shapes, lambda bb, q, k, v: op.nn.attention(q, k, v), rng)


def _bytes(rng: random.Random) -> Case:
    rows, terms, columns = _size(rng), rng.choice([4, 16, 36, 64]), rng.choice([5, 16, 40, 96])
    weight = _constant(rng, terms, columns, dtype="int8")
    build = lambda bb, x: op.nn.byte_matmul(x, weight)  # noqa: E731
    return module("bytes", [(rows, terms)], build, rng, "uint8")


def _packed(rng: random.Random) -> Case:
    rows, columns = rng.choice([_size(rng), "n"]), rng.choice([5, 64, 100, 200])
    bits, block = rng.choice([(4,), (8,), (4, 2)]), rng.choice([16, 32, 128])
    draw = np.random.default_rng(rng.getrandbits(32))
    scales = draw.uniform(0.01, 0.1, (columns, 256 // block)).astype(np.float16)
    numbers = draw.integers(0, 1 << sum(bits), (columns, 256)).astype(np.uint8)
    least = rng.choice([None, -scales])
    parts = [
        [*map(relax.const, p)] for p in packed.pack(packed.Columns(numbers, scales, least), bits)
    ]

    def build(bb: Any, x: Any) -> Any:
        short = bb.emit(op.nn.quantize_blocks(x, block))
        data = [bb.emit(relax.TupleGetItem(short, n)) for n in range(3)]
        return op.nn.relu(bb.emit(op.nn.matmul_packed(data, *parts, None, bits, block, 3)))

    return module("packed", [(rows, 256)], build, rng)


FAMILIES = (
    _product, _product_of_arguments, _convolution, _depthwise, _rows, _reduction, _elementwise,
    _transposed, _pool, _attention, _bytes, few_rows, _packed,
)  # fmt: skip


def random_case(seed: int) -> Case:
    """The case of a seed: each family in turn."""
    return FAMILIES[seed % len(FAMILIES)](random.Random(seed))


def random_decisions(schedules: dict[str, Trace], rng: random.Random) -> dict[str, dict[str, int]]:
    """One decision of each kernel, otherwise than by default: a second one may not exist then."""
    decisions = {}
    for kernel, trace in schedules.items():
        taken = [inst for inst in trace.insts if inst.kind.name == "Decide"]
        if taken:
            inst = rng.choice(taken)
            name, candidates = inst.attrs
            others = [int(c) for c in candidates if int(c) != trace.decisions[inst]]
            decisions[kernel] = {str(name): rng.choice(others)}
    return decisions


def check_replays(trace: tracing.Trace) -> None:
    """Each kernel's schedule, applied to the kernel before it, results in the scheduled kernel."""
    record = trace["ApplyDefaultSchedule"]
    for name, steps in trace.schedules.items():
        sch = tir.Schedule(named_apart(record.before[name]), enable_check=False)
        scope = {"tir": tir}
        exec(f"from loopwright.script import tir as T\n{steps}", scope)
        scope["apply_trace"](sch)
        assert_structural_equal(sch.func.with_attr("tir.is_scheduled", True), record.after[name])
