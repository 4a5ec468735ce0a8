"""Single steps of schedules with any arguments, also wrong ones: the loops then, or what is said."""

from __future__ import annotations

import functools
import inspect
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from loopwright import tir

from ..tir.schedule.intrinsics import matching
from ..tir.schedule.programs import PROGRAMS
from ..tir.schedule.walk import Walk, blocks_of

TRIES = 8  # of a step on a program
NAMES = [name for name, step in vars(tir.Schedule).items() if callable(step) and name[0] != "_"]
MAPS: dict[str, Callable[..., Any]] = {
    "turned": lambda *i: i[::-1],
    "same": lambda *i: i,
    "flat": lambda *i: [functools.reduce(lambda a, b: a * 20 + b, i)],
    "cut": lambda *i: (*i[:-1], i[-1] // 4, i[-1] % 4),
    "cut unevenly": lambda *i: (i[0] // 3, i[0] % 3, *i[1:]),
    "moved": lambda *i: (i[0] + 2, *i[1:]),
    "fewer": lambda *i: i[1:],
    "parts": lambda *i: (*i[1:], tir.IndexMap.AXIS_SEPARATOR, i[0]),
    "one": lambda i: (i,),
}
INDEX = (0, 0, 0, 0, 0, 1, -1, "A", "B")
SCOPES = ("global", "local", "shared", "shared.dyn", "warp", "nowhere")
VALUES: dict[str, tuple[Any, ...]] = {
    "factors": (
        [None, 4], [4, None], [2, None, 2], [3, 4], [5, 4], [20], [None], [None, None], [0, None], [1, None],
        [None, 1], [16, 1], [7, None], [None, 16], [1, 2, 3], [-1, 4], [2, 7],
    ),
    "preserve_unit_iters": (True, False),
    "disable_predication": (True, False),
    "preserve_unit_loops": (True, False),
    "assume_injective_transform": (True, False),
    "index": (-1, -2, 0, 1, 2, 5),
    "buffer_index": INDEX,
    "read_buffer_index": INDEX,
    "write_buffer_index": INDEX,
    "storage_scope": SCOPES,
    "buffer": (*2 * (("read", 0), ("write", 0)), ("read", 1), ("write", 1), ("other", 0), *"ABC"),
    "dtype": ("float16", "float32", "float64", "int8", "nothing"),
    "thread_axis": ("threadIdx.x", "threadIdx.y", "blockIdx.x", "vthread.x", "threads"),
    "ann_key": ("key", "other", "pragma_auto_unroll_explicit", "software_pipeline_stage"),
    "ann_val": (1, 0, "text", 2.5, [1, 2], {"a": 1}, None, True),
    "cse_thresh": (0, 1, 2),
    "axis": (0, 1, 2, -1, -3),
    "factor": (1, 2, 16, 0, -2),
    "offset": (0, 1, 8, -1),
    "new_order": ([1, 0], [0, 1], [0], [0, 2, 1], [2, 1, 0], [0, 0], [1, 2, 0], [3, 0, 2, 1], [1]),
    "padding": ([4, 4, 4], [1, 1], [16, 16, 16], [1, 1, 1], [8, 1, 8], [0, 1, 1], [1, 32, 1], [8, 8], [-1, 4]),
    "pad_value": (None, 0.0, 1.0, lambda *i: tir.const(3.0, "float32")),
    "axis_separators": ([], [0], [1], [2], [1, 2], [2, 1], [5]),
    "buf_type": ("read", "write", "other"),
    "buf_index_array": ([0], [1], [0, 1], [2], []),
    "gen_new_ranges": (
        lambda *i: [(x, x + 2) for x in i], lambda *i: i, lambda *i: [(x, x + 1) for x in i[:1]], lambda *i: [(0, 5)]
    ),
    "factor_axis": (0, 1, 2, 3, -1, -2, -3, -4),
    "candidates": ([1, 2, 4], [8, 16, 32], [5]),
    "probs": ([0.5, 0.25, 0.25], [0.0, 0.0, 1.0], [1.0], [0.5, 0.5, 0.5]),
    "decision": (None, None, 0, 1, 2, -1, -2, 3, [2, 2], [4, 5], [1, 4], [2, 3, 2]),
    "n": (1, 2, 3, 0),
    "max_innermost_factor": (1, 2, 4, 16, 0),
    "partition_pos": (0, 1, 2, 3),
    "innerpart_factor": (1, 2, 3, 4),
    "func_name": (None, "main", "other"),
}  # fmt: skip


@functools.cache
def starts() -> dict[str, tir.Schedule]:
    """Programs, and some after a few random steps."""
    made = {}
    for n, (name, (func, _)) in enumerate(PROGRAMS.items()):
        made[name] = tir.Schedule(func, seed=n)
        made[f"{name} scheduled"] = Walk(func, n).go(4).sch
    return made


def named(sch: tir.Schedule, value: Any) -> str:
    """Blocks and loops, or lists of these, by name."""
    if isinstance(value, (list, tuple)):
        return str([named(sch, v) for v in value])
    if sch.mark(value):
        return str(sch.mark(value))
    if isinstance(value, (tir.schedule.BlockRV, tir.schedule.LoopRV)):
        node = sch.get(value)
        return node.name_hint if isinstance(node, tir.Block) else node.loop_var.name
    return str(value)


class Draw:
    """Arguments by the names of parameters, which are written down."""

    def __init__(self, sch: tir.Schedule, rng: random.Random) -> None:
        self.sch, self.rng, self.shown = sch, rng, ""
        self.root = sch.get_block("root")
        self.blocks = blocks_of(sch)
        self.near = self.blocks  # whose loops are taken mostly

    def block(self) -> Any:
        some = self.rng.choice([*self.blocks, *self.blocks, *self.blocks, self.root])
        self.near = [some, *self.sch.get_consumers(some)] if some is not self.root else self.blocks
        self.shown += f" {named(self.sch, some)}"
        return some

    def loop(self) -> Any:
        loops = self.loops(self.rng.choice(self.near if self.rng.random() < 0.8 else self.blocks))
        some = self.rng.choice(loops) if loops else self.root
        self.shown += f" {named(self.sch, some)}"
        return some

    def loops(self, block: Any) -> list[Any]:
        return self.sch.get_loops(block)

    def several(self) -> list[Any]:
        """Neighbouring loops of a block, mostly in order, or any loops."""
        loops = self.loops(self.rng.choice(self.blocks))
        first = self.rng.randint(0, max(len(loops) - 1, 0))
        some = loops[first : first + self.rng.randint(1, 3)]
        if self.rng.random() < 0.4:
            self.rng.shuffle(some)
        if self.rng.random() < 0.2:
            some.append(self.loop())
        self.shown += f" {[named(self.sch, x) for x in some]}"
        return some

    def argument(self, name: str) -> Any:
        rng = self.rng
        if name in ("block", "scope_block"):
            return self.block()
        if name == "loop":
            return self.loop()
        if name in ("block_or_loop", "target"):
            return self.loop() if rng.random() < 0.6 else self.block()
        if name == "consumer_blocks":
            return rng.choice([None, [], [self.block()], [self.block(), self.block()]])
        if name == "name":
            return rng.choice(["B", "C", "root", "nothing", named(self.sch, self.block())])
        if name == "index_map":
            self.shown += f" {(key := rng.choice([*MAPS]))}"
            return MAPS[key]
        if name == "tensor_intrin":
            fits = [n for b in self.blocks for k in (1, 2) for n in matching(self.sch.get(b), k)]
            some = rng.choice([*fits, *fits, "nothing"])
        else:
            some = rng.choice(VALUES[name])
        self.shown += f" {name}={VALUES[name].index(some) if callable(some) else some}"
        return some


def step(start: tir.Schedule, name: str, rng: random.Random) -> str:
    """A step that was tried, and what became of it."""
    sch = start.copy()
    sch.seed(0)
    draw, do = Draw(sch, rng), getattr(sch, name)
    args: list[Any] = []
    options: dict[str, Any] = {}
    for p in inspect.signature(do).parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            args += draw.several()
        elif p.default is p.empty:
            args.append(draw.argument(p.name))
        elif rng.random() < 0.6:
            options[p.name] = draw.argument(p.name)

    try:
        made = do(*args, **options)
    except tir.ScheduleError as error:
        return f"{draw.shown}: {error}"
    except Exception as error:
        return f"{draw.shown}: {type(error).__name__}"
    last = str(sch.trace).splitlines()[-1]
    return f"{draw.shown}: {named(sch, made)}\n{last}\n{sch.mod.script()}"


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("name", NAMES)
def test_step(name: str, replay: Any) -> None:
    rows = {}
    for title, start in starts().items():
        rng = random.Random(f"{name} {title}")
        texts = (step(start, name, rng) for _ in range(TRIES))
        # Which intrinsics there are depends on the tests before.
        rows[title] = {str(k): re.sub("one of dot_16.*", "...", t) for k, t in enumerate(texts)}
    replay(f"steps/{name}", rows)
