"""Numbers of the code made for fixed processors: what a change of a schedule or of code generation does
to registers, memory and size, on any machine and without a clock.

A row of tests/golden/numbers counts the kernels of a program (without its graph function): instructions,
vector multiply-adds, loads, stores, spills with their reloads, bytes of code. Counts are of the code as it
stands, not of what runs. `memory` are the bytes planned for intermediate results, with 16 for each length
that is not known.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import loopwright as lw
from benchmarks.models import mlp
from loopwright import relay
from loopwright.arith import Analyzer
from loopwright.codegen.llvm import compiler
from loopwright.codegen.llvm.executable import Executable
from loopwright.codegen.llvm.machine import resolve
from loopwright.codegen.llvm.program import GRAPH, compile_options
from loopwright.codegen.objects import ElfObject
from loopwright.frontend.onnx import from_onnx
from loopwright.ir.functor import post_order_visit
from loopwright.ir.module import IRModule
from loopwright.ir.prim_expr import IntImm
from loopwright.ir.variables import substitute, vars_in
from loopwright.relay import testing
from loopwright.tir.function import PrimFunc
from loopwright.tir.stmt import Allocate
from tools.demo import BUNDLED

from ..house.source import ROOT
from ..programs import graph
from ..replay.models import model
from .test_c_models import Mlp, Transformer, network

# Other versions of LLVM choose other instructions. With a new one, make the goldens again.
LLVM = (22, 1)
pytestmark = [
    pytest.mark.no_roundtrip,  # programs that other tests print and parse
    pytest.mark.no_verify,
    pytest.mark.skipif(
        llvm.llvm_version_info[:2] != LLVM,
        reason=f"numbers are of LLVM {LLVM}; got: {llvm.llvm_version_info}",
    ),
]

# Nothing of the host enters: no target is the host's, whose caches schedules would ask for.
TARGETS = {
    "haswell": "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=4",
    "cooperlake": "llvm -mtriple=x86_64-linux-gnu -mcpu=cooperlake -num-cores=4",
    "neoverse-n1": "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -num-cores=4",
}

Shapes = Mapping[str, tuple[int | str, ...]]
# Layers of known networks: bodies, parameters, and weights, which are constants.
LAYERS: dict[str, tuple[str, Shapes, Shapes]] = {
    "dense of one row": (
        "a = R.matmul(x, w); b = R.add(a, c); y = R.nn.relu(b)",
        {"x": (1, 784)},
        {"w": (784, 128), "c": (128,)},
    ),
    "dense gelu": (
        "a = R.matmul(x, w); b = R.add(a, c); y = R.nn.gelu(b)",
        {"x": (128, 256)},
        {"w": (256, 1024), "c": (1024,)},
    ),
    "dense of any rows": (
        "a = R.matmul(x, w); y = R.add(a, r)",
        {"x": ("n", 768), "r": ("n", 256)},
        {"w": (768, 256)},
    ),
    "conv 7x7 stride 2": (
        "a = R.nn.conv2d(x, w, strides=[2, 2], padding=[3, 3, 3, 3]); y = R.nn.relu(a)",
        {"x": (1, 3, 224, 224)},
        {"w": (64, 3, 7, 7)},
    ),
    "conv 3x3": (
        "a = R.nn.conv2d(x, w, padding=[1, 1, 1, 1]); y = R.nn.relu(a)",
        {"x": (1, 64, 56, 56)},
        {"w": (64, 64, 3, 3)},
    ),
    "conv 3x3 stride 2": (
        "a = R.nn.conv2d(x, w, strides=[2, 2], padding=[1, 1, 1, 1]); y = R.nn.relu(a)",
        {"x": (1, 64, 56, 56)},
        {"w": (128, 64, 3, 3)},
    ),
    "conv 1x1": (
        "a = R.nn.conv2d(x, w); b = R.add(a, r); y = R.nn.relu(b)",
        {"x": (1, 64, 56, 56), "r": (1, 128, 56, 56)},
        {"w": (128, 64, 1, 1)},
    ),
    "conv 1x1 stride 2": (
        "y = R.nn.conv2d(x, w, strides=[2, 2])",
        {"x": (1, 64, 28, 28)},
        {"w": (128, 64, 1, 1)},
    ),
    "conv 3x3 channels last": (
        'y = R.nn.conv2d(x, w, padding=[1, 1, 1, 1], data_layout="NHWC", kernel_layout="HWIO")',
        {"x": (1, 28, 28, 32)},
        {"w": (3, 3, 32, 64)},
    ),
    "conv 3x3 groups": (
        "y = R.nn.conv2d(x, w, padding=[1, 1, 1, 1], groups=32)",
        {"x": (1, 128, 28, 28)},
        {"w": (128, 4, 3, 3)},
    ),
    "depthwise 3x3": (
        "a = R.nn.conv2d(x, w, padding=[1, 1, 1, 1], groups=96); y = R.clip(a, 0, 6)",
        {"x": (1, 96, 56, 56)},
        {"w": (96, 1, 3, 3)},
    ),
    "depthwise 5x5 stride 2": (
        "a = R.nn.conv2d(x, w, strides=[2, 2], padding=[2, 2, 2, 2], groups=96); y = R.nn.silu(a)",
        {"x": (1, 96, 28, 28)},
        {"w": (96, 1, 5, 5)},
    ),
    "conv 4x4 transposed": (
        "y = R.nn.conv2d_transpose(x, w, strides=[2, 2], padding=[1, 1, 1, 1])",
        {"x": (1, 32, 16, 16)},
        {"w": (32, 16, 4, 4)},
    ),
    "max pool 3x3": (
        "y = R.nn.max_pool2d(x, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1])",
        {"x": (1, 64, 112, 112)},
        {},
    ),
    "mean of images": ("y = R.nn.adaptive_avg_pool2d(x, [1, 1])", {"x": (1, 512, 7, 7)}, {}),
    "softmax of classes": ("y = R.nn.softmax(x, axis=-1)", {"x": (1, 1000)}, {}),
    "attention of 4 heads": (
        "y = R.nn.attention(q, k, v)",
        dict.fromkeys("qkv", (1, 64, 4, 32)),
        {},
    ),
}
# Of the small graphs, those whose code is of one kind and not of a few odd elements.
SMALL = [
    "product",
    "odd_product",
    "product_by_transposed",
    "products_of_batches",
    "product_of_any_rows",
    "product_of_halves",
    "product_of_bytes",
    "two_products",
    "pointwise_convolution",
    "convolution_of_any_size",
    "convolution_1d",
    "convolution_3d",
    "average_pool",
    "softmax_of_columns",
    "log_softmax_of_any_size",
    "layer_norm",
    "rms_norm",
    "group_norm",
    "batch_norm",
    "attention_of_any_length",
    "sums",
    "all_of_a_sum",
    "deviation",
    "places_of_maxima",
    "running_sums",
    "sorted",
    "joined",
    "taken",
    "turned",
    "elementwise",
    "elementwise_of_any_size",
    "whole_numbers",
    "quantized",
]
Built = Callable[[str], Executable]  # from a target


def layer(body: str, parameters: Shapes, weights: Shapes) -> IRModule:
    """A layer whose weights are constants, as those of a trained network."""
    rng = np.random.default_rng(0)
    values = {k: rng.normal(size=shape).astype("float32") for k, shape in weights.items()}
    for name in values:
        body = re.sub(rf"\b{name}\b(?!=)", f"R.const({name})", body)
    return graph(body, values=values, **parameters)


def compiled(make: Callable[[], IRModule]) -> Built:
    return lambda target: lw.compile(make(), target)


def relayed(workload: Callable[..., tuple[IRModule, dict[str, Any]]], *args: Any) -> Built:
    """A network of `relay.testing`, with its random parameters."""

    def build(target: str) -> Executable:
        mod, params = workload(*args)
        return relay.build(mod, target=target, params=params).lib

    return build


KERNELS: dict[str, Built] = {
    **{name: compiled(partial(layer, *row)) for name, row in LAYERS.items()},
    **{name: compiled(partial(model, name)) for name in SMALL},
}
SMALL_IMAGE = (3, 32, 32)
MODELS: dict[str, Built] = {
    "digits": compiled(lambda: from_onnx(str(BUNDLED))),
    "mlp of any rows": compiled(lambda: from_onnx(mlp("n"))),
    "transformer block": compiled(lambda: network(Transformer(64, 4), 64)[0]),
    "small layers": compiled(lambda: network(Mlp(), 32)[0]),
    "lenet": relayed(testing.lenet.get_workload, 1),
    "dqn": relayed(testing.dqn.get_workload, 1),
    "lstm": relayed(testing.lstm.get_workload, 2, 16),
    "dcgan": relayed(testing.dcgan.get_workload, 1),
    "synthetic": relayed(testing.synthetic.get_workload),
    "mobilenet": relayed(testing.mobilenet.get_workload, 1, 1000, SMALL_IMAGE),
    "squeezenet": relayed(testing.squeezenet.get_workload, 1, 1000, "1.0", (3, 64, 64)),
    "resnet-18": relayed(testing.resnet.get_workload, 1, 10, 18, SMALL_IMAGE),
}

SLOW = dict.fromkeys(["squeezenet", "resnet-18"], pytest.mark.slow)
PROGRAMS = KERNELS | MODELS

COLUMNS = ["kernels", "instructions", "fma", "loads", "stores", "spills", "bytes", "memory"]
GOLDEN = ROOT / "tests" / "golden" / "numbers"

# ------------------------------------------------------------------------------------- counting

_LINE = re.compile(r"\t(?P<word>[a-z]\S*)(?:\t(?P<operands>[^#/]*))?(?:(?:#|//)(?P<comment>.*))?")
_X86_FMA = r"vfn?m(add|sub|addsub|subadd)\d+p\w|vpdp\w+|vdpbf16ps|vpmadd\w+"
_ARM_FMA = r"fml[as]l?2?|ml[as]|[su]ml[as]l2?|[su]dot|usdot|bfdot|[su]mmla|bfmmla"
_FMA = re.compile(f"{_X86_FMA}|{_ARM_FMA}")
# Not memory, although written as memory.
_NO_ACCESS = re.compile(r"lea|nop|prefetch")
# Of x86 instructions whose last operand is memory, those that only read it.
_ONLY_READS = re.compile(r"cmp|test|bt|i?div|i?mul|call|jmp|push")
_X86_MEMORY_LAST = re.compile(r"\)(\s*\{\S+)*\s*$")
# What aarch64 keeps for its caller is no spill of ours; LLVM's comments call it one.
_KEPT = re.compile(r"(d([89]|1[0-5])|x(19|2\d|30))(, (d([89]|1[0-5])|x(19|2\d|30)))?, \[")


def counted(assembly: str) -> Counter[str]:
    """How many instructions there are of each kind, in assembly with LLVM's comments."""
    found: Counter[str] = Counter()
    for line in assembly.splitlines():
        if not (match := _LINE.match(line)):
            continue
        word, operands, comment = (match[k] or "" for k in ("word", "operands", "comment"))
        found["instructions"] += 1
        found["fma"] += bool(_FMA.fullmatch(word))
        if _NO_ACCESS.match(word):
            continue
        if "(" in operands:  # x86
            stores = _X86_MEMORY_LAST.search(operands) and not _ONLY_READS.match(word)
            found["stores" if stores else "loads"] += 1
        elif word.startswith(("ld", "st")):  # aarch64
            found["stores" if word.startswith("st") else "loads"] += 1
        if re.search("Spill|Reload", comment) and not _KEPT.match(operands):
            found["spills"] += 1
    return found


