"""Devices: a kind and a number; and the device of a value, which may be unknown in part."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from loopwright.base.device_types import ALIASES, TYPES
from loopwright.base.names import named

if TYPE_CHECKING:
    import numpy as np

_NAMES = {code: name for name, code in TYPES.items()}
# Facts of GPUs in TVM's names.
_OF_GPUS = {
    *("max_threads_per_block", "warp_size", "max_shared_memory_per_block", "compute_version"),
    *("device_name", "max_clock_rate", "multi_processor_count", "max_thread_dimensions"),
    *("api_version", "driver_version", "l2_cache_size_bytes", "available_global_memory"),
    "texture_spatial_limit",
}


class Device:
    """A device, by DLPack type code and number. Compares and hashes by both.

    >>> lw.Device("cpu", 0) == lw.cpu()
    True
    """

    __slots__ = ("index", "type_code")

    CPU, CUDA = 1, 2
    link: Any = None  # a connection, where it is another machine's: see `rpc.remote`
    DEVICE_NAME_TO_TYPE = {**TYPES, **{name: TYPES[kind] for name, kind in ALIASES.items()}}

    def __init__(self, device_type: int | str, device_id: int = 0) -> None:
        self.type_code = _type_code(device_type)
        self.index = int(device_id)

    @property
    def type(self) -> str:
        """The kind's name, e.g. `cpu`."""
        return _NAMES.get(self.type_code, f"device{self.type_code}")

    # TVM's spellings, of different versions.
    @property
    def device_type(self) -> int:
        return self.type_code

    @property
    def device_id(self) -> int:
        return self.index

    def dlpack_device_type(self) -> int:
        return self.type_code

    @property
    def exist(self) -> bool:
        """Whether code can run there from this process."""
        return self.type_code == Device.CPU

    @property
    def total_global_memory(self) -> int | None:
        """Bytes of this machine's memory; None where the system does not report it, and of others."""
        names = ("SC_PAGE_SIZE", "SC_PHYS_PAGES")
        if not self.exist or not all(n in getattr(os, "sysconf_names", ()) for n in names):
            return None
        size, count = map(os.sysconf, names)
        return size * count

    def __getattr__(self, name: str) -> None:
        """None, TVM's answer for a property that a device does not report."""
        if name not in _OF_GPUS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def empty(self, shape: Iterable[int], dtype: str) -> Any:
        """A tensor there whose values are not set; of devices of other machines."""
        raise NotImplementedError

    def put(self, array: np.ndarray, dtype: str) -> Any:
        """A tensor there with an array's values; of devices of other machines."""
        raise NotImplementedError

    def sync(self, stream: object = None) -> None:
        """Wait for queued work; a CPU has none."""

    def create_raw_stream(self) -> int:
        """A queue of work: a CPU has the one, 0."""
        return 0

    def set_raw_stream(self, stream: int) -> None:
        """Work on a queue; a CPU has one."""

    def free_raw_stream(self, stream: int) -> None:
        """Give a queue back; a CPU's stays."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        return (self.type_code, self.index) == (other.type_code, other.index)

    def __hash__(self) -> int:
        return hash((self.type_code, self.index))

    def __repr__(self) -> str:
        return f"device(type={self.type!r}, index={self.index})"

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"


def _type_code(device_type: int | str) -> int:
    if isinstance(device_type, int):
        return int(device_type)
    name = device_type.split(" ", 1)[0]  # a target string starts with its kind
    name = ALIASES.get(name, name)
    if name not in TYPES:
        raise ValueError(f"unknown device type {device_type!r}; known: {', '.join(TYPES)}")
    return TYPES[name]


def device(dev_type: str | int | Device = "cpu", dev_id: int | None = None) -> Device:
    """A device from `"cpu"`, `"cuda:1"`, a DLPack type code, or a device. Raises ValueError for others.

    >>> lw.device("cuda:1").index
    1
    """
    if isinstance(dev_type, Device):
        return dev_type
    if isinstance(dev_type, str) and ":" in dev_type:
        name, _, number = dev_type.partition(":")
        if dev_id is not None or not number.isdigit():
            raise ValueError(
                f"device must look like 'cpu' or 'cuda:1', got {dev_type!r}, {dev_id!r}"
            )
        return Device(name, int(number))
    return Device(dev_type, dev_id or 0)


def _of_kind(kind: str, doc: str) -> Callable[..., Device]:
    def make(dev_id: int = 0) -> Device:
        return Device(kind, dev_id)

    return named(make, kind, f"{doc}\n\n>>> lw.{kind}(0).type\n'{kind}'")


cpu = _of_kind("cpu", "The CPU.")
cuda = _of_kind("cuda", "An NVIDIA GPU.")
rocm = _of_kind("rocm", "An AMD GPU.")
opencl = _of_kind("opencl", "An OpenCL device.")
vulkan = _of_kind("vulkan", "A Vulkan device.")
metal = _of_kind("metal", "An Apple GPU.")
gpu = cuda


class VirtualDevice(NamedTuple("VirtualDevice", [
    ("device_type", int), ("virtual_device_id", int), ("target", Any), ("memory_scope", str),
])):  # fmt: skip
    """The known part of a value's location: device, target and memory."""

    __slots__ = ()

    def __new__(
        cls, device: Device | None = None, target: Any = None, memory_scope: str = ""
    ) -> Any:
        key = (-1, -1) if device is None else (device.device_type, device.device_id)
        return super().__new__(cls, *key, target, memory_scope)

    @property
    def device_type_int(self) -> int:
        """DLPack's number of the device, -1 where it is not known."""
        return self.device_type
