"""Layers look down, and import as the design says."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

from .source import PACKAGE, ROOT, sources

# Third parties that a user may not have, or that are too slow to import with the package.
OPTIONAL = {
    "PIL",
    "flatbuffers",
    "onnx",
    "onnxruntime",
    "tflite",
    "torch",
    "tvm_ffi",
    "llvmlite",
    "ml_dtypes",
    "rich",
    "typer",
    "websockets",
}
OPTIONAL |= {"scipy_openblas32"}


def test_import_contracts():
    program = Path(sys.executable).parent / "lint-imports"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [str(program), "--no-cache", "--no-logo", "--config", str(ROOT / "pyproject.toml")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_imports_inside_functions_are_of_optional_third_parties():
    found = []
    for source in sources():
        functions = source.nodes(ast.FunctionDef, ast.AsyncFunctionDef)
        spans = [(f.lineno, f.end_lineno or f.lineno) for f in functions]
        for statement, module, _ in source.imports():
            inside = any(first <= statement.lineno <= last for first, last in spans)
            if inside and module[0] not in OPTIONAL:
                found.append(f"{source.path}:{statement.lineno}: {'.'.join(module)}")
    assert not found, "move these to the top of their modules:\n" + "\n".join(found)


def test_no_layer_imports_the_front_door():
    folders = {path.stem for path in PACKAGE.iterdir()}
    found = [
        f"{source.path}:{statement.lineno}"
        for source in sources()
        if source.layer not in ("", "compat")
        for statement, module, names in source.imports()
        if module == ("loopwright",) and not (names and folders.issuperset(names))
    ]
    assert not found, "import the layer that is meant:\n" + "\n".join(found)


def test_no_private_names_across_layers():
    found = []
    for source in sources():
        for statement, module, names in source.imports():
            if module[0] != "loopwright" or (*module, *names)[1] == source.layer:
                continue
            found += [
                f"{source.path}:{statement.lineno}: {part}"
                for part in (*module[1:], *names)
                if part.startswith("_") and not part.startswith("__")
            ]
    assert not found, "what another layer needs has a public name:\n" + "\n".join(found)


def test_the_map_of_folders_is_whole():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^\| `([\w/]+)` \|", page, re.MULTILINE))
    there = {str(s.path.parent) for s in sources() if s.path.name != "__init__.py" and s.layer}
    assert shown >= there, f"not in the map of folders: {sorted(there - shown)}"
    assert all((PACKAGE / folder).is_dir() for folder in shown)
