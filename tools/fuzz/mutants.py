"""Random faults of one token in our own source: how many do the tests of their layer find?"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    "src",
    "tests",
    "tools",
    "examples",
    "docs",
    "benchmarks",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
    "Makefile",
)
SECONDS = 400  # for the tests of a layer; a mutant that runs longer counts as found
SWAPS: dict[type, tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.Add: ("+", "-"), ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "//"), ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A fault: a stretch of a file and what stands there instead."""

    file: Path
    line: int
    start: int
    end: int
    new: str

    def text(self) -> str:
        """The file with the fault."""
        lines = self.file.read_text().split("\n")
        row = lines[self.line - 1].encode()
        lines[self.line - 1] = (row[: self.start] + self.new.encode() + row[self.end :]).decode()
        return "\n".join(lines)

    def __str__(self) -> str:
        row = self.file.read_text().split("\n")[self.line - 1]
        old = row.encode()[self.start : self.end].decode()
        return (
            f"{self.file.relative_to(ROOT)}:{self.line}: `{old}` -> `{self.new}` in `{row.strip()}`"
        )


def faults(file: Path) -> Iterator[Mutant]:
    """All one-token faults of a file; annotations and what is raised stay."""
    text = file.read_text()
    lines = text.split("\n")

    def between(a: ast.expr, b: ast.expr, old: str, new: str) -> Iterator[Mutant]:
        if a.end_lineno != b.lineno or a.end_lineno is None or a.end_col_offset is None:
            return
        gap = lines[b.lineno - 1].encode()[a.end_col_offset : b.col_offset].decode()
        if gap.count(old) == 1:
            start = a.end_col_offset + gap.index(old)
            yield Mutant(file, b.lineno, start, start + len(old), new)

    def visit(node: ast.AST) -> Iterator[Mutant]:
        if isinstance(node, (ast.Raise, ast.Assert, ast.AnnAssign)):
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
            yield from between(node.left, node.comparators[0], *SWAPS[type(node.ops[0])])
        elif (
            isinstance(node, ast.BinOp)
            and type(node.op) in SWAPS
            and not isinstance(node.left, ast.JoinedStr)
        ):
            yield from between(node.left, node.right, *SWAPS[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            yield from between(node.values[0], node.values[1], *SWAPS[type(node.op)])
        elif (
            isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.Not)
            and node.operand.lineno == node.lineno
        ):
            yield Mutant(file, node.lineno, node.col_offset, node.col_offset + len("not "), "")
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, (bool, int))
            and node.end_col_offset
        ):
            new = str(not node.value) if isinstance(node.value, bool) else str(node.value + 1)
            yield Mutant(file, node.lineno, node.col_offset, node.end_col_offset, new)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from visit(child)

    yield from visit(ast.parse(text))


def chosen(seed: int, count: int) -> list[Mutant]:
    """Some faults, the same for a seed, evenly over the lines of the source."""
    rng = random.Random(seed)
    files = sorted((ROOT / "src/loopwright").glob("*/**/*.py"))
    files = [f for f in files if tests_of(f)]
    weights = [len(f.read_text().split("\n")) for f in files]
    made: list[Mutant] = []
    while len(made) < count:
        some = list(faults(rng.choices(files, weights)[0]))
        if some:
            made.append(rng.choice(some))
    return made


def tests_of(file: Path) -> list[Path]:
    """The tests of a file's layer, those of its folder first."""
    parts = file.relative_to(ROOT / "src/loopwright").parts
    layer = ROOT / "tests" / parts[0]
    if not layer.is_dir():
        return []
    folders = [layer.joinpath(*parts[1:k]) for k in range(len(parts) - 1, 0, -1)]
    folders = [f for f in folders if f.is_dir()]
    words = set(file.stem.split("_"))
    named = [p for p in folders[0].glob("test_*.py") if words & set(p.stem.split("_"))]
    return [*sorted(named), *folders]


def found(mutant: Mutant, tree: Path) -> tuple[str, float]:
    """ "found", "missed" or "too long", and the seconds it took."""
    place = tree / mutant.file.relative_to(ROOT)
    before = place.read_text()
    place.write_text(mutant.text())
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadfile"]  # fmt: skip
    environment = {
        **os.environ, "PYTHONPATH": str(tree / "src"), "LOOPWRIGHT_PIN_THREADS": "0",
        "LOOPWRIGHT_CACHE_DIR": str(tree / "cache"), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    started = time.monotonic()
    verdict = "missed"
    try:
        for path in tests_of(mutant.file):
            left = SECONDS - (time.monotonic() - started)
            where = str(path.relative_to(ROOT))
            done = subprocess.run(
                [*command, where],
                cwd=tree,
                env=environment,
                capture_output=True,
                timeout=left,
                check=False,
            )
            if done.returncode not in (0, 5):  # 5: nothing to run there
                verdict = "found"
                break
    except subprocess.TimeoutExpired:
        verdict = "too long"
    finally:
        place.write_text(before)
    return verdict, time.monotonic() - started


def search(options: argparse.Namespace) -> int:
    """Try faults one after another, in a copy of the tree."""
    counts = {"found": 0, "missed": 0, "too long": 0}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder)
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, tree / name)
        for mutant in chosen(options.seed, options.count):
            verdict, seconds = found(mutant, tree)
            counts[verdict] += 1
            print(f"{verdict} ({seconds:.0f} s): {mutant}", flush=True)
    killed = counts["found"] + counts["too long"]
    print(f"mutants: {killed} of {options.count} found ({counts['too long']} ran too long)")
    return 0
