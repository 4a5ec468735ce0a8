"""What is known of each kind, tag and CPU, and the numbers behind TVM's flags: goldens to read."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from enum import Enum

from loopwright.base.host import ARM, X86
from loopwright.ir.target import KINDS, TAGS, Target

GPU_FACTS = ("max_num_threads", "thread_warp_size", "max_shared_memory_per_block")
CPU_FACTS = (
    *("vector_bits", "num_vector_registers", "has_fma", "fma_per_cycle", "has_scalable_vectors"),
    *("l1_cache_size_bytes", "l2_cache_size_bytes"),
)
TRIPLES = ("x86_64-linux-gnu", "aarch64-linux-gnu", "riscv64-linux-gnu")
ATTRIBUTES = ("+sve", "+avx2,+fma", "+avx512f,-fma", "+v", "+neon")


WING = ("tvm.relax_transform", "tvm.relay", "tvm.te", "tvm.tir_transform")


def facts(text: str) -> str:
    target = Target(text)
    names = CPU_FACTS if target.device_type == "cpu" else GPU_FACTS
    told = ", ".join(f"{name} {getattr(target, name)}" for name in names)
    return f"{text}: {'/'.join(target.lookup_keys)}; {told}"


def test_targets(golden: Callable[[str, str], None]) -> None:
    entries = [e for table in (KINDS, TAGS) for e in table.entries()]
    names = [str(e.key) for e in entries if e.origin.startswith("loopwright.")]
    lines = [facts(n) for n in names if n not in ("llvm", "c")]  # those two mean the host
    for triple, cpus in (("x86_64", X86), ("aarch64", ARM)):
        lines += [facts(f"llvm -mtriple={triple}-linux-gnu -mcpu={cpu}") for cpu in cpus]
    lines += [facts(f"llvm -mtriple={t} -mattr={a}") for t in TRIPLES for a in ATTRIBUTES]
    golden("targets/known.txt", "\n".join(lines))


def test_flags(golden: Callable[[str, str], None]) -> None:
    """The numbers are those of TVM: they are in saved programs, and passed by number."""
    lines = []
    for layer in ("arith", "base", "codegen", "ir", "relax", "te", "tir", *WING):
        package = importlib.import_module(f"loopwright.{layer}")
        for found in pkgutil.walk_packages(package.__path__, f"loopwright.{layer}."):
            module = importlib.import_module(found.name)
            for name, kind in vars(module).items():
                if isinstance(kind, type) and issubclass(kind, Enum):
                    if kind.__module__ == module.__name__:
                        members = ", ".join(f"{k.name} {k.value!r}" for k in kind)
                        lines.append(f"{module.__name__}.{name}: {members}")
    golden("targets/flags.txt", "\n".join(lines))
