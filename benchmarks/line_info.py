"""What the lines of TensorIR in machine code cost: python -m benchmarks.line_info [MODEL ...]

Processor seconds of a compilation and of its worker processes, with and without LOOPWRIGHT_DEBUG_INFO,
in turns in one process, each with an empty cache: medians, and the median of the pairs' ratios with
its quartiles.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time

import loopwright as lw
from loopwright.codegen.llvm import workers
from tools.zoo import fetch

DIGITS = "src/loopwright/driver/data/digits.onnx"
MODELS = ("digits", "minilm-l3", "centerface")
ROUNDS = 9


def used() -> float:
    """Processor seconds of this process and its workers."""
    return time.process_time() + workers.processor_seconds()


def seconds(model: str, lines: bool) -> float:
    """Those of one compilation."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LOOPWRIGHT_CACHE_DIR"] = f"{folder}/cache"
        os.environ["LOOPWRIGHT_DEBUG_INFO"] = f"{folder}/lines" if lines else ""
        start = used()
        lw.compile(model)
        return used() - start


def main(names: tuple[str, ...]) -> None:
    """Print a row for each model."""
    for name in names or MODELS:
        model = DIGITS if name == "digits" else fetch(name)
        rounds = 4 * ROUNDS if name == "digits" else ROUNDS
        seconds(model, False), seconds(model, True)  # the first one imports and starts workers
        pairs = []
        for k in range(rounds):
            first, second = (seconds(model, lines) for lines in (k % 2 > 0, k % 2 == 0))
            pairs.append((second, first) if k % 2 else (first, second))
        plain, lined = (statistics.median(column) for column in zip(*pairs, strict=True))
        low, ratio, high = statistics.quantiles([b / a for a, b in pairs])
        print(
            f"{name}: {plain:.3f} s, with lines {lined:.3f} s: {ratio:.3f} ({low:.3f}-{high:.3f})"
        )


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
