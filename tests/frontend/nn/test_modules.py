"""Modules and operators of nn: numbers against numpy, parameters, dtypes, mutation."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

from loopwright import relax, te, tir
from loopwright.frontend import nn
from loopwright.frontend.nn import op, spec
from loopwright.script import tir as T


def run(module, *arrays, **values):
    """Export `forward`, run it by the graph interpreter on the arrays and the parameters' values."""
    names = inspect.signature(module.forward).parameters
    given = {n: spec.Tensor(a.shape, str(a.dtype)) for n, a in zip(names, arrays)}
    mod, params = module.export_tvm({"forward": given})
    assert relax.analysis.well_formed(mod)
    weights = [values[name] for name, _ in params]
    got = relax.interpreter.Interpreter(mod)["forward"](*arrays, *weights)
    return tuple(g.numpy() for g in got) if isinstance(got, (list, tuple)) else got.numpy()


def rand(*shape, dtype="float32"):
    rng = np.random.default_rng(abs(hash(shape)) % 1000)
    return rng.standard_normal(shape).astype(dtype)


def fn(body):
    """A module whose forward is `body`."""

    class Two(nn.Module):
        def forward(self, x, y):
            return body(x, y)

    class One(nn.Module):
        def forward(self, x):
            return body(x)

    return Two() if body.__code__.co_varnames[:2] == ("x", "y") else One()


UNARY = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "exp": np.exp,
    "negative": np.negative,
    "square": np.square,
    "floor": np.floor,
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    "softplus": lambda x: np.log1p(np.exp(x)),
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    x = rand(3, 4)
    np.testing.assert_allclose(run(fn(getattr(op, name)), x), UNARY[name](x), rtol=1e-5, atol=1e-6)


BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
}


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    x, y = rand(3, 4), rand(4)
    y[0] = x[1, 0]
    made = run(fn(lambda x, y: getattr(op, name)(x, y)), x, y)
    np.testing.assert_allclose(made, BINARY[name](x, y), rtol=1e-6)


