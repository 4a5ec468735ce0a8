"""Static libraries written without tools: what `ar` writes, and what a linker reads."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import pytest

from loopwright.base.errors import LoopwrightError
from loopwright.codegen.join_objects import _Symbol, _united, join_objects
from loopwright.codegen.llvm import export, jit
from loopwright.codegen.objects import (
    REL,
    RELA,
    SYMBOLS,
    ElfObject,
    is_sound,
    symbols,
    write_archive,
)

TEXT = """
@table = global [5 x i8] zeroinitializer
declare void @other()
define internal void @own() noinline {{
  call void @other()
  ret void
}}
define weak void @maybe() {{
  ret void
}}
define i32 @{name}() {{
  call void @own()
  ret i32 7
}}
"""
TRIPLES = ["x86_64-linux-gnu", "aarch64-linux-gnu", "arm-linux-gnueabihf", "powerpc-linux-gnu"]


def objects(triple: str | None = None) -> list[bytes]:
    """Two objects, one of an odd number of bytes."""
    texts = [TEXT.format(name="first"), TEXT.format(name="second").replace("@table", "@rows")]
    return [jit.compile_object(text, triple) + b"\n" * k for k, text in enumerate(texts)]


@pytest.mark.parametrize("triple", TRIPLES)
def test_symbols_of_each_class_and_byte_order(triple):
    found = {name: known for name, known in symbols(objects(triple)[0]) if name[0] != "_"}
    assert found == {"table": True, "first": True, "maybe": True, "other": False}
    assert list(symbols(b"\0asm of another format")) == []


def has_gnu_ar() -> bool:
    """Whether `ar` is that of binutils: LLVM's pads members differently."""
    if shutil.which("ar") is None:
        return False
    return "GNU" in subprocess.run(["ar", "--version"], capture_output=True, text=True).stdout


