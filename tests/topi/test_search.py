"""topi's searches, Fourier transforms and functions of positions against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import te, topi
from loopwright.tir import ir_builder
from loopwright.topi import testing

from ..drawing import drawn
from .common import check, floats

TABLE = drawn("test_search")

X = floats(TABLE, 3, 7)


@pytest.mark.parametrize("shape", [(9,), (3, 4), (2, 3, 2)])
def test_argwhere(shape):
    x = (np.arange(np.prod(shape)).reshape(shape) % 3).astype("int32")
    found = np.argwhere(x)
    rows = te.placeholder(found.shape, "int32", "rows")
    check(lambda x: topi.argwhere(rows, x), [x], found)


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(rng, right):
    rows = np.sort(np.floor(floats(rng, 2, 6) * 5), 1)
    values = np.floor(floats(rng, 2, 4) * 5)
    expected = testing.searchsorted_ref(rows, values, right, "int32")
    check(lambda r, v: topi.searchsorted(r, v, right, "int32"), [rows, values], expected)
    one = testing.searchsorted_ref(rows[:1], values[:1], right, "int64")[0]
    check(lambda r, v: topi.searchsorted(r, v, right), [rows[0], values[0]], one)


def test_binary_search():
    def write(ins, outs):
        ib = ir_builder.create()
        values, out = ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
        row = ib.buffer_ptr(ins[0])
        with ib.for_range(0, 3, "i") as i:
            out[i] = topi.binary_search(ib, 0, 5, row, values[i], False, "int32")
        return ib.get()

    row, values = np.array([0, 1, 1, 3, 8], "float32"), np.array([1, -1, 9], "float32")
    find = lambda r, v: te.extern((3,), [r, v], write, dtype="int32")  # noqa: E731
    check(find, [row, values], np.searchsorted(row, values))


@pytest.mark.parametrize("is_sorted", [False, True])
def test_unique(is_sorted):
    x = np.array([5, 3, 5, 1, 3, 5], "int32")
    made = lambda x: topi.unique(x, is_sorted, True)  # noqa: E731
    values = [1, 3, 5] if is_sorted else [5, 3, 1]
    places = [3, 1, 0] if is_sorted else [0, 1, 3]
    inverse, counts = [values.index(v) for v in x], [list(x).count(v) for v in values]
    pad = lambda v: np.array([*v, 0, 0, 0], "int32")  # noqa: E731
    expected = [pad(values), pad(places), np.array(inverse), np.array([3]), pad(counts)]
    check(made, [x], expected)


def test_sparse():
    rows = np.array([[0, 1], [1, 3], [1, 0]], "int32")
    values = np.array([2.0, 3.0, 4.0], "float32")
    expected = np.full((2, 4), 9.0, "float32")
    expected[tuple(rows.T)] = values
    check(lambda i, v: topi.sparse_to_dense(i, (2, 4), v, 9.0), [rows, values], expected)
    rest = np.array(9.0, "float32")
    check(lambda i, v, r: topi.sparse_to_dense(i, (2, 4), v, r), [rows, values, rest], expected)
    old, new = np.array([2, 4], "int32"), np.array([4, -1], "int32")
    flat = rows[:, 0] * 4 + rows[:, 1]
    expected = [np.stack([flat // 2, flat % 2], 1), np.array([4, 2])]
    check(lambda i, a, b: topi.sparse_reshape(i, a, b, (3, 2), (2,)), [rows, old, new], expected)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dft(inverse, dtype):
    re, im = X.astype(dtype), X[::-1].astype(dtype)
    whole = (np.fft.ifft if inverse else np.fft.fft)(re + 1j * im.astype("float64"))
    tolerance = 1e-2 if dtype == "float16" else 1e-4
    check(
        lambda re, im: topi.dft(re, im, inverse), [re, im], [whole.real, whole.imag],
        rtol=tolerance, atol=tolerance,
    )  # fmt: skip


def test_stft(rng):
    signal, window = floats(rng, 2, 12), floats(rng, 4)
    parts = np.stack([signal[:, n : n + 4] for n in range(0, 9, 2)], 1) * window
    whole = np.fft.rfft(parts, axis=-1).swapaxes(1, 2) / 2
    expected = np.stack([whole.real, whole.imag], -1)
    check(
        lambda x, w: topi.stft(x, 4, 2, 4, w, True, True, expected.shape),
        [signal, window], expected, atol=1e-4,
    )  # fmt: skip


def test_positions(rng):
    rows = np.array([[0, 2], [1, 0]], "int64")
    check(lambda x, i: topi.gather_nd(x, i), [X, rows], testing.gather_nd_python(X, rows))
    check(lambda x, i: topi.adv_index(x, [i]), [X, rows], X[rows])
    check(lambda x: topi.einsum("ij->j", x), [X], X.sum(0), rtol=1e-4)
    check(lambda x: topi.collapse_sum(x, (7,)), [X], X.sum(0), rtol=1e-4)
    twice = np.stack([X, X], 1)
    check(lambda x, y: topi.expand_like(x, y, 1), [X, twice], twice)
    windows = np.lib.stride_tricks.sliding_window_view(X, (2, 3))[:, ::2]
    check(lambda x: topi.sliding_window(x, 0, (2, 3), (1, 2)), [X], windows)
    updates = floats(rng, 2)
    expected = X.copy()
    np.add.at(expected, tuple(rows), updates)
    check(lambda x, i, u: topi.scatter_nd(x, i, u, "add"), [X, rows, updates], expected)
    check(lambda x: topi.argmax(x, 1, True), [X], X.argmax(1, keepdims=True).astype("int32"))
    same = np.ones((2, 3), "float32")
    check(lambda x: topi.argmin(x, select_last_index=True), [same], np.array(5, "int32"))


@pytest.mark.parametrize(
    ("begin", "end", "step"), [((1, 0), (3, 6), (1, 2)), ((-1, 5), (-4, 1), (-1, -2))]
)
def test_strided_set(rng, begin, end, step):
    vectors = [np.array(v, "int32") for v in (begin, end, step)]
    v = floats(rng, *X[tuple(slice(*s) for s in zip(begin, end, step, strict=True))].shape)
    expected = testing.strided_set_python(X, v, begin, end, step)
    check(lambda x, v, b, e, s: topi.strided_set(x, v, b, e, s), [X, v, *vectors], expected)


@pytest.mark.parametrize("align", ["RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"])
def test_matrix_set_diag(rng, align):
    bands = floats(rng, 3, 3)
    expected = testing.matrix_set_diag(X, bands, (-1, 1), align)
    check(lambda x, d: topi.matrix_set_diag(x, d, (-1, 1), align), [X, bands], expected)
    one = X.copy()
    np.fill_diagonal(one, bands[0])
    check(lambda x, d: topi.matrix_set_diag(x, d), [X, bands[0]], one)
