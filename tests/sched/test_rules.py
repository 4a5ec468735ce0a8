"""The default schedules on CPUs: right at awkward sizes, and of the form they promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, te, tir, topi
from loopwright.base.foreign import RuleError
from loopwright.ir.functor import post_order_visit
from loopwright.ir.prim_expr import IntImm, Var
from loopwright.relax import op
from loopwright.sched import ApplyDefaultSchedule, give_reason, register_schedule_rule
from loopwright.sched.apply import SCHEDULES
from loopwright.sched.machine import Machine
from loopwright.sched.tiles import MASKED_TERMS
from loopwright.tir.function import PrimFunc
from loopwright.tir.op import is_call_to
from loopwright.tir.stmt import Allocate, For, ForKind, IfThenElse

RANGE = (1, 2, 3, 7, 8, 9, 10, 20)


def weight(rng: np.random.Generator, *shape: int) -> relax.Constant:
    return relax.const((rng.standard_normal(shape) * 0.3).astype(np.float32))


def graph(shape: tuple[Any, ...], build: Callable[..., Any]) -> lw.IRModule:
    """A module of one function of one tensor; a string in `shape` is a symbolic dimension."""
    names = {d: Var(d, "int64") for d in shape if isinstance(d, str)}
    dims = [names.get(d, d) if isinstance(d, str) else d for d in shape]
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo(dims, "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(build(bb, x))
        bb.emit_func_output(out)
    return bb.get()


def check(
    rng: np.random.Generator, mod: lw.IRModule, *shapes: tuple[int, ...]
) -> lw.driver.Executable:
    """Compiled and interpreted agree on inputs of each shape, one binary for all."""
    exe = lw.compile(mod)
    meaning = relax.interpreter.Interpreter(mod)["main"]
    for shape in shapes:
        x = rng.standard_normal(shape).astype(np.float32)
        want, got = np.asarray(meaning(x)), np.asarray(exe["main"](x))
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5 * np.abs(want).max())
    return exe


def kernels(exe: Any) -> dict[str, PrimFunc]:
    functions = exe.mod.functions.items()
    return {
        g.name_hint: f for g, f in functions if isinstance(f, PrimFunc) and g.name_hint != "main"
    }


def loop_kinds(func: PrimFunc) -> set[ForKind]:
    kinds: set[ForKind] = set()
    post_order_visit(func.body, lambda n: kinds.add(n.kind) if isinstance(n, For) else None)
    return kinds


@pytest.mark.sample(4)
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 64])
@pytest.mark.parametrize("cols", [5, 10, 16, 31, 32, 96])
def test_a_matmul_with_its_epilogue(rng: np.random.Generator, rows: int, cols: int) -> None:
    w, b = weight(rng, 24, cols), weight(rng, cols)
    mod = graph(("n", 24), lambda bb, x: op.nn.relu(bb.emit(op.add(bb.emit(op.matmul(x, w)), b))))
    exe = check(rng, mod, (rows, 24))
    (kernel,) = kernels(exe).values()
    assert {ForKind.VECTORIZED, ForKind.UNROLLED} <= loop_kinds(kernel)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ((24, 5, 3, 3), {"padding": 1}),
        ((40, 5, 1, 1), {}),
        ((24, 5, 3, 3), {"padding": 1, "strides": 2}),
        ((7, 5, 5, 3), {"padding": [2, 1, 2, 1], "dilation": [1, 2]}),
    ],
)
def test_convolutions_of_symbolic_images(
    rng: np.random.Generator, kernel: tuple[int, ...], options: dict[str, Any]
) -> None:
    first, second = weight(rng, 24, 3, 3, 3), weight(rng, kernel[0], 24, *kernel[2:])

    def build(bb: Any, x: Any) -> Any:
        y = bb.emit(op.nn.relu(bb.emit(op.nn.conv2d(x, first, padding=1))))
        return op.nn.conv2d(y, second, **options)

    check(rng, graph(("b", 3, "h", "w"), build), (1, 3, 9, 11), (2, 3, 16, 8), (1, 3, 23, 37))


@pytest.mark.sample(2)
@pytest.mark.parametrize(("window", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2)])
def test_depthwise_convolutions(rng: np.random.Generator, window: int, stride: int) -> None:
    point, depth = weight(rng, 20, 4, 1, 1), weight(rng, 20, 1, window, window)

    def build(bb: Any, x: Any) -> Any:
        y = bb.emit(op.nn.conv2d(x, point))
        options = {"padding": window // 2, "strides": stride, "groups": 20}
        return op.nn.relu(bb.emit(op.nn.conv2d(y, depth, **options)))

    check(rng, graph((1, 4, "h", "w"), build), (1, 4, 2, 19), (1, 4, 13, 8), (1, 4, 1, 1))


def test_squeeze_and_excite_computes_its_factors_once(rng: np.random.Generator) -> None:
    grow, small, back = weight(rng, 32, 4, 1, 1), weight(rng, 8, 32, 1, 1), weight(rng, 32, 8, 1, 1)

    def build(bb: Any, x: Any) -> Any:
        y = bb.emit(op.nn.conv2d(x, grow))
        mean = bb.emit(op.mean(y, [2, 3], True))
        inner = bb.emit(op.nn.relu(bb.emit(op.nn.conv2d(mean, small))))
        factor = bb.emit(op.sigmoid(bb.emit(op.nn.conv2d(inner, back))))
        return op.multiply(y, factor)

    exe = check(rng, graph((1, 4, "h", "w"), build), (1, 4, 5, 7), (1, 4, 12, 12))
    # The convolution fused with the broadcast stands in a nest of its own.
    fused = next(f for n, f in kernels(exe).items() if "multiply" in n)
    assert len(fused.body.block.body.seq) == 2


@pytest.mark.parametrize("pool", ["max_pool2d", "avg_pool2d"])
def test_pooling(rng: np.random.Generator, pool: str) -> None:
    grow = weight(rng, 20, 3, 1, 1)

    def build(bb: Any, x: Any) -> Any:
        y = bb.emit(op.nn.conv2d(x, grow))
        made = getattr(op.nn, pool)(y, pool_size=3, strides=2, padding=1)
        return made

    check(rng, graph((1, 3, "h", "w"), build), (1, 3, 8, 9), (1, 3, 15, 30))


@pytest.mark.sample(4)
@pytest.mark.parametrize("cols", [3, 16, 37, 64, 200, 1000])
@pytest.mark.parametrize("name", ["softmax", "sum", "max", "min", "mean", "layer_norm", "rms_norm"])
def test_rows_are_reduced(rng: np.random.Generator, name: str, cols: int) -> None:
    ones = relax.const(np.ones(cols, np.float32))
    build = {
        "softmax": lambda bb, x: op.nn.softmax(x, -1),
        "sum": lambda bb, x: op.sum(x, [-1]),
        "max": lambda bb, x: op.max(x, [-1], True),
        "min": lambda bb, x: op.min(x, [-1]),
        "mean": lambda bb, x: op.mean(x, [-1]),
        "layer_norm": lambda bb, x: op.nn.layer_norm(x, ones, ones, [-1]),
        "rms_norm": lambda bb, x: op.nn.rms_norm(x, ones, [-1]),
    }[name]
    check(rng, graph(("n", cols), build), (1, cols), (5, cols))


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", [(1, 1), (3, 15), (2, 64), (4, 65), (1, 500)])
def test_rows_of_symbolic_length(rng: np.random.Generator, shape: tuple[int, int]) -> None:
    check(rng, graph(("n", "m"), lambda bb, x: op.nn.softmax(x, -1)), shape)
    check(rng, graph(("n", "m"), lambda bb, x: op.max(x, [-1])), shape)


def test_infinities_and_nan_pass_through() -> None:
    x = np.array([[1, np.inf, -np.inf, np.nan] * 20], np.float32)
    exe = lw.compile(graph(("n", 80), lambda bb, x: op.nn.relu(x)))
    np.testing.assert_array_equal(np.asarray(exe["main"](x)), np.maximum(x, 0))
    exe = lw.compile(graph(("n", 80), lambda bb, x: op.max(x, [-1])))
    assert np.isnan(np.asarray(exe["main"](x))).all()


def test_large_loops_run_in_parallel_and_small_ones_do_not() -> None:
    def exp(bb: Any, x: Any) -> Any:
        return op.exp(x)

    large = lw.compile(graph((Machine().grain // 16, 64), exp))
    small = lw.compile(graph((4, 64), exp))
    assert ForKind.PARALLEL in loop_kinds(kernels(large)["tir_exp"])
    assert ForKind.PARALLEL not in loop_kinds(kernels(small)["tir_exp"])


def test_a_rule_of_the_user_is_asked_first_and_traced() -> None:
    asked: list[PrimFunc] = []

    def mine(func: PrimFunc, target: lw.Target) -> PrimFunc | None:
        asked.append(func)
        return None

    with SCHEDULES.registry.snapshot():
        register_schedule_rule("mine", "llvm", first=True)(mine)
        mod = graph((4, 64), lambda bb, x: op.exp(x))
        with lw.trace() as trace:
            lw.compile(mod)
    assert len(asked) == 1
    (note,) = trace.explain("tir_exp", kind="schedule")
    refused = "mine, rows, attention, packed, pool, winograd"
    assert note.facts == {"rule": "stages", "refused": refused, "reasons": []}


@pytest.mark.parametrize(
    ("rows", "reason"),
    [(64, "64 rows make 8"), (30, "30 rows make 3"), (29, "29 rows make 2 and a part of 9")],
)
def test_the_trace_tells_why_a_tile_was_chosen(rows: int, reason: str) -> None:
    weight = relax.const(np.ones((48, 64), "float32"))
    mod = graph((rows, 48), lambda bb, x: op.matmul(x, weight))
    with lw.trace() as trace:
        lw.compile(mod, target="llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
    (note,) = trace.explain("matmul", kind="schedule")
    assert note.facts["rule"] == "stages"
    (text,) = note.facts["reasons"]
    assert text.startswith("matmul: tiles of") and text.endswith(reason), text


def test_a_rule_of_the_user_gives_its_reasons() -> None:
    def declines(func: PrimFunc, target: lw.Target) -> PrimFunc | None:
        give_reason(lambda: "not told: it declines")
        return None

    def takes(func: PrimFunc, target: lw.Target) -> PrimFunc | None:
        give_reason(lambda: "it is small")
        return func

    mod = graph((4, 64), lambda bb, x: op.exp(x))
    with SCHEDULES.registry.snapshot():
        register_schedule_rule("takes", "llvm", first=True)(takes)
        register_schedule_rule("declines", "llvm", first=True)(declines)
        with lw.trace() as trace:
            lw.compile(mod)
        (note,) = trace.explain("tir_exp", kind="schedule")
        assert note.facts["reasons"] == ["it is small"]


def test_what_is_wrong_with_a_rule_is_told() -> None:
    mod = graph((4, 64), lambda bb, x: op.exp(x))
    rules: list[Any] = [lambda func, target: func.body, lambda func, target: 1 // 0]
    told = []
    for rule in rules:
        with SCHEDULES.registry.snapshot():
            register_schedule_rule("mine", "llvm", first=True)(rule)
            with pytest.raises((TypeError, RuleError)) as error:
                lw.compile(mod)
        told.append(str(error.value))
    where = 'the schedule rule "mine" (target llvm) of the kernel tir_exp'
    hint = "instead: return the schedule, a PrimFunc, or None to decline"
    zero = f"ZeroDivisionError: {error.value.__cause__}"
    assert told[0] == f"{where} must return a Schedule\n  got: BlockRealize\n  {hint}"
    assert told[1] == f"{where} failed\n  got: {zero}"
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_two_rules_of_one_name() -> None:
    with pytest.raises(ValueError) as error:
        register_schedule_rule("stages", "cpu")(lambda func, target: None)
    assert str(error.value) == "a schedule rule of this name exists\n  got: cpu: stages"


def test_a_scheduled_function_is_left_alone() -> None:
    mod = graph((4, 64), lambda bb, x: op.exp(x))
    mod = relax.transform.LegalizeOps()(mod)
    done = mod["tir_exp"].with_attr("tir.is_scheduled", True)
    mod.update_func(mod.get_global_var("tir_exp"), done)
    assert ApplyDefaultSchedule()(mod)["tir_exp"] is done


def matmul_of(rng: np.random.Generator, rows: int, k: int, n: int) -> lw.IRModule:
    return graph((1, rows, k), lambda bb, x: bb.emit(op.nn.relu(op.matmul(x, weight(rng, k, n)))))


def product_of(rows: int, k: int, n: int) -> lw.IRModule:
    """The product of two parts of one parameter: neither side is constant."""

    def build(bb, x):
        left = bb.emit(op.strided_slice(x, [0], [0], [rows * k]))
        right = bb.emit(op.strided_slice(x, [0], [rows * k], [rows * k + k * n]))
        sides = op.reshape(left, (rows, k)), op.reshape(right, (k, n))
        return bb.emit(op.matmul(*map(bb.emit, sides)))

    return graph((rows * k + k * n,), build)


@pytest.mark.parametrize("columns", [512, 545])
def test_a_large_right_side_is_packed_strip_by_strip(rng, columns):
    exe = check(rng, product_of(64, 512, columns), (64 * 512 + 512 * columns,))
    kernel = next(f for g, f in exe.lowered.functions.items() if "matmul" in g.name_hint)
    strips = allocated(kernel)
    lanes = lw.Target("llvm").vector_lanes("float32")
    assert (512 * 2 * lanes,) in strips, strips


@pytest.mark.parametrize("sizes", [(63, 512, 512), (64, 512, 500), (64, 256, 512)])
def test_where_packing_does_not_pay_nothing_is_copied(rng, sizes):
    rows, k, n = sizes
    exe = check(rng, product_of(rows, k, n), (rows * k + k * n,))
    kernel = next(f for g, f in exe.lowered.functions.items() if "matmul" in g.name_hint)
    assert all(size < k * 16 for (size,) in allocated(kernel))


@pytest.mark.sample(2)
@pytest.mark.parametrize("rows", ["m", 1, 3, 8, 23])
@pytest.mark.parametrize("columns", [33, 97, 512])
def test_a_constant_right_side_is_packed_when_the_model_is_compiled(
    rng: np.random.Generator, rows: Any, columns: int
) -> None:
    exe = check(
        rng,
        matmul_of(rng, rows, 40, columns),
        *((1, n, 40) for n in (RANGE if rows == "m" else [rows])),
    )
    (kernel,) = (f for g, f in exe.mod.functions.items() if "matmul" in g.name_hint)
    (strips,) = (b for b in kernel.buffer_map.values() if len(b.shape) == 3 and b.shape[1] == 40)
    whole, width = int(strips.shape[0] * strips.shape[2]), int(strips.shape[2])
    assert whole - width < columns <= whole
    assert not any("weight_prepack" in g.name_hint for g in exe.mod.functions)


def test_the_next_strip_is_fetched_by_many_rows(rng: np.random.Generator) -> None:
    exe = check(rng, matmul_of(rng, 40, 96, 160), (1, 40, 96))
    (name,) = (g.name_hint for g in exe.mod.functions if "matmul" in g.name_hint)
    assert "call void @llvm.prefetch" in exe.program.text(name)
    few = check(rng, matmul_of(rng, 8, 96, 160), (1, 8, 96))
    assert "prefetch" not in few.program.text(name)


def test_rows_stay_in_one_loop(rng: np.random.Generator) -> None:
    """Softmax keeps its exponentials for the row: one parallel loop, one exp."""
    exe = check(rng, graph((16, 8, 100), lambda bb, x: bb.emit(op.nn.softmax(x))), (16, 8, 100))
    (kernel,) = kernels(exe).values()
    loops: list[Any] = []
    post_order_visit(kernel.body, lambda n: loops.append(n) if isinstance(n, For) else None)
    assert sum(n.kind == ForKind.PARALLEL for n in loops) == 1
    assert kernel.script().count("T.exp(") == 1


def test_one_value_per_row_after_other_rows(rng: np.random.Generator) -> None:
    def build(bb, x):
        mean, square = (
            op.mean(v, axis=[-1], keepdims=True) for v in (x, bb.emit(op.multiply(x, x)))
        )
        first = bb.emit(mean)
        return bb.emit(
            op.sqrt(bb.emit(op.subtract(bb.emit(square), bb.emit(op.multiply(first, first)))))
        )

    check(rng, graph((24, 50), build), (24, 50))


@pytest.mark.sample(4)
@pytest.mark.parametrize("length", [1, 2, 15, 16, 33, 100, 600])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "rms", "layer_norm"])
def test_rows_of_any_length(rng: np.random.Generator, name: str, length: int) -> None:
    def build(bb, x):
        if name == "rms":
            mean = bb.emit(op.mean(bb.emit(op.multiply(x, x)), axis=[-1], keepdims=True))
            return bb.emit(
                op.multiply(x, bb.emit(op.rsqrt(bb.emit(op.add(mean, relax.const(0.1))))))
            )
        if name == "layer_norm":
            return bb.emit(op.nn.layer_norm(x, weight(rng, length), weight(rng, length), axes=[-1]))
        return bb.emit(getattr(op.nn, name)(x))

    check(rng, graph(("n", 3, length), build), (1, 3, length), (5, 3, length))


def test_a_window_with_a_condition_for_each_lane_stays_small(rng):
    """Three channels of three taps, each for 16 vectors with masks, took LLVM many seconds."""
    taps = weight(rng, 3, 1, 3)
    model = graph(("n", 3, "m"), lambda bb, x: bb.emit(op.nn.conv1d_transpose(x, taps)))
    exe = check(rng, model, (9, 3, 33))
    kernel = next(g.name_hint for g in exe.lowered.functions if "conv" in g.name_hint)
    text = exe.program.text(kernel)
    # Lanes one by one were 113 such loads, and 139,043 characters.
    assert text.count("load <") <= 3 * MASKED_TERMS and len(text) < 125_000


def allocated(func: PrimFunc) -> list[tuple[int, ...]]:
    """The sizes of a kernel's own buffers."""
    found: list[tuple[int, ...]] = []
    post_order_visit(
        func.body,
        lambda s: (
            found.append(tuple(int(e) for e in s.extents)) if isinstance(s, Allocate) else None
        ),
    )
    return found


