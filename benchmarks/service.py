"""A model in a service: python -m benchmarks.service [MODEL ...]

Clients share one executable and send batches of changing sizes: threads of one process, tasks of one
asyncio loop (each call in its pool of threads), and two processes of two threads; next to onnxruntime,
with the same numbers of threads for a call. Items a second and the 99th percentile of a call's milliseconds;
then the resident memory over a million calls. Engines take turns in bursts.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np

from loopwright.driver.demo import BUNDLED

from .models import Case, load
from .run import RESULTS

BATCHES, SECONDS, ROUNDS = (1, 8, 3, 16, 5, 2), 1.0, 3
CALLS, SAMPLES = 1_000_000, 5
Call = Callable[[dict[str, np.ndarray]], object]


def chosen(name: str) -> Case:
    """A model of the benchmarks, or the bundled one, whose calls take microseconds."""
    if name != "digits":
        return load(name)
    with np.load(BUNDLED.with_suffix(".npz")) as feeds:
        return Case(name, BUNDLED, {"image": feeds["image"]})


def opened(engine: str, path: str, threads: int) -> Call:
    """A function that runs the model on inputs by name."""
    if engine == "loopwright":
        import loopwright

        return loopwright.compile(path, threads=threads).run
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def requests(feeds: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Inputs of each of the sizes of batches."""
    return [{n: np.repeat(a[:1], k, 0) for n, a in feeds.items()} for k in BATCHES]


def client(
    call: Call, sent: Sequence[dict[str, np.ndarray]], end: float
) -> list[tuple[int, float]]:
    """Call until a time; the items and the milliseconds of each call."""
    done, number = [], 0
    while time.perf_counter() < end:
        number, begin = number + 1, time.perf_counter()
        call(sent[number % len(sent)])
        took = (time.perf_counter() - begin) * 1e3
        done.append((BATCHES[number % len(sent)], took))
    return done


def in_threads(
    call: Call, sent: Sequence[dict[str, np.ndarray]], count: int
) -> list[tuple[int, float]]:
    """The calls of some threads that share the executable."""
    end = time.perf_counter() + SECONDS
    with ThreadPoolExecutor(count) as pool:
        return list(chain(*pool.map(lambda _: client(call, sent, end), range(count))))


def in_tasks(
    call: Call, sent: Sequence[dict[str, np.ndarray]], count: int
) -> list[tuple[int, float]]:
    """The calls of some tasks of an asyncio loop."""

    async def task(end: float) -> list[tuple[int, float]]:
        done, number = [], 0
        while time.perf_counter() < end:
            number, begin = number + 1, time.perf_counter()
            await asyncio.to_thread(call, sent[number % len(sent)])
            done.append((BATCHES[number % len(sent)], (time.perf_counter() - begin) * 1e3))
        return done

    async def all_tasks() -> list[tuple[int, float]]:
        end = time.perf_counter() + SECONDS
        return list(chain(*await asyncio.gather(*(task(end) for _ in range(count)))))

    return asyncio.run(all_tasks())


def _process(engine: str, path: str, feeds: dict[str, np.ndarray]) -> list[tuple[int, float]]:
    call = opened(engine, path, 1)
    call(feeds)
    return in_threads(call, requests(feeds), 2)


def memory(call: Call, feeds: dict[str, np.ndarray]) -> list[float]:
    """MiB of resident memory after parts of the calls."""
    sizes = []
    for _ in range(SAMPLES):
        for _ in range(CALLS // SAMPLES):
            call(feeds)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        sizes.append(round(pages * resource.getpagesize() / 2**20, 1))
    return sizes


def measure(name: str) -> dict[str, dict[str, list[float]]]:
    """{variant: {engine: [items a second, p99 ms]}}"""
    case = chosen(name)
    sent = requests(case.feeds)
    engines = ("loopwright", "onnxruntime")
    calls = {(e, n): opened(e, str(case.path), n) for e in engines for n in (1, 2)}
    variants: dict[str, Callable[[str], list[tuple[int, float]]]] = {
        "1 thread, 2 a call": lambda e: in_threads(calls[e, 2], sent, 1),
        "4 threads, 1 a call": lambda e: in_threads(calls[e, 1], sent, 4),
        "4 threads, 2 a call": lambda e: in_threads(calls[e, 2], sent, 4),
        "4 tasks of asyncio": lambda e: in_tasks(calls[e, 1], sent, 4),
        "2 processes of 2 threads": lambda e: _in_processes(e, str(case.path), case.feeds),
    }
    result: dict[str, dict[str, list[float]]] = {}
    for variant, run in variants.items():
        taken: dict[str, list[tuple[int, float]]] = {e: [] for e in engines}
        for _ in range(ROUNDS):
            for engine in engines:
                taken[engine] += run(engine)
        result[variant] = {
            e: [
                sum(n for n, _ in t) / SECONDS / ROUNDS,
                float(np.percentile([ms for _, ms in t], 99)),
            ]
            for e, t in taken.items()
        }
    return result


def _in_processes(engine: str, path: str, feeds: dict[str, np.ndarray]) -> list[tuple[int, float]]:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        return list(chain(*pool.starmap(_process, [(engine, path, feeds)] * 2)))


def main() -> None:
    """Measure, print and store."""
    results = {name: measure(name) for name in sys.argv[1:] or ["digits", "ppocr-cls"]}
    print("| model | clients | loopwright items/s | p99 ms | onnxruntime items/s | p99 ms |")
    print("| --- | --- | --: | --: | --: | --: |")
    for name, variants in results.items():
        for variant, row in variants.items():
            cells = " | ".join(f"{rate:.0f} | {ms:.2f}" for rate, ms in row.values())
            print(f"| {name} | {variant} | {cells} |")
    case = chosen("digits")
    call = opened("loopwright", str(case.path), 1)
    sizes = memory(call, case.feeds)
    print(f"resident MiB after {CALLS} calls in {SAMPLES} parts: {sizes}")
    stored = {"models": results, "memory": sizes}
    (RESULTS / "service.json").write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
