"""`tensorize`: what of a description differs from the program is said; what may differ is accepted."""

from __future__ import annotations

from textwrap import indent

import pytest

from loopwright import tir
from loopwright.script import from_source
from loopwright.tir import ScheduleError

from .util import check

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((8, 4), "{kind}"), B: T.Buffer((8, 4), "{kind}"), C: T.Buffer((8, 4), "{kind}")):
    for i, k in T.grid(8, 4):
        with T.block("C"):
            v, u = T.axis.spatial(8, i), T.axis.{axis}(4, k)
            C[v, u] = {value}
"""
DESC = """
@T.prim_func
def desc(
    X: T.Buffer({shape}, "{kind}", offset_factor=1), Y: T.Buffer((4,), "{kind}", offset_factor=1),
    Z: T.Buffer((4,), "{kind}", offset_factor=1{scope}),
):
    for k in range({extent}):
        with T.block("x"):
            v = T.axis.{axis}({extent}, {bound})
            {init}
            Z[v] = {value}
"""
IMPL = """
@T.prim_func
def impl(
    X: T.Buffer({shape}, "{kind}", offset_factor=1), Y: T.Buffer((4,), "{kind}", offset_factor=1),
    Z: T.Buffer((4,), "{kind}", offset_factor=1{scope}),
):
    with T.block("root"):
        Z[0:4] = X[{lead}0:4] * Y[0:4]
"""
USUAL = {
    "shape": "(4,)", "lead": "", "kind": "float32", "scope": "", "extent": "4", "bound": "k", "axis": "spatial",
    "init": "pass", "value": "X[v] * Y[v]",
}  # fmt: skip
OURS = {"kind": "float32", "axis": "spatial", "value": "A[v, u] * B[v, u]"}


def tensorized(ours: dict[str, str], desc: dict[str, str]) -> tuple[tir.Schedule, tir.PrimFunc]:
    program = from_source(PROGRAM.format(**{**OURS, **ours}))
    texts = [text.format(**{**USUAL, **desc}) for text in (DESC, IMPL)]
    intrin = tir.TensorIntrin(*map(from_source, texts))
    sch = tir.Schedule(program, debug_mask="all")
    sch.tensorize(sch.get_loops("C")[1], intrin)
    return sch, program


@pytest.mark.parametrize(
    ("ours", "desc", "said"),
    [
        ({}, {"extent": "2"}, "a loop's extent\n  got: 4 in the program\n  instead: 2, as in"),
        ({"axis": "reduce"}, {}, "kinds of axes\n  got: u_i in the program\n  instead: v, as in"),
        ({}, {"bound": "3 - k"}, "differs from the program: a"),
        ({}, {"init": "with T.init():\n                Z[v] = T.float32(0)", "axis": "reduce"}, "kinds of axes"),
        ({"value": "A[v, u] * A[v, u]"}, {"value": "X[v] * Y[v] + Y[v]"}, "an expression"),
        ({"value": "A[v, u] * A[v, u] + A[v, u]"}, {"value": "X[v] * X[v] + Y[v] * X[v]"}, "an expression"),
        ({}, {"value": "X[v] * X[v]"}, "a buffer\n  got: B in the program\n  instead: X, which is A, as"),
        ({"kind": "float16"}, {}, "a buffer's type\n  got: C of type float16 in the program"),
        ({"value": "A[v, u] * T.float32(2)"}, {}, "an operand"),
        ({"value": "A[v, u] * T.float32(2)"}, {"value": "X[v] * T.float32(3)"}, "a number\n  got: T.float32(2.0)"),
        ({"value": "A[v, u] - B[v, u]"}, {}, "an expression"),
        ({"value": "T.exp(A[v, u])"}, {"value": "T.log(X[v])"}, "a call"),
        ({"value": "A[v, u] * B[u, u]"}, {}, "an index of Y"),
        ({"value": "A[v, u] * A[v, 3 - u]"}, {"value": "X[v] * X[v]"}, "an index of X"),
        ({"value": "A[v, u] * A[0, u]"}, {"value": "X[v] * X[v]"}, "the offset of X"),
        ({"value": "A[v, u] * A[v, u]"}, {"value": "X[v] * X[v]"}, "the description does not use Y"),
        ({}, {"scope": ', scope="shared"'}, "the intrinsic needs Z in scope 'shared'\n  got: C in 'global'"),
        ({}, {"shape": "(1, 1, 4)", "lead": "0, 0, ", "value": "X[0, 0, v] * Y[v]"}, "the dimensions of X\n  got: 2 in"),
    ],
)  # fmt: skip
def test_what_differs(ours: dict[str, str], desc: dict[str, str], said: str) -> None:
    with pytest.raises(ScheduleError) as error:
        tensorized(ours, desc)
    assert said in str(error.value)


def test_what_may_differ() -> None:
    for desc in ({}, {"value": "X[v * 2 - v] * Y[v]"}):
        sch, program = tensorized({}, desc)
        assert "Z[0:4] = X[0:4] * Y[0:4]" in sch.mod.script()
        check(sch, program, replay=False)


NESTED = """
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32")):
    for i in range(8):
        with T.block("O"):
            v = T.axis.spatial(8, i)
            T.reads(A[v, 0:4], B[v, 0:4], C[v, 0:4])
            T.writes(C[v, 0:4])
            for k in range(4):
                with T.block("C"):
{}
"""
ALIKE = """
@T.prim_func
def {name}(
    X: T.Buffer((4,), "float32", offset_factor=1), Y: T.Buffer((4,), "float32", offset_factor=1),
    Z: T.Buffer((4,), "float32", offset_factor=1),
):
    {body}
