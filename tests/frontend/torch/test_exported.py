"""Programs of torch.export as IRModules, and as executables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim, export

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.frontend.graph.registry import CONVERTERS, Converter, register_converter
from loopwright.frontend.torch import from_exported_program, report


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.dense = torch.nn.Linear(4, 8)
        self.conv = torch.nn.Conv2d(3, 6, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(6)

    def forward(self, x: torch.Tensor, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.relu(self.dense(x)) + 1, F.max_pool2d(self.norm(self.conv(image)), 2)


def inputs(rows: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(rows, 4), torch.randn(2, 3, 8, 8)


def close(got: torch.Tensor, want: torch.Tensor) -> None:
    torch.testing.assert_close(got, want.detach(), rtol=1e-5, atol=1e-6)


def test_one_graph_for_all_sizes() -> None:
    model = Small().eval()
    program = export(model, inputs(), dynamic_shapes=({0: Dim("rows")}, None))
    exe = lw.compile(program)
    for rows in (1, 5, 17):
        for got, want in zip(exe(*inputs(rows)), model(*inputs(rows)), strict=True):
            assert isinstance(got, torch.Tensor)
            close(got, want)


def test_the_module() -> None:
    mod = from_exported_program(export(Small().eval(), inputs()))
    assert not mod.attrs  # as in v0.21; `compile` keeps the names of inputs and results
    main = mod["main"]
    assert [str(p.struct_info) for p in main.params] == [
        'R.Tensor((5, 4), dtype="float32")', 'R.Tensor((2, 3, 8, 8), dtype="float32")',
    ]  # fmt: skip
    text = main.script()
    assert "R.nn.conv2d" in text and "R.nn.max_pool2d" in text
    kept = from_exported_program(export(Small().eval(), inputs()), keep_params_as_input=True)
    assert len(kept["main"].params) == 2 + 8
    assert len(kept["main"].attrs["params"]) == 8


def test_a_single_result_is_a_tuple_as_in_tvm_unless_it_is_unwrapped() -> None:
    program = export(torch.nn.ReLU(), (torch.ones(2),))
    assert "R.Tuple" in str(from_exported_program(program)["main"].ret_struct_info)
    plain = from_exported_program(program, unwrap_unit_return_tuple=True)
    assert "R.Tuple" not in str(plain["main"].ret_struct_info)


def test_modules_are_exported_with_args() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU()).eval()
    x = torch.randn(3, 4)
    exe = lw.compile(model, args=(x,))
    close(exe(x), model(x))
    close(exe(torch.nn.Parameter(x)), model(x))
    assert not isinstance(exe(x.numpy()), torch.Tensor)
    with pytest.raises(LoopwrightError, match=r"compile\(model, args="):
        lw.compile(model)
    with pytest.raises(LoopwrightError, match="example inputs of a torch module"):
        lw.compile("x", args=(x,))


def test_strided_and_channels_last_inputs() -> None:
    model = torch.nn.Conv2d(3, 4, 3).eval()
    image = torch.randn(2, 3, 8, 8)
    exe = lw.compile(model, args=(image,))
    for given in (image.to(memory_format=torch.channels_last), image.transpose(2, 3)):
        close(exe(given), model(given))


class Counter(torch.nn.Module):
    """Writes a buffer and an input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("step", torch.ones(1))

    def forward(self, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        self.count.add_(self.step)
        out.copy_(x * 2)
        return x + self.count


def test_written_buffers_are_the_state_of_an_executable() -> None:
    net, out = Counter(), torch.zeros(2)
    exe = lw.compile(export(net, (torch.ones(2), out)))
    for k in (1, 2, 3):
        x = torch.full((2,), float(k))
        close(exe(x, out), net(x, torch.zeros(2)))
        close(out, x * 2)
    assert list(exe.state_dict()) == ["count"] and exe.state_dict()["count"].numpy() == [3]
    exe.load_state_dict({"count": torch.tensor([10.0])})
    array = np.zeros(2, "float32")
    (result,) = exe.run({"x": np.ones(2, "float32"), "out": array}).values()
    assert list(result.numpy()) == [12, 12] and list(array) == [2, 2]
    assert exe.state_dict()["count"].numpy() == [11]
    with pytest.raises(ValueError, match="2 inputs; its buffers are its own"):
        exe.run([array] * 3)
    with pytest.raises(TypeError, match="returns new tensors\n  got: out"):
        exe(torch.ones(2), out=out)
    with pytest.raises(KeyError, match="no such buffer"):
        exe.load_state_dict({"counts": torch.zeros(1)})
    with pytest.raises(ValueError, match="does not match"):
        exe.load_state_dict({"count": torch.zeros(4)})
    with pytest.raises(ValueError, match="by name"):
        exe.run({"x": array})


def test_new_values_are_results_of_the_module() -> None:
    mod = from_exported_program(export(Counter(), (torch.ones(2), torch.zeros(2))))
    assert mod.attrs["output_names"][:2] == ["count", "out"]
    x = np.ones(2, "float32")
    count, _, result = (v.numpy() for v in lw.compile(mod)(x, x))
    assert count == [1] and list(result) == [2, 2]


def test_sizes_that_data_decides() -> None:
    class Positive(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x > 0] * 2

    x = torch.tensor([1.0, -1.0, 3.0])
    close(lw.compile(export(Positive(), (x,)))(x), torch.tensor([2.0, 6.0]))


def test_complex_numbers_are_pairs() -> None:
    class Filter(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            spectrum = torch.fft.rfft(x)
            return torch.fft.irfft(spectrum * (spectrum.abs() > 1.0), n=x.shape[-1])

    x = torch.randn(3, 16)
    close(lw.compile(Filter(), args=(x,))(x), Filter()(x))


def test_operators_without_a_converter_are_named_together() -> None:
    class Matrices(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvals(x).real + torch.linalg.ldl_factor_ex(x).LD

    program = export(Matrices(), (torch.eye(3),))
    with pytest.raises(LoopwrightError, match="2 nodes of 2 kinds") as error:
        from_exported_program(program)
    assert "aten.linalg_eig.default" in str(error.value)
    assert 'domain="torch"' in str(error.value)


def test_torch_runs_in_an_executable_what_has_no_converter() -> None:
    """Complex results, sizes that data decides, what a converter refuses, and an operator of one's own."""

    @torch.library.custom_op("loopwright_test::scaled", mutates_args=())
    def scaled(x: torch.Tensor, parts: list[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
        return (x * 3 + parts[0]).to(dtype)

    @scaled.register_fake
    def _(x, parts, dtype):
        return torch.empty_like(x, dtype=dtype)

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values = torch.linalg.eigvals(x)
        large = torch.linalg.inv(torch.eye(130) * x[0, 0].abs())
        own = torch.ops.loopwright_test.scaled(x, [x + 1], torch.float64)
        return values.abs() + 1, values * 2, torch.unique(y) + 1, large, own

    x, y = torch.randn(4, 4), torch.tensor([2, 1, 2, 5])
    report(reset=True)
    with pytest.warns(UserWarning, match=r"aten\.linalg_eig\.default runs in eager torch"):
        exe = lw.compile(Calls(function), args=(x, y))
    for got, want in zip(exe(x, y), function(x, y), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    parts = report(reset=True).eager
    assert {p.target.split(".")[1] for p in parts} == {
        "linalg_eig", "_unique2", "linalg_inv_ex", "scaled",
    }  # fmt: skip
    assert all(__file__ in p.line for p in parts)


def test_a_singular_matrix_is_an_error() -> None:
    exe = lw.compile(Calls(torch.linalg.inv), args=(torch.eye(3),))
    close(exe(torch.eye(3) * 2), torch.eye(3) / 2)
    with pytest.raises(ValueError, match=r"linalg\.inv: a matrix is singular"):
        exe(torch.ones(3, 3))


@contextmanager
def replaced(name: str, convert: Converter) -> Iterator[Converter]:
    """An operator with another converter; the one that it had."""
    key = ("torch", name, 1)
    before, origin = CONVERTERS[key], CONVERTERS.origin(key)
    register_converter(name, convert=convert, domain="torch")
    try:
        yield before.convert
    finally:
        CONVERTERS.register(key, before, origin=origin, override=True)


def test_a_converter_of_ones_own() -> None:
    seen = []

    def relu(cx, node, x):
        seen.append(node.title)
        return before(cx, node, x)

    with replaced("aten.relu.default", relu) as before:
        from_exported_program(export(Small().eval(), inputs()))
    assert seen == ["torch:relu"]


def test_a_converter_gets_the_arguments_of_the_schema() -> None:
    """In order, with defaults, axes from the front; a number is a line of one element."""
    seen = []

    def sort(cx, node, x, dim, descending=None, *, stable=None):
        seen.append((x.ndim, dim, descending, stable))
        return before(cx, node, x, dim, descending, stable)

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.sort(x, dim=-1, stable=True)[0], torch.sort(x[0, 0])[1]

    x = torch.randn(3, 4)
    with replaced("aten.sort.default", sort) as before, replaced("aten.sort.stable", sort):
        exe = lw.compile(Calls(function), args=(x,))
    assert seen == [(2, 1, False, True), (1, 0, False, None)]
    for got, want in zip(exe(x), function(x), strict=True):
        torch.testing.assert_close(got, want)


def test_errors_name_the_module_and_the_line() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sigmoid())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    def refuse(cx, node, x):
        raise ValueError("no such luck")

    located = pytest.raises(LoopwrightError, match=r"torch:inner\.1/sigmoid at .*:\d+")
    with replaced("aten.sigmoid.default", refuse), located:
        from_exported_program(export(Net(), (torch.ones(2),)))


def test_bounds_of_sizes() -> None:
    rows = Dim("rows", min=2, max=64)
    program = export(Small().eval(), inputs(), dynamic_shapes=({0: rows}, None))
    assert list(from_exported_program(program)["main"].attrs["tir_var_upper_bound"].values()) == [
        64
    ]


def test_kernels_know_their_nodes() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU()).eval()
    x = torch.randn(3, 4)
    assert list(lw.lower(net, args=(x,)).nodes) == ["torch:0/linear", "torch:1/relu"]
    exe = lw.compile(net, args=(x,))
    assert "matmul" in str(exe.origin("torch:1/relu"))  # fused with the product


def test_bisect_against_eager() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = torch.nn.Linear(4, 8)

        def forward(self, x: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return F.silu(self.dense(x)).sum(-1), z * z

    args = torch.randn(2, 4), torch.randn(3, dtype=torch.complex64)
    assert not lw.bisect(Net().eval(), args=args, against="eager")
    with replaced("aten.silu.default", lambda cx, node, x: x.sigmoid()):
        found = lw.bisect(export(Net().eval(), args), against="eager")
    assert found.pass_name == "import" and found.nodes == ("torch:silu",)
    with pytest.raises(LoopwrightError, match="only models of torch run in eager"):
        lw.bisect(from_exported_program(export(Net().eval(), args)), against="eager")


def exported(model: torch.nn.Module, *args: torch.Tensor) -> lw.IRModule:
    return from_exported_program(export(model, args))


class Calls(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> object:
        return self.function(*args)


def test_tvm_s_form() -> None:
    """The tuple is bound, operators are whole, and there are no attributes."""
    main = exported(torch.nn.Conv2d(3, 6, 3), torch.ones(1, 3, 8, 8))["main"]
    assert dict(main.attrs) == {"global_symbol": "main"}
    conv, bias, total, result = main.body.blocks[0].bindings
    assert str(conv.value.attrs["out_dtype"]) == "float32"
    assert "R.reshape" in str(bias.value) and "R.add" in str(total.value)
    assert "R.Tuple" in str(result.var.struct_info) and main.body.body.same_as(result.var)
    attention = exported(Calls(F.scaled_dot_product_attention), *[torch.ones(1, 2, 4, 8)] * 3)
    assert "R.nn.attention" in attention.script()
    casts = exported(Calls(lambda x: (x.float(), x.narrow(1, 0, 2), x.sort(1))), torch.ones(3, 4))
    cast, part, order = casts["main"].body.blocks[0].bindings[:3]
    assert "R.astype" in str(cast.value) and len(part.value.args) == 4
    assert order.value.attrs["dtype"] == "int32"


def test_a_cast_is_the_same_memory_where_the_program_writes_it() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            y.float().add_(1)
            return y

    program = export(Net(), (torch.ones(3),))
    exe = lw.compile(from_exported_program(program))
    torch.testing.assert_close(exe(torch.ones(3))[0], torch.full((3,), 3.0))


@pytest.mark.parametrize(
    "function, args",
    [
        (lambda x: F.interpolate(x, (5, 7), mode="nearest"), [(1, 2, 4, 4)]),
        (lambda x: F.interpolate(x, (8, 8), mode="nearest"), [(1, 2, 4, 4)]),
        (lambda x: F.interpolate(x, (2, 2), mode="nearest"), [(1, 2, 4, 4)]),
        (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), [(1, 2, 4, 4)]),
        (lambda x: F.interpolate(x, (6, 6), mode="bicubic", align_corners=True), [(1, 2, 4, 4)]),
        (lambda x: torch.split(x, 4, 1), [(2, 9)]),
        (lambda x: torch.chunk(x, 3, -1), [(2, 9)]),
        (lambda x: x[1, -2:, ::2], [(2, 9, 5)]),
        (lambda x: x.roll((2, -1), (0, 1)).squeeze(), [(3, 4)]),
        (lambda x: torch.cumsum(x.int(), 0), [(3, 4)]),
        (lambda x: x.unfold(-1, 4, 2), [(3, 10)]),
        (lambda x, y: F.cross_entropy(x, y.softmax(1)), [(3, 4), (3, 4)]),
        (lambda x: torch.linalg.vector_norm(x, 3, 1), [(3, 4)]),
        (lambda x: F.instance_norm(x), [(2, 3, 8)]),
        (lambda x: F.conv1d(x, torch.ones(2, 3, 2), torch.ones(2)), [(3, 6)]),
        (lambda x: torch.linspace(0.0, 1.0, 9) * x, [(9,)]),
        (lambda x: x.gather(1, torch.tensor([[0, 2]])), [(3, 4)]),
        (lambda x: F.pad(x, (1, -1), value=2.0), [(3, 4)]),
        (lambda x: x**3 - x.masked_fill(x > 0, 2), [(3, 4)]),
        (lambda x, slope: F.prelu(x, slope), [(2, 3, 4), (1,)]),
        (lambda x, source: x.masked_scatter(x > 0, source), [(3, 4), (12,)]),
        (lambda x, source: x.masked_scatter(x > 9, source), [(3,), (2,)]),
        (lambda x: torch.isin(x, torch.stack((x[0], x[0]))), [(3, 4)]),
        (lambda x: torch.isin(x, x[0], invert=True), [(3, 4)]),
    ],
)
def test_tvm_s_form_computes_the_same(function: object, args: list[tuple[int, ...]]) -> None:
    torch.manual_seed(2)
    inputs = [torch.randn(shape) for shape in args]
    want, got = function(*inputs), lw.compile(exported(Calls(function), *inputs))(*inputs)
    for g, w in zip(got, want if isinstance(want, tuple) else [want], strict=True):
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-5)


def test_what_is_written_and_returned_is_returned_once() -> None:
    mod = exported(Calls(torch.relu_), torch.ones(2))
    assert len(mod["main"].ret_struct_info.fields) == 1
    mod = exported(Calls(lambda x: x.add_(1) * 2), torch.ones(2))
    assert mod.attrs["output_names"] == ["args_0", "mul"]


def test_results_that_are_numbers() -> None:
    model = Calls(lambda x: (True, 3, x + 1, 2.5, None, x.shape[0]))
    got = lw.compile(export(model, (torch.ones(2),)))(torch.ones(2))
    assert [g.tolist() for g in got] == [True, 3, [2, 2], 2.5, 2]
    zeros = lw.compile(export(Calls(lambda: torch.zeros(2)), ()))()
    assert isinstance(zeros, torch.Tensor) and zeros.tolist() == [0, 0]


def test_complex_tensors_at_the_border() -> None:
    x = torch.randn(3, dtype=torch.complex64)
    twice, real = lw.compile(export(Calls(lambda x: (x * 2j, x.real)), (x,)))(x)
    close(twice, x * 2j)
    close(real, x.real)


def test_views_of_one_memory() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    model = Calls(lambda x: x[1:].detach().as_strided((2, 2), (4, 1), 1))
    close(lw.compile(export(model, (x,)))(x), model(x))


@pytest.mark.budget(12)
def test_control_flow() -> None:
    from torch._higher_order_ops.map import map as each
    from torch._higher_order_ops.scan import scan
    from torch._higher_order_ops.while_loop import while_loop

    def either(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x.sin(), (x,))

    def until(x: torch.Tensor) -> torch.Tensor:
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))[1]

    def rows(x: torch.Tensor) -> torch.Tensor:
        return each(lambda row, y: row * y.sum(), x, x.sin())

    def sums(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return scan(lambda c, r: (c + r, c * r), torch.zeros(4), x)

    for function in (either, until, rows, sums):
        for x in (torch.ones(3, 4), -torch.ones(3, 4)):
            want, got = function(x), lw.compile(export(Calls(function), (x,)))(x)
            for g, w in zip(
                *((v,) if isinstance(v, torch.Tensor) else v for v in (got, want)), strict=True
            ):
                close(g, w)


def test_branches_on_sizes() -> None:
    model = Calls(lambda x: torch.cond(x.shape[0] > 2, lambda x: x + 1, lambda x: x - 1, (x,)))
    shapes = {"args": ({0: Dim("rows")},)}
    exe = lw.compile(export(model, (torch.ones(3, 2),), dynamic_shapes=shapes))
    for rows in (2, 5):
        close(exe(torch.ones(rows, 2)), model(torch.ones(rows, 2)))


def test_arguments_as_torch_takes_them() -> None:
    class Model(torch.nn.Module):
        def forward(
            self,
            x: object,
            pair: object,
            scale: float,
            *more: object,
            mask: object,
            **others: object,
        ) -> torch.Tensor:
            return x * scale + pair["a"][0] - pair[2] * more[0] + mask * others["last"]

    a, b, c, d, e, f = (torch.randn(3) for _ in range(6))
    given = (a, {"a": [b], 2: c}, 0.5, d)
    exe = lw.compile(torch.export.export(Model(), given, {"mask": e, "last": f}))
    want = Model()(*given, mask=e, last=f)
    close(exe(*given, last=f, mask=e), want)
    close(exe(a, b, c, d, e, f), want)
    with pytest.raises(TypeError, match=r"(?s)another value of an argument.*got: 2.0.*0.5"):
        exe(a, given[1], 2.0, d, mask=e, last=f)
    for wrong in ((a, {"a": [b]}, 0.5, d), (a, {"a": b, 2: c}, 0.5, d), given[:3]):
        with pytest.raises(TypeError, match=r"structure of the arguments"):
            exe(*wrong, mask=e, last=f)
    with pytest.raises(TypeError, match=r"structure of the arguments"):
        exe(*given, mask=e)


def test_quantized_numbers() -> None:
    import torch.ao.quantization.fx._decomposed as _decomposed  # defines the operators

    assert _decomposed
    ops = torch.ops.quantized_decomposed

    def back(x: torch.Tensor) -> torch.Tensor:
        level = ops.quantize_per_tensor(x, 0.1, 3, -128, 127, torch.int8)
        return ops.dequantize_per_tensor(level, 0.1, 3, -128, 127, torch.int8)

    x = torch.randn(4, 5) * 9
    close(lw.compile(export(Calls(back), (x,)))(x), back(x))
    fake = Calls(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127))
    close(lw.compile(export(fake, (x,)))(x), fake(x))


def test_a_query_that_sees_no_key_attends_to_nothing() -> None:
    q = torch.randn(1, 2, 3, 4)
    mask = torch.tensor([[True, False, True], [False] * 3, [True] * 3])
    model = Calls(F.scaled_dot_product_attention)
    close(lw.compile(export(model, (q, q, q, mask)))(q, q, q, mask), model(q, q, q, mask))


def dynamic(model: object, *args: torch.Tensor) -> lw.CompiledModel:
    """A function compiled for arguments of all sizes."""
    shapes = [dict.fromkeys(range(x.ndim), Dim.AUTO) for x in args]
    return lw.compile(export(Calls(model), args, dynamic_shapes={"args": tuple(shapes)}))


@pytest.mark.parametrize(
    "function, shapes",
    [
        (lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True), [(2, 3, 5, 7)]),
        (lambda x: F.max_pool2d(x, 3, 2, 1, 1, True, return_indices=True), [(1, 2, 7, 6)]),
        (lambda x: F.max_pool3d(x, 2, 1, 0, 2, return_indices=True), [(1, 2, 4, 5, 6)]),
        (lambda x: torch.logcumsumexp(x * 50, 1), [(2, 9)]),
        (lambda x: F.interpolate(x, scale_factor=1.9, mode="bilinear", recompute_scale_factor=True), [(1, 2, 4, 5)]),
        (lambda x: (x.std(), x.var(), x.mean(), x.sum()), [(200, 300)]),
    ],
)  # fmt: skip
def test_operators_of_symbolic_sizes(function: object, shapes: list[tuple[int, ...]]) -> None:
    torch.manual_seed(1)
    example, inputs = ([torch.randn(s) for s in shapes] for _ in range(2))
    got, want = dynamic(function, *example)(*inputs), function(*inputs)
    for g, w in zip(
        *(v if isinstance(v, (list, tuple)) else [v] for v in (got, want)), strict=True
    ):
        torch.testing.assert_close(g, w, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [-1, 2])
def test_all_results_of_bags(mode: int, padding: int) -> None:
    def bags(weight: torch.Tensor, at: torch.Tensor, begin: torch.Tensor) -> object:
        return torch.ops.aten._embedding_bag(
            weight, at, begin, False, mode, False, None, False, padding
        )

    args = torch.randn(4, 2), torch.tensor([3, 0, 1, 2, 2]), torch.tensor([0, 2, 2, 4])
    for g, w in zip(lw.compile(Calls(bags), args=args)(*args), bags(*args), strict=True):
        torch.testing.assert_close(g, w)


def test_counts_of_repeats_are_data() -> None:
    x, counts = torch.randn(3, 2), torch.tensor([2, 0, 3])
    model = Calls(lambda x, n: x.repeat_interleave(n, 0))
    close(lw.compile(model, args=(x, counts))(x, counts), model(x, counts))


@pytest.mark.parametrize("wide, narrow", [("float32", "int8"), ("int64", "float16")])
def test_views_of_other_widths(wide: str, narrow: str) -> None:
    kinds = getattr(torch, wide), getattr(torch, narrow)
    x = torch.arange(-6, 6).reshape(3, 4).to(kinds[0]) * 7
    for function, value in (
        (lambda x: x.view(kinds[1]), x),
        (lambda x: x.view(kinds[0]), x.view(kinds[1])),
    ):
        got = lw.compile(Calls(function), args=(value,))(value)
        assert torch.equal(got.view(torch.uint8), function(value).view(torch.uint8))


def test_random_numbers_are_torch_s() -> None:
    def draw(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        noise = torch.rand_like(x) + torch.randn(3, 4) + torch.randn(3, 4)
        return (
            F.dropout(x, 0.5, True),
            noise,
            torch.randint(5, x.shape),
            torch.bernoulli(x.abs().clamp(0, 1)),
        )

    x = torch.randn(3, 4)
    exe, results = lw.compile(Calls(draw), args=(x,)), []
    for run in (exe, draw, exe):
        torch.manual_seed(7)
        results.append(run(x))
    for first, want, again in zip(*results, strict=True):
        torch.testing.assert_close((first, again), (want, want))
    assert not torch.equal(exe(x)[1], exe(x)[1])


def test_views_by_primitives_and_mixed_types() -> None:
    prims, x = torch.ops.prims, torch.randn(1, 6)
    model = Calls(lambda x: prims.split_dim(prims.squeeze(prims.view_of(x), [0]), 0, 2))
    close(lw.compile(model, args=(x,))(x), x.reshape(2, 3))
    mixed = Calls(lambda g, x: torch.ops.aten.threshold_backward(g, x, 0.5))
    grad = torch.arange(6).reshape(1, 6)
    close(lw.compile(mixed, args=(grad, x))(grad, x), mixed(grad, x))


@pytest.mark.parametrize(
    "name, data, args",
    [
        ("upsample_nearest2d", (), ((7, 9), (1, 2, 4, 5))),
        ("upsample_bilinear2d", (), ((7, 9), (1, 2, 4, 5), False)),
        ("upsample_bicubic2d", (), ((7, 9), (1, 2, 4, 5), True)),
        ("_adaptive_avg_pool2d", (1, 2, 10, 13), ()),
        ("replication_pad2d", (1, 2, 5, 6), ((1, 2, -1, 3),)),
        ("avg_pool2d", (1, 2, 13, 17), (3, 2, 1, False, False, None)),
        ("avg_pool2d", (1, 2, 13, 17), (3, 2, 1, False, True, None)),
    ],
)
def test_gradients_of_windows(name: str, data: tuple[int, ...], args: tuple[Any, ...]) -> None:
    """A gradient that is not finite stays within its window."""
    torch.manual_seed(0)
    grad = torch.randn(1, 2, 7, 9)
    grad[0, 1, 3, 4] = torch.nan
    inputs = (torch.randn(data),) if data else ()
    model = Calls(lambda g: getattr(torch.ops.aten, name + "_backward")(g, *inputs, *args))
    got, want = lw.compile(model, args=(grad,))(grad), model(grad)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_pools_of_integers() -> None:
    x = torch.randint(-9, 9, (1, 2, 6, 7))
    model = Calls(lambda x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2, divisor_override=3)))
    for got, want in zip(lw.compile(model, args=(x,))(x), model(x), strict=True):
        assert torch.equal(got, want)


