"""Index maps: shapes, values, inverses."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import tir
from loopwright.arith import Analyzer
from loopwright.ir.structural import structural_equal
from loopwright.runtime import tensor
from loopwright.script import tir as T
from loopwright.tir import IndexMap

NCHW16C = IndexMap.from_func(lambda n, c, h, w: [n, c // 16, h, w, c % 16])


def sizes(shape):
    return [int(s) for s in shape]


def test_map_indices_and_shape():
    n = tir.Var("n", "int64")
    mapped = NCHW16C.map_indices([n, 35, 0, n])
    assert mapped[0] is n and mapped[3] is n
    assert [int(mapped[1]), int(mapped[2]), int(mapped[4])] == [2, 0, 3]
    assert sizes(NCHW16C.map_shape([2, 64, 7, 5])) == [2, 4, 7, 5, 16]
    assert sizes(NCHW16C.map_shape([2, 20, 7, 5])) == [2, 2, 7, 5, 16]
    assert sizes(NCHW16C.map_shape([2, 3, 7, 5])) == [2, 1, 7, 5, 16]
    with pytest.raises(ValueError, match="takes 4 ranges"):
        NCHW16C.map_shape([2, 64])


def test_symbolic_shape():
    n = tir.Var("n", "int64")
    swap = IndexMap.from_func(lambda i, j: [j, i])
    shape = swap.map_shape([n, 4])
    assert int(shape[0]) == 4 and shape[1] is n


def test_map_ndarray():
    x = np.arange(2 * 20 * 3).reshape(2, 20, 3, 1)
    got = NCHW16C.map_ndarray(x)
    assert got.shape == (2, 2, 3, 1, 16)
    want = np.zeros((2, 32, 3, 1), x.dtype)
    want[:, :20] = x
    np.testing.assert_array_equal(got, want.reshape(2, 2, 16, 3, 1).transpose(0, 1, 3, 4, 2))


MAPS = {
    "permute": (lambda i, j, k: [k, i, j], (3, 4, 5)),
    "split": (lambda i: [i // 4, i % 4], (12,)),
    "split twice": (lambda i: [i // 12, i // 4 % 3, i % 4], (24,)),
    "fuse": (lambda i, j: [i * 6 + j], (4, 6)),
    "fuse three": (lambda i, j, k: [i * 12 + j * 4 + k], (5, 3, 4)),
    "fuse nested": (lambda i, j, k: [(i * 3 + j) * 4 + k], (5, 3, 4)),
    "fuse then split": (lambda i, j: [(i * 6 + j) // 8, (i * 6 + j) % 8], (4, 6)),
    "tile": (lambda i, j: [i // 4, j // 8, i % 4, j % 8], (16, 32)),
    "unit axes": (lambda i, j: [0, j, i], (3, 2)),
    "nchw16c": (lambda n, c, h, w: [n, c // 16, h, w, c % 16], (2, 32, 3, 5)),
}


@pytest.mark.parametrize("name", MAPS)
def test_inverse_brings_back_every_element(name):
    fn, shape = MAPS[name]
    made = IndexMap.from_func(fn)
    x = np.arange(np.prod(shape)).reshape(shape)
    back = made.inverse(shape)
    moved = made.map_ndarray(x)
    assert moved.size == x.size
    np.testing.assert_array_equal(back.map_ndarray(moved), x)
    assert sizes(back.map_shape(made.map_shape(shape))) == list(shape)


@pytest.mark.parametrize(
    "fn",
    [
        lambda i: [i // 3 + i % 3],
        lambda i: [i * 2],
        lambda i: [i % 4],
        lambda i: [i, tir.FloorMod(i, tir.const(1, "int64")) + 2],
    ],
)
def test_no_inverse(fn):
    with pytest.raises(ValueError, match="only splits, fusions and permutations"):
        IndexMap.from_func(fn).non_surjective_inverse((12,))


def test_maps_of_unknown_range_or_of_other_operators():
    n = tir.Var("n", "int64")
    with pytest.raises(ValueError, match="the range of an index map's result is not known"):
        IndexMap.from_func(lambda i: [i * i]).map_shape([20])
    (size,) = IndexMap.from_func(lambda i: [tir.floormod(i, n)]).map_shape([20])
    assert (
        int(Analyzer().simplify(tir.stmt_functor.substitute(size, {n: tir.const(7, "int64")}))) == 7
    )
    assert str(NCHW16C.with_dtype("int32").with_dtype("int64")) == str(NCHW16C)
    cast = IndexMap.from_func(lambda i: [i.astype("int32") // 4], index_dtype="int64")
    narrow = cast.with_dtype("int32")
    assert structural_equal(narrow.final_indices[0], narrow.initial_indices[0] // 4)
    odd = IndexMap.from_func(lambda i: [tir.Select(i < 2, i, 1 - i)])
    with pytest.raises(ValueError, match="only splits, fusions and permutations"):
        odd.map_ndarray(np.zeros(2))


def test_padding():
    made = IndexMap.from_func(lambda i: [i // 4, i % 4])
    with pytest.raises(ValueError, match="not bijective"):
        made.inverse([14])
    back, padded = made.non_surjective_inverse([14])
    assert [int(back.map_indices([i, j])[0]) for i in range(4) for j in range(4)] == [*range(16)]
    a, b = back.initial_indices
    analyzer = Analyzer()
    for i in range(4):
        for j in range(4):
            known = {a: tir.const(i, "int64"), b: tir.const(j, "int64")}
            hole = analyzer.simplify(tir.stmt_functor.substitute(padded, known))
            assert bool(hole) == (i * 4 + j >= 14)


def test_symbolic_inverse():
    n = tir.Var("n", "int64")
    back, padded = IndexMap.from_func(lambda i: [i // 4, i % 4]).non_surjective_inverse([n])
    a, b = back.initial_indices
    assert structural_equal(back.final_indices[0], a * 4 + b)
    assert not isinstance(padded, tir.IntImm)


def test_given_inverse_is_used():
    back = lambda a, b: [a * 4 + b]  # noqa: E731
    made = IndexMap.from_func(lambda i: [i // 4, i % 4], inverse_index_map=back)
    assert made.inverse([16]) is made.inverse_index_map


def test_equivalence():
    a = IndexMap.from_func(lambda i, j: [i * 4 + j])
    assert a.is_equivalent_to(IndexMap.from_func(lambda x, y: [y + x * 4]))
    assert not a.is_equivalent_to(IndexMap.from_func(lambda x, y: [x + y * 4]))
    assert not a.is_equivalent_to(IndexMap.from_func(lambda x: [x]))
    assert structural_equal(a, IndexMap.from_func(lambda u, v: [u * 4 + v]))


def test_from_func_forms():
    made = IndexMap.from_func(lambda *i: i[::-1], ndim=3)
    assert [v.name for v in made.initial_indices] == ["i_0", "i_1", "i_2"]
    assert made.final_indices[0] is made.initial_indices[2]
    assert IndexMap.from_func(lambda i: i, index_dtype="int32").initial_indices[0].dtype == "int32"
    with pytest.raises(ValueError, match="pass ndim="):
        IndexMap.from_func(lambda *i: i)
    with pytest.raises(TypeError, match="expressions"):
        IndexMap.from_func(lambda i: ["x"])


def test_axis_separators():
    made, separators = IndexMap.from_func_with_separators(
        lambda i, j: [i // 4, IndexMap.AXIS_SEPARATOR, i % 4, j]
    )
    assert separators == [1] and len(made.final_indices) == 3
    with pytest.raises(ValueError, match="from_func_with_separators"):
        IndexMap.from_func(lambda i: [i, IndexMap.AXIS_SEPARATOR])


def test_what_only_looks_larger_is_no_padding():
    def split(a, x):
        whole = x // 2 * 2 + x % 2
        return [a, whole // 3, whole % 3]

    made = IndexMap.from_func(split, index_dtype="int64")
    assert [int(e) for e in made.map_shape([4, 3])] == [4, 1, 3]
    _, padded = made.non_surjective_inverse([4, 3])
    assert not padded.value


PADDED = {
    "right": (lambda i: [i // 4, i % 4], (15,)),
    "left": (lambda i: [(i + 1) // 4, (i + 1) % 4], (15,)),
    "both ends": (lambda i: [(i + 1) // 4, (i + 1) % 4], (14,)),
    "two axes": (lambda i, j: [(i + 1) // 4, (j + 5) // 8, (i + 1) % 4, (j + 5) % 8], (14, 31)),
    "three digits": (lambda i: [(i + 5) // 32, (i + 5) // 4 % 8, (i + 5) % 4], (117,)),
    "more than a block": (lambda i: [(i + 6) // 4, (i + 6) % 4], (9,)),
    "one block": (lambda i: [i // 4, i % 4], (3,)),
    "fused": (lambda i, j: [(i * 5 + j + 3) // 8, (i * 5 + j + 3) % 8], (4, 5)),
    "a digit alone": (lambda i: [i % 8], (5,)),
    "a constant": (lambda i: [tir.const(0, "int64"), (i + 1) // 8, (i + 1) % 8], (16,)),
}


@pytest.mark.parametrize("name", PADDED)
def test_padding_is_where_no_index_goes(name):
    fn, shape = PADDED[name]
    made = IndexMap.from_func(fn)
    back, padded = made.non_surjective_inverse(shape)
    full = {}
    for at in np.ndindex(*shape):
        full[tuple(int(i) for i in made.map_indices(list(at)))] = at
    analyzer = Analyzer()
    for at in np.ndindex(*sizes(made.map_shape(shape))):
        known = dict(zip(back.initial_indices, [tir.const(i, "int64") for i in at], strict=True))
        hole = bool(analyzer.simplify(tir.stmt_functor.substitute(padded, known)))
        assert hole == (at not in full), at
        if not hole:
            assert tuple(int(i) for i in back.map_indices(list(at))) == full[at]


def test_the_condition_of_padding_names_the_last_block():
    _, padded = IndexMap.from_func(lambda i: [i // 4, i % 4]).non_surjective_inverse([14])
    assert str(padded) == "axis0 == T.int64(3) and T.int64(2) <= axis1"


def test_symbolic_fusion_has_an_inverse():
    n = tir.Var("n", "int64")
    made = IndexMap.from_func(lambda x, y, z: [x * 32 * n + y * n + z])
    back = made.inverse([1, 32, n])
    assert str(back) == "T.index_map(lambda axis0: (T.int64(0), axis0 // n, axis0 % n))"


def test_keyword_indices_come_last():
    made = IndexMap.from_func(lambda *i, k: [*i, k // 4, k % 4], ndim=3)
    assert [v.name for v in made.initial_indices] == ["i_0", "i_1", "k"]
    assert sizes(made.map_shape([2, 3, 8])) == [2, 3, 2, 4]


def test_a_tensor_in_another_layout_is_a_tensor():
    moved = IndexMap.from_func(lambda i, j: [j, i]).map_ndarray(tensor(np.eye(2, 3)))
    np.testing.assert_array_equal(moved.numpy(), np.eye(3, 2))


def test_indices_beyond_the_old_ones_are_padding_or_refused():
    """The general analysis finds these one to one; the new shape has room for more than is there."""
    mapped = IndexMap.from_func(lambda i, j, k: [k % 4, i // 4 + j // 4, i, j])
    assert sizes(mapped.map_shape([4, 4, 3])) == [4, 1, 4, 4]
    with pytest.raises(ValueError, match="only splits, fusions and permutations"):
        mapped.non_surjective_inverse([4, 4, 3])
    _, padded = mapped.non_surjective_inverse([4, 4, 4])
    assert not padded.value


def test_conditions_are_printed_so_that_python_can_evaluate_them() -> None:
    """The text of a schedule's trace runs as Python, where `and` of expressions has no meaning."""
    index_map = tir.IndexMap.from_func(
        lambda i: [tir.Select(tir.And(i > 1, tir.Not(tir.Or(i > 4, i < 0))), i, 0)]
    )
    assert structural_equal(eval(index_map.script().splitlines()[-1], {"T": T}), index_map)
