"""Queries of a script about the machine that it runs on: TVM's `contrib.nvcc`, `contrib.cudnn` and
`contrib.thrust`, and `support`; and its `contrib.dlpack`, functions on tensors of other libraries."""

from __future__ import annotations

import logging
import platform
from collections import defaultdict
from collections.abc import Callable, Mapping
from ctypes.util import find_library
from importlib import import_module
from typing import Any

import numpy as np

from ...backend.base import find_target
from ...ir.target import Target
from ...runtime import from_dlpack, get_global_func
from ..target_info import llvm_version_major


def enabled(target: str) -> bool:
    """`runtime.enabled`: whether code is made for a kind of targets."""
    kind = target.split()[0] if target.split() else ""
    has_target = kind in Target.list_kinds() and find_target(Target(kind)) is not None
    return has_target or kind == "cpu"


def libinfo() -> Mapping[str, str]:
    """`support.libinfo`: what TVM is built with, "ON", "OFF" or a version, by the options of its build.
    Options that nothing here corresponds to are "OFF"."""
    present = ("GRAPH_EXECUTOR", "LLVM", "PROFILER", "RANDOM", "RELAY_DEBUG", "RPC", "SORT")
    flags = {f"USE_{name}": "ON" for name in present}
    return defaultdict(lambda: "OFF", flags, LLVM_VERSION=str(llvm_version_major()))


def describe() -> None:
    """`support.describe`: print the versions of Python and LLVM, and the machine."""
    print(f"Python {platform.python_version()}, LLVM {llvm_version_major()}, {platform.platform()}")


def have_fp16(compute_version: str) -> bool:
    """Whether GPUs of a compute capability ("5.3") calculate in float16."""
    major, _, minor = compute_version.partition(".")
    return (int(major), int(minor or 0)) >= (5, 3)


def exists() -> bool:
    """Whether cuDNN is installed."""
    return find_library("cudnn") is not None


def _library_function(target: Target, kinds: tuple[str, ...], func_name: str) -> Any:
    asked = "thrust" in target.libs
    function = get_global_func(func_name, allow_missing=True) if asked else None
    if asked and function is None:
        logging.warning("%s requests thrust, but the function %s is missing", target, func_name)
    return function if target.kind.name in kinds else None


def can_use_thrust(target: Target, func_name: str) -> Any:
    """The registered function, if code for the target may call thrust; else None."""
    return _library_function(target, ("cuda", "nvptx"), func_name)


def can_use_rocthrust(target: Target, func_name: str) -> Any:
    """The registered function, if code for the target may call rocthrust; else None."""
    return _library_function(target, ("rocm",), func_name)


def convert_func(
    tvm_func: Callable[..., Any], tensor_type: type, to_dlpack_func: Callable[[Any], Any]
) -> Callable[..., Any]:
    """The function for tensors of another library, which are passed without a copy."""

    def call(*args: np.ndarray[Any, Any] | int) -> Any:
        tensors = (
            from_dlpack(to_dlpack_func(a)) if isinstance(a, tensor_type) else a for a in args
        )
        return tvm_func(*tensors)

    return call


def to_pytorch_func(tvm_func: Callable[..., Any]) -> Callable[..., Any]:
    """The function for tensors of PyTorch. Raises ImportError where that is not installed."""
    kind, packed = import_module("torch").Tensor, import_module("torch.utils.dlpack").to_dlpack
    return convert_func(tvm_func, kind, packed)
