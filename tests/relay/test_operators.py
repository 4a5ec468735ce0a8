"""Relay's operators: what each computes, and that its type is what comes out."""

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relay, te
from loopwright.ir.prim_expr import IntImm
from loopwright.relay.translate import to_relax
from loopwright.relay.walk import free_vars
from loopwright.topi.testing import matrix_set_diag

from ..drawing import drawn

var = relay.var
TABLE = drawn("test_operators")
a = TABLE.normal(size=(2, 3, 4)).astype("float32")
x = var("a", shape=a.shape)
i = TABLE.integers(0, 3, size=(2, 2)).astype("int32")
iv = var("b", shape=i.shape, dtype="int32")
BANDS = TABLE.normal(size=(2, 5, 3)).astype("float32")
BACK = np.array([[[0, -1], [3, -4], [1, 1]], [[-2, 2], [0, 0], [3, -3]]], "int32")


class Row:
    """A case: an expression over the variables a, b and c, what it must give, and their values."""

    def __init__(self, name: str, body: relay.Expr, want: Any, *values: Any) -> None:
        self.name, self.body, self.values = name, body, values
        self.want = want if isinstance(want, (list, tuple)) else [want]


ROWS = [
    Row("sum", relay.sum(x, axis=[0, 2]), a.sum((0, 2)), a),
    Row("sumx", relay.sum(x, axis=1, exclude=True, keepdims=True), a.sum((0, 2), keepdims=True), a),
    Row("all", relay.all(x.astype("bool"), axis=1), np.ones((2, 4), bool), a),
    Row("argmax", relay.argmax(x, axis=[1, 2]), a.reshape(2, -1).argmax(1), a),
    Row("argmax_sorted", relay.argmax(x, axis=[2, 1]), a.reshape(2, -1).argmax(1), a),
    Row(
        "argmax_last",
        relay.argmax(x, axis=1, select_last_index=True, keepdims=True),
        a.argmax(1)[:, None],
        a,
    ),
    Row("variance", relay.variance(x, axis=1, unbiased=True), a.var(1, ddof=1), a),
    Row("mean_std", relay.mean_std(x, axis=1).astuple(), [a.mean(1), a.std(1)], a),
    Row("lse", relay.logsumexp(x, axis=1), np.log(np.exp(a).sum(1)), a),
    Row("reshape", relay.reshape(x, (0, -1)), a.reshape(2, 12), a),
    Row("reshape4", relay.reshape(x, (-4, 1, 2, -3)), a.reshape(1, 2, 12), a),
    Row("reshapec", relay.reshape(x, relay.const(np.array([3, 8]))), a.reshape(3, 8), a),
    Row("rev", relay.reverse_reshape(x, (-1, 0)), a.reshape(6, 4), a),
    Row(
        "dynreshape",
        relay.reshape(x, var("b", shape=(2,), dtype="int64")),
        a.reshape(2, 12),
        a,
        np.array([0, -1]),
    ),
    Row(  # what -3 merges shifts what 0 stands for
        "dynmerge",
        relay.reshape(x, var("b", shape=(2,), dtype="int64")),
        a.reshape(6, 4),
        a,
        np.array([-3, 0]),
    ),
    Row(
        "dyndense",
        relay.sparse_to_dense(
            var("a", shape=(2, 2), dtype="int64"),
            var("c", shape=(2,), dtype="int64"),
            var("b", shape=(2,)),
            -1.0,
        ),
        np.array([[7, -1, -1], [-1, -1, 8]], "float32"),
        np.array([[0, 0], [1, 2]]),
        np.array([7, 8], "float32"),
        np.array([2, 3]),
    ),
    Row(  # axes whose extents only the run knows, with blocks
        "dynblocks",
        relay.layout_transform(var("a", shape=(relay.Any(),) * 3), "CH6c", "CH2c"),
        np.arange(24).reshape(2, 2, 6).transpose(0, 2, 1).reshape(6, 2, 2).transpose(0, 2, 1),
        np.arange(24, dtype="float32").reshape(2, 2, 6),
    ),
    Row(
        "dynexp",
        relay.expand_dims(x, var("b", shape=(), dtype="int64"), 2),
        a.reshape(2, 1, 1, 3, 4),
        a,
        np.array(1),
    ),
    Row(
        "dynsq",
        relay.squeeze(relay.expand_dims(x, 1), var("b", shape=(1,), dtype="int64")),
        a,
        a,
        np.array([1]),
    ),
    Row(
        "dyntile",
        relay.tile(x, var("b", shape=(2,), dtype="int64")),
        np.tile(a, (2, 3)),
        a,
        np.array([2, 3]),
    ),
    Row(
        "dynbc",
        relay.broadcast_to(x, var("b", shape=(4,), dtype="int64")),
        np.broadcast_to(a, (5, 2, 3, 4)),
        a,
        np.array([5, 2, 3, 4]),
    ),
    Row("split", relay.split(x, [1, 3], axis=2).astuple(), np.split(a, [1, 3], 2), a),
    Row("take", relay.take(x, iv, axis=1), np.take(a, i, 1), a, i),
    Row("takeall", relay.take(x, iv), a.reshape(-1)[i], a, i),
    Row(
        "gather",  # negative ones count from the end
        relay.gather(x, 2, var("b", shape=(2, 3, 2), dtype="int32")),
        np.take_along_axis(a, BACK, 2),
        a,
        BACK,
    ),
    Row(
        "where",
        relay.where(var("b", shape=(3, 1), dtype="int32"), x, relay.negative(x)),
        np.where(np.array([[0], [2], [-1]]), a, -a),
        a,
        np.array([[0], [2], [-1]], "int32"),
    ),
    Row(
        "dynsize",
        relay.strided_slice(
            x,
            var("b", shape=(2,), dtype="int64"),
            var("c", shape=(2,), dtype="int64"),
            [1, 1],
            slice_mode="size",
        ),
        a[1:2, 1:],
        a,
        np.array([-1, 1]),
        np.array([1, -1]),
    ),
    Row(
        "symslice",
        relay.strided_slice(
            var("a", shape=(te.size_var("n"), 3, 4)), [1, 0], [5, 3], [2, 1], axes=[0, 2]
        ),
        np.arange(84, dtype="float32").reshape(7, 3, 4)[1:5:2, :, :3],
        np.arange(84, dtype="float32").reshape(7, 3, 4),
    ),
    Row(
        "symsqueeze",
        relay.squeeze(var("a", shape=(te.size_var("n"), 1, 4, 1)), [-1]),
        a.reshape(6, 1, 4),
        a.reshape(6, 1, 4, 1),
    ),
    Row("size", relay.ndarray_size(x), np.array(24), a),
    Row("dynsizeof", relay.ndarray_size(var("a", shape=(relay.Any(), 3, 4))), np.array(24), a),
    *(
        Row(  # 0.75 times, half rounded up, or by powers of two of it
            f"fixed{shift}",
            relay.fixed_point_multiply(var("a", shape=(5,), dtype="int32"), multiplier, shift),
            np.floor(np.array([7, -7, 2, 100, -3]) * multiplier * 2.0 ** (shift - 31) + 0.5),
            np.array([7, -7, 2, 100, -3], "int32"),
        )
        for multiplier, shift in ((3 << 29, -3), (3 << 29, 0), (3, 30), (3, 31), (3, 33))
    ),
    Row("arange1", relay.arange(relay.const(4, "int32"), dtype="int32"), np.arange(4)),
    Row(
        "stft_short",  # the window in the middle of a frame
        relay.stft(var("a", shape=(1, 8)), 5, 2, 2, var("b", shape=(2,))),
        np.stack([np.fft.rfft(np.arange(8)[i : i + 5] * [0, 3, 5, 0, 0]) for i in (0, 2)], 1)[None]
        .view("float64")
        .reshape(1, 3, 2, 2),
        np.arange(8, dtype="float32").reshape(1, 8),
        np.array([3, 5], "float32"),
    ),
    Row(
        "full_of_const",
        relay.full(relay.const(2.0), relay.const([2, 3]), "float32"),
        np.full((2, 3), 2),
    ),
    *(
        Row(
            f"s2d{k}",
            relay.sparse_to_dense(relay.const(at), [3], relay.const(value), relay.const(-1.0)),
            np.array(want),
        )
        for k, (at, value, want) in enumerate(
            [
                (1, 5.0, [-1, 5, -1]),
                ([2, 0], [5.0, 6.0], [6, -1, 5]),
                ([2, 0], 5.0, [5, -1, 5]),
            ]
        )
    ),
    Row(
        "takeb",
        relay.take(x, iv, axis=1, batch_dims=1),
        np.stack([np.take(a[k], i[k], 0) for k in range(2)]),
        a,
        i,
    ),
    Row(
        "takew", relay.take(x, iv, axis=1, mode="wrap"), np.take(a, i + 7, 1, mode="wrap"), a, i + 7
    ),
    Row(
        "slice", relay.strided_slice(x, [0, 2, 1], [2, 0, 4], [1, -1, 2]), a[0:2, 2:0:-1, 1:4:2], a
    ),
    Row("slicesz", relay.strided_slice(x, [0, 1], [1, -1], slice_mode="size"), a[0:1, 1:], a),
    Row(
        "dynback",  # -5 of 3 is before the first one: it is not counted from the end again
        relay.strided_slice(
            x, var("b", shape=(3,), dtype="int64"), var("c", shape=(3,), dtype="int64"), [1, -1, 2]
        ),
        a[0:2, 1:-5:-1, 0:4:2],
        a,
        np.array([0, 1, 0]),
        np.array([2, -5, 4]),
    ),
    Row(
        "dynslice",
        relay.strided_slice(
            x, var("b", shape=(2,), dtype="int64"), var("c", shape=(2,), dtype="int64")
        ),
        a[1:2, 0:2],
        a,
        np.array([1, 0]),
        np.array([2, -1]),
    ),
    Row(
        "sset",
        relay.strided_set(x, var("b", shape=(1, 2, 4)), [1, 0], [2, 2]),
        np.concatenate([a[:1], np.concatenate([np.ones((1, 2, 4)), a[1:, 2:]], 1)]),
        a,
        np.ones((1, 2, 4), "float32"),
    ),
    Row(
        "slike",
        relay.slice_like(x, var("b", shape=(1, 2, 9)), axes=(0, 1)),
        a[:1, :2],
        a,
        np.zeros((1, 2, 9), "float32"),
    ),
    Row("gathernd", relay.gather_nd(x, iv), a[i[0] % 2, i[1] % 2], a, i % 2),
    Row(
        "scat",
        relay.scatter_nd(
            x, var("b", shape=(1, 1), dtype="int64"), var("c", shape=(1, 3, 4)), "add"
        ),
        np.stack([a[0], a[1] + 1]),
        a,
        np.array([[1]]),
        np.ones((1, 3, 4), "float32"),
    ),
    Row(
        "onehot",
        relay.one_hot(iv, relay.const(1.0), relay.const(0.0), 3, -1, "float32"),
        np.eye(3)[i],
        i,
    ),
    Row(
        "dynonehot",
        relay.one_hot(
            iv, relay.const(1.0), relay.const(0.0), var("c", shape=(), dtype="int32"), 0, "float32"
        ),
        np.moveaxis(np.eye(3)[i], -1, 0),
        i,
        np.array(3, "int32"),
    ),
    Row(
        "unravel",
        relay.unravel_index(iv, relay.const(np.array([2, 3]), "int32")),
        np.stack(np.unravel_index(i, (2, 3))),
        i,
    ),
    Row(
        "seqmask",
        relay.sequence_mask(x, var("b", shape=(3,), dtype="int32"), 0.5, 0),
        np.where(np.arange(2)[:, None, None] < np.array([0, 1, 2])[None, :, None], a, 0.5),
        a,
        np.array([0, 1, 2], "int32"),
    ),
    Row(
        "seqmask_of_rows",
        relay.sequence_mask(x, var("b", shape=(2,), dtype="int32"), -1.0, 1),
        np.where(np.arange(3)[None, :, None] < np.array([1, 3])[:, None, None], a, -1),
        a,
        np.array([1, 3], "int32"),
    ),
    Row(
        "symup",
        relay.nn.upsampling(var("a", shape=(1, 2, te.size_var("n"), te.size_var("m"))), 2, 1.5),
        a.reshape(1, 2, 3, 4).repeat(2, 2)[..., [0, 0, 1, 2, 2, 3]],
        a.reshape(1, 2, 3, 4),
    ),
    Row(
        "s2d",
        relay.sparse_to_dense(
            var("a", shape=(2, 2), dtype="int32"), (3, 4), var("b", shape=(2,)), 0.0
        ),
        np.array([[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 2, 0]]),
        np.array([[0, 1], [2, 2]], "int32"),
        np.array([1, 2], "float32"),
    ),
    Row(
        "msd",
        relay.matrix_set_diag(var("a", shape=(2, 3, 4)), var("b", shape=(2, 3))),
        np.array([np.where(np.eye(3, 4) > 0, [[9] * 4] * 3, m) for m in a]),
        a,
        np.full((2, 3), 9, "float32"),
    ),
    *(
        Row(
            f"msd {right} {left}",
            relay.matrix_set_diag(
                var("a", shape=(2, 3, 4)),
                var("b", shape=(2, 5, 3)),
                (-2, 2),
                f"{right.upper()}_{left.upper()}",
            ),
            matrix_set_diag(a, BANDS, (-2, 2), f"{right.upper()}_{left.upper()}"),
            a,
            BANDS,
        )
        for right in ("right", "left")
        for left in ("left", "right")
    ),
    Row(
        "inv",
        relay.invert_permutation(var("a", shape=(4,), dtype="int32")),
        np.argsort([2, 0, 3, 1]),
        np.array([2, 0, 3, 1], "int32"),
    ),
    Row(
        "segsum",
        relay.segment_sum(x, var("b", shape=(2,), dtype="int32")),
        np.stack([np.zeros((3, 4)), a.sum(0)]),
        a,
        np.array([1, 1], "int32"),
    ),
    Row(
        "arange",
        relay.arange(
            relay.const(1, "int32"), relay.const(9, "int32"), relay.const(2, "int32"), dtype="int32"
        ),
        np.arange(1, 9, 2),
    ),
    Row(
        "dynarange",
        relay.arange(
            var("a", shape=(), dtype="int32"),
            relay.const(9, "int32"),
            relay.const(2, "int32"),
            dtype="int32",
        ),
        np.arange(1, 9, 2),
        np.array(1, "int32"),
    ),
    Row("cumsum", relay.cumsum(x, axis=1), a.cumsum(1), a),
    Row("trilu", relay.trilu(x, 1, False), np.tril(a, 1), a),
    Row(
        "unique",
        relay.unique(var("a", shape=(5,), dtype="int32"), return_counts=True).astuple(),
        [
            np.array([1, 2, 4]),
            np.array([2, 0, 1]),
            np.array([1, 2, 0, 2, 1]),
            np.array([3]),
            np.array([1, 2, 2]),
        ],
        np.array([2, 4, 1, 4, 2], "int32"),
    ),
    Row(
        "lt",
        relay.layout_transform(var("a", shape=(1, 8, 2, 2)), "NCHW", "NCHW4c"),
        np.arange(32).reshape(1, 2, 4, 2, 2).transpose(0, 1, 3, 4, 2),
        np.arange(32, dtype="float32").reshape(1, 8, 2, 2),
    ),
    Row(
        "slw",
        relay.sliding_window(var("a", shape=(1, 4, 5)), 1, [2, 3], [1, 2]),
        np.lib.stride_tricks.sliding_window_view(np.arange(20).reshape(1, 4, 5), (2, 3), (1, 2))[
            :, :, ::2
        ],
        np.arange(20, dtype="float32").reshape(1, 4, 5),
    ),
    Row(
        "revseq",
        relay.reverse_sequence(var("a", shape=(2, 3)), var("b", shape=(2,), dtype="int32")),
        np.array([[1, 0, 2], [5, 4, 3]]),
        np.arange(6, dtype="float32").reshape(2, 3),
        np.array([2, 3], "int32"),
    ),
    Row(
        "revseq_long",
        relay.reverse_sequence(var("a", shape=(2, 3)), var("b", shape=(2,), dtype="int32")),
        np.array([[0, 1, 2], [5, 4, 3]]),
        np.arange(6, dtype="float32").reshape(2, 3),
        np.array([-1, 7], "int32"),
    ),
    Row(
        "segments",
        relay.segment_sum(var("a", shape=(4, 2)), var("b", shape=(3,), dtype="int64")),
        np.array([[0, 1], [0, 0], [6, 8]]),
        np.arange(8, dtype="float32").reshape(4, 2),
        np.array([0, 2, 2]),
    ),
    Row(
        "segments_open",
        relay.segment_sum(
            var("a", shape=(relay.Any(), 2)), var("b", shape=(relay.Any(),), dtype="int32"), 3
        ),
        np.array([[0, 1], [2, 3], [0, 0]]),
        np.arange(8, dtype="float32").reshape(4, 2),
        np.array([0, 1], "int32"),
    ),
    Row(
        "set",
        relay.strided_set(
            x, relay.zeros((2, 2, 4), "float32"), relay.const([0, 1]), relay.const([2, 3])
        ),
        np.concatenate([a[:, :1], np.zeros((2, 2, 4))], 1),
        a,
    ),
    Row(
        "stft_open",
        relay.stft(var("a", shape=(1, relay.Any())), 4, 2),
        np.stack([np.fft.rfft(np.arange(8)[i : i + 4]) for i in (0, 2, 4)], 1)[None]
        .view("float64")
        .reshape(1, 3, 3, 2),
        np.arange(8, dtype="float32").reshape(1, 8),
    ),
    Row(
        "argwhere",
        relay.argwhere(var("a", shape=(2, 2))),
        np.array([[0, 1], [1, 0]]),
        np.array([[0, 1], [1, 0]], "float32"),
    ),
    Row("reint", relay.reinterpret(x, "int32"), a.view("int32"), a),
    Row(
        "mesh",
        relay.meshgrid([var("a", shape=(2,)), var("b", shape=(3,))]).astuple(),
        np.meshgrid(np.arange(2), np.arange(3), indexing="ij"),
        np.arange(2, dtype="float32"),
        np.arange(3, dtype="float32"),
    ),
    Row("trdiv", relay.trunc_divide(iv - relay.const(2), relay.const(2)), np.trunc((i - 2) / 2), i),
    Row("clip", relay.clip(x, -0.5, 0.5), a.clip(-0.5, 0.5), a),
    Row(
        "dft",
        relay.op.dft(var("a", shape=(4,)), var("b", shape=(4,))).astuple(),
        [np.fft.fft(np.arange(4)).real, np.fft.fft(np.arange(4)).imag],
        np.arange(4, dtype="float32"),
        np.zeros(4, "float32"),
    ),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_operator(row: Row) -> None:
    params = sorted(free_vars(row.body), key=lambda p: p.name_hint)
    mod = lw.IRModule({"main": relay.Function(params, row.body)})
    type_ = relay.transform.InferType()(mod)["main"].ret_type
    types = type_.fields if isinstance(type_, relay.TupleType) else [type_]
    got = lw.compile(to_relax(mod), "llvm")(*row.values)
    results = [got] if isinstance(got, lw.Tensor) else list(got)
    assert len(results) == len(types) == len(row.want)
    for result, known, want in zip(results, types, row.want, strict=True):
        assert result.dtype == known.dtype
        assert len(known.shape) == len(result.shape)
        pairs = zip(known.shape, result.shape, strict=True)
        assert all(d.value == n for d, n in pairs if isinstance(d, IntImm))
        np.testing.assert_allclose(result.numpy(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: relay.dense(x, x), "did you mean relay.nn.dense"),
        (lambda: x + 1, "convert 1 with `relay.const` first"),
        (lambda: relay.tanh(3), "the argument data is an expression"),
        (lambda: relay.reshape(x, ["a"]), "Unrecognized shape type"),
    ],
)
def test_what_cannot_be_built(build: Any, error: str) -> None:
    with pytest.raises((AttributeError, TypeError, RuntimeError, NotImplementedError), match=error):
        build()


