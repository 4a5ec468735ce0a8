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
    """Set how an operator is imported: convert(cx, node, *inputs) returns a graph expression, a `Value` or
    several. cx: the `Context`; node: the `Node`, with the attributes; inputs: `Value`s, None where omitted.

    since: the first version of the operator set that it is for. domain: "" and "ai.onnx" are the standard one.
    to, attributes: instead of `convert`, the graph operator that it is, and its parameters by attribute.

    >>> from loopwright.frontend import onnx
    >>> def swish(cx, node, x):
    ...     return relax.op.multiply(x.expr, relax.op.sigmoid(x.expr))
    >>> onnx.register_converter("Swish", 1, swish, domain="my.domain") is swish
    True
    """
    domain = domain_name(domain)
    return registry.register_converter(
        op_type, since, convert, domain=domain, to=to, attributes=attributes
    )


def converter(op_type: str, since: int = 1, domain: str = "") -> Callable[[Converter], Converter]:
    """`register_converter` as a decorator.

    >>> from loopwright.frontend import onnx
    >>> @onnx.converter("Double", domain="my.domain")
    ... def double(cx, node, x):
    ...     return relax.op.add(x.expr, x.expr)
    >>> onnx.supported_operators("my.domain")["Double"]
    [1]
    """
    return lambda convert: register_converter(op_type, since, convert, domain)


def define(op_type: str, convert: Converter, since: int = 1, domain: str = "") -> None:
    """A converter that is one expression, a lambda of whose inputs none may be left out."""
    register_converter(op_type, since, all_required(convert), domain)


def supported_operators(domain: str = "") -> dict[str, list[int]]:
    """{operator: the versions from which its converters hold}.

    >>> from loopwright.frontend import onnx
    >>> onnx.supported_operators()["Softmax"]
    [1, 13]
    """
    return registry.supported_operators(domain_name(domain))
