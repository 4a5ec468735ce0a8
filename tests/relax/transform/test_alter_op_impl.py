"""AlterOpImpl: values stay, also where a layout pads; what the user gives is checked."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import te
from loopwright.relax.analysis import assert_well_formed
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import AlterOpImpl
from loopwright.script import from_source
from loopwright.te.prim_func import create_relax_prim_func
from loopwright.tir.index_map import IndexMap

PROGRAM = from_source("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def both(x: T.Buffer((6, 10), "float32"), y: T.Buffer((6, 10), "float32"), a: T.Buffer((6, 10), "float32"), b: T.Buffer((6, 10), "float32")):
        T.func_attr({"operator_name": "test.both"})
        for i, j in T.grid(6, 10):
            with T.block("a"):
                vi, vj = T.axis.remap("SS", [i, j])
                a[vi, vj] = x[vi, vj] + y[vi, vj]
                b[vi, vj] = x[vi, vj] - y[vi, vj]

    @R.function
    def main(x: R.Tensor((6, 10), "float32"), y: R.Tensor((6, 10), "float32")):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.both, (x, y), out_sinfo=[R.Tensor((6, 10), "float32"), R.Tensor((6, 10), "float32")])
            R.output(a)
        return a
""")


def kernel(*shapes):
    """The same in other layouts: of x, y, both results."""
    x, y = (te.placeholder(shape, "float32") for shape in shapes[:2])
    at = lambda i, j, k: (i, j, k)  # noqa: E731
    made = te.compute(
        shapes[2], lambda *i: [x(*at(*i)) + y(*at(*i)), x(*at(*i)) - y(*at(*i))], name="both"
    )
    return create_relax_prim_func([x, y, *made])


@pytest.mark.parametrize("width", [5, 4])
def test_values_stay(width):
    shape = (6, -(-10 // width), width)
    by_parts = IndexMap.from_func(lambda i, j: (i, j // width, j % width))
    mod = AlterOpImpl({"test.both": kernel(shape, shape, shape)}, {"test.both": [by_parts] * 4})(
        PROGRAM
    )
    names = {g.name_hint for g in mod.functions}
    assert names == {"main", "both", "test_both_replacement"} | (
        {"remove_pad"} if width == 4 else set()
    )
    inputs = [np.random.default_rng(n).uniform(-1, 1, (6, 10)).astype("float32") for n in (0, 1)]
    got, want = (Interpreter(m)["main"](*inputs) for m in (mod, PROGRAM))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_another_operator_stays():
    assert AlterOpImpl({"test.other": kernel(*[(6, 5, 2)] * 3)}, {})(PROGRAM) is PROGRAM


def test_layouts_without_a_buffer():
    alter = AlterOpImpl({"test.both": kernel(*[(6, 5, 2)] * 3)}, {"test.both": [None] * 3})
    with pytest.raises(ValueError, match=r"test.both has 4 buffers\n.*of 3, 4, 4"):
        alter(PROGRAM)


ONE = """
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def add(x: T.Buffer((8,), "float32"), s: T.Buffer((), "float32"), y: T.Buffer((8,), "float32")):
        T.func_attr({"operator_name": "test.add"})
        for i in range(8):
            with T.block("y"):
                vi = T.axis.spatial(8, i)
                y[vi] = x[vi] + s[()]

    @R.function
    def main(x: R.Tensor((8,), "float32"), s: R.Tensor((), "float32")):
        cls = Module
        with R.dataflow():
            a = R.call_tir(cls.add, (x, s), out_sinfo=R.Tensor((8,), "float32"))
            R.output(a)
        return a
"""


def add(shape, result):
    """The kernel `add` of an input and a result in these layouts."""
    x, s = te.placeholder(shape, "float32"), te.placeholder((), "float32")
    at = (lambda *i: (i[0] * 4 + i[1],)) if len(shape) < len(result) else lambda i: (i // 4, i % 4)
    at = at if len(shape) != len(result) else lambda *i: i
    return create_relax_prim_func([x, s, te.compute(result, lambda *i: x(*at(*i)) + s())])


def halves(i):
    return i // 4, i % 4


@pytest.mark.parametrize(
    ("shape", "result", "maps", "changes"),
    [
        ((2, 4), (8,), [halves, None, None], 1),
        ((2, 4), (8,), [[halves, [1]], lambda: (), None], 1),
        ((8,), (2, 4), [None, None, halves], 1),
        ((8,), (2, 4), [None, None, IndexMap.from_func(halves)], 1),
        ((2, 4), (2, 4), [halves, None, halves], 2),
        ((8,), (8,), [], 0),
    ],
)
def test_buffers_that_stay_as_they_are(shape, result, maps, changes):
    mod = from_source(ONE)
    after = AlterOpImpl({"test.add": add(shape, result)}, {"test.add": maps})(mod)
    assert_well_formed(after)
    assert after["main"].script().count("layout_transform") == changes
    x, s = np.arange(8, dtype="float32"), np.float32(3)
    np.testing.assert_array_equal(Interpreter(after)["main"](x, s).numpy(), x + 3)


def test_separators_stand_with_their_buffer():
    mod = from_source(ONE)
    maps, separators = [halves, None, halves], ([[1], None, []], [None, None, [1]])
    after = AlterOpImpl(
        {"test.add": add((2, 4), (2, 4))},
        {"test.add": maps},
        *({"test.add": s} for s in separators),
    )(mod)
    calls = [b.value for b in after["main"].body.blocks[0].bindings]
    changes = [c.attrs for c in calls if c.op.name == "relax.layout_transform"]
    assert [list(a.axis_separators or ()) for a in changes] == [[1], []]
    assert [list(a.input_axis_separators or ()) for a in changes] == [[], [1]]


def test_an_unknown_shape_has_no_other_layout():
    mod = from_source(
        ONE.replace(
            'out_sinfo=R.Tensor((8,), "float32")', 'out_sinfo=R.Tensor(ndim=1, dtype="float32")'
        )
    )
    alter = AlterOpImpl({"test.add": add((8,), (2, 4))}, {"test.add": [None, None, halves]})
    with pytest.raises(ValueError, match="a tensor whose shape is not known"):
        alter(mod)
