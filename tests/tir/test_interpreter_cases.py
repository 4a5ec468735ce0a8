"""The interpreter: rare forms of statements and calls, and what it refuses."""

from __future__ import annotations

import threading
from textwrap import indent
from typing import Any

import numpy as np
import pytest

from loopwright import te, tir
from loopwright.base.errors import LoopwrightError
from loopwright.ir.expr import GlobalVar
from loopwright.runtime.packed_func import register_func, remove_global_func
from loopwright.script import from_source
from loopwright.tir.interpreter import run
from loopwright.tir.interpreter.meaning import fma
from loopwright.tir.interpreter.structs import struct_get
from loopwright.tir.interpreter.threads import run_threads

I32 = "int32"
N = tir.Var("n", I32)
A, I = tir.decl_buffer((8,), "float32", "A"), tir.decl_buffer((8,), I32, "I")
FIRST = tir.Ramp(tir.const(0), tir.const(1), 4)


def of_text(body: str) -> tir.PrimFunc:
    head = 'def main(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32"), n: T.int32):\n'
    return from_source("@T.prim_func\n" + head + indent(body, "    "))


def ran(
    func: tir.PrimFunc, *more: Any, n: int = 3, mod: Any = None
) -> tuple[list[float], list[int]]:
    """The values of A and I, which begin as 0, 1, ... 7."""
    a, i = np.arange(8, dtype="float32"), np.arange(8, dtype=I32)
    run(func, [a, i, n, *more], mod)
    return a.tolist(), i.tolist()


def of(body: tir.Stmt) -> tir.PrimFunc:
    return tir.PrimFunc([A, I, N], body)


def vector(name: str, *args: Any, dtype: str = "int32x4") -> tir.PrimFunc:
    """I[0:4] = name(args)"""
    return of(tir.BufferStore(I, tir.Call(dtype, name, args), [FIRST]))


ORDER = list(range(8))


@pytest.mark.parametrize(
    ("body", "i"),
    [
        ("I.vstore([1], 9, predicate=n < 3)", ORDER),
        ("I.vstore([1], 9, predicate=n <= 3)", [0, 9, *ORDER[2:]]),
        ("with T.block('a'):\n    T.where(n < 3)\n    T.evaluate(0)\nI[0] = 7", [7, *ORDER[1:]]),
        ("I[0] = T.tvm_warp_shuffle(T.uint32(255), n + 2, 1, 32, 32)", [5, *ORDER[1:]]),
        ("I[0] = T.Cast('int32', (n < 4) + (n < 5))", [1, *ORDER[1:]]),
    ],
)  # fmt: skip
def test_rare_statements(body: str, i: list[int]) -> None:
    assert ran(of_text(body)) == (ORDER, i)


def test_indices_of_lanes_that_count_from_the_end() -> None:
    at = tir.Shuffle([tir.const(v) for v in (-1, 0, 7, -8)], [0, 1, 2, 3])
    assert ran(vector("tir.checked_index", at, tir.const(8)))[1][:4] == [7, 0, 7, 0]
    for least, wanted in ((-8, [7, 0, -5, 0]), (-9, None)):
        at = tir.Shuffle([tir.const(v) for v in (-1, 0, 8, least)], [0, 1, 2, 3])
        inside = at < tir.Broadcast(tir.const(8), 4)
        checked = tir.Call("int32x4", "tir.checked_index", [at, tir.const(8)])
        chosen = vector("tir.if_then_else", inside, checked, tir.Broadcast(tir.const(-5), 4))
        if wanted:
            assert ran(chosen)[1][:4] == wanted
        else:
            with pytest.raises(
                IndexError, match="index -9 is out of range for an axis of extent 8"
            ):
                ran(chosen)


def test_memory_of_vectors() -> None:
    func = from_source("""
@T.prim_func
def main(V: T.Buffer((2,), "float32x4"), W: T.Buffer((2,), "float32x4"), n: T.int32):
    for i in range(2):
        W[1 - i] = T.if_then_else(T.Ramp(i, 1, 4) < T.Broadcast(3, 4), V[i], T.Broadcast(T.float32(9), 4))
""")
    v, w = np.arange(8, dtype="float32").reshape(2, 4), np.zeros((2, 4), "float32")
    run(func, [v, w, 0])
    assert w.tolist() == [[4, 5, 9, 9], [0, 1, 2, 9]]
    with pytest.raises(ValueError, match="buffer V has 2 dimensions"):
        run(func, [v.reshape(-1), w, 0])