def test_a_sum_over_no_axis_is_not_inlined():
    """Its block has an init and a store; a batch of one element is normalized by such sums."""
    x, vectors = te.placeholder((1,), name="x"), [te.placeholder((1,), name=n) for n in "gbmv"]
    outs = topi.nn.batch_norm(x, *vectors, 0, 0.0, True, True, True, 0.1)
    exe = lw.compile(te.create_prim_func([x, *vectors, *outs]), "llvm")
    made = [np.zeros(1, "float32") for _ in outs]
    exe["main"](*(np.array([v], "float32") for v in (3, 2, 7, 5, 4)), *made)
    np.testing.assert_allclose(np.concatenate(made[1:]), [5 * 0.9 + 3 * 0.1, 4 * 0.9])


@pytest.mark.parametrize("axes", [[0, 2, 3], [2, 3], [3]])
def test_a_sum_over_several_axes(rng: np.random.Generator, axes: list[int]) -> None:
    check(rng, graph((3, 4, 5, 70), lambda bb, x: bb.emit(op.sum(x, axis=axes))), (3, 4, 5, 70))


def conv(
    rng: np.random.Generator, given: int, channels: int, kernel: int, **options: Any
) -> Callable[[Any, Any], Any]:
    w = weight(rng, channels, given, kernel, kernel)
    return lambda bb, x: bb.emit(op.nn.conv2d(x, w, **options))


