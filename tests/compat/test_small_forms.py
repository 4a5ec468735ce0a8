"""Small parts of TVM's layout: what stands for a class, and functions that only pass on."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from loopwright import relax, te, tir
from loopwright.base.doors import open_doors
from loopwright.base.errors import LoopwrightError
from loopwright.compat import contrib, layout, machines, type_checker
from loopwright.compat.doc import DocStringDoc, ExprStmtDoc, IdDoc, to_python_script
from loopwright.compat.executable import Executable
from loopwright.compat.predicates import identify_memcpy
from loopwright.ir.expr import GlobalVar
from loopwright.ir.object_path import ObjectPath
from loopwright.script import tir as T

WIDE, NARROW = relax.TensorStructInfo((3,), "float32"), relax.TensorStructInfo((2,), "float32")


def test_an_executable_passes_on() -> None:
    class Model:
        def __call__(self, *args: Any, **options: Any) -> Any:
            return args, options

        def __getitem__(self, name: str) -> str:
            return name

        def export_library(self, name: str, **options: Any) -> str:
            return f"wrote {name}{options}"

    made = Executable(Model())
    assert made(1, b=2) == ((1,), {"b": 2})
    assert made["main"] == "main" and made.export_library("f", a=1) == "wrote f{'a': 1}"
    assert made.jit() is made.mod


def test_kinds_of_tvm() -> None:
    assert isinstance((), layout.Array) and isinstance([], layout.Array)
    assert not isinstance("", layout.Array) and not isinstance({}, layout.Array)
    assert layout.Array([1, 2]) == (1, 2) and layout.Array() == ()
    assert not isinstance(tir.EQ(1, 2), layout.EqualOp)
    never = layout.NotEqualOp()
    assert never.asobject() is never
    with layout.spans_as_they_are():
        pass


def test_struct_infos_are_set() -> None:
    call = relax.op.exp(relax.Var("v", NARROW))
    name = GlobalVar("f")
    for expr in (call, name):
        layout.update_struct_info(expr, WIDE)
        assert expr.struct_info is WIDE


def test_a_compiler_that_is_a_function() -> None:
    seen: list[Any] = []
    compiled = contrib.cross_compiler(
        lambda out, files, options: seen.append((out, files, options)), ["-a"], add_files=["b.o"]
    )
    compiled("out", "a.o")
    compiled("out", ["a.o", "c.o"], options=["-d"])
    assert seen == [("out", ["a.o", "b.o"], ["-a"]), ("out", ["a.o", "c.o", "b.o"], ["-a", "-d"])]


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise LoopwrightError("a C compiler is not installed")

    monkeypatch.setattr(contrib, "find_compiler", missing)
    assert contrib.get_cc() is None


def test_schedules_of_machines() -> None:
    A = te.placeholder((2, 3), name="A")
    B = te.compute((2, 3), lambda i, j: A[i, j] + 1, name="B")
    schedule = te.create_schedule(B.op)
    assert machines.schedule(schedule) is schedule
    for outs in (B, [B]):
        assert [op.name for op in machines.schedule(outs).outputs] == ["B"]
    assert machines.names(True, {"dense": len})("dense_nopack") is len


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        ([1, "a"], list, True),
        ([1, 2], list[int], True),
        ([1, "a"], list[int], False),
        ({1: "a"}, dict[int, str], True),
        ({"a": "a"}, dict[int, str], False),
        ({1: 2}, dict[int, str], False),
    ],
)
def test_values_of_types(value: Any, kind: Any, fits: bool) -> None:
    def given(value: Any) -> Any:
        return value

    given.__annotations__ = {"value": kind}
    take = type_checker.type_checked(given)
    if fits:
        assert take(value) is value
    else:
        with pytest.raises(TypeError):
            take(value)


@T.prim_func
def computed(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")) -> None:
    for i in range(4):
        B[i] = A[i] + T.float32(1)


@T.prim_func
def evaluated(n: T.int32) -> None:
    for i in range(4):
        T.evaluate(n + i)


@pytest.mark.parametrize(
    ("func", "why"),
    [
        (evaluated, "Expected innermost loop to have BufferStore body, got Evaluate"),
        (computed, "Expected BufferStore's value to be BufferLoad, got Add"),
    ],
)
def test_loops_that_copy_nothing(func: Any, why: str) -> None:
    (found,) = identify_memcpy(func.body)
    assert found.value == why


def test_underlined_statements() -> None:
    path = ObjectPath.root().attr("body")
    doc = ExprStmtDoc(IdDoc("x"))
    doc.source_paths = [path]
    assert to_python_script(doc, path_to_underline=[path]) == "x\n^"
    assert "hello" in to_python_script(DocStringDoc("hello"))


def test_paths_are_served_once() -> None:
    open_doors()
    before = list(sys.meta_path)
    open_doors()
    assert sys.meta_path == before
