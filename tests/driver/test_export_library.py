"""Exported libraries: loaded without the compiler, by tvm-ffi, called from C, by many threads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from loopwright import runtime, te
from loopwright.runtime import Module
from loopwright.script import from_source

from ..programs import graph
from .test_externals import scaled, scaler

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

WEIGHT = np.random.default_rng(1).standard_normal((8, 4)).astype("float32")


def model():
    body = "y = R.exp(x); z = R.matmul(y, R.const(w))"
    return graph(body, values={"w": WEIGHT}, x=("n", 8))


def expected(x):
    return np.exp(x) @ WEIGHT


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the model as model.so, model.a, model.o and their header."""
    made = tmp_path_factory.mktemp("exported")
    exe = lw.compile(model())
    for suffix in (".so", ".a", ".o"):
        assert exe.export_library(made / f"model{suffix}") == made / f"model{suffix}"
    return made


ALONE = """
import sys
from importlib.abc import MetaPathFinder

class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top, *rest = name.split(".")
        allowed = ("runtime", "base", "compat", "composition")
        inside = top == "loopwright" and rest and rest[0] not in allowed
        if top in ("llvmlite", "onnx", "torch") or inside:
            raise ImportError(f"{name} is not on this machine")

sys.meta_path.insert(0, Refuse())
import numpy as np
from loopwright import runtime
module = runtime.load_module(sys.argv[1])
x = np.linspace(-1, 1, 24, dtype="float32").reshape(3, 8)
print(repr(module.run({"x": x})["out"].numpy().tolist()))
print(module.input_names(), module.output_names())
try:
    module["main"](x[:, :7])
except ValueError as error:
    print(str(error).splitlines()[0])
"""


def test_in_a_fresh_process_without_the_compiler(folder):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(folder / "model.so")],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    values, names, error = done.stdout.strip().splitlines()
    x = np.linspace(-1, 1, 24, dtype="float32").reshape(3, 8)
    np.testing.assert_allclose(np.array(eval(values)), expected(x), rtol=1e-5)
    assert names == "['x'] ['out']"
    assert error.startswith("main: argument 0 `x` has shape")


def test_by_tvm_ffi(folder):
    tvm_ffi = pytest.importorskip("tvm_ffi")
    module = tvm_ffi.load_module(str(folder / "model.so"))
    x = np.ones((2, 8), "float32")
    got = np.from_dlpack(module["main"](tvm_ffi.from_dlpack(x)))
    np.testing.assert_allclose(got, expected(x), rtol=1e-5)


PROGRAM = """
#include <stdio.h>
#include "model.h"
int main(void) {
  float x[16], y[8];
  for (int i = 0; i < 16; i++) x[i] = 0.125f * i;
  int rc = model_main(x, y, 2);
  for (int i = 0; i < 8; i++) printf("%.7g ", y[i]);
  printf("%d '%s'\\n", rc, model_last_error());
  return rc;
}
"""


