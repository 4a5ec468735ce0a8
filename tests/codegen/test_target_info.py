"""What LLVM tells of targets under TVM's names."""

from __future__ import annotations

import numpy as np
import pytest
from llvmlite import binding

import loopwright as lw
from loopwright.codegen.llvm import program, target_info
from loopwright.codegen.llvm.compiler import CompileError, known_names
from loopwright.ir import Target


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("target", "has", "lacks"),
    [
        ("x86_64-- -mcpu=ivybridge", ["sse4.1", "avx"], ["avx2"]),
        ("x86_64-- -mcpu=x86-64 -mattr=+avx2", ["avx2", "ssse3"], ["avx512f"]),
        ("x86_64-- -mcpu=cascadelake -mattr=-avx512f", ["avx2"], ["avx512f", "avx512bw"]),
        ("aarch64-- -mcpu=cortex-a55", ["neon", "dotprod"], ["sve", "dsp"]),
        ("arm-- -mcpu=cortex-m55", ["dsp", "mve"], ["neon", "arm-mode"]),
        ("riscv64-- -mcpu=sifive-x280", ["v", "zvl512b"], ["zvl1024b"]),
    ],
)
def test_features(target, has, lacks):
    with Target(f"llvm -mtriple={target}") as made:
        assert target_info.llvm_get_cpu_features() >= set(has)
        assert made.mcpu in target_info.llvm_get_cpu_archlist()
        assert target_info.target_has_features(has)
        for name in lacks:
            assert not target_info.target_has_features(name), name
            assert not target_info.target_has_features([*has, name])


def test_every_x86_feature_of_the_host_is_found():
    host = Target("llvm")
    ours = target_info.llvm_get_cpu_features(host)
    known = set(known_names(target_info.llvm_get_system_triple())[1])
    assert host.features & known <= ours


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    ("target", "bits"),
    [
        ("x86_64-- -mcpu=haswell", 256),
        ("x86_64-- -mcpu=haswell -vector-width=128", 128),
        ("x86_64-- -mcpu=icelake-server", 512),
        ("riscv64-- -mcpu=sifive-x280", 512),
        ("riscv64-- -mcpu=generic-rv64 -mattr=+v,+zvl64b", 128),
        ("riscv64-- -mcpu=generic-rv64", 128),
        ("aarch64-- -mcpu=cortex-a55", 128),
    ],
)
def test_vector_width(target, bits):
    assert target_info.llvm_get_vector_width(Target(f"llvm -mtriple={target}")) == bits


def test_machine():
    assert target_info.llvm_version_major() >= 20
    assert {"x86_64", "aarch64", "arm", "riscv64"} <= set(target_info.llvm_get_targets())
    assert target_info.llvm_get_system_cpu()
    assert target_info.llvm_get_system_x86_vendor() in ("amd", "intel", "unrecognized")


def test_errors():
    with pytest.raises(ValueError, match="no target is set"):
        target_info.llvm_get_cpu_features()
    with pytest.raises(CompileError, match="no such processor\n  got: 'haswel' for x86_64--"):
        target_info.llvm_get_cpu_features(Target("llvm -mtriple=x86_64-- -mcpu=haswel"))


def test_intrinsics():
    name = "llvm.x86.sse2.pmadd.wd"
    number = target_info.llvm_lookup_intrinsic_id(name)
    assert number > 0
    assert target_info.llvm_lookup_intrinsic_id(name) == number
    assert target_info.llvm_get_intrinsic_name(number) == name
    for unknown in ("llvm.x86.nothing", "sin", "llvm.bad()\n"):
        assert target_info.llvm_lookup_intrinsic_id(unknown) == 0
    with pytest.raises(ValueError, match="no intrinsic has this number\n  got: 1000000"):
        target_info.llvm_get_intrinsic_name(10**6)


def test_code_for_a_processor_that_has_more_is_an_error_not_a_crash() -> None:
    lacks = [n for n, has in sorted(binding.get_host_cpu_features().items()) if not has]
    if "amx-tile" not in lacks:
        pytest.skip("this machine has them all")
    x = lw.te.placeholder((8,), name="x")
    func = lw.te.create_prim_func([x, lw.te.compute((8,), lambda i: x[i] + 1.0)])
    exe = lw.compile(func, "llvm -mcpu=sapphirerapids")
    with pytest.raises(lw.LoopwrightError, match="a processor without .*amx-tile"):
        exe["main"](np.ones(8, "float32"), np.zeros(8, "float32"))


def test_instructions_of_operating_systems_are_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Virtual machines hide them, and no loop needs them."""
    nothing = dict.fromkeys(known_names("x86_64-unknown-linux-gnu")[1], False)
    monkeypatch.setattr(program.llvm_binding, "get_host_cpu_features", lambda: nothing)
    target = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512")
    missing = program.missing_features(target)
    assert "pku" in nothing and "pku" not in missing and "avx512f" in missing