def planned_bytes(func: PrimFunc) -> int:
    """The memory that a graph function allocates, with 16 for each length that is not known."""
    sizes: list[int] = []

    def add(node: object) -> None:
        if isinstance(node, Allocate):
            known = {v: IntImm(v.dtype, 16) for v in vars_in(node.extents)}
            extents = (Analyzer().simplify(substitute(e, known)) for e in node.extents)
            sizes.append(math.prod(int(e) for e in extents) * node.dtype.itemsize)

    post_order_visit(func, add)
    return sum(sizes)


def numbers(exe: Executable) -> dict[str, int]:
    """The columns of a row."""
    kernels = [name for name in exe.program.texts if name != GRAPH]
    machine = resolve(*compile_options(exe.target))
    found = Counter(kernels=len(kernels))
    for name in kernels:
        found += counted(compiler.assembly(exe.program.text(name), *machine, comments=True))
        sections = ElfObject(exe.program.objects[name]).sections
        found["bytes"] += sum(s.size for s in sections if s.flags & 4)  # executable
    for gvar, func in exe.lowered.functions.items():
        if isinstance(func, PrimFunc) and gvar.name_hint not in kernels:
            found["memory"] += planned_bytes(func)
    return {column: found[column] for column in COLUMNS}


def written(rows: Mapping[str, Mapping[str, int]]) -> str:
    """Rows as text: every number has its name beside it, so that a line of a diff says it all."""
    widths = {c: max(len(str(row[c])) for row in rows.values()) for c in COLUMNS}
    wide = max(map(len, rows))
    return "".join(
        f"{name:<{wide}}  {'  '.join(f'{c} {row[c]:>{widths[c]}}' for c in COLUMNS)}\n"
        for name, row in rows.items()
    )


