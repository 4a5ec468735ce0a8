"""Sparse constants: levels of dimensions and of blocks, of a file and by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the package tflite, TFLite's schema, is not installed")
import tflite

from loopwright.frontend.tflite.sparse import Level, Sparsity

from ...drawing import drawn
from .support import Graph, _Offsets, model
from .test_operators import run

TABLE = drawn("test_sparse")
DENSE = TABLE.uniform(1, 2, (4, 6)).astype("float32") * (TABLE.uniform(0, 1, (4, 6)) < 0.4)
BLOCKS = DENSE * np.kron([[1, 0], [0, 1]], np.ones((2, 3))).astype("float32")


def level(held: list[list[int]]) -> Level:
    """A sparse level: the indices that each entry of the levels before holds."""
    ends = np.cumsum([0, *map(len, held)])
    return Level(0, ends, np.array([k for row in held for k in row], np.int64))


def rows_of(dense: np.ndarray) -> Level:
    return level([list(np.flatnonzero(row)) for row in dense])


CASES: dict[str, tuple[np.ndarray, np.ndarray, Sparsity]] = {
    "rows": (DENSE, DENSE[DENSE != 0], Sparsity([0, 1], [], [Level(4), rows_of(DENSE)])),
    "columns": (DENSE, DENSE.T[DENSE.T != 0], Sparsity([1, 0], [], [Level(6), rows_of(DENSE.T)])),
    "both": (
        BLOCKS[:2],
        BLOCKS[BLOCKS != 0][: np.count_nonzero(BLOCKS[:2])],
        Sparsity([0, 1], [], [level([[0, 1]]), rows_of(BLOCKS[:2])]),
    ),
    "blocks": (
        BLOCKS,
        BLOCKS.reshape(2, 2, 2, 3).swapaxes(1, 2)[[0, 1], [0, 1]].ravel(),
        Sparsity([0, 1, 2, 3], [0, 1], [Level(2), level([[0], [1]]), Level(2), Level(3)]),
    ),
    "blocks of columns": (
        BLOCKS,
        BLOCKS.reshape(4, 2, 3)[[0, 1, 2, 3], [0, 0, 1, 1]].ravel(),
        Sparsity([0, 1, 2], [1], [Level(4), level([[0], [0], [1], [1]]), Level(3)]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_levels(name: str) -> None:
    dense, values, sparsity = CASES[name]
    np.testing.assert_array_equal(sparsity.dense(values, dense.shape), dense)


WRONG: dict[str, tuple[Sparsity, int]] = {
    "each dimension once": (Sparsity([0, 0], [], [Level(4), Level(6)]), 24),
    "of no dimension": (Sparsity([0, 1, 2], [2], [Level(4), Level(3), Level(2)]), 24),
    "more entries than values": (Sparsity([0, 1], [], [Level(4), Level(7)]), 24),
    "24 entries": (Sparsity([0, 1], [], [Level(4), Level(6)]), 25),
    "do not hold": (Sparsity([0, 1], [], [Level(4), level([[0], [1]])]), 4),
    "outside of": (Sparsity([0, 1], [], [level([[0, 4]]), level([[0], [1]])]), 2),
}


@pytest.mark.parametrize("what", WRONG)
def test_levels_that_do_not_fit(what: str) -> None:
    sparsity, count = WRONG[what]
    with pytest.raises(ValueError, match=f"a sparse tensor is not whole\n  got: .*{what}"):
        sparsity.dense(np.ones(count, "float32"), (4, 6))


@pytest.mark.parametrize("name", ["rows", "blocks"])
@pytest.mark.parametrize("kind", ["Uint8Vector", "Uint16Vector", "Int32Vector"])
def test_in_a_file(name: str, kind: str) -> None:
    dense, values, sparsity = CASES[name]

    def written(writer: Any) -> int:
        def indices(of: np.ndarray) -> int:
            dtype = {"Uint8Vector": "uint8", "Uint16Vector": "uint16", "Int32Vector": "int32"}[kind]
            return writer.table(kind, Values=of.astype(dtype))

        levels = []
        for given in sparsity.levels:
            if given.segments is None or given.indices is None:
                levels.append(writer.table("DimensionMetadata", Format=0, DenseSize=given.size))
                continue
            number = getattr(tflite.SparseIndexVector, kind)
            parts = {
                "ArraySegments": indices(given.segments),
                "ArrayIndices": indices(given.indices),
            }
            kinds = {"ArraySegmentsType": number, "ArrayIndicesType": number}
            levels.append(writer.table("DimensionMetadata", Format=1, **parts, **kinds))
        return writer.table(
            "SparsityParameters", TraversalOrder=sparsity.order, BlockMap=sparsity.blocks,
            DimMetadata=_Offsets(levels),
        )  # fmt: skip

    g = Graph()
    x = g.input((4, 6))
    w = g.tensor((4, 6), data=values, sparsity=written)
    g.outputs = [
        g.op("ADD", [x, g.op("DENSIFY", [w], {"shape": (4, 6)})], {"shape": (4, 6)}, "Add")
    ]
    (got,) = run(model(g), [np.ones((4, 6), "float32")])
    np.testing.assert_array_equal(got, dense + 1)
