"""Where the time of the tests goes, and what was not run: printed at the end of a run."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

import pytest

LIMIT = 3.0  # seconds of processor time of a test without a mark, on the machine of REFERENCE
REFERENCE = 0.023  # processor seconds of a million additions there: Zen 4, Python 3.11
SLOWEST = 10
TASKS = "/proc/self/task"
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
# A skip's reason says that one of LOOPWRIGHT_REQUIRE is missing: "needs X", "there is no X", "could not
# import 'X'", "X is not installed"; models of the zoo say that the registry is out of reach.
MISSING = r"(?:needs|no|import) '?{0}\b(?!-)|(?<![\w-]){0} is not installed"
ZOO = "registry|cannot be fetched|could not download"
REQUIRED = [w for w in os.environ.get("LOOPWRIGHT_REQUIRE", "").split(",") if w]
COST = "processor seconds"
_WORKERS: list[float] = []  # the processor seconds of each


def processor_seconds() -> float:
    """What this process and its children have used; of those that live, such as the compiler's workers,
    Linux tells."""
    total = sum(os.times()[:4])
    for thread in os.listdir(TASKS) if os.path.isdir(TASKS) else ():
        with suppress(OSError):  # a thread or a child that has just ended
            for child in _text(f"{TASKS}/{thread}/children").split():
                fields = _text(f"/proc/{child}/stat").rpartition(")")[2].split()
                total += sum(map(int, fields[11:15])) / TICKS
    return total


def _text(path: str) -> str:
    with open(path) as file:  # not by pathlib, which tests replace
        return file.read()


def slowness() -> float:
    """How much slower than the reference Python is here; at least 1."""
    started, total = time.process_time(), 0
    for k in range(1_000_000):
        total += k
    return max(1.0, (time.process_time() - started) / REFERENCE)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """The cost of a test, without its fixtures, which others may share; too much of it fails."""
    before = processor_seconds()
    yield
    cost = processor_seconds() - before
    item.user_properties.append((COST, round(cost, 3)))
    mark = item.get_closest_marker("budget")
    most = mark.args[0] if mark else LIMIT
    budgeted = item.config.option.markexpr == "not slow" and not os.environ.get("SAMPLE")
    if cost > most and budgeted and cost > (limit := most * slowness()):
        pytest.fail(
            f"this test takes {cost:.1f} s of processor time, more than {limit:.1f}: make it smaller, "
            "split it, mark it `slow`, or `sample(n)`: one case in n, or, if it must stay, `budget(s)`",
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[pytest.TestReport]:
    """A skip is a failure where LOOPWRIGHT_REQUIRE has a word of its reason."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and _missing(report.longrepr[2]):
        report.outcome = "failed"
        report.longrepr = f"LOOPWRIGHT_REQUIRE={','.join(REQUIRED)}, but: {report.longrepr[2]}"
    return report


def pytest_make_collect_report(collector: pytest.Collector) -> None:
    """The same for modules that skip as a whole."""
    if isinstance(collector, pytest.Module):
        collect = collector.collect

        def required() -> object:
            try:
                return collect()
            except pytest.skip.Exception as skipped:
                if _missing(str(skipped)):
                    raise pytest.UsageError(
                        f"LOOPWRIGHT_REQUIRE={','.join(REQUIRED)}, but: {skipped}"
                    ) from None
                raise

        collector.collect = required


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makemodule(module_path: Path) -> Iterator[pytest.Module]:
    """On a fresh checkout workers translate a module one after another: the second finds its bytecode,
    and that of what it imports."""
    module = yield
    if not any(Path(cache_from_source(module_path)).parent.glob(f"{module_path.stem}.*")):
        with open(__file__) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with suppress(Exception, pytest.skip.Exception):  # for its own report
                module.obj
    return module


def _missing(reason: str) -> bool:
    patterns = (ZOO if word == "zoo" else MISSING.format(re.escape(word)) for word in REQUIRED)
    return any(re.search(pattern, reason, re.IGNORECASE) for pattern in patterns)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells what it has used."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[COST] = processor_seconds()


def pytest_testnodedown(node: object) -> None:
    """Adds up what the workers tell."""
    _WORKERS.append(getattr(node, "workeroutput", {}).get(COST, 0.0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Skips by reason, the slowest tests, and the processor time of all."""
    write, stats = terminalreporter.write_line, terminalreporter.stats
    reasons = Counter(_reason(r) for r in stats.get("skipped", []))
    for reason, count in reasons.most_common():
        write(f"skipped {count}: {reason}")
    costs = [
        (cost, report.nodeid)
        for outcome in ("passed", "failed")
        for report in stats.get(outcome, [])
        for name, cost in report.user_properties
        if name == COST and report.when == "call"
    ]
    for cost, name in sorted(costs, reverse=True)[:SLOWEST]:
        write(f"{cost:6.1f} s of processor time: {name}")
    total = sum(_WORKERS) + sum(os.times()[:2]) if _WORKERS else processor_seconds()
    write(f"{total:.0f} s of processor time in all")


def _reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ").split("\n")[0]
