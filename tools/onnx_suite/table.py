"""Outcomes as a table of a page."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import onnx

from tools.fuzz.judge import Outcome

from .cases import KINDS, all_cases

BEGIN, END = "<!-- suite: made by tools.onnx_suite -->", "<!-- end of suite -->"


def cause(outcome: Outcome) -> str:
    """A failure without what differs from case to case: names, numbers, the operator."""
    if outcome.stage == "compare":
        return f"{outcome.kind} | {outcome.operators}"
    text = outcome.message.strip().split("\n")[0]
    text = re.sub(r"^(\w+Error|\w+): ", "", text)
    text = re.sub(r"^[A-Z]\w+: ", "", text)
    text = re.sub(r"R\.Tensor\(.*?\)|'[^']*'|\"[^\"]*\"|\[[^]]*\]", "...", text)
    text = re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "N", text)
    return f"{outcome.kind} | {outcome.stage} | {text}"[:200]


def write_table(page: Path, outcomes: dict[int, Outcome]) -> None:
    """Replace the part of a page between the two marks."""
    cases = all_cases()
    lines = [f"onnx {onnx.__version__}", "", "| kind | cases | right |", "| --- | ---: | ---: |"]
    for kind in KINDS:
        mine = [o for k, o in outcomes.items() if cases[k].kind == kind]
        lines.append(f"| {kind} | {len(mine)} | {sum(o.kind == 'right' for o in mine)} |")
    right = sum(o.kind == "right" for o in outcomes.values())
    lines += [f"| all | {len(outcomes)} | {right} |", ""]
    groups: dict[str, list[int]] = defaultdict(list)
    for index, outcome in sorted(outcomes.items()):
        if outcome.kind != "right":
            groups[cause(outcome)].append(index)
    if groups:
        lines += ["| fails | cases | reason |", "| --- | ---: | --- |"]
    for name, those in sorted(groups.items(), key=lambda g: (-len(g[1]), g[0])):
        ops = sorted({op for k in those for op in outcomes[k].operators.split(", ")})
        shown = ", ".join(ops[:5]) + (", ..." if len(ops) > 5 else "")
        lines.append(f"| {shown} | {len(those)} | {name.replace('|', ':')} |")
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{chr(10).join(lines)}\n{END}{after}", encoding="utf-8")
