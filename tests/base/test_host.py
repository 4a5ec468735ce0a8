"""The host is what the knob names, else the machine that LLVM and Linux describe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from loopwright.base import host as module
from loopwright.base.errors import LoopwrightError
from loopwright.base.host import ARM, OTHER, RECORDS, X86, Host, host, native_arch, this_machine


@pytest.fixture
def asked_anew() -> Iterator[None]:
    """This machine is asked again, and what it says is forgotten."""
    this_machine.cache_clear()
    yield
    this_machine.cache_clear()


def test_the_knob_puts_a_record_in_the_place_of_the_machine(monkeypatch):
    for name, record in RECORDS[native_arch()].items():
        monkeypatch.setenv("LOOPWRIGHT_HOST_CPU", name)
        assert host() == Host(this_machine().triple, name, "", record, named=True)
    monkeypatch.setenv("LOOPWRIGHT_HOST_CPU", "")
    assert host() is this_machine()


@pytest.mark.skipif(native_arch() != "x86_64", reason="it names x86 CPUs")
@pytest.mark.parametrize(
    ("name", "hint"),
    [("haswel", "did you mean haswell?"), ("native", "one of x86-64"), ("neoverse-n1", "one of")],
)
def test_a_name_without_a_record(name, hint, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_HOST_CPU", name)
    with pytest.raises(LoopwrightError) as told:
        host()
    what, got, instead = str(told.value).splitlines()
    assert what.startswith("LOOPWRIGHT_HOST_CPU names no x86_64 CPU")
    assert got == f"  got: {name!r}" and instead.startswith(f"  instead: {hint}")


def test_this_machine_is_what_linux_tells():
    """Linux spells these as LLVM does."""
    info = Path("/proc/cpuinfo")
    words = set(info.read_text(encoding="utf-8").split()) if info.exists() else set()
    if "flags" not in words:
        pytest.skip("there is no list of x86 features")
    wanted = {"avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "f16c", "ssse3"}
    machine = this_machine()
    assert machine.record.features & wanted == words & wanted
    assert machine.lacks & wanted == wanted - words
    makers = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}
    assert machine.vendor in (*(m for v, m in makers.items() if v in words), "unrecognized")
    assert not machine.named and machine.c_flag == "-march=native"


@pytest.mark.usefixtures("asked_anew")
def test_what_llvm_does_not_tell(monkeypatch):
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "unknown")
    monkeypatch.setattr(llvm, "get_host_cpu_features", llvm.FeatureMap)
    for arch, features in (
        ("x86_64", {"sse2"}),
        ("aarch64", {"neon", "fp-armv8"}),
        ("s390x", set()),
    ):
        this_machine.cache_clear()
        monkeypatch.setattr(module, "native_arch", lambda arch=arch: arch)
        machine = this_machine()
        assert machine.record.features == features and machine.lacks == frozenset()
        assert machine.record.fma_per_cycle == OTHER.fma_per_cycle


def test_sizes_of_caches(monkeypatch, tmp_path):
    entries = [
        ("1", "Data", "48K"), ("1", "Instruction", "7K"), ("2", "Unified", "2M"),
        ("3", "Unified", "1G"), ("0", "Data", "1K"), ("x", "Data", "1K"),
    ]  # fmt: skip
    for n, entry in enumerate(entries):
        (tmp_path / f"index{n}").mkdir()
        for name, text in zip(("level", "type", "size"), entry, strict=True):
            (tmp_path / f"index{n}" / name).write_text(text + "\n")
    monkeypatch.setattr(module, "Path", lambda _: tmp_path)
    assert module._caches((1, 2)) == (48 << 10, 2 << 20)
    (tmp_path / "index0" / "size").write_text("777")  # bytes
    (tmp_path / "index2" / "size").unlink()
    assert module._caches((1, 2)) == (777, 2)
    monkeypatch.setattr(module, "Path", lambda _: tmp_path / "none")
    assert module._caches((1, 2)) == (1, 2)


@pytest.mark.sample(16)
@pytest.mark.parametrize(
    ("triple", "name"),
    [(t, name) for t, table in (("x86_64--", X86), ("aarch64--", ARM)) for name in table],
)
def test_records_are_of_cpus_that_llvm_knows(triple, name):
    """A name that LLVM does not know, or whose features are not those of LLVM's, would be compiled for
    another CPU than schedules are for."""
    from loopwright.codegen.llvm.cpu_features import features_of

    record = (X86 if triple == "x86_64--" else ARM)[name]
    assert record.features <= features_of(triple, name, "")


@pytest.mark.parametrize(
    ("name", "maker"),
    [("znver4", "amd"), ("haswell", "intel"), ("x86-64-v3", "unrecognized"), ("k8", "amd")],
)
def test_makers_of_x86_cpus(name, maker, monkeypatch):
    monkeypatch.setattr(module, "native_arch", lambda: "x86_64")
    made = Host("", name, "", OTHER, named=True)
    assert made.vendor == maker and made.c_flag == f"-march={name}"
    monkeypatch.setattr(module, "native_arch", lambda: "aarch64")
    assert made.vendor == "unrecognized" and made.c_flag == f"-mcpu={name}"
