"""Random faults of one token in our own source: how many do the tests find?

The tests run once under coverage, in a copy of the tree, one folder after the other (those that fail then
find nothing later); then each fault is tried on the tests that run its line: the quickest of its layer, the
others of its layer, those of other layers ("found elsewhere"). What no test finds may still change the
texts of `tests/replay` ("only by replay").

`--tree DIR` keeps the copy: the next search uses it, and goes on with the folders where this one was
stopped. `--layers arith,tir` takes faults and tests of these layers only, which is a part of the work.
`--kinds old` takes the faults that there were at first (operators and numbers), the same for a seed as then;
`new` takes wrong names, doubled arguments, min for max, other dtypes and lost signs; `all` both, each kind
as often.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path

from loopwright.base.errors import LoopwrightError, explain

ROOT = Path(__file__).resolve().parents[2]
RUNNER = Path(__file__).with_name("mutant_run.py")
BUDGET = 150  # seconds of the tests of one fault, those of its layer and those of others
FOUND = ("found", "found elsewhere", "too long")
REPLAYED = "only by replay"
LEFT = ("missed", "not run")
VERDICTS = (*FOUND, REPLAYED, *LEFT)
READERS = "/test_signatures.py::"  # tests that look at functions, but do not call them
SWAPS: dict[type, tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.Add: ("+", "-"), ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "//"), ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}  # fmt: skip


def _both_ways(*pairs: str) -> dict[str, str]:
    halves = [pair.split() for pair in pairs]
    return {**dict(halves), **{b: a for a, b in halves}}


FUNCTIONS = _both_ways(
    *("min max", "any all", "Min Max", "minimum maximum", "argmin argmax", "floordiv truncdiv"),
    *("floormod truncmod", "logical_and logical_or", "is_int is_uint"),
)
TEXTS = _both_ways(
    *("int8 uint8", "int16 uint16", "int32 int64", "uint32 uint64", "float32 float64"),
    *("float16 bfloat16", "sext zext", "sdiv udiv", "ashr lshr", "sitofp uitofp", "fptosi fptoui"),
    *("slt sle", "ult ule", "sgt sge", "ugt uge", "add sub"),
)
KINDS = {
    "old": ("operators",),
    "new": ("names", "arguments", "functions", "texts", "signs"),
}
KINDS["all"] = (*KINDS["old"], *KINDS["new"])


_Names = dict[str, tuple[int, str]]


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


def faults(tree: Path, path: str, kinds: Sequence[str] = KINDS["old"]) -> Iterator[Mutant]:
    """All one-token faults of some kinds in a file; annotations, `strict=`, overloads, samples of operators
    (which are tests), what is raised and the statements before it that only make its message stay."""
    finder = _Finder(tree, path, kinds)
    yield from finder.visit(ast.parse((tree / path).read_text()), 0, {})


class _Finder:
    """The faults of a file. Each method named in KINDS gives those of one node; `statement` is the line at
    which the node's statement begins, `bound` the local names: {name: (first line, annotation)}."""

    def __init__(self, tree: Path, path: str, kinds: Sequence[str]) -> None:
        self.tree, self.path = tree, path
        self.lines = [line.encode() for line in (tree / path).read_text().split("\n")]
        self.makers = [getattr(self, kind) for kind in kinds]
        self.called: set[ast.expr] = set()

    def visit(self, node: ast.AST, statement: int, bound: _Names) -> Iterator[Mutant]:
        if isinstance(node, ast.stmt):
            statement = node.lineno
        if _stays(node):
            return
        if isinstance(node, ast.FunctionDef):
            bound = _own_names(node)
        if isinstance(node, ast.Call):
            self.called.add(node.func)
        for make in self.makers:
            yield from make(node, statement, bound)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            if name in ("body", "orelse") and isinstance(value, list) and _only_raises(value):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self.visit(child, statement, bound)

    def text(self, node: ast.expr) -> str:
        """The text of a node, "" where it has several lines."""
        row = self.lines[node.lineno - 1]
        return (
            row[node.col_offset : node.end_col_offset].decode()
            if node.lineno == node.end_lineno
            else ""
        )

    def instead(self, node: ast.expr, statement: int, new: str, end: int = 0) -> Mutant:
        """Another text for a node, or with `end` for as many of its last (or first, negative) bytes."""
        start, stop = node.col_offset, node.end_col_offset or 0
        if end:
            start, stop = (stop - end, stop) if end > 0 else (start, start - end)
        return Mutant(self.tree, self.path, statement, node.lineno, start, stop, new)

    def between(
        self, statement: int, a: ast.expr, b: ast.expr, old: str, new: str
    ) -> Iterator[Mutant]:
        if a.end_lineno != b.lineno or a.end_col_offset is None:
            return
        gap = self.lines[b.lineno - 1][a.end_col_offset : b.col_offset].decode()
        if gap.count(old) == 1:
            start = a.end_col_offset + gap.index(old)
            end = start + len(old)
            yield Mutant(self.tree, self.path, statement, b.lineno, start, end, new)

    def operators(self, node: ast.AST, statement: int, bound: _Names) -> Iterator[Mutant]:
        """Another operator, a number more by one, the other truth value, no `not`."""
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
            swap = SWAPS[type(node.ops[0])]
            yield from self.between(statement, node.left, node.comparators[0], *swap)
        elif isinstance(node, ast.BinOp) and type(node.op) in SWAPS:
            if not isinstance(node.left, ast.JoinedStr):
                yield from self.between(statement, node.left, node.right, *SWAPS[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            yield from self.between(statement, *node.values[:2], *SWAPS[type(node.op)])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            if node.operand.lineno == node.lineno:
                yield self.instead(node, statement, "", -len("not "))
        elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int)):
            value = not node.value if isinstance(node.value, bool) else node.value + 1
            yield self.instead(node, statement, str(value))

    def names(self, node: ast.AST, statement: int, bound: _Names) -> Iterator[Mutant]:
        """A local name for another that is bound before: the last of the same annotation, else the last.
        Names of enclosing functions stay, for an exchanged closure has the variables of the old one."""
        if not isinstance(node, ast.Name) or node in self.called or node.id not in bound:
            return
        if not isinstance(node.ctx, ast.Load) or self.text(node) != node.id:
            return
        note = bound[node.id][1]
        others = [n for n, (line, _) in bound.items() if line < statement and n != node.id]
        alike = [n for n in others if note and bound[n][1] == note]
        if others:
            yield self.instead(node, statement, (alike or others)[-1])

    def arguments(self, node: ast.AST, statement: int, bound: _Names) -> Iterator[Mutant]:
        """An argument for its neighbour, which then is given twice."""
        if not isinstance(node, ast.Call) or any(isinstance(a, ast.Starred) for a in node.args):
            return
        if _last_name(node.func) == "isinstance":  # an error at once
            return
        for k, arg in enumerate(node.args):
            for other in (node.args[k + 1 :] or node.args[max(k - 1, 0) : k])[:1]:
                old, new = self.text(arg), self.text(other)
                if old and new and ast.dump(arg) != ast.dump(other):
                    yield self.instead(arg, statement, new)

    def functions(self, node: ast.AST, statement: int, bound: _Names) -> Iterator[Mutant]:
        """min for max, any for all; of attributes only what is called, for a range has a min alone."""
        if not isinstance(node, ast.Name) and node not in self.called:
            return
        name = getattr(node, "id", getattr(node, "attr", ""))
        new = FUNCTIONS.get(name)
        if new and self.text(node).rpartition(".")[2] == name:
            yield self.instead(node, statement, new, len(name))

    def texts(self, node: ast.AST, statement: int, bound: _Names) -> Iterator[Mutant]:
        """Another dtype or instruction."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in TEXTS:
            if self.text(node)[1:-1] == node.value:
                quote = self.text(node)[0]
                yield self.instead(node, statement, f"{quote}{TEXTS[node.value]}{quote}")

    def signs(self, node: ast.AST, statement: int, bound: _Names) -> Iterator[Mutant]:
        """No minus before a value."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            if self.text(node).startswith("-"):
                yield self.instead(node, statement, "", -1)


