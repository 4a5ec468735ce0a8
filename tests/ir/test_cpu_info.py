"""What the system tells of the processor."""

from __future__ import annotations

from loopwright.ir import cpu_info


def test_sizes_of_caches(monkeypatch, tmp_path):
    entries = [
        ("1", "Data", "48K"), ("1", "Instruction", "7K"), ("2", "Unified", "2M"),
        ("3", "Unified", "1G"), ("4", "Unified", "9M"), ("0", "Data", "1K"), ("x", "Data", "1K"),
    ]  # fmt: skip
    for n, entry in enumerate(entries):
        (tmp_path / f"index{n}").mkdir()
        for name, text in zip(("level", "type", "size"), entry, strict=True):
            (tmp_path / f"index{n}" / name).write_text(text + "\n")
    monkeypatch.setattr(cpu_info, "Path", lambda _: tmp_path)
    assert cpu_info._native_caches.__wrapped__() == (48 << 10, 2 << 20, 1 << 30)
    (tmp_path / "index2" / "size").write_text("777")  # bytes
    (tmp_path / "index3" / "size").unlink()
    found = cpu_info._native_caches.__wrapped__()
    assert found == (48 << 10, 777, cpu_info._DEFAULT_CACHES[2])


def test_what_a_system_does_not_tell(monkeypatch, tmp_path):
    monkeypatch.setattr(cpu_info, "Path", lambda _: tmp_path / "none")
    assert cpu_info._cpuinfo.__wrapped__() == {}
    assert cpu_info._native_caches.__wrapped__() == tuple(cpu_info._DEFAULT_CACHES)
    text = "flags : sse2 avx\nmodel name\t: A: B\n\nflags : other\n"
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(cpu_info, "Path", lambda _: tmp_path / "cpuinfo")
    found = cpu_info._cpuinfo.__wrapped__()
    assert found == {"flags": "sse2 avx", "model name": "A: B"}
    monkeypatch.setattr(cpu_info, "_cpuinfo", dict)
    monkeypatch.setattr(cpu_info, "native_arch", lambda: "x86_64")
    assert cpu_info._native_features.__wrapped__() == {"sse2"}
    monkeypatch.setattr(cpu_info, "native_arch", lambda: "aarch64")
    assert cpu_info._native_features.__wrapped__() == set(cpu_info._NEON)
    monkeypatch.delattr(cpu_info.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(cpu_info.os, "cpu_count", lambda: 3)
    assert cpu_info.usable_cores() == 3
    monkeypatch.setattr(cpu_info.os, "cpu_count", lambda: None)
    assert cpu_info.usable_cores() == 1