@pytest.mark.parametrize(
    "body",
    [
        relay.reshape(x, (5, 5)),
        relay.sum(x, axis=3),
        relay.add(x, iv.astype("float32")),
        relay.split(x, 2, axis=1).astuple(),
        relay.take(x, iv, axis=4),
        relay.gather_nd(x, var("b", shape=(5, 2), dtype="int32")),
    ],
)
def test_what_has_no_type(body: relay.Expr) -> None:
    with pytest.raises(lw.DiagnosticError, match="unable to type the call"):
        relay.transform.InferType()(lw.IRModule({"main": relay.Function(free_vars(body), body)}))


def test_steps_of_all_axes() -> None:
    image, filter_ = var("i", shape=(1, 8, 8, 2)), var("f", shape=(3, 3, 2))
    for steps in ([1, 2, 3, 1], [2, 3]):
        call = relay.image.dilation2d(image, filter_, steps, 0, 1, "NHWC", "HWI")
        assert call.attrs.strides == (2, 3)
    with pytest.raises(ValueError, match="strides of N and C are 1"):
        relay.image.dilation2d(image, filter_, [1, 2, 2, 2], 0, 1, "NHWC", "HWI")


def test_copies_name_devices() -> None:
    for devices in (("cuda", "cpu"), (lw.device("cuda"), lw.device("cpu"))):
        call = relay.device_copy(x, *devices)
        assert call.attrs.src_virtual_device.device_type_int == 2
        assert call.attrs.dst_virtual_device.device_type_int == 1


