"""Native entries: what they accept, refuse and return, from Python."""

import gc
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from loopwright.codegen.llvm import abi, debug_info, support
from loopwright.codegen.llvm.abi import c_string
from loopwright.codegen.llvm.entry import Entry
from loopwright.codegen.llvm.jit import compile_object
from loopwright.runtime import PackedFunc, ShapeTuple, Tensor, tensor
from loopwright.runtime.signature import Argument
from tests.codegen.native import function, load

ADD = """
define internal i32 @kernel(ptr %a, ptr %b, ptr %o, i64 %n) {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %exit
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %pa = getelementptr float, ptr %a, i64 %i
  %pb = getelementptr float, ptr %b, i64 %i
  %po = getelementptr float, ptr %o, i64 %i
  %x = load float, ptr %pa, align 4
  %y = load float, ptr %pb, align 4
  %s = fadd float %x, %y
  store float %s, ptr %po, align 4
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %n
  br i1 %more, label %loop, label %exit
exit:
  ret i32 0
}
"""


@pytest.fixture(scope="module")
def add():
    params = [Argument("a", "float32", ("n",)), Argument("b", "float32", ("n",))]
    entry = Entry("add", "kernel", params, [Argument("o", "float32", ("n",))]).text()
    return function(entry + ADD, "add")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_room_for_results(count):
    """Several results leave as an array of values, of as many; one needs none."""
    results = [Argument(f"o{k}", "float32", (3,)) for k in range(count)]
    text = Entry("f", "kernel", [Argument("a", "float32", (3,))], results).text()
    assert ("%values = alloca" in text) == (count > 1)
    assert (f"[{count} x {{ i64, ptr }}]" in text) == (count > 1)
    assert all((f"%own{k} = alloca" in text) == (k < count) for k in range(3))


@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_all_kinds_of_arrays_come_in_and_a_tensor_goes_out(add, n):
    a, b = np.arange(n, dtype="float32"), np.ones(n, "float32")
    frozen = b.copy()
    frozen.flags.writeable = False
    for x, y in [(a, b), (tensor(a), b), (tensor(a).__tvm_ffi_object__(), tensor(b)), (a, frozen)]:
        result = add(x, y)
        assert isinstance(result, Tensor)
        assert (result.shape, result.dtype, result.strides) == ((n,), "float32", (1,))
        assert result.data_ptr() % 64 == 0
        np.testing.assert_array_equal(result.numpy(), a + 1)
    chained = add(add(a, b), b)
    np.testing.assert_array_equal(chained.numpy(), a + 2)


def test_a_torch_tensor_comes_in(add):
    torch = pytest.importorskip("torch")
    result = add(torch.arange(3, dtype=torch.float32), np.ones(3, "float32"))
    assert isinstance(result, Tensor) and result.numpy().tolist() == [1, 2, 3]


A, B = np.zeros(4, "float32"), np.ones(4, "float32")


@pytest.mark.parametrize(
    "args, kind, message",
    [
        ((A,), TypeError, "add: expected 2 arguments, got 1"),
        ((A, 3), TypeError, "add: argument 1 `b` must be a tensor, got an int"),
        ((A, None), TypeError, "add: argument 1 `b` must be a tensor, got None"),
        ((A, 2.5), TypeError, "add: argument 1 `b` must be a tensor, got a float"),
        ((A, "x"), TypeError, "add: argument 1 `b` must be a tensor, got a str"),
        ((A, (A, B)), TypeError, "add: argument 1 `b` must be a tensor, got a tuple"),
        ((A, ShapeTuple([4])), TypeError, "add: argument 1 `b` must be a tensor, got a shape"),
        ((A, B.astype("int64")), ValueError, "`b` has dtype int64, expected dtype float32"),
        ((A, B.astype("bool")), ValueError, "`b` has dtype bool, expected dtype float32"),
        ((A, B.astype(ml_dtypes.bfloat16)), ValueError, "`b` has dtype bfloat16, expected"),
        ((A, B[None]), ValueError, "`b` has ndim 2, expected ndim 1"),
        ((A, B[:3]), ValueError, r"`b` has shape\[0\] = 3, expected 4"),
        ((A[::2], B[::2]), ValueError, "argument 0 `a` is not contiguous.*ascontiguousarray"),
    ],
)
def test_what_is_wrong_is_said(add, args, kind, message):
    with pytest.raises(kind, match=message):
        add(*args)
    assert add(A, B).numpy().tolist() == [1, 1, 1, 1], "an error leaves the function usable"