@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
def test_from_a_c_program(folder, suffix):
    source = folder / "program.c"
    source.write_text(PROGRAM)
    program = folder / f"program{suffix[1:]}"
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    command = ["cc", *strict, str(source), str(folder / f"model{suffix}"), "-o", str(program)]
    done = subprocess.run([*command, "-lm", "-lpthread"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True)
    *values, rc, error = done.stdout.split()
    x = 0.125 * np.arange(16, dtype="float32").reshape(2, 8)
    np.testing.assert_allclose(np.array(values, "float32"), expected(x).ravel(), rtol=1e-5)
    assert (rc, error) == ("0", "''")


def test_what_a_library_tells_of_itself(folder, tmp_path):
    exe, library = lw.compile(model()), runtime.load_module(folder / "model.so")
    assert library.inputs() == exe.inputs() == [("x", "float32", ("n", 8))]
    assert library.outputs() == exe.outputs() == [("out", "float32", ("n", 4))]
    assert repr(library) == "<LoadedLibrary: main(x float32[n, 8]) -> out float32[n, 4]>"
    with pytest.raises(KeyError, match="the library does not describe a function 'other'; it has"):
        library.inputs("other")
    scale = from_source(
        "@T.prim_func\ndef scale(x: T.Buffer((4,)), k: T.int32, y: T.Buffer((4,))):\n"
        "    for i in range(4):\n        y[i] = x[i] * T.cast(k, 'float32')\n"
    )
    exe = lw.compile(scale)
    library = runtime.load_module(exe.export_library(tmp_path / "scale.so"))
    assert library.inputs("scale") == exe.inputs("scale")
    shown = "scale(x float32[4], k int32, y float32[4])>"
    assert repr(library) == f"<LoadedLibrary: {shown}" and repr(exe).endswith(shown)


def test_four_threads_at_once(folder):
    main = runtime.load_module(folder / "model.so")["main"]
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(200):
            x = rng.standard_normal((int(rng.integers(1, 9)), 8)).astype("float32")
            if not np.allclose(main(x).numpy(), expected(x), atol=1e-4):
                wrong.append(x.shape)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert not wrong


def test_the_header(folder):
    text = (folder / "model.h").read_text()
    assert "/* x float32[n, 8], out float32[n, 4]; in row-major order." in text
    assert "int32_t model_main(const float* x, float* out, int64_t n);" in text


@pytest.mark.no_roundtrip
def test_an_external_library_goes_with_it(tmp_path):
    library = scaler(tmp_path)
    with_library = scaled("x").with_attr("external_mods", [library])
    path = lw.compile(with_library).export_library(tmp_path / "scaled.so")
    (tmp_path / "scale.c").unlink()
    x = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(runtime.load_module(path)["main"](x).numpy(), 3 * x)


@pytest.mark.no_roundtrip
def test_what_cannot_be_exported(tmp_path):
    exe = lw.compile(model())
    with pytest.raises(lw.LoopwrightError, match="the file's suffix selects the kind of export"):
        exe.export_library(tmp_path / "model.xyz")

    Packed = graph(
        'y = R.call_dps_packed("test.here", (x,), out_sinfo=R.Tensor((4,), "float32"))', x=(4,)
    )

    here = Packed.with_attr("external_mods", [Module({"test.here": lambda x, out: None})])
    with pytest.raises(lw.LoopwrightError, match="functions of this Python process cannot be"):
        lw.compile(here).export_library(tmp_path / "model.so")
    assert not list(Path(tmp_path).iterdir())


def test_the_virtual_machine_takes_a_loaded_library(folder):
    vm = lw.relax.VirtualMachine(runtime.load_module(folder / "model.so"), lw.cpu())
    x = np.zeros((2, 8), "float32")
    vm.set_input("main", x)
    vm.invoke_stateful("main")
    np.testing.assert_allclose(vm.get_outputs("main").numpy(), expected(x), rtol=1e-5)


AARCH64 = "aarch64-linux-gnu"


def test_a_program_for_another_machine_does_not_run_here(tmp_path):
    exe = lw.compile(model(), f"llvm -mtriple={AARCH64} -mcpu=cortex-a72")
    with pytest.raises(lw.LoopwrightError, match="main was compiled for aarch64-linux-gnu; it"):
        exe["main"](np.zeros((2, 8), "float32"))


@pytest.mark.skipif(
    not (shutil.which(f"{AARCH64}-gcc") and shutil.which("qemu-aarch64")),
    reason="no cross compiler and emulator for aarch64",
)
@pytest.mark.parametrize("suffix", [".a", ".o"])
def test_a_library_for_aarch64(tmp_path, suffix):
    exe = lw.compile(model(), f"llvm -mtriple={AARCH64} -mcpu=cortex-a72")
    library = exe.export_library(tmp_path / f"model{suffix}")
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(PROGRAM)
    command = [f"{AARCH64}-gcc", "-static", str(source), str(library), "-o", str(program)]
    done = subprocess.run([*command, "-lm", "-lpthread"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run(["qemu-aarch64", str(program)], capture_output=True, text=True)
    *values, rc, error = done.stdout.split()
    x = 0.125 * np.arange(16, dtype="float32").reshape(2, 8)
    np.testing.assert_allclose(np.array(values, "float32"), expected(x).ravel(), rtol=1e-5)
    assert (rc, error) == ("0", "''")


TWO = """
#include <stdio.h>
#include "first.h"
#include "second.h"
int main(void) {
  float x[2] = {1, 4}, y[2], z[2];
  int rc = first_main(x, y) | second_main(x, z);
  printf("%g %g %g %g %d '%s%s'\\n", y[0], y[1], z[0], z[1], rc, first_last_error(), second_last_error());
  return rc;
}
"""


@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
def test_two_models_in_one_program(tmp_path, suffix):
    """Both have kernels and constants of the same names."""
    for name, factor in (("first", 2), ("second", 10)):
        weight = np.array([factor, factor + 1], "float32")
        mod = graph("y = R.exp(R.log(R.multiply(x, R.const(w))))", values={"w": weight}, x=(2,))
        lw.compile(mod).export_library(tmp_path / f"{name}{suffix}")
    (tmp_path / "two.c").write_text(TWO)
    files = [str(tmp_path / f"{name}{suffix}") for name in ("first", "second")]
    program = tmp_path / "two"
    command = ["cc", "-std=c99", "-Werror", str(tmp_path / "two.c"), *files, "-o", str(program)]
    done = subprocess.run([*command, "-lm", "-lpthread"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert done.stdout.split() == ["2", "12", "10", "44", "0", "''"], done
    if suffix == ".so":
        for name, right in (("first", [2, 12]), ("second", [10, 44])):
            main = runtime.load_module(tmp_path / f"{name}.so")["main"]
            np.testing.assert_allclose(main(np.array([1, 4], "float32")).numpy(), right, rtol=1e-6)
    shown = subprocess.run(["nm", "-g", "--defined-only", files[0]], capture_output=True, text=True)
    if suffix == ".so":
        names = {line.split()[-1] for line in shown.stdout.splitlines()}
        public = {n for n in names if not n.startswith(("first_", "lw_", "__tvm_ffi_", "TVMFFI"))}
        assert not public


def test_a_tar_of_objects_is_linked_where_it_is_loaded(tmp_path):
    A = te.placeholder((16,), name="A")
    exe = lw.compile(te.create_prim_func([A, te.compute((16,), lambda i: A[i] + 1.0)]), "llvm")
    exe.export_library(tmp_path / "lib.tar")
    loaded = lw.runtime.load_module(tmp_path / "lib.tar")
    out = np.zeros(16, "float32")
    loaded["main"](np.arange(16, dtype="float32"), out)
    np.testing.assert_array_equal(out, np.arange(1, 17))
    (tmp_path / "other.tar").write_bytes(b"no archive")
    with pytest.raises(ValueError, match="is not a tar of objects"):
        lw.runtime.load_module(tmp_path / "other.tar")