def test_python_operators():
    def body(x, y):
        return 2.0 * x + y - x / y, 1 - x, -x, x < y, x >= 0.5, x @ y.permute_dims(1, 0)

    x, y = rand(3, 4), rand(3, 4) + 3
    made = run(fn(body), x, y)
    wanted = (2 * x + y - x / y, 1 - x, -x, x < y, x >= 0.5, x @ y.T)
    for a, b in zip(made, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_two_numbers_are_no_operands():
    with pytest.raises(TypeError, match="needs an nn.Tensor"):
        op.add(1, 2)


def test_shapes():
    def body(x):
        a, b = op.split(x, [1], axis=1)
        return (
            op.concat([b, a], dim=1),
            op.chunk(x, 2, dim=1)[1],
            op.unsqueeze(x, 1),
            op.squeeze(op.unsqueeze(x, 0), 0),
            x.reshape(2, -1),
            op.repeat(x, 2, axis=0),
            op.broadcast_to(x, [2, 3, 4]),
            op.triu(x, 1),
            op.pad(x, [1, 0, 0, 2], value=5.0),
            x.astype("float16"),
            op.cumsum(x, axis=0),
            op.sort(x),
            op.argsort(x, descending=True),
            *op.topk(x, 2),
            op.where(x > 0.0, x, 0.0),
            op.sum(x, axis=1),
            op.max(x, axis=0, keepdims=True),
            op.min(x),
            op.arange(3),
            op.zeros([2]),
        )

    x = rand(3, 4)
    top = np.sort(x)[:, :-3:-1]
    wanted = (
        np.concatenate([x[:, 1:], x[:, :1]], 1),
        x[:, 2:],
        x[:, None],
        x,
        x.reshape(2, 6),
        np.repeat(x, 2, 0),
        np.broadcast_to(x, (2, 3, 4)),
        np.triu(x, 1),
        np.pad(x, [(1, 0), (0, 2)], constant_values=5),
        x.astype("float16"),
        np.cumsum(x, 0),
        np.sort(x),
        np.argsort(-x).astype("int32"),
        top,
        np.argsort(-x)[:, :2].astype("int32"),
        np.where(x > 0, x, 0),
        x.sum(1),
        x.max(0, keepdims=True),
        x.min(),
        np.arange(3, dtype="float32"),
        np.zeros(2, "float32"),
    )
    for a, b in zip(run(fn(body), x), wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_linear_with_its_own_output_dtype():
    class Model(nn.Module):
        def __init__(self):
            self.fc = nn.Linear(4, 3, dtype="float16", out_dtype="float32")

        def forward(self, x):
            return self.fc(x)

    model = Model()
    assert model.fc.weight.dtype == "float16" and model.fc.bias.dtype == "float32"
    model.to("float32")
    assert (model.fc.weight.dtype, model.fc.bias.dtype) == ("float32", "float32")


def test_embedding():
    class Model(nn.Module):
        def __init__(self):
            self.table = nn.Embedding(5, 3)

        def forward(self, x):
            return self.table(x)

    table, x = rand(5, 3), np.array([[0, 4], [2, 2]], "int32")
    np.testing.assert_array_equal(run(Model(), x, **{"table.weight": table}), table[x])


def test_normalizations():
    class Model(nn.Module):
        def __init__(self):
            self.layer = nn.LayerNorm(4)
            self.rms = nn.RMSNorm(4, -1)
            self.plain = nn.LayerNorm(4, elementwise_affine=False)
            self.group = nn.GroupNorm(2, 6)

        def forward(self, x):
            return self.layer(x), self.rms(x), self.plain(x), self.group(x)

    x = rand(2, 6, 4)
    g, b, c, d = rand(4), rand(4), rand(6), rand(6)
    weights = {"layer.weight": g, "layer.bias": b, "rms.weight": g, "rms.bias": b}
    made = run(Model(), x, **weights, **{"group.weight": c, "group.bias": d})
    normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    rms = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g + b
    cut = x.reshape(2, 2, 12)
    cut = (cut - cut.mean(-1, keepdims=True)) / np.sqrt(cut.var(-1, keepdims=True) + 1e-5)
    group = cut.reshape(2, 6, 4) * c[:, None] + d[:, None]
    for a, e in zip(made, (normal * g + b, rms, normal, group), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-5)


def test_convolutions():
    class Model(nn.Module):
        def __init__(self):
            self.one = nn.Conv1D(2, 3, 3, padding=1)
            self.two = nn.Conv2D(2, 4, (1, 3), stride=2, groups=2, bias=False)
            self.three = nn.Conv3D(2, 3, 2)
            self.back = nn.ConvTranspose1D(2, 3, 2, stride=2)

        def forward(self, x, y):
            wide = op.unsqueeze(x, 2)
            return self.one(x), self.two(wide), self.three(y), self.back(x)

    x, y = rand(1, 2, 6), rand(1, 2, 3, 3, 3)
    weights = {
        "one.weight": rand(3, 2, 3),
        "one.bias": rand(3),
        "two.weight": rand(4, 1, 1, 3),
        "three.weight": rand(3, 2, 2, 2, 2),
        "three.bias": rand(3),
        "back.weight": rand(2, 3, 2),
        "back.bias": rand(3),
    }
    one, two, three, back = run(Model(), x, y, **weights)
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 3, 2)
    wanted = np.einsum("nitk,oik->not", windows, weights["one.weight"])
    np.testing.assert_allclose(one, wanted + weights["one.bias"][:, None], rtol=1e-5, atol=1e-5)
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, 2)[:, :, ::2]
    wanted = np.einsum("ngtk,gok->ngot", windows, weights["two.weight"].reshape(2, 2, 3))
    np.testing.assert_allclose(two[:, :, 0], wanted.reshape(1, 4, 2), rtol=1e-5, atol=1e-5)
    windows = np.lib.stride_tricks.sliding_window_view(y, (2, 2, 2), (2, 3, 4))
    wanted = np.einsum("nidhwabc,oiabc->nodhw", windows, weights["three.weight"])
    wanted = wanted + weights["three.bias"][:, None, None, None]
    np.testing.assert_allclose(three, wanted, rtol=1e-5, atol=1e-5)
    wanted = np.einsum("nit,iok->notk", x, weights["back.weight"]).reshape(1, 3, 12)
    np.testing.assert_allclose(back, wanted + weights["back.bias"][:, None], rtol=1e-5, atol=1e-5)


def test_attention():
    class Model(nn.Module):
        def __init__(self):
            self.attention = nn.Attention(4, heads=2, dim_head=3, out_bias=False)

        def forward(self, x):
            return self.attention(x)

    x = rand(1, 5, 4)
    q, k, v, out = rand(6, 4), rand(6, 4) + 1, rand(6, 4) - 1, rand(4, 6)
    names = ("to_q", "to_k", "to_v", "to_out.0")
    weights = {f"attention.{n}.weight": w for n, w in zip(names, (q, k, v, out))}
    heads = [(x[0] @ w.T).reshape(5, 2, 3).transpose(1, 0, 2) for w in (q, k, v)]
    scores = heads[0] @ heads[1].transpose(0, 2, 1) / math.sqrt(3)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = scores / scores.sum(-1, keepdims=True) @ heads[2]
    wanted = mixed.transpose(1, 0, 2).reshape(5, 6) @ out.T
    np.testing.assert_allclose(run(Model(), x, **weights)[0], wanted, rtol=1e-4, atol=1e-5)


