"""Functions `relax.run.*` that follow one element after another: alignments, matches of tokens."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import explain
from .builtins import builtin, view_of
from .values import VMValueError, arrive


@builtin("relax.run.warped_path")
def warped_path(x: Any) -> Any:
    """The cheapest path from the first to the last element of a matrix (m, n) or (1, m, n), by steps to the
    next row, column or both: rows and columns of its points, int32 (2, points)."""
    matrix = view_of(x)
    if matrix.ndim not in (2, 3) or (matrix.ndim == 3 and len(matrix) != 1) or not matrix.size:
        raise VMValueError(explain("a matrix (m, n) or (1, m, n) of costs", got=matrix.shape))
    costs: Any = matrix.reshape(matrix.shape[-2:])
    rows, columns = costs.shape
    total = np.full((rows + 1, columns + 1), np.inf, np.float32)
    total[0, 0] = 0
    step = np.full(total.shape, 2)  # 0: from before in both, 1: in rows, 2: in columns
    step[1:, 0] = 1
    for j in range(1, columns + 1):
        for i in range(1, rows + 1):
            both, row, column = total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]
            step[i, j] = 0 if both < min(row, column) else 1 if row < min(both, column) else 2
            total[i, j] = costs[i - 1, j - 1] + (both, row, column)[step[i, j]]
    points, i, j = [], rows, columns
    while i or j:
        points.append((i - 1, j - 1))
        kind = step[i, j]
        i, j = i - (kind != 2), j - (kind != 1)
    return arrive(np.array(points[::-1], np.int32).T.copy())


@builtin("relax.run.bifurcation")
def bifurcation(least: int, most: int, *arrays: Any) -> tuple[Any, Any]:
    """Tokens with those of a prediction up to the first that is not the source's, and where in the source
    their last n-gram of `least` to `most` tokens ends that is there once; -1 for none.

    arrays: source and tokens, the index into the source where the prediction starts, and the prediction.
    """
    source, tokens, matched, *predicted = (view_of(v) for v in arrays)
    if predicted:
        start, (guess,) = int(matched.reshape(())), predicted
        if not 0 <= start <= len(source):
            what = "prev_suffix_match_idx is an index into the source"
            raise VMValueError(explain(what, got=start, instead=f"0 to {len(source)}"))
        rest = source[start : start + len(guess)]
        other = np.flatnonzero(guess[: len(rest)] != rest)
        count = other[0] if len(other) else len(rest)
        tokens = np.concatenate([tokens, guess[: count + 1]])
    end = -1
    for size in range(least, min(most, len(tokens)) + 1):
        windows = [source[k : k + size] for k in range(len(source) - size + 1)]
        positions = [k for k, w in enumerate(windows) if (w == tokens[len(tokens) - size :]).all()]
        if len(positions) < 2:
            end = positions[0] + size if positions else -1
            break
    return arrive(np.array(tokens)), arrive(np.array(end, np.int64))