def test_memory_that_is_declared() -> None:
    """A declaration without an allocation is one; an offset of its own is 0."""
    own = tir.decl_buffer((2,), I32, "B", elem_offset=tir.Var("off", I32))
    stores = [tir.BufferStore(own, own.elem_offset + 5, [1]), tir.BufferStore(I, own[1], [0])]
    body = tir.SeqStmt(stores)
    for made in (
        tir.DeclBuffer(own, body),
        tir.BlockRealize([], True, tir.Block([], [], [], "b", body, alloc_buffers=[own])),
    ):
        assert ran(of(made))[1] == [5, *ORDER[1:]]


def test_a_block_of_threads_is_launched_within_another_axis() -> None:
    """Threads along y meet; the axis between is a loop."""
    text = """
with T.launch_thread("threadIdx.y", 2) as y:
    with T.launch_thread("blockIdx.x", 2) as b:
        with T.launch_thread("threadIdx.x", 2) as x:
            with T.allocate([4], "int32", "shared") as s:
                s_1 = T.Buffer((4,), "int32", data=s, scope="shared")
                s_1[y * 2 + x] = y * 2 + x
                T.tvm_storage_sync("shared")
                I[b * 4 + y * 2 + x] = s_1[y * 2 + 1 - x] * 10
"""
    assert ran(of_text(text))[1] == [10, 0, 30, 20, 10, 0, 30, 20]


def test_threads_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    start, ran = threading.Thread.start, []

    def limited(self: threading.Thread) -> None:
        if len(ran) == 2:
            raise RuntimeError("can't start new thread")
        ran.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)
    said = "a block of 3 threads cannot be run here\n  got: can't start new thread"
    with pytest.raises(RuntimeError, match=said):
        run_threads(lambda i: None, [3])
    assert len(ran) == 2 and not any(t.is_alive() for t in ran)


def test_a_product_and_a_sum_rounded_once() -> None:
    assert fma(1e200, 1e200, -1e300) == np.inf and fma(-1e200, 1e200, 1.0) == -np.inf
    assert fma(2.0**27 + 1, 2.0**27 + 1, -(2.0**54)) == 2.0**28 + 1


@pytest.mark.parametrize(
    ("deciding", "value"),
    [
        ("T.Cast('int32', A[6] * {c} <= T.float32(4))", 1),
        ("T.Cast('int32', T.ceil(A[6] * {c}))", 4),
        ("T.Cast('int32', A[3] * T.float32(0.33333334) - T.float32(1e-9))", 1),
        ("T.Cast('int32', T.Cast('float32', n + 22) * T.float32(1.3) - T.float32(0.5))", 32),
        ("T.Cast('int32', T.isinf(A[7] * T.float32(1e38)))", 1),
        ("T.Cast('int32', T.acos(A[6] * {c} * T.float32(0.25)))", 0),
        ("T.Cast('int32', T.Cast('float64', A[6] * {c}) == T.float64(4))", 1),
        ("T.Cast('int32', T.Let(x <= T.float32(4), where={{x: A[6] * {c}}}))", 1),
    ],
)
def test_float32_is_rounded_before_it_decides(deciding: str, value: int) -> None:
    deciding = deciding.format(c="T.float32(0.66666668)")  # times 6 it is above 4 in double
    assert ran(of_text(f"x = T.float32()\nI[0] = {deciding}"))[1][0] == value


@pytest.mark.parametrize("dtype", ["float32", "int4"])
def test_strides_of_a_packed_call(dtype: str) -> None:
    func = from_source(f"""
@T.prim_func
def main(a: T.handle, s: T.int32):
    A = T.match_buffer(a, (2, 3), "{dtype}", strides=[s, 1])
    T.call_packed("test.interp.strided", A)
""")
    seen: list[Any] = []
    register_func("test.interp.strided", lambda t: seen.append(t.numpy().tolist()))
    try:
        if dtype == "float32":
            run(func, [np.arange(8, dtype=dtype).reshape(2, 4)[:, :3], 4])
            assert seen == [[[0, 1, 2], [4, 5, 6]]]
        else:
            with pytest.raises(LoopwrightError, match="cannot take a strided tensor of int4"):
                run(func, [np.zeros((2, 3), "int8"), 3])
    finally:
        remove_global_func("test.interp.strided")


