"""The commands `loopwright chat` and `loopwright bench` for models of language."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..explore.machine import machine
from .model import Model, load

_STEPS = 16  # of decoding at each length of the context


def is_model(path: Path) -> bool:
    """Whether a path is a model of language, and not of operators."""
    return path.suffix == ".gguf" or (path / "config.json").is_file()


def chat(
    path: Path,
    questions: Iterable[str],
    system: str,
    context: int | None,
    threads: int | None,
    **options: Any,
) -> Iterator[str]:
    """The parts of the answers to questions, each of which sees those before it; "" behind an answer.

    A model without a template of conversations continues each text.
    """
    model = load(path, context, threads)
    messages = [{"role": "system", "content": system}] if system else []
    for question in questions:
        messages.append({"role": "user", "content": question})
        has_template = model.tokens is not None and model.tokens.template is not None
        answer = []
        for part in model.generate(messages if has_template else question, stream=True, **options):
            answer.append(part)
            yield part
        messages.append({"role": "assistant", "content": "".join(answer)})
        yield ""


def bench(path: Path, lengths: Iterable[int], threads: int | None) -> Iterator[str]:
    """Lines: tokens a second of prefill and of decode behind contexts of some lengths, compared with the time in which
    the memory of this machine delivers the weights; then the kernels of a step."""
    start = time.perf_counter()
    lengths = sorted(lengths)
    model = load(path, lengths[-1] + 4 * _STEPS, threads)
    size = sum(a.nbytes for a in model.bound[len(model.cache) :])
    floor = size / machine().gbs / 1e6
    yield f"loaded in {time.perf_counter() - start:.1f} s; {size / 1e6:.0f} MB of weights"
    yield f"memory: {machine().gbs} GB/s, so a step takes {floor:.2f} ms or more"
    rng = np.random.default_rng(0)
    for length in lengths:
        prefill, step = _times(model, rng.integers(0, model.config.vocabulary, length).tolist())
        yield (
            f"context {length}: prefill {length / prefill * 1e3:.0f} tokens/s; decode {step:.2f} ms, "
            f"{1e3 / step:.1f} tokens/s, {100 * floor / step:.0f} % of what memory allows"
        )
    yield _kernels(model, rng.integers(0, model.config.vocabulary, lengths[-1]).tolist())


def _times(model: Model, ids: list[int]) -> tuple[float, float]:
    """Milliseconds of a prefill and of a step behind it."""
    model.prefill(ids[-1:])
    start = time.perf_counter()
    state = model.prefill(ids)
    times = [time.perf_counter() - start]
    model.decode(state, 0)
    for _ in range(_STEPS):
        start = time.perf_counter()
        model.decode(state, 0)
        times.append(time.perf_counter() - start)
    return times[0] * 1e3, statistics.median(times[1:]) * 1e3


def _kernels(model: Model, ids: list[int]) -> str:
    """The times of the kernels of a decoding step behind some tokens."""
    args = model.inputs([model.prefill(ids)], [[0]])
    return model.executable.profile(*args, number=5).table(12)
