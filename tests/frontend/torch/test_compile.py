"""`torch.compile(..., backend="loopwright")`: what is compiled, what runs in eager, and training."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import loopwright as lw
from loopwright.frontend.torch import dynamo_capture_subgraphs, from_fx, relax_dynamo, report

T = torch.Tensor


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    report(reset=True)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def compiled(fn: Callable[..., object], **options: object) -> Callable[..., object]:
    return torch.compile(fn, backend="loopwright", **options)


def same(fn: Callable[..., object], *args: T, rtol: float = 1e-5) -> None:
    """Whole graphs, with the results of eager."""
    torch.testing.assert_close(compiled(fn)(*args), fn(*args), rtol=rtol, atol=1e-5, equal_nan=True)
    assert not report().eager, report()


FLOATS = {
    "abs acos asin atan ceil cos erf exp exp2 expm1 floor frexp log log10 log1p log2 neg reciprocal": 0,
    "round rsqrt sigmoid sign signbit sin sinh sqrt square tan tanh trunc isnan isfinite isinf": 0,
    "cummax cummin logcumsumexp cumsum cumprod median nanmedian mode sort argsort softmax": 1,
    "amax amin argmax argmin sum mean prod var std logsumexp any all max min": 1,
    "norm median nanmedian": 0,
}


@pytest.mark.parametrize(
    ("name", "more"), [(n, k) for names, k in FLOATS.items() for n in names.split()]
)
def test_functions_of_one_tensor(name: str, more: int) -> None:
    x = torch.rand(3, 4, 5) * 0.9 + 0.05
    same(lambda x: getattr(torch, name)(x, *[1] * more), x)


@pytest.mark.parametrize(
    "name",
    [
        "abs",
        "angle",
        "conj",
        "cos",
        "cosh",
        "exp",
        "log",
        "reciprocal",
        "rsqrt",
        "sgn",
        "sin",
        "sqrt",
        "square",
        "tan",
        "tanh",
    ],
)
def test_complex_functions(name: str) -> None:
    same(getattr(torch, name), torch.randn(4, 5, dtype=torch.complex64), rtol=1e-4)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "fft2", "rfft2", "hfft"])
def test_fourier_transforms(name: str) -> None:
    kind = torch.float32 if name.startswith("r") else torch.complex64
    same(getattr(torch.fft, name), torch.randn(4, 6, dtype=kind), rtol=1e-4)


def test_indices() -> None:
    x, at = torch.randn(4, 5, 6), torch.tensor([[0, 3], [-1, 1]])
    same(lambda x, at: x[at], x, at)
    same(lambda x, at: x[:, at], x, at)
    same(lambda x, at: x[at, :, at], x, at)
    same(lambda x, at: x[:, at, 1:3], x, at)
    same(lambda x, at: torch.index_put(x, (at,), x[0, 0, 0]), x, at)
    same(lambda x, at: x.gather(1, at.abs()[:, :, None]), x, at)
    same(lambda x: x.unfold(1, 2, 2), x)
    same(lambda x: x.diagonal(1, 0, 2), x)
    same(lambda x: torch.as_strided(x, (3, 2), (2, 7), 1), x)
    same(lambda x: torch.where(x > 0, x, x.roll(2, 1).flip(0)), x)
    with warnings.catch_warnings():  # index_reduce is in beta
        warnings.simplefilter("ignore")
        same(lambda x: torch.index_reduce(x, 0, torch.tensor(0), x + 1, "amax"), torch.tensor(2.0))


@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(how: str, include_self: bool) -> None:
    x, source, at = torch.randn(4, 5), torch.randn(3, 5), torch.randint(4, (3, 5))
    same(lambda x, at, s: x.scatter_reduce(0, at, s, how, include_self=include_self), x, at, source)


@pytest.mark.parametrize("how", ["sum", "prod", "mean", "max", "min"])
@pytest.mark.parametrize("initial", [None, 2])
def test_segments(how: str, initial: int | None) -> None:
    x, lengths = torch.randn(2, 6, 3), torch.tensor([[0, 1, 3, 2], [2, 3, 0, 1]])
    offsets = F.pad(lengths.cumsum(1), (1, 0))
    reduce = torch.segment_reduce
    same(lambda x, n: reduce(x, how, lengths=n, axis=1, initial=initial), x, lengths)
    same(lambda x, n: reduce(x, how, offsets=n, axis=1, initial=initial), x, offsets)
    with pytest.raises(RuntimeError, match="Expected all rows of lengths"):
        compiled(lambda x, n: reduce(x, how, lengths=n, axis=1))(x, lengths + 1)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(("size", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (3, 1, 0)])
def test_pools(ceil_mode: bool, size: int, stride: int, padding: int) -> None:
    x = torch.randn(2, 3, 9, 10)
    named = {"ceil_mode": ceil_mode, "padding": padding}
    same(lambda x: F.max_pool2d(x, size, stride, return_indices=True, **named), x)
    same(lambda x: F.avg_pool2d(x, size, stride, divisor_override=3, **named), x)
    same(lambda x: F.avg_pool2d(x, size, stride, count_include_pad=False, **named), x)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_convolutions(groups: int, transposed: bool) -> None:
    kind = torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d
    layer = kind(4, 8, 3, stride=2, padding=1, groups=groups)
    x = torch.randn(2, 4, 9, 8, requires_grad=True)

    def gradients(f: Callable[..., T]) -> list[T]:
        return list(torch.autograd.grad(f(x).square().sum(), [x, *layer.parameters()]))

    torch.testing.assert_close(gradients(compiled(layer)), gradients(layer), rtol=1e-4, atol=1e-4)
    assert not report().eager


def test_attention_is_kept_whole() -> None:
    q, k, v = torch.randn(3, 2, 4, 16, 8).unbind(0)
    same(F.scaled_dot_product_attention, q, k, v)
    same(lambda *a: F.scaled_dot_product_attention(*a, is_causal=True), q, k, v)
    mask = torch.rand(2, 1, 16, 16) > 0.2
    same(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), q, k, v, mask)


def test_gradient_of_a_transposed_convolution_with_windows_left_over() -> None:
    x, w = (torch.randn(*s, requires_grad=True) for s in ((2, 4, 5, 5), (4, 2, 3, 3)))

    def f(x: T, w: T) -> T:
        return F.conv_transpose2d(x, w, None, 1, 1, (1, 2), 2, 3)  # output_padding >= stride

    got = torch.autograd.grad(compiled(f)(x, w).square().sum(), (x, w))
    for g, want in zip(got, torch.autograd.grad(f(x, w).square().sum(), (x, w)), strict=True):
        torch.testing.assert_close(g, want, rtol=1e-4, atol=1e-4)
    assert not report().eager, report()


@pytest.mark.parametrize("given", ["", "causal", "mask", "flags", "scale", "half"])
def test_gradients_of_attention(given: str) -> None:
    q, k, v = (torch.randn(2, 3, n, 8, requires_grad=True) for n in (5, 5, 5))
    more: dict[str, object] = {
        "causal": {"is_causal": True},
        "mask": {"attn_mask": torch.randn(2, 1, 5, 5)},
        "flags": {"attn_mask": torch.ones(5, 5).tril().bool()},
        "scale": {"scale": 0.7},
    }.get(given, {})
    kind, off = (torch.bfloat16, 0.03) if given == "half" else (torch.float32, 1e-5)

    def gradients(q: T, k: T, v: T, run: Callable[..., T]) -> tuple[T, ...]:
        sides = [x.to(kind) for x in (q, k, v)]
        return torch.autograd.grad(run(*sides, **more).float().square().sum(), (q, k, v))

    got = gradients(q, k, v, compiled(F.scaled_dot_product_attention))
    assert not report().eager, report()
    for g, w in zip(got, gradients(q, k, v, F.scaled_dot_product_attention), strict=True):
        torch.testing.assert_close(g, w, rtol=off, atol=off)


def test_training_follows_eager() -> None:
    def steps(wrap: Callable[..., object]) -> list[float]:
        torch.manual_seed(1)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Flatten(), torch.nn.Linear(8 * 9, 5),
        )  # fmt: skip
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
        run, losses = wrap(net), []
        for k in range(5):
            torch.manual_seed(k)
            x, y = torch.randn(4, 3, 8, 8), torch.randint(5, (4,))
            optimizer.zero_grad()
            loss = F.cross_entropy(run(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    assert steps(compiled) == pytest.approx(steps(lambda f: f), rel=1e-3)
    assert not report().eager, report()


def test_arguments_that_are_written() -> None:
    def f(x: T) -> T:
        x.mul_(2)
        return x + 1

    x = torch.ones(3)
    torch.testing.assert_close(compiled(f)(x), torch.full((3,), 3.0))
    assert x.tolist() == [2, 2, 2]


def test_one_graph_for_several_batches() -> None:
    net = torch.nn.Linear(4, 3)
    run = compiled(net, dynamic=True)
    for rows in (2, 3, 5, 8):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(run(x), net(x))
    assert report().graphs <= 2  # forward and backward


MATRICES = {
    "solve": lambda x: torch.linalg.solve(x, x[..., :2] + 1, left=True),
    "solve from the right": lambda x: torch.linalg.solve(x, x[..., :2, :], left=False),
    "inverse": torch.linalg.inv,
    "determinants": lambda x: (torch.linalg.det(x), *torch.linalg.slogdet(x)),
    "lu": lambda x: (*torch.linalg.lu(x), torch.lu_solve(x, *torch.linalg.lu_factor(x))),
    "cholesky": lambda x: torch.cholesky_solve(x, torch.linalg.cholesky(x @ x.mT)),
    "qr": lambda x: (*torch.linalg.qr(x[..., :2]), *torch.linalg.qr(x[:, :2], "complete")),
    "values": lambda x: (torch.linalg.eigvalsh(x + x.mT), torch.linalg.svdvals(x[..., :2])),
    "pseudoinverse": lambda x: torch.linalg.pinv(x[..., :2]),
}


@pytest.mark.parametrize("name", MATRICES)
def test_linear_algebra(name: str) -> None:
    same(MATRICES[name], torch.randn(2, 4, 4) + 3 * torch.eye(4), rtol=1e-4)


def test_a_singular_matrix_raises_what_eager_raises() -> None:
    with pytest.raises(torch.linalg.LinAlgError, match="the input matrix is singular"):
        compiled(torch.linalg.inv)(torch.ones(3, 3))


def test_the_gradient_of_a_solution() -> None:
    x = (torch.randn(3, 3) + 3 * torch.eye(3)).requires_grad_()
    b = torch.randn(3, 2)
    (expected,) = torch.autograd.grad(torch.linalg.solve(x, b).square().sum(), x)
    (got,) = torch.autograd.grad(compiled(torch.linalg.solve)(x, b).square().sum(), x)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"padding": 1, "ceil_mode": True},
        {"padding": 1, "ceil_mode": True, "count_include_pad": False},
        {"padding": 1, "ceil_mode": True, "divisor_override": 7},
    ],
)
def test_gradients_of_means_of_windows(rank: int, more: dict[str, object]) -> None:
    """A gradient that is NaN stays in its window."""
    x = torch.randn(2, 3, *[7, 6, 8][:rank], requires_grad=True)

    def f(x: T) -> T:
        return getattr(F, f"avg_pool{rank}d")(x, 3, 2, **more)

    out = f(x)
    grad = torch.randn_like(out)
    grad[(..., *[0] * rank)] = torch.nan
    (want,) = torch.autograd.grad(out, x, grad)
    (got,) = torch.autograd.grad(compiled(f)(x), x, grad)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert not report().eager, report()


def test_adaptive_pools_with_indices() -> None:
    same(lambda x: F.adaptive_max_pool2d(x, (3, 2), return_indices=True), torch.randn(2, 3, 7, 5))
    same(lambda x: F.adaptive_max_pool3d(x, (3, 2, 4)), torch.randn(3, 7, 5, 6))


def test_orthogonal_polynomials() -> None:
    x, n = torch.randn(3, 1), torch.tensor([-1.0, 0.0, 1.0, 5.0])
    same(torch.special.laguerre_polynomial_l, x, n)
    same(lambda v: torch.special.shifted_chebyshev_polynomial_w(v, 4), x)


def test_what_has_no_converter_runs_in_eager_and_is_reported() -> None:
    def f(x: T) -> T:
        return torch.linalg.eigvals(x @ x.mT).abs() + 1

    x = torch.randn(4, 4)
    with pytest.warns(UserWarning, match=r"aten\.linalg_eig\.default runs in eager torch"):
        torch.testing.assert_close(compiled(f)(x), f(x), rtol=1e-4, atol=1e-4)
    said = report(reset=True)
    (part,) = said.eager
    assert part.target == "aten.linalg_eig.default" and part.reason == "no converter"
    assert __file__ in part.line and part.line in str(said)
    assert not report().eager and not report().graphs


def test_a_failure_of_ours_does_not_reach_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    from loopwright.frontend.torch import parts

    def broken(mod: object) -> None:
        raise RuntimeError("a pass is broken")

    monkeypatch.setenv("LOOPWRIGHT_CACHE", "0")
    monkeypatch.setattr(parts.COMPILE, "_value", broken)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(torch.sin)(x), torch.sin(x))
    assert "a pass is broken" in report().eager[0].reason


def test_random_numbers_are_those_of_torch() -> None:
    """Drawn by torch's generator in eager, as the same decomposition draws them without us."""

    def f(x: T) -> T:
        return F.dropout(x, 0.5) + 1

    results = []
    for name in ("loopwright", "aot_eager"):
        torch._dynamo.reset()
        torch.manual_seed(3)
        results.append(torch.compile(f, backend=name)(torch.ones(64)))
    assert torch.equal(*results)
    assert set(results[0].tolist()) == {1.0, 3.0}
    assert [part.target for part in report().eager] == ["aten.native_dropout.default"]