def _stays(node: ast.AST) -> bool:
    """Whether a node has no faults."""
    if isinstance(node, (ast.Raise, ast.Assert, ast.AnnAssign)):
        return True
    if isinstance(node, ast.keyword):
        return node.arg == "strict"  # of zip: it changes nothing where the code is right
    if isinstance(node, ast.FunctionDef):
        return "overload" in map(_last_name, node.decorator_list)
    if isinstance(node, ast.Call):
        return _last_name(node.func) in ("explain", "samples")
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _own_names(function: ast.FunctionDef) -> _Names:
    """What a function binds itself, in order; without `self`, for which no other stands."""
    given = function.args
    args = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    notes = {a.arg: ast.unparse(a.annotation) if a.annotation else "" for a in args}
    bound = {name: (function.lineno, note) for name, note in notes.items()}
    inner = (ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.comprehension)
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.setdefault(node.id, (node.lineno, ""))
        if not isinstance(node, inner):
            waiting[:0] = ast.iter_child_nodes(node)
    return {name: found for name, found in bound.items() if name not in ("self", "cls")}


def _last_name(called: ast.expr) -> str:
    return ast.unparse(called).rpartition(".")[2]


def _only_raises(block: list[ast.stmt]) -> bool:
    """Whether a block names the parts of a message and raises it."""
    names = all(isinstance(s, ast.Assign) for s in block[:-1])
    return bool(block) and names and isinstance(block[-1], ast.Raise)


