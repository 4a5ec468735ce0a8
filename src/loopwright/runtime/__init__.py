"""The runtime: tensors, devices, functions, modules, threads. Runs artefacts without the compiler."""

from __future__ import annotations

from loopwright.runtime import by_numpy as _by_numpy
from loopwright.runtime.arena import Arena
from loopwright.runtime.collective import communicator
from loopwright.runtime.device import Device, cpu, cuda, device, gpu, metal, opencl, rocm, vulkan
from loopwright.runtime.extern import ExternLibrary
from loopwright.runtime.library import load_module, system_lib
from loopwright.runtime.linked import load_static_library
from loopwright.runtime.module import BenchmarkResult, Module, measure
from loopwright.runtime.native import NativeFunction
from loopwright.runtime.ndarray_cache import dump_ndarray_cache, load_ndarray_cache
from loopwright.runtime.packed_func import (
    PackedFunc,
    convert,
    get_global_func,
    list_global_func_names,
    register_func,
    remove_global_func,
)
from loopwright.runtime.profiler import Profile
from loopwright.runtime.tensor import ShapeTuple, Tensor, empty, from_dlpack, tensor
from loopwright.runtime.threads import num_threads, set_num_threads
from loopwright.runtime.vm import VirtualMachine

from ..base.late import public_names as _public_names

array = tensor  # TVM's name

__dir__ = _public_names(__name__)

__all__ = [
    "Arena",
    "BenchmarkResult",
    "Device",
    "ExternLibrary",
    "Module",
    "NativeFunction",
    "PackedFunc",
    "Profile",
    "ShapeTuple",
    "Tensor",
    "VirtualMachine",
    "array",
    "communicator",
    "convert",
    "cpu",
    "cuda",
    "device",
    "dump_ndarray_cache",
    "empty",
    "from_dlpack",
    "get_global_func",
    "gpu",
    "list_global_func_names",
    "load_module",
    "load_ndarray_cache",
    "load_static_library",
    "measure",
    "metal",
    "num_threads",
    "opencl",
    "register_func",
    "remove_global_func",
    "rocm",
    "set_num_threads",
    "system_lib",
    "tensor",
    "vulkan",
]
