"""The display of a compilation's progress on the command line: a bar while it takes long, a table of its steps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..base.progress import Step, heard_by

AFTER = 2.0  # seconds of compiling after which the bar appears
_LEAST = 0.005  # of the whole: shorter steps are not in the table


class Watch:
    """A listener for the steps. bar: show one on the console while a model takes longer than `AFTER`."""

    def __init__(self, console: Console, bar: bool) -> None:
        self.console, self.wants_bar = console, bar
        self.inside: list[str] = []
        self.took: dict[tuple[str, ...], list[float]] = {}
        self.bar: Progress | None = None
        self.timer: threading.Timer | None = None
        self.lock = threading.Lock()

    def __call__(self, step: Step) -> None:
        with self.lock:
            is_object, ended = step.kind == "object", step.seconds is not None
            if self.bar is not None and (is_object or len(self.inside) - ended == 1):
                self.bar.update(
                    self.bar.task_ids[is_object],
                    description=f"{step.kind} {escape(step.name)}",
                    completed=step.number + ended,
                    total=step.total,
                    visible=True,
                )
            if is_object:
                self.note(("objects",), step.seconds)
                self.note(("objects", step.name), step.seconds)
            elif step.seconds is None:
                self.inside.append(step.name)
                self.note(tuple(self.inside), None)
            else:
                self.note(tuple(self.inside), step.seconds)
                self.inside.pop()
        if step.kind == "model" and len(self.inside) == (step.seconds is None):
            self.start() if step.seconds is None else self.stop()

    def note(self, path: tuple[str, ...], seconds: float | None) -> None:
        """Record the time of a step; its row exists since its beginning."""
        total = self.took.setdefault(path, [0.0, 0])
        if seconds is not None:
            total[0] += seconds
            total[1] += 1

    def start(self) -> None:
        """Begin to wait for the bar."""
        if self.wants_bar:
            self.timer = threading.Timer(AFTER, self.show)
            self.timer.daemon = True
            self.timer.start()
            if AFTER <= 0:
                self.timer.join()

    def show(self) -> None:
        """Show the bar."""
        text = TextColumn("{task.description}")
        columns = (text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        bar = Progress(*columns, console=self.console, transient=True)
        bar.add_task("compiling", total=None)
        bar.add_task("objects", visible=False)
        bar.start()
        with self.lock:
            self.bar = bar

    def stop(self) -> None:
        """Take the bar away."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer.join()
        with self.lock:
            bar, self.bar, self.timer = self.bar, None, None
        if bar is not None:
            bar.stop()

    def table(self) -> str:
        """A line for each step, those within it below it: milliseconds, and the number of runs."""
        rows = {path: total for path, total in self.took.items() if total[1]}
        if not rows:
            return "nothing was compiled: what was compiled before is in the cache folder"
        parts = list(dict.fromkeys(path[0] for path in rows))
        least = _LEAST * sum(s for path, (s, _) in rows.items() if len(path) == 1)
        lines = [f"{'step':<50}{'ms':>10}{'runs':>7}"]
        for path in sorted(rows, key=lambda path: parts.index(path[0])):
            seconds, runs = rows[path]
            if seconds >= least:
                name = f"{'  ' * (len(path) - 1)}{path[-1]}"
                lines.append(f"{name:<50}{seconds * 1e3:>10.1f}{runs:>7.0f}")
        return "\n".join([*lines, f"(without steps below {least * 1e3:.1f} ms)"])


@contextmanager
def watched(quiet: bool, verbose: bool) -> Iterator[None]:
    """Show the progress of compilations within on stderr; with `verbose`, the time of their steps."""
    console = Console(stderr=True)
    watch = Watch(console, bar=console.is_terminal and not quiet)
    if not (verbose or watch.wants_bar):
        yield
        return
    try:
        with heard_by(watch):
            yield
    finally:
        watch.stop()
        if verbose:
            console.print(watch.table(), markup=False, highlight=False, soft_wrap=True)
