"""What a change does to the texts of many programs: `make replay`, `make replay BASE=v0.1.0`.

`tests/replay` writes the texts of each step of some thousand small programs: at the merge base with
BASE, once per tree (build/replay/TREE), and here. What differs is printed hunk by hunk, a hunk that many
texts have once. A commit since the merge base that says `[same]` in its subject must change none: it is
compared with its parent, and the exit status is 1 if it does not keep its word.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STORE = Path("build/replay")
KEPT = 6  # trees whose texts stay in build/replay: about 110 MB each
HEAD = "=========="  # begins a section's first line; no text of ours has a line like it


def sections(rows: Mapping[str, Mapping[str, str]]) -> str:
    """{row: {column: text}} as one text, each part under a line that names it."""
    return "".join(
        f"{HEAD} {row} {column}".rstrip() + f"\n{text}\n"
        for row, texts in rows.items()
        for column, text in texts.items()
    )


def git(root: Path, *words: str) -> str:
    """What git prints; its own message and exit status where it fails."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def written(checkout: Path, to: Path) -> Path:
    """Run `tests/replay` of a checkout and leave its texts in a folder."""
    partial = to.with_name(to.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "LOOPWRIGHT_PIN_THREADS": "0"}
    command = [sys.executable, "-m", "pytest", "tests/replay", f"--texts={partial}", "-n", "2"]
    done = subprocess.run([*command, "--dist", "load"], cwd=checkout, env=environment)
    if done.returncode:
        sys.exit(f"replay: tests/replay of {checkout} ended with {done.returncode}")
    shutil.rmtree(to, ignore_errors=True)
    partial.rename(to)
    return to


def of_commit(root: Path, commit: str) -> Path:
    """The texts of a commit, made in a copy of its tree unless they are known."""
    to = root / STORE / git(root, "rev-parse", f"{commit}^{{tree}}")
    if to.exists():
        os.utime(to)
        return to
    print(f"replay: {git(root, 'log', '-1', '--format=%h %s', commit)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        archive = subprocess.run(
            ["git", "archive", commit], cwd=root, stdout=subprocess.PIPE, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        if not Path(folder, "tests/replay").is_dir():
            sys.exit(f"replay: {commit} has no tests/replay to compare with: give a later BASE=")
        return written(Path(folder), to)


def here(root: Path) -> Path:
    """The texts of the working tree."""
    if git(root, "status", "--porcelain"):
        return written(root, root / STORE / "here")
    return of_commit(root, "HEAD")


@dataclass
class Hunk:
    """Lines that came and went, and the texts in which they did."""

    lines: tuple[str, ...]
    places: list[str] = field(default_factory=list)


def differences(before: Path, after: Path) -> list[Hunk]:
    """What differs between two folders of texts: the hunk of most texts first."""
    found: dict[tuple[str, ...], Hunk] = {}
    for name in sorted({p.relative_to(f) for f in (before, after) for p in f.rglob("*.txt")}):
        for place, lines in _hunks(before / name, after / name):
            found.setdefault(lines, Hunk(lines)).places.append(f"{name.with_suffix('')}: {place}")
    return sorted(found.values(), key=lambda hunk: -len(hunk.places))


def _hunks(before: Path, after: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(section, lines) of each hunk."""
    files = [str(p) if p.exists() else os.devnull for p in (before, after)]
    if os.devnull not in files and before.read_bytes() == after.read_bytes():
        return
    command = ["git", "diff", "--no-index", "--text", "--no-color", "--no-ext-diff", "-U0", *files]
    text = subprocess.run(command, capture_output=True, text=True).stdout
    kept = after if after.exists() else before
    heads = [
        (n, line) for n, line in enumerate(kept.read_text().split("\n"), 1) if line.startswith(HEAD)
    ]
    for hunk in re.split(r"^(?=@@ )", text, flags=re.MULTILINE)[1:]:
        first, *lines = hunk.rstrip("\n").split("\n")
        row = int(re.match(r"@@ -(\d+)\S* \+(\d+)", first)[1 + (kept is after)])
        at = bisect_right(heads, row, key=lambda head: head[0]) - 1
        yield heads[max(at, 0)][1].removeprefix(HEAD).strip() if heads else "", tuple(lines)


def shown(hunks: list[Hunk], limit: int) -> str:
    """The hunks as one reads them, up to a number of lines."""
    places = {place for hunk in hunks for place in hunk.places}
    lines = [f"replay: {len(places)} texts differ, in {len(hunks)} ways"]
    for hunk in hunks:
        more = f" and {len(hunk.places) - 1} more" if len(hunk.places) > 1 else ""
        lines += ["", f"@@ {hunk.places[0]}{more}", *hunk.lines]
    if len(lines) > limit:
        lines = [*lines[:limit], f"... {len(lines) - limit} lines more"]
    return "\n".join(lines)


def broken_promises(root: Path, base: str, limit: int) -> int:
    """Commits since `base` that say [same] and change texts, with what they change."""
    broken = 0
    for line in git(root, "log", "--no-merges", "--format=%h %s", f"{base}..HEAD").splitlines():
        commit, _, subject = line.partition(" ")
        if "[same]" in subject:
            hunks = differences(of_commit(root, f"{commit}^"), of_commit(root, commit))
            if hunks:
                broken += 1
                print(f"replay: {line} changes texts:\n{shown(hunks, limit)}")
    return broken


def main(words: list[str] | None = None, root: Path = ROOT) -> int:
    """`python -m tools.replay`"""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--base", default="main", help="compare with the merge base with this")
    parser.add_argument("--lines", type=int, default=400, help="print at most so many")
    parser.add_argument("--same", action="store_true", help="look at commits that say [same] only")
    options = parser.parse_args(words)
    store = root / STORE
    store.mkdir(parents=True, exist_ok=True)
    base = git(root, "merge-base", "HEAD", options.base)
    if base == git(root, "rev-parse", "HEAD") and not git(root, "status", "--porcelain"):
        base = git(root, "rev-parse", "HEAD^")  # on main itself: its last commit
    if not options.same:
        hunks = differences(of_commit(root, base), here(root))
        (store / "difference.txt").write_text(shown(hunks, sys.maxsize) + "\n")
        print(shown(hunks, options.lines), f"(all of it: {store / 'difference.txt'})", sep="\n")
    broken = broken_promises(root, base, options.lines)
    for old in sorted(store.glob("?" * 40), key=os.path.getmtime)[:-KEPT]:
        shutil.rmtree(old)
    return min(broken, 1)


if __name__ == "__main__":
    sys.exit(main())
