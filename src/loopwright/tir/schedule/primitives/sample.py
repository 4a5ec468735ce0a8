"""Choices left to chance (or to a search): each returns random variables and is recorded with its
decision, so that a trace can be replayed, or changed."""

from __future__ import annotations

from math import inf
from typing import Annotated, Any

from ....ir.prim_expr import IntImm
from ..machinery import BlockArg, ExprRV, LoopRV, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.arguments import AtLeast, Positive
from ..machinery.block_moves import users_of
from ..machinery.random_variables import INLINE, ROOT
from ..machinery.scope import is_output

Tiles = Annotated[int, AtLeast(1, 1024)]  # more than the loops of any nest


@primitive("Decide", attrs="name candidates")
def decide(sch: ScheduleBase, name: str, candidates: list[int], decision: int) -> None:
    """Note that a rule has chosen `decision` among `candidates` under a name: steps that follow depend on
    it. Another decision is taken by running the rule again (`compile(..., decisions=...)`).

    Raises ScheduleError for a decision that is not among the candidates.
    """
    if decision not in candidates:
        raise ScheduleError(f"{name} cannot be this", got=decision, instead=f"one of {candidates}")
    sch.record_decision(decision)


@primitive("SampleCategorical", attrs="candidates probs")
def sample_categorical(
    sch: ScheduleBase, candidates: list[int], probs: list[float], decision: int | None = None
) -> ExprRV:
    """One of `candidates`, chosen with the given probabilities; `decision` is an index.

    Raises ScheduleError for lists of different lengths, for probabilities below 0 or all 0,
    and for a decision out of range.
    """
    if len(candidates) != len(probs) or not candidates:
        got = f"{len(candidates)} candidates, {len(probs)} probabilities"
        what, hint = "each candidate needs a probability", "lists of the same length"
        raise ScheduleError(what, got=got, instead=hint)
    weights = [float(p) for p in probs]
    if not (all(0 <= w < inf for w in weights) and 0 < sum(weights) < inf):
        what, hint = "probabilities are 0 or more, and not all 0", "such as [0.5, 0.5]"
        raise ScheduleError(what, got=probs, instead=hint)
    if decision is None:
        decision = int(sch.random.choices(range(len(candidates)), weights)[0])
    decision = int(decision)
    if not 0 <= decision < len(candidates):
        raise ScheduleError(
            "no such candidate", got=decision, instead=f"0 to {len(candidates) - 1}"
        )
    sch.record_decision(decision)
    return sch.new_number(int(candidates[decision]))


@primitive("SamplePerfectTile", inputs="loop", attrs="n max_innermost_factor")
def sample_perfect_tile(
    sch: ScheduleBase,
    loop: LoopRV,
    n: Tiles,
    max_innermost_factor: Positive = 16,
    decision: list[int] | None = None,
) -> list[ExprRV]:
    """n factors whose product is the loop's extent, the last at most `max_innermost_factor`.

    Raises ScheduleError for a loop of a symbolic extent.
    """
    extent = sch.loop(loop).stmt.extent
    if not isinstance(extent, IntImm):
        raise ScheduleError(
            "a loop of a symbolic extent has no perfect tiles",
            got=extent,
            instead="split with None",
            at=sch.loop(loop).stmt,
        )
    if decision is None:
        tiles = perfect_tiles(sch.random, extent.value, n, max_innermost_factor)
    else:
        tiles = _adapted([int(d) for d in decision], extent.value, n)
    sch.record_decision(tiles)
    return [sch.new_number(t) for t in tiles]


