"""The passes on matrix products: which operators are there afterwards, and that the values stay."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax
from loopwright.ir.expr import GlobalVar
from loopwright.ir.op import Op
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import (
    AdjustMatmulOrder,
    CombineParallelMatmul,
    ExpandMatmulOfSum,
    FuseTransposeMatmul,
    ReorderPermuteDimsAfterConcat,
    ReorderTakeAfterMatmul,
)
from loopwright.script import relax as R

from ...programs import graph

SIZES = {"n": 5, "m": 3, "k": 7}
SAME = "the module itself"
MATMUL = Op.get("relax.matmul")
SHORT = {"relax.matmul": "mm", "relax.permute_dims": "T"}
INT = 'R.Tensor({}, "int64")'

# pass: [(its program, the parameters, the operators afterwards)]
CASES = {
    AdjustMatmulOrder: [
        ("a = mm(x, y); b = mm(a, z)", {"x": (9, 2), "y": (2, 9), "z": (9,)}, "mm(x, mm(y, z))"),
        ("a = mm(y, z); b = mm(x, a)", {"x": (3, 2, 8), "y": (8, 1), "z": (1, 8)}, "mm(mm(x, y), z)"),
        ("a = mm(y, z); b = mm(x, a)", {"x": (8,), "y": (8, "n"), "z": ("n", 9)}, "mm(mm(x, y), z)"),
        ("a = mm(y, z); b = mm(x, a)", {"x": ("n", 8), "y": (8, "m"), "z": ("m", 8)}, SAME),
        ("a = mm(y, z); b = mm(x, a)", {"x": (8,), "y": (2, 8, 1), "z": (1, 8)}, SAME),
        (
            "a = mm(y, z); t = R.permute_dims(a, [0, 2, 1]); b = mm(x, t)",
            {"x": (2, 1, 8), "y": (2, 8, 1), "z": (1, 8)},
            "mm(mm(x, T(z)), T(y))",
        ),
        (
            "a = mm(y, z); t = R.permute_dims(a); b = mm(t, x)",
            {"x": (9,), "y": (9, 2), "z": (2, 9)},
            "mm(T(z), mm(T(y), x))",
        ),
        (
            "a = mm(y, z); t = R.permute_dims(a, [1, 0, 2]); b = mm(x, t)",
            {"x": (2, 1, 2), "y": (2, 2, 1), "z": (2, 1, 8)},
            SAME,
        ),
        ('a = R.matmul(y, z, out_dtype="float64"); b = mm(x, R.astype(a, "float32"))',
         {"x": (8,), "y": (8, 1), "z": (1, 8)}, SAME),
        ('a = R.matmul(y, z, out_dtype="float64"); b = mm(R.astype(x, "float64"), a)',
         {"x": (8,), "y": (8, 1), "z": (1, 8)}, SAME),
        ('a = mm(y, z); b = R.matmul(x, a, out_dtype="float64")',
         {"x": (8,), "y": (8, 1), "z": (1, 8)}, SAME),
    ],
    ExpandMatmulOfSum: [
        (
            "a = R.add(y, z); t = R.permute_dims(a, [1, 0, 2]); b = mm(x, t)",
            {"x": (2,), "y": (2, 3, 4), "z": (2, 3, 4)},
            SAME,
        ),
        ("a = R.add(y, z); b = mm(x, a)", {"x": (4,), "y": (4, 5), "z": (4, 5)}, "add(mm(x, y), mm(x, z))"),
        (
            "a = R.add(y, z); b = mm(x, a)",
            {"x": (2, 3, 4), "y": (2, 4, "n"), "z": (4, "n")},
            "add(mm(x, y), mm(x, z))",
        ),
        (
            "a = R.add(y, z); t = R.permute_dims(a); b = mm(x, t)",
            {"x": (4,), "y": (5, 4), "z": (5, 4)},
            "add(mm(x, T(y)), mm(x, T(z)))",
        ),
        ("a = R.add(y, z); b = mm(x, a)", {"x": (4,), "y": (4, 5), "z": (5,)}, SAME),
        ("a = R.add(y, z); b = mm(x, a)", {"x": (4,), "y": (4, 5), "z": (1, 5)}, SAME),
        ("a = R.add(y, z); b = mm(a, x)", {"x": (5,), "y": (4, 5), "z": (4, 5)}, SAME),
    ],
    ReorderPermuteDimsAfterConcat: [
        (
            "a = R.permute_dims(x); b = R.permute_dims(y, [1, 0]); c = R.concat([a, b], axis=1)",
            {"x": (4, 6), "y": (5, 6)},
            "T(concat((x, y)))",
        ),
        (
            "a = R.permute_dims(x, [2, 0, 1]); b = R.permute_dims(y, [-1, 0, 1]); "
            "c = R.concat([a, b, a], axis=-2)",
            {"x": (4, 6, "n"), "y": (5, 6, "n")},
            "T(concat((x, y, x)))",
        ),
        (
            "a = R.permute_dims(x); b = R.permute_dims(y, [0, 1]); c = R.concat([a, b], axis=1)",
            {"x": (4, 6), "y": (6, 5)},
            SAME,
        ),
        ("a = R.permute_dims(x); c = R.concat([a, x], axis=1)", {"x": (4, 4)}, SAME),
    ],
    ReorderTakeAfterMatmul: [
        ("a = R.take(y, i, axis=-1); b = mm(x, a)", {"x": (4,), "y": (4, 8), "i": 6}, "take(mm(x, y), i)"),
        (
            "a = R.take(y, i, axis=1); b = mm(x, a)",
            {"x": (2, 3, 4), "y": (4, "n"), "i": 6},
            "take(mm(x, y), i)",
        ),
        (
            "a = R.take(y, i, axis=0); b = mm(x, a)",
            {"x": ("n", 3, 4), "y": (5, 4, "k"), "i": "n"},
            "einsum((take(reshape(mm(x, reshape(T(y), s)), s), i)))",
        ),
        ("a = R.take(y, i); b = mm(x, a)", {"x": (6,), "y": (8,), "i": 6}, SAME),
        ("a = R.take(y, i, axis=0); b = mm(x, a)", {"x": (2, 6), "y": (8, 4), "i": 6}, SAME),
        ("a = R.take(y, i, axis=0); b = mm(x, a)", {"x": (1, 3, 4), "y": (5, 4, 2), "i": 6}, SAME),
    ],
    FuseTransposeMatmul: [
        ("a = R.permute_dims(y); b = mm(x, a)", {"x": (3, 4), "y": (5, 4)}, "call_tir((x, y))"),
        ("a = R.permute_dims(y); b = mm(x, a)", {"x": (4,), "y": ("n", 4)}, "call_tir((x, y))"),
        (
            "a = R.permute_dims(y, [0, 2, 1]); b = mm(x, a)",
            {"x": ("n", 1, 3, 4), "y": (2, "m", 4)},
            "call_tir((x, y))",
        ),
        ("a = R.permute_dims(y, [0, 1]); b = mm(x, a)", {"x": (3, 4), "y": (4, 4)}, SAME),
        ("a = R.permute_dims(y); b = mm(a, x)", {"x": (3, 4), "y": (3, 4)}, SAME),
        ("a = R.permute_dims(y); b = mm(x, a)", {"x": (3, 4), "y": (4,)}, SAME),
        ("a = R.permute_dims(y); b = mm(x, a)", {"x": (4,), "y": (5, 4, 2)}, SAME),
    ],
    CombineParallelMatmul: [
        ("a = mm(x, y); b = mm(x, z); c = (a, b)", {"x": (2, 4), "y": (4, 3), "z": (4, 5)}, 1),
        (
            "a = mm(x, y); b = mm(x, z); d = mm(x, w); c = (a, b, d)",
            {"x": (4,), "y": (4, "n"), "z": (4, 5), "w": (4, 2)},
            1,
        ),
        (
            "a = R.add(mm(x, y), p); b = R.add(mm(x, z), q); c = (R.nn.gelu(a), R.nn.gelu(b))",
            {"x": (2, 4), "y": (4, 3), "z": (4, 5), "p": (2, 3), "q": (2, 5)},
            1,
        ),
        (
            "a = R.add(mm(x, y), p); b = R.add(mm(x, z), q); c = (a, b)",
            {"x": (2, 4), "y": (4, 3), "z": (4, 3), "p": (3,), "q": (1,)},
            1,
        ),
        (  # the second bias comes from the first product
            "a = mm(x, y); b = mm(x, z); d = R.add(a, p); e = R.add(b, d); c = (d, e)",
            {"x": (2, 4), "y": (4, 3), "z": (4, 3), "p": (3,)},
            1,
        ),
        (  # the third weight comes from the first product, which the fourth can go with
            "a = mm(x, y); b = mm(x, z); w = R.add(y, a); d = mm(x, w); e = mm(x, R.exp(w)); c = (a, b, d, e)",
            {"x": (4, 4), "y": (4, 4), "z": (4, 4)},
            2,
        ),
        (
            "a = mm(x, y); b = mm(x, R.add(y, a)); c = (a, b)",
            {"x": (4, 4), "y": (4, 4)},
            SAME,
        ),
        (
            "a = mm(x, y); b = mm(x, z); c = (a, b)",
            {"x": (2, 4), "y": (2, 4, 3), "z": (3, 4, 5)},
            SAME,
        ),
        ("a = mm(x, y); b = mm(x, z); c = (a, b)", {"x": (4,), "y": (4,), "z": (4,)}, SAME),
    ],
}  # fmt: skip
ROWS = [(made, *row) for made, rows in CASES.items() for row in rows]


def values(shapes: dict) -> list[np.ndarray]:
    """An array for each parameter; the integers are below 5."""
    rng = np.random.default_rng(0)

    def array(shape):
        if isinstance(shape, tuple):
            return rng.uniform(-1, 1, [SIZES.get(d, d) for d in shape]).astype("float32")
        return rng.integers(0, 5, SIZES.get(shape, shape))

    return [array(shape) for shape in shapes.values()]


def program(text: str, shapes: dict):
    infos = {k: v if isinstance(v, tuple) else INT.format(f"({v!r},)") for k, v in shapes.items()}
    return graph(text, values={"mm": R.matmul}, **infos)


def described(mod) -> str:
    """The result of a module's `main`, each value written where it is used."""
    func = mod["main"]
    bound = {b.var: b.value for block in func.body.blocks for b in block.bindings}

    def text(e) -> str:
        if isinstance(e, relax.Var):
            return text(bound[e]) if e in bound else e.name_hint
        if isinstance(e, relax.Tuple):
            return f"({', '.join(map(text, e.fields))})"
        if isinstance(e, relax.TupleGetItem):
            return f"{text(e.tuple_value)}[{e.index}]"
        if isinstance(e, relax.ShapeExpr):
            return "s"
        args = ", ".join(text(a) for a in e.args if not isinstance(a, GlobalVar))
        return f"{SHORT.get(e.op.name, e.op.name.removeprefix('relax.'))}({args})"

    return text(func.body.body)


