"""Static libraries written without tools: what `ar` writes, and what a linker reads."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from loopwright.base.errors import LoopwrightError
from loopwright.codegen.llvm import export, jit
from loopwright.codegen.objects import symbols, write_archive

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
        for write, what in ((export.link_shared, ".so"), (export.link_relocatable, ".o")):
            with pytest.raises(LoopwrightError, match="apt install binutils, or pip install zig"):
                write(objects(), tmp_path / f"two{what}")
            with pytest.raises(LoopwrightError, match="apt install binutils-aarch64-linux-gnu"):
                write(objects(), tmp_path / f"two{what}", triple="aarch64-unknown-linux-gnu")
    source = "int first(void), second(void);\nvoid other(void) {}\n"
    source += "int main(void) { return first() + second() - 14; }\n"
    (tmp_path / "main.c").write_text(source)
    command = ["cc", "main.c", "deep/two.a", "-o", "program"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([tmp_path / "program"]).returncode == 0