def read(text: str) -> dict[str, dict[str, int]]:
    """What was `written`."""
    rows = (re.split(r"  +", line, maxsplit=1) for line in text.splitlines())
    return {
        name: {column: int(number) for column, number in re.findall(r"(\w+) +(\d+)", row)}
        for name, row in rows
    }


@pytest.fixture
def check(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], None]:
    """`check(name, cpu)`: a program's numbers are those of its row in golden/numbers/CPU.txt."""
    monkeypatch.setenv("LOOPWRIGHT_BUDGET_SECONDS", "0")  # a slow machine gets all its time

    def check(name: str, cpu: str) -> None:
        path = GOLDEN / f"{cpu}.txt"
        known = read(path.read_text(encoding="utf-8")) if path.exists() else {}
        got = numbers(PROGRAMS[name](TARGETS[cpu]))
        if request.config.getoption("--update-golden"):
            rows = known | {name: got}
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(written({n: rows[n] for n in PROGRAMS if n in rows}), encoding="utf-8")
            return
        old = known.get(name, {})
        changes = [f"{c} {old.get(c)} -> {got[c]}" for c in COLUMNS if old.get(c) != got[c]]
        if changes:
            note = f"if this is meant: pytest {Path(__file__).relative_to(ROOT)} --update-golden"
            pytest.fail(f"{name} on {cpu}: {', '.join(changes)}\n{note}", pytrace=False)

    return check


