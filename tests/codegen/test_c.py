"""The C that comes out: structs, sizes, weights, functions from outside, refusals."""

from __future__ import annotations

import ctypes
import platform
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import loopwright
from loopwright import Arena, tir
from loopwright.backend.c import loop_pipeline
from loopwright.base.errors import LoopwrightError
from loopwright.codegen.c.types import bare, c_type, memory_type
from loopwright.ir.dtype import DataType
from loopwright.ir.module import IRModule
from loopwright.runtime import load_module, tensor
from loopwright.runtime.dtype import numpy_dtype
from loopwright.runtime.extern import ExternLibrary
from loopwright.runtime.tensor import PackedTensor
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T

from .c_programs import C_FLAGS, run

pytestmark = [
    pytest.mark.no_roundtrip,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc"),
]


@I.ir_module
class Chain:
    @R.function
    def main(x: R.Tensor((4, 64), "float32")) -> R.Tuple(
        R.Tensor((4,), "float32"), R.Tensor((4, 64), "float32")
    ):
        with R.dataflow():
            a = R.exp(x)
            w = R.const(np.eye(64, dtype="float32") * 2)
            b = R.matmul(a, w)
            c = R.sum(b, axis=[1])
            out = (c, b)
            R.output(out)
        return out


def random(*shape):
    return np.random.default_rng(0).standard_normal(shape, "float32")


def test_inputs_and_outputs_are_structs_with_shapes():
    model = loopwright.compile(Chain, target="c")
    for line in (
        "struct model_main_inputs {\n  const float* x; /* float32[4, 64] */\n};",
        "  float* out0; /* float32[4] */\n  float* out1; /* float32[4, 64] */\n",
        "int32_t model_main_run(const struct model_main_inputs* inputs, ",
        f"#define MODEL_WORKSPACE_BYTES {model.workspace_bytes}\n",
    ):
        assert line in model.header
    x = random(4, 64)
    sums, products = model.build()(x)
    np.testing.assert_allclose(products, np.exp(x) * 2, rtol=1e-5)
    np.testing.assert_allclose(sums, np.exp(x).sum(1) * 2, rtol=1e-5)


@I.ir_module
class Sized:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor(("n * 2",), "float32")) -> R.Tuple(
        R.Tensor(("n * 2",), "float32"), R.Tensor(("n", 4), "float32")
    ):
        R.func_attr({"tir_var_upper_bound": {"n": 8}})
        with R.dataflow():
            out = (R.exp(y), R.add(x, x))
            R.output(out)
        return out


def test_a_model_is_called_from_python_and_loaded(tmp_path, rng):
    """Results are tensors, as those of other targets, also of a library that a process loads."""
    x, y = (rng.standard_normal(s, "float32") for s in ((3, 4), (6,)))
    model = loopwright.compile(Sized, target="c")
    library = load_module(model.export_library(tmp_path / "sized.so"))
    assert library.inputs() == model.inputs() and library.outputs() == model.outputs()
    for exe in (model, library):
        first, second = exe["main"](tensor(x), y)
        np.testing.assert_allclose(first.numpy(), np.exp(y), rtol=1e-6)
        np.testing.assert_array_equal(second.numpy(), x + x)
        assert [v.shape for v in exe.run({"x": x, "y": y}).values()] == [(6,), (3, 4)]
        with pytest.raises(ValueError, match="axis 0 of y must be 6"):
            exe["main"](x, y[:5])


def test_a_function_of_the_callers_makes_the_library(tmp_path):
    calls = []

    def link(path, objects, options=()):
        assert Path(objects[0]).is_relative_to(tmp_path / "way")
        calls.append((Path(path).name, len(objects), options))
        subprocess.run(["gcc", "-shared", "-o", path, *objects, *options], check=True)

    (tmp_path / "way").mkdir()
    for target, name in (("c", "a.so"), ("llvm", "b.so")):
        exe = loopwright.compile(Sized, target=target)
        way = {"workspace_dir": tmp_path / "way"}
        path = exe.export_library(tmp_path / name, fcompile=link, options=["-lm"], **way)
        second = load_module(path)["main"](np.ones((2, 4), "float32"), np.zeros(4, "float32"))[1]
        assert (second.numpy() == 2).all()
        with pytest.raises(TypeError, match="no options of these names"):
            exe.export_library(tmp_path / name, optoins=[])
    assert [(name, options) for name, _, options in calls] == [("a.so", ["-lm"]), ("b.so", ["-lm"])]
    assert all(count for _, count, _ in calls)


