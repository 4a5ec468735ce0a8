"""Targets: strings, dicts, tags, hosts, scope, facts about CPUs."""

from __future__ import annotations

import pickle

import pytest

from loopwright.ir import Target, load_json, save_json, structural_equal
from loopwright.ir import target as targets
from loopwright.ir.cpu_info import usable_cores


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
    assert Target.canon_target(None) is None


def test_tags():
    target = Target("nvidia/geforce-rtx-3090")
    assert (target.arch, target.tag) == ("sm_86", "nvidia/geforce-rtx-3090")
    assert target.max_num_threads == 1024
    assert Target({"tag": "nvidia/geforce-rtx-3090"}).arch == "sm_86"
    assert "nvidia/nvidia-h100" in targets.list_tags()


def test_scope():
    assert Target.current() is None
    with pytest.raises(ValueError) as error:
        Target.current(allow_none=False)
    assert str(error.value) == 'no target is set\n  instead: use `with Target("llvm"):`'
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


def test_features_agree_with_llvm():
    llvm = pytest.importorskip("llvmlite.binding")
    theirs = {name for name, on in llvm.get_host_cpu_features().items() if on}
    ours = Target("llvm -mcpu=native").features
    wanted = {"avx", "avx2", "fma", "avx512f", "avx512bw", "avx512bf16", "sse4.2", "neon", "sve"}
    assert ours & wanted == theirs & wanted


def test_from_device():
    assert Target.from_device("cpu").mcpu == "native"
    assert Target.from_device("cuda:0").kind.name == "cuda"
    with pytest.raises(ValueError, match="no target is known for this device\n  got: tpu"):
        Target.from_device("tpu")


def test_short_forms():
    assert targets.create("llvm") == Target("llvm")
    assert targets.cuda(arch="sm_80").arch == "sm_80"
    assert targets.arm_cpu().keys == ("arm_cpu", "cpu")
