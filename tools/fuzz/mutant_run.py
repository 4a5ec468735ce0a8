"""Tries faults one after the other on the tests that run their lines: pytest collects all of these once,
and a fork of it runs those of one fault, after the code of the functions in that file was exchanged.
What runs as a module is imported is tried in a process that imports it anew.

It is run as a script in a tree of its own, and prints one line of JSON for each fault.
"""

from __future__ import annotations

import gc
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NoReturn

import pytest

Fault = dict[str, Any]  # path, text (of the file), tests (in their order), seconds (at most), fresh
OPTIONS = ["-q", "-s", "-p", "no:cacheprovider", "--basetemp=tmp"]


class Runner:
    """A plugin that runs, instead of what was collected, the tests of each fault."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults, self.failed = faults, ""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All faults."""
        self.items = {item.nodeid: item for item in session.items}
        self.functions: dict[str, list[FunctionType]] = defaultdict(list)
        gc.unfreeze()  # frozen objects are not among those that `get_objects` returns
        for found in gc.get_objects():
            if isinstance(found, FunctionType):
                self.functions[found.__code__.co_filename].append(found)
        gc.freeze()  # so that a fork shares what is there
        for fault in self.faults:
            started = time.monotonic()
            by = self.attempt(fault)
            by = by and by.strip()
            print("\n" + json.dumps({"by": by, "seconds": time.monotonic() - started}), flush=True)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps the first test that fails."""
        if report.failed:
            self.failed = self.failed or report.nodeid

    def attempt(self, fault: Fault) -> str | None:
        """The first test that fails; "" where none does, None where that took too long."""
        missing = [name for name in fault["tests"] if name not in self.items]
        if missing:
            return f"not found: {missing[0]}"
        place = Path(fault["path"])
        before = place.read_text()
        place.write_text(fault["text"])  # read by what tests start
        try:
            return self._afresh(fault) if fault["fresh"] else self._forked(fault, before)
        finally:
            place.write_text(before)

    def _forked(self, fault: Fault, before: str) -> str | None:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            self._run(fault, before, write)
        os.close(write)
        try:
            ready, _, _ = select.select([read], [], [], fault["seconds"])
            return os.read(read, 4096).decode() or "a crash" if ready else None
        finally:
            os.close(read)
            _kill(child)
            os.waitpid(child, 0)

    def _run(self, fault: Fault, before: str, write: int) -> NoReturn:
        """The tests, in the process of one fault: writes the one that failed, or a blank."""
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        try:
            exchange(before, fault["text"], self.functions[str(Path(fault["path"]).resolve())])
            items = [self.items[name] for name in fault["tests"]]
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failed:
                    break
        except BaseException as error:
            self.failed = self.failed or f"{type(error).__name__} outside of tests"
        os.write(write, (self.failed or " ").encode())
        os._exit(0)

    def _afresh(self, fault: Fault) -> str | None:
        Path("names.txt").write_text("\n".join(fault["tests"]))
        command = [sys.executable, "-m", "pytest", *OPTIONS, "-x", "@names.txt"]
        with subprocess.Popen(
            command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, start_new_session=True,
        ) as child:  # fmt: skip
            try:
                text, _ = child.communicate(timeout=fault["seconds"])
            except subprocess.TimeoutExpired:
                return None
            finally:
                _kill(child.pid)
        if child.returncode == 0:
            return " "
        first = re.search(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE)
        return first[1] if first else f"pytest, which ends with {child.returncode}"


def exchange(before: str, after: str, functions: list[FunctionType]) -> None:
    """Give functions of a file the code they have in another text of it, which has the same functions in
    the same order."""
    texts = (compile(text, "", "exec", dont_inherit=True) for text in (before, after))
    new = dict(zip(*map(_codes, texts), strict=True))
    for function in functions:
        if function.__code__ in new:
            function.__code__ = new[function.__code__].replace(
                co_filename=function.__code__.co_filename
            )


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _kill(child: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


if __name__ == "__main__":
    plan = json.loads(Path(sys.argv[1]).read_text())
    names = sorted({name.partition("::")[0] for fault in plan for name in fault["tests"]})
    sys.exit(pytest.main([*OPTIONS, *names], plugins=[Runner(plan)]))