@pytest.mark.skipif(not has_gnu_ar(), reason="no ar of binutils to compare with")
@pytest.mark.parametrize("triple", TRIPLES)
def test_the_bytes_are_those_of_ar(tmp_path, triple):
    data = objects(triple)
    names = [f"{k}.o" for k in range(len(data))]
    for name, content in zip(names, data, strict=True):
        (tmp_path / name).write_bytes(content)
    subprocess.run(["ar", "rcsD", "by_ar.a", *names], cwd=tmp_path, check=True)
    ours = write_archive(data, tmp_path / "ours.a").read_bytes()
    assert ours == (tmp_path / "by_ar.a").read_bytes()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_no_tool_is_needed_and_a_compiler_links_it(tmp_path, monkeypatch):
    with monkeypatch.context() as bare:
        bare.setenv("PATH", str(tmp_path))
        bare.setattr(export, "find_spec", lambda name: None)
        export.archive(objects(), tmp_path / "deep" / "two.a")
        export.link_relocatable(objects(), tmp_path / "deep" / "two.o")
        other = [b"\xcf\xfa\xed\xfe of a Mac"]
        for write, data in ((export.link_shared, objects()), (export.link_relocatable, other)):
            with pytest.raises(LoopwrightError, match="apt install binutils, or pip install zig"):
                write(data, tmp_path / "two")
            with pytest.raises(LoopwrightError, match="apt install binutils-aarch64-linux-gnu"):
                write(data, tmp_path / "two", triple="aarch64-unknown-linux-gnu")
    source = "int first(void), second(void);\nvoid other(void) {}\n"
    source += "int main(void) { return first() + second() - 14; }\n"
    (tmp_path / "main.c").write_text(source)
    for file in ("deep/two.a", "deep/two.o"):
        command = ["cc", "main.c", file, "-o", "program"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert subprocess.run([tmp_path / "program"]).returncode == 0


@pytest.mark.parametrize("triple", TRIPLES)
def test_joined_objects_are_one_with_all_symbols(triple):
    joined = join_objects(objects(triple))
    assert is_sound(joined)
    found = [(name, known) for name, known in symbols(joined) if name[0] != "_"]
    names = {"table": True, "rows": True, "first": True, "second": True, "maybe": True}
    assert sorted(found) == sorted({**names, "other": False}.items())
    assert list(symbols(join_objects([joined]))) == list(symbols(joined))


def test_joined_objects_run():
    """Each keeps its own data; of weak functions the first is called, of others the one there is."""
    texts = [
        f"""
@value = internal global i32 {n}
define weak i32 @maybe() {{
  ret i32 {n}
}}
declare i32 @other{2 - n}()
define i32 @other{n - 1}() {{
  %old = load i32, ptr @value
  %new = add i32 %old, 10
  store i32 %new, ptr @value
  %weak = call i32 @maybe()
  %sum = add i32 %new, %weak
  ret i32 %sum
}}
define i32 @call{n}() {{
  %r = call i32 @other{2 - n}()
  ret i32 %r
}}
"""
        for n in (1, 2)
    ]
    joined = join_objects([jit.compile_object(text) for text in texts])
    names = ["call1", "call2", "other0", "other1"]
    library = jit.load_objects([joined], exports=names)
    call = {name: ctypes.CFUNCTYPE(ctypes.c_int32)(library[name]) for name in names}
    assert [call[name]() for name in names] == [13, 12, 22, 23]


def test_what_cannot_be_joined():
    one = objects()[0]
    with pytest.raises(ValueError, match="two objects define a function or constant of one name"):
        join_objects([one, one])
    with pytest.raises(ValueError, match="for different machines"):
        join_objects([one, objects("arm-linux-gnueabihf")[1]])
    with pytest.raises(ValueError, match="truncated"):
        join_objects([one, one[:100]])


def changes(data: bytes) -> list[tuple[bytes, bytes, int]]:
    """What an object's relocations change, and to what: (section, symbol or its section, kind)."""
    elf, found = ElfObject(data), []
    bits = 32 if elf.wide else 8
    for table in elf.sections:
        if table.kind in (REL, RELA):
            known = list(elf.entries(elf.sections[table.link]))
            for _, what, *_ in elf.relocations(table):
                name, _, _, where, *_ = known[what >> bits]
                name = name or elf.section_name(elf.sections[where])
                changed = elf.section_name(elf.sections[table.info])
                found.append((changed, name, what % (1 << bits)))
    return sorted(found)


@pytest.mark.parametrize("triple", [*TRIPLES, "i686-linux-gnu"])
def test_joined_objects_ask_for_the_same_symbols(triple):
    parts = objects(triple)
    wanted = sorted(change for part in parts for change in changes(part))
    assert changes(join_objects(parts)) == wanted
    assert {b"other"} <= {name for _, name, _ in wanted} and len(wanted) >= 4


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ("declare i32 @f()", "define i32 @f() {\n ret i32 2\n}", (2, 0)),
        ("define weak i32 @f() {\n ret i32 1\n}", "define i32 @f() {\n ret i32 2\n}", (2, 0)),
        ("define i32 @f() {\n ret i32 1\n}", "define weak i32 @f() {\n ret i32 2\n}", (1, 0)),
        ("define weak i32 @f() {\n ret i32 1\n}", "define weak i32 @f() {\n ret i32 2\n}", (1, 0)),
        ("define i32 @f() {\n ret i32 1\n}", "declare hidden i32 @f()", (1, 2)),
        ("declare protected i32 @f()", "define hidden i32 @f() {\n ret i32 2\n}", (2, 2)),
    ],
)
def test_symbols_of_one_name(first, second, kept):
    """Which definition is called, and how far it is seen (2: hidden)."""
    call = "\ndefine i32 @call{n}() {{\n %r = call i32 @f()\n ret i32 %r\n}}\n"
    parts = [jit.compile_object(t + call.format(n=n)) for n, t in enumerate((first, second))]
    joined = join_objects(parts)
    elf = ElfObject(joined)
    (seen,) = (
        other & 3
        for table in elf.sections
        if table.kind == SYMBOLS
        for name, _, other, *_ in elf.entries(table)
        if name == b"f"
    )
    library = jit.load_objects([joined], exports=["call0", "call1"])
    results = [ctypes.CFUNCTYPE(ctypes.c_int32)(library[f"call{n}"])() for n in range(2)]
    assert (results, seen) == ([kept[0]] * 2, kept[1])


@pytest.mark.parametrize(("one", "other"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_a_function_may_lack_where_all_declare_it_weak(one, other):
    """1: global, 2: weak."""
    old, new = (_Symbol(b"f", kind << 4, 0, 0, 0, 0) for kind in (one, other))
    assert _united(old, new).info >> 4 == (2 if one == other == 2 else 1)
