"""A failing graph made smaller: fewer nodes and runs, smaller extents, plainer numbers."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from .case import Case
from .judge import Outcome, judge
from .workers import Pool

TRIES = 150


def shrink(case: Case, outcome: Outcome, processes: int = 2) -> tuple[Case, Outcome]:
    """The smallest case found that fails alike, and its outcome."""
    tries, pool = TRIES, Pool(_judged, processes)
    smaller = True
    while smaller and tries > 0:
        smaller = False
        candidates = list(_candidates(case))[:tries]
        tries -= len(candidates)
        for candidate, found, _ in pool.run(candidates):
            if alike(found, outcome):
                case, outcome, smaller = candidate, found, True
                break
    return case, outcome


def _judged(case: Case, say) -> Outcome:
    return judge(case, say)  # its seed still says which levels it goes through


def alike(a: Outcome, b: Outcome) -> bool:
    """Whether two failures are of one kind."""
    if a.kind != b.kind:
        return False
    if a.kind == "wrong":
        return a.stage == b.stage and a.message.split(":")[0] == b.message.split(":")[0]
    return a.stage == b.stage and a.group() == b.group()


def _candidates(case: Case) -> Iterator[Case]:
    """Cases that are smaller in one respect, the boldest first."""
    for node in case.nodes:
        for out in node[2]:
            if out and (len(case.nodes) > 1 or len(case.outputs) > 1):
                yield case.only([out])
    if len(case.sizes) > 1:
        for sizes in case.sizes:
            yield _changed(case, sizes=[sizes])
    if len(case.nodes) > 1:
        for index, node in enumerate(case.nodes):
            if node[1] and isinstance(node[1][0], str):  # a node is replaced by its first argument
                yield _without(case, index)
    used = {d for s in case.inputs.values() for d in s["shape"] if isinstance(d, str)}
    for name in used:
        for number in (1, 2, 3, 5):
            if any(sizes[name] > number for sizes in case.sizes):
                yield _changed(case, sizes=[{**s, name: number} for s in case.sizes])
    fixed = {
        d
        for t in (case.inputs, case.weights)
        for s in t.values()
        for d in s["shape"]
        if isinstance(d, int)
    }
    for extent in sorted(fixed, reverse=True):
        for number in (1, 2, 3):
            if number < extent:
                yield _extent(case, extent, number)
    for draw in ("quarters",):
        if any(s.get("draw", draw) != draw for s in case.inputs.values()):
            made = copy.deepcopy(case)
            for spec in (*made.inputs.values(), *made.weights.values()):
                if "draw" in spec:
                    spec["draw"] = draw
            yield made
    for index, node in enumerate(case.nodes):
        for key in node[3]:
            made = copy.deepcopy(case)
            del made.nodes[index][3][key]
            yield made


def _changed(case: Case, **fields: object) -> Case:
    made = copy.deepcopy(case)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _without(case: Case, index: int) -> Case:
    """The case without a node: its argument stands for its result."""
    made = copy.deepcopy(case)
    _, args, outs, _ = made.nodes.pop(index)

    def renamed(value: object) -> object:
        if isinstance(value, list):
            return [renamed(v) for v in value]
        return args[0] if value in outs else value

    for node in made.nodes:
        node[1] = renamed(node[1])
    produced = {o for node in made.nodes for o in node[2]}
    outputs = [o for o in map(renamed, made.outputs) if o in produced]
    return made.only(outputs or [made.nodes[-1][2][0]])


def _extent(case: Case, old: int, new: int) -> Case:
    """The case with one extent made smaller wherever it stands."""
    made = copy.deepcopy(case)
    for table in (made.inputs, made.weights):
        for spec in table.values():
            if "values" not in spec:
                spec["shape"] = [new if d == old else d for d in spec["shape"]]
    return made
