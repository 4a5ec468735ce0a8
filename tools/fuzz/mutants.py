"""Random faults of one token in our own source: how many do the tests find?

The tests run once under coverage, in a copy of the tree, one folder after the other (those that fail then
find nothing later); then each fault is tried on the tests that run its line: the quickest of its layer and
the snapshots, which see much at once, then the others of its layer, then those of other layers ("found
elsewhere"). `--tree DIR` keeps the copy: the next search uses it, and goes on with the folders where this
one was stopped. `--layers arith,tir` takes faults and tests of these layers (and the snapshots) only, which
is a part of the work.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path

from loopwright.base.errors import LoopwrightError, explain

ROOT = Path(__file__).resolve().parents[2]
RUNNER = Path(__file__).with_name("mutant_run.py")
BUDGET = 150  # seconds of the tests of one fault, those of its layer and those of others
VERDICTS = (
    "found",
    "found elsewhere",
    "too long",
    "missed",
    "not run",
)  # the first three are found
SNAPSHOTS = "tests/snapshots/"
READERS = SNAPSHOTS + "test_signatures.py"  # tests that look at functions, but do not call them
TRIED_FIRST = 30  # test functions: a fault that is found is mostly found by these
SWAPS: dict[type, tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.Add: ("+", "-"), ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "//"), ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A fault: a stretch of a file of a tree and what stands there instead."""

    tree: Path
    path: str
    statement: int  # its first line
    line: int
    start: int
    end: int
    new: str

    def before(self) -> str:
        """The file as it is."""
        return (self.tree / self.path).read_text()

    def text(self) -> str:
        """The file with the fault."""
        lines = self.before().split("\n")
        row = lines[self.line - 1].encode()
        lines[self.line - 1] = (row[: self.start] + self.new.encode() + row[self.end :]).decode()
        return "\n".join(lines)

    def __str__(self) -> str:
        row = self.before().split("\n")[self.line - 1]
        old = row.encode()[self.start : self.end].decode()
        return f"{self.path}:{self.line}: `{old}` -> `{self.new}` in `{row.strip()}`"


def faults(tree: Path, path: str) -> Iterator[Mutant]:
    """All one-token faults of a file; annotations, `strict=`, overloads, samples of operators (which are
    tests), what is raised and the statements before it that only make its message stay."""
    text = (tree / path).read_text()
    lines = text.split("\n")

    def between(statement: int, a: ast.expr, b: ast.expr, old: str, new: str) -> Iterator[Mutant]:
        if a.end_lineno != b.lineno or a.end_lineno is None or a.end_col_offset is None:
            return
        gap = lines[b.lineno - 1].encode()[a.end_col_offset : b.col_offset].decode()
        if gap.count(old) == 1:
            start = a.end_col_offset + gap.index(old)
            yield Mutant(tree, path, statement, b.lineno, start, start + len(old), new)

    def visit(node: ast.AST, statement: int) -> Iterator[Mutant]:
        if isinstance(node, ast.stmt):
            statement = node.lineno
        if isinstance(node, (ast.Raise, ast.Assert, ast.AnnAssign)):
            return
        if isinstance(node, ast.keyword) and node.arg == "strict":
            return  # of zip: it changes nothing where the code is right
        if isinstance(node, ast.FunctionDef) and "overload" in map(_last_name, node.decorator_list):
            return
        if isinstance(node, ast.Call) and _last_name(node.func) in ("explain", "samples"):
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
            yield from between(statement, node.left, node.comparators[0], *SWAPS[type(node.ops[0])])
        elif (
            isinstance(node, ast.BinOp)
            and type(node.op) in SWAPS
            and not isinstance(node.left, ast.JoinedStr)
        ):
            yield from between(statement, node.left, node.right, *SWAPS[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            yield from between(statement, node.values[0], node.values[1], *SWAPS[type(node.op)])
        elif (
            isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.Not)
            and node.operand.lineno == node.lineno
        ):
            yield Mutant(
                tree,
                path,
                statement,
                node.lineno,
                node.col_offset,
                node.col_offset + len("not "),
                "",
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, (bool, int))
            and node.end_col_offset
        ):
            new = str(not node.value) if isinstance(node.value, bool) else str(node.value + 1)
            yield Mutant(
                tree, path, statement, node.lineno, node.col_offset, node.end_col_offset, new
            )
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            if name in ("body", "orelse") and isinstance(value, list) and _only_raises(value):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from visit(child, statement)

    yield from visit(ast.parse(text), 0)


def _last_name(called: ast.expr) -> str:
    return ast.unparse(called).rpartition(".")[2]


