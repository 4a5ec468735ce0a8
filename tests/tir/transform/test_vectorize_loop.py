"""`VectorizeLoop` with conditions, by default and as the pipelines of this package use it."""

import numpy as np
import pytest

from loopwright.base.errors import InternalError
from loopwright.ir.module import IRModule
from loopwright.ir.prim_expr import Let, Var
from loopwright.ir.target import Target
from loopwright.ir.transform import PassContext
from loopwright.script import from_source
from loopwright.tir import BufferStore, For, ForKind, PrimFunc, decl_buffer
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

SVE = "llvm -mtriple=aarch64-linux-gnu -mattr=+v8.2a,+sve"
TAIL = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(4):
        for j in T.vectorized(4):
            if {condition}:
                B[i * 4 + j] = A[{read}] + T.float32(1)
"""


def lowered(condition="i * 4 + j < 14", read="i * 4 + j", masks=None, **options):
    mod = IRModule({"main": from_source(TAIL.format(condition=condition, read=read))})
    config = {} if masks is None else {"tir.enable_buffer_level_predication": masks}
    with PassContext(config=config):
        func = tt.VectorizeLoop(**options)(mod)["main"]
    a, got, wanted = np.arange(16, dtype="float32"), *np.zeros((2, 16), "float32")
    run(mod["main"], [a, wanted])
    run(func, [a, got])
    np.testing.assert_array_equal(got, wanted)
    return func.script()


def test_masks_are_asked_for():
    assert "vstore" not in lowered()
    text = lowered(masks=True)
    assert text.count("T.get_active_lane_mask") == 2  # of the load and of the store
    with Target(SVE):
        assert "T.get_active_lane_mask" in lowered()
        assert "vstore" not in lowered(masks=False)


@pytest.mark.parametrize(
    ("condition", "read"),
    [("i * 4 + j < 14", "i"), ("i * 4 + j > 5", "i * 4 + j"), ("i * 4 + j < i * 2 + j * 3", "j")],
)
def test_other_masks_are_native_only(condition, read):
    assert "vstore" not in lowered(condition, read, masks=True)
    assert "vstore" in lowered(condition, read, native=True)
    assert "vstore" not in lowered(condition, read, masks=False, native=True)


@pytest.mark.parametrize(
    ("index", "between", "separate"),
    [
        ("j", "", True),
        ("j + n + 1", "", True),
        ("n + (1 + j)", "", True),
        ("n - 1 + j", "", True),
        ("j + n + j", "", False),
        ("n + 3", "", False),
        ("j * 2", "", False),
        ("j", "T.evaluate(T.isnullptr(A.data))", False),  # the call may look at all of it
        ("j", "T.evaluate(T.isnullptr(B.data))", True),
    ],
)
def test_elements_of_their_own(index, between, separate):
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), n: T.int32):
    for j in T.vectorized(4):
        if j > n:
            A[{index}] = T.float32(1)
        {between or "T.evaluate(0)"}
        A[{index}] = A[{index}] * T.float32(3)
""")
    made = tt.VectorizeLoop()(IRModule({"main": func}))["main"]
    want, got = np.full(16, 2, "float32"), np.full(16, 2, "float32")
    run(func, [want, want, 1])
    run(made, [got, got, 1])
    np.testing.assert_array_equal(got, want)
    assert ("T.Broadcast(T.float32(3.0), 4)" in made.script()) == separate


def test_statements_with_elements_of_their_own_are_separate_loops():
    mod = IRModule(
        {
            "main": from_source(
                """
@T.prim_func
def main(A: T.Buffer((4,), "float32"), n: T.int32):
    for j in T.vectorized(4):
        if j > n:
            A[j] = T.float32(1)
        A[j] = A[j] * T.float32(3)
"""
            )
        }
    )
    func = tt.VectorizeLoop()(mod)["main"]
    assert len(func.body.seq) == 2 and "T.Broadcast(T.float32(3.0), 4)" in func.script()
    got = np.full(4, 2, "float32")
    run(func, [got, 1])
    np.testing.assert_array_equal(got, [6, 6, 3, 3])


def test_memory_of_the_body_needs_no_declaration():
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "float32")):
    for j in T.vectorized(4):
        t = T.allocate([2], "float32", "local")
        B = T.Buffer((2,), data=t, scope="local")
        B[1] = A[j]
        A[j] = B[1] * T.float32(2)