@pytest.mark.parametrize("shape", [(3, 1, 2), (0, 5), ()])
def test_strides_that_do_not_matter_are_accepted(shape):
    arg = Argument("a", "float32", shape)
    f = function(
        Entry("f", "k", [arg]).text() + "define internal i32 @k(ptr %a) {\n  ret i32 0\n}", "f"
    )
    array = np.zeros(shape, "float32")
    odd = np.lib.stride_tricks.as_strided(
        array, shape, [999 if s in (0, 1) else t for s, t in zip(shape, array.strides)]
    )
    assert f(odd) is None


def test_scalars_and_several_results():
    kernel = """
define internal i32 @k(i64 %x, double %y, ptr %o, ptr %p) {
  store i64 %x, ptr %o, align 8
  store double %y, ptr %p, align 8
  ret i32 0
}
"""
    entry = Entry(
        "f",
        "k",
        [Argument("x", "int64"), Argument("y", "float64")],
        [Argument("o", "int64", ()), Argument("p", "float64", (1, 1))],
    ).text()
    f = function(entry + kernel, "f")
    for x, y in [(3, 2.5), (True, 4), (np.int32(7), np.float32(0.5))]:
        o, p = f(x, y)
        assert (o.shape, o.item(), p.shape, p.item()) == ((), int(x), (1, 1), float(y))
    with pytest.raises(TypeError, match="argument 0 `x` must be an int, got a float"):
        f(2.5, 1)
    with pytest.raises(TypeError, match="argument 1 `y` must be a float, got None"):
        f(1, None)


def test_shapes_and_tuples():
    text = abi.descriptor("d0", "f", "s", 0, dims=(abi.symbol(0), 3))
    text += abi.descriptor("d1", "f", "t", 1, dims=(0, 0))
    text += abi.descriptor("d2", "f", "t[1]", 1, "float32", (abi.symbol(0),))
    text += """
define i32 @f(ptr %self, ptr %args, i32 %n, ptr %ret) {
  %vars = alloca i64
  store i64 -1, ptr %vars
  %s = call ptr @lw_arg_shape(ptr %args, ptr @d0, ptr %vars)
  %bad0 = icmp eq ptr %s, null
  br i1 %bad0, label %fail, label %tuple
tuple:
  %p1 = getelementptr i8, ptr %args, i64 16
  %t = call ptr @lw_arg_tuple(ptr %p1, ptr @d1)
  %bad1 = icmp eq ptr %t, null
  br i1 %bad1, label %fail, label %element
element:
  %e = getelementptr i8, ptr %t, i64 16
  %x = call ptr @lw_arg_tensor(ptr %e, ptr @d2, ptr %vars)
  %bad2 = icmp eq ptr %x, null
  br i1 %bad2, label %fail, label %good
good:
  %v = load i64, ptr %vars
  store i64 1, ptr %ret
  %rp = getelementptr i8, ptr %ret, i64 8
  store i64 %v, ptr %rp
  ret i32 0
fail:
  ret i32 -1
}
"""
    f = function(text, "f")
    assert f(ShapeTuple([4, 3]), (1, A)) == 4
    assert f(ShapeTuple([4, 3]), [None, A]) == 4
    with pytest.raises(ValueError, match=r"argument 0 `s` has shape\[1\] = 2, expected 3"):
        f(ShapeTuple([4, 2]), (1, A))
    with pytest.raises(ValueError, match="`s` has 1 elements, expected 2"):
        f(ShapeTuple([4]), (1, A))
    with pytest.raises(ValueError, match="`t` has 1 elements, expected 2"):
        f(ShapeTuple([4, 3]), (A,))
    with pytest.raises(ValueError, match=r"argument 1 `t\[1\]` has shape\[0\] = 4, expected 5"):
        f(ShapeTuple([5, 3]), (1, A))
    with pytest.raises(TypeError, match="`s` must be a shape, got a tensor"):
        f(A, (1, A))
    with pytest.raises(TypeError, match="`t` must be a tuple, got an int"):
        f(ShapeTuple([4, 3]), 1)