def test_a_slice_at_values_keeps_the_other_axes() -> None:
    begin, end = var("b", shape=(1,), dtype="int64"), var("e", shape=(1,), dtype="int64")
    func = relay.Function([x, begin, end], relay.strided_slice(x, begin, end))
    type_ = relay.transform.InferType()(lw.IRModule({"main": func}))["main"].ret_type
    assert type_ == relay.TensorType((relay.Any(), 3, 4))


def test_rows_of_sparse_tensors() -> None:
    indices = np.array([[0, 1], [0, 3], [2, 0], [3, 1]])
    values, shape = np.array([1, 2, 3, 4]), np.array([5, 6])
    known = ("indices", indices.shape), ("values", (4,)), ("shape", (2,)), ("fill", (1,))
    open_ = [(name, (relay.Any(),) * len(dims)) for name, dims in known]
    for given in (known, open_):
        args = [var(name, shape=dims, dtype="int64") for name, dims in given]
        func = relay.Function(args, relay.sparse_fill_empty_rows(*args))
        for kind in ("debug", "vm"):
            run = relay.create_executor(kind).evaluate(func)
            rows, new, empty = (v.numpy() for v in run(indices, values, shape, np.array([10])))
            assert rows.tolist() == [[0, 1], [0, 3], [1, 0], [2, 0], [3, 1], [4, 0]]
            assert new.tolist() == [1, 2, 10, 3, 4, 10]
            assert empty.tolist() == [False, True, False, False, True]


