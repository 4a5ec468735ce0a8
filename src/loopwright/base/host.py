"""The host: the CPU that code is for where a target names no other.

Only this module queries LLVM and the system for it. `LOOPWRIGHT_HOST_CPU=haswell` puts the record
of that CPU in its place, in schedules and in code: what one machine compiles and tests is then the
same on all.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .config import knob
from .errors import LoopwrightError, explain, suggest

_V2 = ("sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_ICE = (*_V4, "avx512vnni", "avx512vbmi", "avx512vbmi2", "avx512bitalg", "avx512ifma", "gfni")
_SPR = (*_ICE, "avx512bf16", "avx512fp16", "avxvnni", "amx-tile", "amx-bf16", "amx-int8")
_ZEN4 = (*_ICE, "avx512bf16")
_NEON = ("neon", "fp-armv8")
_DOT = (*_NEON, "dotprod", "fullfp16")


@dataclass(frozen=True)
class Record:
    """The facts of a CPU that schedules use: features in LLVM's spelling, multiply-adds of full
    width started in a cycle, and bytes of the data caches of level 1 and 2 that a core has."""

    features: frozenset[str]
    fma_per_cycle: int
    caches: tuple[int, int]


def _record(features: tuple[str, ...], fma: int, level1: int = 32, level2: int = 512) -> Record:
    return Record(frozenset(features), fma, (level1 << 10, level2 << 10))


# Caches are those of the vendors' manuals (Intel's and AMD's optimization guides, Arm's reference
# manuals); where customers choose, a common size; of levels of an instruction set, those of `_record`.
X86: dict[str, Record] = {
    "x86-64": _record(("sse2",), 1),
    "x86-64-v2": _record(_V2, 1),
    "x86-64-v3": _record(_V3, 2),
    "x86-64-v4": _record(_V4, 2),
    "haswell": _record(_V3, 2, 32, 256),
    "broadwell": _record(_V3, 2, 32, 256),
    "skylake": _record(_V3, 2, 32, 256),
    "alderlake": _record((*_V3, "avxvnni"), 2, 48, 1280),
    "core-avx2": _record(_V3, 2, 32, 256),
    "znver1": _record(_V3, 1, 32, 512),
    "znver2": _record(_V3, 2, 32, 512),
    "znver3": _record(_V3, 2, 32, 512),
    "znver4": _record(_ZEN4, 1, 32, 1024),
    "znver5": _record((*_ZEN4, "avxvnni"), 2, 48, 1024),
    "skylake-avx512": _record(_V4, 2, 32, 1024),
    "cascadelake": _record((*_V4, "avx512vnni"), 2, 32, 1024),
    "cooperlake": _record((*_V4, "avx512vnni", "avx512bf16"), 2, 32, 1024),
    "icelake-client": _record(_ICE, 1, 48, 512),
    "icelake-server": _record(_ICE, 2, 48, 1280),
    "sapphirerapids": _record(_SPR, 2, 48, 2048),
    "emeraldrapids": _record(_SPR, 2, 48, 2048),
    "graniterapids": _record(_SPR, 2, 48, 2048),
}
ARM: dict[str, Record] = {
    "generic": _record(_NEON, 2),
    "cortex-a53": _record(_NEON, 1, 32, 512),
    "cortex-a72": _record(_NEON, 2, 32, 1024),
    "cortex-a76": _record(_DOT, 2, 64, 512),
    "neoverse-n1": _record(_DOT, 2, 64, 1024),
    "neoverse-n2": _record((*_DOT, "sve2", "i8mm", "bf16"), 2, 64, 1024),
    "neoverse-v1": _record((*_DOT, "sve", "i8mm", "bf16"), 4, 64, 1024),
    "neoverse-v2": _record((*_DOT, "sve2", "i8mm", "bf16"), 4, 64, 2048),
    "apple-m1": _record(_DOT, 4, 128, 12288),
    "apple-m2": _record((*_DOT, "i8mm", "bf16"), 4, 128, 16384),
}
# Instructions of operating systems, which compiled loops never have. Virtual machines hide them.
FOR_SYSTEMS = frozenset(
    ["cldemote", "clflushopt", "clwb", "clzero", "enqcmd", "fsgsbase", "hreset", "invpcid"]
    + ["mwaitx", "pconfig", "pku", "ptwrite", "rdpid", "rdpru", "serialize", "sgx", "shstk"]
    + ["tsxldtrk", "uintr", "waitpkg", "wbnoinvd", "xsavec", "xsaves"]
)
# By architecture: the CPUs with a record, and the record for all others.
RECORDS = {"x86_64": X86, "aarch64": ARM}
BASELINE = {"x86_64": X86["x86-64"], "aarch64": ARM["generic"]}
OTHER = _record((), 2)


@dataclass(frozen=True)
class Host:
    """A CPU for this process. name: LLVM's; flags: its features as LLVM takes them in addition to
    the name (`+avx2,-avx512f`), empty where the name says it all; named: whether
    `LOOPWRIGHT_HOST_CPU` did."""

    triple: str
    name: str
    flags: str
    record: Record
    named: bool = False

    @property
    def lacks(self) -> frozenset[str]:
        """The features that LLVM knows of and the machine does not have."""
        return frozenset(f[1:] for f in self.flags.split(",") if f.startswith("-"))

    @property
    def needs(self) -> str:
        """What code with all instruction sets of this machine needs, for `check_machine`."""
        return "\n".join([native_arch(), *sorted(self.record.features - FOR_SYSTEMS)])

    @property
    def vendor(self) -> str:
        """Who makes this x86 CPU: amd, intel, or "unrecognized" for others."""
        if native_arch() != "x86_64" or self.name.startswith(("x86-64", "generic")):
            return "unrecognized"
        amd = ("znver", "bdver", "btver", "amdfam", "k8", "athlon", "opteron", "barcelona")
        return "amd" if self.name.startswith(amd) else "intel"

    @property
    def c_flag(self) -> str:
        """The flag with which gcc and clang compile for it."""
        if not self.named:
            return "-march=native"
        return f"-{'march' if native_arch() == 'x86_64' else 'mcpu'}={self.name}"


@cache
def native_arch() -> str:
    """x86_64, aarch64, ..., with the names that differ between systems made one."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