"""
    func = tt.VectorizeLoop()(IRModule({"main": from_source(text)}))["main"]
    assert "for" not in func.script()
    got = np.arange(4, dtype="float32")
    run(func, [got])
    np.testing.assert_array_equal(got, [0, 2, 4, 6])


@pytest.mark.no_verify
@pytest.mark.parametrize(
    ("extent", "dtype", "value", "got"),
    [
        ("T.vscale() * 4", "float32x4", "T.Broadcast(T.float32(1), 4)", "Creating scalable"),
        ("4", "float32xvscalex4", "T.Broadcast(T.float32(1), T.vscale() * 4)", "scalable buffer"),
        ("4", "float32", "T.Broadcast(T.float32(1), T.vscale() * 4)", "existing scalable"),
    ],
)
def test_vectors_of_scalable_vectors(extent, dtype, value, got):
    place = "j" if "x" in dtype else "T.Ramp(j * 4, 1, T.vscale() * 4)"
    text = f"""
@T.prim_func
def main(A: T.Buffer((25,), "{dtype}")):
    for j in T.vectorized({extent}):
        A[{place}] = {value}
"""
    with Target(SVE), pytest.raises(InternalError, match=got):
        tt.VectorizeLoop()(IRModule({"main": from_source(text)}))


@pytest.mark.parametrize(("name", "vector"), [("llvm.sqrt", True), ("llvm.lround", False)])
def test_intrinsics_of_llvm_with_overloads_for_vectors(name, vector):
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for j in T.vectorized(8):
        B[j] = T.call_llvm_pure_intrin("float32", "{name}", T.uint32(1), A[j])
""")
    text = tt.VectorizeLoop()(IRModule({"main": func}))["main"].script()
    call = f'T.call_llvm_pure_intrin("float32x8", "{name}", T.uint32(1), A[0:8])'
    assert (call in text) == vector and ("for j" in text) != vector


BODIES = {  # statements of a vectorized loop over j: whether a serial loop is left
    "for k in range(2):\n    B[j * 4 + k] = A[j] + T.float32(k)": False,
    "for k in range(j):\n    B[j * 4 + k] = A[j]": True,
    "for k in range(I[j]):\n    B[j * 4 + k] = A[j]": True,
    "B[j] = T.Shuffle([A[0:2]], [1])": False,
    "B[j] = T.Shuffle([A[T.Ramp(j, 1, 2)]], [1])": True,
    "B[T.Ramp(j * 4, 1, 4)] = A[T.Ramp(j, 1, 4)]": True,
    "B[T.Ramp(j * 4, 1, 4)] = T.Broadcast(A[j], 4)": True,
    "B[j] = T.Let(x * x + A[0], where={x: A[j]})": False,
    "B[j] = T.Let(x * A[j], where={x: A[0]})": False,
    "y: T.float32 = A[3]\nB[j] = y + A[j]": False,
    "y: T.float32 = A[j]\nB[j] = y + y": False,
    "B[j] = T.Select(j < 2, A[j], A[j + 4])": False,
    "B[j] = T.Select(I[0] < 2, A[1], A[2]) + A[j]": False,
    "B[j] = A[I[j]]": False,
    "B[0] = A[1]": False,
    "B[0] = B[0] + A[1]": True,
    "B[0] = A[j]": True,
    "B[j // 4 + 2] = A[j]": True,
    "B[15 - j * 3] = A[j * 2 + 1]": False,
    'B[j] = T.Cast("float32", j * 3 - I[j])': False,
    'assert I[0] < 100, "large"\nB[j] = A[j]': False,
    'assert I[j] < 100, "large"\nB[j] = A[j]': True,
    'with T.attr(0, "pragma_x", 1):\n    B[j] = A[j]': False,
    "if I[0] < 2:\n    B[j] = A[j]\nelse:\n    B[j] = A[j + 4]": False,
    "if I[j] < 2:\n    B[j] = A[j]": True,
    "if T.likely(I[0] < 2):\n    B[j] = A[j]": False,
    "T.evaluate(0)\nB[j] = A[j]": False,
    "T.evaluate(j)\nB[j] = A[j]": True,
    "B[j] = T.if_then_else(j < 2, A[j], A[j + 4])": True,
    "B[j] = T.if_then_else(I[0] < 2, A[j], A[j + 4])": False,
    "P[j, 1] = A[j]": True,
    "P[1, j] = A[j]": False,
    "P[1, 2] = A[1]": False,
    "T.evaluate(T.Shuffle([T.Ramp(j, 1, 2)], [0]))\nB[j] = A[j]": True,
    "B[j] = T.Shuffle([T.Broadcast(A[0], 2)], [0])": False,
    "B[T.Ramp(0, 1, 4)] = A[T.Ramp(4, 1, 4)]": False,
    "B[j] = T.likely(A[j] > 2.0) * T.float32(3)": False,
    "if T.likely(j < 2):\n    B[j] = A[j]": True,
    "x1: T.float32 = T.exp(A[j - j])\nB[j] = x1 + A[j]": False,
    "y: T.float32 = A[j]\nz: T.float32 = y + T.float32(1)\nB[j] = z * y": False,
    "y: T.int32 = j\nz: T.int32 = I[y]\nB[j] = A[z]": False,
    "if T.Let(x > 2.0, where={x: A[0]}):\n    B[j] = A[j]": False,
    "B[j + 1] = T.exp(A[I[0]]) + A[j]": False,
    "B[I[j]] = A[j]": False,
    "B[j * 2 - j] = A[(j + 3) * 2 - 6]": False,
    "B[3 + j] = A[5 - j]": False,
    "B[j] = T.Cast('float32', T.Cast('int64', j) * T.int64(2))": False,
    "T.evaluate(T.Ramp(j, 1, 2))\nB[j] = A[j]": True,
    "y: T.float32 = T.Select(I[0] < 2, A[1], A[2])\nB[j] = y + A[j]": False,
    "y: T.float32 = T.exp(T.Select(I[0] < 2, A[1], A[2]))\nB[j] = y + A[j]": False,
    "B.vstore([j], A[j], predicate=I[0] < 2)": False,
    "B.vstore([j], A[j], predicate=j < 2)": False,
    "B.vstore([0], A[1], predicate=j < 2)": True,
    "if j - j < I[1]:\n    B[j] = A[j]": True,
}


