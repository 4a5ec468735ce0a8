"""`import loopwright` is light, and the runtime stands without the compiler.

Times are measured in benchmarks/import_time.py; here is what decides them.
"""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import loopwright

from .source import ROOT, forbid

HEAVY = {"llvmlite", "onnx", "onnxruntime", "torch", "tvm_ffi", "typer", "rich", "hypothesis"}
HEAVY |= {"websockets"}
COMPILER = {"ir", "arith", "tir", "te", "relax", "script", "ops", "codegen", "sched", "frontend"}


def modules_after(statement: str) -> set[str]:
    """The names in sys.modules of a new interpreter after `statement`."""
    program = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); {statement}\n"
    program += "print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_import_loads_nothing_heavy():
    rule = "`import loopwright` loads nothing heavy"
    forbid(
        rule, HEAVY & modules_after("import loopwright"), "import it in the function that needs it"
    )


def test_runtime_loads_no_compiler():
    loaded = modules_after("import loopwright.runtime")
    assert "loopwright.runtime" in loaded
    above = {f"loopwright.{layer}" for layer in COMPILER} & loaded
    rule = "the runtime stands without the compiler"
    forbid(rule, above | (HEAVY & loaded), "move what the runtime needs of it to runtime/ or base/")


def test_a_compile_loads_nothing_of_the_wing_of_tvm():
    model = ROOT / "src" / "loopwright" / "driver" / "data" / "digits.onnx"
    anew = "import os; os.environ['LOOPWRIGHT_CACHE'] = '0'"  # not one that is kept
    loaded = modules_after(f"{anew}; import loopwright; loopwright.compile({str(model)!r})")
    assert {"loopwright.ops.conv", "loopwright.codegen.llvm.emit"} <= loaded
    wing = {name for name in loaded if name.startswith("loopwright.tvm")}
    rule = "a compile loads nothing of loopwright.tvm"
    forbid(rule, wing, "move what it needs out of the wing, or ask for it by a late name")


def test_what_compiled_programs_call_by_name_is_in_the_runtime():
    """An exported library is loaded without the compiler, so what its program calls must be there."""
    statement = (
        "import loopwright.runtime as r; import {}; print(*r.list_global_func_names(), sep='\\n')"
    )
    alone, whole = (
        modules_after(statement.format(more)) for more in ("sys", "loopwright.frontend.nn")
    )
    called = {n for n in whole if n.startswith(("relax.run.", "vm.builtin."))}
    assert {"relax.run.unique", "vm.builtin.debug_print"} <= called
    rule = "what compiled programs call by name is registered by loopwright.runtime"
    forbid(rule, called - alone, "register it in a module that the runtime imports")


def test_dir_shows_what_is_ours():
    shown = [getattr(loopwright, n) for n in dir(loopwright) if not n.startswith("__")]
    homes = [v.__name__ if isinstance(v, ModuleType) else v.__module__ for v in shown]
    others = {name for name in homes if name.split(".")[0] != "loopwright"}
    forbid("dir(loopwright) shows our names only", others, "leave it out of __dir__ and __all__")
