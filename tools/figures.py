"""Figures of the package's source, in docs/architecture.md: python -m tools.figures [ROOT | --write]

The core is all but the wing of TVM (`loopwright.tvm`). Of each:

- `Any`: of the annotated arguments, those that are annotated `Any`
- comments: lines with a comment that says something (no `noqa`, `fmt`, `type:`), of 100 lines of code
- circle: the most modules that import each other, a slot counted as an import of what fills it
- pairs (printed, not in the page): runs of six or more lines (blank lines, comments, imports and lone
  punctuation left out) that stand at two places of src/, tests/, tools/, examples/ or benchmarks/
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

RUN = 6  # lines
LONG = 60  # lines of a function
LONG_FILE = 600
ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
_TABLE = re.compile(r"(?<=<!-- tools\.figures -->\n).*?(?=<!-- end -->)", re.DOTALL)
_FOR_TOOLS = re.compile(r"#\s*(noqa|fmt:|type:|isort:|pyright:|pragma:|!)")


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its signature and its docstring."""
    has_doc = ast.get_docstring(function) is not None
    body = function.body[1:] if has_doc and len(function.body) > 1 else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


class Module:
    """A file of the package. path: below it."""

    def __init__(self, package: Path, file: Path) -> None:
        self.path = file.relative_to(package)
        self.text = file.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)

    @property
    def name(self) -> str:
        """Its dotted name below the package."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def functions(self) -> Iterator[tuple[int, str]]:
        """(lines without the docstring, name) of each function."""
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield length(node), node.name

    @property
    def annotations(self) -> Iterator[str]:
        """Those of all arguments that have one."""
        for node in self.nodes:
            if isinstance(node, ast.arg) and node.annotation is not None:
                yield ast.unparse(node.annotation)

    @property
    def comments(self) -> int:
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return sum(t.type == tokenize.COMMENT and not _FOR_TOOLS.match(t.string) for t in tokens)

    @property
    def code_lines(self) -> int:
        """Lines that hold a statement, docstrings left out."""
        docs: set[int] = set()
        for node in self.nodes:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                docs.update(range(node.lineno, (node.end_lineno or 0) + 1))
        rows = enumerate(self.text.splitlines(), 1)
        return sum(bool(row.strip()) and row.strip()[0] != "#" and k not in docs for k, row in rows)

    def imports(self, known: Mapping[str, object]) -> Iterator[str]:
        """The modules of the package that it imports."""
        folder = self.path.parts[:-1]
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.level:
                base = [*folder[: len(folder) - node.level + 1], *filter(None, [node.module])]
                home = ".".join(base)
                for alias in node.names:
                    below = f"{home}.{alias.name}".lstrip(".")
                    yield below if below in known else home


def modules(root: Path) -> dict[str, Module]:
    """The modules of the package by name."""
    package = root / "src" / "loopwright"
    found = (Module(package, file) for file in sorted(package.rglob("*.py")))
    return {module.name: module for module in found}


def slots(known: Mapping[str, Module]) -> Iterator[tuple[str, str]]:
    """(module that declares a slot, module that fills it)"""
    table: dict[str, str] = {}
    for node in known["composition"].nodes:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "SLOTS":
            table = ast.literal_eval(node.value) if node.value else {}
    for module in known.values():
        for node in module.nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Slot" and node.args:
                if isinstance(node.args[0], ast.Constant) and node.args[0].value in table:
                    yield module.name, table[node.args[0].value].partition(":")[0]


def circle(known: Mapping[str, Module]) -> int:
    """The size of the largest set of modules that import each other (Tarjan, 1972)."""
    edges = {name: sorted(set(module.imports(known))) for name, module in known.items()}
    for declared, filled in slots(known):
        edges[declared].append(filled)
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    largest = 0
    for start in known:
        todo = [(start, iter(edges[start]))] if start not in order else []
        while todo:
            name, left = todo[-1]
            if name not in order:
                order[name] = low[name] = len(order)
                stack.append(name)
            for other in left:
                if other not in known:
                    continue
                if other not in order:
                    todo.append((other, iter(edges[other])))
                    break
                if other in stack:
                    low[name] = min(low[name], order[other])
            else:
                todo.pop()
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[name])
                if low[name] == order[name]:
                    at = stack.index(name)
                    largest = max(largest, len(stack) - at)
                    del stack[at:]
    return largest


def significant(path: Path) -> list[tuple[int, str]]:
    """The lines that count for repetition, with their numbers."""
    lines = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        text = line.strip()
        if any(c.isalnum() for c in text) and not text.startswith(("#", "import ", "from ")):
            lines.append((number, text))
    return lines


def pairs(paths: Iterable[Path]) -> int:
    """How many pairs of files (or of a file with itself) share a run of lines."""
    places: dict[tuple[str, ...], set[tuple[Path, int]]] = defaultdict(set)
    for path in paths:
        lines = significant(path)
        for k in range(len(lines) - RUN + 1):
            places[tuple(text for _, text in lines[k : k + RUN])].add((path, k))
    shared = set()
    for where in places.values():
        ordered = sorted(where)
        for i, (a, k) in enumerate(ordered):
            shared |= {(a, b) for b, n in ordered[i + 1 :] if a != b or n - k >= RUN}
    return len(shared)


def column(part: list[Module]) -> dict[str, str]:
    """The figures of some modules."""
    longest, name = max(f for module in part for f in module.functions)
    file = max(part, key=lambda module: module.lines)
    annotations = [a for module in part for a in module.annotations]
    comments, code = (sum(getattr(m, what) for m in part) for what in ("comments", "code_lines"))
    return {
        "files": str(len(part)),
        "lines, thousands": f"{sum(m.lines for m in part) / 1000:.0f}",
        "longest file": f"{file.lines} ({file.path})",
        f"files over {LONG_FILE} lines": str(sum(m.lines > LONG_FILE for m in part)),
        "longest function": f"{longest} ({name})",
        f"functions over {LONG} lines": str(sum(n > LONG for m in part for n, _ in m.functions)),
        "`Any` among annotated arguments": f"{annotations.count('Any') / len(annotations):.0%}",
        "`type: ignore`": str(sum(m.text.count("type: ignore") for m in part)),
        "comments per 100 lines of code": f"{100 * comments / code:.1f}",
    }


def table(root: Path) -> str:
    """The table of docs/architecture.md."""
    known = modules(root)
    wing = [m for m in known.values() if m.path.parts[0] == "tvm"]
    core = column([m for m in known.values() if m.path.parts[0] != "tvm"])
    right = column(wing) if wing else dict.fromkeys(core, "")
    rows = [f"| {what} | {core[what]} | {right[what]} |" for what in core]
    rows += [f"| modules in the largest circle of imports, slots counted | {circle(known)} | |"]
    return "\n".join(["| | core | `tvm` |", "| --- | --- | --- |", *rows]) + "\n"


def page(text: str) -> str:
    """A page with the table as it is now."""
    return _TABLE.sub(lambda _: table(ROOT), text)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words == ["--write"]:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    elif len(words) > 1 or any(word.startswith("-") for word in words):
        sys.exit(__doc__)
    else:
        top = Path(words[0]) if words else ROOT
        folders = ("src", "tests", "tools", "examples", "benchmarks")
        everything = sorted(path for folder in folders for path in (top / folder).rglob("*.py"))
        print(table(top), f"pairs of files that share {RUN} lines: {pairs(everything)}", sep="")