"""
PLAIN = "C[v, u] = A[v, u] * B[v, u]"
WISE = "Z[0:4] = X[0:4] * Y[0:4]"
DOT = "Z[0] = X[0] * Y[0] + X[1] * Y[1] + X[2] * Y[2] + X[3] * Y[3]"
SUM = "u = T.axis.reduce(4, k)\nwith T.init():\n    C[v, 0] = T.float32(0)\nC[v, 0] = C[v, 0] + A[v, u] * B[v, u]"
SEVERAL = "u = T.axis.spatial(4, k)\nC[v, u] = A[v, u]\nC[v, u] = C[v, u] * B[v, u]"


def of_desc(ours: str) -> str:
    """The same for the buffers of the description."""
    for a, b in (("A[v, ", "X["), ("B[v, ", "Y["), ("C[v, ", "Z[")):
        ours = ours.replace(a, b)
    return ours


@pytest.mark.parametrize(
    ("ours", "desc", "impl", "said"),
    [
        ("u = T.axis.spatial(4, k)\n" + PLAIN, None, WISE, None),
        ("z, u = T.axis.spatial(1, 0), T.axis.spatial(4, k)\n" + PLAIN, "u = T.axis.spatial(4, k)\n" + PLAIN, WISE, None),
        ("z, u = T.axis.spatial(2, 0), T.axis.spatial(4, k)\n" + PLAIN, "u = T.axis.spatial(4, k)\n" + PLAIN, WISE,
         "the number of axes\n  got: 2 in the program\n  instead: 1, as"),
        ("u = T.axis.spatial(4, k)\n" + PLAIN, "z, u = T.axis.spatial(1, 0), T.axis.spatial(4, k)\n" + PLAIN, WISE,
         "the number of axes\n  got: 1 in the program\n  instead: 2, as"),
        (SUM, None, DOT, None), (SUM, SUM.replace("T.float32(0)", "T.float32(1)"), DOT, "a number\n  got: T.float32(0.0) in"),
        (SUM, SUM.replace("with T.init():\n    C[v, 0] = T.float32(0)\n", ""), DOT, "the init\n  got: "),
        (SEVERAL, None, WISE, None), (SEVERAL, SEVERAL + "\nC[v, u] = C[v, u] + A[v, u]", WISE, "operands"),
        (SEVERAL, SEVERAL.replace("* B[v, u]", "+ B[v, u]"), WISE, "an expression"),
        ("u = T.axis.spatial(4, k)\nT.where(k < 4 - v)\n" + PLAIN, "u = T.axis.spatial(4, k)\n" + PLAIN, WISE, "a number\n  got: k < 4 - v in"),
        ("u = T.axis.spatial(4, k)\nif u < 2:\n    " + PLAIN, "u = T.axis.spatial(4, k)\nif u < 3:\n    " + PLAIN, WISE, "a number"),
        ("u = T.axis.spatial(4, k)\nif u < 2:\n    " + PLAIN, "u = T.axis.spatial(4, k)\n" + PLAIN, WISE, "other kinds of statement"),
        ("u = T.axis.spatial(4, k)\nif u < 2:\n    " + PLAIN, None, "Z[0:2] = X[0:2] * Y[0:2]", None),
        ("u = T.axis.spatial(4, k)\nif u < 2:\n    " + PLAIN + "\nelse:\n    C[v, u] = T.float32(1)", "u = T.axis.spatial(4, k)\nif u < 2:\n    " + PLAIN,
         WISE, "operands"),
    ],
)  # fmt: skip
def test_blocks_inside(ours: str, desc: str | None, impl: str, said: str | None) -> None:
    program = from_source(NESTED.format(indent(ours, " " * 20)))
    loop = 'for k in range(4):\n        with T.block("x"):\n' + indent(
        of_desc(desc or ours), " " * 12
    )
    root = 'with T.block("root"):\n        ' + impl
    texts = (ALIKE.format(name="desc", body=loop), ALIKE.format(name="impl", body=root))
    intrin = tir.TensorIntrin(*map(from_source, texts))
    sch = tir.Schedule(program, debug_mask="all")
    if said is None:
        block = sch.get_block("O")
        sch.tensorize(block, intrin)
        assert impl in sch.mod.script() and sch.get(block).name_hint == "O"
        check(sch, program, replay=False)
    else:
        with pytest.raises(ScheduleError) as error:
            sch.tensorize("O", intrin)
        assert said in str(error.value)
