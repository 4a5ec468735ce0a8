"""Values, tools and libraries of the runtime at their edges."""

from __future__ import annotations

import io
import shutil
import struct
import sys

import ml_dtypes
import numpy as np
import pytest

import loopwright as lw
import loopwright.testing.vm  # registers functions
from loopwright import runtime
from loopwright.base.errors import LoopwrightError
from loopwright.runtime import Module, ShapeTuple, Tensor, get_global_func, library, tensor, threads
from loopwright.runtime.arguments import prepared
from loopwright.runtime.c_compiler import find_compiler, run_tool
from loopwright.runtime.dtype import numpy_dtype
from loopwright.runtime.extern import ExternLibrary
from loopwright.runtime.ffi import ffi
from loopwright.runtime.library import LoadedLibrary
from loopwright.runtime.module import run_by_name
from loopwright.runtime.native import PythonView, from_ffi, native_view
from loopwright.runtime.signature import Argument, Signature
from loopwright.runtime.tensor import PackedTensor, capsule_of
from loopwright.runtime.vm import ExecBuilder, Machine, values
from loopwright.runtime.vm.builtins import as_function
from loopwright.runtime.vm.executable import Executable
from loopwright.script import tir as T


class Foreign:
    """What only speaks DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_what_only_speaks_dlpack_is_a_tensor():
    array = np.arange(6, dtype="float32").reshape(2, 3)
    for given, shared in ((array, True), (array.T, False)):
        known = Signature((Argument("x", "float32", given.shape),))
        foreign = Foreign(given)
        (made,) = prepared("f", known, [foreign])
        assert (made is foreign) == shared
        copied = tensor(foreign)
        np.testing.assert_array_equal(copied.numpy(), given)
        inside = values.arrive(Foreign(array))
        assert inside.data_ptr() == array.ctypes.data
    constant = ExecBuilder().convert_constant(Foreign(array))
    assert constant.kind == "c"


@pytest.mark.parametrize("name", ["int4", "bfloat16", "float8_e4m3fn", "float4_e2m1fn", "bool"])
def test_types_by_name(name):
    assert numpy_dtype(name) == np.dtype(getattr(ml_dtypes, name, name))


@pytest.mark.parametrize("name", ["finfo", "int3", "abacus"])
def test_names_that_are_no_types(name):
    with pytest.raises(ValueError, match=f"dtype '{name}' has no numpy type"):
        numpy_dtype(name)


@pytest.mark.parametrize(
    ("wanted", "what", "package"),
    [
        (None, "a C compiler is not installed\n", "gcc"),
        ("tcc", "C compiler tcc is not installed\n", "gcc"),
        (
            "aarch64-linux-gnu-gcc",
            "compiler aarch64-linux-gnu-gcc is not installed\n",
            "gcc-aarch64-linux-gnu",
        ),
    ],
)
def test_compilers_that_are_missing(wanted, what, package, monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(LoopwrightError) as told:
        find_compiler(wanted)
    assert what in str(told.value) and f"apt install {package} (or clang)" in str(told.value)
    monkeypatch.setattr(shutil, "which", lambda name: name if name in ("clang", wanted) else None)
    assert find_compiler(wanted) == (wanted or "clang")


def test_what_a_library_from_outside_is_made_of(tmp_path):
    source = tmp_path / "a.c"
    source.write_text("int f(void) { return 1; }\n")

    def digest(prototype="int f(void)", library=None, sources=(source,)):
        return ExternLibrary("a", [prototype], sources=sources, library=library).digest()

    known = [digest(), digest("long f(void)"), digest(library="libm.so.6"), digest(sources=())]
    assert len({*known}) == 4 and digest() == known[0]
    source.write_text("int f(void) { return 2; }\n")
    assert digest() not in known
    with pytest.raises(LoopwrightError, match="external library a cannot be loaded"):
        ExternLibrary("a", ["int f(void)"], library=str(tmp_path / "none.so"))._open()
    whole = tmp_path / "libwhole.so"
    flags = ["-lm"]
    made = ExternLibrary("a", ["int f(void)"], library=str(whole), link=flags)
    assert made.linker_flags() == ["-lm", f"-l{whole}"]
    whole.touch()
    assert made.linker_flags() == ["-lm", str(whole), f"-Wl,-rpath,{tmp_path}"]
    assert ExternLibrary("a", ["int f(void)"], link=flags).linker_flags() == flags


def test_profiles_of_libraries():
    calls = []
    loaded = LoadedLibrary({"main": lambda *args: calls.append(args), "f": print}, kind="library")
    profile = loaded.profile(1, 2, number=3)
    assert calls == [(1, 2)] * 3
    (entry,) = profile
    assert (entry.name, entry.calls) == ("main", 3) and 0 <= entry.total_us < 1e6
    loaded.profile(5)
    assert calls[3:] == [(5,)]
    with pytest.raises(LoopwrightError, match="native code, without calls"):
        loaded.watched_machine()
    loaded.run_on(machine := Machine(ExecBuilder().get(), {}))
    assert loaded.watched_machine() is machine


def test_functions_of_tvm_ffi_in_registers():
    package = ffi()
    name = "test_more_values.sum"
    seen = []

    def sum_(x, rest):
        seen.append((type(x).__module__.split(".")[0], type(rest).__name__))
        return [x, *rest]

    package.register_global_func(name, sum_, override=True)
    try:
        view = get_global_func(name)
        assert isinstance(view, PythonView) and runtime.convert(view) is view
        assert native_view(view) is view.__tvm_ffi_object__()
        assert type(from_ffi(np.float32([1, 2]))) is Tensor and from_ffi(len) is len
        call = values.inward(view)
        x = tensor([1, 2]).__tvm_ffi_object__()
        got = call(x, (3, (4,)))
        assert seen == [("tvm_ffi", "Array")]
        assert isinstance(got, tuple) and got[0].data_ptr() == x.data_ptr()
        assert got[1:] == (3, (4,))
    finally:
        package.remove_global_func(name)


def test_what_arrives_in_registers():
    package = ffi()
    for number, kind in ((np.float32(1.5), float), (np.int8(3), int), (np.bool_(True), bool)):
        got = values.arrive(number)
        assert got == number and type(got) is kind
    shape = values.arrive(package.Shape((2, 3)))
    assert shape == (2, 3) and type(shape) is ShapeTuple
    assert type(values.arrive((1, 2))) is ShapeTuple and values.arrive(()) == ()
    assert type(values.arrive((True, 2))) is tuple and type(values.arrive([1, 2])) is tuple
    texts = values.arrive(np.array(["a", "b"]))
    assert texts.dtype == object and values.depart(texts) is texts
    array = package.convert([1, [2, 3]])
    assert values.depart(array) == [1, [2, 3]] and values.arrive(array) == (1, (2, 3))
    assert values.item(array, 0) == 1 and values.item((5, 6), 1) == 6
    plain = values.depart(np.arange(2))
    assert isinstance(plain, Tensor) and plain.numpy().tolist() == [0, 1]
    inner = tensor([1]).__tvm_ffi_object__()
    assert runtime.from_dlpack(inner).__tvm_ffi_object__() is inner
    known: dict[int, object] = {}
    inside = values.arrive(given := tensor([1]), known)
    assert values.depart(inside, known) is given and values.depart(inside) is not given


def test_what_registers_call():
    asked = []
    assert as_function("f", lambda name: asked.append(name) or len) is len and asked == ["f"]
    assert as_function(len, asked.append) is len
    with pytest.raises(TypeError, match="expected a function\n  got: int"):
        as_function(3, asked.append)
    check = get_global_func("vm.builtin.check_tuple_info")
    check(ffi().convert([1, 2]), 2)
    with pytest.raises(ValueError, match="must have 3 elements\n  got: 2"):
        check(ffi().convert([1, 2]), 3)


def test_instruments_may_run_what_they_see():
    ib = ExecBuilder()
    with ib.function("f", 1):
        ib.emit_call("test.vm.add", [ib.r(0), ib.r(0)], ib.r(1))
        ib.emit_ret(ib.r(1))
    machine, seen = Machine(ib.get(), {}), []

    def watch(function, name, before, result, *args):
        if before:
            seen.append(function(*args).numpy().tolist())

    machine.set_instrument(watch)
    assert machine["f"](tensor([1.0, 2.0])).numpy().tolist() == [2, 4] and seen == [[2, 4]]


def test_packed_tensors_cross():
    t = tensor([1, -2, 3], dtype="int4")
    shared, copied = (runtime.from_dlpack(v) for v in (t, Foreign(t)))
    assert shared is t and copied.dtype == "int4"
    capsule = t.__dlpack__(copy=True)
    t[0] = 7
    assert [int(v) for v in copied.numpy()] == [7, -2, 3]
    del capsule
    kept = ffi().from_dlpack(Copied(t))
    t[1] = 7
    assert [int(v) for v in Tensor.from_ffi(kept).numpy()] == [7, -2, 3]
    plain = Tensor.__new__(Tensor)
    plain._array, plain._ffi = None, t.__tvm_ffi_object__()
    assert [int(v) for v in plain.view()] == [7, 7, 3]
    wide = runtime.empty((3,), "int32")
    assert t.copyto(wide) is wide and t.copyto(lw.cpu()) is not t
    ones = tensor([1, 0, 1], dtype="uint1")
    assert ones.numpy().tolist() == [1, 0, 1]
    assert PackedTensor.on(
        ffi().from_dlpack(capsule_of(np.zeros(1, np.uint8), "int4", (2,), (1,)))
    ).shape == (2,)


class Copied(Foreign):
    def __dlpack__(self, **options):
        return self.array.__dlpack__(copy=True)


def test_how_many_threads(monkeypatch):
    monkeypatch.setattr(threads, "_pools", [])
    monkeypatch.setattr(threads, "_chosen", None)
    monkeypatch.setenv("LOOPWRIGHT_NUM_THREADS", "3")
    assert threads.num_threads() == 3
    threads.set_num_threads(2)
    assert threads.num_threads() == 2
    calls = []

    class Pool:
        def __init__(self, follows):
            self.follows = follows

        def call(self, *what):
            calls.append((self.follows, *what))
            return 5

    monkeypatch.setattr(threads, "_pools", [Pool(False), Pool(True)])
    assert threads.num_threads() == 5
    threads.set_num_threads(4)
    threads._after_fork()
    assert calls == [
        (True, "lw_num_threads"),
        (True, "lw_set_num_threads", 4),
        (False, "lw_pool_reset"),
        (True, "lw_pool_reset"),
    ]


def test_an_executable_is_its_library():
    made = Executable(Module({"main": lambda x: x + 1, "f": len}))
    assert made.module is made and made(1) == 2 and made["f"]([1]) == 1
    assert made.function_names() == ["main", "f"] == made.globals
    with pytest.raises(AttributeError):
        made.nothing


@T.prim_func
def add(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
    for i in range(4):
        b[i] = a[i] + T.float32(1)


def test_native_functions_tell_their_name_and_address():
    native = lw.compile(add).program.load()["add"]
    assert repr(native) == "<NativeFunction add>"
    assert native.handle() == native.__tvm_ffi_object__().__chandle__() != 0


@pytest.mark.parametrize(("pixels", "channels"), [("RGB", 3), ("BGR", 3), ("Grayscale", 1)])
def test_pictures(pixels, channels):
    image = pytest.importorskip("PIL.Image")
    values = np.arange(24, dtype="uint8").reshape(2, 4, 3) * 9
    file = io.BytesIO()
    image.fromarray(values).save(file, "PNG")
    decode = get_global_func("relax.run.decode_image")
    got = decode(tensor(np.frombuffer(file.getvalue(), "uint8")), pixels).numpy()
    assert got.shape == (2, 4, channels) and got.dtype == np.uint8
    if channels == 3:
        np.testing.assert_array_equal(got, values if pixels == "RGB" else values[..., ::-1])
    else:  # the luma of ITU-R 601
        want = values @ np.array([0.299, 0.587, 0.114])
        assert abs(got[..., 0] - want).max() <= 1
    with pytest.raises(ValueError, match="the bytes are not a picture"):
        decode(tensor(np.zeros(9, "uint8")), pixels)


def test_code_of_executables():
    compiled = Module({"main": len, "f": len})
    compiled.input_names = lambda name: {"main": ["x", "y"], "f": []}[name]
    compiled.mod = lw.IRModule({"kernel": add, "main": add})
    code, same = Executable(compiled).save()
    assert same is compiled
    made = Executable.load_exec(bytes(code), compiled)
    assert made.primitive_ops == ["kernel"] and made.get_function_params("main") == ["x", "y"]
    assert made.stats == "functions: 2\n  main(x, y)\n  f()"
    for wrong in (b"{}", b"[]", b"x", code.replace(b"loopwright", b"other")):
        with pytest.raises(ValueError, match="was not written by save"):
            Executable.load_exec(wrong, compiled)
    with pytest.raises(TypeError, match="the code is a bytearray\n  got: str"):
        Executable.load_exec("code", compiled)
    with pytest.raises(ValueError, match="it lacks functions\n  got: f"):
        Executable.load_exec(code, Module({"main": len}))


def elf(**changes):
    """The head of a library: a segment of 8 bytes behind it, a table of sections that ends the file."""
    head = bytearray(64 + 56 + 8 + 64)
    head[:5] = b"\x7fELF\x02"
    struct.pack_into("<QQ", head, 32, 64, 128)
    struct.pack_into("<HHHH", head, 54, 56, 1, 64, 1)
    struct.pack_into("<Q", head, 64 + 8, 120)
    struct.pack_into("<Q", head, 64 + 32, 8)
    for kind, at, value in changes.values():
        struct.pack_into(kind, head, at, value)
    return bytes(head)


WHOLE = elf()
PARTS = {
    "whole": (WHOLE, True),
    "more": (WHOLE + b"x", True),
    "less": (WHOLE[:-1], False),
    "no sections": (elf(count=("<H", 60, 0))[:-64], True),
    "a segment that ends later": (elf(filled=("<Q", 96, 73)), False),
    "a segment that ends with it": (elf(filled=("<Q", 96, 72)), True),
    "other segments": (elf(length=("<H", 54, 57)), False),
    "no segments": (elf(length=("<H", 54, 0)), True),
    "32 bits": (b"\x7fELF\x01" + WHOLE[5:], False),
    "a head": (WHOLE[:64], False),
    "part of a head": (WHOLE[:63], False),
    "nothing": (b"", False),
}


@pytest.mark.parametrize("name", PARTS)
def test_whole_libraries(name, tmp_path, monkeypatch):
    data, whole = PARTS[name]
    file = tmp_path / "lib.so"
    file.write_bytes(data)
    monkeypatch.setattr(sys, "platform", "linux")
    if whole:
        library._check_whole(file)
    else:
        with pytest.raises(ValueError, match=f"is not a whole library\n  got: {len(data)} bytes"):
            library._check_whole(file)
    monkeypatch.setattr(sys, "platform", "darwin")
    library._check_whole(file)


def test_tools_that_fail():
    run_tool([sys.executable, "-c", ""])
    with pytest.raises(LoopwrightError, match="python.* failed\n  got: bad"):
        run_tool([sys.executable, "-c", "import sys; sys.exit('bad')"])


@pytest.mark.parametrize("name", ["x", "out"])
def test_results_in_memory_that_is_given(name):
    """`out` is memory for them, unless an input is called so."""

    class Model(dict):
        def input_names(self, function):
            return [name]

        def output_names(self, function):
            return ["y"]

        def signature(self, function):
            return Signature((Argument(name, "float64", (2,)),), (Argument("y", "float64", (2,)),))

    def call(value, out=None):
        if out is not None:
            np.copyto(out, value)
        return value if out is None else out

    model, x, y = Model(main=call), np.ones(2), np.zeros(2)
    assert run_by_name(model, "main", {name: x}, {})["y"] is x
    if name == "out":
        assert run_by_name(model, "main", (), {"out": x})["y"] is x
    else:
        assert run_by_name(model, "main", {"x": x}, {"out": y})["y"] is y and y.tolist() == [1, 1]
