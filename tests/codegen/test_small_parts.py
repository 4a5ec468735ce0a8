"""Small parts around the code generators: the worker's protocol, tools, caches, names."""

from __future__ import annotations

import io
import os
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.base.errors import LoopwrightError
from loopwright.codegen.compiled import CompiledModel
from loopwright.codegen.context import flat_index
from loopwright.codegen.llvm import (
    cache,
    compiler,
    export,
    support,
    workers,
)
from loopwright.codegen.llvm.jit import compile_object
from loopwright.codegen.llvm.program import compile_options
from loopwright.codegen.llvm.types import global_name
from loopwright.codegen.objects import symbols
from loopwright.ir.target import Target
from loopwright.runtime.packed_func import register_func, remove_global_func
from loopwright.runtime.signature import Signature
from loopwright.tvm import target_info

from ..programs import graph

ADD = "define i32 @{}(i32 %x) {{\n  %y = add i32 %x, 1\n  ret i32 %y\n}}\n"


def test_a_worker_answers_until_its_pipe_ends(monkeypatch, tmp_path):
    """In this process; what is printed by the way does not go to the answers."""
    asked = io.BytesIO()
    machine = ("", "", "")
    for kind, text, options in (
        ("ir", ADD.format("f"), {"opt": "none"}),
        ("object", "nonsense", {}),
        ("assembly", ADD.format("g"), {"opt": "none"}),
    ):
        compiler.send(asked, (kind, (text, *machine), options))
    asked.seek(0)
    moved = []
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=asked))
    monkeypatch.setattr(os, "dup", lambda fd: os.open(tmp_path / f"{fd}", os.O_WRONLY | os.O_CREAT))
    monkeypatch.setattr(os, "dup2", lambda *args: moved.append(args))
    compiler._serve()
    assert moved == [(2, 1)]
    with (tmp_path / "1").open("rb") as answers:
        first, second, third = (compiler.receive(answers) for _ in range(3))
        assert answers.read() == b""
    assert first[0] is True and "define i32 @f" in first[1]
    assert second[0] is False and "invalid LLVM IR, line 1" in second[1]
    assert third[0] is True and "g:" in third[1]


def test_without_processes_llvm_runs_here(monkeypatch):
    """At the level that is asked for."""

    def none():
        raise OSError("no more processes")

    monkeypatch.setattr(workers, "worker", none)
    assert "add i32 %x, 1" in workers.optimized_ir(ADD.format("f"), opt="none")
    assert workers.compile_object(ADD.format("f"))[:4] == b"\x7fELF"
    with pytest.raises(ValueError, match="opt must be one of"):
        workers.assembly(ADD.format("f"), opt="O9")


def test_levels_after_llvm_ended(monkeypatch):
    """Twice the first where it said nothing, then the others, each once."""
    tried, words = [], []

    class Ends:
        def do(self, kind, job, options):
            tried.append(options["opt"])
            raise workers.Died(words.pop(0) if words else "")

    class Context(Ends):
        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *args: None  # noqa: E731

    monkeypatch.setattr(workers, "worker", Context)
    with pytest.raises(compiler.CompileError, match="LLVM ends on the code of f\n") as told:
        workers.compile_object(ADD.format("f"))
    assert tried == ["short", "short", "O1", "none"] and "another -mcpu" in str(told.value)
    for length, shown in ((100, 100), (101, 100)):
        with pytest.raises(compiler.CompileError, match=f"the code of f{{{shown}}}\n"):
            workers.compile_object(ADD.format("f" * length))
    tried.clear()
    words[:] = ["LLVM ERROR: one", "two"]
    with pytest.raises(compiler.CompileError, match="LLVM ERROR: one"):
        workers.compile_object('define void @"a b"() {\n}\n')
    assert tried == ["short", "O1", "none"]


def test_the_support_code_may_be_loaded_again():
    again = support._helpers.__wrapped__()
    assert again.keys() == support._helpers().keys() and all(again.values())


def test_what_idle_workers_have_used(monkeypatch):
    monkeypatch.setattr(workers, "_idle", [])
    assert workers.processor_seconds() == 0
    own = SimpleNamespace(process=SimpleNamespace(pid=os.getpid()))
    monkeypatch.setattr(workers, "_idle", [own, own])
    before, made, after = os.times(), workers.processor_seconds(), os.times()
    assert 2 * sum(before[:2]) - 0.05 <= made <= 2 * sum(after[:2]) + 0.05
    lock = workers._lock
    monkeypatch.setattr(workers, "_lock", lock)
    workers._forget()
    assert workers._idle == [] and workers._lock is not lock


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.name_0", "plain.name_0"),
        ("a b", '"a b"'),
        ('q"\\', '"q\\22\\5C"'),
        ("é\n", '"\\C3\\A9\\0A"'),
        ("~ \x7f\x1f", '"~ \\7F\\1F"'),
    ],
)
def test_names_in_llvm(name, text):
    assert global_name(name) == text
    found = dict(symbols(compile_object(ADD.format(text))))
    assert found[name] is True


@pytest.mark.skipif(shutil.which("ar") is None, reason="no ar")
def test_archives_of_other_formats_are_made_by_ar(tmp_path):
    other = b"\xcf\xfa\xed\xfe of a Mac"
    path = export.archive([other, other + b"2"], tmp_path / "two.a")
    data = path.read_bytes()
    assert data.startswith(b"!<arch>\n") and data.count(other) == 2


