"""MergeLayoutChanges: what vanishes, what becomes one, what stays."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir.functor import post_order_visit
from loopwright.relax.transform import LegalizeOps, MergeLayoutChanges

from ...programs import graph

OF = {"r": "reshape", "p": "permute_dims", "l": "layout_transform"}
BLOCKS = "lambda n, c, h, w: (n, c // 4, h, w, c % 4)"
BACK = "lambda n, c, h, w, b: (n, c * 4 + b, h, w)"
CASES = {
    "inverse": ("R.permute_dims(x, [0, 2, 3, 1])", "R.permute_dims(a, [0, 3, 1, 2])", ""),
    "negative axes": ("R.permute_dims(x, [0, -2, -1, 1])", "R.permute_dims(a, [0, 3, 1, 2])", ""),
    "reversed": ("R.permute_dims(x)", "R.permute_dims(a)", ""),
    "one permutation": ("R.permute_dims(x, [1, 0, 2, 3])", "R.permute_dims(a, [0, 2, 1, 3])", "p"),
    "no permutation": ("R.permute_dims(x, [0, 1, 2, 3])", "R.exp(a)", ""),
    "reshapes": ("R.reshape(x, (2, 8, 30))", "R.reshape(a, (16, 30))", "r"),
    "reshaped back": ("R.reshape(x, (2, 8, 30))", "R.reshape(a, (2, 8, 5, 6))", ""),
    "blocks": (f"R.layout_transform(x, {BLOCKS})", f"R.layout_transform(a, {BACK})", ""),
    "other blocks": (
        f"R.layout_transform(x, {BLOCKS})",
        "R.layout_transform(a, lambda n, c, h, w, b: (n, b * 2 + c, h, w))",
        "ll",
    ),
    "a map and a permutation": (
        "R.layout_transform(x, lambda n, c, h, w: (n, h, w, c))",
        "R.permute_dims(a, [0, 3, 1, 2])",
        "",
    ),
    "padded": (
        "R.layout_transform(x, lambda n, c, h, w: (n, c // 5, h, w, c % 5))",
        "R.layout_transform(a, lambda n, c, h, w, b: (n, c * 5 + b, h, w))",
        "ll",
    ),
    "something in between": ("R.exp(R.permute_dims(x))", "R.permute_dims(a)", "pp"),
}
SIZES = [(2, 8, 5, 6), ("n", 8, "m", 6)]


def changes(mod) -> str:
    """The rearrangements in a module."""
    found = []

    def visit(node) -> None:
        name = getattr(getattr(node, "op", None), "name", "").removeprefix("relax.")
        found.extend(letter for letter, op in OF.items() if op == name)

    for func in mod.functions.values():
        post_order_visit(func, visit)
    return "".join(found)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", SIZES, ids=["static", "symbolic"])
def test_two_in_a_row(name, shape):
    first, second, left = CASES[name]
    if "reshape" in first and shape is not SIZES[0]:
        pytest.skip("the sizes are those of the static shape")
    mod = graph(f"a = {first}; b = {second}; c = R.add(b, b)", x=shape)
    merged = MergeLayoutChanges()(mod)
    assert changes(merged) == left
    x = np.arange(480, dtype="float32").reshape(2, 8, 5, 6) / 480
    want, got = (lw.compile(m)["main"](x).numpy() for m in (mod, merged))
    np.testing.assert_array_equal(got, want)


def test_three_in_a_row_and_other_uses():
    mod = graph(
        "a = R.permute_dims(x, [1, 2, 0]); b = R.permute_dims(a, [1, 2, 0]); "
        "c = R.permute_dims(b, [1, 2, 0]); d = R.add(c, x); e = R.exp(a)",
        x=(2, 3, 4),
    )
    merged = MergeLayoutChanges()(mod)
    assert changes(merged).count("p") <= 1, "only the one that is used otherwise"


def test_operators_that_are_kept():
    mod = graph("a = R.permute_dims(x); b = R.exp(a)", x=(2, 3))
    kept = LegalizeOps(keep=("relax.permute_dims",))(mod)
    text = kept["main"].script()
    assert "R.permute_dims" in text and "R.exp" not in text
    assert "R.permute_dims" not in LegalizeOps()(kept)["main"].script()
