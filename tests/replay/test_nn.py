"""Modules and operators of nn, exported: each operator on tensors of several shapes, with what its options
are by default, and with each of them changed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from loopwright.frontend import nn
from loopwright.frontend.nn import op, spec

from .stages import graph_text, said

SHAPES = {
    "rows": ((2, 6), "float32"),
    "image": ((1, 4, 6, 6), "float32"),
    "heads": ((1, 3, 2, 4), "float16"),
    "whole": ((2, 6), "int32"),
}
VALUES = (0, 1, -1, 2, True, False, [0, 1], [1], None, "float16", "nearest")
GIVEN: dict[
    str, Callable[[Any], Any]
] = {  # arguments by name, of a tensor; the others are the tensor
    "start": lambda x: 5,
    "shape": lambda x: [2, 3, 12],
    "dim": lambda x: -1,
    "embedding_dim": lambda x: 4,
    "num_groups": lambda x: 2,
    "normalized_shape": lambda x: list(x.shape[-1:]),
    "weight": lambda x: nn.Tensor.from_const(np.ones(x.shape[-1:], "float32")),
    "alpha": lambda x: nn.Tensor.from_const(np.float32([0.5])),
    "axes": lambda x: [*range(x.ndim)][::-1],
    "indices_or_sections": lambda x: 2,
    "fill_value": lambda x: nn.Tensor.from_scalar(2.5, "float32"),
    "pad": lambda x: [1, 0] * x.ndim,
    "repeats": lambda x: 2,
    "chunks": lambda x: 2,
    "dtype": lambda x: "int32",
    "bias": lambda x: None,
    "condition": lambda x: x < x,
    "k": lambda x: 1,
}
LISTS = ("concat",)  # take many tensors
APART = (  # called otherwise
    *("tensor_expr_op", "tensor_ir_op", "tensor_ir_inplace_op", "extern", "wrap_nested"),
    *("as_operand", "debug_func", "print_"),
)


def operators() -> dict[str, Callable[..., Any]]:
    names = (n for n in dir(op) if not n.startswith("_"))
    found = {n: getattr(op, n) for n in names}
    return {n: f for n, f in found.items() if inspect.isfunction(f) and "nn" in f.__module__}


def calls(function: Callable[..., Any]) -> Iterator[dict[str, Any]]:
    """Options: none, and each that has a default set to each of VALUES."""
    yield {}
    for name, param in inspect.signature(function).parameters.items():
        if param.default is not param.empty and name != "name":
            yield from ({name: value} for value in VALUES)


def exported(function: Callable[..., Any], shape: Any, dtype: str, options: dict[str, Any]) -> str:
    given = inspect.signature(function).parameters.values()
    needed = [p for p in given if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]

    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            own = [x, x] if function.__name__ in LISTS else x
            return function(*(GIVEN.get(p.name, lambda x: own)(x) for p in needed), **options)

    return graph_text(Model().export_tvm({"forward": {"x": spec.Tensor(shape, dtype)}})[0])


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
def test_operators(replay: Any) -> None:
    rows = {}
    for name, function in operators().items():
        if name not in APART:
            rows[name] = {
                kind: "\n".join(said(exported, function, *facts, how) for how in calls(function))
                for kind, facts in SHAPES.items()
            }
    replay("nn/operators", rows)


MODULES: dict[str, tuple[Callable[[], Any], tuple[Any, ...]]] = {
    "linear": (lambda: nn.Linear(4, 3), (2, 4)),
    "linear of any size": (lambda: nn.Linear("n", 3, bias=False), (2, "n")),
    "linear of its own dtype": (
        lambda: nn.Linear(4, 3, dtype="float16", out_dtype="float32"),
        (2, 4),
    ),
    "conv1d": (lambda: nn.Conv1D(2, 4, 3, 2, 1, 1, 2), (1, 2, 9)),
    "conv2d": (lambda: nn.Conv2D(2, 4, [3, 2], padding=1, dilation=2), (1, 2, 9, 8)),
    "conv2d without bias": (lambda: nn.Conv2D(2, 4, 1, bias=False), (1, 2, 3, 3)),
    "conv3d": (lambda: nn.Conv3D(2, 3, 2, stride=2), (1, 2, 4, 4, 4)),
    "conv1d_transpose": (lambda: nn.ConvTranspose1D(2, 4, 3, 2, 1, 1), (1, 2, 5)),
    "layer_norm": (lambda: nn.LayerNorm(4), (2, 4)),
    "layer_norm without weights": (lambda: nn.LayerNorm(4, elementwise_affine=False), (2, 4)),
    "rms_norm": (lambda: nn.RMSNorm(4, -1, bias=False), (2, 4)),
    "rms_norm with bias": (lambda: nn.RMSNorm(4, [1]), (2, 4)),
    "group_norm": (lambda: nn.GroupNorm(2, 4), (1, 4, 3, 3)),
    "attention": (lambda: nn.Attention(4, heads=2, dim_head=2), (1, 3, 4)),
    "attention with a norm": (
        lambda: nn.Attention(4, 4, 1, 4, bias=True, norm_num_groups=2, out_bias=False),
        (1, 3, 4),
    ),
    "timesteps": (lambda: nn.Timesteps(6, True, 0.5), (3,)),
    "timestep_embedding": (lambda: nn.TimestepEmbedding(4, 6, "silu"), (3, 4)),
    "list": (lambda: nn.ModuleList([nn.ReLU(), nn.SiLU(), nn.GELU(), nn.Identity()]), (2, 3)),
}


@pytest.mark.no_roundtrip
@pytest.mark.parametrize("debug", [False, True])
def test_modules(debug: bool, replay: Any) -> None:
    rows = {}
    for name, (make, shape) in MODULES.items():
        module = make()
        given = {
            "forward": {
                next(iter(inspect.signature(module.forward).parameters)): spec.Tensor(
                    shape, "float32"
                )
            }
        }
        mod, params = module.export_tvm(given, debug=debug)[:2]
        rows[name] = {"": f"{graph_text(mod)}\n{params}"}
    replay(f"nn/modules{'-debug' * debug}", rows)