def test_timesteps():
    class Model(nn.Module):
        def __init__(self):
            self.steps = nn.Timesteps(4)
            self.embed = nn.TimestepEmbedding(4, 3)

        def forward(self, x):
            return self.steps(x), self.embed(self.steps(x))

    x = np.array([0, 1, 10], "float32")
    first, second = rand(3, 4), rand(3, 3)
    weights = {"linear_1.weight": first, "linear_2.weight": second}
    weights |= {"linear_1.bias": rand(3), "linear_2.bias": rand(3)}
    made, embedded = run(Model(), x, **{f"embed.{k}": v for k, v in weights.items()})
    angles = x[:, None] * np.exp(-math.log(10000) * np.arange(2) / 1)
    wanted = np.concatenate([np.sin(angles), np.cos(angles)], 1)
    np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)
    hidden = wanted @ first.T + weights["linear_1.bias"]
    hidden = hidden / (1 + np.exp(-hidden))
    wanted = hidden @ second.T + weights["linear_2.bias"]
    np.testing.assert_allclose(embedded, wanted, rtol=1e-4, atol=1e-5)


def test_own_kernels():
    @T.prim_func(private=True)
    def double(a: T.Buffer((T.int64(3),), "float32"), b: T.Buffer((T.int64(3),), "float32")):
        for i in range(T.int64(3)):
            with T.block("b"):
                vi = T.axis.spatial(T.int64(3), i)
                b[vi] = a[vi] * T.float32(2)

    def body(x):
        like = nn.Tensor.placeholder((3,), "float32")
        shifted = op.tensor_expr_op(
            lambda a, n: te.compute(a.shape, lambda i: a(i) + tir.Cast("float32", n), name="s"),
            "shift",
            [x, tir.IntImm("int64", 3)],
        )
        return shifted, op.tensor_ir_op(double, "double", [x], like)

    x = rand(3)
    shifted, doubled = run(fn(body), x)
    np.testing.assert_allclose(shifted, x + 3)
    np.testing.assert_allclose(doubled, x * 2)


def test_parameters_and_state():
    class Model(nn.Module):
        def __init__(self):
            self.parts = nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.Identity()})
            self.own = nn.Parameter((2,), "float16")

    model = Model()
    names = ["parts.a.weight", "parts.a.bias", "own"]
    assert [n for n, _ in model.named_parameters()] == names
    assert list(model.state_dict(prefix="m")) == [f"m.{n}" for n in names]
    assert repr(model.own) == 'Tensor([2], "float16")'
    missing, unknown = model.load_state_dict({"own": np.ones(2, "float16"), "x": 1}, strict=False)
    assert (missing, unknown) == (names[:2], ["x"])
    model.to("float32")
    assert model.own.dtype == "float32" and str(model.own.data.dtype) == "float32"
    with pytest.raises(KeyError, match="missing parts.a.weight"):
        model.load_state_dict({"own": np.ones(2, "float32")})
    with pytest.raises(ValueError, match="must fit it"):
        model.own.data = np.ones(3, "float32")


def test_default_dtype():
    assert nn.get_default_dtype() == "float32"
    nn.set_default_dtype("float16")
    try:
        assert nn.Linear(2, 2).weight.dtype == "float16"
    finally:
        nn.set_default_dtype("float32")


def test_mutator():
    class Replace(nn.Mutator):
        def visit_module(self, name, node):
            if isinstance(node, nn.ReLU):
                self.seen.append(name)
                return nn.SiLU()
            return self.visit(name, node)

    class Model(nn.Module):
        def __init__(self):
            self.parts = nn.ModuleList([nn.ReLU(), nn.Identity()])
            self.act = nn.ReLU()

    replace = Replace()
    replace.seen = []
    model = replace.visit("", Model())
    assert replace.seen == ["parts.0", "act"]
    assert isinstance(model.parts[0], nn.SiLU) and isinstance(model.act, nn.SiLU)


@pytest.mark.parametrize(
    ("mode", "corners", "expected"),
    [
        ("nearest", None, [0, 0, 1, 1]),
        ("bilinear", True, [0, 1 / 3, 2 / 3, 1]),
        ("bilinear", None, [0, 0.25, 0.75, 1]),
    ],
)
def test_images_of_another_size(mode, corners, expected):
    x = np.broadcast_to(np.arange(2, dtype="float32"), (1, 1, 2, 2)).copy()
    how = {"mode": mode, "align_corners": corners}
    by_size = run(fn(lambda x: op.interpolate(x, size=[2, 4], **how)), x)
    by_factor = run(fn(lambda x: op.interpolate(x, scale_factor=(1, 2), **how)), x)
    for made in (by_size, by_factor):
        np.testing.assert_allclose(made, np.broadcast_to(np.float32(expected), made.shape), 1e-6)
    with pytest.raises(NotImplementedError, match="interpolate has no antialias"):
        run(fn(lambda x: op.interpolate(x, size=[2, 4], antialias=True)), x)


def test_floats_for_functions_are_of_64_bits():
    class Calls(nn.Module):
        def forward(self, x):
            return op.extern("f", [x, 0.5, 2], nn.Tensor.placeholder((2,), "float32"))

    mod, _ = Calls().export_tvm({"forward": {"x": spec.Tensor((2,), "float32")}})
    call = mod["forward"].body.blocks[0].bindings[0].value
    assert [str(a.struct_info.dtype) for a in call.args[1].fields] == [
        "float32",
        "float64",
        "int64",
    ]
