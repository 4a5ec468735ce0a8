"""Planned memory of whole models is near the bound, and the models make what they did."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import loopwright as lw
from loopwright import Arena, relax
from loopwright.backend import cpu
from loopwright.driver.steps import lower
from loopwright.frontend import nn
from loopwright.frontend.onnx import from_onnx
from loopwright.relax.interpreter import Interpreter
from loopwright.runtime import tensor
from loopwright.script import relax as R
from loopwright.tir.memory_plan import plan_of

pytestmark = pytest.mark.no_roundtrip  # whole models


class MLP(nn.Module):
    def __init__(self):
        self.layers = nn.ModuleList([nn.Linear(784, 256), nn.Linear(256, 128), nn.Linear(128, 10)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = nn.op.relu(layer(x))
        return nn.op.softmax(self.layers[-1](x))


class Block(nn.Module):
    def __init__(self, width, heads):
        self.width, self.heads = width, heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, rows, _ = x.shape
        split = (batch, rows, self.heads, self.width // self.heads)
        parts = nn.op.split(self.qkv(self.first(x)), 3, axis=2)
        q, k, v = (nn.op.permute_dims(nn.op.reshape(p, split), [0, 2, 1, 3]) for p in parts)
        scores = nn.op.matmul(q, nn.op.permute_dims(k, [0, 1, 3, 2])) * split[3] ** -0.5
        mixed = nn.op.matmul(nn.op.softmax(scores), v)
        mixed = nn.op.reshape(nn.op.permute_dims(mixed, [0, 2, 1, 3]), (batch, rows, self.width))
        x = x + self.proj(mixed)
        return x + self.down(nn.op.gelu(self.up(self.second(x))))


class Transformer(nn.Module):
    def __init__(self):
        self.blocks = nn.ModuleList([Block(64, 4) for _ in range(2)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def of_module(module, shape):
    """A module with its weights bound, and an input."""
    spec = {"forward": {"x": nn.spec.Tensor(shape, "float32")}}
    mod, params = module.export_tvm(spec)
    rng = np.random.default_rng(0)
    weights = [tensor((rng.normal(size=p.shape) * 0.1).astype("float32")) for _, p in params]
    func = mod["forward"]
    bound = dict(zip(func.params[1:], weights, strict=True))
    mod = lw.IRModule({"main": func.with_attr("global_symbol", "main")})
    mod = lw.relax.transform.BindParams("main", bound)(mod)
    return mod, rng.normal(size=shape).astype("float32")


@pytest.fixture
def model(zoo):
    """A model of static shapes and its inputs, by name."""

    def get(name):
        if name == "mlp":
            mod, x = of_module(MLP(), (4, 784))
            return mod, [x]
        if name == "transformer":
            mod, x = of_module(Transformer(), (1, 32, 64))
            return mod, [x]
        found = zoo(name)
        feeds = found.cases[0].feeds
        shapes = {k: list(v.shape) for k, v in feeds.items()}
        return from_onnx(onnx.load(found.path), shape_dict=shapes), list(feeds.values())

    return get


MODELS = [
    ("centerface", "c"),
    ("ppocr-cls", "c"),
    ("mlp", "c"),
    ("mlp", "llvm"),
    ("transformer", "c"),
    ("transformer", "llvm"),
]


@pytest.mark.sample(6)
@pytest.mark.parametrize(("name", "target"), MODELS)
def test_the_workspace_is_near_the_bound(model, name, target):
    mod, _ = model(name)
    lowered = lower(mod, target=target, arenas=["ram"])["tir.PlanUnifiedMemory"].before
    for options in ({}, {"in_place": False}):
        made = lw.tir.transform.PlanUnifiedMemory(**options)(lowered)
        plan = plan_of(made["main"])
        print(name, target, options, plan.bytes, plan.bound, f"{plan.ratio:.4f}")
        assert plan.left == ()
        assert plan.bound > 0
        assert plan.bytes <= 1.05 * plan.bound


@pytest.mark.parametrize("name", ["mlp", pytest.param("transformer", marks=pytest.mark.slow)])
def test_a_model_in_two_arenas_makes_the_same(model, name):
    mod, inputs = model(name)
    plain = lw.compile(mod)
    whole = lw.compile(mod, arenas=["ram"])
    size = whole.memory_plan.bytes
    exe = lw.compile(mod, arenas=[Arena("sram", size * 2 // 3), Arena("dram")])
    assert exe.memory_plan.pools[0].bytes <= size * 2 // 3
    for made in (whole, exe):
        np.testing.assert_array_equal(made["main"](*inputs).numpy(), plain["main"](*inputs).numpy())
    with pytest.raises(lw.LoopwrightError, match="does not fit arena sram"):
        lw.compile(mod, arenas=[Arena("sram", size * 2 // 3)])


OPS = [
    lambda a, b: R.add(a, b),
    lambda a, b: R.multiply(a, R.sigmoid(b)),
    lambda a, b: R.nn.softmax(R.subtract(a, b)),
    lambda a, b: R.matmul(a, b),
    lambda a, b: R.permute_dims(a),
    lambda a, b: R.reshape(R.add(a, b), (8, 8)),
    lambda a, b: R.strided_slice(R.concat([a, b], 0), axes=[0], begin=[4], end=[12]),
    lambda a, b: R.broadcast_to(R.sum(a, axis=1, keepdims=True), (8, 8)),
    lambda a, b: R.cumsum(a, axis=0),
]


@given(
    choices=some.lists(
        some.tuples(some.integers(0, 8), some.integers(0, 3), some.integers(0, 3)),
        min_size=3,
        max_size=12,
    )
)
@settings(max_examples=12)
def test_random_graphs_make_the_same(choices):
    x = relax.Var("x", R.Tensor((8, 8), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        values = [x]
        with bb.dataflow():
            for op, i, j in choices:
                a, b = values[-1 - i % len(values)], values[-1 - j % len(values)]
                values.append(bb.emit(OPS[op](a, b)))
            out = bb.emit_output(values[-1])
        bb.emit_func_output(out)
    mod = bb.get()
    given_x = np.random.default_rng(0).uniform(-1, 1, (8, 8)).astype("float32")
    # Kernels keep nothing on the stack, and are not fused into a few.
    passes = [
        p for p in cpu.graph_pipeline(arenas=["ram"]).passes if p.name not in ("FuseOps", "FuseTIR")
    ]
    plan = lw.tir.transform.PlanUnifiedMemory(stack_bytes=0, pools="allocate")
    exe = lw.compile(
        mod, relax_pipeline=passes, tir_pipeline=[lw.tir.transform.default_tir_pipeline(), plan]
    )
    made = exe.memory_plan
    assert made is not None
    expected = np.asarray(Interpreter(mod)["main"](given_x))
    np.testing.assert_allclose(exe["main"](given_x).numpy(), expected, rtol=1e-4, atol=1e-4)
