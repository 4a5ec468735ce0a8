"""A plot of stored latencies: python -m benchmarks.plot RESULTS.json PLOT.svg

For each model Loopwright's time by that of the fastest peer, a bar for each count of threads; left of
the line at 1 Loopwright is ahead. It needs matplotlib.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "loopwright"  # the same file for the same figures
from matplotlib import pyplot  # noqa: E402

COLOURS = {"threads_2": "#2f6f9f", "threads_1": "#a9c4d8"}


def ratio(row: dict[str, Any]) -> float | None:
    """Loopwright's median by that of the fastest peer."""
    ms = {engine: statistics.median(found["bursts_ms"]) for engine, found in row.items()}
    ours = ms.pop("loopwright", None)
    return None if ours is None or not ms else ours / min(ms.values())


def main() -> None:
    source, target = map(Path, sys.argv[1:3])
    data = json.loads(source.read_text(encoding="utf-8"))
    counts = [key for key in COLOURS if key in data]
    models = list(data[counts[0]])[::-1]
    height = 0.8 / len(counts)
    figure, axes = pyplot.subplots(figsize=(8, 0.6 + 0.3 * len(models)))
    for k, key in enumerate(reversed(counts)):
        values = [ratio(data[key].get(model, {})) or 0 for model in models]
        places = [at + (k - (len(counts) - 1) / 2) * height for at in range(len(models))]
        bars = axes.barh(places, values, height, color=COLOURS[key], label=key.replace("_", ": "))
        axes.bar_label(bars, fmt="%.2f", fontsize=7, padding=2)
    axes.set_yticks(range(len(models)), models)
    axes.axvline(1, color="#444", linewidth=1)
    axes.set_xlabel("time, by that of the fastest peer (less is better)")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, reverse=True, frameon=False)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main()
