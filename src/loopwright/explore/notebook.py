"""The HTML that notebooks show for traces and executables: short, without scripts."""

from __future__ import annotations

import difflib
import html
from typing import Any

from ..codegen.llvm.executable import Executable
from ..ir.trace import PassRecord, Trace

_MOST = 60  # lines of a difference
_CELL = 'style="text-align:left;font-family:monospace"'


def notebook_trace(trace: Trace) -> str:
    """The passes that changed something, with milliseconds and their changes."""
    rows = [
        f"<tr><td {_CELL}>{html.escape(r.name)}</td><td>{r.ms:.2f}</td><td {_CELL}>{_opens(r)}</td></tr>"
        for r in trace
        if not r.group and (r.error or r.changed)
    ]
    count = len(trace.names())
    head = f"<p>{count} passes, {len(rows)} of which changed the module</p>"
    return f"{head}<table><tr><th>pass</th><th>ms</th><th>changed</th></tr>{''.join(rows)}</table>"


def _opens(record: PassRecord) -> str:
    if record.error:
        return html.escape(f"failed: {record.error}")
    names = ", ".join(record.changed_functions()) or "attributes"
    old, new = (_lines(record, part) for part in ("before", "after"))
    lines = list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]
    more = [f"... {len(lines) - _MOST} more lines"] if len(lines) > _MOST else []
    text = html.escape("\n".join([*lines[:_MOST], *more]))
    return f"<details><summary>{html.escape(names)}</summary><pre>{text}</pre></details>"


def _lines(record: Any, part: str) -> list[str]:
    """The text of the functions that a pass changed, before or after it."""
    mod, names = getattr(record, part), set(record.changed_functions())
    functions = [f for g, f in mod.functions.items() if g.name_hint in names]
    return [line for func in functions for line in func.script().splitlines()]


def notebook_executable(exe: Executable) -> str:
    """The signatures of a compiled model and the names of the parts of its code."""
    parts = [
        f"<p><b>{html.escape(type(exe).__name__)}</b> for {html.escape(str(exe.target))}</p><ul>"
    ]
    for name in exe.function_names():
        parts.append(f"<li><code>{html.escape(exe.described(name).text(name))}</code></li>")
    listed = ", ".join(f"<code>{html.escape(name)}</code>" for name in exe.texts)
    return "".join([*parts, f"</ul><details><summary>code</summary>{listed}</details>"])
