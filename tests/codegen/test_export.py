"""Shared libraries: linked, loaded without the compiler, called."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from loopwright import runtime
from loopwright.codegen.llvm import export, jit, support
from loopwright.codegen.llvm.entry import Entry
from loopwright.runtime.signature import Argument
from tests.codegen.test_abi import ADD

pytestmark = pytest.mark.skipif(not export.linkers(), reason="no linker on this machine")


@pytest.fixture(scope="module", params=export.linkers(), ids=lambda command: command[0])
def library(tmp_path_factory, request):
    params = [Argument("a", "float32", ("n",)), Argument("b", "float32", ("n",))]
    text = Entry("entry", "kernel", params, [Argument("o", "float32", ("n",))]).text() + ADD
    text = support.declarations(text) + text
    path = tmp_path_factory.mktemp("export") / "deep" / "add.so"
    public = export.exports_text({"add": "add.entry"})
    return export.link_shared(
        export.library_objects([text], {}, "add", public), path, request.param
    )


def test_a_library_loads_and_runs(library):
    module = runtime.load_module(library)
    assert module.function_names() == ["add"]
    x = np.ones(3, "float32")
    assert module["add"](x, x).numpy().tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="entry: argument 1 `b` has shape"):
        module["add"](x, x[:2])


def test_a_library_needs_no_compiler(library):
    code = (
        "import sys, numpy as np; from loopwright import runtime; "
        f"f = runtime.load_module({str(library)!r})['add']; "
        "print(f(np.ones(2, 'float32'), np.ones(2, 'float32')).numpy().tolist(), "
        "'llvmlite' in sys.modules, runtime.num_threads() > 0)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.stdout.strip() == "[2.0, 2.0] False True", done.stderr


def test_linkers_say_what_is_wrong(tmp_path, monkeypatch):
    with pytest.raises(RuntimeError, match="could not link"):
        export.link_shared([b"not an object"], tmp_path / "x.so")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="pip install ziglang"):
        export.link_shared([], tmp_path / "x.so")


def test_other_libraries_are_refused(tmp_path):
    data = jit.compile_object("define void @nothing() {\n  ret void\n}")
    path = export.link_shared([data], tmp_path / "plain.so")
    with pytest.raises(ValueError, match="was not exported by Loopwright"):
        runtime.load_module(path)


def test_a_truncated_library_is_refused(library, tmp_path):
    data = library.read_bytes()
    for size in (0, 3, 60, 200, len(data) // 2, len(data) - 1):
        path = tmp_path / f"{size}.so"
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match="is not a whole library"):
            runtime.load_module(path)
