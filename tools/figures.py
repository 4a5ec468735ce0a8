"""Figures of the package's source, as docs/architecture.md shows them: python -m tools.figures [ROOT]

Pairs of places: runs of six or more lines (blank lines, comments, imports and lone punctuation left
out) that stand at two places of src/, tests/, tools/, examples/ or benchmarks/.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

RUN = 6  # lines
LONG = 60  # lines of a function


def functions(tree: ast.Module) -> Iterator[int]:
    """The number of lines of each function, its docstring left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            has_doc = ast.get_docstring(node) is not None
            body = node.body[1:] if has_doc and len(node.body) > 1 else node.body
            yield (body[-1].end_lineno or 0) - body[0].lineno + 1


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


def figures(root: Path) -> dict[str, object]:
    """The rows of the table."""
    source = sorted((root / "src").rglob("*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in source}
    counts = {path: len(text.splitlines()) for path, text in texts.items()}
    longest = max(counts, key=lambda path: counts[path])
    sizes = [n for text in texts.values() for n in functions(ast.parse(text))]
    folders = ("src", "tests", "tools", "examples", "benchmarks")
    everything = sorted(path for folder in folders for path in (root / folder).rglob("*.py"))
    return {
        "files": len(source),
        "lines": sum(counts.values()),
        "longest file": f"{counts[longest]} ({longest.relative_to(root / 'src/loopwright')})",
        "files over 600 lines": sum(n > 600 for n in counts.values()),
        f"functions over {LONG} lines": sum(n > LONG for n in sizes),
        "`type: ignore`": sum(text.count("type: ignore") for text in texts.values()),
        "pairs of files that share six lines": pairs(everything),
    }


if __name__ == "__main__":
    top = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    for name, value in figures(top).items():
        print(f"| {name} | {value} |")
