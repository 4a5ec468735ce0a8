"""Layers look down, and import as the design says."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

from .source import PACKAGE, ROOT, forbid, layer_of, sources

# Third parties that a user may not have, or that are too slow to import with the package.
OPTIONAL = {
    "PIL",
    "flatbuffers",
    "jinja2",
    "onnx",
    "onnxruntime",
    "openvino",
    "tflite",
    "tokenizers",
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
    said = [done.stdout + done.stderr] if done.returncode else []
    rule = "layers import lower ones only (pyproject.toml, tool.importlinter)"
    forbid(rule, said, "move the code down, or offer a registry that the layer above fills")


def test_imports_inside_functions_are_of_optional_third_parties():
    found = []
    for source in sources():
        functions = source.nodes(ast.FunctionDef, ast.AsyncFunctionDef)
        spans = [(f.lineno, f.end_lineno or f.lineno) for f in functions]
        for statement, module, _ in source.imports():
            inside = any(first <= statement.lineno <= last for first, last in spans)
            if inside and module[0] not in OPTIONAL:
                found.append(f"{source.path}:{statement.lineno}: {'.'.join(module)}")
    rule = "imports inside functions are of optional third-party packages only"
    forbid(rule, found, "move them to the top of their modules")


def test_no_layer_imports_the_front_door():
    folders = {path.stem for path in PACKAGE.iterdir()}
    found = [
        f"{source.path}:{statement.lineno}"
        for source in sources()
        if source.layer not in ("", "tvm.compat")
        for statement, module, names in source.imports()
        if module == ("loopwright",) and not (names and folders.issuperset(names))
    ]
    rule = "no layer imports `loopwright` itself, which imports all of them"
    forbid(rule, found, "import the layer that is meant")


def test_no_private_names_across_layers():
    found = []
    for source in sources():
        for statement, module, names in source.imports():
            if module[0] != "loopwright" or layer_of((*module, *names)[1:]) == source.layer:
                continue
            found += [
                f"{source.path}:{statement.lineno}: {part}"
                for part in (*module[1:], *names)
                if part.startswith("_") and not part.startswith("__")
            ]
    rule = "no private name is imported from another layer"
    forbid(rule, found, "give it a public name, for another layer needs it")


def test_the_map_of_folders_is_whole():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^\| `([\w/]+)` \|", page, re.MULTILINE))
    there = {str(s.path.parent) for s in sources() if s.path.name != "__init__.py" and s.layer}
    gone = {folder for folder in shown if not (PACKAGE / folder).is_dir()}
    rule = "the map of folders in docs/architecture.md shows each folder"
    forbid(rule, (there - shown) | gone, "add its row, or remove that of a folder that is gone")