def test_native_code_calls_python():
    seen = []

    def python(x, y):
        seen.append(type(x))
        return tensor(x.numpy() + y)

    packed = PackedFunc(python)
    text = f"""
declare i32 @TVMFFIFunctionCall(ptr, ptr, i32, ptr)
define i32 @f(ptr %self, ptr %args, i32 %n, ptr %ret) {{
  %h = inttoptr i64 {packed.handle()} to ptr
  %rc = call i32 @TVMFFIFunctionCall(ptr %h, ptr %args, i32 %n, ptr %ret)
  ret i32 %rc
}}
"""
    f = function(text, "f")
    assert f(A, 2).numpy().tolist() == [2, 2, 2, 2] and seen == [Tensor]
    failing = PackedFunc(lambda x, y: 1 // 0)
    with pytest.raises(ZeroDivisionError, match="division"):
        function(text.replace(str(packed.handle()), str(failing.handle())), "f")(A, 2)


def test_results_outlive_their_code():
    params = [Argument("a", "float32", ("n",)), Argument("b", "float32", ("n",))]
    entry = Entry("short_lived", "kernel", params, [Argument("o", "float32", ("n",))]).text()
    f = function(entry + ADD, "short_lived")
    result = f(np.ones(1000, "float32"), np.ones(1000, "float32"))
    del f
    gc.collect()
    assert result.numpy().sum() == 2000


def test_calls_from_many_threads(add):
    wrong = []

    def work(seed):
        x = np.full(64, seed, "float32")
        for _ in range(500):
            if add(x, x).view()[0] != 2 * seed:
                wrong.append(seed)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert not wrong


def test_a_kernel_that_fails_drops_its_results():
    kernel = c_string("kind", "KeyError") + c_string("text", "not in the kernel")
    kernel += "define internal i32 @k(ptr %o, ptr %p) {\n"
    kernel += "  call void @lw_raise(ptr @kind, ptr @text)\n  ret i32 1\n}"
    results = [Argument("o", "float32", (3,)), Argument("p", "float32", (3,))]
    f = function(Entry("f", "k", [], results).text() + kernel, "f")
    for _ in range(3):
        with pytest.raises(KeyError, match="not in the kernel"):
            f()


def test_memory_that_cannot_be_had():
    f = function(
        Entry("huge", "k", [], [Argument("o", "float32", (1 << 60,))]).text()
        + "define internal i32 @k(ptr %o) {\n  ret i32 0\n}",
        "huge",
    )
    with pytest.raises(
        MemoryError,
        match="huge: result o: cannot allocate a tensor of 140737488355329 elements or more",
    ):
        f()


def _many(count, huge=None):
    """The entry of a kernel with many results, one of which no memory holds."""
    shapes = [(1 << 60,) if k == huge else (1 << 16,) for k in range(count)]
    results = [Argument(f"o{k}", "float32", shape) for k, shape in enumerate(shapes)]
    given = ", ".join(f"ptr %o{k}" for k in range(count))
    entry = Entry("many", "k", [], results).text()
    return entry + f"define internal i32 @k({given}) {{\n  ret i32 0\n}}"


def test_what_was_allocated_before_a_result_is_freed():
    f = function(_many(200, huge=199), "many")
    with pytest.raises(MemoryError, match="result o199"):
        f()
    before = _address_space()
    for _ in range(20):
        with pytest.raises(MemoryError, match="result o199"):
            f()
    assert _address_space() - before < 100 << 20  # a call allocates 50 MB


def _address_space():
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def test_the_code_of_an_entry_grows_with_its_results_alone():
    known = support.declarations(_many(2))
    small, large = (len(compile_object(known + _many(n))) for n in (100, 400))
    assert large < 4.4 * small


def test_the_library_lists_what_it_exports():
    library = load("define void @one() {\n  ret void\n}", "one")
    assert list(library) == ["one"] and len(library) == 1
    with pytest.raises(
        KeyError, match="'two' was not among the exports of load_objects; exported: one"
    ):
        library["two"]


@pytest.mark.parametrize(
    ("dims", "rank", "sizes"),
    [(None, -1, "[0 x i64] zeroinitializer"), ((), 0, "[0 x i64] zeroinitializer"),
     ((2, -1), 2, "[2 x i64] [i64 2, i64 -1]")],
)  # fmt: skip
def test_what_is_told_of_an_argument(dims, rank, sizes):
    text = abi.descriptor("x", "f", "a", 3, "float32", dims)
    code, bits, lanes = 2, 32, 1
    dtype = code | bits << 8 | lanes << 16
    assert f"i32 3, i32 {rank}, i32 {dtype}, i32 1, {sizes} }}, align 8" in text
    assert f"constant {{ ptr, ptr, i32, i32, i32, i32, [{max(rank, 0)} x i64] }}" in text
    assert text.startswith(abi.c_string("x.f", "f") + abi.c_string("x.a", "a"))


def test_texts_of_llvm():
    """Printable characters as they are, but for quotes and backslashes."""
    assert c_string("n", 'a"\\\x7f~ \x1f').endswith('[8 x i8] c"a\\22\\5C\\7F~ \\1F\\00"\n')
    written = abi.constant_bytes("n", b"\x7f~\x00", 8)
    assert written == '@"n" = constant [3 x i8] c"\\7F~\\00", align 8\n'
    assert debug_info._quoted('\x7f~"é') == '"\\7F~\\22\\C3\\A9"'
