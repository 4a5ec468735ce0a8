"""Objects, C sources and LLVM's files as parts of other libraries."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys

import numpy as np
import pytest

import loopwright as lw
from loopwright import runtime
from loopwright.codegen.llvm import export
from loopwright.runtime.linked import CSource

from ..programs import graph, pointwise

pytestmark = pytest.mark.skipif(not export.linkers(), reason="no linker on this machine")

X = np.arange(6, dtype="float32").reshape(2, 3)
C = """
#include <stdint.h>
typedef struct { int32_t kind, size; int64_t value; } any;
int32_t __tvm_ffi_twice(void* self, const any* args, int32_t count, any* result) {
    result->kind = 1; result->size = 0; result->value = 2 * args[0].value;
    return 0;
}
"""


def kernel(name: str, value: str) -> lw.driver.Executable:
    return lw.compile(pointwise(name, value))


def result(module, name: str) -> list[list[float]]:
    out = np.zeros_like(X)
    module[name](X, out)
    return out.tolist()


def test_objects_are_linked_to_a_library(tmp_path):
    files = []
    for name, value in (("double", "X[vi, vj] * T.float32(2)"), ("minus", "-X[vi, vj]")):
        files.append(str(tmp_path / f"{name}.o"))
        kernel(name, value).save(files[-1])
    library = str(tmp_path / "both.so")
    subprocess.run([*export.linkers()[0], "-o", library, *files], check=True)
    loaded = runtime.load_module(library)
    assert sorted(loaded.function_names()) == ["double", "minus"]
    assert result(loaded, "double") == (X * 2).tolist()
    assert result(loaded, "minus") == (-X).tolist()
    with pytest.raises(ValueError, match="double: argument 0 `X` has dtype int32"):
        loaded["double"](X.astype("int32"), X)


@pytest.mark.parametrize("suffix", ["ll", "bc"])
def test_files_of_llvm(suffix, tmp_path):
    path = tmp_path / f"kernel.{suffix}"
    kernel("double", "X[vi, vj] * T.float32(2)").save(path)
    assert result(runtime.load_module(path), "double") == (X * 2).tolist()
    path.write_bytes(b"nonsense")
    with pytest.raises(lw.LoopwrightError, match=f"LLVM cannot read kernel.{suffix}"):
        runtime.load_module(path)


def test_bitcode_has_the_constants(tmp_path):
    exe = lw.compile(graph("y = R.multiply(x, w)", x=(2, 3), w=(2, 3)), params={"w": X})
    exe.save(tmp_path / "model.bc")
    loaded = runtime.load_module(tmp_path / "model.bc")
    assert loaded["main"](X).numpy().tolist() == (X * X).tolist()


def test_a_module_takes_objects_and_sources_with_it(tmp_path):
    exe = kernel("double", "X[vi, vj] * T.float32(2)")
    kernel("minus", "-X[vi, vj]").save(tmp_path / "minus.o")
    minus = runtime.load_static_library(tmp_path / "minus.o", ["minus"])
    assert minus.is_dso_exportable and minus.implements_function("minus")
    with pytest.raises(lw.LoopwrightError, match="minus is not linked yet"):
        minus["minus"](X, X)
    exe.import_module(minus)
    exe.import_module(CSource(C, "c", ["twice"]))
    loaded = runtime.load_module(exe.export_library(tmp_path / "all.so"))
    assert sorted(loaded.function_names()) == ["double", "minus", "twice"]
    assert result(loaded, "minus") == (-X).tolist()
    assert loaded["twice"](21) == 42
    assert not loaded.is_dso_exportable
    with pytest.raises(lw.LoopwrightError, match="only objects and C sources"):
        exe.import_module(loaded)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists what a process has loaded")
def test_the_libraries_of_the_process(tmp_path):
    path = kernel("of_system", "-X[vi, vj]").export_library(tmp_path / "system.so")
    assert "of_system" not in runtime.system_lib().function_names()
    deleted = shutil.copy(path, tmp_path / "deleted.so")
    for file in (path, deleted):
        ctypes.CDLL(str(file))
    deleted.unlink()
    assert result(runtime.system_lib(), "of_system") == (-X).tolist()
    assert "of_system" not in runtime.system_lib("other_").function_names()
