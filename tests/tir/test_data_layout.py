"""Layouts by name."""

from __future__ import annotations

import pytest

from loopwright import tir


def test_parts():
    made = tir.layout("NCHW16c")
    assert len(made) == 5 and list(made) == ["N", "C", "H", "W", "c"] and "c" in made
    assert made.index_of("H") == 2 and made.index_of("D") == -1
    assert made.factor_of("c") == made.factor_of("C") == 16 and made.factor_of("N") == -1
    assert made == "NCHW16c" and made[1] == "C" and str(made) == "NCHW16c"


@pytest.mark.parametrize("other", ["ABCD", "", "NCDHW"])
def test_no_bijection_between_different_axes(other):
    assert tir.bijective_layout("NCHW", other) is None
    with pytest.raises(ValueError, match="two layouts of the same axes"):
        tir.BijectiveLayout(other, "NCHW")


@pytest.mark.parametrize("name", ["NCHWc", "N16C", "NN", "NC16h", "N-C"])
def test_what_is_no_layout(name):
    with pytest.raises(ValueError, match="not a layout"):
        tir.Layout(name)


def test_shapes_and_indices():
    way = tir.bijective_layout("NCHW", "NHWC16c")
    assert [int(s) for s in way.forward_shape([1, 40, 5, 6])] == [1, 5, 6, 3, 16]
    assert [int(s) for s in way.backward_shape([1, 5, 6, 3, 16])] == [1, 48, 5, 6]
    assert [int(s) for s in way.forward_index([0, 35, 1, 2])] == [0, 1, 2, 2, 3]
    assert [int(s) for s in way.backward_index([0, 1, 2, 2, 3])] == [0, 35, 1, 2]
    again = tir.bijective_layout("NCHW4c", "NCHW16c")
    assert [int(s) for s in again.forward_index([0, 5, 1, 2, 3])] == [0, 1, 1, 2, 7]
    assert way.index_map().map_ndarray([[[[7]]]]).shape == (1, 1, 1, 1, 16)
    same = tir.bijective_layout("NCHW4c", "NHWC4c").index_map()  # blocks stay as they are
    assert str(same) == "T.index_map(lambda i_0, i_1, i_2, i_3, i_4: (i_0, i_2, i_3, i_1, i_4))"


def test_blocks_in_blocks():
    made = tir.layout("OI4i8o2i")
    assert made.factor_of("I") == 8 and made.steps() == [8, 8, 2, 1, 1]
    way = tir.bijective_layout("OI", made)
    assert [int(s) for s in way.forward_shape([16, 24])] == [2, 3, 4, 8, 2]
    assert [int(s) for s in way.forward_index([9, 13])] == [1, 1, 2, 1, 1]
    assert [int(s) for s in way.backward_index([1, 1, 2, 1, 1])] == [9, 13]
    split = tir.bijective_layout("OI8i", "OI4i2i")
    assert [int(s) for s in split.forward_index([3, 1, 5])] == [3, 1, 2, 1]


def test_axes_have_the_type_of_indices():
    outer, *_, block = tir.layout("NCHW16c", dtype="int64").axes
    assert outer.var.name == "N" and str(outer.dom.extent) == "N_shape"
    assert block.dom.extent.value == 16 and block.var.dtype == outer.dom.min.dtype == "int64"
    assert tir.layout("NCHW").axes[0].var.dtype == "int32"
    for dtype in ("float32", None):
        with pytest.raises(TypeError, match="int32 or int64"):
            tir.layout("NCHW", dtype=dtype)
