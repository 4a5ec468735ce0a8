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


PYTHON_OPERATORS = [
    lambda x, y: 2.0 * x + y - x / y,
    lambda x, y: 2 + x * 3 - 1,
    lambda x, y: 1 - x,
    lambda x, y: 3 / y,
    lambda x, y: -x,
    lambda x, y: x < y,
    lambda x, y: x <= x,
    lambda x, y: x > 0.5,
    lambda x, y: x >= x,
]
METHODS = [
    (lambda x, y: x @ y.permute_dims(1, 0), lambda x, y: x @ y.T),
    (lambda x, y: y.permute_dims([1, 0]), lambda x, y: y.T),
    (lambda x, y: y.permute_dims(), lambda x, y: y.T),
    (lambda x, y: x.reshape([4, -1]), lambda x, y: x.reshape(4, 3)),
    (lambda x, y: x.reshape(12), lambda x, y: x.reshape(12)),
    (lambda x, y: x.maximum(0.25), lambda x, y: np.maximum(x, np.float32(0.25))),
    (lambda x, y: x.minimum(y), lambda x, y: np.minimum(x, y)),
    (lambda x, y: x.repeat(2), lambda x, y: x.repeat(2)),
    (lambda x, y: x.repeat(3, 1), lambda x, y: x.repeat(3, 1)),
    (lambda x, y: x.astype("int32"), lambda x, y: x.astype("int32")),
]


def test_python_operators():
    x, y = rand(3, 4), rand(3, 4) + 3
    cases = [*((f, f) for f in PYTHON_OPERATORS), *METHODS]
    made = run(fn(lambda x, y: tuple(f(x, y) for f, _ in cases)), x, y)
    for a, (_, wanted) in zip(made, cases, strict=True):
        assert a.dtype == wanted(x, y).dtype
        np.testing.assert_allclose(a, wanted(x, y), rtol=1e-5)


