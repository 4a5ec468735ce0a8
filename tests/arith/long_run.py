"""Many random expressions against the analyzer: python -m tests.arith.long_run --expressions 10000"""

from __future__ import annotations

import argparse
import random
import time

from .fuzz import Tally, Wrong, check, random_case


def run(expressions: int, seed: int = 0, stop_after: int = 10) -> tuple[Tally, list[str]]:
    """(what was checked, what was wrong); each expression has a seed of its own."""
    tally, wrong = Tally(), []
    for number in range(seed, seed + expressions):
        case = random_case(random.Random(number))
        try:
            check(case, tally)
        except Exception as error:
            kind = "" if isinstance(error, Wrong) else f"{type(error).__name__}: "
            wrong.append(f"seed {number}: {kind}{error}\n  {case}")
            if len(wrong) >= stop_after:
                break
    return tally, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--expressions", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--stop-after", type=int, default=10, help="failures to show")
    args = parser.parse_args()
    start = time.monotonic()
    tally, wrong = run(args.expressions, args.seed, args.stop_after)
    print(tally)
    for line in wrong:
        print("WRONG", line)
    print(f"{len(wrong)} wrong, {time.monotonic() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
