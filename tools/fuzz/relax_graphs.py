"""Random graphs of our own operators."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ops.core import OPERATORS

from . import relax_moves, relax_nn  # noqa: F401  makers register here
from .build import NotHere, Refused, finish
from .case import Case
from .relax_build import RelaxBuilder
from .relax_calls import LEFT_OUT, draw

SIZES = (1, 1, 2, 3, 3, 4, 5, 8)  # of graphs


def names() -> list[str]:
    """The operators of graphs."""
    ours = (n.removeprefix("relax.") for n in OPERATORS if n.startswith("relax."))
    return [n for n in ours if n not in LEFT_OUT]


def relax_case(
    seed: int, operators: Sequence[str] | None = None, sizes: Sequence[int] = SIZES
) -> Case:
    """The graph of a seed, of some operators."""
    chosen = operators or names()
    for attempt in range(100):
        g = RelaxBuilder(seed * 100 + attempt)
        g.case.seed = seed
        wanted = g.rng.choice(sizes)
        for _ in range(wanted * 6):
            before = len(g.case.nodes), len(g.values)
            try:
                draw(g, g.rng.choice(chosen))
            except NotHere:
                del g.case.nodes[before[0] :], g.values[before[1] :]
            except Refused:
                return finish(g)
            if len(g.case.nodes) >= wanted:
                return finish(g)
    raise NotHere(f"seed {seed} makes no graph")
