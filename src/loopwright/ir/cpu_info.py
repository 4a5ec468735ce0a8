"""What is known of a CPU without asking LLVM: features, vector width, registers, caches, cores.

For schedules. Names of CPUs are LLVM's; "native" and "" read this machine (/proc/cpuinfo and
/sys). Code generation asks LLVM itself for the exact CPU.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_V2 = ("sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_ICE = (*_V4, "avx512vnni", "avx512vbmi", "avx512vbmi2", "avx512bitalg", "avx512ifma", "gfni")
_SPR = (*_ICE, "avx512bf16", "avx512fp16", "avxvnni", "amx-tile", "amx-bf16", "amx-int8")
_ZEN4 = (*_ICE, "avx512bf16")
_NEON = ("neon", "fp-armv8")
_DOT = (*_NEON, "dotprod", "fullfp16")

# x86-64 names with (features, multiply-adds of full width per cycle).
_X86: dict[str, tuple[tuple[str, ...], int]] = {
    "x86-64": (("sse2",), 1),
    "x86-64-v2": (_V2, 1),
    "x86-64-v3": (_V3, 2),
    "x86-64-v4": (_V4, 2),
    "haswell": (_V3, 2),
    "broadwell": (_V3, 2),
    "skylake": (_V3, 2),
    "alderlake": ((*_V3, "avxvnni"), 2),
    "core-avx2": (_V3, 2),
    "znver1": (_V3, 1),
    "znver2": (_V3, 2),
    "znver3": (_V3, 2),
    "znver4": (_ZEN4, 1),
    "znver5": ((*_ZEN4, "avxvnni"), 2),
    "skylake-avx512": (_V4, 2),
    "cascadelake": ((*_V4, "avx512vnni"), 2),
    "cooperlake": ((*_V4, "avx512vnni", "avx512bf16"), 2),
    "icelake-client": (_ICE, 1),
    "icelake-server": (_ICE, 2),
    "sapphirerapids": (_SPR, 2),
    "emeraldrapids": (_SPR, 2),
    "graniterapids": (_SPR, 2),
}
_ARM: dict[str, tuple[tuple[str, ...], int]] = {
    "generic": (_NEON, 2),
    "cortex-a53": (_NEON, 1),
    "cortex-a72": (_NEON, 2),
    "cortex-a76": (_DOT, 2),
    "neoverse-n1": (_DOT, 2),
    "neoverse-n2": ((*_DOT, "sve2", "i8mm", "bf16"), 2),
    "neoverse-v1": ((*_DOT, "sve", "i8mm", "bf16"), 4),
    "neoverse-v2": ((*_DOT, "sve2", "i8mm", "bf16"), 4),
    "apple-m1": (_DOT, 4),
    "apple-m2": ((*_DOT, "i8mm", "bf16"), 4),
}
# Arm's microcontrollers by name.
_CORTEX_M = {
    **dict.fromkeys(("m0", "m0plus", "m1", "m23"), ("mclass",)),
    "m3": ("mclass", "thumb2"),
    **dict.fromkeys(("m4", "m7", "m33", "m35p"), ("mclass", "thumb2", "dsp")),
    **dict.fromkeys(("m52", "m55", "m85"), ("mclass", "thumb2", "dsp", "mve", "mve.fp")),
}
# TVM's names of features that LLVM spells otherwise.
_TVM = {"asimd": "neon", "matmul_i8": "i8mm", "fp16_simd": "fullfp16"}
# How Linux spells features that LLVM spells otherwise.
_LINUX = {
    "pni": "sse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "bmi1": "bmi",
    "abm": "lzcnt",
    "avx512_vnni": "avx512vnni",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq",
    "avx_vnni": "avxvnni",
    "amx_tile": "amx-tile",
    "amx_bf16": "amx-bf16",
    "amx_int8": "amx-int8",
    "asimd": "neon",
    "fp": "fp-armv8",
    "asimddp": "dotprod",
    "asimdhp": "fullfp16",
}
_DEFAULT_CACHES = (32 << 10, 512 << 10, 8 << 20)


class Features(frozenset[str]):
    """Names of features; `has_<feature>`, with "_" for "-", asks for one by TVM's name."""

    def __getattr__(self, name: str) -> bool:
        what, _, feature = name.partition("_")
        if what != "has" or not feature:
            raise AttributeError(
                f"features of a CPU have no attribute {name!r}; has_<feature> asks"
            )
        return not {feature, feature.replace("_", "-"), _TVM.get(feature, feature)}.isdisjoint(self)


