"""suggest_layout_transforms: blocks and inputs follow the layouts of outputs."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax, te, tir
from loopwright.base.errors import TVMError
from loopwright.tir.interpreter import run

suggest = relax.analysis.suggest_layout_transforms


def applied(func, found):
    sch = tir.Schedule(func)
    for block, layouts in found.items():
        here = sch.get_block(block.name_hint)
        for of, index_map in layouts.items():
            if of is block:
                sch.transform_block_layout(here, index_map)
            else:
                sch.transform_layout(here, of, index_map)
    return sch.mod["main"]


def kernel(shape, fn, *inputs):
    return te.create_prim_func([*inputs, te.compute(shape, fn, name="out")])


def test_all_follow_and_the_values_stay(rng):
    """A broadcast input loses the axes that it does not have."""
    a, b = te.placeholder((2, 8, 3), name="a"), te.placeholder((8, 3), name="b")
    func = kernel((2, 8, 3), lambda n, c, h: a[n, c, h] + b[c, h], a, b)
    found = suggest(func, [lambda n, c, h: (n, h, c // 4, c % 4)])
    assert [len(layouts) for layouts in found.values()] == [4]
    new = applied(func, found)
    assert [tuple(map(int, b.shape)) for b in new.buffer_map.values()] == [
        (2, 3, 2, 4),
        (3, 2, 4),
        (2, 3, 2, 4),
    ]
    x, y = rng.random((2, 8, 3)).astype("float32"), rng.random((8, 3)).astype("float32")
    moved = lambda t: np.moveaxis(t.reshape(*t.shape[:-2], 2, 4, 3), -1, -3).copy()  # noqa: E731
    out = np.zeros((2, 3, 2, 4), "float32")
    run(new, [moved(x), moved(y), out])
    np.testing.assert_array_equal(out, moved(x + y))


def test_reductions_stay_where_they_are():
    a = te.placeholder((4, 5, 8, 6), name="a")
    i, j = te.reduce_axis((0, 5), name="i"), te.reduce_axis((0, 6), name="j")
    func = kernel((4, 8), lambda n, c: te.sum(a[n, i, c, j], axis=[i, j]), a)
    new = applied(func, suggest(func, [lambda n, c: (n, c // 4, c % 4)]))
    assert tuple(map(int, new.buffer_map[new.params[-1]].shape)) == (4, 2, 4)


@pytest.mark.parametrize(
    ("fn", "layout"),
    [
        (lambda a: lambda i, j: a[j, i], lambda i, j: (j, i)),  # read across
        (lambda a: lambda i, j: a[i, i], lambda i, j: (j, i)),  # one axis twice
        (lambda a: lambda i, j: a[(i * 3 + j) % 6, j], lambda i, j: (j, i)),  # two axes in an index
    ],
)
def test_inputs_that_keep_their_layout(fn, layout):
    a = te.placeholder((6, 6), name="a")
    func = kernel((6, 6), fn(a), a)
    (layouts,) = suggest(func, [layout]).values()
    assert func.buffer_map[func.params[0]] not in layouts
    assert len(layouts) == 2


def test_layouts_that_merge_axes_that_an_input_lacks():
    a = te.placeholder((8,), name="a")
    func = kernel((4, 8), lambda i, j: a[j] * 2.0, a)
    (layouts,) = suggest(func, [lambda i, j: (i * 8 + j,)]).values()
    assert func.buffer_map[func.params[0]] not in layouts


def test_blocks_that_keep_their_layout():
    """A map that leaves gaps; an output written across; no layouts."""
    a = te.placeholder((4, 8), name="a")
    func = kernel((4, 8), lambda i, j: a[i, j] * 2.0, a)
    assert suggest(func, [lambda i, j: (i, j // 5, j % 5)]) == {}
    assert suggest(func, []) == {}


def test_errors():
    a = te.placeholder((4, 8), name="a")
    func = kernel((4, 8), lambda i, j: a[i, j] * 2.0, a)
    (layouts,) = suggest(func, [lambda i, j: (j, i)] * 2).values()
    assert len(layouts) == 2  # that of the input is given
    given = tir.IndexMap.from_func(lambda i, j: (j, i))
    (layouts,) = suggest(func, [given]).values()
    assert given in layouts.values()
    with pytest.raises(TVMError, match=r"(?s)more layouts than parameters.*3 for 2"):
        suggest(func, [lambda i, j: (j, i)] * 3)
    with pytest.raises(TVMError, match=r"(?s)Mismatch.*2 dimensions, the map 3"):
        suggest(func, [lambda i, j, k: (j, i, k)])
    with pytest.raises(AssertionError, match="an index map or a function"):
        suggest(func, [2])
