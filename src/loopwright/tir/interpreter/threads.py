"""Threads of a block with barriers or shuffles: one Python thread each."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.errors import explain


class Block:
    """The threads of a block: a barrier for all, and the last value shared by each."""

    def __init__(self, count: int) -> None:
        self.values: list[Any] = [None] * count
        self._change = threading.Condition()
        self._waiting = self._round = 0
        self._broken = False

    def wait(self) -> bool:
        """Wait for all threads; False if one of them has already ended."""
        with self._change:
            now = self._round
            self._waiting += 1
            if self._waiting == len(self.values) and not self._broken:
                self._waiting = 0
                self._round += 1
                self._change.notify_all()
            else:
                self._change.wait_for(lambda: self._round != now or self._broken)
            return self._round != now

    def leave(self) -> None:
        """Mark a thread as ended: all present and future waits fail."""
        with self._change:
            self._broken = True
            self._change.notify_all()


_THREAD = threading.local()


def run_threads(body: Callable[..., None], extents: list[int]) -> None:
    """Run `body(x, y, ...)` for all indices below the extents concurrently, x fastest."""
    block = Block(math.prod(extents))
    errors: list[BaseException] = []

    def one(number: int) -> None:
        _THREAD.block, _THREAD.number = block, number
        at, rest = [], number
        for extent in extents:
            at.append(rest % extent)
            rest //= extent
        try:
            with np.errstate(all="ignore"):
                body(*at)
        except BaseException as err:
            errors.append(err)  # the first error is the cause, the others are failed waits
        finally:
            block.leave()

    threads = []
    try:
        for number in range(math.prod(extents)):
            threads.append(threading.Thread(target=one, args=(number,)))
            threads[-1].start()
    except RuntimeError as err:
        threads.pop()
        block.leave()
        what = f"a block of {math.prod(extents)} threads cannot be run here"
        hint = "run the interpreter on smaller blocks"
        errors.insert(0, RuntimeError(explain(what, got=str(err), instead=hint)))
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def sync() -> None:
    """Wait for all threads of the block. Raises RuntimeError if one of them has ended."""
    block = getattr(_THREAD, "block", None)
    if block is not None and not block.wait():
        what = "a thread of the block did not come to this barrier"
        raise RuntimeError(explain(what, instead="put barriers where all threads pass"))


def shuffle(value: float, lane: int, width: int, step: int) -> Any:
    """The value of another thread of the warp; out of range, the thread's own."""
    block = getattr(_THREAD, "block", None)
    if block is None:  # a single thread
        return value
    number = _THREAD.number
    block.values[number] = value
    sync()
    first = number - number % width
    other = lane % width if step == 0 else number - first + step * lane
    there = 0 <= other < width and first + other < len(block.values)
    received = block.values[first + other] if there else value
    sync()
    return received
