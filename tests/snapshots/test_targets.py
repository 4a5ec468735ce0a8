"""What is known of targets, the numbers behind flags, and programs as JSON."""

from __future__ import annotations

import importlib
import pkgutil
import re
from enum import Enum
from typing import Any

import pytest

import loopwright
from loopwright.ir import cpu_info
from loopwright.ir.serialize import load_json, save_json
from loopwright.ir.structural import structural_equal, structural_hash
from loopwright.ir.target import KINDS, TAGS, Target

from .stages import said
from .test_passes import documented

FACTS = (
    *("keys", "device_type", "mcpu", "mtriple", "model", "libs", "device_name"),
    *("max_num_threads", "max_function_args", "thread_warp_size", "max_shared_memory_per_block"),
)
CPU_FACTS = (
    *("arch", "vector_bits", "num_vector_registers", "has_fma", "fma_per_cycle"),
    *("has_scalable_vectors", "l1_cache_size_bytes", "l2_cache_size_bytes"),
)
OWN = "loopwright."
SPAN = re.compile(r',\s*"span": \{[^{}]*\}')


def told(text: Any) -> dict[str, str]:
    def one() -> str:
        target = Target(text)
        names = (*FACTS, *CPU_FACTS) if target.device_type == "cpu" else FACTS
        facts = {name: said(lambda name=name: getattr(target, name)) for name in names}
        return f"{target} {target.lookup_keys} {target.get_target_device_type()} {facts}"

    return {"": said(one)}


def test_targets(snapshot: Any) -> None:
    rows = {}
    for table in (KINDS, TAGS):
        for entry in table.entries():
            if entry.origin.startswith(OWN):
                name = str(entry.key)
                rows[name] = told(
                    f"{name} -mtriple=x86_64-linux-gnu" if name in ("llvm", "c") else name
                )
    for cpu in cpu_info._X86:
        rows[f"x86 {cpu}"] = told(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    for cpu in cpu_info._ARM:
        rows[f"arm {cpu}"] = told(f"llvm -mtriple=aarch64-linux-gnu -mcpu={cpu}")
    for features in ("+sve", "+avx2,+fma", "+avx512f,-fma", "+v", "+neon"):
        for triple in ("x86_64-linux-gnu", "aarch64-linux-gnu", "riscv64-linux-gnu"):
            rows[f"{triple} {features}"] = told(f"llvm -mtriple={triple} -mattr={features}")
    snapshot("targets/known", rows)


def test_flags(snapshot: Any) -> None:
    """The numbers are those of TVM: they are in saved programs, and passed by number."""
    rows = {}
    for layer in ("arith", "base", "codegen", "ir", "relax", "relay", "te", "tir"):
        package = importlib.import_module(f"loopwright.{layer}")
        for found in pkgutil.walk_packages(package.__path__, f"loopwright.{layer}."):
            module = importlib.import_module(found.name)
            for name, kind in vars(module).items():
                if isinstance(kind, type) and issubclass(kind, Enum):
                    if kind.__module__ == module.__name__:
                        rows[f"{module.__name__}.{name}"] = {
                            "": str({k.name: k.value for k in kind})
                        }
    snapshot("targets/flags", rows)


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
def test_saved_programs(snapshot: Any) -> None:
    rows = {}
    # Modules of its own: passes that other tests run give struct infos to calls of theirs.
    for path, (_, mod) in documented.__wrapped__().items():
        text = SPAN.sub("", save_json(mod))  # a literal's is that of its first use anywhere
        again = load_json(text)
        same = (structural_equal(mod, again), structural_hash(mod) == structural_hash(again))
        rows[path.stem] = {"json": text.replace(loopwright.__version__, ""), "same": str(same)}
    snapshot("targets/saved", rows)
