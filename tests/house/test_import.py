"""`import loopwright` is light, and the runtime stands without the compiler.

Times are measured in benchmarks/import_time.py; here is what decides them.
"""

from __future__ import annotations

import subprocess
import sys

from .source import ROOT

HEAVY = {"llvmlite", "onnx", "onnxruntime", "torch", "tvm_ffi", "typer", "rich", "hypothesis"}
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
    assert not HEAVY & modules_after("import loopwright")


def test_runtime_loads_no_compiler():
    loaded = modules_after("import loopwright.runtime")
    assert "loopwright.runtime" in loaded
    assert not HEAVY & loaded
    assert not {f"loopwright.{layer}" for layer in COMPILER} & loaded
