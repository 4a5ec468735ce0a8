"""What a script asks about the machine before it goes on: TVM's `contrib.nvcc` and
`contrib.cudnn`."""

from __future__ import annotations

from ctypes.util import find_library


def have_fp16(compute_version: str) -> bool:
    """Whether GPUs of a compute capability ("5.3") calculate in float16."""
    major, _, minor = compute_version.partition(".")
    return (int(major), int(minor or 0)) >= (5, 3)


def exists() -> bool:
    """Whether cuDNN is installed."""
    return find_library("cudnn") is not None


__all__ = ["exists", "have_fp16"]
