"""What a long chain of calls costs in Relay: python -m benchmarks.relay_chain

Processor seconds to print, parse, infer the types of, compare and translate chains of 15,000, 30,000
and 60,000 calls, and what twice the length costs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import loopwright as lw
from loopwright import relay
from loopwright.ir.structural import structural_equal
from loopwright.relay.translate import to_relax

from .run import RESULTS

LENGTHS = (15_000, 30_000, 60_000)


def chain(length: int) -> Any:
    """A module of a function of that many calls, each of the one before."""
    x = relay.var("x", shape=(4,))
    value: Any = x
    for _ in range(length // 2):
        value = relay.add(relay.nn.relu(value), x)
    return lw.IRModule.from_expr(relay.Function([x], value))


def seconds(length: int) -> dict[str, float]:
    """Processor seconds of each step."""
    taken: dict[str, float] = {}

    def step(name: str, do: Callable[[], Any]) -> Any:
        start = time.process_time()
        made = do()
        taken[name] = time.process_time() - start
        return made

    mod = step("build", lambda: chain(length))
    typed = step("infer types", lambda: relay.transform.InferType()(mod))
    text = step("print", lambda: typed.astext())
    again = step("parse", lambda: relay.parse(text))
    assert step("compare", lambda: structural_equal(again, typed))
    step("translate", lambda: to_relax(typed))
    return taken


def main() -> None:
    """Measure, print and store."""
    seconds(1000)
    rows = {length: seconds(length) for length in LENGTHS}
    print(f"{'':12}" + "".join(f"{length:>10,}" for length in LENGTHS) + "   longest / half")
    for name in rows[LENGTHS[0]]:
        times = [rows[length][name] for length in LENGTHS]
        print(f"{name:12}" + "".join(f"{t:9.2f}s" for t in times) + f"   {times[2] / times[1]:.2f}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "relay_chain.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