@pytest.mark.sample(2)
@pytest.mark.no_roundtrip
@pytest.mark.parametrize("extent", [1, 2, 4])
@pytest.mark.parametrize("body", BODIES)
def test_bodies(body, extent):
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    func = from_source(
        f"""
@T.prim_func
def main(
    A: T.Buffer((16,), "float32"), B: T.Buffer((32,), "float32"), I: T.Buffer((4,), "int32"),
    P: T.Buffer((4, 4), "float32"),
):
    x = T.float32()
    for j in T.vectorized({extent}):
{lines}"""
    )
    mod = IRModule({"main": func})
    made = tt.VectorizeLoop()(mod)["main"]
    results = []
    for each in (func, made, tt.VectorizeLoop(enable_vectorize=False)(mod)["main"]):
        args = [np.arange(n, dtype=t) for n, t in ((16, "f4"), (32, "f4"), (4, "i4"))]
        args.append(np.zeros((4, 4), "float32"))
        run(each, args)
        results.append(args)
    for other in results[1:]:
        for want, got in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(got, want)
    serial = made.script().count("for j")
    assert serial == (BODIES[body] and extent > 1)
    assert "vectorized" not in made.script()


SPREAD = """
@T.prim_func
def main(a: T.handle, B: T.Buffer((16,), "float32"), n: T.int32):
    A = T.match_buffer(a, (n * 4,), "float32")
    for i in range(4):
        for j in T.vectorized(4):
            B[i * 4 + j] = A[i * n + T.Select(n == 1, 0, j)]
"""


@pytest.mark.parametrize("native", [False, True])
def test_an_index_that_all_lanes_choose_alike(native):
    """One element for all lanes, or those side by side: what broadcasts at run time is not gathered."""
    mod = IRModule({"main": from_source(SPREAD)})
    func = tt.VectorizeLoop(native=native)(mod)["main"]
    for n in (1, 4):
        a, got = np.arange(n * 4, dtype="float32"), np.zeros(16, "float32")
        run(func, [a, got, n])
        np.testing.assert_array_equal(got, np.repeat(a, 4) if n == 1 else a)
    text = func.script()
    assert "T.if_then_else(n == 1, T.Broadcast(A[i * n], 4), A[i * n:i * n + 4])" in text


def test_a_variable_that_is_bound_again_has_the_new_value():
    """An expression with a binding that was inlined twice: of a vector, then of a scalar, and within another."""
    v, x, j = Var("v", "float32"), decl_buffer((4,), "float32", "X"), Var("j", "int32")
    y = decl_buffer((4,), "float32", "Y")
    scalar, vector = (Let(v, x[i] + 1.0, v * v) for i in (0, j))
    value = vector + scalar + Let(v, x[j], Let(v, x[3], v) + v)
    loop = For(j, 0, 4, ForKind.VECTORIZED, BufferStore(y, value, [j]))
    params = [Var("x", "handle"), Var("y", "handle")]
    func = PrimFunc(params, loop, buffer_map=dict(zip(params, (x, y), strict=True)))
    made = tt.VectorizeLoop()(IRModule({"main": func}))["main"]
    data, got = np.arange(1, 5, dtype="float32"), np.zeros(4, "float32")
    run(made, [data, got])
    np.testing.assert_array_equal(got, (data + 1) ** 2 + 4 + 4 + data)
