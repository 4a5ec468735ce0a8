"""topi's operators that are more than a view of the graph's, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import te, topi
from loopwright.tir.interpreter import run
from loopwright.tvm.te.stage import INLINE

from ..drawing import drawn
from .common import check, floats

TABLE = drawn("test_more")

X = floats(TABLE, 3, 4)
FLAGS = X > 0.5
INTS = np.array([[0, 5], [11, 7]], "int32")
LENGTHS = np.array([1, 3, 0], "int32")


@pytest.mark.parametrize(
    ("make", "arrays", "expected"),
    [
        (topi.identity, [X], X),
        (lambda x: topi.expand_dims(x, 1, 2), [X], X[:, None, None]),
        (lambda x: topi.expand_dims(x, -1), [X], X[..., None]),
        (topi.log2, [X], np.log2(X)),
        (topi.log10, [X], np.log10(X)),
        (lambda x: topi.reinterpret(x, "int32"), [X], X.view("int32")),
        (lambda x: topi.elemwise_sum([x, x, x]), [X], X * 3),
        (lambda x: topi.stack([x, x], axis=1), [X], np.stack([X, X], 1)),
        (lambda x: topi.stack([x, x], axis=-1), [X], np.stack([X, X], -1)),
        (lambda x: topi.all(x, axis=1), [FLAGS], FLAGS.all(1)),
        (lambda x: topi.any(x, axis=0, keepdims=True), [FLAGS], FLAGS.any(0, keepdims=True)),
        (lambda x: topi.any(x), [FLAGS], FLAGS.any()),
        (lambda x: topi.shape(x), [X], np.array([3, 4], "int32")),
        (lambda x: topi.ndarray_size(x), [X], np.array(12, "int32")),
        (
            lambda x: topi.unravel_index(x, (3, 4)),
            [INTS],
            np.array(np.unravel_index(INTS, (3, 4))),
        ),
        (
            lambda x, n: topi.reverse_sequence(x, n),
            [X, LENGTHS],
            np.stack([np.r_[r[:n][::-1], r[n:]] for r, n in zip(X, LENGTHS, strict=True)]),
        ),
        (
            lambda x, n: topi.sequence_mask(x, n, -1.0, axis=1),
            [X, LENGTHS],
            np.where(np.arange(4) < LENGTHS[:, None], X, -1),
        ),
        (
            lambda x, i: topi.gather(x, 1, i),
            [X, np.array([[0, 3], [1, 1], [2, 0]], "int64")],
            np.take_along_axis(X, np.array([[0, 3], [1, 1], [2, 0]]), 1),
        ),
    ],
)
def test_elements(make, arrays, expected):
    check(make, arrays, expected)


def test_eye_and_meshgrid(rng):
    check(lambda x: topi.add(x, topi.eye(3, 4, 1)), [X], X + np.eye(3, 4, 1))
    vectors = [floats(rng, 3), floats(rng, 4), floats(rng, 2)]
    for indexing in ("ij", "xy"):
        for count in (1, 2, 3):
            given = vectors[:count]
            wanted = np.meshgrid(*given, indexing=indexing)
            check(lambda *v, how=indexing: topi.meshgrid(v, how), given, wanted)


def test_products(rng):
    a, b = floats(rng, 2, 3, 4), floats(rng, 4, 3, 5)
    check(lambda x, y: topi.tensordot(x, y, 1), [a, b], np.tensordot(a, b, 1))
    check(
        lambda x, y: topi.tensordot(x, y, ((1, 2), (1, 0))),
        [a, b],
        np.tensordot(a, b, ((1, 2), (1, 0))),
    )
    p, q = floats(rng, 3, 4), floats(rng, 5, 4)
    check(lambda x, y: topi.nn.matmul(x, y, transpose_b=True), [p, q], p @ q.T)
    p, q = floats(rng, 2, 3, 4), floats(rng, 2, 5, 4)
    check(topi.nn.batch_matmul, [p, q], p @ q.transpose(0, 2, 1))
    check(topi.nn.flatten, [p], p.reshape(2, 12))


def test_convolutions_by_layout(rng):
    x, w = floats(rng, 1, 4, 6, 6), floats(rng, 6, 4, 3, 3)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    expected = np.einsum("ncyxhw,fchw->nfyx", windows, w)
    check(lambda a, b: topi.nn.conv2d_nchw(a, b, 1, 0, 1), [x, w], expected)
    check(
        lambda a, b: topi.nn.conv2d_nhwc(a, b, 1, 0, 1),
        [x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy()],
        expected.transpose(0, 2, 3, 1),
    )
    halves = [np.einsum("ncyxhw,fchw->nfyx", windows[:, g * 2 : g * 2 + 2], w[g * 3 : g * 3 + 3, :2])
              for g in range(2)]  # fmt: skip
    check(
        lambda a, b: topi.nn.group_conv2d_nchw(a, b, 1, 0, 1, 2),
        [x, w[:, :2].copy()],
        np.concatenate(halves, 1),
    )
    scale, shift = floats(rng, 4), floats(rng, 4)
    check(
        topi.nn.scale_shift_nchw,
        [x, scale, shift],
        x * scale[:, None, None] + shift[:, None, None],
    )


def test_signatures_of_topi(rng):
    a = floats(rng, 2, 3, 4)
    order = np.array([2, 0], "int64")
    for make, expected in (
        (lambda x: topi.sum(x, 1), a.sum(1)),
        (lambda x: topi.max(x, axis=(0, 2), keepdims=True), a.max((0, 2), keepdims=True)),
        (lambda x: topi.prod(x, -1), a.prod(-1)),
        (lambda x: topi.argmax(x, 1), a.argmax(1)),
        (lambda x: topi.squeeze(topi.expand_dims(x, 0), 0), a),
        (lambda x: topi.strided_slice(x, [0, 1], [2, 3]), a[0:2, 1:3]),
        (lambda x: topi.strided_slice(x, [1], [4], [2], axes=[2]), a[:, :, 1:4:2]),
        (lambda x: topi.strided_slice(x, [0, 1], [1, -1], slice_mode="size"), a[0:1, 1:]),
        (lambda x: topi.cumsum(x, 1, "float32", False), a.cumsum(1)),
        (lambda x: topi.nn.pad(x, (1, 0, 2), (0, 1, 0), 5.0),
         np.pad(a, ((1, 0), (0, 1), (2, 0)), constant_values=5)),
    ):  # fmt: skip
        check(make, [a], expected)
    m = floats(rng, 3, 4)
    check(lambda x: topi.matmul(x, x, False, True), [m], m @ m.T)
    check(lambda x: topi.one_hot(x, 1.0, 0.0, 4, -1, "float32"), [order], np.eye(4)[order])
    check(lambda x: topi.add(x, topi.arange(4)), [m], m + np.arange(4))
    check(lambda x: topi.add(x, topi.arange(1, 9, 2)), [m], m + np.arange(1, 9, 2))
    x, w = floats(rng, 1, 2, 7), floats(rng, 3, 2, 3)
    for padding, width in (("VALID", 0), ("SAME", 1), (2, 2)):
        windows = np.lib.stride_tricks.sliding_window_view(
            np.pad(x, ((0, 0), (0, 0), (width, width))), 3, 2
        )
        check(
            lambda p, q, how=padding: topi.nn.conv1d(p, q, 1, how),
            [x, w],
            np.einsum("ncyk,fck->nfy", windows, w),
        )


def test_utils():
    n = te.var("n")
    utils = topi.utils
    assert utils.get_const_tuple((te.const(3) * 2, 4)) == (6, 4)
    assert utils.get_const_tuple((n, 2))[0] is n
    assert utils.get_const_int(te.const(3) + 4) == 7
    assert utils.get_const_float(te.const(0.5, "float32")) == 0.5
    assert utils.equal_const_int(n - n, 0) and not utils.equal_const_int(n, 0)
    assert utils.get_const_int(utils.prod((2, 3, 4))) == 24
    assert utils.ravel_index((1, 2, 3), (4, 5, 6)) == 45
    assert utils.unravel_index(45, (4, 5, 6)) == [1, 2, 3]
    with pytest.raises(ValueError, match="a number is needed here"):
        utils.get_const_int(n)


def test_traverse_inline():
    a = te.placeholder((8,), name="A")
    b = topi.identity(a)
    c = topi.elemwise_sum([b, b])
    s = te.create_schedule(c.op)
    seen = []
    topi.utils.traverse_inline(s, c.op, lambda op: seen.append(op.name))
    assert seen == ["A", "identity", "elemwise_sum"]
    assert s[b].attach_type == INLINE


def test_arguments_that_do_not_fit():
    a, v = te.placeholder((2, 5), name="A"), te.placeholder((5,), name="V")
    lengths = te.placeholder((2,), "int32", name="L")
    with pytest.raises(ValueError, match="one shape"):
        topi.elemwise_sum([a, te.placeholder((2, 3))])
    with pytest.raises(ValueError, match="one shape"):
        topi.elemwise_sum([a, v])
    with pytest.raises(ValueError, match="stack joins tensors"):
        topi.stack([])
    with pytest.raises(ValueError, match="no such axis"):
        topi.reverse_sequence(a, lengths, 5, 0)
    with pytest.raises(ValueError, match="are different"):
        topi.reverse_sequence(a, lengths, 1, -1)
    with pytest.raises(ValueError, match="an axis and a batch"):
        topi.sequence_mask(v, lengths)
    with pytest.raises(ValueError, match="a number is needed here"):
        topi.nn.pad(a, [te.var("n"), 0])
    data, kernel = te.placeholder((1, 1, 8)), te.placeholder((1, 1, 4))
    with pytest.raises(ValueError, match="unknown padding"):
        topi.nn.conv1d(data, kernel, padding="FULL")


def test_axes_from_the_end():
    a, lengths = te.placeholder((2, 5), name="A"), te.placeholder((2,), "int32", name="L")
    func = te.create_prim_func([a, lengths, topi.reverse_sequence(a, lengths, -1, -2)])
    data, out = np.arange(10, dtype="float32").reshape(2, 5), np.zeros((2, 5), "float32")
    run(func, [data, np.array([3, 2], "int32"), out])
    assert out.tolist() == [[2, 1, 0, 3, 4], [6, 5, 7, 8, 9]]


def test_same_padding_of_an_even_kernel():
    """The odd element goes to the left, as TVM's get_pad_tuple1d("SAME", (4,)) = (2, 1)."""
    x, k = te.placeholder((1, 1, 8), name="X"), te.placeholder((1, 1, 4), name="K")
    func = te.create_prim_func([x, k, topi.nn.conv1d(x, k, padding="SAME")])
    out = np.zeros((1, 1, 8), "float32")
    kernel = np.array([[[1, 0, 0, 0]]], "float32")
    run(func, [np.arange(8, dtype="float32").reshape(1, 1, 8), kernel, out])
    assert out.ravel().tolist() == [0, 0, 0, 1, 2, 3, 4, 5]


def test_operations_behind_a_result_are_visited_once():
    a = te.placeholder((4,), "float32", "a")
    b = te.compute((4,), lambda i: a[i] + 1, "b", tag="injective")
    c = te.compute((4,), lambda i: b[i] * 2, "c", tag="elemwise")
    d = te.compute((4,), lambda i: b[i] + c[i], "d", tag="broadcast")
    schedule, names = te.create_schedule(d.op), []
    topi.utils.traverse_inline(schedule, d.op, lambda op: names.append(op.name))
    assert names == ["a", "b", "c", "d"]
