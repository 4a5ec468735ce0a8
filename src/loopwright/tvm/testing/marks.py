"""What tests need, and the targets they run on, for pytest."""

from __future__ import annotations

import importlib.util
import inspect
import os
import platform
import struct
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from ...backend import c, llvm  # noqa: F401 (they register their targets)
from ...backend.base import find_target
from ...ir.target import Target
from ...runtime import Device, device

Decorator = Callable[[Any], Any]


class Requirement:
    """A decorator of tests that need something; `marks()` returns it for `pytestmark`."""

    def __init__(self, what: str, present: Callable[[], bool]) -> None:
        self.what = what
        self.present = present

    def marks(self, support_required: str = "compile-and-run") -> list[pytest.MarkDecorator]:
        """The marks that skip a test where the requirement is not met; none for "optional"."""
        if support_required == "optional":
            return []
        return [pytest.mark.skipif(not self.present(), reason=f"needs {self.what}")]

    def __call__(
        self, test: Callable[..., Any] | None = None, *, support_required: str = "compile-and-run"
    ) -> Any:
        def decorate(test: Callable[..., Any]) -> Any:
            for mark in self.marks(support_required):
                test = mark(test)
            return test

        return decorate if test is None else decorate(test)


def _package(name: str) -> Callable[[], bool]:
    return lambda: importlib.util.find_spec(name) is not None


# What TVM has a `requires_` for and this compiler makes no code for.
ABSENT = """
    adreno_opencl aprofile_aem_fvp cmsisnn corstone300 cublas cuda cudagraph cudnn cutlass ethosn
    ethosu gpu hexagon hipblas libtorch matrixcore metal micro mrvl multi_gpu nccl nnapi nvptx
    opencl openclml rocm tensorcore vitis_ai vulkan
""".split()  # noqa: SIM905
requires_llvm = Requirement("llvmlite", _package("llvmlite"))
requires_rpc = Requirement("the package websockets", _package("websockets"))


def _processor(*features: str) -> Requirement:
    """What needs a processor with one of these features, in LLVM's spelling."""
    named = " or ".join(features)
    return Requirement(
        f"a processor with {named}", lambda: not Target("llvm").features.isdisjoint(features)
    )


def _machine(*names: str) -> Requirement:
    """What needs a machine of a kind, by one of its names."""
    return Requirement(f"a machine {names[0]}", lambda: platform.machine().lower() in names)


requires_x86, requires_aarch64 = _machine("x86_64", "amd64"), _machine("aarch64", "arm64")
requires_arm_dot, requires_arm_fp16 = _processor("dotprod"), _processor("fullfp16")
requires_aarch64_sve, requires_aarch64_sme = _processor("sve"), _processor("sme")
requires_x86_vnni = _processor("avx512vnni", "avxvnni")
requires_x86_avx512, requires_x86_amx = _processor("avx512bw"), _processor("amx-int8")
for _name in ABSENT:
    globals()[f"requires_{_name}"] = Requirement(f"code for {_name}", lambda: False)
uses_gpu = Requirement("a GPU", lambda: False)(support_required="optional")
slow = pytest.mark.skipif(
    os.environ.get("SKIP_SLOW_TESTS", "").lower() in ("1", "true", "yes"),
    reason="SKIP_SLOW_TESTS is set",
)


def requires_package(*packages: str) -> Requirement:
    """What needs Python packages, by name."""
    missing = [p for p in packages if importlib.util.find_spec(p) is None]
    return Requirement(" and ".join(missing or packages), lambda: not missing)


def requires_llvm_minimum_version(major_version: int) -> Requirement:
    """What needs an LLVM of this version."""

    def present() -> bool:
        import llvmlite.binding

        return llvmlite.binding.llvm_version_info[0] >= major_version

    return Requirement(f"LLVM {major_version}", present)


def _requires_cuda(*version: int) -> Requirement:
    return Requirement(f"CUDA {'.'.join(map(str, version))}", lambda: False)


requires_nvcc_version = requires_cuda_compute_version = _requires_cuda


def skip_if_32bit(reason: str) -> Any:
    """A mark of tests that do not hold where pointers have 32 bits."""
    return pytest.mark.skipif(struct.calcsize("P") == 4, reason=reason)


def skip_if_wheel_test(func: Callable[..., Any]) -> Any:
    """TVM's mark of tests that need the sources of the package; they are always here."""
    return func


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets of $TVM_TEST_TARGETS (separated by ";", "llvm" unless set) that run here, each
    with its device."""
    names = os.environ.get("TVM_TEST_TARGETS", "").split(";")
    names = [n.strip() for n in names if n.strip()] or ["llvm"]
    return [(name, device("cpu")) for name in names if _runs(name)]


def _runs(target: str) -> bool:
    try:
        implementation = find_target(Target(target))
    except ValueError:
        return False
    return implementation is not None and implementation.native_graphs


def target_marks(target: str | Target) -> list[pytest.MarkDecorator]:
    """The marks that skip a test given a target that programs cannot be made for here."""
    try:
        kind = Target(target).kind.name
    except ValueError:  # the test's own business
        return []
    return Requirement(f"code for {kind}", lambda: False).marks() if kind in ABSENT else []


def device_enabled(target: str) -> bool:
    """Whether tests are to run on a target; only its kind counts."""
    kind = target.split()[0]
    return any(name.split()[0] == kind for name, _ in enabled_targets())


def parametrize_targets(*targets: str | Callable[..., Any]) -> Any:
    """A test run on these targets, by its parameter `target`, skipped on those that are not enabled;
    bare, on all that are."""
    if len(targets) == 1 and callable(targets[0]):
        return targets[0]
    off = pytest.mark.skip(reason="the target is not enabled")
    values = [pytest.param(t, marks=() if device_enabled(str(t)) else off) for t in targets]
    return pytest.mark.parametrize("target", values)


def exclude_targets(*kinds: str) -> Decorator:
    """A test that does not hold for targets of some kinds."""
    return pytest.mark.exclude_targets(*kinds)


def known_failing_targets(*kinds: str) -> Decorator:
    """A test known to fail on targets of some kinds."""
    return pytest.mark.known_failing_targets(*kinds)


def main() -> NoReturn:
    """Run the tests of the file that calls this."""
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    path = inspect.getsourcefile(caller) if caller is not None else None
    sys.exit(pytest.main([path or sys.argv[0], *sys.argv[1:]]))
