"""Targets: strings, dicts, tags, hosts, scope, facts about CPUs."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

import loopwright as lw
from loopwright.base.errors import InternalError, LoopwrightError
from loopwright.base.host import RECORDS, Record, native_arch, this_machine
from loopwright.ir import Target, cpu_info, load_json, save_json, structural_equal
from loopwright.ir import target as targets
from loopwright.ir import target_kinds as kinds
from loopwright.ir.cpu_info import usable_cores
from loopwright.runtime import Device
from loopwright.script import tir as T


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("llvm", "llvm -keys=cpu"),
        ("llvm -mcpu=native -num-cores=2", "llvm -keys=cpu -mcpu=native -num-cores=2"),
        ("llvm -mcpu native", "llvm -keys=cpu -mcpu=native"),
        (
            "llvm -keys=arm_cpu,cpu -mtriple=aarch64-linux-gnu -mattr=+neon,-sve",
            "llvm -keys=arm_cpu,cpu -mattr=+neon,-sve -mtriple=aarch64-linux-gnu",
        ),
        ("llvm --fast-math", "llvm -keys=cpu -fast-math=1"),
        ("llvm -device=arm_cpu", "llvm -keys=arm_cpu,cpu -device=arm_cpu"),
        ("c", "c -keys=cpu"),
        (
            "cuda -arch=sm_90",
            "cuda -keys=cuda,gpu -arch=sm_90 -max_num_threads=1024 -thread_warp_size=32",
        ),
        ("rocm", "rocm -keys=rocm,gpu -max_num_threads=256 -thread_warp_size=64"),
        (
            "metal",
            "metal -keys=metal,gpu -max_function_args=31 -max_num_threads=256 -thread_warp_size=16",
        ),
        ({"kind": "llvm", "mcpu": "znver4"}, "llvm -keys=cpu -mcpu=znver4"),
        ('{"kind": "llvm", "num-cores": 4}', "llvm -keys=cpu -num-cores=4"),
        ({"kind": "c", "host": {"kind": "llvm"}}, "c -keys=cpu -host='llvm -keys=cpu'"),
    ],
)
def test_text(given, text):
    target = Target(given)
    assert str(target) == text
    for again in (Target(text), Target(target.export()), pickle.loads(pickle.dumps(target))):
        assert again == target
        assert hash(again) == hash(target)
        assert structural_equal(again, target)
    assert load_json(save_json(target)) == target


def test_parts():
    target = Target("llvm -mcpu=znver4 -mattr=+fma,-avx -model=big -libs=mkl,dnnl")
    assert (target.kind.name, str(target.kind), target.keys) == ("llvm", "llvm", ("cpu",))
    assert (target.mcpu, target.mattr, target.model) == ("znver4", ["+fma", "-avx"], "big")
    assert target.libs == ["mkl", "dnnl"]
    assert target.attrs["mcpu"] == "znver4"
    assert target.host is None
    assert target.device_type == "cpu"
    assert Target("cuda").lookup_keys == ("cuda", "gpu")
    assert Target("llvm -keys=arm_cpu,cpu").lookup_keys == ("llvm", "arm_cpu", "cpu")
    assert target.get_kind_attr("default_keys") == ("cpu",)


def test_host():
    target = Target("cuda", host="llvm")
    assert target.host == Target("llvm")
    assert Target("llvm", host="llvm").host.kind.name == "llvm"
    assert target.with_host("c").host.kind.name == "c"
    assert target.with_host() is target
    assert Target(target) is target
    assert Target({"kind": "llvm", "host": "c"}).export()["host"]["kind"] == "c"
    assert Target.canon_target_and_host("cuda", "llvm") == (target, Target("llvm"))
    assert Target.canon_target_and_host(None) == (None, None)
    assert Target.canon_target(None) is None
    with pytest.raises(AssertionError, match="a host without a target\n  got: llvm"):
        Target.canon_target_and_host(None, "llvm")


def test_several_targets():
    targets = [Target("llvm"), Target("cuda", host="c")]
    assert Target.canon_multi_target(None) is None
    assert Target.canon_multi_target({"kind": "llvm"}) == targets[:1]
    assert Target.canon_multi_target({1: "llvm", 2: targets[1]}) == targets
    hosted = Target.canon_multi_target_and_host(["llvm", targets[1]], "llvm")
    assert [str(t.host.kind) for t in hosted] == ["llvm", "c"]
    with pytest.raises(AssertionError, match="at least one target"):
        Target.canon_multi_target_and_host(None, "llvm")
    made, host = Target.canon_target_map_and_host({"llvm": "a", targets[1]: "b"}, "llvm")
    assert host == Target("c")
    assert made == {Target("llvm", host="c"): "a", targets[1]: "b"}


def test_tags():
    target = Target("nvidia/geforce-rtx-3090")
    assert (target.arch, target.tag) == ("sm_86", "nvidia/geforce-rtx-3090")
    assert target.max_num_threads == 1024
    assert Target({"tag": "nvidia/geforce-rtx-3090"}).arch == "sm_86"
    assert "nvidia/nvidia-h100" in targets.list_tags()
    board = Target("nvidia/jetson-agx-orin-32gb")
    assert (board.arch, board.host.mcpu, board.host.num_cores) == ("sm_87", "cortex-a78", 8)
    assert Target("nvidia/nvidia-a100").l2_cache_size_bytes == 40 << 20
    assert Target("aws/cpu/c5.9xlarge").num_cores == 18
    assert Target({"kind": "llvm", "host": "nvidia/jetson-nano"}).host.arch == "sm_53"


def test_kinds_are_devices():
    for kind in Target.list_kinds():
        target = Target(kind)
        assert target.get_target_device_type() == Device(target.device_type).device_type
        assert Device.DEVICE_NAME_TO_TYPE[target.device_type] == target.get_target_device_type()
    assert Target("llvm -target_device_type=12").get_target_device_type() == 12
    assert Target("vulkan -supports_float16=true").attrs["supports_float16"] is True


@pytest.mark.parametrize(
    ("text", "keys", "has"),
    [
        ("c -mcpu=cortex-m3", ("arm_cpu", "cpu"), []),
        ("c -mcpu=cortex-m7", ("arm_cpu", "cpu"), ["dsp"]),
        ("llvm -mcpu=cortex-m4+nodsp", ("arm_cpu", "cpu"), []),
        ("llvm -mcpu=cortex-m55", ("arm_cpu", "cpu"), ["dsp", "mve"]),
        ("llvm -mcpu=cortex-m55 -mattr=+nomve", ("arm_cpu", "cpu"), ["dsp"]),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76", ("arm_cpu", "cpu"), ["asimd"]),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell", ("cpu",), []),
    ],
)
def test_arm(text, keys, has):
    target = Target(text)
    assert target.keys == keys
    asked = ("dsp", "mve", "asimd")
    assert [name for name in asked if getattr(target.features, f"has_{name}")] == has
    with pytest.raises(AttributeError, match="no attribute 'dsp'; has_<feature> tests for one"):
        _ = target.features.dsp


def test_scope():
    assert Target.current() is None
    with pytest.raises(ValueError) as error:
        Target.current(allow_none=False)
    hint = 'no target is set\n  instead: use `with Target("llvm"):`\n  in TVM: Check failed: '
    assert str(error.value).startswith(hint) and isinstance(error.value, InternalError)
    with Target("llvm") as outer:
        with Target("c") as inner:
            assert Target.current() is inner
            assert Target.target_or_current(None) is inner
            assert Target.target_or_current("cuda").kind.name == "cuda"
        assert Target.current() is outer
    assert Target.current() is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "llwm",
            "unknown target kind\n  got: llwm\n"
            "  instead: did you mean llvm? (register_target_kind adds one)",
        ),
        (
            "llvm -mcup=native",
            "target kind llvm has no option\n  got: mcup\n  instead: did you mean -mcpu?",
        ),
        (
            "llvm -num_cores=2",
            "target kind llvm has no option\n  got: num_cores\n  instead: did you mean -num-cores?",
        ),
        (
            "llvm -num-cores=two",
            "option -num-cores of target kind llvm needs a value of type int\n  got: 'two'",
        ),
        (
            {"kind": "llvm", "libs": {"mkl": "yes"}},
            "option -libs of target kind llvm needs a value of type list\n  got: {'mkl': 'yes'}",
        ),
        (
            "llvm znver4",
            "target string: 'znver4' belongs to no option\n  got: 'llvm znver4'\n"
            "  instead: write -name=value",
        ),
        (
            "-mcpu=native",
            "a target string starts with its kind\n  got: '-mcpu=native'\n"
            '  instead: for instance "llvm -mcpu=native"',
        ),
        (
            {"mcpu": "native"},
            "a target given as a dict needs a kind\n  got: {'mcpu': 'native'}\n"
            '  instead: add "kind": "llvm"',
        ),
    ],
)
def test_errors(given, message):
    with pytest.raises(ValueError) as error:
        Target(given)
    assert str(error.value) == message


def test_other_things_are_no_targets():
    with pytest.raises(TypeError, match="a target is a string, a dict or a Target\n  got: int"):
        Target(3)


def test_own_kind():
    targets.register_target_kind("mynpu", ["mynpu", "npu"], {"lanes": int}, {"lanes": 8}, "ext_dev")
    try:
        target = Target("mynpu -lanes=16")
        assert target.attrs["lanes"] == 16
        assert target.lookup_keys == ("mynpu", "npu")
        assert Target("mynpu").attrs["lanes"] == 8
        assert targets.TargetKind.options_from_name("mynpu")["lanes"] is int
        assert "mynpu" in Target.list_kinds()
        with pytest.raises(ValueError, match="target kind 'mynpu' is registered already"):
            targets.register_target_kind("mynpu")
    finally:
        targets.KINDS.remove("mynpu")


def test_own_tag():
    made = targets.register_tag("home/board", {"kind": "llvm", "mcpu": "cortex-a72"})
    try:
        assert made.mcpu == "cortex-a72"
        with pytest.raises(ValueError, match="target tag 'home/board' is registered already"):
            targets.register_tag("home/board", {"kind": "llvm"})
    finally:
        targets.TAGS.remove("home/board")


@pytest.mark.parametrize(
    ("text", "bits", "registers", "fma", "lanes"),
    [
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64", 128, 16, False, 4),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell", 256, 16, True, 8),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4", 512, 32, True, 16),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -mattr=-avx512f", 256, 16, True, 8),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -vector-width=256", 256, 32, True, 8),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", 128, 32, True, 4),
        ("llvm -mtriple=arm64-apple-darwin -mcpu=apple-m1", 128, 32, True, 4),
    ],
)
def test_facts_of_known_cpus(text, bits, registers, fma, lanes):
    target = Target(text)
    assert (target.vector_bits, target.num_vector_registers) == (bits, registers)
    assert target.has_fma is fma
    assert target.vector_lanes("float32") == lanes
    assert target.vector_lanes("int8") == 4 * lanes
    assert target.vector_lanes("bool") == 4 * lanes
    assert target.vector_lanes("bfloat16") == 2 * lanes


@pytest.mark.parametrize("bits", [0, 100, 1 << 31])
def test_vectors_that_no_processor_has_are_refused(bits):
    with pytest.raises(
        ValueError, match=f"no vector register has this number of bits\n  got: {bits}"
    ):
        Target(f"llvm -vector-width={bits}")


def test_facts_of_this_machine():
    target = Target("llvm -mcpu=native")
    assert target.is_native
    assert target.vector_bits in (128, 256, 512)
    assert target.num_cores == usable_cores()
    assert Target("llvm -num-cores=3").num_cores == 3
    assert 8 << 10 <= target.l1_cache_size_bytes <= target.l2_cache_size_bytes
    assert target.fma_per_cycle in (1, 2, 4)
    assert target.features == Target("llvm").features
    assert not Target("llvm -mtriple=riscv64-linux-gnu").is_native


@pytest.mark.parametrize("text", ["llvm", "llvm -mcpu=native", "c"])
def test_a_target_without_a_cpu_is_for_the_host(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for cpu in RECORDS[native_arch()]:
        monkeypatch.setenv("LOOPWRIGHT_HOST_CPU", cpu)
        ours, named = Target(text), Target(f"llvm -mcpu={cpu}")
        assert ours.is_native and not named.is_native
        assert ours.features == named.features
        assert ours.fma_per_cycle == named.fma_per_cycle
        assert ours.vector_bits == named.vector_bits
        assert ours.l1_cache_size_bytes == named.l1_cache_size_bytes
        assert ours.l2_cache_size_bytes == named.l2_cache_size_bytes


@pytest.mark.parametrize(
    "text",
    ["-mtriple=x86_64-linux-gnu", "-mtriple=aarch64-linux-gnu", "-mtriple=riscv64-linux-gnu"]
    + ["-mcpu=cortex-m55", "-mtriple=x86_64-linux-gnu -mcpu=znver4"]
    + ["-mtriple=aarch64-linux-gnu -mcpu=neoverse-n1", "-mtriple=x86_64-linux-gnu -mattr=+avx2"]
    + ["-mtriple=x86_64-linux-gnu -mcpu=unknown"],
)
def test_what_a_target_names_is_the_same_on_every_machine(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def facts() -> tuple[object, ...]:
        cpu = Target(f"llvm {text}")._cpu
        return cpu.features, cpu.fma_per_cycle, cpu.caches, cpu.native

    here = this_machine()
    want = facts()
    odd = replace(here, name="znver4", record=Record(frozenset({"odd"}), 9, (1, 2)))
    monkeypatch.setattr(cpu_info, "host", lambda: odd)
    assert facts() == want
    assert Target("llvm")._cpu.caches == (1, 2)


def test_from_device():
    assert Target.from_device("cpu").mcpu == "native"
    assert Target.from_device("cuda:0").kind.name == "cuda"
    with pytest.raises(ValueError, match="no target is known for this device\n  got: tpu"):
        Target.from_device("tpu")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (kinds.create("llvm"), "llvm"),
        (kinds.cuda(arch="sm_80"), "cuda -model=unknown -arch=sm_80"),
        (kinds.cuda(options="-libs=cublas,cudnn"), "cuda -model=unknown -libs=cublas,cudnn"),
        (kinds.rocm(), "rocm -model=unknown"),
        (kinds.mali(), "opencl -keys=mali,opencl,gpu -device=mali -model=unknown"),
        (kinds.bifrost("g71"), "opencl -device=bifrost -model=g71"),
        (kinds.adreno(), "opencl -device=adreno -model=unknown"),
        (
            kinds.intel_graphics(),
            "opencl -device=intel_graphics -model=unknown -thread_warp_size=16",
        ),
        (
            kinds.arm_cpu("rk3399", ["-num-cores=2"]),
            "llvm -keys=arm_cpu,cpu -device=arm_cpu -model=rk3399 -mtriple=aarch64-linux-gnu "
            "-mattr=+neon -num-cores=2",
        ),
        (
            kinds.riscv_cpu("sifive-e31"),
            "llvm -model=sifive-e31 -mtriple=riscv32-unknown-linux-gnu -mcpu=sifive-e31 -mabi=ilp32",
        ),
    ],
)
def test_short_forms(made, text):
    assert made == Target(text)
    assert Target(str(made)) == made


def test_a_kind_without_code_generator():
    @T.prim_func
    def one(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = 1.0

    with pytest.raises(LoopwrightError, match="opencl"):
        lw.compile(one, target=kinds.mali())


@pytest.mark.parametrize(
    ("kind", "limits"),
    [
        ("metal", {"thread_warp_size": 16, "max_function_args": 31}),
        ("rocm", {"thread_warp_size": 64}),
        ("opencl", {"max_function_args": 128}),
    ],
)
def test_limits_of_gpus_are_tvm_s(kind: str, limits: dict[str, int]) -> None:
    found = Target(kind)
    assert {name: found.attrs[name] for name in limits} == limits
