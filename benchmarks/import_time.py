"""What the imports cost: python -m benchmarks.import_time

Wall seconds of new interpreters in turn, median of several; the bare interpreter and numpy beside.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time

from .run import RESULTS, ROOT

STATEMENTS = ("pass", "import numpy", "import loopwright", "import loopwright.runtime")
ROUNDS = 11


def main() -> None:
    """Measure, print and store."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    samples: dict[str, list[float]] = {statement: [] for statement in STATEMENTS}
    for _ in range(ROUNDS):
        for statement, times in samples.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], env=environment, check=True)
            times.append(time.perf_counter() - start)
    medians = {statement: statistics.median(times) for statement, times in samples.items()}
    for statement, seconds in medians.items():
        over = seconds - medians["pass"]
        print(f"{statement:28} {seconds:7.3f} s, {over:6.3f} s over the bare interpreter")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "import_time.json").write_text(json.dumps(medians, indent=1) + "\n")


if __name__ == "__main__":
    main()