def conv_text(exe: Any) -> str:
    """The LLVM text of the model's convolution."""
    return exe.program.text(next(n for n in kernels(exe) if "conv" in n))


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["mean", "max", "sum", "variance"])
@pytest.mark.parametrize("size", [(7, 7), (3, 14), (4, 4, 5)])
def test_short_axes_are_reduced_as_one_row(
    rng: np.random.Generator, name: str, size: tuple[int, ...]
) -> None:
    axes = list(range(2, 2 + len(size)))
    build = lambda bb, x: getattr(op, name)(bb.emit(op.nn.relu(x)), axes)  # noqa: E731
    exe = check(rng, graph((2, 20, *size), build), (2, 20, *size))
    assert all(ForKind.VECTORIZED in loop_kinds(f) for f in kernels(exe).values())


def test_axes_that_are_not_neighbours_in_memory_stay_apart(rng: np.random.Generator) -> None:
    for axes, shape in (([1, 3], (9, 6, 4, 11)), ([2, 3], (3, 20, 5, 5))):
        build = lambda bb, x: op.sum(x, axes)  # noqa: E731, B023
        check(rng, graph(shape, build), shape)
    # of the 11 in a line only 5 are added
    x = te.placeholder((20, 8, 11), name="x")
    i, j = te.reduce_axis((0, 8)), te.reduce_axis((0, 5))
    total = te.compute((20,), lambda c: te.sum(x[c, i, j], axis=[i, j]))
    data, out = rng.standard_normal((20, 8, 11)).astype(np.float32), np.empty(20, np.float32)
    lw.compile(te.create_prim_func([x, total]))["main"](data, out)
    np.testing.assert_allclose(out, data[:, :, :5].sum((1, 2)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("channels", "size"), [(64, 7), (64, 20), (80, 5)])
def test_weights_of_the_next_tile_are_read_ahead(
    rng: np.random.Generator, channels: int, size: int
) -> None:
    assert "llvm.prefetch" not in conv_text(
        check(rng, graph((1, 16, 7, 7), conv(rng, 16, 16, 3)), (1, 16, 7, 7))
    )
    mod = graph((2, channels, size, "w"), conv(rng, channels, channels, 3, padding=1))
    exe = check(rng, mod, (2, channels, size, size), (2, channels, size, 33))
    assert conv_text(exe).count("call void @llvm.prefetch") >= 2


def read_ahead(mod: lw.IRModule, cpu: str) -> tuple[np.ndarray, np.ndarray]:
    """How often the kernel for `cpu` that reads weights ahead does so for each element, and for what is
    further along than these."""
    steps = lw.lower(mod, f"llvm -mcpu={cpu}")
    functions = steps.last("ApplyDefaultSchedule").after.functions.values()
    (func,) = [f for f in functions if isinstance(f, PrimFunc) and "T.prefetch" in f.script()]
    found: list[Any] = []
    post_order_visit(func.body, lambda n: found.append(n) if is_call_to(n, "prefetch") else None)
    *outer, rows, width = (int(d) for d in found[0].args[0].args[0].buffer.shape)
    shape = [*outer, 8 * rows, width]  # the last tile may go on a little, its own weights further
    counts = tir.decl_buffer(shape, "int32", "counts")

    def counted(node: Any) -> Any:
        if isinstance(node, tir.BlockRealize):  # only what is read ahead is of interest
            return tir.Evaluate(0) if node.block.name_hint != "root" else None
        if not is_call_to(node.value, "prefetch"):
            return None
        at = node.value.args[0].args[0].indices
        return tir.BufferStore(counts, tir.BufferLoad(counts, at) + 1, at)

    kinds = ["tir.BlockRealize", "tir.Evaluate"]
    body = tir.stmt_functor.ir_transform(func.body, counted, None, kinds)
    given = [np.zeros([int(d) for d in b.shape], "float32") for b in func.buffer_map.values()]
    seen = np.zeros(shape, "int32")
    params = [*func.params, tir.Var("counts", "handle")]
    buffers = {**func.buffer_map, params[-1]: counts}
    tir.interpreter.run(func.replace(params=params, buffer_map=buffers, body=body), [*given, seen])
    return seen[..., :rows, :], seen[..., 2 * rows :, :]


@pytest.mark.sample(2)
@pytest.mark.parametrize("size", [7, 14])
@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512"])
def test_each_line_of_the_next_weights_is_read_ahead_once(
    rng: np.random.Generator, cpu: str, size: int
) -> None:
    """By some tile of the image, for all blocks of output channels but the first ones."""
    mod = graph((1, 64, size, size), conv(rng, 64, 64, 3, padding=1))
    seen, own = read_ahead(mod, cpu)
    seen = seen.reshape(seen.shape[0], -1, 64 // 4)  # by lines
    ahead = next(k for k in range(len(seen)) if seen[k].any())
    assert 0 < ahead < len(seen) - 1
    assert (seen[ahead:-ahead, :, 0] == 1).all() and not seen[..., 1:].any()
    # Its own weights, 8 x 8 of a block, in tiles of 4 or 5 pixels; of 7 or 14 none.
    lines = own.reshape(-1, own[0, 0, 0, 0].size // (64 // 4), 64 // 4).any(axis=0)
    assert lines[:, 0].sum() == {"haswell": 8 * 8 * 4 // 64, "skylake-avx512": 0}[cpu]


@pytest.mark.parametrize("depth", [96, 97])
@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512"])
def test_all_of_the_next_strip_is_read_ahead(
    rng: np.random.Generator, cpu: str, depth: int
) -> None:
    """By each step of a product, or by each four."""
    seen, _ = read_ahead(matmul_of(rng, 64, depth, 160), cpu)
    assert seen.shape[1] == depth and len(seen) > 1
    lines = seen.reshape(len(seen), -1, 64 // 4).sum(-1)
    assert lines[1:].all()


def test_a_first_layer_copies_its_padded_image_and_keeps_registers(
    rng: np.random.Generator,
) -> None:
    """With its taps unrolled it kept 34 pixels in registers, and its accumulators in memory."""
    build = conv(rng, 3, 64, 7, padding=3, strides=2)
    exe = check(rng, graph(("n", 3, "h", "w"), build), (1, 3, 30, 70), (2, 3, 9, 8))
    check(rng, graph((1, 3, 32, 48), build), (1, 3, 32, 48))
    kernel = next(f for g, f in exe.lowered.functions.items() if "conv" in g.name_hint)
    copies: list[Allocate] = []
    post_order_visit(kernel.body, lambda s: copies.append(s) if isinstance(s, Allocate) else None)
    assert sum(not isinstance(c.extents[0], IntImm) for c in copies) == 1


def test_a_vector_on_either_side_of_a_product(rng: np.random.Generator) -> None:
    """Its one index has none before it; found by random graphs (relax, seed 9100165)."""
    check(rng, graph((64,), lambda bb, x: bb.emit(op.matmul(x, weight(rng, 64, 48)))), (64,))
    check(rng, graph((48, 64), lambda bb, x: bb.emit(op.matmul(x, weight(rng, 64)))), (48, 64))


@pytest.mark.parametrize("shape", [(1, 16, 1, 64), (2, 16, 3, 64), (1, 4, 40, 64)])
def test_products_of_many_matrices(rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    """As of attention: each head has a matrix of its own, of more than `LEAST_BYTES` together."""
    heads, k = shape[1], shape[3]
    weights = weight(rng, 1, heads, k, 129)
    exe = check(rng, graph(shape, lambda bb, x: bb.emit(op.matmul(x, weights))), shape)
    for kernel in kernels(exe).values():
        assert lw.tir.analysis.verify_well_formed(kernel)

    def attention(bb, x):
        other = bb.emit(op.permute_dims(bb.emit(op.concat([x] * 43, axis=2)), [0, 1, 3, 2]))
        return bb.emit(op.matmul(x, other))

    check(rng, graph(shape, attention), shape)


def test_a_product_of_which_no_extent_is_known_has_vectors_at_its_ends(
    rng: np.random.Generator,
) -> None:
    """Rows are counted by divisions; such an index was taken for one that may divide by zero, and the
    lanes of the last tile ran one by one."""
    mod = graph((2, 3, "n", 8), lambda bb, x: op.matmul(x, op.permute_dims(x, [0, 1, 3, 2])))
    exe = check(rng, mod, *((2, 3, n, 8) for n in RANGE), (2, 3, 70, 8))
    text = exe.program.assembly("matmul")
    assert "prefetch" not in text
    assert not [line for line in text.splitlines() if "vfmadd" in line and "ss\t" in line]


@pytest.mark.parametrize("rows", [197, 15])
def test_the_last_rows_of_a_known_number_have_no_checks(
    rng: np.random.Generator, rows: int
) -> None:
    mod = graph((rows, 64), lambda bb, x: op.matmul(x, weight(rng, 64, 48)))
    func = check(rng, mod, (rows, 64)).mod["matmul"]
    conditions: list[Any] = []
    post_order_visit(
        func.body, lambda n: conditions.append(n.condition) if isinstance(n, IfThenElse) else None
    )
    assert len(conditions) <= 1, "which tile it is"


@pytest.mark.sample(4)
@pytest.mark.parametrize("sizes", [(), ("h",), ("n", "c", "h", "w")])
@pytest.mark.parametrize(
    ("shape", "order", "tiled"),
    [
        ((3, 40, 50), (0, 2, 1), True),
        ((2, 32, 7, 7), (0, 2, 3, 1), True),  # rows of 49 pixels
        ((2, 14, 9, 35), (0, 3, 1, 2), True),
        ((1, 20, 3, 33), (3, 2, 1, 0), True),
        ((2, 3, 20, 20), (0, 2, 3, 1), False),  # vectors of 3
        ((5, 33, 17), (1, 0, 2), False),  # rows stay rows
    ],
)
def test_transposes_in_tiles(
    rng: np.random.Generator, shape, order, tiled: bool, sizes: tuple[str, ...]
) -> None:
    dims = [d if d in sizes else n for d, n in zip("nchw", shape, strict=False)]
    mod = graph(tuple(dims), lambda bb, x: op.permute_dims(x, order))
    with lw.Target("llvm -mcpu=skylake-avx512"):
        text = lw.lower(mod)["tir.TransposeInRegisters"].after.script()
    unknown = "n" in sizes and order[-1] != len(order) - 1
    assert ("Shuffle" in text) == (tiled or unknown)
    check(rng, mod, shape, *([(1, *shape[1:])] if "n" in sizes else []))


def test_a_reshape_before_a_transpose_is_no_obstacle(rng: np.random.Generator) -> None:
    """Keys of attention: heads are cut out of rows first."""
    build = lambda bb, x: op.permute_dims(bb.emit(op.reshape(x, (2, 20, 3, 16))), (0, 2, 3, 1))  # noqa: E731
    mod = graph((2, 20, 48), build)
    with lw.Target("llvm -mcpu=skylake-avx512"):
        assert "Shuffle" in lw.lower(mod)["tir.TransposeInRegisters"].after.script()
    check(rng, mod, (2, 20, 48))


@pytest.mark.parametrize(("size", "lanes"), [(256, 64), (200, 16), (500, 64), (17, 16)])
def test_a_function_of_several_vectors_at_once(
    rng: np.random.Generator, size: int, lanes: int
) -> None:
    """They share its constants, unless many of them would lie beyond the end."""
    mod = graph((3, size), lambda bb, x: op.tanh(x))
    with lw.Target("llvm -mcpu=skylake-avx512"):
        text = lw.lower(mod)["ApplyDefaultSchedule"].after["tir_tanh"].script()
    assert f"T.vectorized(T.int64({lanes}))" in text
    check(rng, mod, (3, size))
    check(rng, graph((3, size), lambda bb, x: op.nn.softmax(x)), (3, size))


@pytest.mark.parametrize("pad", [0, 100])
def test_terms_of_a_padding_that_is_not_zero_stay(rng: np.random.Generator, pad: int) -> None:
    """The zero point of quantized data: rows of it were left out of the sum."""
    x, w = te.placeholder((1, 8, 2, 7), "uint8", "x"), te.placeholder((8, 12), "int8", "w")
    u, v = te.reduce_axis((0, 3), "u"), te.reduce_axis((0, 3), "v")

    def term(n: Var, c: Var, i: Var, j: Var) -> Any:
        row, column = i * 2 + u, j * 2 + v
        inside = tir.all(row >= 1, row < 3, column >= 1, column < 8)
        read = tir.if_then_else(inside, x[n, c, row - 1, column - 1], tir.const(pad, "uint8"))
        return te.sum(read.astype("int32") * w[c, u * 4 + v].astype("int32"), axis=[u, v])

    sums = te.compute((1, 8, 1, 4), term, "sums")
    out = te.compute(sums.shape, lambda *at: sums[at].astype("float32") * 0.5, "out")
    func = te.create_prim_func([x, w, out])
    with lw.Target("c"):
        made = ApplyDefaultSchedule()(lw.IRModule({"main": func}))["main"]
    data = [rng.integers(0, 9, t.shape).astype(t.dtype) for t in (x, w)]
    want, got = (np.zeros((1, 8, 1, 4), "float32") for _ in range(2))
    tir.interpreter.run(func, [*data, want])
    tir.interpreter.run(made, [*data, got])
    np.testing.assert_array_equal(got, want)
    skips = "T.where(" in made.script()
    assert skips == (pad == 0)  # those of zeros are left out


def test_only_terms_of_zero_are_left_out_in_the_padding(rng: np.random.Generator) -> None:
    """Around the image a pixel is 0 + 1, and its products count."""
    x = te.placeholder((1, 2, 12, 12, 16), "float32", "x")
    w = te.placeholder((2, 2, 3, 3, 16, 16), "float32", "w")

    def padded(n: Any, c: Any, y: Any, z: Any, i: Any) -> Any:
        inside = te.all(y >= 1, y < 13, z >= 1, z < 13)
        return te.if_then_else(inside, x[n, c, y - 1, z - 1, i], 0.0)

    image = te.compute((1, 2, 14, 14, 16), padded, "padded")
    more = te.compute(image.shape, lambda *at: image(*at) + 1.0, "more")
    axes = [te.reduce_axis((0, extent), name) for name, extent in zip("cyxi", (2, 3, 3, 16))]
    c, y, z, i = axes

    def products(n: Any, k: Any, row: Any, col: Any, o: Any) -> Any:
        return te.sum(more[n, c, row + y, col + z, i] * w[k, c, y, z, i, o], axis=axes)

    out = te.compute((1, 2, 12, 12, 16), products, "out")
    exe = lw.compile(te.create_prim_func([x, w, out]))
    a, b = (rng.standard_normal([int(d) for d in t.shape]).astype("float32") for t in (x, w))
    got = np.zeros([int(d) for d in out.shape], "float32")
    exe["main"](a, b, got)
    pixels = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0))) + 1
    windows = np.lib.stride_tricks.sliding_window_view(pixels, (3, 3), (2, 3))
    want = np.einsum("ncyzihw,kchwio->nkyzo", windows, b)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_rules_given_to_the_pass_are_tried_first():
    func = te.create_prim_func([x := te.placeholder((8,)), te.compute((8,), lambda i: x[i] + 1.0)])
    mod, seen = lw.IRModule({"main": func}), []

    class Mine:
        def __call__(self, func, target):
            seen.append(target.kind.name)
            return func.with_attr("mine", 1) if len(seen) > 1 else None

    with lw.target.Target("llvm"):
        assert "mine" not in ApplyDefaultSchedule(Mine())(mod)["main"].attrs  # it declined
        assert ApplyDefaultSchedule(Mine())(mod)["main"].attrs["mine"] == 1
    assert seen == ["llvm", "llvm"]
