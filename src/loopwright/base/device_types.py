"""Kinds of devices with their codes in DLPack, and other names of them."""

TYPES = {
    "cpu": 1, "cuda": 2, "cuda_host": 3, "opencl": 4, "aocl": 5, "sdaccel": 6, "vulkan": 7, "metal": 8, "vpi": 9,
    "rocm": 10, "rocm_host": 11, "ext_dev": 12, "cuda_managed": 13, "oneapi": 14, "webgpu": 15,
    "hexagon": 16,
}  # fmt: skip
ALIASES = {
    "llvm": "cpu",
    "c": "cpu",
    "gpu": "cuda",
    "nvptx": "cuda",
    "cl": "opencl",
    "aocl_sw_emu": "aocl",
}