@I.ir_module
class Inner:
    @T.prim_func
    def main(A: T.Buffer((1,), "float32")):
        Inner.subroutine(A.data)

    @T.prim_func(private=True)
    def subroutine(A_data: T.handle("float32")):
        A = T.decl_buffer((1,), "float32", data=A_data)
        A[0] = T.float32(42)


def test_a_private_function_is_no_entry():
    model, x = loopwright.compile(Inner, target="c"), np.zeros(1, "float32")
    model["main"](x)
    assert x[0] == 42 and model.function_names() == ["main"]


def test_a_value_compared_with_itself():
    @I.ir_module
    class Same:
        @R.function
        def main(x: R.Tensor((4,), "int32")) -> R.Tensor((4,), "bool"):
            with R.dataflow():
                y = R.bitwise_not(x)
                out = R.less_equal(y, y)
                R.output(out)
            return out

    assert loopwright.compile(Same, target="c").build()(np.arange(4, dtype="int32")).all()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it reads x86-64 code")
def test_gcc_keeps_the_accumulators_of_a_product_in_registers(tmp_path):
    """Without the pragmas gcc multiplied one element after the other (ten times slower)."""

    @I.ir_module
    class Product:
        @R.function
        def main(x: R.Tensor((16, 40), "float32")) -> R.Tensor((16, 64), "float32"):
            with R.dataflow():
                out = R.matmul(x, R.const(np.ones((40, 64), "float32")))
                R.output(out)
            return out

    model = loopwright.compile(Product, "c")
    assert (
        len(re.findall(r"MODEL_UNROLL\(\d\)", model.source)) >= 2 and "MODEL_VECTOR" in model.source
    )
    written = model.write(tmp_path, "model")
    (source,) = [p for p in written if p.suffix == ".c" and "weights" not in p.name]
    flags = ["-O3", "-march=haswell", "-S", "-o", "-"]
    done = subprocess.run(["gcc", *flags, str(source)], capture_output=True, text=True, check=True)
    products = [line for line in done.stdout.splitlines() if "vfmadd" in line]
    assert products and all("ps\t" in line for line in products)
    x = random(16, 40)
    np.testing.assert_allclose(model.build()(x), np.tile(x.sum(1)[:, None], 64), rtol=1e-5)


def test_files_under_another_name_and_weights_as_one_file(tmp_path):
    model = loopwright.compile(Chain, target="c")
    written = model.write(tmp_path, "net", weights="binary")
    assert [p.name for p in written] == ["net.c", "net.h", "net.weights"]
    assert (tmp_path / "net.weights").stat().st_size == 64 * 64 * 4
    assert "#define NET_WEIGHTS_BYTES 16384" in (tmp_path / "net.h").read_text()
    x = random(4, 64)
    library = model.build(tmp_path, name="net", weights="binary")
    np.testing.assert_allclose(library(x)[1], np.exp(x) * 2, rtol=1e-5)
    run("gcc", *C_FLAGS, "-DNET_NO_WORKSPACE", "-c", "-o", tmp_path / "net.o", tmp_path / "net.c")
    with pytest.raises(LoopwrightError, match="weights are C arrays or one binary file"):
        model.write(tmp_path, weights="gzip")


TWO = """
#include <stdio.h>
#include "first.h"
#include "second.h"
int main(void) {
  float x[2] = {1, 2}, y[2], z[2];
  struct first_main_inputs a = {x};
  struct second_main_inputs b = {x};
  struct first_main_outputs c = {y};
  struct second_main_outputs d = {z};
  int rc = first_main_run(&a, &c, NULL) | second_main_run(&b, &d, NULL);
  printf("%.7g %.7g %.7g %.7g %d\\n", y[0], y[1], z[0], z[1], rc);
  return rc;
}
"""


