"""Functions from outside: C libraries that kernels call, packed functions of external modules."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.relax.interpreter import Interpreter
from loopwright.runtime import ExternLibrary, Module
from loopwright.runtime.extern import Prototype
from loopwright.script import from_source

from ..programs import graph

# A module that carries functions of this process has no text that says all of it.
pytestmark = pytest.mark.no_roundtrip

SOURCE = """
#include <stdint.h>
int scale(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = 3 * x[i];
  return 0;
}
"""


def scaled(value):
    """A module that scales `value`, which x is in, by the library's function."""
    return from_source(f"""
@I.ir_module
class Model:
    @T.prim_func(private=True)
    def scaled(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (n,))
        Y = T.match_buffer(y, (n,))
        T.evaluate(T.call_extern("int32", "scale", X.data, Y.data, n))

    @R.function
    def main(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        cls = Model
        with R.dataflow():
            y = {value}
            z = R.call_tir(cls.scaled, (y,), out_sinfo=R.Tensor((n,), "float32"))
            R.output(z)
        return z
""")


Model = scaled('R.call_dps_packed("test.ext", (R.exp(x),), out_sinfo=R.Tensor((n,), "float32"))')


def scaler(folder, source=SOURCE):
    """The library, of C code written into `folder`."""
    path = folder / "scale.c"
    path.write_text(source)
    declared = "int scale(const float* x, float* y, int64_t n)"
    return ExternLibrary("scaler", [declared], sources=[path])


@pytest.fixture
def library(tmp_path):
    return scaler(tmp_path)


def adding(amount, name="test.ext"):
    def add(x, out):
        np.copyto(np.from_dlpack(out), np.from_dlpack(x) + amount)

    return Module({name: add}, kind="adder")


def with_externals(*made):
    return Model.with_attr("external_mods", list(made))


def test_a_library_and_a_packed_module_run_in_native_code(library):
    x = np.arange(5, dtype="float32")
    one = lw.compile(with_externals(library, adding(1)))
    ten = lw.compile(with_externals(library, adding(10)))
    assert not one.machine
    # Each program calls its own function, though the names are the same.
    np.testing.assert_allclose(one["main"](x).numpy(), 3 * (np.exp(x) + 1), rtol=1e-6)
    np.testing.assert_allclose(ten["main"](x).numpy(), 3 * (np.exp(x) + 10), rtol=1e-6)


def test_the_storage_between_external_calls_is_planned(library):
    exe = lw.compile(with_externals(library, adding(1)))
    assert "workspace = T.allocate(" in exe.lowered["main"].script()


def test_the_interpreter_finds_packed_modules():
    Plain = graph(
        'y = R.call_dps_packed("test.ext", (x,), out_sinfo=R.Tensor((3,), "float32"))', x=(3,)
    )

    x = np.arange(3, dtype="float32")
    made = Interpreter(Plain.with_attr("external_mods", [adding(2)]))["main"](x)
    np.testing.assert_array_equal(np.asarray(made), x + 2)


def test_an_error_in_an_external_function_comes_out(library):
    def fails(x, out):
        raise RuntimeError("the device is gone")

    exe = lw.compile(with_externals(library, Module({"test.ext": fails})))
    with pytest.raises(RuntimeError, match="the device is gone"):
        exe["main"](np.zeros(3, "float32"))


def test_a_wrong_signature_is_located(tmp_path):
    wrong = ExternLibrary("scaler", ["int scale(const double* x, float* y, int64_t n)"])
    with pytest.raises(lw.LoopwrightError) as error:
        lw.compile(with_externals(wrong, adding(1)))
    text = str(error.value)
    assert text.startswith(
        "the call of scale in a kernel does not agree with its declaration\n"
        "  got: argument 1 is float32*, the parameter const float64*\n"
        "  instead: external library scaler declares: "
        "int scale(const double* x, float* y, int64_t n)\n"
    )
    assert "T.call_extern(" in text  # the line of the call
    few = ExternLibrary("scaler", ["int scale(const float* x, float* y)"])
    with pytest.raises(lw.LoopwrightError, match="3 arguments for 2 parameters"):
        lw.compile(with_externals(few, adding(1)))
    other = ExternLibrary("scaler", ["float scale(const float* x, float* y, int64_t n)"])
    with pytest.raises(lw.LoopwrightError, match="the result is taken as int32, it is float32"):
        lw.compile(with_externals(other, adding(1)))


def test_a_function_that_the_library_lacks(tmp_path):
    lacks = scaler(tmp_path, "int other(void) { return 0; }")
    with pytest.raises(lw.LoopwrightError, match="external library scaler has no function scale"):
        lw.compile(with_externals(lacks, adding(1)))


def test_sources_that_do_not_compile(tmp_path):
    with pytest.raises(lw.LoopwrightError, match="could not compile the sources"):
        scaler(tmp_path, "int scale(").symbols()


def test_two_modules_with_one_name(library):
    with pytest.raises(lw.LoopwrightError, match="two external modules bring a function test.ext"):
        lw.compile(with_externals(library, adding(1), adding(2)))


def test_prototypes():
    made = Prototype.parse("const float * f ( const float x[], unsigned long long n, void *w );")
    assert made.name == "f"
    assert [str(p) for p in made.params] == ["const float32*", "uint64", "void*"]
    assert str(made.result) == "const float32*"
    assert [str(p) for p in Prototype.parse("void g(struct ctx* c, size_t)").params] == [
        "void*",
        "uint64",
    ]
    assert Prototype.parse("int h(void)").params == ()
    with pytest.raises(ValueError, match="is not a C declaration"):
        Prototype.parse("int h")
    with pytest.raises(ValueError, match="a type in"):
        Prototype.parse("int h(complex x)")


def test_compiled_sources_leave_nothing_behind(library, tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert library.symbols()["scale"]
    assert not list(folder.iterdir())
    library.sources[0].unlink()
    with pytest.raises(LoopwrightError, match="no such source file"):
        library.digest()


def test_a_kernel_may_have_the_name_of_the_c_function_it_calls(library):
    kernel = Model["scaled"]
    mod = lw.IRModule({"scale": kernel.with_attr("global_symbol", "scale")})
    exe = lw.compile(mod.with_attr("external_mods", [library]))
    x, y = np.arange(3, dtype="float32"), np.zeros(3, "float32")
    exe["scale"](x, y)
    np.testing.assert_array_equal(y, 3 * x)
