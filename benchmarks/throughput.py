"""Rows a second on one machine: python -m benchmarks.throughput [MODEL.onnx]

N workers of one thread, each a process with the model's library, beside one worker of N threads, and the same of
onnxruntime, with batches of 1 to 64 rows. Workers run at once for a second; the figure is their sum.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import loopwright as lw
from loopwright.serve import Predictor

from .run import RESULTS

BATCHES, SECONDS = (1, 4, 16, 64), 1.0
DIGITS = Path(lw.__file__).parent / "driver" / "data" / "digits.onnx"


def _of_loopwright(path: str, threads: int) -> Callable:
    return Predictor(path, threads=threads).model.run


def _of_onnxruntime(path: str, threads: int) -> Callable:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


ENGINES = {"loopwright": _of_loopwright, "onnxruntime": _of_onnxruntime}


def _work(engine: str, path: str, threads: int, feeds: dict, barrier, results) -> None:
    run = ENGINES[engine](path, threads)
    for _ in range(3):
        run(feeds)
    barrier.wait()
    calls, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        run(feeds)
        calls += 1
    results.put(calls / (time.perf_counter() - begin))


def calls_a_second(engine: str, path: str, workers: int, threads: int, feeds: dict) -> float:
    """Of all workers together."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(workers), context.Queue()
    args = (engine, path, threads, feeds, barrier, results)
    processes = [context.Process(target=_work, args=args) for _ in range(workers)]
    for process in processes:
        process.start()
    total = sum(results.get(timeout=120) for _ in processes)
    for process in processes:
        process.join()
    return total


def feeds_of(model: str, rows: int) -> dict[str, np.ndarray]:
    """Random inputs; every symbolic dimension is the number of rows."""
    rng, feeds = np.random.default_rng(0), {}
    for name, dtype, shape in lw.compile(model).inputs():
        dims = [d if isinstance(d, int) else rows for d in shape]
        feeds[name] = rng.uniform(0, 1, dims).astype(dtype)
    return feeds


def main(model: str) -> None:
    """Measure, print and store."""
    cores = len(os.sched_getaffinity(0))
    table: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        library = str(Path(folder, "model.so"))
        lw.compile(model).export_library(library)
        paths = {"loopwright": library, "onnxruntime": model}
        print(f"rows a second, {Path(model).name}, {cores} cores")
        print(f"{'':36}" + "".join(f"{b:>10}" for b in BATCHES))
        for engine, path in paths.items():
            for workers, threads in ((cores, 1), (1, cores)):
                name = f"{engine}, {workers} x {threads} threads"
                rates = {}
                for batch in BATCHES:
                    calls = calls_a_second(engine, path, workers, threads, feeds_of(model, batch))
                    rates[str(batch)] = calls * batch
                table[name] = rates
                print(f"{name:36}" + "".join(f"{r:10.0f}" for r in rates.values()), flush=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "throughput.json").write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(DIGITS))
