"""python -m tools.onnx_suite [--only REGEX] [--jobs N] [--out FILE] [--docs docs/onnx.md]"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from dataclasses import asdict
from pathlib import Path

import onnx

from tools.fuzz.judge import Outcome
from tools.fuzz.workers import Limits, Pool

from .cases import KINDS, all_cases, run
from .table import cause, write_table


def main() -> int:
    """Run cases and print what fails, grouped by cause; 1 where any does."""
    parser = argparse.ArgumentParser(prog="python -m tools.onnx_suite", description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression that names must contain")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=120, help="of a processor for each case")
    parser.add_argument("--out", type=Path, help="JSON of every outcome")
    parser.add_argument("--docs", type=Path, help="the page whose table is written")
    options = parser.parse_args()
    cases = all_cases()
    chosen = [k for k, case in enumerate(cases) if re.search(options.only, case.name)]
    pool = Pool(run, options.jobs, Limits(options.seconds), name=lambda k: cases[k].name)
    outcomes: dict[int, Outcome] = {}
    for index, outcome, _ in pool.run(chosen):
        outcomes[index] = outcome
        if outcome.kind != "right":
            print(f"{cases[index].name}: {cause(outcome)}", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print(f"\r{len(outcomes)} of {len(chosen)}", end="", file=sys.stderr)
    report(outcomes)
    if options.out:
        found = {cases[k].name: asdict(o) for k, o in sorted(outcomes.items())}
        options.out.write_text(json.dumps(found, indent=1))
    if options.docs:
        write_table(options.docs, outcomes)
    return int(any(o.kind != "right" for o in outcomes.values()))


def report(outcomes: dict[int, Outcome]) -> None:
    """Print the sums, then the causes of failure, the most frequent first."""
    cases = all_cases()
    groups: dict[str, list[int]] = defaultdict(list)
    for index, outcome in sorted(outcomes.items()):
        if outcome.kind != "right":
            groups[cause(outcome)].append(index)
    for name, those in sorted(groups.items(), key=lambda g: -len(g[1])):
        ops = Counter(op for k in those for op in outcomes[k].operators.split(", "))
        common = ", ".join(f"{op} {n}" for op, n in ops.most_common(6))
        print(f"{len(those):5}  {name}\n       {common}\n       e.g. {cases[those[0]].name}")
        print(f"       {' '.join(outcomes[those[0]].message.split())[:240]}")
    print(f"onnx {onnx.__version__}")
    for kind in KINDS:
        mine = [o for k, o in outcomes.items() if cases[k].kind == kind]
        if mine:
            print(f"{kind:18} {sum(o.kind == 'right' for o in mine):5} of {len(mine)}")
    kinds = Counter(o.kind for o in outcomes.values())
    print(f"{'all':18} {kinds['right']:5} of {len(outcomes)}", dict(kinds))


if __name__ == "__main__":
    sys.exit(main())
