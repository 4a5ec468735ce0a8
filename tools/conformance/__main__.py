"""Run Apache TVM's own tests with Loopwright as `tvm`: make conformance TVM=CLONE

CLONE is a clone or mirror of github.com/apache/tvm with its tags; the tests of v0.21.0 are read from
it and nothing of them is kept here (a file of a list that begins with another tag, "v0.18.0/", is of
that release). core.txt names the files of Relax, TIR, TE, arith, TVMScript and
the runtime; wide.txt the others that a compiler for CPUs can serve; topi.txt those of v0.18.0's topi; torch.txt the
importers of PyTorch, with an interpreter that has it (`--list torch --python PYTHON`). A test that its file skips does
not count; a file that cannot be collected counts all its tests as failed.
"""

from __future__ import annotations

import argparse
import collections
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from loopwright.base import trusted

from .differences import page

ROOT = Path(__file__).resolve().parents[2]
VERSION = "v0.21.0"


@dataclass
class Result:
    """The tests of a file: {test: (outcome, message)}. tests: how many there are, if known."""

    area: str
    tests: int
    file: str
    outcomes: dict[str, tuple[str, str]] = field(default_factory=dict)
    uncollected: str = ""

    def failures(self) -> list[tuple[str, int, str]]:
        """(message, tests, example)"""
        if self.uncollected:
            return [(f"not collected: {self.uncollected}", self.tests, self.file)]
        bad = {t: m for t, (o, m) in self.outcomes.items() if o not in ("passed", "skipped")}
        return [(message, 1, test) for test, message in bad.items()]

    def count(self, *outcomes: str) -> int:
        """Tests with one of these outcomes."""
        return sum(outcome in outcomes for outcome, _ in self.outcomes.values())

    def total(self) -> int:
        """Tests that count."""
        return self.tests if self.uncollected else len(self.outcomes) - self.count("skipped")


def archived(clone: Path, version: str, folder: str) -> tarfile.TarFile:
    """A folder of a release."""
    command = ["git", "-C", str(clone), "archive", f"refs/tags/{version}", folder]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{clone} has no tag {version}\n  git says: {done.stderr.decode().strip()}")
    return tarfile.open(fileobj=io.BytesIO(done.stdout))


def unpack(clone: Path, to: Path, version: str) -> Path:
    """Write the test files of a release below a folder."""
    with archived(clone, version, "tests/python") as archive:
        trusted.unpack(archive, to / version)
    tests = to / version / "tests/python"
    # scripts that tests start in other processes import it, too
    (tests / "tvm.py").write_text(
        'import sys\nfrom loopwright import compat\ndel sys.modules["tvm"]\ncompat.alias("tvm")\n'
    )
    return tests


def release_of(file: str) -> tuple[str, str]:
    """(release, path) of a file of a list."""
    first, _, rest = file.partition("/")
    return (first, rest) if re.fullmatch(r"v\d+\.\d+\.\d+", first) else (VERSION, file)


def run_file(
    result: Result, folders: dict[str, Path], seconds: int, python: str = sys.executable
) -> Result:
    """Run the tests of a file; where one ends or hangs the interpreter, go on after it. folders: those
    of the releases."""
    release, name = release_of(result.file)
    tests = folders[release]
    path = tests / name
    for _ in range(20):
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as log:
            environment = {
                **os.environ,
                "CONFORMANCE_LOG": log.name,
                "CONFORMANCE_DONE": json.dumps(list(result.outcomes)),
                "PATH": os.pathsep.join([str(Path(python).parent), os.environ["PATH"]]),
                # a test may import from the folders of others: relay.utils.tag_span
                "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), str(tests)]),
            }
            command = [
                python, "-m", "pytest", "-p", "tools.conformance.plugin", "--noconftest", "-q",
                "-p", "no:cacheprovider", "--rootdir", str(tests), "--timeout", "60", "--tb=short",
                "--disable-warnings", "-c", os.devnull, str(path),
            ]  # fmt: skip
            hung, text = False, ""
            with subprocess.Popen(
                command, cwd=path.parent, env=environment, text=True, start_new_session=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
            ) as process:  # fmt: skip
                try:
                    text = process.communicate(timeout=seconds)[0]
                except subprocess.TimeoutExpired:
                    hung = True
                    os.killpg(process.pid, 9)
            events = [json.loads(line) for line in Path(log.name).read_text().splitlines()]
        running = take(result, events)
        if running is None:
            break
        result.outcomes[running] = ("hang" if hung else "crash", text[-300:])
        if hung:
            break
    if (
        not result.outcomes
        and not result.uncollected
        and not any(e["event"] in ("collected", "skipped file") for e in events)
    ):
        result.uncollected = f"pytest did not start: {text[-300:]}"
    return result


