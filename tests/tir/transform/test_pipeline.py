"""The default pipeline: user passes by phase, options, and the errors of wrong passes."""

from __future__ import annotations

import pytest

from loopwright.base.errors import LoopwrightError
from loopwright.ir.functor import post_order_visit
from loopwright.ir.module import IRModule
from loopwright.ir.transform import PassContext
from loopwright.script import from_source
from loopwright.tir import transform as tt
from loopwright.tir.function import PrimFunc
from loopwright.tir.stmt import Block, BufferStore, For, ForKind

TEXT = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in T.vectorized(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
"""


def module():
    return IRModule({"main": from_source(TEXT)})


def kinds(func):
    found = []
    post_order_visit(func.body, lambda n: found.append(type(n)))
    return found


def test_phases():
    seen = {}

    def at(phase):
        @tt.prim_func_pass(opt_level=0, name=f"at{phase}")
        def note(func, mod, ctx):
            seen[phase] = func
            return func

        return (phase, note)

    with PassContext(config={"tir.add_lower_pass": [at(p) for p in range(4)]}):
        tt.default_tir_pipeline()(module())
    assert Block in kinds(seen[0])
    assert Block not in kinds(seen[1])
    vector_loops = [n for n in loops(seen[1]) if n.kind == ForKind.VECTORIZED]
    assert len(vector_loops) == 1 and seen[1].buffer_map
    assert [n.kind for n in loops(seen[2])] == [ForKind.SERIAL]
    assert [n.kind for n in loops(seen[3])] == [ForKind.SERIAL]
    assert seen[3].buffer_map


def loops(func):
    found = []
    post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, For) else None)
    return found


def test_a_plain_function_is_a_pass():
    seen = []

    def look(func, mod, ctx):
        seen.append(func)
        return func.with_attr("looked", True)

    with PassContext(opt_level=3, config={"tir.add_lower_pass": [(3, look)]}):
        made = tt.default_tir_pipeline()(module())
    assert isinstance(seen[0], PrimFunc) and made["main"].attrs["looked"]


def test_a_pass_that_returns_none_is_named():
    @tt.prim_func_pass(opt_level=1, name="print_tir")
    def print_tir(func, mod, ctx):
        str(func)

    context = PassContext(opt_level=3, config={"tir.add_lower_pass": [(3, print_tir)]})
    with context, pytest.raises(TypeError) as caught:
        tt.default_tir_pipeline()(module())
    message = str(caught.value)
    assert message.startswith("pass 'print_tir' returned None")
    assert "def print_tir(func, mod, ctx):" in message and "test_pipeline.py" in message
    assert "instead: return the (changed) function" in message


def test_what_is_no_pass():
    context = PassContext(config={"tir.add_lower_pass": [(1, "print")]})
    with context, pytest.raises(TypeError, match="takes pairs"):
        tt.default_tir_pipeline()(module())


def test_unroll_options():
    mod = IRModule(
        {
            "main": from_source(
                """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(4):
        for j in T.unroll(2):
            A[i * 2 + j] = T.float32(0)
"""
            )
        }
    )
    assert count_stores(tt.UnrollLoop()(mod)["main"]) == 2
    with PassContext(config={"tir.UnrollLoop": {"auto_max_step": 8}}):
        assert count_stores(tt.UnrollLoop()(mod)["main"]) == 8
    with PassContext(config={"tir.UnrollLoop": {"explicit_unroll": False}}):
        made = tt.UnrollLoop()(mod)["main"]
    assert count_stores(made) == 1
    assert [n.kind for n in loops(made)] == [ForKind.UNROLLED, ForKind.SERIAL]


def count_stores(func):
    found = []
    post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, BufferStore) else None)
    return len(found)


def test_vector_loop_needs_a_constant_extent():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), n: T.int32):
    for i in T.vectorized(n):
        A[i] = T.float32(0)
"""
    with pytest.raises(
        LoopwrightError, match=r"Failed to vectorize loop with extent n[\s\S]*got: loop i"
    ):
        tt.VectorizeLoop()(IRModule({"main": from_source(text)}))


def test_an_unchanged_function_stays_the_same_object():
    mod = tt.default_tir_pipeline()(module())
    again = tt.lower_to_loops()(mod)
    assert again["main"] is mod["main"]
