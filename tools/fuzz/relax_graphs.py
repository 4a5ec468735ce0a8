"""Random graphs of our own operators."""

from __future__ import annotations

from . import (  # noqa: F401  makers register here
    relax_boxes,
    relax_more,
    relax_nn,
    relax_ops,
    relax_shapes,
    relax_tensor,
)
from .build import NotHere, finish
from .case import Case
from .relax_build import MAKERS, Refused, RelaxBuilder


def relax_case(seed: int) -> Case:
    """The graph of a seed."""
    for attempt in range(100):
        g = RelaxBuilder(seed * 100 + attempt)
        g.case.seed = seed
        wanted = g.rng.choice([1, 1, 2, 3, 3, 4, 5, 8])
        for _ in range(wanted * 6):
            before = len(g.case.nodes), len(g.values)
            try:
                MAKERS[g.rng.choice(list(MAKERS))](g)
            except NotHere:
                del g.case.nodes[before[0] :], g.values[before[1] :]
            except Refused:
                return finish(g)
            if len(g.case.nodes) >= wanted:
                return finish(g)
    raise NotHere(f"seed {seed} makes no graph")