def check(before, after, inputs) -> None:
    got, want = (Interpreter(mod)["main"](*inputs) for mod in (after, before))
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for a, b in pairs:
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("made", "text", "shapes", "expected"), ROWS)
def test_pass(made, text, shapes, expected):
    before = program(text, shapes)
    after = made()(before)
    if expected == SAME:
        assert after is before
        return
    assert after is not before
    if isinstance(expected, int):
        found = [b.value for block in after["main"].body.blocks for b in block.bindings]
        assert sum(getattr(v, "op", None) is MATMUL for v in found) == expected
    else:
        assert described(after) == expected
    check(before, after, values(shapes))
    assert made()(after) is after


ANY = 'R.Tensor({}dtype="float32")'
KNOWN = 'R.Tensor((4, 4), "float32")'
FLAT, ALL = ANY.format("ndim=2, "), ANY.format("")
# pass: (program, the parameters whose shape, and whose rank, it needs)
UNKNOWN = {
    AdjustMatmulOrder: ("a = R.matmul(y, z); b = R.matmul(x, a)", "xyz", "xyz"),
    ExpandMatmulOfSum: ("a = R.add(y, z); t = R.permute_dims(a); b = R.matmul(x, t)", "yz", "yz"),
    ReorderPermuteDimsAfterConcat: (
        "a = R.permute_dims(x); b = R.permute_dims(y); c = R.concat([a, b], axis=1)", "", "xy"
    ),
    ReorderTakeAfterMatmul: ("a = R.take(y, i, axis=0); b = R.matmul(x, a)", "xy", "xy"),
    FuseTransposeMatmul: ("a = R.permute_dims(y); b = R.matmul(x, a)", "xy", "xy"),
}  # fmt: skip


