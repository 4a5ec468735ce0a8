"""Memory is aligned as buffers say: on the stack, in workspaces, in C, between the calls of a graph."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.base.errors import LoopwrightError
from loopwright.ir.module import IRModule
from loopwright.script import from_source
from loopwright.script import tir as T

PLACES = {
    "alloc_buffer": "C = T.alloc_buffer(({size},), align={align})",
    "decl_buffer": "C = T.decl_buffer(({size},), align={align})",
    "allocate": (
        "c = T.allocate([{size}], 'float32', 'global')\n"
        "    C = T.Buffer(({size},), data=c, align={align})"
    ),
    "annotated": (
        "c = T.allocate([{size}], 'float32', 'global', annotations={{'alignment': {align}}})\n"
        "    C = T.Buffer(({size},), data=c)"
    ),
}
SOURCE = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), out: T.Buffer((8,), "uint64"), n: T.int64):
    T.func_attr({{"global_symbol": "main"}})
    {place}
    for j in range(8):
        C[j] = A[j] * T.float32(2)
    for i in range(8):
        out[i] = T.reinterpret("uint64", C.data) % T.uint64({align}) + T.Cast("uint64", C[i])
"""


def program(place: str, align: int, size: object = 8) -> IRModule:
    text = SOURCE.format(place=PLACES[place].format(size=size, align=align), align=align)
    return IRModule({"main": from_source(text)})


A = np.arange(8, dtype="float32")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("align", [64, 128, 4096])
@pytest.mark.parametrize("size", [8, 1 << 17, "n"], ids=["stack", "workspace", "symbolic"])
def test_llvm(place, align, size):
    out = np.ones(8, "uint64")
    lw.compile(program(place, align, size), "llvm")["main"](A, out, 8)
    np.testing.assert_array_equal(out, 2 * np.arange(8))


@pytest.mark.sample(2)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("align", [128, 4096])
@pytest.mark.parametrize("size", [8, 1 << 12])
def test_c(place, align, size):
    model = lw.compile(program(place, align, size), "c")
    out = np.ones(8, "uint64")
    model.build()(A, out, 8)
    np.testing.assert_array_equal(out, 2 * np.arange(8))


def test_small_arrays_of_c_are_no_arrays_where_they_need_more():
    """An array of C99 cannot say it; the scratch memory of the caller has to suffice."""
    module = from_source("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def kernel(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        own = T.alloc_buffer((8,))
        more = T.alloc_buffer((8,), align=128)
        for i in range(8):
            own[i] = x[i]
            more[i] = x[i]
        for i in range(8):
            y[i] = own[7 - i] + more[7 - i]

    @R.function
    def main(x: R.Tensor((8,), "float32")):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.kernel, (x,), out_sinfo=R.Tensor((8,), "float32"))
            R.output(y)
        return y
""")
    model = lw.compile(module, "c")
    text = "".join(model.texts.values())
    assert "  float own[8];" in text
    assert "float* const more = (float*)(((uintptr_t)(scratch) + 127) & ~(uintptr_t)127);" in text
    assert model.workspace_bytes >= 32 + 128 - 64
    np.testing.assert_array_equal(model.build()(A).reshape(-1), 2 * A[::-1])


def test_a_task_s_own_memory():
    @T.prim_func
    def main(out: T.Buffer((64,), "uint64")):
        T.func_attr({"global_symbol": "main"})
        for i in T.parallel(64):
            C = T.decl_buffer((1 << 15,), align=256)
            C[0] = T.float32(1)
            out[i] = T.reinterpret("uint64", C.data) % T.uint64(256) + T.Cast("uint64", C[0])

    out = np.zeros(64, "uint64")
    lw.compile(main)["main"](out)
    np.testing.assert_array_equal(out, 1)


@pytest.mark.parametrize("kind", ["vectorized", "serial"])
def test_less_alignment_than_an_element_has_is_not_assumed(kind):
    main = from_source(f"""
@T.prim_func
def main(a: T.handle, b: T.handle, c: T.handle):
    T.func_attr({{"global_symbol": "main"}})
    A = T.match_buffer(a, (16,), "float64", align=2)
    B = T.match_buffer(b, (16,), "float64")
    C = T.match_buffer(c, (16,), "float64", align=1)
    for i in T.{kind}(16):
        if i < 13:
            B[i] = A[i]
            C[i] = A[15 - i]
