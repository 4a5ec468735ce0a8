"""Instruments: what watches passes. Given to `PassContext(instruments=[...])`.

An instrument is any object with some of the methods of `PassInstrument`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.late import public_names as _public_names

if TYPE_CHECKING:
    from .module import IRModule


class PassInstrument:
    """Base of instruments. `should_run` may answer False to skip a pass."""

    def enter_pass_ctx(self) -> None:
        """The context is entered."""

    def exit_pass_ctx(self) -> None:
        """The context is left."""

    def should_run(self, mod: IRModule | None, info: Any) -> bool:
        """Whether the pass may run; passes in `required_pass` run anyway."""
        return True

    def run_before_pass(self, mod: IRModule, info: Any) -> None:
        """Before each pass that runs."""

    def run_after_pass(self, mod: IRModule, info: Any) -> None:
        """After each pass, with its result."""


HOOKS = ("enter_pass_ctx", "exit_pass_ctx", "should_run", "run_before_pass", "run_after_pass")


def pass_instrument(pi_cls: type | None = None) -> Any:
    """Make an instrument of a class that has some of the hooks.

    Raises TypeError when the class has none of them.
    """

    def decorate(cls: type) -> type:
        if not any(hasattr(cls, hook) for hook in HOOKS):
            from_hooks = ", ".join(HOOKS)
            raise TypeError(f"{cls.__name__} has none of an instrument's methods: {from_hooks}")
        if issubclass(cls, PassInstrument):
            return cls
        decorated = type(cls.__name__, (cls, PassInstrument), {"__doc__": cls.__doc__})
        decorated.__module__, decorated.__qualname__ = cls.__module__, cls.__qualname__
        return decorated

    return decorate if pi_cls is None else decorate(pi_cls)


def call_hook(instrument: object, hook: str, *args: Any, pass_name: str | None = None) -> Any:
    """Call a hook where the instrument has it; an exception is given a note that names both."""
    method = getattr(instrument, hook, None)
    if method is None:
        return None
    try:
        return method(*args)
    except Exception as error:
        where = f" of pass {pass_name!r}" if pass_name is not None else ""
        error.add_note(f"raised by instrument {type(instrument).__name__}.{hook}{where}")
        raise


@dataclass
class _Timing:
    name: str
    start: float
    seconds: float = 0.0
    inner: list[_Timing] = field(default_factory=list)


class PassTimingInstrument(PassInstrument):
    """Times passes, nested as they run each other; `render()` returns the text."""

    def __init__(self) -> None:
        self.enter_pass_ctx()

    def enter_pass_ctx(self) -> None:
        self._root = _Timing("", time.perf_counter())
        self._stack = [self._root]

    def run_before_pass(self, mod: IRModule | None, info: Any) -> None:
        timing = _Timing(info.name, time.perf_counter())
        self._stack[-1].inner.append(timing)
        self._stack.append(timing)

    def run_after_pass(self, mod: IRModule | None, info: Any) -> None:
        timing = self._stack.pop()
        timing.seconds = time.perf_counter() - timing.start

    def exit_pass_ctx(self) -> None:
        del self._stack[1:]

    def render(self) -> str:
        """A line for each pass: milliseconds, part of the whole, and part of the pass around."""
        total = sum(timing.seconds for timing in self._root.inner)
        lines: list[str] = []

        def write(timing: _Timing, depth: int, around: float) -> None:
            of_all = 100 * timing.seconds / total if total else 0.0
            of_parent = 100 * timing.seconds / around if around else 0.0
            ms = timing.seconds * 1e3
            lines.append(
                f"{'  ' * depth}{timing.name}: {ms:.3f} ms ({of_all:.2f}%; {of_parent:.2f}%)"
            )
            for item in timing.inner:
                write(item, depth + 1, timing.seconds)

        for timing in self._root.inner:
            write(timing, 0, total)
        lines.append(f"total: {total * 1e3:.3f} ms")
        return "\n".join(lines)


def _headed(when: str, mod: IRModule, info: object) -> str:
    return f"# {when} Running Pass: {info}\n{mod.script()}"


class PrintBeforeAll(PassInstrument):
    """Prints the module before each pass."""

    def run_before_pass(self, mod: IRModule, info: Any) -> None:
        print(_headed("Before", mod, info))


class PrintAfterAll(PassInstrument):
    """Prints the module after each pass."""

    def run_after_pass(self, mod: IRModule, info: Any) -> None:
        print(_headed("After", mod, info))


class PassPrintingInstrument(PassInstrument):
    """Prints the module before and after the passes of these names."""

    def __init__(
        self,
        print_before_pass_names: Sequence[str] = (),
        print_after_pass_names: Sequence[str] = (),
    ) -> None:
        self.print_before_pass_names = list(print_before_pass_names)
        self.print_after_pass_names = list(print_after_pass_names)

    def run_before_pass(self, mod: IRModule, pass_info: Any) -> None:
        if pass_info.name in self.print_before_pass_names:
            print(_headed("Before", mod, pass_info))

    def run_after_pass(self, mod: IRModule, pass_info: Any) -> None:
        if pass_info.name in self.print_after_pass_names:
            print(_headed("After", mod, pass_info))


class DumpIR(PassInstrument):
    """Writes the module after each pass to `folder`: 000_LegalizeOps.py, 001_... .

    refresh: empty the folder of earlier dumps when the context is entered.
    """

    def __init__(self, folder: str | Path, refresh: bool = True) -> None:
        self.folder = Path(folder)
        self.refresh = refresh
        self.count = 0

    def enter_pass_ctx(self) -> None:
        self.count = 0
        if self.refresh and self.folder.is_dir():
            for old in self.folder.glob("[0-9][0-9][0-9]_*.py"):
                old.unlink()

    def run_after_pass(self, mod: IRModule, info: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^\w.-]+", "_", info.name)
        path = self.folder / f"{self.count:03d}_{name}.py"
        path.write_text(mod.script() + "\n", encoding="utf-8")
        self.count += 1


class VerifyInstrument(PassInstrument):
    """Runs `verify(mod)` after each pass; what it raises is given a note naming the pass."""

    def __init__(self, verify: Callable[[Any], Any]) -> None:
        self.verify = verify

    def run_after_pass(self, mod: IRModule, info: Any) -> None:
        try:
            self.verify(mod)
        except Exception as error:
            error.add_note(f"the module is not valid after pass {info.name!r}")
            raise


__dir__ = _public_names(__name__)