def scaled(factor):
    weight = np.array([factor, factor + 1], "float32")

    @I.ir_module
    class Scaled:
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            with R.dataflow():
                y = R.nn.softmax(R.multiply(x, R.const(weight)))
                R.output(y)
            return y

    return Scaled


def test_two_models_in_one_program(tmp_path):
    """Both have kernels, constants and a workspace of the same names."""
    factors, sources = {"first": 0.5, "second": 2.0}, [tmp_path / "two.c"]
    for name, factor in factors.items():
        written = loopwright.compile(scaled(factor), target="c").write(tmp_path, name)
        sources += [p for p in written if p.suffix == ".c"]
    sources[0].write_text(TWO)
    run("gcc", *C_FLAGS, "-o", tmp_path / "two", *sources, "-lm")
    done = subprocess.run([tmp_path / "two"], capture_output=True, text=True, check=True)
    *values, rc = done.stdout.split()
    powers = [np.exp([f, 2 * (f + 1)]) for f in factors.values()]
    right = [p / p.sum() for p in powers]
    np.testing.assert_allclose(np.array(values, "float32").reshape(2, 2), right, rtol=1e-5)
    assert rc == "0"


def test_the_same_header_serves_cpp(tmp_path):
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    loopwright.compile(Chain, target="c").write(tmp_path)
    (tmp_path / "main.cpp").write_text('#include "model.h"\nint main() { return 0; }\n')
    run("g++", "-Wall", "-Wextra", "-Werror", "-c", "-o", tmp_path / "m.o", tmp_path / "main.cpp")


def test_wrong_arguments_are_refused():
    model = loopwright.compile(Chain, target="c")
    assert model["get_func_names"]() == ["main"]
    library = model.build()
    with pytest.raises(TypeError, match="main takes 1 arguments"):
        library()
    with pytest.raises(TypeError, match="main: x has dtype float32"):
        library(np.zeros((4, 64)))
    with pytest.raises(ValueError, match="main: x has 2 axes\n  got: \\(4,\\)"):
        library(np.zeros(4, "float32"))
    with pytest.raises(ValueError, match="axis 0 of x must be 4"):
        library(np.zeros((3, 64), "float32"))
    with pytest.raises(KeyError, match="no function of this name"):
        library["other"]


def rows(bounds):
    @I.ir_module
    class Rows:
        @R.function
        def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 8), "float32")):
            R.func_attr(bounds)
            with R.dataflow():
                y = R.nn.softmax(R.matmul(x, w))
                R.output(y)
            return y

    return Rows


def test_sizes_are_bounded_or_refused():
    with pytest.raises(LoopwrightError, match="in model_main depends on n [*] 32") as refused:
        loopwright.compile(rows({}), target="c")
    assert "BindSymbolicVars" in str(refused.value) and "test_c.py" in str(refused.value)
    model = loopwright.compile(rows({"tir_var_upper_bound": {"n": 6}}), target="c")
    assert "  int64_t n; /* extent */\n" in model.header and "n <= 6" in model.header
    library, w = model.build(), random(8, 8)
    for n in (1, 6):
        x = random(n, 8)
        want = loopwright.compile(rows({}))["main"](x, w).numpy()
        np.testing.assert_allclose(library(x, w), want, rtol=1e-5)
    with pytest.raises(RuntimeError, match="main returned -3: main: n must be from 0 to 6"):
        library(random(7, 8), w)


@T.prim_func
def halves(x: T.handle, y: T.handle, scale: T.float32):
    T.func_attr({"global_symbol": "halves"})
    n = T.int64()
    X = T.match_buffer(x, (n,), "float16")
    Y = T.match_buffer(y, (n,), "float16")
    for i in range(n):
        with T.block("Y"):
            v = T.axis.spatial(n, i)
            Y[v] = T.Cast("float16", T.Cast("float32", X[v]) * scale)


