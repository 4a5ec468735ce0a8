"""When memory lives: loops, branches, pointers that are kept, calls in calls."""

from __future__ import annotations

import pytest

from loopwright.script import from_source
from loopwright.tir.analysis.liveness import Allocations, liveness

FORM = """
@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.handle("float32", "global"), n: T.int32):
        X = T.Buffer((8,), data=x)
        a = T.allocate([8], "float32", "global")
        b = T.allocate([8], "float32", "global")
        A = T.Buffer((8,), data=a)
        B = T.Buffer((8,), data=b)
        {body}

    @T.prim_func(private=True)
    def work(p: T.handle("float32", "global"), q: T.handle("float32", "global")):
        P = T.Buffer((8,), data=p)
        Q = T.Buffer((8,), data=q)
        room = T.allocate([4], "float32", "global")
        Room = T.Buffer((4,), data=room)
        Room[0] = P[0]
        more = T.allocate([4], "float32", "global")
        More = T.Buffer((4,), data=more)
        More[0] = Room[0]
        Q[0] = More[0]
"""


def live(body, stack_bytes=0):
    """Names to (first, last), and the steps."""
    mod = from_source(FORM.format(body=body.strip().replace("\n", "\n        ")))
    made = liveness(mod, mod.get_global_var("main"), Allocations(mod, stack_bytes))
    return {r.name: (r.first, r.last) for r in made.ranges}, made


def together(body, one="a", other="b"):
    """Whether two pieces of memory live at the same time."""
    found, _ = live(body)
    return found[one][0] <= found[other][1] and found[other][0] <= found[one][1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("A[0] = X[0]\nX[0] = A[0]\nB[0] = X[0]\nX[0] = B[0]", False),
        ("A[0] = X[0]\nB[0] = A[0]\nX[0] = B[0]", True),
        # In a loop, a is read again after b was written.
        ("for i in range(4):\n    A[0] = X[i]\n    X[i] = A[0]\n    B[0] = X[i]", True),
        ("while X[0] < T.float32(3):\n    A[0] = X[0]\n    X[0] = A[0]\n    B[0] = X[0]", True),
        ("A[0] = X[0]\nwhile X[0] < A[0]:\n    B[0] = X[0]\n    X[0] = B[0]", True),
        (
            "for i in range(4):\n    A[i] = X[i]\nX[0] = A[1]\nfor i in range(4):\n    B[i] = X[i]",
            False,
        ),
        (
            "if n > 3:\n    A[0] = X[0]\n    X[0] = A[0]\nelse:\n    B[0] = X[0]\n    X[0] = B[0]",
            False,
        ),
        ("A[0] = X[0]\nif X[1] > T.float32(0):\n    B[0] = X[0]\nX[0] = A[0]", True),
        # a pointer that is kept, or an alias, is used later
        ("T.tvm_struct_set(x, 0, 1, a)\nB[0] = X[0]", True),
        (
            'c: T.handle("float32", "global") = T.handle_add_byte_offset(a, 4)\nA[0] = X[0]\n'
            "B[0] = X[0]\nC = T.Buffer((4,), data=c)\nX[0] = C[0]",
            True,
        ),
        ("A[0] = X[0]\nT.call_extern('int32', 'f', a, b)", True),
        ('with T.attr(a, "note", 1):\n    B[0] = X[0]', True),
        ("A[0] = X[0]\nassert A[0] > T.float32(0), 'small'\nB[0] = X[0]", False),
        ("Module.work(x, a)\nModule.work(a, b)", True),
        ("Module.work(x, a)\nModule.work(a, x)\nModule.work(x, b)", False),
    ],
)
def test_what_lives_at_the_same_time(body, expected):
    assert together(body) is expected


def test_memory_of_a_call():
    found, made = live("Module.work(x, a)\nModule.work(a, b)")
    assert list(found) == ["a", "b", "work.room", "work.more", "work.room#2", "work.more#2"]
    assert found["work.room"][1] == found["work.more"][0]  # copied from one to the other
    assert found["a"][0] <= found["work.room"][0]
    assert found["work.more"][1] < found["work.room#2"][0]
    assert set(made.labels) == {"work"}
    assert [c.callee.name_hint for c in made.calls] == ["work", "work"]
    assert [r and r.name for r in made.calls[1].args] == ["a", "b"]
    assert [r.name for r in made.calls[0].scratch] == ["work.room", "work.more"]


def test_what_is_small_stays_in_kernels():
    found, made = live("Module.work(x, a)\nModule.work(a, b)", stack_bytes=16)
    assert list(found) == ["a", "b"]
    assert made.left == {}


def test_what_is_not_planned():
    """Memory on a condition stays, a kernel in a parallel loop keeps its own."""
    body = "d = T.allocate([8], 'float32', 'global', condition=n > 2)\nD = T.Buffer((8,), data=d)\nD[0] = X[0]"
    found, made = live(body)
    assert list(found) == ["a", "b"] and made.left == {"main.d": "it is allocated on a condition"}
    found, made = live("for i in T.parallel(4):\n    Module.work(x, a)\nModule.work(x, b)")
    assert [[r and r.name for r in c.args] for c in made.calls] == [[None, "b"]]


def test_another_name_of_a_pointer_is_an_argument_too():
    _, made = live(
        "with T.LetStmt(a) as c:\n    C = T.Buffer((8,), data=c)\n    Module.work(x, c)\nB[0] = X[0]"
    )
    assert [[r and r.name for r in c.args] for c in made.calls] == [[None, "a"]]


def test_memory_of_a_call_in_a_loop_lives_within_it():
    found, _ = live("for i in range(3):\n    Module.work(x, a)\n    Module.work(a, x)")
    assert found["work.room"][1] < found["work.room#2"][0]
    assert found["a"][0] < found["work.room"][0]
    assert found["a"][1] > found["work.more#2"][1]


def test_memory_that_nothing_uses():
    found, _ = live("X[0] = T.float32(1)")
    assert found == {"a": (0, 0), "b": (0, 0)}


def test_steps_say_what_runs():
    _, made = live("A[0] = X[0]\nModule.work(x, b)\nT.call_extern('int32', 'memcpy', x, a, 4)")
    assert [s for k, s in enumerate(made.labels) if s not in made.labels[:k]] == [
        "store to A",
        "work",
        "memcpy",
    ]


def test_sizes_are_bounded_across_calls():
    """By the bounds of `main`, the arguments of all calls and the values of local variables."""
    source = """
@I.ir_module
class Module:
    @T.prim_func
    def main(x: T.handle("float32", "global"), n: T.int64, k: T.int32):
        T.func_attr({"tir_var_upper_bound": {"n": 4}})
        Module.work(x, n, k)
        Module.work(x, n * T.int64(2), k)

    @T.prim_func(private=True)
    def work(x: T.handle("float32", "global"), m: T.int64, k: T.int32):
        last: T.int64 = m - T.int64(1)
        a = T.allocate([last * T.int64(8)], "float32", "global")
        b = T.allocate([k], "float32", "global")
        T.call_extern("int32", "lib_work", x, a, b)
"""
    mod = from_source(source)
    main = mod.get_global_var("main")
    result = liveness(mod, main, Allocations(mod, 0, main))
    assert [(r.name, r.size) for r in result.ranges] == [
        ("work.a", 7 * 8 * 4),
        ("work.a#2", 7 * 8 * 4),
    ]
    assert result.left == {"work.b": "its size is known only at run time (k)"}
    assert liveness(mod, main, Allocations(mod, 0)).ranges == []