@pytest.mark.parametrize("made", UNKNOWN)
def test_what_has_an_unknown_shape_stays(made):
    text, of_shape, of_rank = UNKNOWN[made]
    for kind, needed in ((FLAT, of_shape), (ALL, of_rank)):
        for whose in [*needed, needed]:
            infos = {k: kind if k in whose else KNOWN for k in "xyz"}
            mod = graph(text, **infos, i=INT.format("(4,)"))
            assert not whose or made()(mod) is mod


def with_attr(text: str, shapes: dict, **attrs):
    mod = program(text, shapes)
    gvar = mod.get_global_var("main")
    return mod.with_functions({gvar: mod["main"].with_attrs(attrs)})


@pytest.mark.parametrize("made", [AdjustMatmulOrder, ExpandMatmulOfSum])
@pytest.mark.parametrize(("inputs", "stays"), [(1, True), (2, False)])
def test_what_is_known_at_compile_time_stays_together(made, inputs, stays):
    inner = "R.add(y, z)" if made is ExpandMatmulOfSum else "mm(y, z)"
    width = 8 if made is ExpandMatmulOfSum else 1
    shapes = {"x": (8,), "y": (8, width), "z": (8 if width == 8 else 1, 8)}
    mod = with_attr(f"a = {inner}; b = mm(x, a)", shapes, num_input=inputs)
    assert (made()(mod) is mod) is stays


