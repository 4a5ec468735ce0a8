"""The code of a live process for perf, with its lines."""

from __future__ import annotations

import ctypes
import os
import re
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import loopwright as lw
from loopwright.codegen.llvm import jitdump

from .perf import counted, injected, report

DIGITS = "src/loopwright/driver/data/digits.onnx"


def records(data: bytes):
    """(kind, content) of a dump's records, after its head."""
    magic, version, at, machine, _, process, _, _ = struct.unpack_from("<IIIIIIQQ", data)
    assert (magic, version, process) == (0x4A695444, 1, os.getpid()) and machine in (62, 183)
    while at < len(data):
        kind, size, _ = struct.unpack_from("<IIQ", data, at)
        yield kind, data[at + 16 : at + size]
        at += size


def lines_of(content: bytes) -> list[tuple[int, int, str]]:
    """(address, line, path) of a record of lines."""
    _, count = struct.unpack_from("<QQ", content)
    at, lines = 16, []
    for _ in range(count):
        address, line, _ = struct.unpack_from("<QII", content, at)
        end = content.index(b"\0", at + 16)
        lines.append((address, line, content[at + 16 : end].decode()))
        at = end + 1
    assert at == len(content)
    return lines


def test_functions_with_their_code_and_lines(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_JITDUMP", str(tmp_path / "dump"))
    monkeypatch.setenv("LOOPWRIGHT_DEBUG_INFO", str(tmp_path / "lines"))
    monkeypatch.setenv("LOOPWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    exe = lw.compile(lw.lower(DIGITS)[0].before)
    exe(np.zeros((1, 1, 16, 16), "float32"))
    known, lines = {}, {}
    for kind, content in records((tmp_path / "dump" / f"jit-{os.getpid()}.dump").read_bytes()):
        if kind == 2:
            (begin,) = struct.unpack_from("<Q", content)
            lines[begin] = lines_of(content)
            continue
        *_, address, size, number = struct.unpack_from("<IIQQQQ", content)
        name, _, code = content[40:].partition(b"\0")
        assert code == ctypes.string_at(address, size) and number not in known
        known[number] = name.decode()
        if places := lines.get(address):  # lines come before their function
            assert all(address <= at <= address + size for at, *_ in places)
            assert [at for at, *_ in places] == sorted(at for at, *_ in places)
    assert {"lw.fused_conv2d_relu", "lw.softmax", "__tvm_ffi_main"} <= set(known.values())
    # A line of the file is the statement whose code is there.
    seen = {(path, line) for places in lines.values() for _, line, path in places if line}
    assert all(line <= len(Path(path).read_text().splitlines()) for path, line in seen)
    texts = [Path(path).read_text().splitlines()[line - 1] for path, line in seen]
    assert any("T_softmax_expsum" in text for text in texts) and any("T.exp" in t for t in texts)


def test_rows_are_those_of_assembly(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_DEBUG_INFO", str(tmp_path))
    program = lw.compile(lw.lower(DIGITS)[0].before).program
    text = program.assembly("softmax")
    told = {int(n) for n in re.findall(r"\.loc\s+\d+ (\d+)", text)}
    rows = jitdump.line_rows(jitdump.ElfObject(program.objects["softmax"]))
    assert {line for _, _, _, line in rows} == told and len(told) > 10


@pytest.mark.slow
def test_perf_shows_lines_of_a_live_process(tmp_path):
    run = (
        f"import time, numpy; import loopwright as lw; run = lw.compile({DIGITS!r})\n"
        "x = numpy.ones((64, 1, 16, 16), 'float32'); end = time.time() + 0.7\n"
        "while time.time() < end: run(x)"
    )
    lines = str(tmp_path / "lines")
    counted(tmp_path / "run", run, LOOPWRIGHT_DEBUG_INFO=lines, LOOPWRIGHT_JITDUMP=lines)
    injected(tmp_path / "run", tmp_path / "lined")
    text = report(tmp_path / "lined", "--sort=sym,srcline")
    assert re.search(r"lw\.fused_conv2d1_relu1\S* +fused_conv2d1_relu1-\w+\.py:\d+", text), text


def test_a_line_program(tmp_path, monkeypatch):
    """DWARF 4, section 6.2: instructions of 4 bytes, lines from -5 on in 14 steps, 12 plain opcodes."""
    monkeypatch.setenv("LOOPWRIGHT_DEBUG_INFO", str(tmp_path))
    lengths = [0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]
    tables = b"sub\0\0" + b"a.py\0\1\0\0" + b"b.py\0\0\0\0" + b"\0"
    after = struct.pack("<BBBbBB", 4, 1, 1, -5, 14, 13) + bytes(lengths) + tables
    steps = [
        *(0, 9, 2, *[0] * 8),  # an address, which is `moved`
        *(1,),  # a row
        *(2, 0x82, 1, 3, 5, 1),  # 130 instructions and 5 lines on, a row
        *(3, 0x7F, 1),  # a line back, a row
        *(13 + 2 * 14 + 8,),  # 2 instructions and 3 lines on, a row
        *(
            4,
            2,
            8,
            9,
            3,
            0,
            5,
            7,
            6,
            12,
            1,
            1,
        ),  # the other file, 17 instructions and 3 bytes on, a row
        *(0, 1, 1, 1),  # the end of the section, a row
    ]
    head = struct.pack("<HI", 4, len(after)) + after
    data = struct.pack("<I", len(head) + len(steps)) + head + bytes(steps)
    at = data.index(b"\0\x09\2") + 3
    rows = list(jitdump._program(jitdump._Cursor(data), {at: (3, 100)}))
    b = os.path.join(tmp_path, "b.py")
    assert rows == [
        (3, 100, "sub/a.py", 1),
        (3, 620, "sub/a.py", 6),
        (3, 620, "sub/a.py", 5),
        (3, 628, "sub/a.py", 8),
        (3, 628 + 68 + 3, b, 8),
        (0, 0, "sub/a.py", 1),
    ]
    other = struct.pack("<IH", 2, 5)
    assert list(jitdump._program(jitdump._Cursor(other), {})) == []


def test_places_that_an_object_moves(monkeypatch):
    """An address in the lines is that of its symbol and the addend further, in the symbol's section."""
    text, line, other, table, names = (
        SimpleNamespace(name=name, kind=kind, info=info, link=4)
        for name, kind, info in (
            (b".text", 1, 0),
            (b".debug_line", 1, 0),
            (b".rela.text", jitdump.RELA, 0),
            (b".rela.debug_line", jitdump.RELA, 1),
            (b".symtab", 2, 0),
        )
    )
    symbols = [(b"", 0, 0, 0, 0, 0), (b"f", 0, 0, 7, 100, 8)]
    elf = SimpleNamespace(
        sections=[text, line, other, table, names],
        section_name=lambda section: section.name,
        entries=lambda section: symbols if section is names else None,
        relocations=lambda section: [(5, 1 << 32 | 1, 20)] if section is table else [(6, 0, 1)],
        content=lambda section: b"",
    )
    monkeypatch.setattr(jitdump, "_program", lambda cursor, moved: [moved])
    assert list(jitdump.line_rows(elf)) == [{5: (7, 120)}]
