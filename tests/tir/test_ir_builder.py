"""Statements built line by line, run by the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import te, tir
from loopwright.tir.interpreter import run


def build(fill, *buffers):
    ib = tir.ir_builder.create()
    fill(ib, *(ib.buffer_ptr(b) for b in buffers))
    return tir.PrimFunc(list(buffers), ib.get())


def test_loops_conditions_and_lets():
    out = tir.decl_buffer((2, 4), "int32", "out")

    def fill(ib, p):
        with ib.for_range(0, 8, "i", kind="parallel") as i:
            twice = ib.let("twice", i * 2)
            with ib.if_scope(i < 3):
                p[i] = twice
            with ib.else_scope():
                p[i // 4, i % 4] = 0 - twice

    result = np.zeros((2, 4), "int32")
    func = build(fill, out)
    tir.analysis.verify_well_formed(func)
    run(func, [result])
    np.testing.assert_array_equal(result.ravel(), [0, 2, 4, -6, -8, -10, -12, -14])


def test_memory_and_while():
    out = tir.decl_buffer((1,), "int32", "out")

    def fill(ib, p):
        count = ib.allocate("int32", (1,), "count")
        count[0] = 0
        with ib.while_loop(count[0] < 5):
            count[0] = count[0] + 2
        p[0] = count[0]

    result = np.zeros(1, "int32")
    func = build(fill, out)
    tir.analysis.verify_well_formed(func)
    run(func, [result])
    assert result[0] == 6


def test_in_an_extern():
    def cumulative(ins, outs):
        ib = tir.ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 4, "row") as i, ib.new_scope():
            y[i, 0] = x[i, 0]
            with ib.for_range(1, 3, "column") as j:
                y[i, j] = y[i, j - 1] + x[i, j]
        return ib.get()

    a = te.placeholder((4, 3), name="a")
    b = te.extern((4, 3), [a], cumulative, name="cumulative")
    func = te.create_relax_prim_func([a, b])
    x = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
    result = np.zeros((4, 3), "float32")
    run(func, [x, result])
    np.testing.assert_allclose(result, x.cumsum(1), rtol=1e-5, atol=1e-6)


def test_mistakes():
    ib = tir.ir_builder.create()
    p = ib.buffer_ptr(tir.decl_buffer((1,), "int32", "p"))
    with pytest.raises(ValueError, match="buffer p holds int32"):
        p[0] = tir.const(1.0, "float32")
    with pytest.raises(RuntimeError, match="follows an if_scope"):
        ib.else_scope()
    with pytest.raises(ValueError, match="unknown kind of loop"):
        ib.for_range(0, 1, kind="sideways")
    ib.for_range(0, 1)
    with pytest.raises(RuntimeError, match="still open"):
        ib.get()


def test_pointers_are_parameters():
    ib = tir.ir_builder.create()
    p = ib.pointer("float32", "p")
    p[0] = 1.0
    func = tir.PrimFunc([p], ib.get())
    assert func.params[0] is p.asobject().data
    with pytest.raises(TypeError, match="got: int"):
        tir.PrimFunc([1], ib.get())


def test_a_number_fills_the_lanes_of_its_index():
    ib = tir.ir_builder.create()
    p = ib.pointer("float32", "p")
    p[tir.Ramp(0, 1, 4)] = 1
    assert ib.get().value.dtype == "float32x4"


def test_names_defaults_and_marks():
    out = tir.decl_buffer((2, 3, 4), "int32", "out")
    ib = tir.ir_builder.create()
    p = ib.buffer_ptr(out)
    ib.scope_attr(out.data, "pragma_x", 7)
    with ib.for_range(2, 24) as first, ib.if_scope(ib.likely(first < 20)):
        p[first] = first
    with ib.for_range(0, 1, dtype="int64") as second:
        p[0] = p[1].astype("int32") + 5
    with ib.for_range(0, 1) as third:
        ib.allocate("float32", 4)
    stmt = ib.get()
    assert [v.name for v in (first, second, third)] == ["i", "i_1", "i_2"]
    assert [str(v.dtype) for v in (first, second, third)] == ["int32", "int64", "int32"]
    assert stmt.attr_key == "pragma_x" and stmt.node is out.data and int(stmt.value) == 7
    loops = tir.stmt_list(stmt.body)
    assert [loop.kind for loop in loops] == [tir.ForKind.SERIAL] * 3
    assert loops[0].body.condition.op.name == "tir.likely"
    memory = loops[2].body
    assert memory.buffer_var.name == "buf" and [int(e) for e in memory.extents] == [4]
    assert memory.buffer_var.type_annotation == ("float32", "global")
    result = np.zeros((2, 3, 4), "int32")
    run(tir.PrimFunc([out], stmt), [result])
    want = [5, 0, *range(2, 20), 0, 0, 0, 0]
    np.testing.assert_array_equal(result.ravel(), want)
    pointer = ib.pointer("int32").asobject()
    assert pointer.name == "ptr" and [int(e) for e in pointer.shape] == [1]
    assert ib.buffer_ptr(out).dtype == "int32"
    assert ib.get().value == 0  # nothing is left of what was built before
