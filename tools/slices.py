"""One of the checks that take too long for every commit: `make slice N=17`, `make slice N=sanitizers`.

`.ci/run` gives the number of commits, so that as many states of main in a row as there are slices have run all.
"""

from __future__ import annotations

import os
import subprocess
import sys

GRAPHS = "make fuzz ARGS='{} --count {} --seed {{seed}}'"
SLICES: dict[str, list[str]] = {
    "slow": ["make test-slow"],  # with references the longest: 12 to 17 minutes on two cores
    "references": ["LOOPWRIGHT_REQUIRE=$LOOPWRIGHT_REQUIRE,ai-edge-litert make test-references"],
    "haswell": ["LOOPWRIGHT_HOST_CPU=haswell make test"],
    "sanitizers": ["make fuzz ARGS='sanitizers --count 30 --seed {seed}'"],
    "searches": [
        GRAPHS.format(*search)
        for search in (
            *(("graphs", 400), ("integers", 100), ("shapes", 100), ("networks", 20)),
            *(("files", 300), ("texts", 300), ("passes", 100), ("schedules", 300)),
            *(("decisions", 100), ("kernels", 300)),
        )
    ],
    "every case": ["SAMPLE=1 make test"],
    "replay": ["make replay BASE=HEAD~20 ARGS=--same"],
}


def main(words: list[str]) -> int:
    """Run a slice, by its name or any number; the seeds of searches are the number's own."""
    names = list(SLICES)
    name = words[0] if words else ""
    if name.isdigit():
        name = names[int(name) % len(names)]
    if name not in SLICES:
        sys.exit(f"slices: a name or a number; got {name!r}; instead one of: {', '.join(names)}")
    seed = int(words[0]) * 100_000 if words[0].isdigit() else 0
    for command in SLICES[name]:
        command = command.format(seed=seed)
        print(f"slice {name!r}: {command}", flush=True)
        done = subprocess.run(command, shell=True, env={"LOOPWRIGHT_REQUIRE": "", **os.environ})
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