@primitive("SamplePartitionedTile", inputs="loop", attrs="n partition_pos innerpart_factor")
def sample_partitioned_tile(
    sch: ScheduleBase,
    loop: LoopRV,
    n: Tiles,
    partition_pos: Annotated[int, AtLeast(0)] = 0,
    innerpart_factor: Positive = 1,
    decision: list[int] | None = None,
) -> list[ExprRV]:
    """n factors whose product is the loop's extent; those from `partition_pos` on have a product
    that is a multiple of `innerpart_factor` (where the extent allows it).

    Raises ScheduleError for a position or a decision that does not fit n factors.
    """
    extent = sch.loop(loop).stmt.extent
    if not isinstance(extent, IntImm):
        raise ScheduleError(
            "a loop of a symbolic extent has no perfect tiles", got=extent, at=sch.loop(loop).stmt
        )
    if partition_pos >= n:
        what, got = (
            "the inner part has one factor or more",
            f"partition_pos = {partition_pos} of {n}",
        )
        raise ScheduleError(what, got=got, instead=f"0 to {n - 1}", at=sch.loop(loop).stmt)
    size = extent.value
    if decision is not None:
        tiles = _adapted([int(d) for d in decision], size, n)
    elif partition_pos <= 0 or size % innerpart_factor:
        tiles = perfect_tiles(sch.random, size, n, size)
    else:
        choices = divisors(size // innerpart_factor)
        outer = sch.random.choice(choices)
        inner = size // outer
        tiles = perfect_tiles(sch.random, outer, partition_pos, outer)
        tiles += perfect_tiles(sch.random, inner, n - partition_pos, inner)
    sch.record_decision(tiles)
    return [sch.new_number(t) for t in tiles]


@primitive("SampleComputeLocation", inputs="block")
def sample_compute_location(
    sch: ScheduleBase, block: BlockArg, decision: int | None = None
) -> LoopRV:
    """A loop around the block's consumers to compute it at. The decision is its position; -1:
    inline it, -2: leave it where it is.

    Raises ScheduleError for a decision that is not a loop around all consumers.
    """
    ref = sch.block(block)
    loops = locations(sch, ref)
    if decision is None:
        choices = [-2, *range(len(loops))] if is_output(ref, None) else [-2, -1, *range(len(loops))]
        decision = int(sch.random.choice(choices))
    decision = int(decision)
    sch.record_decision(decision)
    if not -2 <= decision < len(loops):
        raise ScheduleError("no such place", got=decision, instead=f"-2 to {len(loops) - 1}")
    if decision < 0:
        return sch.new_mark(ROOT if decision == -2 else INLINE)
    return sch.new_loop(ref.func, loops[decision].stmt.loop_var)


def locations(sch: ScheduleBase, ref: Ref) -> list[Ref]:
    """The loops around all consumers of a block, the outermost first."""
    users = users_of(ref)
    if not users:
        return []
    loops = users[0].loops()
    return [loop for loop in loops if all(user.is_under(loop) for user in users)]


def divisors(value: int) -> list[int]:
    """All divisors, ascending."""
    return [d for d in range(1, value + 1) if value % d == 0]


def perfect_tiles(rng: Any, extent: int, n: int, largest: int) -> list[int]:
    """n factors of `extent`, the last at most `largest`, drawn from the innermost outwards."""
    tiles, rest = [1] * n, extent
    for position in range(n - 1, 0, -1):
        limit = largest if position == n - 1 else rest
        tiles[position] = rng.choice([d for d in divisors(rest) if d <= limit])
        rest //= tiles[position]
    tiles[0] = rest
    return tiles


def _adapted(tiles: list[int], extent: int, n: int) -> list[int]:
    """A decision for another extent, adapted to this one: inner factors are kept where they
    divide, the outermost takes the rest."""
    if len(tiles) != n or min(tiles) < 1:
        what, hint = "the decision is of other factors", f"{n} factors of 1 or more"
        raise ScheduleError(what, got=tiles, instead=hint)
    adapted, rest = [1] * n, extent
    for position in range(n - 1, 0, -1):
        adapted[position] = tiles[position] if rest % tiles[position] == 0 else 1
        rest //= adapted[position]
    adapted[0] = rest
    return adapted