def test_weights_only_stay():
    shapes = {"x": (8,), "y": (8, 1), "z": (1, 8)}
    mod = with_attr("a = mm(y, z); b = mm(x, a)", shapes, num_input=0)
    assert AdjustMatmulOrder()(mod) is mod


def test_the_left_two_weights_are_multiplied_first():
    shapes = {"z": (8, 2), "x": (8, 8), "y": (8, 8)}
    mod = with_attr("a = mm(y, z); b = mm(x, a)", shapes, num_input=1)
    assert described(AdjustMatmulOrder()(mod)) == "mm(mm(x, y), z)"


def test_two_weights_are_multiplied_first():
    shapes = {"x": (2, 8), "y": (8, 1), "z": (1, 8)}
    mod = with_attr("a = mm(x, y); b = mm(a, z)", shapes, num_input=1)
    assert described(AdjustMatmulOrder()(mod)) == "mm(x, mm(y, z))"


def test_bounds_of_symbolic_dimensions_decide():
    shapes = {"x": ("n", 64), "y": (64, "m"), "z": ("m", 64)}
    mod = with_attr("a = mm(y, z); b = mm(x, a)", shapes)
    assert AdjustMatmulOrder()(mod) is mod
    mod = with_attr("a = mm(y, z); b = mm(x, a)", shapes, tir_var_upper_bound={"m": 32})
    assert described(AdjustMatmulOrder()(mod)) == "mm(mm(x, y), z)"
    mod = with_attr("a = mm(y, z); b = mm(x, a)", shapes, tir_var_upper_bound={"m": 64})
    assert AdjustMatmulOrder()(mod) is mod
    shapes = {"x": ("n", 64), "y": (64, "n"), "z": ("n", 64)}
    mod = with_attr("a = mm(y, z); b = mm(x, a)", shapes, tir_var_upper_bound={"n": 63})
    assert described(AdjustMatmulOrder()(mod)) == "mm(mm(x, y), z)"
    mod = with_attr("a = mm(y, z); b = mm(x, a)", shapes, tir_var_upper_bound={"n": 64})
    assert AdjustMatmulOrder()(mod) is mod


def test_a_group_that_the_user_refuses_stays():
    mod = program("a = mm(x, y); b = mm(x, z); c = (a, b)", {"x": (2, 4), "y": (4, 3), "z": (4, 5)})
    seen = []

    def check(x, weights, biases, values):
        seen.append((x.name_hint, [w.name_hint for w in weights], biases, len(values)))
        return False

    assert CombineParallelMatmul(check)(mod) is mod
    assert seen == [("x", ["y", "z"], [], 3)]


def test_a_transposed_product_of_half_precision_accumulates_as_matmul_does():
    half = 'R.Tensor({}, "float16")'
    mod = graph(
        "a = R.permute_dims(y); b = R.matmul(x, a)",
        x=half.format((3, 64)),
        y=half.format((5, 64)),
    )
    rng = np.random.default_rng(1)
    inputs = [rng.uniform(-1, 1, s).astype("float16") for s in ((3, 64), (5, 64))]
    got, want = (Interpreter(m)["main"](*inputs).numpy() for m in (FuseTransposeMatmul()(mod), mod))
    np.testing.assert_array_equal(got, want)
