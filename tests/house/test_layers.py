"""Layers look down, and import as the design says."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

from .source import ROOT, sources

# Third parties that a user may not have, or that are too slow to import with the package.
OPTIONAL = {"onnx", "onnxruntime", "torch", "tvm_ffi", "llvmlite", "ml_dtypes", "rich", "typer"}


def test_import_contracts():
    program = Path(sys.executable).parent / "lint-imports"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [str(program), "--no-cache", "--config", str(ROOT / "pyproject.toml")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_imports_inside_functions_are_of_optional_third_parties():
    found = []
    for source in sources():
        functions = (
            node
            for node in ast.walk(source.tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        inside = {id(node) for function in functions for node in ast.walk(function)}
        for statement, module, _ in source.imports():
            if id(statement) in inside and module[0] not in OPTIONAL:
                found.append(f"{source.path}:{statement.lineno}: {'.'.join(module)}")
    assert not found, "move these to the top of their modules:\n" + "\n".join(found)


def test_no_layer_imports_the_front_door():
    found = [
        f"{source.path}:{statement.lineno}"
        for source in sources()
        if source.layer not in ("", "compat")
        for statement, module, _ in source.imports()
        if module == ("loopwright",)
        and (isinstance(statement, ast.Import) or source.layer == statement.module)
    ]
    assert not found, "import the layer that is meant:\n" + "\n".join(found)


def test_no_private_names_across_folders():
    found = []
    for source in sources():
        for statement, module, names in source.imports():
            if module[0] != "loopwright" or module[: len(source.package)] == source.package:
                continue
            private = [
                part
                for part in (*module[1:], *names)
                if part.startswith("_") and not part.startswith("__")
            ]
            # A private module may be used by its own folder and the folders within it.
            if private and source.package[: len(module)] != module:
                found.append(f"{source.path}:{statement.lineno}: {', '.join(private)}")
    assert not found, "what another folder needs has a public name:\n" + "\n".join(found)
