"""One compilation, many sizes, beside peers: python -m benchmarks.dynamic [--threads N] [--rounds N]

bert_base over batch and sequence length and resnet50 over the batch, each exported with symbolic
sizes and compiled once. onnxruntime too has one session for all sizes; OpenVINO, where it is
installed, compiles its model anew for each of them. At each point the engines take turns; a figure
is the median. It needs torch and transformers: `PYTHONPATH=src PEERS/bin/python -m ...`.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import loopwright as lw
from loopwright.runtime import threads as pool
from tools.zoo import zoo_folder

RNG = np.random.default_rng(0)
Run = Callable[[np.ndarray], np.ndarray]
# name: the names of the symbolic sizes, the points, and an input of such sizes
MODELS: dict[str, tuple[tuple[str, ...], list[tuple[int, ...]], Callable[..., np.ndarray]]] = {
    "bert_base": (
        ("batch", "length"),
        [(1, n) for n in (1, 7, 16, 33, 64, 128, 200, 384, 512)] + [(4, 16), (4, 128), (16, 32)],
        lambda *sizes: RNG.integers(0, 30000, sizes),
    ),
    "resnet50": (
        ("batch",),
        [(1,), (2,), (4,), (16,)],
        lambda batch: RNG.standard_normal((batch, 3, 224, 224)).astype(np.float32),
    ),
}


def model(name: str) -> Path:
    """The file of a model with symbolic sizes."""
    path = zoo_folder().parent / "bench" / f"{name}_dynamic.onnx"
    if not path.exists():
        from . import torch_models

        path.parent.mkdir(parents=True, exist_ok=True)
        torch_models.export(name, path, path.with_suffix(".npz"), MODELS[name][0])
    return path


def engines(path: Path, threads: int) -> dict[str, Callable[[np.ndarray], Run]]:
    """For each engine, what makes its run for an input's shape."""
    pool.set_num_threads(threads)
    exe = lw.compile(str(path))["main"]
    made: dict[str, Callable[[np.ndarray], Run]] = {
        "loopwright": lambda x: lambda given: np.asarray(exe(given))
    }
    if importlib.util.find_spec("onnxruntime"):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
        made["onnxruntime"] = lambda x: lambda given: session.run(None, {"x": given})[0]
    if importlib.util.find_spec("openvino"):
        made["openvino"] = lambda x: _openvino(path, x.shape, threads)
    return made


def _openvino(path: Path, shape: tuple[int, ...], threads: int) -> Run:
    import openvino

    core = openvino.Core()
    read = core.read_model(path)
    read.reshape(list(shape))
    options: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
    compiled = core.compile_model(read, "CPU", options)
    return lambda given: compiled([given])[0]


def measure(runs: dict[str, Run], x: np.ndarray, rounds: int) -> dict[str, float]:
    """The median time of each engine, in milliseconds; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run(x)
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run(x)
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(t) for name, t in times.items()}


def main() -> None:
    """Print each point: milliseconds of each engine, the ratio to the best peer, the difference."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.dynamic",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    for name in options.models:
        made = engines(model(name), options.threads)
        print(f"\n| {name} | {' | '.join(made)} | / best peer | error |")
        print("| --- " * (len(made) + 3) + "|")
        for sizes in MODELS[name][1]:
            x = MODELS[name][2](*sizes)
            runs = {engine: make(x) for engine, make in made.items()}
            results = [run(x) for run in runs.values()]
            error = max(np.abs(r - results[0]).max() / np.abs(results[0]).max() for r in results)
            ms = measure(runs, x, options.rounds)
            peers = [t for engine, t in ms.items() if engine != "loopwright"]
            ratio = f"{ms['loopwright'] / min(peers):.2f}" if peers else "-"
            figures = " | ".join(f"{t:.3g}" for t in ms.values())
            point = " x ".join(map(str, sizes))
            print(f"| {point} | {figures} | {ratio} | {error:.0e} |", flush=True)


if __name__ == "__main__":
    main()