AT = [[0, 0, 1], [1, 0, 0], [1, 2, 3]]


@pytest.mark.sample(2)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("indices", "old", "new", "wanted", "full"),
    [
        (AT, [2, 3, 6], [9, -1], [[0, 1], [4, 2], [8, 1]], [9, 4]),
        # Outside of the old shape: kept by its own, else counted along the first axis.
        ([[0, 0], [0, 100]], [500, 20], [500, -1], [[0, 0], [0, 100]], [500, 20]),
        ([[0, 0], [9, 3]], [4, 5], [2, 10], [[0, 0], [4, 8]], [2, 10]),
        (np.zeros((0, 1), "int64"), [4], [2, -1], np.zeros((0, 2), "int64"), [2, 2]),
    ],
)
def test_sparse_tensors_reshaped(
    indices: Any, old: Any, new: Any, wanted: Any, full: Any, known: bool
) -> None:
    given = [np.array(v, "int64") for v in (indices, old, new)]
    args = [
        var(name, shape=v.shape if known else (relay.Any(),) * v.ndim, dtype="int64")
        for name, v in zip("ion", given, strict=True)
    ]
    func = relay.Function(args, relay.sparse_reshape(*args).astuple())
    rows, shape = relay.create_executor("vm").evaluate(func)(*given)
    np.testing.assert_array_equal(rows.numpy(), wanted)
    np.testing.assert_array_equal(shape.numpy(), full)


