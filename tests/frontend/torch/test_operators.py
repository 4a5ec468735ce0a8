"""Executables as operators of torch."""

from __future__ import annotations

import pytest
import torch

import loopwright as lw
from loopwright.frontend.torch import custom_op

T = torch.Tensor


class Two(torch.nn.Module):
    def forward(self, x: T, y: T) -> tuple[T, T]:
        return torch.cat([x, y]).relu(), x.sum(0)


def executable(dynamic: bool) -> lw.CompiledModel:
    args = torch.randn(3, 4), torch.randn(3, 4)
    rows = torch.export.Dim("rows")
    shapes = ({0: rows}, {0: rows}) if dynamic else None
    return lw.compile(torch.export.export(Two(), args, dynamic_shapes=shapes))


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_executable_is_an_operator(dynamic: bool) -> None:
    op = custom_op(f"loopwright_tests::two_{dynamic}".lower(), executable(dynamic))

    def f(x: T, y: T) -> T:
        a, b = op(x * 2, y)
        return a + b

    def expected(x: T, y: T) -> T:
        a, b = Two()(x * 2, y)
        return a + b

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    torch.library.opcheck(op, (x, y))
    for backend in ("aot_eager", "loopwright"):
        torch._dynamo.reset()
        run = torch.compile(f, backend=backend, fullgraph=True, dynamic=dynamic)
        for rows in (3, 5, 8) if dynamic else (3,):
            x, y = torch.randn(rows, 4), torch.randn(rows, 4)
            torch.testing.assert_close(run(x, y), expected(x, y))

    class Calls(torch.nn.Module):
        def forward(self, x: T, y: T) -> T:
            return f(x, y)

    program = torch.export.export(Calls(), (x, y))
    torch.testing.assert_close(program.module()(x, y), expected(x, y))


def test_its_gradient_is_registered_as_for_others() -> None:
    exe = lw.compile(torch.nn.Tanh(), args=(torch.randn(5),))
    op = custom_op("loopwright_tests::tanh", exe)
    op.register_autograd(
        lambda ctx, grad: grad * (1 - ctx.saved_tensors[0] ** 2),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
    )
    x = torch.randn(5, requires_grad=True)
    op(x).sum().backward()
    torch.testing.assert_close(x.grad, 1 - x.detach().tanh() ** 2)
