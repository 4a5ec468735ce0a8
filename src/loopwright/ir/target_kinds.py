"""The kinds of targets that come with the package, and TVM's functions that make targets."""

from __future__ import annotations

from ..base.registry import registering
from .target import Target, register_target_kind

_FAST_MATH = "nnan ninf nsz arcp contract reassoc"
_CPU_OPTIONS: dict[str, type] = {
    "mcpu": str,
    "mattr": list,
    "mtriple": str,
    "mabi": str,
    "mfloat-abi": str,
    "num-cores": int,
    "vector-width": int,
    "opt-level": int,
    "fast-math": bool,
    **dict.fromkeys((f"fast-math-{flag}" for flag in _FAST_MATH.split()), bool),
    "jit": str,
    "cl-opt": list,
    "l2_cache_size_bytes": int,
}
_GPU_OPTIONS: dict[str, type] = {
    "arch": str,
    "max_num_threads": int,
    "max_threads_per_block": int,
    "max_shared_memory_per_block": int,
    "thread_warp_size": int,
    "registers_per_block": int,
    "max_function_args": int,
    "l2_cache_size_bytes": int,
}
_LIMITS = {
    "opencl": {"max_function_args": 128},
    "metal": {"max_function_args": 31, "thread_warp_size": 16},
    "rocm": {"thread_warp_size": 64},
}
_LLVM_GPU: dict[str, type] = {"mcpu": str, "mattr": list, "mtriple": str}
_VULKAN_SUPPORTS = """int8 int16 int32 int64 float16 float32 float64 8bit_buffer 16bit_buffer
storage_buffer_storage_class push_descriptor dedicated_allocation integer_dot_product
cooperative_matrix"""
_VULKAN_LIMITS = """supported_subgroup_operations max_block_size_x max_block_size_y max_block_size_z
max_push_constants_size max_uniform_buffer_range max_storage_buffer_range max_spirv_version
max_per_stage_descriptor_storage_buffer driver_version vulkan_api_version"""
_VULKAN: dict[str, type] = {
    "mattr": list,
    **dict.fromkeys(("device_type", "device_name", "driver_name"), str),
    **{f"supports_{what}": bool for what in _VULKAN_SUPPORTS.split()},
    **dict.fromkeys(_VULKAN_LIMITS.split(), int),
}
_HOST_C = {"march": str, "workspace-byte-alignment": int, "constants-byte-alignment": int}
_HEXAGON: dict[str, type] = {"llvm-options": list, "vtcm-capacity": int}

with registering(__name__):
    register_target_kind("llvm", ("cpu",), _CPU_OPTIONS)
    register_target_kind("c", ("cpu",), {**_CPU_OPTIONS, **_HOST_C})
    register_target_kind(
        "cuda",
        ("cuda", "gpu"),
        {**_GPU_OPTIONS, "mcpu": str, "fast-math": bool},
        {"max_num_threads": 1024, "thread_warp_size": 32},
        "cuda",
    )
    register_target_kind(
        "nvptx",
        ("cuda", "gpu"),
        {**_GPU_OPTIONS, **_LLVM_GPU},
        {"max_num_threads": 1024, "thread_warp_size": 32},
        "cuda",
    )
    for _name, _own in {
        "opencl": {"texture_spatial_limit": int, "image_base_address_alignment": int},
        "metal": {},
        "vulkan": _VULKAN,
        "rocm": _LLVM_GPU,
        "webgpu": {},
    }.items():
        _limits = {"max_num_threads": 256, **_LIMITS.get(_name, {})}
        register_target_kind(_name, (_name, "gpu"), {**_GPU_OPTIONS, **_own}, _limits, _name)
    register_target_kind("hexagon", ("hexagon", "cpu"), {**_CPU_OPTIONS, **_HEXAGON}, {}, "hexagon")
    register_target_kind("ext_dev", ("ext_dev",), {}, device_type="ext_dev")


# ---------------------------------------------------------------------- short forms


def create(target: str) -> Target:
    """TVM's older name for `Target(target)`."""
    return Target(target)


Options = str | list[str] | None


def _made(kind: str, *words: str, options: Options = None) -> Target:
    more = options.split() if isinstance(options, str) else options or ()
    return Target(" ".join(dict.fromkeys([kind, *filter(None, words), *more])))


def cuda(model: str = "unknown", arch: str | None = None, options: Options = None) -> Target:
    """A CUDA target."""
    return _made("cuda", f"-model={model}", f"-arch={arch}" if arch else "", options=options)


def rocm(model: str = "unknown", options: Options = None) -> Target:
    """A target for AMD's GPUs."""
    return _made("rocm", f"-model={model}", options=options)


def mali(model: str = "unknown", options: Options = None) -> Target:
    """An OpenCL target for Arm's Mali GPUs of the Midgard architecture."""
    return _made("opencl", "-device=mali", f"-model={model}", options=options)


def bifrost(model: str = "unknown", options: Options = None) -> Target:
    """An OpenCL target for Arm's Mali GPUs of the Bifrost architecture."""
    return _made("opencl", "-device=bifrost", f"-model={model}", options=options)


def adreno(model: str = "unknown", options: Options = None, clml: bool = False) -> Target:
    """An OpenCL target for Qualcomm's Adreno GPUs, with the key "clml" for its library."""
    keys = "-keys=adreno,opencl,gpu" + ",clml" * clml
    return _made("opencl", "-device=adreno", keys, f"-model={model}", options=options)


def intel_graphics(model: str = "unknown", options: Options = None) -> Target:
    """An OpenCL target for Intel's integrated GPUs."""
    words = ("-device=intel_graphics", f"-model={model}", "-thread_warp_size=16")
    return _made("opencl", *words, options=options)


# Boards by the name that users give: system on chip, triple, features of the CPU.
_ARM64, _ARM32 = "-mtriple=aarch64-linux-gnu", "-mtriple=armv7a-linux-gnueabihf"
_ARM_BOARDS = {
    "rasp3b": f"-model=bcm2837 {_ARM32} -mattr=+neon",
    "rasp4b": f"-model=bcm2711 {_ARM32} -mattr=+neon -mcpu=cortex-a72",
    "rasp4b64": f"-model=bcm2711 {_ARM64} -mattr=+neon -mcpu=cortex-a72",
    "rk3399": f"-model=rk3399 {_ARM64} -mattr=+neon",
    "ultra96": f"-model=ultra96 {_ARM64} -mattr=+neon",
    "beagleai": f"-model=beagleai {_ARM32} -mattr=+neon,+vfp4 -mcpu=cortex-a15",
    "stm32mp1": f"-model=stm32mp1 {_ARM32} -mattr=+neon,+vfp4 -mcpu=cortex-a7",
}


def arm_cpu(model: str = "unknown", options: Options = None) -> Target:
    """An Arm CPU running Linux: of a board ("rasp4b64"), or any with 64 bits."""
    board = _ARM_BOARDS.get(model, f"-model={model} {_ARM64}")
    return _made("llvm", "-keys=arm_cpu,cpu", "-device=arm_cpu", board, options=options)


def riscv_cpu(model: str = "sifive-u54", options: Options = None) -> Target:
    """A RISC-V CPU running Linux, by LLVM's name; SiFive's E series has 32 bits."""
    small = model.startswith("sifive-e")
    triple = f"-mtriple=riscv{32 if small else 64}-unknown-linux-gnu"
    abi = f"-mabi={'ilp32' if small else 'lp64d'}"
    return _made("llvm", f"-model={model}", triple, f"-mcpu={model}", abi, options=options)