def host() -> Host:
    """The CPU that code is for where a target names none: the one that `LOOPWRIGHT_HOST_CPU` names,
    else this machine's. Raises LoopwrightError for a name without a record."""
    name = knob("LOOPWRIGHT_HOST_CPU")
    return _named(name) if name else this_machine()


@cache
def _named(name: str) -> Host:
    records = RECORDS.get(native_arch(), {})
    if name not in records:
        what = f"LOOPWRIGHT_HOST_CPU names no {native_arch()} CPU that there is a record of"
        raise LoopwrightError(explain(what, got=repr(name), instead=suggest(name, records)))
    return Host(this_machine().triple, name, "", records[name], named=True)


@cache
def this_machine() -> Host:
    """The CPU that is present, whatever LOOPWRIGHT_HOST_CPU says: it decides what can run."""
    import llvmlite.binding as llvm

    name, has = llvm.get_host_cpu_name(), llvm.get_host_cpu_features()
    arch = native_arch()
    like = RECORDS.get(arch, {}).get(name, OTHER)
    # LLVM may report no features, where virtual machines or systems hide them.
    features = (
        frozenset(f for f, there in has.items() if there) or BASELINE.get(arch, like).features
    )
    record = Record(features, like.fma_per_cycle, _caches(like.caches))
    return Host(llvm.get_process_triple(), name, has.flatten(), record)


def check_machine(needs: str) -> None:
    """Raise LoopwrightError where code that needs an architecture and instruction sets, one a line, cannot
    run on this machine; what it lacks is named. "" needs nothing that is known."""
    if not needs:
        return
    arch, *features = needs.split("\n")
    what = "this code was compiled for another machine"
    if arch != native_arch():
        raise LoopwrightError(explain(what, got=f"code for {arch} on {native_arch()}"))
    missing = sorted(this_machine().lacks.intersection(features))
    if missing:
        hint = 'compile it for what all machines have: target="llvm -mcpu=x86-64-v3"'
        raise LoopwrightError(
            explain(what, got=f"a processor without {', '.join(missing)}", instead=hint)
        )


def _caches(sizes: tuple[int, int]) -> tuple[int, int]:
    """The sizes that Linux reports, or the given ones."""
    result = list(sizes)
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level = int((entry / "level").read_text())
            kind = (entry / "type").read_text().strip()
            size = (entry / "size").read_text().strip()
            bytes_ = int(size.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(size[-1], 0)
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and 1 <= level <= 2:
            result[level - 1] = bytes_
    return result[0], result[1]