def _only_raises(block: list[ast.stmt]) -> bool:
    """Whether a block names the parts of a message and raises it."""
    names = all(isinstance(s, ast.Assign) for s in block[:-1])
    return bool(block) and names and isinstance(block[-1], ast.Raise)


def chosen(tree: Path, seed: int, count: int, layers: Sequence[str] = ("*",)) -> list[Mutant]:
    """Some faults, the same for a seed, evenly over the lines of the source, or of some layers."""
    rng = random.Random(seed)
    found = sorted(
        f for layer in layers for f in (tree / "src/loopwright").glob(f"{layer}/**/*.py")
    )
    weights = {
        p: len(f.read_text().split("\n"))
        for f in found
        if layer_of(tree, p := str(f.relative_to(tree)))
    }
    made: list[Mutant] = []
    while len(made) < count:
        some = list(faults(tree, rng.choices([*weights], [*weights.values()])[0]))
        if some:
            made.append(rng.choice(some))
    return made


def layer_of(tree: Path, path: str) -> str | None:
    """The folder of the tests of a file's layer, if it has some."""
    layer = f"tests/{Path(path).parts[2]}/"
    return layer if (tree / layer).is_dir() else None


@dataclass(frozen=True)
class Attempt:
    """What became of a fault: one of VERDICTS, after some seconds, and the test that found it."""

    mutant: Mutant
    verdict: str = "not run"
    seconds: float = 0.0
    by: str = ""

    def __str__(self) -> str:
        return (
            f"{self.verdict} ({self.seconds:.0f} s): {self.mutant}"
            + bool(self.by) * f" by {self.by}"
        )


class Tests:
    """Which tests of a tree run which lines, and how long each of them takes."""

    def __init__(
        self, tree: Path, source: Path = ROOT, layers: Sequence[str] = (), budget: int = BUDGET
    ):
        from coverage import CoverageData

        self.tree, self.budget = tree, budget
        results = tree / "coverage"
        if not results.exists():
            copy(source, tree)
            results.mkdir()
        folders = sorted(p.name for p in (tree / "tests").iterdir() if any(p.rglob("test_*.py")))
        self.data, self.seconds = [], {}
        for folder in folders:
            if layers and folder not in (*layers, "snapshots"):
                continue
            times = results / f"{folder}.xml"
            if not times.exists():
                options = ["--cov=src/loopwright", "--cov-context=test", "--cov-report=", "-n", "2"]
                options += ["--dist", "loadfile", "-m", "not slow", f"--junitxml={times}"]
                command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
                run(tree, [*command, f"tests/{folder}"], results / f"{folder}.db").communicate()
            self.data.append(CoverageData(str(results / f"{folder}.db")))
            self.data[-1].read()
            for case in xml.etree.ElementTree.parse(times).iter("testcase"):
                if case.find("failure") is not None or case.find("error") is not None:
                    continue
                name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
                self.seconds[name] = float(case.get("time", 0))

    @cache  # noqa: B019 (one object for the whole search)
    def lines(self, path: str) -> dict[int, list[str]]:
        """{line: contexts in which it ran}; the context of an import is ""."""
        found: dict[int, list[str]] = defaultdict(list)
        for data in self.data:
            for line, contexts in data.contexts_by_lineno(str(self.tree / path)).items():
                found[line] += contexts
        return found

    def of(self, mutant: Mutant) -> tuple[list[str], bool]:
        """The tests that run a line, in the order in which they are tried: the quickest of its layer, of
        the snapshots, the others of these, those of other layers; and whether it ran at an import."""
        lines, layer = self.lines(mutant.path), layer_of(self.tree, mutant.path) or ""
        row = next((k for k in range(mutant.line, mutant.statement - 1, -1) if lines.get(k)), 0)
        names = _names(lines.get(row, []))
        fresh = "" in names
        if fresh:  # or in a fixture: all that use the module, or look at it
            names |= _names(c for some in lines.values() for c in some)
            if names == {""}:  # only tables: any test
                names = _names(c for data in self.data for c in data.measured_contexts())
            names |= {n for n in self.seconds if n.startswith(READERS)}
        order = sorted(names & self.seconds.keys(), key=lambda n: (self.seconds[n], n))
        parts: tuple[list[str], list[str], list[str]] = [], [], []
        for n in order:
            parts[0 if n.startswith(layer) else 1 if n.startswith(SNAPSHOTS) else 2].append(n)
        own, snapshots, others = map(self._some, parts)
        first = [*own[:TRIED_FIRST], *snapshots[:TRIED_FIRST]]
        return [*first, *own[TRIED_FIRST:], *snapshots[TRIED_FIRST:], *others], fresh

    def _some(self, order: list[str]) -> list[str]:
        """Tests that last `budget` together: each function once at first, then all its parameters."""
        first = list({n.partition("[")[0]: n for n in reversed(order)}.values())[::-1]
        order = [*first, *(n for n in order if n not in set(first))]
        ends = accumulate(self.seconds[n] for n in order)
        return [
            n
            for k, (n, end) in enumerate(zip(order, ends, strict=True))
            if not k or end < self.budget
        ]

    def limit(self, names: list[str]) -> float:
        """How many seconds tests may last, on a machine that is busy."""
        return 60 + 4 * sum(self.seconds[n] for n in names)


