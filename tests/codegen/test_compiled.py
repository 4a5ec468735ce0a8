"""Compiled models: fed by name, profiled, written; and the compiler's own words on text that is wrong."""

from __future__ import annotations

import io
import tarfile
import time

import numpy as np
import pytest

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.codegen.llvm import compiler

from ..programs import graph, pointwise

X, Z = np.arange(6, dtype="float32").reshape(2, 3), np.full((2, 3), 4, "float32")


@pytest.fixture(scope="module")
def exe():
    return lw.compile(
        graph("a = R.subtract(x, z); b = R.add(x, z); y = (a, b)", x=(2, 3), z=(2, 3))
    )


@pytest.fixture(scope="module")
def single():
    return lw.compile(graph("a = R.add(x, x)", x=("n", 3)))


def test_inputs_by_name(exe, single):
    for feeds in ({"x": X, "z": Z}, {"z": Z, "x": X}):
        made = exe.run(feeds)
        assert list(made) == exe.output_names() == ["out0", "out1"]
        np.testing.assert_array_equal(made["out0"].numpy(), X - Z)
        np.testing.assert_array_equal(made["out1"].numpy(), X + Z)
    np.testing.assert_array_equal(exe.run(x=X, z=Z)["out0"].numpy(), X - Z)
    (made,) = single.run({"x": X}).items()
    assert made[0] == "out" and (made[1].numpy() == 2 * X).all()
    with pytest.raises((LoopwrightError, ValueError, KeyError, TypeError), match="y"):
        single.run({"y": X})


def test_functions_by_name(exe):
    assert exe.implements_function("main") and not exe.implements_function("other")
    assert exe.function_names() == ["main"]
    with pytest.raises(KeyError, match="no function of this name") as refused:
        exe["other"]
    assert "one of: main" in str(refused.value)
    with pytest.raises(LoopwrightError, match="native code, without calls"):
        exe.watched_machine()


def test_sizes(exe):
    lines = dict(line.split(": ") for line in exe.stats().splitlines())
    assert lines["functions"] == "main" and lines["constants"] == "0 bytes"
    assert lines["kernels"] == "2" and int(lines["code"].split()[0]) > 100


def test_profiles(exe):
    begin = time.perf_counter()
    profile = exe.profile(X, Z, number=3)
    spent = (time.perf_counter() - begin) * 1e6
    kernels = [g.name_hint for g in exe.lowered.functions if g.name_hint != "main"]
    assert sorted(e.name for e in profile) == sorted(kernels)
    assert all(e.calls == 3 for e in profile) and 0 < profile.total_us < spent
    kernel = lw.compile(lw.IRModule({"twice": pointwise("twice", "X[vi, vj] * 2.0")}))
    out = np.zeros_like(X)
    (entry,) = kernel.profile(X, out, function="twice", number=2)
    assert (entry.name, entry.calls) == ("twice", 2)
    np.testing.assert_array_equal(out, 2 * X)


def test_what_is_written(exe, tmp_path):
    with pytest.raises(LoopwrightError, match="is not written as files"):
        exe.write(tmp_path)
    path = exe.export_library(tmp_path / "deep" / "net.tar")
    with tarfile.open(path) as tar:
        members = tar.getmembers()
        data = [tar.extractfile(m).read() for m in members]
    assert [m.name for m in members] == [f"lib{k}.o" for k in range(len(members))]
    assert all(len(d) == m.size > 0 for d, m in zip(data, members, strict=True))
    for suffix in ("ll", "s"):
        exe.save(tmp_path / f"net.{suffix}")
        assert "main" in (tmp_path / f"net.{suffix}").read_text()
    with pytest.raises(LoopwrightError, match="the file's suffix selects the kind of export"):
        exe.export_library(tmp_path / "net.txt")


WRONG = """define i32 @first(i32 %x) {
  ret i32 %x
}
define i32 @second(i32 %x) {
  %y = add i32 %x, %z
  ret i32 %y
}
"""


def test_wrong_text_is_named_with_its_function_and_line():
    with pytest.raises(compiler.CompileError, match="invalid LLVM IR in `second`, line 5:") as told:
        compiler.compile_object(WRONG)
    assert "%z" in str(told.value)
    with pytest.raises(compiler.CompileError, match=r"invalid LLVM IR, line 1:\d"):
        compiler.compile_object("nonsense")
    twice = "define i32 @f() {\n  %y = add i32 1, 2\n  ret i64 0\n}\n"
    with pytest.raises(compiler.CompileError, match="in `f`, line 3"):
        compiler.assembly(twice)


def test_levels_of_optimization():
    text = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 0\n  %z = mul i32 %y, 1\n  ret i32 %z\n}\n"
    made = {opt: compiler.optimized_ir(text, opt=opt) for opt in ("none", "short", "O1", "O3")}
    assert "add i32" in made["none"]
    for opt in ("short", "O1", "O3"):
        assert "add i32" not in made[opt] and "ret i32 %x" in made[opt]
    assert "f:" in compiler.assembly(text)


def test_what_is_sent_to_a_worker_arrives():
    stream = io.BytesIO()
    for value in ({"a": [1, 2]}, b"x" * 300):
        compiler.send(stream, value)
    stream.seek(0)
    assert compiler.receive(stream) == {"a": [1, 2]} and compiler.receive(stream) == b"x" * 300
    with pytest.raises(EOFError, match="closed its pipe"):
        compiler.receive(stream)
