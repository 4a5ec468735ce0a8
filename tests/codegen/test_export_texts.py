"""The texts of a library: what is hidden, renamed and wrapped; tools for other machines."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from loopwright.base.errors import LoopwrightError
from loopwright.codegen.llvm import export, jit

MODULES = [
    """@data = external constant i8
@"odd name" = weak global i32 1
@count = global i32 0
@text = private constant [8 x i8] c"@kernel\\00"
declare i32 @printf(ptr)
define weak void @shared(ptr %p) {
  ret void
}
define linkonce_odr fastcc i32 @"a b"() {
  %x = load i32, ptr @count
  ret i32 %x
}
define internal void @own() {
  ret void
}
""",
    """declare i32 @kernel(ptr)
define i32 @TVMFFIGet() {
  %x = call i32 @kernel(ptr @data)
  %y = call i32 @printf(ptr @"odd name")
  ret i32 %x
}
define i32 @kernel(ptr %p) {
  ret i32 0
}
""",
]


@pytest.mark.parametrize("keep", ["", "TVMFFI"])
def test_names_are_hidden_and_of_the_model(keep: str) -> None:
    first, second = export.apart(MODULES, ["data"], "m", keep)
    assert first.splitlines()[:5] == [
        '@"m.data" = external constant i8',
        '@"m.odd name" = weak hidden global i32 1',
        '@"m.count" = hidden global i32 0',
        '@text = private constant [8 x i8] c"@kernel\\00"',
        "declare i32 @printf(ptr)",
    ]
    heads = [line for line in first.splitlines() if line.startswith("define")]
    assert heads == [
        'define weak hidden void @"m.shared"(ptr %p) {',
        'define linkonce_odr hidden fastcc i32 @"m.a b"() {',
        "define internal void @own() {",
    ]
    assert '%x = load i32, ptr @"m.count"' in first
    lines = second.splitlines()
    kept = "define i32 @TVMFFIGet() {" if keep else 'define hidden i32 @"m.TVMFFIGet"() {'
    assert lines[:4] == [
        'declare i32 @"m.kernel"(ptr)',
        kept,
        '  %x = call i32 @"m.kernel"(ptr @"m.data")',
        '  %y = call i32 @printf(ptr @"m.odd name")',
    ]
    assert 'define hidden i32 @"m.kernel"(ptr %p) {' in lines


def test_wrappers() -> None:
    names = {"f": ("m.f", ""), "g": ("m.g", "i32, ptr")}
    assert export.wrappers_text(names) == (
        'declare i32 @"m.f"()\ndefine i32 @"f"() {\n'
        '  %rc = tail call i32 @"m.f"()\n  ret i32 %rc\n}\n'
        'declare i32 @"m.g"(i32, ptr)\ndefine i32 @"g"(i32 %a0, ptr %a1) {\n'
        '  %rc = tail call i32 @"m.g"(i32 %a0, ptr %a1)\n  ret i32 %rc\n}\n'
    )
    assert export.wrappers_text({"f": ("m.f", "i32")}, "void") == (
        'declare void @"m.f"(i32)\ndefine void @"f"(i32 %a0) {\n'
        '  tail call void @"m.f"(i32 %a0)\n  ret void\n}\n'
    )
    jit.compile_object(export.wrappers_text(names))


@pytest.mark.parametrize("triple", [None, "aarch64-linux-gnu"])
def test_constants(triple: str | None) -> None:
    data = {
        "one": np.arange(3, dtype="uint8"),
        "none": np.zeros(0),
        "two": np.array([[7]], "int16"),
    }
    with export.constants_text(data, triple) as text:
        made = jit.compile_object(text, triple=triple)
    assert all(name.encode() in made for name in data)
    if triple is not None:
        return
    with export.constants_text(data) as text:
        symbols = export.public_string("kept", "x")
        code = jit.load_objects([jit.compile_object(text + symbols + READ)], {}, exports=["at"])
    at = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32)(code["at"])
    one, two = at(0), at(1)
    assert one % 64 == two % 64 == 0
    assert ctypes.string_at(one, 3) == b"\0\1\2" and ctypes.string_at(two, 2) == b"\7\0"


READ = """
@one = external hidden constant i8
@two = external hidden constant i8
define ptr @at(i32 %k) {
  %first = icmp eq i32 %k, 0
  %p = select i1 %first, ptr @one, ptr @two
  ret ptr %p
}
"""


def test_tools_of_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "host_triple", lambda: "x86_64-unknown-linux-gnu")
    have: set[str] = {"ld", "gcc", "aarch64-linux-gnu-ld", "aarch64-linux-gnu-gcc"}
    monkeypatch.setattr("shutil.which", lambda name: name if name in have else None)
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    assert export.linkers() == [["gcc", "-shared"], ["ld", "-shared"]]
    assert export.linkers("x86_64-pc-linux-gnu") == export.linkers()
    assert export.linkers("aarch64-unknown-linux-gnu") == [
        ["aarch64-linux-gnu-gcc", "-shared"],
        ["aarch64-linux-gnu-ld", "-shared"],
    ]
    assert export.cross_compiler("x86_64-pc-linux-gnu") is None
    assert export.cross_compiler("aarch64-unknown-linux-gnu") == "aarch64-linux-gnu-gcc"
    have |= {"cc", "clang", "ld.lld"}
    assert [c[0] for c in export.linkers()] == ["cc", "gcc", "clang", "ld", "ld.lld"]
    have.clear()
    for triple, name in (("aarch64-linux-gnu", "-aarch64-linux-gnu"), (None, "")):
        with pytest.raises(LoopwrightError, match=f"apt install binutils{name}, or pip"):
            export.link_shared([], "x.so", triple=triple)
    with pytest.raises(LoopwrightError, match="no linker to join object files\n  got: none"):
        export.link_relocatable([b"no ELF"], "x.o")
    with pytest.raises(LoopwrightError, match="objects that are not ELF"):
        export.archive([b"no ELF"], "x.a")


@pytest.mark.parametrize(
    ("have", "command"),
    [
        ({"ld", "ld.lld"}, ["ld", "-r", "-o"]),
        ({"ld.lld"}, ["ld.lld", "-r", "-o"]),
        ({"ziglang"}, ["PYTHON", "-m", "ziglang", "ld.lld", "-r", "-o"]),
    ],
)
def test_the_linker_of_objects(
    have: set[str], command: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is asked only for what is no ELF."""
    data = jit.compile_object("define i32 @f() {\n  ret i32 1\n}", triple="x86_64-linux-gnu")
    ran: list[list[str]] = []
    monkeypatch.setattr("shutil.which", lambda name: name if name in have else None)
    monkeypatch.setattr(export, "find_spec", lambda name: name if name in have else None)
    monkeypatch.setattr("sys.executable", "PYTHON")
    monkeypatch.setattr(export, "_combined", lambda objects, path, how: ran.append(how))
    export.link_relocatable([b"no ELF"], tmp_path / "x.o")
    assert ran == [command]
    path = export.link_relocatable([data], tmp_path / "deep" / "y.o")
    assert ran == [command] and path.read_bytes()[:4] == b"\x7fELF"