@dataclass(frozen=True)
class CPU:
    """Facts about a CPU. `caches` are bytes of level 1 (data), 2 and 3."""

    arch: str
    name: str
    features: Features
    native: bool
    fma_per_cycle: int
    caches: tuple[int, int, int]

    @property
    def vector_bits(self) -> int:
        """Width of the widest usable vector register."""
        if "avx512f" in self.features:
            return 512
        return 256 if "avx" in self.features else 128

    @property
    def num_vector_registers(self) -> int:
        """Vector registers that instructions can name."""
        return 32 if "avx512f" in self.features or self.arch != "x86_64" else 16

    @property
    def has_fma(self) -> bool:
        """Whether multiply-add is one instruction."""
        return "fma" in self.features or self.arch != "x86_64"


def usable_cores() -> int:
    """Cores this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


@cache
def native_arch() -> str:
    """x86_64, aarch64, ..., with the names that differ between systems made one."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


def arch_of(mcpu: str, mtriple: str) -> str:
    """The architecture that target options name: x86_64, aarch64, arm, ..."""
    if mtriple:
        arch = mtriple.split("-")[0]
        return {"amd64": "x86_64", "arm64": "aarch64"}.get(arch, arch)
    return "arm" if mcpu.startswith("cortex-m") else native_arch()


def keys_of(mcpu: str, mtriple: str) -> list[str]:
    """The keys of a target that its options name: "arm_cpu" for Arm's CPUs."""
    named = bool(mtriple) or mcpu.startswith("cortex-")
    arm = arch_of(mcpu, mtriple).startswith(("arm", "aarch64", "thumb"))
    return ["arm_cpu"] if named and arm else []


def _microcontroller(mcpu: str) -> tuple[tuple[str, ...], int]:
    name, *modifiers = mcpu.removeprefix("cortex-").split("+")
    features = (f for f in _CORTEX_M.get(name, ()) if f"no{f}" not in modifiers)
    return tuple(features), 1


@cache
def describe(mcpu: str, mattr: tuple[str, ...], mtriple: str) -> CPU:
    """The CPU that these target options name."""
    arch = arch_of(mcpu, mtriple)
    native = arch == native_arch() and mcpu in ("", "native")
    table = _X86 if arch == "x86_64" else _ARM if arch == "aarch64" else {}
    if native:
        features, fma, caches = _native_features(), _native_fma(), _native_caches()
    else:
        baseline = "x86-64" if arch == "x86_64" else "generic"
        known, fma = table.get(mcpu) or table.get(baseline) or _microcontroller(mcpu)
        features = frozenset(known)
        caches = _native_caches() if mcpu == _native_name() else _DEFAULT_CACHES
    for attr in mattr:
        name, off = attr.lstrip("+-"), attr.startswith("-")
        if name.startswith("no") and name[2:] in features:  # as compilers spell it for Arm
            name, off = name[2:], True
        features = features - {name} if off else features | {name}
    return CPU(arch, mcpu or "native", Features(features), native, fma, caches)


@cache
def _cpuinfo() -> dict[str, str]:
    """The first processor's entries of /proc/cpuinfo (empty where there is no such file)."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    entries = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in entries}


@cache
def _native_features() -> frozenset[str]:
    info = _cpuinfo()
    words = (info.get("flags") or info.get("Features") or "").split()
    if not words:
        return frozenset(("sse2",) if native_arch() == "x86_64" else _NEON)
    return frozenset(_LINUX.get(word, word) for word in words)


@cache
def _native_name() -> str:
    """LLVM's name of this CPU where family and model tell it, else ""."""
    info, features = _cpuinfo(), _native_features()
    if info.get("vendor_id") == "AuthenticAMD":
        family = int(info.get("cpu family", 0))
        if family == 25:
            return "znver4" if "avx512f" in features else "znver3"
        return {23: "znver2", 26: "znver5"}.get(family, "")
    if info.get("vendor_id") == "GenuineIntel":
        for name in ("sapphirerapids", "icelake-server", "cascadelake", "skylake-avx512"):
            if set(_X86[name][0]) <= features:
                return name
    return ""


@cache
def _native_fma() -> int:
    known = {**_X86, **_ARM}.get(_native_name())
    return known[1] if known else 2


@cache
def _native_caches() -> tuple[int, int, int]:
    sizes: list[int] = list(_DEFAULT_CACHES)
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    for entry in sorted(folder.glob("index*")):
        try:
            level = int((entry / "level").read_text())
            kind = (entry / "type").read_text().strip()
            size = (entry / "size").read_text().strip()
            bytes_ = int(size.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(size[-1], 0)
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and 1 <= level <= 3:
            sizes[level - 1] = bytes_
    return (sizes[0], sizes[1], sizes[2])