def test_operators_of_torchvision() -> None:
    ops = pytest.importorskip("torchvision.ops")
    boxes = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 6, 6], [0, 1.5, 2, 3.5]])
    scores = torch.tensor([0.5, 0.9, 0.3, 0.7])
    model = Calls(lambda b, s: ops.nms(b, s, 0.5))
    assert lw.compile(model, args=(boxes, scores))(boxes, scores).tolist() == [1, 3, 2]
    layer = ops.DeformConv2d(4, 6, 3, padding=1, groups=2)
    args = torch.randn(1, 4, 5, 6), torch.randn(1, 18, 5, 6), torch.rand(1, 9, 5, 6)
    close(lw.compile(layer, args=args)(*args), layer(*args))


def test_fractions_of_sizes() -> None:
    def fraction(x: torch.Tensor) -> tuple[torch.Tensor, float]:
        return x * (x.shape[0] / 4), x.shape[0] / 8

    inputs = torch.randn(5, 3), torch.randn(7, 3)
    exe = lw.compile(export(Calls(fraction), inputs[:1], dynamic_shapes=(({0: Dim("n")},),)))
    run = torch.compile(fraction, backend="loopwright", dynamic=True)
    report(reset=True)
    for x in inputs:
        want = fraction(x)
        for got in (exe(x), run(x)):
            close(got[0], want[0])
            assert float(got[1]) == want[1]
    assert not report().eager, report()


