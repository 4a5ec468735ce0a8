"""The page of a pair: two compilations side by side, before and after a change, for two targets, or by
two versions. What belongs together is found by names, then by order.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Hashable, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from ..base.errors import LoopwrightError, explain
from .overview import Sentence, listed, micro
from .template import html_of
from .timing import CLOCK_US

_SCRIPTS = ("dagre.min.js", "diff.min.js", "model.js", "texts.js", "graph.js", "pair.js")
_DATA = re.compile(r'<script id="data" type="application/octet-stream">([^<]*)</script>')
_SAME, _SHOWN = 0.03, 4  # a change of time that is not called one; kernels in a sentence
Data = Mapping[str, Any]
Pairs = list[tuple[int, int]]


def pair_page(before: Data, after: Data) -> str:
    """The page of two pages' data, as HTML."""
    return html_of(pair_data(before, after), _SCRIPTS, "pair")


def data_of_page(file: str | Path) -> dict[str, Any]:
    """The data of a page that was written to a file, by this or another version. Raises
    LoopwrightError for another file."""
    match = _DATA.search(Path(file).read_text(encoding="utf-8", errors="replace"))
    data = json.loads(gzip.decompress(base64.b64decode(match[1]))) if match else {}
    if not {"nodes", "kernels", "tree", "texts"} <= data.keys():
        hint = "a page of one model, by loopwright explore MODEL -o FILE.html, of this version or a later one"
        raise LoopwrightError(explain("this file is not a page of a model", got=file, instead=hint))
    return data


def pair_data(before: Data, after: Data) -> dict[str, Any]:
    """Two pages' data with the pairs of nodes and of kernels, by numbers, -1 for one that is only in
    the other page, and what changed in sentences."""
    nodes = node_pairs(before["nodes"], after["nodes"])
    kernels = kernel_pairs(before, after, nodes)
    names = [before["title"], after["title"]]
    keys = [key for key in ("title", "target", "version") if before[key] != after[key]]
    title = f"{names[0]}, before and after"
    if keys:
        same = "" if keys[0] == "title" else f"{names[0]}: "
        title = f"{same}{before[keys[0]]} → {after[keys[0]]}"
    sentences = _sentences(before, after, nodes, kernels)
    rows = {"nodes": nodes, "kernels": kernels, "sentences": sentences}
    return {"title": title, "before": before, "after": after, **rows}


def node_pairs(before: Sequence[Data], after: Sequence[Data]) -> Pairs:
    """Pairs of nodes with the same name and operator; of the others, those whose operators are in the
    same order."""
    keys = [[(node["name"], node["op"]) for node in nodes] for nodes in (before, after)]
    at = {key: k for k, key in enumerate(keys[1])}
    pairs = {k: at[key] for k, key in enumerate(keys[0]) if key in at}
    used = set(pairs.values())
    rest = [k for k in range(len(before)) if k not in pairs]
    other = [k for k in range(len(after)) if k not in used]
    for a, b in _in_order([before[k]["op"] for k in rest], [after[k]["op"] for k in other]):
        pairs[rest[a]] = other[b]
    return _whole(pairs, len(before), len(after))


def kernel_pairs(before: Data, after: Data, nodes: Pairs) -> Pairs:
    """Pairs of kernels that compute the same nodes, those with most in common first; graph functions,
    which only call, by their names."""
    own = [[set(data["sets"][k["set"]]) for k in data["kernels"]] for data in (before, after)]
    across = dict(nodes)
    moved = [{across[k] for k in members} - {-1} for members in own[0]]
    graph = [[k["graph"] for k in data["kernels"]] for data in (before, after)]
    names = [[k["name"] for k in data["kernels"]] for data in (before, after)]
    rated = []
    for a, members in enumerate(moved):
        for b, others in enumerate(own[1]):
            common = len(members & others) / (len(members | others) or 1)
            if graph[0][a] == graph[1][b] and (common or names[0][a] == names[1][b]):
                rated.append((not graph[0][a] and common, names[0][a] == names[1][b], -a, -b))
    pairs: dict[int, int] = {}
    for _, _, a, b in sorted(rated, reverse=True):
        if -a not in pairs and -b not in pairs.values():
            pairs[-a] = -b
    return _whole(pairs, len(moved), len(own[1]))


def _in_order(before: Sequence[Hashable], after: Sequence[Hashable]) -> Pairs:
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    return [(m.a + k, m.b + k) for m in blocks for k in range(m.size)]


def _whole(pairs: Mapping[int, int], before: int, after: int) -> Pairs:
    """The pairs with those that have none: (k, -1), then (-1, k)."""
    alone = sorted(set(range(after)) - set(pairs.values()))
    return [(k, pairs.get(k, -1)) for k in range(before)] + [(-1, k) for k in alone]


