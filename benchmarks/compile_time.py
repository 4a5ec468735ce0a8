"""From file to first result: python -m benchmarks.compile_time [MODEL ...]

Each figure is a new process: cold (an empty cache), then cached (the same cache again), and
onnxruntime beside it. "import s" is `import loopwright`; what else has to be imported, the compiler
when cold, is part of "ready s".
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from .models import MLP, ZOO, load
from .run import RESULTS, ROOT

LOOPWRIGHT = """
import loopwright
def first(path, feeds):
    executable = loopwright.compile(path)
    seconds = time.perf_counter() - start
    executable.run(feeds)
    return seconds
"""
ONNXRUNTIME = """
import onnxruntime
def first(path, feeds):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    seconds = time.perf_counter() - start
    session.run(None, feeds)
    return seconds
"""
PROGRAM = """
import json, sys, time
import numpy
start = time.perf_counter()
{engine}
feeds = dict(numpy.load(sys.argv[2]))
imported = time.perf_counter() - start
start = time.perf_counter()
ready = first(sys.argv[1], feeds)
print(json.dumps([imported, ready, time.perf_counter() - start]))
"""
REPEATS = 3
BYTECODE = str(Path(tempfile.gettempdir()) / "loopwright-bytecode")


def once(engine: str, path: Path, feeds: Path, cache: str) -> list[float]:
    """Seconds to import, to be ready, and to have the first result, in a new process."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "LOOPWRIGHT_CACHE_DIR": cache,
        "PYTHONPYCACHEPREFIX": BYTECODE,
    }
    # An installed package has its bytecode; without it Python compiles our sources each time (0.4 s).
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", PROGRAM.format(engine=engine), str(path), str(feeds)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure, print and store the table."""
    rows: dict[str, dict[str, list[float]]] = {}
    print(f"{'model':14} {'engine':20} {'import s':>9} {'ready s':>9} {'first result s':>15}")
    for name in sys.argv[1:] or [*ZOO, *MLP]:
        case = load(name)
        with tempfile.TemporaryDirectory() as scratch:  # writes the bytecode
            feeds = Path(scratch) / "feeds.npz"
            np.savez(feeds, **case.feeds)
            once(LOOPWRIGHT, case.path, feeds, scratch)
        samples: dict[str, list[list[float]]] = {}
        for _ in range(REPEATS):
            with tempfile.TemporaryDirectory() as scratch:
                feeds = Path(scratch) / "feeds.npz"
                np.savez(feeds, **case.feeds)
                cache = str(Path(scratch) / "cache")
                for label, engine in (
                    ("loopwright cold", LOOPWRIGHT),
                    ("loopwright cached", LOOPWRIGHT),
                    ("onnxruntime", ONNXRUNTIME),
                ):
                    samples.setdefault(label, []).append(once(engine, case.path, feeds, cache))
        rows[name] = {
            label: [statistics.median(column) for column in zip(*runs)]
            for label, runs in samples.items()
        }
        for label, (imported, ready, first) in rows[name].items():
            print(f"{name:14} {label:20} {imported:9.3f} {ready:9.3f} {first:15.3f}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "compile_time.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