""")
    with pytest.raises(LoopwrightError, match="elements of [AC] at multiples of their size"):
        lw.compile(main, "c")
    text = lw.compile(main).as_text().partition("define")[2].partition("}")[0]
    assert ", align 2" in text
    assert ("i32 1, <16 x i1>" if kind == "vectorized" else ", align 1") in text
    assert ("i32 8, <16 x i1>" if kind == "vectorized" else ", align 8") in text


@pytest.mark.parametrize("align", [3, 48, 100])
def test_an_alignment_is_a_power_of_two(align):
    with pytest.raises(ValueError) as error:
        tir.decl_buffer((4,), name="C", data_alignment=align)
    near = 1 << align.bit_length()
    assert str(error.value) == (
        f"the alignment of buffer C is a power of two\n  got: {align}\n  instead: align={near}"
    )


@pytest.mark.parametrize("place", ["alloc_buffer", "decl_buffer", "allocate"])
def test_more_alignment_than_memory_has(place):
    with pytest.raises(LoopwrightError) as error:
        lw.compile(program(place, 8192))
    assert str(error.value).startswith(
        "buffer C cannot be aligned to 8192 bytes\n"
        "  instead: align=4096 at most; take more memory and align the pointer"
    )


def test_an_attribute_that_is_no_power_of_two():
    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        T.func_attr({"global_symbol": "main", "alignment": 100})
        A[0] = T.float32(1)

    with pytest.raises(LoopwrightError, match="is a power of two\n  got: 100"):
        lw.compile(main)


@pytest.mark.parametrize("arenas", [[], ["ram"]], ids=["workspace", "arenas"])
@pytest.mark.parametrize("by_attribute", [True, False])
def test_tensors_between_kernels(by_attribute, arenas):
    attrs = {"tir.noalias": True, **({"alignment": 512} if by_attribute else {})}
    align = "" if by_attribute else ", align=512"
    module = from_source(f"""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def kernel(x: T.handle, y: T.handle):
        T.func_attr({attrs!r})
        X = T.match_buffer(x, (3,), "uint64"{align})
        Y = T.match_buffer(y, (3,), "uint64")
        for i in range(3):
            Y[i] = X[i] + T.reinterpret("uint64", X.data) % T.uint64(512)

    @R.function
    def main(x: R.Tensor((3,), "uint64")):
        cls = Module
        with R.dataflow():
            a = R.add(x, x)
            b = R.call_tir(cls.kernel, (a,), out_sinfo=R.Tensor((3,), "uint64"))
            c = R.call_tir(cls.kernel, (b,), out_sinfo=R.Tensor((3,), "uint64"))
            d = R.add(c, a)
            R.output(d)
        return d
""")
    exe = lw.compile(module, arenas=arenas)
    np.testing.assert_array_equal(exe["main"](np.arange(3, dtype="uint64")), 4 * np.arange(3))


@pytest.mark.parametrize("size", [3, 3000], ids=["small", "large"])
@pytest.mark.parametrize("options", [{}, {"arenas": ["ram"]}], ids=["workspace", "arenas"])
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_scratch_of_kernels(target, options, size):
    module = from_source(f"""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def kernel(x: T.Buffer((3,), "uint64"), y: T.Buffer((3,), "uint64")):
        S = T.alloc_buffer(({size},), "uint64", align=512)
        for i in range(3):
            S[i] = x[2 - i] + T.reinterpret("uint64", S.data) % T.uint64(512)
        for i in range(3):
            y[i] = S[i]

    @R.function
    def main(x: R.Tensor((3,), "uint64")):
        cls = Module
        with R.dataflow():
            b = R.call_tir(cls.kernel, (x,), out_sinfo=R.Tensor((3,), "uint64"))
            c = R.call_tir(cls.kernel, (b,), out_sinfo=R.Tensor((3,), "uint64"))
            R.output(c)
        return c
""")
    exe = lw.compile(module, target, **options)
    main = exe["main"] if target == "llvm" else exe.build()
    out = main(np.arange(3, dtype="uint64"))
    np.testing.assert_array_equal(out, np.arange(3))