def batch_norm_with_update(x: torch.Tensor) -> torch.Tensor:
    update = torch.ops.aten._batch_norm_with_update
    return update(x, *(torch.ones(3) for _ in range(4)), 0.1, 1e-5)[0]


@pytest.mark.parametrize(
    "function, shape",
    [
        (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (2, 3, 5, 7)),
        (lambda x: F.avg_pool3d(x, 2, 2, 1, True, False), (1, 2, 5, 6, 7)),
        (lambda x: F.avg_pool3d(x, 3, 2, 1, divisor_override=5), (1, 2, 5, 6, 7)),
        (lambda x: F.avg_pool2d(x, 3, 2, 1, True), (3, 5, 6)),
        (lambda x: F.max_pool3d(x, 2), (1, 2, 4, 5, 6)),
        (lambda x: F.pad(x, (1, 2, -1, 3), mode="replicate"), (1, 2, 4, 5)),
        (lambda x: F.pad(x, (-4, 5, 2, -1), mode="replicate"), (1, 2, 4, 4)),
        (lambda x: F.interpolate(x, (3, 9), mode="bilinear", antialias=True), (1, 2, 8, 7)),
        (lambda x: F.interpolate(x, (3, 9), mode="bicubic", antialias=True), (1, 2, 8, 7)),
        (batch_norm_with_update, (4, 3, 5)),
        (lambda x: torch.as_strided_copy(x, (2, 2), (1, 3), 1), (3, 4)),
        (lambda x: torch.cat([x, x.gather(0, torch.zeros(2, 0).long()).flatten()]), (3,)),
        (lambda x: torch.cdist(x, x.flip(0) * 2, 3.0), (4, 5)),
        (lambda x: torch.cdist(x, x.flip(0) * 2, 1.0), (4, 5)),
        (lambda x: F.pdist(x, 2.5), (4, 5)),
        (lambda x: torch.zeros(3, 4).masked_scatter(torch.tensor([[True], [False], [True]]), x), (3, 4)),
    ],
)  # fmt: skip
def test_gradients(
    function: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...]
) -> None:
    """Those of operators that eager torch differentiates by one of its own."""
    torch.manual_seed(3)
    torch._dynamo.reset()
    report(reset=True)
    wants, x = [], torch.randn(shape)
    for run in (function, torch.compile(function, backend="loopwright")):
        leaf = x.clone().requires_grad_()
        (run(leaf).sin() * 2).sum().backward()
        wants.append(leaf.grad)
    torch.testing.assert_close(wants[1], wants[0], rtol=1e-4, atol=1e-5)
    assert not report().eager, report()