@pytest.mark.sample(4)
@pytest.mark.parametrize("open_", [False, True])
@pytest.mark.parametrize("seed", range(24))
def test_slices_are_those_of_numpy(seed: int, open_: bool) -> None:
    """Ends outside of the axis, steps back, "size", axes that are named; of extents that only the run
    knows, too."""
    random = np.random.default_rng(seed)
    array = np.arange(35, dtype="float32").reshape(5, 7)
    stride = random.choice([-3, -1, 1, 1, 2], 2).tolist()
    low, high = random.integers(-8, 9, (2, 2)).tolist()
    options: dict[str, Any] = {"strides": stride}
    want = tuple(slice(*row) for row in zip(low, high, stride, strict=True))
    if seed % 4 == 1:
        low, high = [0, 2], [-1, 3]
        options, want = {"slice_mode": "size"}, (slice(0, None), slice(2, 5))
    elif seed % 4 == 2:
        options["axes"], want = [1, 0], want[::-1]
    elif seed % 4 == 3:
        low, high, want = low[:1], high[:1], want[:1]
        options["strides"] = stride[:1]
    dims = (relay.Any(),) * 2 if open_ else array.shape
    data = var("x", shape=dims)
    mod = lw.IRModule(
        {"main": relay.Function([data], relay.strided_slice(data, low, high, **options))}
    )
    found = relay.transform.InferType()(mod)["main"].ret_type.shape
    got = lw.compile(to_relax(mod), "llvm")(array).numpy()
    np.testing.assert_array_equal(got, array[want])
    pairs = zip(found, got.shape, strict=True)
    assert all((open_ and isinstance(d, relay.Any)) or d.value == n for d, n in pairs)