def test_functions_of_python_in_a_module() -> None:
    mod = {"twice": lambda x: 2 * x}
    for call in (tir.Call(I32, GlobalVar("twice"), [N + 1]), tir.call_packed("twice", N + 1)):
        value = call if call.dtype == I32 else tir.Cast(I32, call)
        value = tir.Call(I32, call.op, call.args)
        assert ran(of(tir.BufferStore(I, value, [0])), mod=mod)[1][0] == 8


def test_sizes_that_a_function_finds_itself() -> None:
    """A call with a pointer alone: the size of the memory is the function's variable."""
    k = tir.Var("k", I32)
    inner_buffer = tir.decl_buffer((k,), I32, "C")
    inner = tir.PrimFunc([inner_buffer], tir.BufferStore(inner_buffer, k + 40, [k - 1]))
    for args in ([I.data], [I.data, tir.const(8)]):
        body = tir.Evaluate(tir.Call("void", GlobalVar("inner"), args))
        assert ran(of(body), mod={"inner": inner})[1] == [*ORDER[:7], 48]


def test_an_address_of_a_pointer_is_the_pointer() -> None:
    pointer = tir.Var("p", "handle", type_annotation=(I32, "global"))
    memory = tir.decl_buffer((8,), I32, "P", data=pointer)
    taken = tir.Call("handle", "tir.address_of", [I.data])
    body = tir.LetStmt(pointer, taken, tir.BufferStore(memory, 9, [2]))
    assert ran(of(body))[1] == [0, 1, 9, *ORDER[3:]]


def test_fields_of_what_a_packed_call_is_given() -> None:
    """Numbers of types as tvm-ffi has them: 0 nothing, 1 an integer, 2 a bool, 3 a float, 7 a tensor."""
    index, value = 13, 15
    values = [None, 7, True, 2.5, np.zeros(2), "text", np.int8(3), np.float32(1), np.bool_(False)]
    kinds = [struct_get(values, n, index) for n in range(len(values))]
    assert kinds == [0, 1, 2, 3, 7, 4, 1, 3, 2]
    assert struct_get(values, 1, value) == 7 and struct_get(values, 1, 5) == 0
    with pytest.raises(LoopwrightError, match="unknown field of a tensor\n  got: 99"):
        struct_get(np.zeros(2), 0, 99)


FREE = tir.decl_buffer((4,), I32, "F")
TENSOR = te.placeholder((8,), name="X", dtype=I32)
REFUSED = {
    "tensor": (of(tir.BufferStore(I, TENSOR[N], [0])), "cannot evaluate this\n  got: ProducerLoad"),
    "variable": (
        of(tir.BufferStore(I, tir.Var("k", I32), [0])), "variable k is used before it is defined\n  got: int32",
    ),
    "buffer": (
        of(tir.BufferStore(FREE, 1, [0])), "buffer F is used outside the scope of its memory\n  got: F",
    ),
    "bytes": (
        of(tir.BufferStore(I, tir.Call(I32, "tir.reinterpret", [tir.const(1, "int8")]), [0])),
        "reinterpret needs types of one size\n  got: int8 and int32",
    ),
    "lanes at run time": (
        of(tir.Evaluate(tir.Broadcast(N, tir.vscale() * 4))), "no vectors whose length is known at run time",
    ),
    "vectors of a function": (
        vector("tir.call_pure_extern", tir.StringImm("frobnicate"), tir.Broadcast(N, 4)),
        r"no meaning of this call\n  got: tir.call_pure_extern\(frobnicate\)",
    ),
    "vectors of a global function": (
        vector(GlobalVar("frob"), tir.Broadcast(N, 4)), "no meaning of this call\n  got: frob",
    ),
    "vectors of an operator": (
        vector("tir.call_packed", tir.Broadcast(N, 4)), "no meaning of this call\n  got: tir.call_packed\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    func, said = REFUSED[name]
    with pytest.raises((LoopwrightError, ValueError), match=said):
        ran(func)


K, M = tir.Var("k", I32), tir.Var("m", I32)


@pytest.mark.parametrize("extent", [N * K, K // 2, K * 2 + N, K * K, K + M], ids=str)
def test_shapes_that_determine_no_variable(extent: Any) -> None:
    func = tir.PrimFunc([N, tir.decl_buffer((extent,), "int8", "C")], tir.Evaluate(0))
    with pytest.raises(ValueError, match="buffer C: the shape does not determine its variables"):
        run(func, [2, np.zeros(4, "int8")])