DEFAULTS = [
    (lambda x: op.softmax(x), lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    (lambda x: op.softmax(x, 0), lambda x: np.exp(x) / np.exp(x).sum(0)),
    (lambda x: op.softplus(x * 8.0), lambda x: np.where(8 * x > 20, 8 * x, np.log1p(np.exp(8 * x)))),
    (lambda x: op.softplus(x, 2.0), lambda x: np.log1p(np.exp(2 * x)) / 2),
    (lambda x: op.softplus(x, threshold=1.0), lambda x: np.where(x > 1, x, np.log1p(np.exp(x)))),
    (lambda x: op.sqrt(x * x), np.abs),
    (lambda x: op.log(op.exp(x)), lambda x: x),
    (lambda x: op.sum(x), lambda x: x.sum()),
    (lambda x: op.max(x), lambda x: x.max()),
    (lambda x: op.sum(x, [0], keepdims=True), lambda x: x.sum(0, keepdims=True)),
    (lambda x: op.min(x, 1), lambda x: x.min(1)),
    (lambda x: op.cumsum(x), lambda x: x.ravel().cumsum()),
    (lambda x: op.cumsum(x, 1, exclusive=True), lambda x: x.cumsum(1) - x),
    (lambda x: op.sort(x, 0, True), lambda x: -np.sort(-x, 0)),
    (lambda x: op.argsort(x), lambda x: np.argsort(x).astype("int32")),
    (lambda x: op.argsort(x, 0, dtype="int64"), lambda x: np.argsort(x, 0)),
    (lambda x: op.topk(x)[0], lambda x: x.max(-1, keepdims=True)),
    (lambda x: op.topk(x)[1], lambda x: x.argmax(-1)[:, None].astype("int32")),
    (lambda x: op.topk(x, 2, 0, "values", largest=False), lambda x: np.sort(x, 0)[:2]),
    (lambda x: op.squeeze(op.unsqueeze(x, -1)), lambda x: x),
    (lambda x: op.squeeze(op.unsqueeze(x, 0), None), lambda x: x),
    (lambda x: op.split(x, 3)[2], lambda x: x[2:]),
    (lambda x: op.chunk(x, 3)[1], lambda x: x[1:2]),
    (lambda x: op.permute(x, None), lambda x: x.T),
    (lambda x: op.repeat(x, 2), lambda x: x.repeat(2)),
    (lambda x: op.take(x.reshape(12), op.full([2], 3, "int32")), lambda x: x.ravel()[[3, 3]]),
    (lambda x: op.take(x, op.ones([2], "int64"), 1), lambda x: x[:, [1, 1]]),
    (lambda x: op.triu(x), np.triu),
    (lambda x: op.pad(x, [0, 1, 2, 0]), lambda x: np.pad(x, [(0, 1), (2, 0)])),
    (lambda x: op.pad(x, [1, 0, 0, 0], "edge"), lambda x: np.pad(x, [(1, 0), (0, 0)], "edge")),
    (lambda x: op.arange(2, 9, 3), lambda x: np.float32([2, 5, 8])),
    (lambda x: op.arange(1, 3, dtype="int64"), lambda x: np.array([1, 2])),
    (lambda x: op.full([2], op.sum(x)), lambda x: np.full(2, x.sum())),
    (lambda x: op.full([2], 1.5), lambda x: np.full(2, 1.5, "float32")),
    (lambda x: op.ones([2]), lambda x: np.ones(2, "float32")),
    (lambda x: op.empty([2, 0]), lambda x: np.empty((2, 0), "float32")),
    (lambda x: op.prelu(x, op.full([4], 0.5)), lambda x: np.where(x > 0, x, x / 2)),
    (lambda x: op.where(x > 0.0, 1.0, x), lambda x: np.where(x > 0, np.float32(1), x)),
    (lambda x: op.matmul(x, op.ones([4, 1]), "float16"), lambda x: (x @ np.ones((4, 1))).astype("f2")),
]  # fmt: skip


def test_arguments_left_out_and_given():
    x = rand(3, 4) * 3
    made = run(fn(lambda x: tuple(f(x) for f, _ in DEFAULTS)), x)
    for k, (a, (_, wanted)) in enumerate(zip(made, DEFAULTS, strict=True)):
        assert (a.dtype, a.shape) == (wanted(x).dtype, wanted(x).shape), k
        tolerance = 1e-2 if a.dtype == "float16" else 1e-5
        np.testing.assert_allclose(a, wanted(x), tolerance, tolerance, err_msg=str(k))


@pytest.mark.parametrize(
    ("use", "error", "text"),
    [
        (lambda x: op.gelu(x, "sigmoid"), ValueError, "unknown approximate"),
        (lambda x: x + "1", TypeError, "take nn.Tensors and numbers"),
        (lambda x: nn.Tensor(_expr=relax.ShapeExpr([2])), TypeError, "holds a tensor expression"),
        (lambda x: nn.Tensor.placeholder(["2n"], "float32"), ValueError, "given by its name"),
        (lambda x: nn.Module()(x), NotImplementedError, "Module has no forward"),
        (lambda x: nn.TimestepEmbedding(2, 2, "elu"), ValueError, "use one of silu, gelu, relu"),
        (lambda x: nn.op.extern("f", [x], relax.ShapeStructInfo([2])), TypeError, "a tensor or a"),
        (lambda x: nn.Tensor(_expr=relax.Var("v", relax.TensorStructInfo(ndim=2, dtype="int8"))).shape,
         ValueError, "known at run time only"),
    ],
)  # fmt: skip
def test_wrong_uses(use, error, text):
    with pytest.raises(error, match=text):
        run(fn(use), rand(2, 2))


def test_what_is_used_outside_of_an_export():
    x, y = (nn.Tensor.placeholder(shape, "float32") for shape in ((2, 3), (4, 3)))
    assert (
        op.concat([x, y], 0).shape == [6, 3]
        and repr(x.permute_dims()) == 'Tensor([3, 2], "float32")'
    )
    assert [p.shape for p in op.split(y, 2)] == [[2, 3]] * 2 and x.ndim == 2
    assert nn.Tensor.from_const(np.float64([1])).dtype == "float32"
    assert nn.Tensor.from_const(np.int64([1])).dtype == "int64"
    assert nn.Tensor.from_scalar(2, "int8").dtype == "int8"
    with pytest.raises(RuntimeError, match="no module is being exported"):
        nn.add_extern(None)
    with pytest.raises(RuntimeError, match="made while a method is exported"):
        nn.Object(_expr=relax.op.null_value(), _name="n")


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

    table = rand(5, 3)
    for x in (np.array([[0, 4], [2, 2]], "int32"), np.array([4, 0], "int64")):
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


def test_timesteps_with_a_condition():
    class Model(nn.Module):
        def __init__(self):
            self.plain = nn.TimestepEmbedding(2, 3, out_dim=1, post_act_fn="relu", cond_proj_dim=4)
            self.bare = nn.TimestepEmbedding(2, 3)

        def forward(self, x, y):
            return self.plain(x, y), self.plain(x), self.bare(x, y)

    x, y, model = rand(3, 2), rand(3, 4), Model()
    weights = {n: rand(*p.shape) for n, p in model.named_parameters()}
    made = run(model, x, y, **weights)

    def embedded(x, part):
        first, b, second, d = (
            weights[f"{part}.linear_{k}.{n}"] for k in "12" for n in ("weight", "bias")
        )
        hidden = x @ first.T + b
        return hidden / (1 + np.exp(-hidden)) @ second.T + d

    projected = x + y @ weights["plain.cond_proj.weight"].T
    wanted = [np.maximum(embedded(x, "plain"), 0) for x in (projected, x)]
    for a, b in zip(made, [*wanted, embedded(x, "bare")], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("flip", [False, True])
def test_odd_timesteps(flip):
    x = np.float32([0, 3])
    made = run(fn(lambda x: op.get_timestep_embedding(x, 5, flip, 0.5, 2, 100)), x)
    angles = 2 * x[:, None] * 100 ** -(np.arange(2) / 1.5)
    parts = [np.sin(angles), np.cos(angles)]
    wanted = np.concatenate([*parts[:: -1 if flip else 1], np.zeros((2, 1))], 1)
    np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)


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


def test_own_kernels_with_several_results():
    @T.prim_func(private=True)
    def both(a: T.handle, s: T.handle, d: T.handle, k: T.int64):
        n = T.int64()
        A, S, D = (T.match_buffer(v, (n,), "float32") for v in (a, s, d))
        for i in range(n):
            with T.block("b"):
                vi = T.axis.spatial(n, i)
                D[vi] = A[vi] * T.float32(2)
                S[vi] = A[vi] + T.Cast("float32", k)

    @T.prim_func(private=True)
    def changed(a: T.handle, d: T.handle, k: T.int64):
        n = T.int64()
        A, D = (T.match_buffer(v, (n,), "float32") for v in (a, d))
        for i in range(n):
            with T.block("b"):
                vi = T.axis.spatial(n, i)
                D[vi] = A[vi] * T.float32(2)
                A[vi] = A[vi] + T.Cast("float32", k)

    def body(x):
        like, n = nn.Tensor.placeholder(x.shape, "float32"), x.shape[0]
        out = op.tensor_ir_op(both, "both", [x, n], [like, like])
        args = ([x + 1.0, n], [0, -1], [like, like])
        return (*out, *op.tensor_ir_inplace_op(changed, "changed", *args))

    mod, _ = fn(body).export_tvm({"forward": {"x": spec.Tensor(("n",), "float32")}})
    assert relax.analysis.well_formed(mod)
    x = rand(3)
    made = relax.interpreter.Interpreter(mod)["forward"](x)
    for got, wanted in zip(made, (x + 3, x * 2, x + 4, x * 2 + 2), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)


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
    for wrong in (np.ones(3, "float32"), np.ones((2, 1), "float32"), np.ones(2, "float16")):
        with pytest.raises(ValueError, match="must fit it"):
            model.own.data = wrong
    model.own.data = nn.Parameter(2).data  # one extent; no value
    assert model.own.data is None and len(list(model.parameters())) == 3
    assert nn.Parameter(2).shape == [2]
    kept = {"first": model.own}
    assert list(model.state_dict(destination=kept)) == ["first", *names]
    model.to()
    assert model.own.dtype == "float32"


def test_a_value_of_torch_is_taken_without_its_gradient():
    class OfTorch:
        def detach(self):
            return np.ones(2, "float32")

    weight = nn.Parameter([2])
    weight.data = OfTorch()
    np.testing.assert_array_equal(weight.data.numpy(), [1, 1])


def test_modules_in_lists_and_by_name():
    a, b, c = nn.Linear(2, 2), nn.Identity(), nn.ReLU()
    some, named = nn.ModuleList([a]), nn.ModuleDict()
    some.append(b)
    some[1] = c
    assert [*some] == [a, c] and some[1] is c and some[-2] is a and len(some) == 2
    named["x"], named["y"] = b, some
    assert [*named] == [*named.values()] == [b, some] and [*named.keys()] == ["x", "y"]
    assert [*named.items()] == [("x", b), ("y", some)] and named["y"] is some
    assert len(named) == 2 and "x" in named and "z" not in named
    assert [n for n, _ in named.named_parameters()] == ["y.0.weight", "y.0.bias"]
    assert named.to("float16") is named and a.weight.dtype == a.bias.dtype == "float16"


def test_a_module_of_its_own_dtype():
    class Own(nn.Module):
        def __init__(self, dtype):
            self.dtype, self.cache = dtype, nn.KVCache(2, [3])

    own = Own("float32").to("float16")
    assert own.dtype == own.cache.dtype == "float16"
    assert Own(None).to("float16").dtype is None
    own.to()
    assert own.dtype == own.cache.dtype == "float16"
    layer = nn.Linear(2, 3, bias=False)
    assert layer.bias is None and not hasattr(layer.to("float16"), "dtype")
    layer.dtype = "float16"
    assert layer.to().dtype == "float16" and layer.to("float32").dtype == "float32"


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
            return super().visit_module(name, node)

        def visit_param(self, name, node):
            self.seen.append(name)
            return nn.Parameter((9,))

        def visit_effect(self, name, node):
            self.seen.append(name)
            return nn.KVCache(9, [9])

    class Model(nn.Module):
        def __init__(self):
            self.parts = nn.ModuleList([nn.ReLU(), nn.Identity()])
            self.named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Linear(2, 2, bias=False)})
            self.act, self.cache = nn.ReLU(), nn.KVCache(1, [1])

    def kept(model):
        return [
            *vars(model),
            *map(id, model.parts),
            *map(id, model.named),
            id(model.act),
            id(model.cache),
        ]

    model = Model()
    before = kept(model)
    assert kept(nn.Mutator().visit("", model)) == before
    replace = Replace()
    replace.seen = []
    assert replace.visit("m", model) is model
    assert replace.seen == ["m.parts.0", "m.named.a", "m.named.b.weight", "m.act", "m.cache"]
    assert all(isinstance(m, nn.SiLU) for m in (model.parts[0], model.named["a"], model.act))
    assert model.named["b"].weight.shape == [9] and model.cache.init_seq_len == 9


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
