"""Facts about CPUs, without LLVM: features, vector width, registers, caches, cores.

For schedules. Names of CPUs are LLVM's; "native" and "" are the host (`base/host.py`), all others
have a record, so that a target means the same on every machine. Code generation queries LLVM for
the exact CPU.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from ..base.host import BASELINE, OTHER, RECORDS, Host, Record, host, native_arch

# Arm's microcontrollers by name.
_CORTEX_M = {
    **dict.fromkeys(("m0", "m0plus", "m1", "m23"), ("mclass",)),
    "m3": ("mclass", "thumb2"),
    **dict.fromkeys(("m4", "m7", "m33", "m35p"), ("mclass", "thumb2", "dsp")),
    **dict.fromkeys(("m52", "m55", "m85"), ("mclass", "thumb2", "dsp", "mve", "mve.fp")),
}
# TVM's names of features that LLVM spells otherwise.
_TVM = {"asimd": "neon", "matmul_i8": "i8mm", "fp16_simd": "fullfp16"}


class Features(frozenset[str]):
    """Names of features; `has_<feature>`, with "_" for "-", tests for one by TVM's name."""

    def __getattr__(self, name: str) -> bool:
        what, _, feature = name.partition("_")
        if what != "has" or not feature:
            raise AttributeError(
                f"features of a CPU have no attribute {name!r}; has_<feature> tests for one"
            )
        return not {feature, feature.replace("_", "-"), _TVM.get(feature, feature)}.isdisjoint(self)


@dataclass(frozen=True)
class CPU:
    """Facts about a CPU. `caches` are bytes of level 1 (data) and 2."""

    arch: str
    name: str
    features: Features
    native: bool
    fma_per_cycle: int
    caches: tuple[int, int]

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


def _microcontroller(mcpu: str) -> Record:
    name, *modifiers = mcpu.removeprefix("cortex-").split("+")
    features = (f for f in _CORTEX_M.get(name, ()) if f"no{f}" not in modifiers)
    return Record(frozenset(features), 1, OTHER.caches)


def describe(mcpu: str, mattr: tuple[str, ...], mtriple: str) -> CPU:
    """The CPU that these target options name."""
    return _describe(mcpu, mattr, mtriple, host())


@cache
def _describe(mcpu: str, mattr: tuple[str, ...], mtriple: str, here: Host) -> CPU:
    arch = arch_of(mcpu, mtriple)
    is_native_arch = arch == native_arch()
    native = is_native_arch and (mcpu == "native" or (mcpu == "" and mtriple in ("", here.triple)))
    if native:
        record = here.record
    else:
        listed = RECORDS.get(arch, {}).get(mcpu)
        record = listed or BASELINE.get(arch) or _microcontroller(mcpu)
    features = record.features
    for attr in mattr:
        name, off = attr.lstrip("+-"), attr.startswith("-")
        if name.startswith("no") and name[2:] in features:  # as compilers spell it for Arm
            name, off = name[2:], True
        features = features - {name} if off else features | {name}
    flags = Features(features)
    return CPU(arch, mcpu or "native", flags, native, record.fma_per_cycle, record.caches)
