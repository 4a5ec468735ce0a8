"""Calls an exported library from several threads, in a process of its own.

    python -m tools.fuzz.call_library LIBRARY FEEDS RESULTS

The kernels' loops are shared by a pool, and two threads call at once, so that one finds the pool busy.
"""

from __future__ import annotations

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from loopwright.runtime import load_module, set_num_threads

POOL, CALLERS, CALLS = 4, 2, 2


def arrays(result: Any) -> list[np.ndarray]:
    """What a function returned, as numpy arrays in order."""
    if isinstance(result, (list, tuple)):
        return [array for item in result for array in arrays(item)]
    return [result.numpy() if hasattr(result, "numpy") else np.asarray(result)]


def main(library: str, feeds: str, results: str) -> None:
    """Call the function of the feeds; write what each call gave."""
    function, given = pickle.loads(Path(feeds).read_bytes())
    called = load_module(library)[function]
    set_num_threads(POOL)
    made = [arrays(called(*given))]  # alone, so that the pool is free
    with ThreadPoolExecutor(CALLERS) as pool:
        calls = [pool.submit(lambda: arrays(called(*given))) for _ in range(CALLERS * CALLS)]
        made += [c.result() for c in calls]
    Path(results).write_bytes(pickle.dumps(made))


if __name__ == "__main__":
    main(*sys.argv[1:])
