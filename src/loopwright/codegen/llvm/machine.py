"""The machine that code is for: its triple, CPU and features, as LLVM takes them."""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
from functools import cache

import llvmlite.binding as llvm

from ...base.host import host
from .compiler import CompileError


def host_triple() -> str:
    """The triple of objects for this process."""
    return host().triple


def resolve(
    triple: str | None = None, cpu: str | None = None, features: str | None = None
) -> tuple[str, str, str]:
    """Fill in the host's triple, cpu and features for those that are None."""
    here = host()
    if triple is None or triple == here.triple:
        if cpu in (None, "native"):
            return here.triple, here.name, here.flags if features is None else features
        return here.triple, cpu, features or ""
    return triple, cpu or "", features or ""


_APART = """
import sys
sys.path[:] = {path!r}
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
target = llvm.Target.from_triple({triple!r})
"""


def run_apart(triple: str, program: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program with LLVM's `target` in a process of its own, which LLVM may end."""
    command = [sys.executable, "-S", "-c", _APART.format(path=sys.path, triple=triple) + program]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


@cache
def known_names(triple: str) -> tuple[list[str], list[str]]:
    """The processors and features that LLVM knows for a triple: it prints them for `help`, on stderr
    and once in a process."""
    text = run_apart(triple, "target.create_target_machine(cpu='help')").stderr
    processors, _, features = text.partition("Available features")
    row = re.compile(r"^  (\S+) +- ", re.MULTILINE)
    return row.findall(processors), row.findall(features)


def check_machine(triple: str, cpu: str, features: str) -> None:
    """Raise CompileError where LLVM does not know a triple, a processor or a feature: it would use
    another, or end the process."""
    if (triple, cpu) == (host().triple, host().name) and features in ("", host().flags):
        return
    try:
        llvm.initialize_all_targets()
        llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise CompileError(f"unknown target triple\n  got: {triple!r}, {error}") from None
    processors, names = known_names(triple)
    _check_name("processor", cpu, processors, triple)
    for feature in filter(None, features.split(",")):
        _check_name("feature", feature.lstrip("+-"), names, triple)


def _check_name(what: str, name: str, names: list[str], triple: str) -> None:
    if name and names and name not in names:
        close = difflib.get_close_matches(name, names, 3)
        hint = f"did you mean {' or '.join(close)}?" if close else "give the triple it belongs to"
        got = f"{name!r} for {triple}"
        raise CompileError(f"LLVM knows no such {what}\n  got: {got}\n  instead: {hint}")