def test_a_kernel_of_any_size_with_a_scalar():
    model = loopwright.compile(halves, target="c")
    assert "  float scale; /* float32 */\n  int64_t n; /* extent */\n" in model.header
    x = np.arange(7, dtype="float16")
    y = np.zeros(7, "float16")
    halve = model.build(flags=["-O0"])
    assert halve(x, y, 0.5) is None
    np.testing.assert_array_equal(y, x / 2)
    strided, swapped = np.zeros(14, "float16")[::2], np.zeros(7, ">f2")
    for out in (strided, swapped):  # what C code writes to a copy comes back
        halve(np.repeat(x, 2)[::2], out, 0.5)
        np.testing.assert_array_equal(out, x / 2)
    made = tensor(np.zeros(7, "float16"))
    halve(tensor(x), made, 0.5)
    np.testing.assert_array_equal(made.numpy(), x / 2)
    kept = x[::-1]
    kept.flags.writeable = False
    halve(kept, y, 0.5)
    np.testing.assert_array_equal(y, x[::-1] / 2)
    with pytest.raises(TypeError, match="Y has dtype float16\n  got: float32"):
        halve(x, np.zeros(7, "float32"), 0.5)
    with pytest.raises(TypeError, match="has no results"):
        halve(x, y, 0.5, out=y)


@T.prim_func
def nibbles(x: T.handle, y: T.handle):
    T.func_attr({"global_symbol": "nibbles"})
    X = T.match_buffer(x, (6,), "int4")
    Y = T.match_buffer(y, (6,), "int4")
    for i in range(6):
        with T.block("Y"):
            v = T.axis.spatial(6, i)
            Y[v] = X[5 - v]


def test_a_kernel_of_packed_integers_writes_arrays_and_packed_ones():
    reverse = loopwright.compile(nibbles, target="c").build(flags=["-O0"])
    x, y = np.array([1, -2, 3, -4, 5, -6], "int8"), np.zeros(6, "int8")
    reverse(x, y)
    assert y.tolist() == x[::-1].tolist()
    y = PackedTensor.of(np.zeros(6, "int8"), "int4")
    reverse(PackedTensor.of(x, "int4"), y)
    assert y.numpy().tolist() == x[::-1].tolist()


@T.prim_func
def roomy(X: T.Buffer((1024,), "float32"), Y: T.Buffer((1024,), "float32")):
    T.func_attr({"global_symbol": "roomy", "tir.is_scheduled": True})
    room = T.alloc_buffer((1024,), "float32")
    for i in range(1024):
        with T.block("room"):
            v = T.axis.spatial(1024, i)
            room[v] = X[v] + T.float32(1)
    for i in range(1024):
        with T.block("Y"):
            v = T.axis.spatial(1024, i)
            Y[v] = room[1023 - v] * T.float32(2)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_a_scalar_of_any_type(dtype):
    s, out = tir.Var("s", dtype), tir.decl_buffer((2,), dtype, "out")
    stores = [tir.BufferStore(out, s, [0]), tir.BufferStore(out, out[0], [1])]
    func = tir.PrimFunc([s, out], tir.SeqStmt(stores), attrs={"global_symbol": "main"})
    value = {"b": 1, "f": 1.5}.get(dtype[0], 100)
    got = np.zeros(2, numpy_dtype(dtype))
    loopwright.compile(func, target="c").build(flags=["-O0"])(value, got)
    assert got.tolist() == [value, value]


def test_large_arrays_of_kernels_come_from_the_workspace():
    planned = loop_pipeline()
    alone = loop_pipeline().remove("tir.PlanUnifiedMemory")
    for passes in (planned, alone):
        model = loopwright.compile(roomy, target="c", tir_pipeline=passes)
        assert model.workspace_bytes == 4096
        x, y = random(1024), np.zeros(1024, "float32")
        model.build()(x, y)
        np.testing.assert_array_equal(y, (x + np.float32(1))[::-1] * 2)
    assert "float room[1024];" in model.render(stack_bytes=4096).source