def _sentences(before: Data, after: Data, nodes: Pairs, kernels: Pairs) -> list[Sentence]:
    """What changed: the run, the nodes, the kernels, the passes. References are {"pair": number}."""
    return [
        *_times(before, after),
        *_setting(before, after),
        *_slower(before, after, kernels),
        *_loops(before, after, kernels),
        *_only(before, after, nodes),
        *_passes(before, after),
    ]


def _times(before: Data, after: Data) -> list[Sentence]:
    old, new = (data.get("us", 0.0) for data in (before, after))
    if not old or not new:
        return [["Not both have times: loopwright explore measures with --number above 0."]]
    took = f"A run took {micro(old)} and takes {micro(new)}"
    if abs(new / old - 1) < _SAME:
        return [[f"{took}: no change beyond the noise of a measurement."]]
    much = f"{old / new:.2f} times as fast" if new < old else f"{new / old:.2f} times as long"
    return [[f"{took}: {much}."]]


def _setting(before: Data, after: Data) -> list[Sentence]:
    """Differences of target, version, machine and sizes."""
    rows: list[Sentence] = []
    for key, what in (("target", "target"), ("version", "version"), ("sizes", "symbolic sizes")):
        if before[key] != after[key]:
            rows.append([f"The {what} changed from {before[key] or '-'} to {after[key] or '-'}."])
    roofs = [(data["machine"] or {}).get("gflops", 0) for data in (before, after)]
    if min(roofs) and max(roofs) > 1.2 * min(roofs):
        what = "the machine was another one, or busy: times say less"
        rows.append([f"Its peak was {roofs[0]:g} GFLOP/s and is {roofs[1]:g}; {what}."])
    return rows


def _slower(before: Data, after: Data, kernels: Pairs) -> list[Sentence]:
    """The kernels whose time changed most."""
    if not before.get("us") or not after.get("us"):
        return []
    rows: list[tuple[float, int]] = []
    for k, (a, b) in enumerate(kernels):
        old = before["kernels"][a]["us"] if a >= 0 else 0.0
        new = after["kernels"][b]["us"] if b >= 0 else 0.0
        if abs(new - old) > max(_SAME * max(before["us"], after["us"]) / 3, CLOCK_US):
            rows.append((new - old, k))
    changes: list[Sentence] = []
    for sign, word in ((1, "Slower"), (-1, "Faster")):
        some = sorted((row for row in rows if row[0] * sign > 0), key=lambda row: -sign * row[0])
        parts: Sentence = [
            {"pair": k, "text": f" ({'+' if us > 0 else '−'}{micro(abs(us))})"} for us, k in some
        ]
        changes += [[f"{word}: ", *listed(parts, _SHOWN), "."]] if parts else []
    return changes


def _loops(before: Data, after: Data, kernels: Pairs) -> list[Sentence]:
    """Kernels whose lowered loops are equal, differ, or have no counterpart."""
    own = {
        k: (a, b)
        for k, (a, b) in enumerate(kernels)
        if not (before["kernels"][a] if a >= 0 else after["kernels"][b])["graph"]
    }
    both = [(k, a, b) for k, (a, b) in own.items() if min(a, b) >= 0]
    differ = [k for k, a, b in both if _loops_of(before, a) != _loops_of(after, b)]
    what = f"{len(both)} kernels have a counterpart: {len(both) - len(differ)} with equal loops"
    others = [f", {len(differ)} with other ones: ", *listed({"pair": k} for k in differ)]
    rows: list[Sentence] = [[what, *(others if differ else []), "."]]
    for side, word in ((1, "before"), (0, "after")):
        alone = [k for k, row in own.items() if row[side] < 0]
        rows += [[f"Only {word}: ", *listed({"pair": k} for k in alone), "."]] if alone else []
    return rows


def _loops_of(data: Data, kernel: int) -> str:
    """The text of a kernel without its first lines, which name it."""
    return data["texts"][data["kernels"][kernel]["tir"]]["t"].partition("\n")[2].partition("\n")[2]


def _only(before: Data, after: Data, nodes: Pairs) -> list[Sentence]:
    """Nodes of the model without a counterpart."""
    rows: list[Sentence] = []
    for side, data, word in ((0, before, "before"), (1, after, "after")):
        alone = [row[side] for row in nodes if row[1 - side] < 0]
        names = listed(data["nodes"][k]["name"] for k in alone)
        noun = "node is" if len(alone) == 1 else "nodes are"
        rows += [[f"{len(alone)} {noun} only {word}: ", *names, "."]] if alone else []
    return rows


def _passes(before: Data, after: Data) -> list[Sentence]:
    """Passes that changed something on one side only."""
    changed = [
        {p["name"] for p in data["passes"] if p.get("changed") and not p.get("group")}
        for data in (before, after)
    ]
    rows: list[Sentence] = []
    for one, other, word in ((0, 1, "before"), (1, 0, "after")):
        if alone := sorted(changed[one] - changed[other]):
            rows.append([*listed(alone, 6), f" changed something only {word}."])
    return rows
