"""LLVM's facts about targets: architectures, processors and their features, intrinsics.

All functions of one target take the current one where none is given.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import llvmlite.binding as llvm

from ..base.host import host
from ..codegen.llvm.cpu_features import features_of
from ..codegen.llvm.intrinsics import llvm_get_intrinsic_name as llvm_get_intrinsic_name
from ..codegen.llvm.intrinsics import llvm_lookup_intrinsic_id as llvm_lookup_intrinsic_id
from ..codegen.llvm.machine import check_machine, known_names, resolve
from ..ir.target import Target

# LLVM's names of architectures, as they begin a triple.
_ARCHITECTURES = """aarch64 aarch64_be amdgcn arm armeb avr bpfeb bpfel hexagon i386 lanai loongarch32
loongarch64 mips mips64 mips64el mipsel msp430 nvptx nvptx64 powerpc powerpc64 powerpc64le r600
riscv32 riscv64 s390x sparc sparcel sparcv9 spirv32 spirv64 thumb thumbeb ve wasm32 wasm64 x86_64
xcore"""


def llvm_version_major(allow_none: bool = False) -> int:
    """The major version of LLVM."""
    return int(llvm.llvm_version_info[0])


def llvm_get_targets() -> list[str]:
    """The architectures that LLVM makes code for."""
    llvm.initialize_all_targets()
    return [arch for arch in _ARCHITECTURES.split() if _exists(arch)]


def _exists(arch: str) -> bool:
    try:
        llvm.Target.from_triple(f"{arch}--")
    except RuntimeError:
        return False
    return True


def llvm_get_system_triple() -> str:
    """The triple of this machine."""
    return host().triple


def llvm_get_system_cpu() -> str:
    """LLVM's name of this machine's processor."""
    return host().name


def llvm_get_system_x86_vendor() -> str:
    """Who made this machine's x86 processor: amd, intel, or "unrecognized" for others."""
    return host().vendor


# ---------------------------------------------------------------------- processors


def _machine(target: Target | None) -> tuple[str, str, str]:
    """Triple, processor and features as LLVM takes them. Raises ValueError without a target,
    CompileError for names that LLVM does not know."""
    parsed = Target.target_or_current(target)
    mattr = ",".join(parsed.mattr) or None
    machine = resolve(parsed.mtriple or None, parsed.mcpu or None, mattr)
    check_machine(*machine)
    return machine


def llvm_get_cpu_archlist(target: Target | None = None) -> list[str]:
    """The processors that LLVM knows for the target's triple."""
    parsed = Target.target_or_current(target)
    return list(known_names(parsed.mtriple or host().triple)[0])


# Instructions that LLVM 19 and later do not know, of the processors that have them.
_FORMER: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("knl", "knm"), ("avx512er", "avx512pf", "prefetchwt1")
)


def llvm_get_cpu_features(target: Target | None = None) -> set[str]:
    """The features that the target's processor has, with the target's own applied.

    Raises ValueError without a target, CompileError for a processor that LLVM does not know.
    """
    triple, cpu, features = _machine(target)
    has = features_of(triple, cpu, features)
    return {*has, *(_FORMER.get(cpu, ()) if "avx512f" in has else ())}


def llvm_cpu_has_features(cpu_features: str | Sequence[str], target: Target | None = None) -> bool:
    """Whether the target's processor has all the features."""
    features = [cpu_features] if isinstance(cpu_features, str) else cpu_features
    return llvm_get_cpu_features(target).issuperset(map(str, features))


target_has_features = llvm_cpu_has_features


def llvm_get_vector_width(target: Target | None = None) -> int:
    """Bits of the target's vector registers: the option `vector-width`, else the processor's; of
    scalable vectors those that it has at least."""
    parsed = Target.target_or_current(target)
    if "vector-width" in parsed.attrs:
        return int(parsed.attrs["vector-width"])
    has = features_of(*_machine(parsed))
    if "avx512f" in has:
        return 512
    if "avx" in has:
        return 256
    least = [int(m[1]) for m in (re.fullmatch(r"zvl(\d+)b", name) for name in has) if m]
    return max(128, *least) if "v" in has else 128
