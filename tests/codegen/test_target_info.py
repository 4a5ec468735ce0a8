"""What LLVM tells of targets under TVM's names."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.base.host import OTHER, Host, native_arch, this_machine
from loopwright.codegen.llvm import cpu_features, jit
from loopwright.codegen.llvm.compiler import CompileError
from loopwright.codegen.llvm.machine import known_names, resolve
from loopwright.ir import Target
from loopwright.tvm import target_info


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("target", "has", "lacks"),
    [
        ("x86_64-- -mcpu=ivybridge", ["sse4.1", "avx"], ["avx2"]),
        ("x86_64-- -mcpu=x86-64 -mattr=+avx2", ["avx2", "ssse3"], ["avx512f"]),
        ("x86_64-- -mcpu=cascadelake -mattr=-avx512f", ["avx2"], ["avx512f", "avx512bw"]),
        ("x86_64-- -mcpu=knl", ["avx512f", "avx512er"], ["avx512bw"]),
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
    for old in ("llvm.x86.avx512.vpdpbusd.512", "llvm.experimental.stepvector"):
        assert target_info.llvm_lookup_intrinsic_id(old) > 0  # LLVM looks at the types of these
    for unknown in ("llvm.x86.nothing", "sin", "llvm.bad()\n"):
        assert target_info.llvm_lookup_intrinsic_id(unknown) == 0
    with pytest.raises(ValueError, match=r"Unknown llvm intrinsic function llvm\.dummy"):
        lw.tir.call_llvm_intrin("int32x4", "llvm.dummy", 0)
    lw.tir.call_llvm_pure_intrin("int32x4", 4217, 0)  # TVM's scripts have numbers of an LLVM, too
    with pytest.raises(ValueError, match="no intrinsic has this number\n  got: 1000000"):
        target_info.llvm_get_intrinsic_name(10**6)


def test_code_for_a_processor_that_has_more_is_an_error_not_a_crash() -> None:
    if "amx-tile" not in this_machine().lacks:
        pytest.skip("this machine has them all")
    x = lw.te.placeholder((8,), name="x")
    func = lw.te.create_prim_func([x, lw.te.compute((8,), lambda i: x[i] + 1.0)])
    exe = lw.compile(func, "llvm -mcpu=sapphirerapids")
    with pytest.raises(lw.LoopwrightError, match="a processor without .*amx-tile"):
        exe["main"](np.ones(8, "float32"), np.zeros(8, "float32"))


def test_a_host_that_has_more_than_this_machine_compiles_and_does_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "amx-tile" not in this_machine().lacks:
        pytest.skip("this machine has them all")
    monkeypatch.setenv("LOOPWRIGHT_HOST_CPU", "sapphirerapids")
    x = lw.te.placeholder((8,), name="x")
    func = lw.te.create_prim_func([x, lw.te.compute((8,), lambda i: x[i] + 1.0)])
    exe = lw.compile(func, "llvm")
    told = r"with LOOPWRIGHT_HOST_CPU=sapphirerapids; it.*\n  got: a processor without .*amx-tile"
    with pytest.raises(lw.LoopwrightError, match=told):
        exe["main"](np.ones(8, "float32"), np.zeros(8, "float32"))
    with pytest.raises(CompileError, match="^LOOPWRIGHT_HOST_CPU=sapphirerapids: its code cannot"):
        jit.load_objects([jit.compile_object("define i32 @f() {\n  ret i32 1\n}\n")])


@pytest.mark.skipif(native_arch() != "x86_64", reason="it names x86 CPUs")
def test_code_for_the_host_is_for_the_one_that_the_knob_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "define i64 @f(i64 %x) {\n  %y = call i64 @llvm.ctpop.i64(i64 %x)\n  ret i64 %y\n}\n"
    text += "declare i64 @llvm.ctpop.i64(i64)\n"
    for cpu, has in (("x86-64", False), ("haswell", True)):
        monkeypatch.setenv("LOOPWRIGHT_HOST_CPU", cpu)
        assert resolve()[1:] == resolve(cpu="native")[1:] == (cpu, "")
        assert target_info.llvm_get_system_cpu() == cpu
        assert target_info.llvm_cpu_has_features("popcnt", Target("llvm")) is has
        assert ("popcnt" in jit.assembly(text)) is has


def test_instructions_of_operating_systems_are_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Virtual machines hide them, and no loop needs them."""
    triple = "x86_64-unknown-linux-gnu"
    nothing = known_names(triple)[1]
    here = Host(triple, "none", ",".join(f"-{name}" for name in nothing), OTHER)
    monkeypatch.setattr(cpu_features, "this_machine", lambda: here)
    missing = cpu_features.missing_features(triple, "skylake-avx512", "")
    assert "pku" in nothing and "pku" not in missing and "avx512f" in missing