@pytest.mark.sample(8)
@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str, cpu: str, check: Callable[[str, str], None]) -> None:
    check(name, cpu)


@pytest.mark.sample(12)
@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("name", [pytest.param(m, marks=SLOW.get(m, ())) for m in MODELS])
def test_models(name: str, cpu: str, check: Callable[[str, str], None]) -> None:
    check(name, cpu)


@pytest.mark.parametrize("cpu", TARGETS)
def test_each_row_has_a_program(cpu: str) -> None:
    text = (GOLDEN / f"{cpu}.txt").read_text(encoding="utf-8")
    assert list(read(text)) == list(PROGRAMS)
    assert written(read(text)) == text


X86 = """
lw.kernel:                              # @lw.kernel
	pushq	%rbx
	movq	%rax, -112(%rsp)                # 8-byte Spill
.LBB0_1:                                # =>This Inner Loop Header: Depth=1
	leaq	8(%rdi,%rax), %rcx
	vmovups	(%rdi,%rax,4), %ymm0
	vfmadd231ps	.LCPI0_0(%rip){1to8}, %ymm1, %ymm2
	vfmadd213ss	%xmm3, %xmm2, %xmm1     # xmm1 = (xmm2 * xmm1) + xmm3
	vpdpbusd	%zmm1, %zmm2, %zmm3
	vmovups	%zmm0, 64(%rsi) {%k1}
	cmpl	$5, 12(%rdx)
	addq	-120(%rsp), %r10                # 8-byte Folded Reload
	.p2align	4
	vzeroupper
	retq
"""
ARM = """
	stp	d15, d14, [sp, #-160]!          // 16-byte Folded Spill
	str	q0, [sp, #1872]                 // 16-byte Spill
	ldp	q1, q2, [x0]
	fmla	v0.4s, v1.4s, v2.s[1]
	fmadd	s0, s1, s2, s3
	udot	v0.4s, v1.16b, v2.16b
	prfm	pldl1keep, [x1]
	ret
"""


def test_counts() -> None:
    """By hand, of lines that LLVM wrote."""
    keys = ("instructions", "fma", "loads", "stores", "spills")
    assert counted(X86) == dict(zip(keys, (12, 2, 4, 2, 2), strict=True))
    assert counted(ARM) == dict(zip(keys, (8, 2, 1, 2, 1), strict=True))
