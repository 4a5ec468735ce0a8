"""The system's C compiler: for external sources, and for C that we write."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from loopwright.base.errors import LoopwrightError, explain


def find_compiler(requested: str | None = None) -> str:
    """The C compiler to call. Raises LoopwrightError where it is missing."""
    for name in [requested] if requested else ["cc", "gcc", "clang"]:
        if name and shutil.which(name):
            return name
    what = (
        f"C compiler {requested} is not installed" if requested else "a C compiler is not installed"
    )
    cross = requested is not None and requested.endswith("-gcc")
    package = f"gcc-{str(requested).removesuffix('-gcc')}" if cross else "gcc"
    hint = f"apt install {package} (or clang), or name another one"
    raise LoopwrightError(explain(what, got="none on PATH", instead=hint))


def compile_c(
    sources: Sequence[str | Path],
    out: str | Path,
    flags: Sequence[str],
    more: Sequence[str] = (),
    compiler: str | None = None,
) -> None:
    """Run `compiler FLAGS -o OUT SOURCES MORE`. Raises LoopwrightError with its words."""
    run_tool([find_compiler(compiler), *flags, "-o", str(out), *map(str, sources), *more])


def run_tool(command: Sequence[str]) -> None:
    """Run a command. Raises LoopwrightError with its output where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoopwrightError(explain(f"{command[0]} failed", got=done.stderr.strip()[:4000]))