def take(result: Result, events: list[dict[str, str]]) -> str | None:
    """Add what a run logged; the test that was running when it ended, if one was."""
    running = None
    for event in events:
        what = event["event"]
        if what == "no collection":
            result.uncollected = event["message"]
        elif what == "start":
            running = event["test"]
        elif what in ("passed", "failed", "skipped"):
            result.outcomes[event["test"]] = (what, event["message"])
            running = None
    return running


def cause(message: str) -> str:
    """A message without what differs from test to test."""
    lines = [line.removeprefix("E ").strip() for line in message.strip().splitlines() if line]
    text = (lines[-1] if message.startswith("not collected") else " ".join(lines)) if lines else ""
    return re.sub(r"\d+", "N", re.sub(r"(?<=\s)/\S+|0x[0-9a-f]+", "..", text))[:120]


def report(results: list[Result], causes: int) -> None:
    """Print tests passed by area, and the most frequent causes of failures."""
    areas: dict[str, list[int]] = {}
    count: collections.Counter[str] = collections.Counter()
    example: dict[str, str] = {}
    for result in results:
        row = areas.setdefault(result.area, [0, 0, 0])
        for k, n in enumerate(
            (result.count("passed"), result.total(), result.count("crash", "hang"))
        ):
            row[k] += n
        for message, tests, test in result.failures():
            count[cause(message)] += tests
            example.setdefault(cause(message), test)
    for text, tests in count.most_common(causes):
        print(f"{tests:5d}  {text}   e.g. {example[text]}")
    for area, (passed, total, dead) in sorted(areas.items()):
        print(
            f"{area:16} {passed:5d} of {total:5d}" + (f"  {dead} ended the process" if dead else "")
        )
    print(summary(results))


def summary(results: list[Result]) -> str:
    """Tests passed, of those that count, and how many ended the process."""
    passed, total = sum(r.count("passed") for r in results), sum(r.total() for r in results)
    dead = sum(r.count("crash", "hang") for r in results)
    share = f"{passed / max(total, 1):.1%}"
    return f"all {passed} of {total} tests pass ({share}); crashes and hangs: {dead}"


def read_list(name: str) -> list[list[str]]:
    """(area, tests, file) of each row of a list."""
    path = Path(name) if "." in name else Path(__file__).parent / f"{name}.txt"
    return [line.split() for line in path.read_text().splitlines() if line and line[0] != "#"]


def _read(run: Path) -> list[Result]:
    """What an --out file has."""
    return [Result(**r) for r in json.loads(run.read_text())]


def main() -> int:
    """`python -m tools.conformance CLONE`; 0 where no test ended the process."""
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__)
    parser.add_argument("clone", type=Path, help="clone of github.com/apache/tvm")
    parser.add_argument(
        "--list",
        default="core",
        help="core, wide, topi, torch, a file like core.txt; several with commas",
    )
    parser.add_argument("--only", default="", help="a regular expression of areas or files")
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="the interpreter of the tests; v0.18.0/frontend/onnx/test_forward.py needs one with "
        "onnx 1.17 (later ones have no onnx.mapping and no data of their tests), torch, "
        "torchvision, onnxscript and scipy",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=int, default=900, help="for the tests of one file")
    parser.add_argument("--causes", type=int, default=40, help="most causes of failures to print")
    parser.add_argument("--out", type=Path, help="a JSON file for every outcome")
    parser.add_argument(
        "--results",
        type=Path,
        nargs="*",
        default=[],
        help="--out files, not a run; of a file that is in several, the last counts",
    )
    parser.add_argument(
        "--differences", type=Path, help="write the failures' page of reasons there"
    )
    parser.add_argument("--note", default="", help="a sentence for that page: of which commits")
    options = parser.parse_args()
    rows = [row for name in options.list.split(",") for row in read_list(name)]
    rows = [
        row for row in rows if re.search(options.only, row[0]) or re.search(options.only, row[2])
    ]
    runs = {old.stem: _read(old) for old in options.results}
    results = list({r.file: r for run in runs.values() for r in run}.values())
    if not results:
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
            releases = sorted({release_of(file)[0] for _, _, file in rows})
            tests = {name: unpack(options.clone, Path(folder), name) for name in releases}
            files = [Result(area, int(count), file) for area, count, file in rows]
            results = list(
                pool.map(lambda r: run_file(r, tests, options.seconds, options.python), files)
            )
    report(results, options.causes)
    if options.differences:
        failures = [(t, m) for r in results for m, n, t in r.failures() for _ in range(n)]
        figures = [f"{name}: {summary(run)}" for name, run in runs.items()]
        passed = "\n\n".join([*figures, summary(results), options.note]).strip()
        options.differences.write_text(page(failures, passed))
    if options.out:
        options.out.write_text(json.dumps([vars(r) for r in results], indent=1))
    return int(any(r.count("crash", "hang") for r in results))


if __name__ == "__main__":
    sys.exit(main())