@I.ir_module
class Twice:
    @T.prim_func(private=True)
    def turned(X: T.Buffer((64,), "float32"), Y: T.Buffer((64,), "float32")):
        T.func_attr({"tir.is_scheduled": True, "op_pattern": 8})
        room = T.alloc_buffer((64,), "float32")
        for i in range(64):
            with T.block("room"):
                v = T.axis.spatial(64, i)
                room[v] = X[v] + T.float32(1)
        for i in range(64):
            with T.block("Y"):
                v = T.axis.spatial(64, i)
                Y[v] = room[63 - v] * T.float32(2)

    @R.function
    def main(x: R.Tensor((64,), "float32")):
        with R.dataflow():
            once = R.call_tir(Twice.turned, (x,), out_sinfo=R.Tensor((64,), "float32"))
            twice = R.call_tir(Twice.turned, (once,), out_sinfo=R.Tensor((64,), "float32"))
            R.output(twice)
        return twice


@pytest.mark.parametrize(
    ("arena", "sizes"),
    [("workspace", {"workspace": 512}), ("ram", {"ram": 256, "workspace": 256})],
)
def test_arrays_of_kernels_beside_the_planned_memory(arena, sizes):
    """Where the stack takes none of them they are in the workspace, behind what was planned."""
    model = loopwright.compile(Twice, target="c", arenas=[Arena(arena)])
    assert {n: a.bytes for n, a in model.render(stack_bytes=256).areas.items()} == {arena: 256}
    found = model.render(stack_bytes=255).areas
    assert {n: a.bytes for n, a in found.items()} == sizes


def test_pools_by_name():
    arenas = [Arena("sram", limit=1024), Arena("dram")]
    model = loopwright.compile(Chain, target="c", arenas=arenas)
    total = sum(a.bytes for a in model.files.areas.values())
    assert total == model.workspace_bytes == model.memory_plan.bytes
    for name in model.files.areas:
        assert (
            f"#define MODEL_{name.upper()}_BYTES {model.files.areas[name].bytes}\n" in model.header
        )
        assert f"uint8_t* {name}" in model.header
    x = random(4, 64)
    np.testing.assert_allclose(model.build()(x)[1], np.exp(x) * 2, rtol=1e-5)


LIBRARY = """#include "scaling.h"
int scale(const float* x, float* y, int n) {
  for (int i = 0; i < n; ++i) y[i] = x[i] * FACTOR;
  return 0;
}
"""


def calling(name="scale", *, n="int32", library):
    """A module whose kernel calls a C function."""
    x, y = tir.decl_buffer((8,), "float32", "x"), tir.decl_buffer((8,), "float32", "y")
    args = [tir.StringImm(name), x.data, y.data, tir.const(8, n)]
    body = tir.Evaluate(tir.Call("int32", "tir.call_extern", args))
    func = tir.PrimFunc([x, y], body).with_attr("global_symbol", "main")
    return IRModule({"main": func}, attrs={"external_mods": [library]})


def test_functions_from_outside_bring_their_sources(tmp_path):
    (tmp_path / "scaling.c").write_text(LIBRARY)
    (tmp_path / "scaling.h").write_text("#define FACTOR 3\nint scale(const float*, float*, int);\n")
    prototypes = ["int scale(const float* x, float* y, int n)"]
    library = ExternLibrary("scaling", prototypes, sources=[tmp_path / "scaling.c"])
    model = loopwright.compile(calling(library=library), target="c")
    assert "int scale(const float* x, float* y, int n);" in model.source
    names = {p.name for p in model.write(tmp_path / "out")}
    assert names == {"model.c", "model.h", "scaling.c", "scaling.h"}
    x, y = random(8), np.zeros(8, "float32")
    model.build()(x, y)
    np.testing.assert_array_equal(y, x * 3)
    with pytest.raises(LoopwrightError, match="does not agree with its declaration"):
        loopwright.compile(calling(n="int64", library=library), target="c")
    bare = ExternLibrary("scaling", prototypes)
    with pytest.raises(LoopwrightError, match="external library scaling has no C sources to write"):
        loopwright.compile(calling(library=bare), target="c").write(tmp_path / "bare")


