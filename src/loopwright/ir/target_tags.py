"""Names of machines as targets: `Target("nvidia/geforce-rtx-3090")`."""

from __future__ import annotations

from ..base.registry import registering
from .target import TAGS

# NVIDIA's GPUs from Kepler on by compute capability (https://developer.nvidia.com/cuda-gpus).
_NVIDIA = {
    "sm_30": """
        tesla-k10 quadro-k5000 quadro-k4200 quadro-k4000 quadro-k2000 quadro-k2000d quadro-k600
        quadro-k420 quadro-410 geforce-gtx-770 geforce-gtx-760 geforce-gtx-690 geforce-gtx-680
        geforce-gtx-670 geforce-gtx-660-ti geforce-gtx-660 geforce-gtx-650-ti geforce-gtx-650""",
    "sm_35": """
        tesla-k40 tesla-k20 quadro-k6000 quadro-k5200 geforce-gtx-titan-z geforce-gtx-titan-black
        geforce-gtx-titan geforce-gtx-780-ti geforce-gtx-780""",
    "sm_37": "tesla-k80",
    "sm_50": """
        quadro-k2200 quadro-k1200 quadro-k620 quadro-m1200 quadro-m1000m nvidia-nvs-810
        geforce-gtx-750-ti geforce-gtx-750 geforce-gtx-960m geforce-gtx-950m geforce-gtx-850m
        geforce-940m geforce-930m geforce-840m geforce-830m""",
    "sm_52": """
        tesla-m60 tesla-m40 quadro-m6000-24gb quadro-m6000 quadro-m5000 quadro-m4000 quadro-m2000
        geforce-gtx-titan-x geforce-gtx-980-ti geforce-gtx-980 geforce-gtx-970 geforce-gtx-960
        geforce-gtx-950 geforce-gtx-980m geforce-gtx-970m geforce-gtx-965m""",
    "sm_53": "jetson-nano jetson-tx1 tegra-x1",
    "sm_60": "tesla-p100 quadro-gp100",
    "sm_61": """
        tesla-p40 tesla-p4 quadro-p6000 quadro-p5000 quadro-p4000 quadro-p2200 quadro-p2000
        quadro-p1000 quadro-p620 quadro-p600 quadro-p400 nvidia-titan-xp nvidia-titan-x
        geforce-gtx-1080-ti geforce-gtx-1080 geforce-gtx-1070-ti geforce-gtx-1070
        geforce-gtx-1060 geforce-gtx-1050""",
    "sm_62": "jetson-tx2",
    "sm_70": "nvidia-v100 quadro-gv100 nvidia-titan-v",
    "sm_72": "jetson-agx-xavier",
    "sm_75": """
        nvidia-t4 quadro-rtx-8000 quadro-rtx-6000 quadro-rtx-5000 quadro-rtx-4000 rtx-5000
        rtx-4000 rtx-3000 t2000 t1000 nvidia-titan-rtx geforce-rtx-2080-ti geforce-rtx-2080
        geforce-rtx-2070 geforce-rtx-2060""",
    "sm_80": "nvidia-a100 nvidia-a30",
    "sm_86": """
        nvidia-a40 nvidia-a10 nvidia-a10g nvidia-a16 nvidia-a2 rtx-a6000 geforce-rtx-3090-ti
        geforce-rtx-3090 geforce-rtx-3080-ti geforce-rtx-3080 geforce-rtx-3070-ti
        geforce-rtx-3070 geforce-rtx-3060""",
    "sm_87": "jetson-orin-nano jetson-agx-orin-32gb jetson-agx-orin-64gb",
    "sm_89": "geforce-rtx-4090",
    "sm_90a": "nvidia-h100",
    "sm_100a": "nvidia-b100",
}
_L2_MEBIBYTES = {"nvidia-a100": 40, "nvidia-h100": 50, "nvidia-b100": 50, "geforce-rtx-4090": 72}
# The hosts of NVIDIA's boards: CPU and cores.
_JETSON_HOSTS = {
    "jetson-agx-xavier": ("carmel", 8),
    "jetson-orin-nano": ("carmel", 6),
    "jetson-agx-orin-32gb": ("cortex-a78", 8),
    "jetson-agx-orin-64gb": ("cortex-a78", 12),
}
# Amazon's c5 machines: CPU and physical cores.
_C5 = {
    "skylake-avx512": {"large": 1, "xlarge": 2, "2xlarge": 4, "4xlarge": 8, "9xlarge": 18,
                       "18xlarge": 36},
    "cascadelake": {"12xlarge": 24, "24xlarge": 48},
}  # fmt: skip
_APPLE = {"m1-gpu": 1024, "m1-gpu-restricted": 256, "m2-gpu": 1024}


def _linux_arm(cpu: str, cores: int) -> dict[str, object]:
    return {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": cpu, "num-cores": cores}


def _nvidia(name: str, arch: str) -> dict[str, object]:
    config: dict[str, object] = {
        "kind": "cuda",
        "arch": arch,
        "max_shared_memory_per_block": 48 << 10,
        "max_threads_per_block": 1024,
        "registers_per_block": (32 if arch in ("sm_53", "sm_62") else 64) << 10,
    }
    if name in _L2_MEBIBYTES:
        config["l2_cache_size_bytes"] = _L2_MEBIBYTES[name] << 20
    if name in _JETSON_HOSTS:
        config["host"] = _linux_arm(*_JETSON_HOSTS[name])
    return config


with registering(__name__):
    for _arch, _names in _NVIDIA.items():
        for _name in _names.split():
            TAGS.register(f"nvidia/{_name}", _nvidia(_name, _arch))
    for _cpu, _sizes in _C5.items():
        for _size, _cores in _sizes.items():
            _machine = {"kind": "llvm", "mcpu": _cpu, "num-cores": _cores}
            TAGS.register(f"aws/cpu/c5.{_size}", _machine)
    TAGS.register("raspberry-pi/4b-aarch64", _linux_arm("cortex-a72", 4))
    for _name, _threads in _APPLE.items():
        _gpu = {
            "kind": "metal",
            "max_threads_per_block": _threads,
            "max_shared_memory_per_block": 32 << 10,
            "thread_warp_size": 32,
            "host": {"kind": "llvm", "mtriple": "arm64-apple-macos"},
        }
        TAGS.register(f"apple/{_name}", _gpu)
