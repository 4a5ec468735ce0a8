"""Latency beside the peers: python -m benchmarks.run [MODEL ...] [options]

Peers: onnxruntime and numpy of this environment; TVM (untuned, `tvm.compile`) under an interpreter
of its own, `--tvm-python`, when there is one; openvino and torch when asked for by `--engines`
(in an environment that has them: `PYTHONPATH=src PEERS/bin/python -m benchmarks.run ...`).

Each engine holds each model warm in a process of its own; the processes take turns in random
order, one burst of calls at a time, so that a drift of the machine meets all of them. A figure is
the median over the rounds of each burst's median. Engines must agree on the outputs (max |a - b| /
max |reference| is printed). With `--precision bfloat16` loopwright and openvino multiply matrices in
bfloat16, the others do not. Results go to benchmarks/results/latency.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from .machine import describe
from .models import DEFAULT, GROUPS, MLP, Case, load, names

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
REFERENCE = "onnxruntime"
# An interpreter with apache-tvm, which does not live in this environment.
TVM_PYTHON = Path(os.environ.get("TVM_PYTHON", ROOT / ".peers" / "bin" / "python"))


class Worker:
    """A process of benchmarks/worker.py: one engine with one model."""

    def __init__(self, engine: str, case: Case, feeds: Path, threads: int, python: str) -> None:
        count = str(threads)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "LOOPWRIGHT_NUM_THREADS": count,
            "OMP_NUM_THREADS": count,
            "OPENBLAS_NUM_THREADS": count,
            "TVM_NUM_THREADS": count,
        }
        arguments = [engine, case.name, str(case.path), str(feeds), count]
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.worker", *arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ready = self._answer()

    def _answer(self):
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": f"ended with {self.process.wait()}"}

    def ask(self, command: str, argument: object):
        """The answer to one command."""
        assert self.process.stdin is not None
        print(command, argument, file=self.process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()


@dataclass
class Result:
    """What one engine did with one model."""

    version: str
    first_result_s: float
    error: float | None = None
    bursts_ms: list[float] = field(default_factory=list)

    @property
    def median_ms(self) -> float:
        """Median over the rounds of the median of each burst."""
        return statistics.median(self.bursts_ms)


Failures = dict[str, str]


def measure(
    case: Case, engines: dict[str, str], threads: int, rounds: int, seconds: float,
    reference: str = REFERENCE,
) -> tuple[dict[str, Result], Failures]:  # fmt: skip
    """Every engine (name -> interpreter) on one model; failures by engine. reference: whose outputs
    those of others are compared with."""
    results: dict[str, Result] = {}
    failures: Failures = {}
    workers: dict[str, Worker] = {}
    order = random.Random(0)
    with tempfile.TemporaryDirectory() as scratch:
        feeds = Path(scratch) / "feeds.npz"
        np.savez(feeds, **case.feeds)
        try:
            for engine, python in engines.items():
                worker = workers[engine] = Worker(engine, case, feeds, threads, python)
                if "error" in worker.ready:
                    failures[engine] = worker.ready["error"]
                    workers.pop(engine).close()
                    continue
                results[engine] = Result(worker.ready["version"], worker.ready["seconds"])
            _compare(workers, results, Path(scratch), reference)
            for _ in range(rounds):
                turn = list(workers)
                order.shuffle(turn)
                for engine in turn:
                    times = workers[engine].ask("burst", seconds)
                    results[engine].bursts_ms.append(statistics.median(times))
        finally:
            for worker in workers.values():
                worker.close()
    return results, failures


def _compare(
    workers: dict[str, Worker], results: dict[str, Result], scratch: Path, reference: str
) -> None:
    outputs: dict[str, list[np.ndarray]] = {}
    for engine, worker in workers.items():
        file = scratch / f"{engine}.npz"
        worker.ask("outputs", file)
        outputs[engine] = list(np.load(file).values())
    if reference not in outputs:
        return
    for engine, got in outputs.items():
        pairs = list(zip(got, outputs[reference], strict=True))
        if all(a.shape == b.shape for a, b in pairs):  # speech may be of another length
            results[engine].error = max(_difference(a, b) for a, b in pairs)


def _difference(got: np.ndarray, reference: np.ndarray) -> float:
    """max |got - reference| / max |reference|."""
    if got.size == 0:
        return 0.0
    return float(np.abs(got - reference).max() / (np.abs(reference).max() or 1.0))


def table(measured: dict[str, dict[str, Result]], reference: str = REFERENCE) -> str:
    """Markdown: median ms of each engine; Loopwright's time over the reference's and the best's."""
    engines = sorted(
        {engine for row in measured.values() for engine in row},
        key=lambda engine: (engine != "loopwright", engine != reference, engine),
    )
    head = ["model", *engines, f"/ {reference}", "/ best peer", "error"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for name, row in measured.items():
        cells = [f"{row[e].median_ms:.4g}" if e in row else "-" for e in engines]
        ours = row.get("loopwright")
        peers = {e: r.median_ms for e, r in row.items() if e != "loopwright"}
        if ours is None or not peers:
            cells += ["-", "-", "-"]
        else:
            beside = peers.get(reference)
            cells.append(f"{ours.median_ms / beside:.2f}x" if beside else "-")
            cells.append(f"{ours.median_ms / min(peers.values()):.2f}x")
            cells.append("-" if ours.error is None else f"{ours.error:.1e}")
        lines.append("| " + " | ".join([name, *cells]) + " |")
    means = [_mean(ratios(measured, peers)) for peers in ((reference,), None)]
    cells = [*[""] * len(engines), *("-" if m is None else f"{m:.2f}x" for m in means), ""]
    lines.append("| " + " | ".join(["geometric mean", *cells]) + " |")
    return "\n".join(lines)


def ratios(measured: dict[str, dict[str, Result]], peers: Iterable[str] | None) -> dict[str, float]:
    """Loopwright's time by that of the best of some peers, of all by default, for each model."""
    found = {}
    for name, row in measured.items():
        chosen = [e for e in row if e != "loopwright" and (peers is None or e in peers)]
        if chosen and "loopwright" in row:
            best = min(row[e].median_ms for e in chosen)
            found[name] = row["loopwright"].median_ms / best
    return found


def _mean(values: dict[str, float]) -> float | None:
    return statistics.geometric_mean(values.values()) if values else None


def main() -> None:
    """Measure, print as it goes, write the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "models",
        nargs="*",
        help=f"of {' '.join([*GROUPS, *names()])}; default: {' '.join(DEFAULT)}",
    )
    parser.add_argument("--engines", default="loopwright,onnxruntime,numpy")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", default="2,1", help="thread counts, default 2,1")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.2, help="length of a burst")
    parser.add_argument(
        "--tvm-python",
        default=str(TVM_PYTHON) if TVM_PYTHON.exists() else "",
        help="an interpreter with apache-tvm, or nothing; default: $TVM_PYTHON, or %(default)r",
    )
    parser.add_argument("--output", type=Path, default=RESULTS / "latency")
    options = parser.parse_args()
    os.environ["MATMUL_PRECISION"] = options.precision
    engines = dict.fromkeys(options.engines.split(","), sys.executable)
    if options.tvm_python:
        engines["tvm"] = options.tvm_python
    machine = describe()
    date = time.strftime("%Y-%m-%d")
    report = [f"# Latency, median ms\n\n{machine['processor']}, {machine['cores']} cores, "]
    report[0] += f"{options.rounds} rounds, {date}."
    stored: dict[str, object] = {"machine": machine, "date": date, "rounds": options.rounds}
    for threads in map(int, options.threads.split(",")):
        measured: dict[str, dict[str, Result]] = {}
        notes: list[str] = []
        for name in chain.from_iterable(GROUPS.get(m, (m,)) for m in options.models or DEFAULT):
            # numpy is written by hand, for the MLPs only.
            chosen = {e: p for e, p in engines.items() if e != "numpy" or name in MLP}
            results, failures = measure(
                load(name), chosen, threads, options.rounds, options.seconds
            )
            measured[name] = results
            notes += [f"- {name}, {engine}: {text[:200]}" for engine, text in failures.items()]
            for engine, result in results.items():
                if " with " in result.version:
                    notes.append(f"- {name}: {engine} {result.version}")
                line = f"{threads} threads  {name:14} {engine:12} {result.median_ms:10.4f} ms"
                print(line, flush=True)
        section = [
            f"## {threads} thread{'s' if threads > 1 else ''}",
            table(measured),
            "\n".join(notes),
        ]
        report.append("\n\n".join(part for part in section if part))
        print(f"\n{report[-1]}\n")
        stored[f"threads_{threads}"] = {
            name: {engine: vars(result) for engine, result in row.items()}
            for name, row in measured.items()
        }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.with_suffix(".json").write_text(json.dumps(stored, indent=1) + "\n")
    options.output.with_suffix(".md").write_text("\n\n".join(report) + "\n")
    print(f"written: {options.output}.json, {options.output}.md")


if __name__ == "__main__":
    main()
