"""The command `doctor`: the machine, the packages that are installed, and how to get those that are not."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import llvmlite

from ..base import __version__
from ..base.config import ENVIRONMENT
from ..base.plugins import plugins
from ..codegen.llvm.cache import default_cache
from ..codegen.llvm.export import linkers
from ..ir.cpu_info import usable_cores
from ..ir.target import Target
from ..relax.byoc import get_backend
from ..runtime.arena import format_bytes
from ..runtime.threads import default_num_threads
from .commands import app
from .conditions import load_text
from .console import command
from .front import DEFAULT_TARGET
from .report import Report

_OWN = ("bench", "dev", "docs", "lint", "references")  # extras for those who work on Loopwright
_PEERS = ("onnxruntime", "openvino", "torch")  # of `compare`, which users install themselves
_CGROUP = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@command(app)
def doctor() -> Report:
    """Report this machine's CPU, memory and threads, versions, and how to get missing parts.

    The exit status is 1 where Loopwright itself lacks something."""
    rows_of = sections()
    lines = []
    for title, rows in rows_of.items():
        lines += [f"{title}:", *(f"  {name:<16}{text}" for name, text in rows.items())]
    broken = {
        name: text for name, text in _extras() if name == "loopwright" and text != "installed"
    }
    return Report({**rows_of, "ok": not broken}, "\n".join(lines), status=int(bool(broken)))


def sections() -> dict[str, dict[str, str]]:
    """The machine, the packages and the environment, by title and name."""
    first = {"machine": _machine(), "versions": _versions(), "extras": dict(_extras())}
    return first | {
        "back ends": dict(_back_ends()),
        "tools": _tools(),
        "environment": _environment(),
    }


def _machine() -> dict[str, str]:
    target = Target(DEFAULT_TARGET)
    levels = zip(
        ("L1", "L2"), (target.l1_cache_size_bytes, target.l2_cache_size_bytes), strict=True
    )
    notable = ("avx2", "fma", "avx512f", "avx512bf16", "avxvnni", "avx512vnni", "amx-int8", "neon")
    features = [name for name in notable if name in target.features]
    return {
        "cpu": f"{_model_name()} ({target.mcpu}, {platform.machine()})",
        "features": ", ".join(features) or "baseline",
        "vectors": f"{target.vector_bits} bits, {target.num_vector_registers} registers",
        "caches": ", ".join(f"{name} {format_bytes(size)}" for name, size in levels),
        "threads": f"{default_num_threads()} of {usable_cores()} CPUs (LOOPWRIGHT_NUM_THREADS)",
        "memory": _memory(),
        "load": load_text(),
    }


def _model_name() -> str:
    """The CPU's own name."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1] if match else platform.processor()


def _memory() -> str:
    """What this process may have, and what there is."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in map(Path, _CGROUP):
        text = path.read_text().strip() if path.is_file() else ""
        if text.isdecimal() and int(text) < total:
            return f"{int(text) / 2**30:.1f} GiB allowed (cgroup) of {total / 2**30:.1f} GiB"
    return f"{total / 2**30:.1f} GiB"


def _versions() -> dict[str, str]:
    llvm = ".".join(map(str, llvmlite.binding.llvm_version_info))
    versions = {"loopwright": __version__, "Python": platform.python_version(), "LLVM": llvm}
    return versions | {name: _version(name) for name in ("llvmlite", "numpy", "apache-tvm-ffi")}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _extras() -> Iterator[tuple[str, str]]:
    """Each extra of the package, and the packages that it always needs: installed, or those that are not."""
    missing: dict[str, list[str]] = {}
    for text in importlib.metadata.requires("loopwright") or ():
        name = re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"](\w+)['\"]", text)
        missing.setdefault(extra[1] if extra else "loopwright", [])
        if _version(name) == "missing":
            missing[extra[1] if extra else "loopwright"].append(name)
    for extra, names in missing.items():
        if extra in _OWN:
            continue
        own = "loopwright" if extra == "loopwright" else f"'loopwright[{extra}]'"
        yield extra, f"no {', '.join(names)}: pip install {own}" if names else "installed"
    for name in _PEERS:
        version = _version(name)
        hint = f"missing (compare --against {name}): pip install {name}"
        yield name, hint if version == "missing" else version


def _back_ends() -> Iterator[tuple[str, str]]:
    for plugin in plugins():
        if plugin.group == "loopwright.backends":
            for name in plugin.brings or (plugin.name,):
                backend = None if plugin.error else get_backend(name)
                why = plugin.error if backend is None else backend.why_not()
                needs = backend and backend.needs and f"describes regions; to run, {backend.needs}"
                yield name, why or needs or f"usable (--backend {name})"


def _tools() -> dict[str, str]:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    linker = next((" ".join(command[:-1]) for command in linkers()), None)
    return {
        "C compiler": compiler or "missing (--target c is not built here): apt install gcc",
        "linker": linker
        or "missing (compile -o x.so): apt install binutils, or pip install ziglang",
    }


def _environment() -> dict[str, str]:
    """The knobs that are set, and the cache folder."""
    knobs = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    folder = default_cache().folder
    return {"cache": str(folder.parent if folder else "none: set LOOPWRIGHT_CACHE_DIR"), **knobs}
