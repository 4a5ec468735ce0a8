"""Times of calls: percentiles, turns of several candidates, and whether two of them differ."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

BURST = 0.02  # seconds: long against a turn's first call, which finds other data in the caches
LEAST = 0.02  # a ratio nearer to 1 is not a change: machines of the same kind differ by more
_SAMPLES = 1000


@dataclass(frozen=True)
class Times:
    """Milliseconds of calls, in bursts: a burst's calls share what happens to the machine meanwhile."""

    bursts: tuple[tuple[float, ...], ...]

    @property
    def calls(self) -> int:
        return sum(map(len, self.bursts))

    def percentile(self, part: float) -> float:
        """Milliseconds that `part` percent of the calls do not exceed."""
        return float(np.percentile(np.concatenate(self.bursts), part))

    @property
    def median(self) -> float:
        return self.percentile(50)

    @property
    def medians(self) -> list[float]:
        """The median of each burst."""
        return [float(np.median(burst)) for burst in self.bursts]

    def throughput(self, items: int = 1) -> float:
        """Calls a second, or items where each call has several."""
        return items * self.calls / sum(map(sum, self.bursts)) * 1e3

    def data(self, items: int = 1) -> dict[str, float]:
        """The figures as a dict."""
        parts = {f"p{part}_ms": self.percentile(part) for part in (50, 90, 99)}
        times = np.concatenate(self.bursts)
        parts |= {f"{f.__name__}_ms": float(f(times)) for f in (np.min, np.mean, np.max)}
        return {"calls": self.calls, **parts, "per_second": self.throughput(items)}


def in_turns(
    calls: Sequence[Callable[[], object]],
    seconds: float,
    warmup: float = 0.0,
    runs: int | None = None,
) -> list[Times]:
    """The times of each function, in bursts that take turns for `seconds` a function; or of `runs`
    calls. At least one call comes before. Without `runs`, the warm-up takes at most `seconds`, and a burst
    a third of them."""
    short = math.inf if runs else seconds
    warmup, burst = min(warmup, short), min(BURST, short / 3)
    sizes, bursts = list[int](), [list[tuple[float, ...]]() for _ in calls]
    for call in calls:
        call()
        once, end = _burst(call, 2), time.perf_counter() + warmup
        while time.perf_counter() < end:
            once += _burst(call, 1)
        sizes.append(min(max(1, int(burst * 1e3 / max(min(once), 1e-6))), runs or 1 << 20))
    end = time.perf_counter() + seconds * len(calls)
    while True:
        for call, size, times in zip(calls, sizes, bursts, strict=True):
            left = size if runs is None else min(size, runs - sum(map(len, times)))
            times.append(_burst(call, left))
        done = len(bursts[0]) > 2 and time.perf_counter() >= end
        if done if runs is None else all(sum(map(len, b)) >= runs for b in bursts):
            return [Times(tuple(b)) for b in bursts]


def _burst(call: Callable[[], object], count: int) -> tuple[float, ...]:
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return tuple(times)


@dataclass(frozen=True)
class Ratio:
    """A ratio of two medians, and the interval that has it with 95 %."""

    value: float
    low: float
    high: float
    least: float = LEAST

    @property
    def is_change(self) -> bool:
        """Whether the medians differ: 1 is not in the interval, nor nearly the ratio."""
        return not self.low <= 1 <= self.high and abs(self.value - 1) >= self.least

    def text(self) -> str:
        """The ratio and its interval."""
        return f"{self.value:.3f} ({self.low:.2f} to {self.high:.2f})"

    def __str__(self) -> str:
        return self.text() if self.is_change else "no change"


def ratio(new: Sequence[float], old: Sequence[float], least: float = LEAST) -> Ratio:
    """The median of some times by that of others, with the interval that resampling both yields
    (Efron's percentile bootstrap). One sample says nothing: the interval is unbounded."""
    value = float(np.median(new)) / (float(np.median(old)) or 1e-12)
    if min(len(new), len(old)) < 3:
        return Ratio(value, 0.0, float("inf"), least)
    rng = np.random.default_rng(0)
    medians = [np.median(rng.choice(np.asarray(x), (_SAMPLES, len(x))), 1) for x in (new, old)]
    low, high = np.percentile(medians[0] / np.maximum(medians[1], 1e-12), (2.5, 97.5))
    return Ratio(value, float(low), float(high), least)
