"""A random graph as plain data: what is saved, replayed and made smaller."""

from __future__ import annotations

import copy
import json
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from loopwright.ir.dtype import numpy_dtype


@dataclass
class Case:
    """A graph and its feeds.

    kind: "onnx" or "relax", whose operators the nodes are.
    sizes: what the symbolic dimensions are in each run.
    inputs, weights: {name: {"dtype", "shape", "draw", ...}}; see `draw`. A dimension is a number or
        the name of a size.
    nodes: (operator, inputs, outputs, attributes).
    """

    kind: str
    seed: int
    opset: int = 17
    sizes: list[dict[str, int]] = field(default_factory=lambda: [{}])
    inputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    weights: dict[str, dict[str, Any]] = field(default_factory=dict)
    nodes: list[list[Any]] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def feeds(self, run: int) -> list[np.ndarray]:
        """The inputs of a run, in order."""
        return [self.array(name, spec, run) for name, spec in self.inputs.items()]

    def array(self, name: str, spec: dict[str, Any], run: int = 0) -> np.ndarray:
        """A tensor as its entry describes it."""
        shape = [self.sizes[run].get(d, d) for d in spec["shape"]]
        return draw(spec, shape, zlib.crc32(f"{self.seed} {name} {run}".encode()))

    def operators(self) -> str:
        """The names of its operators, sorted."""
        return "+".join(sorted({node[0] for node in self.nodes}))

    def only(self, outputs: list[str]) -> Case:
        """The case for some outputs: what they do not need is gone."""
        made, wanted = copy.deepcopy(self), set(outputs)
        kept = []
        for node in reversed(made.nodes):
            if wanted & set(node[2]):
                kept.insert(0, node)
                wanted.update(reads(node))
        made.nodes, made.outputs = kept, list(outputs)
        made.inputs = {n: s for n, s in made.inputs.items() if n in wanted}
        made.weights = {n: s for n, s in made.weights.items() if n in wanted}
        sizes = {d for spec in made.inputs.values() for d in spec["shape"] if isinstance(d, str)}
        if made.kind == "onnx":
            made.sizes = [{n: v for n, v in s.items() if n in sizes} for s in made.sizes]
        return made

    def save(self, path: Path, note: str = "") -> None:
        """Write it as a file that `load` reads."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"note": note, **asdict(self)}, indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Case:
        """Read a saved case."""
        made = json.loads(path.read_text())
        made.pop("note", None)
        return Case(**made)


def draw(spec: dict[str, Any], shape: list[int], seed: int) -> np.ndarray:
    """Numbers for a tensor: explicit "values", or as "draw" says: "quarters" (exact in every type,
    so that sums of them are), "uniform", "special" (NaN, infinities, extremes among quarters), or
    integers from "low" to "high"."""
    kind = numpy_dtype(spec["dtype"])
    if "values" in spec:
        return np.array(spec["values"], kind).reshape(shape)
    rng = np.random.default_rng(seed)
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(kind)
    if kind.kind in "iu":
        low = spec.get("low", -8 if kind.kind == "i" else 0)
        values = rng.integers(low, spec.get("high", 8), shape, endpoint=True).astype(kind)
        if spec["draw"] == "special" and "low" not in spec:
            info = np.iinfo(kind)
            values = np.where(
                rng.random(shape) < 0.3, rng.choice([info.min, info.max], shape), values
            )
        with np.errstate(all="ignore"):
            return values.astype(kind)
    if spec["draw"] == "uniform":
        low, high = spec.get("low", -2.0), spec.get("high", 2.0)
        return rng.uniform(low, high, shape).astype(kind)
    low, high = spec.get("low", -4.0), spec.get("high", 4.0)
    values = np.asarray(rng.integers(int(low * 4), int(high * 4), shape, endpoint=True) / 4)
    if spec["draw"] == "special":
        chosen = rng.choice(_specials(kind), shape)
        values = np.where(rng.random(shape) < 0.3, chosen, values)
    with np.errstate(all="ignore"):
        return values.astype(kind)


def _specials(kind: np.dtype) -> list[float]:
    import ml_dtypes

    info = ml_dtypes.finfo(kind)
    tiny, least, most = float(info.tiny), float(info.smallest_subnormal), float(info.max)
    some = [0.0, 1.0, tiny, least, least * 3, most, 100.0, np.inf]
    return [np.nan, *some, *(-v for v in some)]


def reads(node: list[Any]) -> list[str]:
    """The names that a node reads, within its branches too."""
    inner = [n for v in node[3].values() if isinstance(v, dict) for n in v.get("graph", ())]
    return [*flat(node[1]), *(name for one in inner for name in reads(one))]


def flat(values: Any) -> list[str]:
    """The names within the arguments of a node."""
    if isinstance(values, str):
        return [values]
    return [n for v in values for n in flat(v)] if isinstance(values, list) else []