def _names(contexts: Iterable[str]) -> set[str]:
    """The tests of contexts, without their phases."""
    return {c.rpartition("|")[0] for c in contexts}


def copy(tree: Path, to: Path) -> Path:
    """What tests need of a tree."""
    hidden = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "coverage")
    shutil.copytree(tree, to, dirs_exist_ok=True, ignore=hidden)
    return to


def run(tree: Path, command: Sequence[str], coverage: Path | None = None) -> subprocess.Popen[str]:
    """A Python program started in a tree. Coverage goes to a file; only trees without faults have it,
    and may keep bytecode (a file with a fault can have the time and size of the one without)."""
    environment = {
        **os.environ, "PYTHONPATH": str(tree / "src"), "LOOPWRIGHT_PIN_THREADS": "0",
        "LOOPWRIGHT_CACHE_DIR": str(tree / "cache"),
        "PYTHONDONTWRITEBYTECODE": "" if coverage else "1",
        "COVERAGE_FILE": str(coverage or tree / ".coverage"),
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, *command], cwd=tree, env=environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def tried(mutants: Sequence[Mutant], tests: Tests, tree: Path) -> Iterator[Attempt]:
    """What became of each fault, tried in a copy of the tree."""
    plan = [(m, *tests.of(m)) for m in mutants]
    yield from (Attempt(m) for m, order, _ in plan if not order)
    plan = [entry for entry in plan if entry[1]]
    if not plan:
        return
    faults = [
        {"path": m.path, "text": m.text(), "tests": o, "seconds": tests.limit(o), "fresh": fresh}
        for m, o, fresh in plan
    ]
    (tree / "plan.json").write_text(json.dumps(faults))
    child = run(tree, ["-P", str(RUNNER), "plan.json"])
    assert child.stdout is not None
    waiting, lines = iter(plan), []
    with child:
        for line in child.stdout:
            lines.append(line)
            if line.startswith('{"by"'):
                made, (mutant, *_) = json.loads(line), next(waiting)
                if made["by"] and made["by"].startswith("not found"):
                    child.kill()
                    what = "the coverage of --tree is of other tests than the tree has"
                    raise LoopwrightError(
                        explain(what, got=made["by"], instead="give an empty --tree")
                    )
                yield Attempt(
                    mutant, _verdict(mutant, made["by"]), made["seconds"], made["by"] or ""
                )
    if next(waiting, None) is not None:
        what = "the process that tries faults ended before it tried all"
        raise LoopwrightError(explain(what, got="".join(lines[-20:]), instead="try fewer"))


def _verdict(mutant: Mutant, by: str | None) -> str:
    """One of VERDICTS: of no test where that took too long, and of a crash as of a test of the layer."""
    if by is None:
        return "too long"
    layer = layer_of(mutant.tree, mutant.path) or ""
    elsewhere = by.startswith("tests/") and not by.startswith((layer, SNAPSHOTS))
    return "missed" if not by else "found elsewhere" if elsewhere else "found"


def search(options: argparse.Namespace) -> int:
    """Try faults, some at a time, each process in a copy of the tree."""
    counts: dict[str, int] = dict.fromkeys(VERDICTS, 0)
    layers = options.layers.split(",") if options.layers else []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tests = Tests(
            Path(options.tree or folder, "covered").resolve(), ROOT, layers, options.budget
        )
        some = chosen(tests.tree, options.seed, options.count, layers or ["*"])

        def attempt(number: int) -> None:
            tree = copy(tests.tree, Path(folder, str(number)))
            for made in tried(some[number :: options.processes], tests, tree):
                counts[made.verdict] += 1
                print(made, flush=True)

        with ThreadPoolExecutor(options.processes) as pool:
            list(pool.map(attempt, range(options.processes)))
    killed = sum(counts[v] for v in VERDICTS[:3])
    print(f"mutants: {killed} of {options.count} found; {counts}")
    return 0