def test_tools_of_other_machines(monkeypatch):
    there = {"aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ld", "cc", "ld.lld"}
    monkeypatch.setattr(shutil, "which", lambda name: name if name in there else None)
    monkeypatch.setattr(export, "host_triple", lambda: "x86_64-unknown-linux-gnu")
    monkeypatch.setattr(export, "find_spec", lambda name: name)
    zig = [sys.executable, "-m", "ziglang", "ld.lld", "-shared"]
    lld = ["ld.lld", "-shared"]
    assert export.linkers() == [["cc", "-shared"], lld, zig]
    made = export.linkers("aarch64-unknown-linux-gnu")
    assert made == [
        ["aarch64-linux-gnu-gcc", "-shared"],
        ["aarch64-linux-gnu-ld", "-shared"],
        lld,
        zig,
    ]
    assert export.cross_compiler("aarch64-pc-linux-gnu") == "aarch64-linux-gnu-gcc"
    assert export.cross_compiler("x86_64-pc-windows") is None
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    same = compile_object(ADD.format("f"))
    with pytest.raises(LoopwrightError, match="two objects define a function"):
        export.link_relocatable([same, same], "nowhere.o")


def test_what_is_not_there(monkeypatch, tmp_path):
    assert "x86_64" in target_info.llvm_get_targets() and not target_info._exists("abacus")

    def fails(*args, **options):
        raise OSError

    store = cache.ObjectCache(tmp_path)
    monkeypatch.setattr(cache, "weakness", fails)
    assert cache._own.__wrapped__(str(tmp_path)) is None
    monkeypatch.setattr(cache, "make_folder", fails)
    assert store.put_data("ab" * 20, b"x") is False


@pytest.mark.parametrize("cpu", ["", "native", "skylake"])
def test_no_processor_is_the_host_s(cpu):
    target = Target({"kind": "llvm", "mcpu": cpu})
    assert compile_options(target)[1] == ("skylake" if cpu == "skylake" else None)


@pytest.mark.parametrize("dtype", ["int2", "uint4", "int4", "int8", "float32", "float64"])
def test_parts_of_buffers_for_registered_functions(dtype):
    """A packed function sees the part: its first element, shape and strides."""
    seen = []
    register_func("test.part", lambda part: seen.append(part.numpy().astype(int).tolist()))
    try:
        whole = tir.decl_buffer((16,), dtype, "whole")
        part = tir.decl_buffer((4,), dtype, "part", data=whole.data, elem_offset=8)
        call = tir.call_packed("test.part", part)
        func = tir.PrimFunc([whole], tir.DeclBuffer(part, tir.Evaluate(call)))
        given = lw.runtime.tensor(np.arange(16) % 3 % 2, dtype=dtype)
        lw.compile(func, "llvm")(given)
    finally:
        remove_global_func("test.part")
    assert seen == [(np.arange(16) % 3 % 2)[8:12].tolist()]


class Plain(CompiledModel):
    """A target with texts alone."""

    suffix = ".txt"
    texts = {"main": "first", "other": "second"}

    def __getitem__(self, name):
        if name not in self.texts:
            raise KeyError(f"no function {name}")
        return super().__getitem__(name) if name == "main" else print


def test_a_target_that_only_has_texts(tmp_path):
    made = Plain.__new__(Plain)
    made.target = Target("llvm")
    made._describe({"main": Signature(())}, {}, {})
    assert made.levels("other") == {"code": "second"}
    assert made.get_source() == made.get_source("asm") == made.get_source("s") == "first\nsecond"
    paths = made.write(tmp_path / "deep")
    made.write(tmp_path / "deep")
    assert [p.name for p in paths] == ["main.txt", "other.txt"]
    assert [p.read_text() for p in paths] == ["first", "second"]
    assert made.signature("other") == Signature(())
    with pytest.raises(KeyError, match="no function third"):
        made.signature("third")
    for wrong in (made.export_library, lambda path: made["main"], lambda path: made()):
        with pytest.raises(LoopwrightError, match="code for this target is not"):
            wrong(tmp_path)
    bare = CompiledModel.__new__(CompiledModel)
    bare.target = Target("llvm")
    with pytest.raises(LoopwrightError, match="code for this target has no text to show"):
        bare.texts


def test_signatures_of_functions_of_the_machine():
    mod = graph("a = R.add(x, x)", x=("n", 3))
    exe = lw.compile(mod, "llvm")
    func = mod["main"]
    made = Plain.__new__(Plain)
    made.target = Target("llvm")
    made._describe({}, {}, {"main": func, "private": func.without_attr("global_symbol")})
    assert made.function_names() == ["main"] == exe.function_names()
    for name in ("main", "private"):
        (param,), (result,) = made.signature(name).params, made.signature(name).results
        assert (param.name, param.dtype, result.name) == ("x", "float32", "out")
        assert str(param.dims[0]) == "n" and int(param.dims[1]) == 3


def test_generated_code_indexes_flat_buffers_of_bytes():
    i = tir.Var("i", "int32")
    flat = tir.decl_buffer((4,), "int8", "A")
    assert flat_index(flat, (i,)) is i and int(flat_index(flat, ())) == 0
    with pytest.raises(LoopwrightError, match="buffer A is not flat\n  instead: run FlattenBuffer"):
        flat_index(tir.decl_buffer((4, 4), "int8", "A"), (i, i))
    with pytest.raises(
        LoopwrightError, match="A of int4 is not stored as bytes yet\n  instead: run Int4"
    ):
        flat_index(tir.decl_buffer((4,), "int4", "A"), (i,))