@T.prim_func
def packed(x: T.Buffer((1,), "int32")):
    T.func_attr({"global_symbol": "packed"})
    x[0] = T.call_packed("my.function", x[0], dtype="int32")


@T.prim_func
def checked(x: T.Buffer((1,), "int32")):
    T.func_attr({"global_symbol": "checked"})
    with T.Assert(x[0] < 5, 'too "large"?'):
        x[0] = x[0] + 1


def test_what_has_no_c_code_is_refused_where_it_stands():
    with pytest.raises(LoopwrightError, match="tir.call_packed has no C code") as refused:
        loopwright.compile(packed, target="c")
    assert "test_c.py" in str(refused.value) and "T.call_extern" in str(refused.value)
    vectors = tir.PrimFunc([], tir.Evaluate(tir.Broadcast(tir.const(1), 4) + 1))
    assert loopwright.compile(vectors.with_attr("global_symbol", "f"), target="c")
    a = tir.decl_buffer((4,), "float32", "a")
    at = tir.Ramp(tir.const(0), tir.const(1), 4)
    store = tir.BufferStore(a, tir.Broadcast(tir.const(1.0), 4), [at])
    with pytest.raises(LoopwrightError, match="Ramp has no C code"):
        loopwright.compile(tir.PrimFunc([a], store).with_attr("global_symbol", "f"), target="c")


def test_assertions_return_an_error():
    model = loopwright.compile(checked, target="c")
    assert 'MODEL_ERROR("too \\042large\\042\\077");' in model.source
    library, x = model.build(), np.array([4], "int32")
    library(x)
    assert x[0] == 5
    with pytest.raises(RuntimeError, match='checked returned -1: too "large"[?]'):
        library(x)
    assert x[0] == 5


def test_errors_without_a_message_are_told_by_number():
    """The user's own macro keeps none."""
    library = loopwright.compile(checked, target="c").build(flags=["-DMODEL_ERROR(text)=((void)0)"])
    with pytest.raises(RuntimeError, match="checked returned -1\n  instead: an assertion"):
        library(np.array([5], "int32"))


@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
def test_libraries(suffix, tmp_path):
    model = loopwright.compile(roomy, target="c")
    path = model.export_library(tmp_path / f"libkernel{suffix}")
    header = path.with_suffix(".h")
    assert "kernel_roomy_run" in header.read_text()
    if suffix != ".so":
        linked = tmp_path / "all.so"
        run(
            "gcc",
            "-shared",
            "-o",
            linked,
            "-Wl,--whole-archive",
            path,
            "-Wl,--no-whole-archive",
            "-lm",
        )
        path = linked
    assert ctypes.CDLL(str(path)).kernel_roomy_run
    with pytest.raises(LoopwrightError, match="the file's suffix selects the kind of export"):
        model.export_library(tmp_path / "model.wasm")


def test_outermost_parentheses():
    for text, wanted in (
        ("(a + b)", "a + b"),
        ("(a) + (b)", "(a) + (b)"),
        ("((a) + (b))", "(a) + (b)"),
        ("a", "a"),
    ):
        assert bare(text) == wanted


def test_names_of_types():
    """Those that C has by their names; others are stored as whole numbers of their size."""
    names = {
        "bool": ("bool", "uint8_t"),
        "int8": ("int8_t", "int8_t"),
        "uint64": ("uint64_t", "uint64_t"),
        "float16": ("uint16_t", "uint16_t"),
        "float8_e4m3fn": ("uint8_t", "uint8_t"),
        "float64": ("double", "double"),
        "complex64": ("float _Complex", "float _Complex"),
        "complex128": ("double _Complex", "double _Complex"),
        "handle": ("void*", "void*"),
    }
    for dtype, wanted in names.items():
        assert (c_type(DataType(dtype)), memory_type(DataType(dtype))) == wanted
