"""What is refused of computes, intrinsics and schedules, each with what was got."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loopwright import te, tir
from loopwright.tvm.te.hybrid import HybridModule
from loopwright.tvm.te.specialize import SpecializedCondition

A = te.placeholder((8, 4), name="A")
V = te.placeholder((4,), name="V")
K = te.reduce_axis((0, 4), "k")
B = te.compute((8, 4), lambda i, j: A[i, j] * 2.0, name="B")
SQUARE = te.placeholder((4, 4), name="square")
ROWS = te.compute((8,), lambda i: te.sum(A[i, K], axis=K), name="rows")


def scheduled(*tensors: Any) -> Any:
    return te.create_schedule([t.op for t in tensors or (B,)])


def nothing(ins: Any, outs: Any) -> Any:
    return tir.Evaluate(0)


def intrin(body: Callable[..., Any] = nothing, name: str = "mine", **options: Any) -> Any:
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] * 2.0, name="y")
    return te.decl_tensor_intrin(y.op, body, name=name, **options)


def with_layout_late() -> None:
    s = scheduled()
    s[B].split(B.op.axis[0], 2)
    s[B].transform_layout(lambda i, j: [j, i])


def tensorized(element: Callable[..., Any], shape: tuple[int, ...] = (8, 4), at: int = 1) -> None:
    out = te.compute(shape, element, name="out")
    s = scheduled(out)
    s[out].tensorize(out.op.axis[at], intrin())
    te.lower(s, [*out.op.input_tensors, out])


def mixed() -> None:
    """Results of a reduction and of none."""
    te.compute((8,), lambda i: (te.sum(A[i, K], axis=K), A[i, 0]), name="mixed")


def scan_of_an_extern() -> None:
    state = te.placeholder((3, 4), name="state")
    init = te.compute((1, 4), lambda t, i: V[i])
    sorted_ = te.extern((3, 4), [state], nothing, name="E")
    te.scan(init, te.compute((3, 4), lambda t, i: sorted_[t - 1, i]), state, name="S")


def tag_inside() -> None:
    with te.tag_scope("outer"):
        te.compute((4,), lambda i: V[i], tag="inner")


def two_by_four() -> Any:
    x = te.placeholder((2, 4), name="x")
    y = te.compute((2, 4), lambda i, j: x[i, j] * 2.0, name="y")
    return te.decl_tensor_intrin(y.op, nothing, name="two")


def fewer_axes() -> None:
    out = te.compute((4,), lambda i: V[i] * 2.0, name="out")
    s = scheduled(out)
    s[out].tensorize(out.op.axis[0], two_by_four())
    te.lower(s, [V, out])


def beyond_the_end() -> None:
    wide = te.placeholder((8, 6), name="wide")
    out = te.compute((8, 6), lambda i, j: wide[i, j] * 2.0, name="out")
    s = scheduled(out)
    s[out].tensorize(s[out].split(out.op.axis[1], factor=4)[1], intrin())
    te.lower(s, [wide, out])


def copy_beyond_the_end(factor: int = 3) -> None:
    s = scheduled(PART)
    s[PART].split(PART.op.axis[0], factor=factor)
    s.cache_write(PART, "local")


def bound_to(buffer: Any) -> Any:
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] * 2.0, name="y")
    return te.decl_tensor_intrin(y.op, nothing, name="mine", binds={x: buffer})


def part_of_a_call() -> Any:
    call = intrin()
    return te.compute((8, 4), lambda i: call(A[i, 0:4]), name="part")


def a_column() -> None:
    """One column of a sum at a time is a reduction, the intrinsic is none."""
    z = te.placeholder((8, 1), name="z")
    y = te.compute((8,), lambda i: z[i, 0] * 2.0, name="y")
    s = scheduled(ROWS)
    s[ROWS].reorder(K, ROWS.op.axis[0])
    s[ROWS].tensorize(ROWS.op.axis[0], te.decl_tensor_intrin(y.op, nothing, name="column"))
    te.lower(s, [A, ROWS])


def the_last_row_of_another_state() -> None:
    p, q = (te.placeholder((3, 4), name=n) for n in "pq")
    first = te.compute((1, 4), lambda t, i: V[i])
    u = te.compute((3, 4), lambda t, i: p[t - 1, i] + 1.0, name="u")
    w = te.compute((3, 4), lambda t, i: q[t - 1, i] + u[t - 1, i], name="w")
    te.create_prim_func([V, *te.scan([first, first], [u, w], [p, q])])


PART = part_of_a_call()
OTHER = te.compute((4,), lambda i: V[i], name="other")
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no readers": (lambda: scheduled().cache_read(A, "local", []), "cache_read of A needs its readers\n  got: none"),
    "a late layout": (with_layout_late, "transform_layout of B comes before its other steps\n  got: i_outer, i_inner, j"),
    "a layout of more": (
        lambda: scheduled()[B].transform_layout(lambda i, j: [i // 3, i % 3, j]),
        "transform_layout of B keeps all elements, and adds none",
    ),
    "what is prefetched": (lambda: scheduled()[B].prefetch(3, B.op.axis[0], 1), "prefetch in B takes a tensor\n  got: int"),
    "what is tensorized": (lambda: scheduled()[B].tensorize(B.op.axis[0], "mine"), "tensorize in B takes an intrinsic\n  got: str"),
    "threads": (lambda: scheduled()[B].env_threads(te.thread_axis("threadIdx.x")), "env_threads around B need extents\n  got: threadIdx.x"),
    "an element": (lambda: te.compute((4,), lambda i: V, name="W"), "compute W: the function returns an element's value\n  got: Tensor"),
    "names of axes": (lambda: te.compute((4, 4), lambda *i: V[i[0]], varargs_names=["p"]), "varargs_names names 1 axes\n  got: 2 axes to name"),
    "an axis": (lambda: te.reduce_axis((0, 1, 2)), r"an axis runs over \(begin, end\)\n  got: \(0, 1, 2\)"),
    "buffers in": (
        lambda: te.extern((4,), [V], nothing, "E", in_buffers=[tir.decl_buffer((4,))] * 2),
        "extern E needs one of in_buffers for each input\n  got: 2 for 1",
    ),
    "results of two kinds": (mixed, "compute mixed: all results come from one reduction, or none does"),
    "parts": (lambda: te.compute((8, 4), lambda i: intrin()(3)), "mine takes parts of tensors\n  got: int"),
    "many parts": (lambda: te.compute((8, 4), lambda i: intrin()(A[i, 0:4], A[i, 0:4])), "mine reads 1 tensors\n  got: 2 parts"),
    "parts of a step": (lambda: te.compute((8, 4), lambda i: intrin()(A[i, 0:4:2])), "a part of A has a step\n  got: 2"),
    "what an intrinsic is of": (
        lambda: te.decl_tensor_intrin(te.extern((4,), [V], nothing).op, nothing),
        "describes a compute of one result",
    ),
    "scalars": (lambda: intrin(scalar_params=[1]), r"mine: scalar parameters are not passed to intrinsics\n  got: \[1\]"),
    "a tensor of no use": (lambda: intrin(binds={V: tir.decl_buffer((4,))}), "mine binds a tensor that it does not use\n  got: V\n  instead: one of x, y"),
    "another type": (lambda: bound_to(tir.decl_buffer((4,), "int8")), "mine: x is float32 with 1 dimensions\n  got: a buffer of int8 with 1"),
    "another rank": (lambda: bound_to(tir.decl_buffer((4, 1))), "mine: x is float32 with 1 dimensions\n  got: a buffer of float32 with 2"),
    "an empty group": (
        lambda: scheduled(B, OTHER).create_group(outputs=B, inputs=V),
        "no operation leads from the inputs of the group to its outputs\n  got: B",
    ),
    "no reduction": (lambda: scheduled().rfactor(B, B.op.axis[0]), "rfactor: B is not a reduction"),
    "a call as a function": (lambda: te.create_prim_func([A, PART]), "create_prim_func knows .*\n  got: TensorComputeOp"),
    "a copy of calls": (copy_beyond_the_end, "cache_write of part: its intrinsic would run beyond the result"),
    "a call beyond the end": (beyond_the_end, "tensorize of out: the intrinsic would run beyond the end"),
    "fewer axes": (fewer_axes, "tensorize of out: two .*\n  got: 1 axes"),
    "two statements": (lambda: intrin(lambda i, o: (nothing(i, o), None)), "returns a body, or .body, reset, update.\n  got: 2 statements"),
    "no body": (lambda: intrin(lambda i, o: None), "mine: fcompute returns a body"),
    "another element": (lambda: tensorized(lambda i, j: A[i, j] * 3.0), "mine"),
    "a longer loop": (lambda: tensorized(lambda i, j: te.placeholder((8, 6), name="C")[i, j] * 2.0, (8, 6)), "6 in the program along j"),
    "more loops": (lambda: tensorized(lambda i, j: A[i, j] * 2.0, at=0), "8 in the program along i"),
    "more tensors": (lambda: tensorized(lambda i, j: A[i, j] * V[j]), "2 tensors are read"),
    "a reduction": (lambda: tensorized(lambda i: te.sum(A[i, K], axis=K), (8,), 0), "mine"),
    "a sum for none": (a_column, "tensorize of rows: column computes something else\n  got: T.reduce"),
    "fewer dimensions": (lambda: tensorized(lambda i: SQUARE[i, i] * 2.0, (4,), 0), r"got: \['4', '4'\] of square\n  instead: 1 dimensions of x"),
    "another row": (
        the_last_row_of_another_state,
        "a scan reads another row of u than the one it computes\n  got: row v_t - 1\n  instead: read rows before from the state",
    ),
    "the state of a scan": (scan_of_an_extern, "scan S: what reads the state is a compute"),
    "a tag": (tag_inside, "an operation has its own tag inside a tag scope\n  got: 'inner' in scope 'outer'"),
    "no argument": (lambda: te.lower(scheduled(), [A, B, "C"]), "the arguments of a schedule are tensors, buffers and variables\n  got: str"),
    "two functions": (lambda: HybridModule("def f(): pass\ndef g(): pass"), "the source of one function\n  got: 2 functions"),
    "no function": (lambda: HybridModule("x = 1"), "the source of one function\n  got: 0 functions"),
    "an empty module": (lambda: HybridModule()(V), "the module has no source"),
    "a kernel as a script": (
        lambda: te.hybrid.build(scheduled(e := te.extern((4,), [V], nothing, "E")), [V, e], [e]),
        "a hybrid script has no",
    ),
    "a condition": (lambda: SpecializedCondition([tir.Var("n") > 1, 3]), "a condition is a bool expression"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    run, says = REFUSED[case]
    with pytest.raises((ValueError, TypeError, RuntimeError), match=says):
        run()


def test_conditions_of_a_specialization() -> None:
    n = tir.Var("n")
    given = SpecializedCondition([n * 2 >= n + n, n - n <= 0])
    assert given.holds() and not SpecializedCondition(n > 1).holds()
    assert not SpecializedCondition([n <= n, n > 1]).holds()
    assert SpecializedCondition.current() is None
    with given as outer, SpecializedCondition(n > 1) as inner:
        assert outer is given and SpecializedCondition.current() is inner
    assert SpecializedCondition.current() is None


@pytest.mark.parametrize("kind", ["unroll", "vectorize"])
def test_pragmas_of_a_kind_are_that_kind(kind: str) -> None:
    one, other = scheduled(), scheduled()
    getattr(one[B], kind)(B.op.axis[1])
    other[B].pragma(B.op.axis[1], kind)
    texts = [str(te.lower(s, [A, B])) for s in (one, other)]
    assert texts[0] == texts[1] and f"T.{kind}" in texts[0]


def test_a_variable_among_the_arguments() -> None:
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    y = te.compute((n,), lambda i: x[i] + n.astype("float32"), name="y")
    func = te.lower(te.create_schedule(y.op), [n, x, y])["main"]
    assert func.params[0] is n and len(func.buffer_map) == 2
    out = np.zeros(3, "float32")
    tir.interpreter.run(func, [3, np.float32([1, 2, 3]), out])
    np.testing.assert_array_equal(out, [4, 5, 6])


def test_results_without_axes_are_elements() -> None:
    total = te.compute((), lambda: te.sum(V[K], axis=K), name="total")
    out = te.compute((4,), lambda i: total, name="out")
    func = te.create_prim_func([V, out])
    result = np.zeros(4, "float32")
    tir.interpreter.run(func, [np.float32([1, 2, 3, 4]), result])
    np.testing.assert_array_equal(result, [10] * 4)
    assert [a.var.name for a in out.axis] == ["i"] and A[1].dtype == "float32"
    assert repr(intrin()) == "TensorIntrin(mine)"


def test_first_rows_that_others_read_are_copied() -> None:
    x = te.placeholder((5, 4), name="x")
    state = te.placeholder((5, 4), name="state")
    init = te.compute((1, 4), lambda t, i: x[t, i] * 2.0, name="init")
    update = te.compute((5, 4), lambda t, i: state[t - 1, i] + x[t, i], name="update")
    sums = te.scan(init, update, state, inputs=[x], name="sums")
    out = te.compute((5, 4), lambda t, i: sums[t, i] - init[0, i], name="out")
    func = te.lower(te.create_schedule(out.op), [x, out])["main"]
    given, result = np.random.default_rng(0).normal(size=(5, 4)).astype("float32"), np.zeros((5, 4))
    result = result.astype("float32")
    tir.interpreter.run(func, [given, result])
    want = np.cumsum(np.vstack([2 * given[:1], given[1:]]), 0) - 2 * given[:1]
    np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-6)


def test_a_layout_of_what_is_computed_at_a_loop() -> None:
    y = te.compute((8, 4), lambda i, j: B[i, j] + 1.0, name="y")
    s = te.create_schedule(y.op)
    s[B].transform_layout(lambda i, j: [j, i])
    s[B].compute_at(s[y], y.op.axis[0])
    func = te.lower(s, [A, y])["main"]
    given, result = np.random.default_rng(0).normal(size=(8, 4)).astype("float32"), np.zeros((8, 4))
    result = result.astype("float32")
    tir.interpreter.run(func, [given, result])
    np.testing.assert_allclose(result, given * 2 + 1, rtol=1e-6)


def test_what_is_just_accepted() -> None:
    copy_beyond_the_end(factor=2)
    assert bound_to(tir.decl_buffer((4,))).buffers[0].name == "buffer"


def result_of(func: Any, *given: Any) -> Any:
    """The last argument of a function, which has the shape of the first."""
    result = np.zeros_like(given[0])
    tir.interpreter.run(func, [*given, result])
    return result


def copied(ins: Any, outs: Any) -> Any:
    """Element by element, in the order of the memory."""
    ib = tir.ir_builder.create()
    source, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    with ib.for_range(0, 16, "k") as k:
        result[k] = source[k]
    return ib.get()


def test_an_extern_reads_the_layout_of_its_input() -> None:
    doubled = te.compute((4, 4), lambda i, j: SQUARE[i, j] * 2.0, name="doubled")
    out = te.extern((4, 4), [doubled], copied, name="out")
    s = scheduled(out)
    s[doubled].transform_layout(lambda i, j: [j, i])
    given = np.arange(16, dtype="float32").reshape(4, 4)
    func = te.lower(s, [SQUARE, out])["main"]
    np.testing.assert_array_equal(result_of(func, given), 2 * given.T)


@pytest.mark.parametrize("types", [("int32", "int64"), ("int64", "int32")])
def test_strides_of_a_view_are_those_of_the_compact_buffer(types: tuple[str, str]) -> None:
    outer, inner = (te.var("s", t) for t in types)
    view = tir.decl_buffer((8, 4), "float32", "view", strides=[outer, inner], offset_factor=1)

    def told(ins: Any, outs: Any) -> Any:
        v = ins[0]
        return tir.Evaluate(tir.call_extern("int32", "f", v.data, *v.strides, v.elem_offset))

    out = te.extern((4,), [B], told, name="out", in_buffers=[view])
    text = te.create_prim_func([A, out]).script()
    numbers = [f"T.int64({n})" if t == "int64" else str(n) for n, t in zip((4, 1), types)]
    assert f'"f", B.data, {", ".join(numbers)}, 0)' in text


def test_what_is_read_before_the_start_is_left_out() -> None:
    y = te.compute((4,), lambda i: tir.if_then_else(i > 0, OTHER[i - 1], 7.0), name="y")
    s = scheduled(y)
    s[OTHER].compute_at(s[y], y.op.axis[0])
    func = te.lower(s, [V, y])["main"]
    assert "if T.likely(1 <= i):" in func.script()
    np.testing.assert_array_equal(result_of(func, np.float32([1, 2, 3, 4])), [7, 1, 2, 3])


def test_a_script_takes_tensors_in_a_tuple_and_may_do_nothing() -> None:
    @te.hybrid.script
    def either(both):
        out = output_tensor((4,), "float32")
        for i in range(4):
            if i > 2:
                pass
            else:
                out[i] = both[0][i] + both[1][i]
        return out

    w = te.placeholder((4,), name="w")
    y = either((V, w))
    s = scheduled(y)
    func = te.lower(s, [V, w, y])["main"]
    x, z = np.float32([1, 2, 3, 4]), np.float32([5, 6, 7, 8])
    np.testing.assert_array_equal(result_of(func, x, z), [6, 8, 10, 0])
    assert "if (i > 2):\n            pass\n        else:" in te.hybrid.build(s, [V, w, y], [y]).src_