def chosen(
    tree: Path, seed: int, count: int, layers: Sequence[str] = ("*",), kinds: str = "old"
) -> list[Mutant]:
    """Some faults, the same for a seed, evenly over the lines of the source, or of some layers, and over
    the kinds of one of KINDS that a file has."""
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
        path = rng.choices([*weights], [*weights.values()])[0]
        some = [f for kind in KINDS[kinds] if (f := list(faults(tree, path, [kind])))]
        if some:  # with one kind as many numbers are drawn as when there was no other
            made.append(rng.choice(some[0] if len(KINDS[kinds]) == 1 else rng.choice(some)))
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
            if folder == "replay" or (layers and folder not in layers):
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
        """The tests that run a line, in the order in which they are tried: those of its layer, those of
        other layers, the quickest first; and whether it ran at an import."""
        lines, layer = self.lines(mutant.path), layer_of(self.tree, mutant.path) or ""
        row = next((k for k in range(mutant.line, mutant.statement - 1, -1) if lines.get(k)), 0)
        names = _names(lines.get(row, []))
        fresh = "" in names
        if fresh:  # or in a fixture: all that use the module, or look at it
            names |= _names(c for some in lines.values() for c in some)
            if names == {""}:  # only tables: any test
                names = _names(c for data in self.data for c in data.measured_contexts())
            names |= {n for n in self.seconds if READERS in n}
        order = sorted(names & self.seconds.keys(), key=lambda n: (self.seconds[n], n))
        own = [n for n in order if n.startswith(layer)]
        others = [n for n in order if not n.startswith(layer)]
        return [*self._some(own), *self._some(others)], fresh

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


class Replay:
    """Whether a tree with a fault writes other texts than the one without does (`tests/replay`)."""

    def __init__(self, tree: Path) -> None:
        self.tree, self.texts, self.lock = tree, tree / "coverage" / "texts", threading.Lock()

    def __call__(self, tree: Path) -> bool:
        if not (self.tree / "tests" / "replay").is_dir():
            return False
        with self.lock:  # the first that asks waits for the texts, and all others with it
            if not self.texts.exists():
                self._run(self.tree, f"--texts={self.texts}")
        return self._run(tree, "-x", f"--against={self.texts}") != 0

    @staticmethod
    def _run(tree: Path, *options: str) -> int:
        child = run(
            tree, ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/replay", *options]
        )
        child.communicate()
        return child.returncode


def tried(
    mutants: Sequence[Mutant],
    tests: Tests,
    tree: Path,
    replay: Callable[[Path], bool] | None = None,
) -> Iterator[Attempt]:
    """What became of each fault, tried in a copy of the tree: by tests, then what they left by `replay`."""
    left = []
    for made in _tried_by_tests(mutants, tests, tree):
        if replay is None or made.verdict not in LEFT:
            yield made
        else:
            left.append(made)
    for made in left:
        place, before = tree / made.mutant.path, made.mutant.before()
        place.write_text(made.mutant.text())
        try:
            found = replay is not None and replay(tree)
        finally:
            place.write_text(before)
        yield dataclasses.replace(made, verdict=REPLAYED) if found else made


def _tried_by_tests(mutants: Sequence[Mutant], tests: Tests, tree: Path) -> Iterator[Attempt]:
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
    elsewhere = by.startswith("tests/") and not by.startswith(layer)
    return "missed" if not by else "found elsewhere" if elsewhere else "found"


def search(options: argparse.Namespace) -> int:
    """Try faults, some at a time, each process in a copy of the tree."""
    counts: dict[str, int] = dict.fromkeys(VERDICTS, 0)
    layers = options.layers.split(",") if options.layers else []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tests = Tests(
            Path(options.tree or folder, "covered").resolve(), ROOT, layers, options.budget
        )
        some = chosen(tests.tree, options.seed, options.count, layers or ["*"], options.kinds)
        replay = None if options.no_replay else Replay(tests.tree)

        def attempt(number: int) -> None:
            tree = copy(tests.tree, Path(folder, str(number)))
            for made in tried(some[number :: options.processes], tests, tree, replay):
                counts[made.verdict] += 1
                print(made, flush=True)

        with ThreadPoolExecutor(options.processes) as pool:
            list(pool.map(attempt, range(options.processes)))
    found, left = (sum(counts[v] for v in verdicts) for verdicts in (FOUND, LEFT))
    print(
        f"mutants of {options.count}: {found} found by tests, {counts[REPLAYED]} only by replay, "
        f"{left} not found; {counts}"
    )
    return 0