VIEWS = {
    "of an input": lambda x: (x.t(), x[:, x.shape[1] // 2 :], x.expand(2, *x.shape), x + 1),
    "of an input alone": lambda x: x.mT,
    "of a result": lambda x: (lambda y: (y, y.t(), y[1:], *y.split(2, 1)))(x * 2),
}


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("name", VIEWS)
def test_results_that_are_views(name: str, gradient: bool, dynamic: bool) -> None:
    """They have eager's strides and share its memory; AotAutograd makes those of inputs by their strides."""
    f, x = VIEWS[name], torch.randn(3, 4, requires_grad=gradient)
    got, want = (
        [v for v in torch.utils._pytree.tree_leaves(g(x)) if isinstance(v, T)]
        for g in (compiled(f, dynamic=dynamic), f)
    )
    torch.testing.assert_close(got, want)
    assert [v.stride() for v in got] == [v.stride() for v in want]
    assert len({v.untyped_storage().data_ptr() for v in got}) == len(
        {v.untyped_storage().data_ptr() for v in want}
    )
    if gradient:
        grads = (torch.autograd.grad([v.sum() for v in vs], x)[0] for vs in (got, want))
        torch.testing.assert_close(*grads)
    assert not report().eager, report()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_other_types(dtype: torch.dtype) -> None:
    a, b = (torch.arange(12).reshape(3, 4) % 5 + k for k in (1, 2))
    a, b = a.to(dtype), b.to(dtype)
    same(lambda a, b: (a + b) * 2 - a // b, a, b, rtol=1e-2)
    same(lambda a, b: a @ b.mT, a, b, rtol=1e-2)
    same(lambda a, b: (a > b, a.sum(), a == b, a.float() / 3), a, b, rtol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_quotients_are_rounded_down_before_they_are_rounded(dtype: torch.dtype) -> None:
    """1 / 0.1 is 10 as a float, but 0.1 is a little more than a tenth; bfloat16 has 18 for 17.95."""
    a = torch.tensor(
        [1.0, -1.0, -3.890625, 5, -5, 6, 0, 1, -1, 7, torch.inf, torch.nan], dtype=dtype
    )
    b = torch.tensor([0.1, 0.1, -0.216796875, 3, 3, -2, 3, 0, 0, -torch.inf, 2, 1], dtype=dtype)
    same(lambda a, b: (a // b, a // 0.1, torch.div(a, b, rounding_mode="floor"), a % b), a, b)


# ---------------------------------------------------------------- TVM's entries


def test_relax_dynamo_runs_its_pipeline() -> None:
    seen = []

    def pipeline(mod):
        seen.append(mod)
        return mod

    x = torch.randn(3)
    run = torch.compile(lambda x: x.sin() + 1, backend=relax_dynamo(pipeline))
    torch.testing.assert_close(run(x), x.sin() + 1)
    assert "R.sin" in seen[0]["main"].script()


@pytest.mark.parametrize("cached", ["0", "1"])
def test_branches(cached: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Graphs that differ in their branches alone are two."""
    monkeypatch.setenv("LOOPWRIGHT_CACHE", cached)
    monkeypatch.setenv("LOOPWRIGHT_CACHE_DIR", str(tmp_path))
    x = torch.randn(3)
    for other in (torch.sin, torch.cos):
        torch._dynamo.reset()
        for value in (x.abs(), -x.abs()):
            same(lambda x, f=other: torch.cond(x.sum() > 0, f, lambda x: x * 2, (x,)), value)


def test_from_fx() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    mod = from_fx(torch.fx.symbolic_trace(net), [((2, 4), "float32")])
    assert str(mod["main"].ret_struct_info) == 'R.Tensor((2, 3), dtype="float32")'
    with pytest.raises(Exception, match="registered by ATen's overloads"):
        from_fx(
            torch.fx.symbolic_trace(net), [((2, 4), "float32")], custom_convert_map={"relu": id}
        )


def traced(function: Callable[..., Any], *kinds: str) -> str:
    """The main function that from_fx makes of vectors of three elements."""
    model = torch.fx.symbolic_trace(function)
    return str(from_fx(model, [((3,), kind) for kind in kinds])["main"].script())


def test_from_fx_takes_what_tvm_takes() -> None:
    """Methods that tensors of torch do not have, casts without effect, numbers, positions of int32."""
    for cast in (
        lambda x: x.astype(torch.float32),
        lambda x: x.type(x.getattr("dtype")),
        lambda x: x.float(),
    ):
        assert 'R.astype(x, dtype="float32")' in traced(cast, "float32")
    assert "astype" not in traced(lambda x: x.to("cpu"), "float32")
    assert 'lv: R.Tensor((), dtype="int32") = R.const(3, "int32")' in traced(
        lambda x: torch.ops.aten.sym_size.int(x, 0), "float32"
    )
    assert 'gv: R.Tensor((), dtype="int32") = R.const(3, "int32")' in traced(
        lambda x: torch.numel(x), "float32"
    )
    taken = traced(lambda x, at: torch.take(x, at), "float32", "int32")
    assert 'at: R.Tensor((3,), dtype="int32")' in taken and "R.take" in taken
    with pytest.raises(RuntimeError, match="long"):
        traced(lambda x, at: torch.take(x, at), "float32", "float32")


def test_positions_of_int32_are_followed() -> None:
    model = torch.fx.symbolic_trace(lambda x, at: (torch.gather(x, 0, at), at))
    exe = lw.compile(from_fx(model, [((3,), "float32"), ((2,), "int32")]))
    x, at = torch.arange(3.0), torch.tensor([2, 0], dtype=torch.int32)
    moved, same = exe(x, at)
    torch.testing.assert_close(moved, torch.tensor([2.0, 0.0]))
    assert same.tolist() == [2, 0]


def test_dynamo_capture_subgraphs() -> None:
    def f(x: T) -> T:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    mod = dynamo_capture_subgraphs(f, torch.randn(3))
    assert "R.sin" in mod["subgraph_0"].script() and "R.cos" in mod["subgraph_1"].script()


def test_nothing_imports_torch_before_it_is_used() -> None:
    code = (
        "import sys, loopwright, loopwright.frontend.torch as t; t.report(); "
        "loopwright.compile; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_data_that_is_refused_raises_what_eager_raises() -> None:
    def f(x: T, at: T) -> T:
        return x.sin().index_select(0, at)

    x = torch.randn(3)
    torch.testing.assert_close(compiled(f)(x, torch.tensor([2, 0])), f(x, torch.tensor([2, 0])))
    with pytest.raises((RuntimeError, IndexError), match="out of range"):
        compiled(f)(x, torch.tensor([5, 0]))


def test_an_input_that_is_a_result_is_passed_on() -> None:
    x = torch.randn(3)
    assert compiled(lambda x: (x, x + 1))(x)[0].data_ptr() == x.data_ptr()


@pytest.mark.parametrize("stable", [False, True])
def test_positions_of_equal_elements(stable: bool) -> None:
    """They are torch's; a stable order is one that is compiled."""
    x = torch.randint(0, 2, (300,)).half()
    sort = lambda x: torch.sort(x * 1, stable=stable)  # noqa: E731
    for got, want in zip(compiled(sort)(x), sort(x), strict=True):
        assert torch.equal(got, want)
    assert bool(report().eager) != stable, report()
