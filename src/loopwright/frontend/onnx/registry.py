"""The converters of ONNX's operators, those of users among them (see `graph.registry`).

@converter("LeakyRelu", 6)
def leaky_relu(cx, node, x):
    return op.nn.leakyrelu(x.expr, node.real("alpha", 0.01))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..graph import registry
from ..graph.registry import Converter, all_required
from .reader import domain_name


def register_converter(
    op_type: str,
    since: int = 1,
    convert: Converter | None = None,
    domain: str = "",
    *,
    to: str | None = None,
    attributes: Mapping[str, str] | None = None,
) -> Converter:
    """`graph.registry.register_converter`; "" and "ai.onnx" are the standard domain."""
    domain = domain_name(domain)
    return registry.register_converter(
        op_type, since, convert, domain=domain, to=to, attributes=attributes
    )


def converter(op_type: str, since: int = 1, domain: str = "") -> Callable[[Converter], Converter]:
    """`register_converter` as a decorator."""
    return lambda convert: register_converter(op_type, since, convert, domain)


def define(op_type: str, convert: Converter, since: int = 1, domain: str = "") -> None:
    """A converter that is one expression, a lambda of whose inputs none may be left out."""
    register_converter(op_type, since, all_required(convert), domain)


def supported_operators(domain: str = "") -> dict[str, list[int]]:
    """{operator: the versions from which its converters hold}."""
    return registry.supported_operators(domain_name(domain))
