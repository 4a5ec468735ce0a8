"""The table of converters: (domain, operator, version) -> a function.

    @converter("SCALE", domain="toy")
    def scale(cx, node, x):
        return op.multiply(x.expr, cx.scalar(node.real("by"), x.dtype))

A dialect's operators are in one or more domains, so that dialects share the table. A converter holds
from its version of the domain until the next one registered. Its parameters are the `Context`, the
`Node` and a `Value` for each input (None for one left out); it returns the outputs: a Relax expression,
a Value, or a list of them.

A node that is an operator of ours under another name needs no function:

    register_converter("Swish", domain="my.domain", to="mylib.swish")
"""

from __future__ import annotations

import inspect
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...base.errors import LoopwrightError, explain, suggest
from ...base.plugins import load_group
from ...base.registry import Registry, origin_of
from ...ops.core import OPERATORS, find_operator

if TYPE_CHECKING:
    from ...relax.expr import Call as RelaxCall
    from .context import Context
    from .model import Node
    from .values import Value

Converter = Callable[..., Any]


@dataclass(frozen=True)
class Entry:
    """A converter, the version it holds from, and the number and names of its inputs, the
    last name for all that follow; `optional`: those that may be left out between others."""

    since: int
    convert: Converter
    least: int
    most: int | None  # None: any number
    names: tuple[str, ...]
    optional: frozenset[str] = frozenset()


# (domain, operator, version from which it holds) -> the converter.
CONVERTERS: Registry[tuple[str, str, int], Entry] = Registry("converter", compiles=True)


# (domain, operator) -> why it has no converter.
REFUSALS: Registry[tuple[str, str], str] = Registry("operator that is refused", compiles=True)


def register_converter(
    op_type: str,
    since: int = 1,
    convert: Converter | None = None,
    *,
    domain: str,
    to: str | None = None,
    attributes: Mapping[str, str] | None = None,
) -> Converter:
    """Make `convert` the converter of an operator from version `since` of its domain on.

    It replaces one registered for the same version, so a model's own operators and other meanings
    of the known ones come in the same way.

    to: instead of `convert`, the operator that this one is: "mylib.swish", "relax.nn.silu". Inputs
        are its tensors in order, attributes those of the same name; one that is absent has the
        operator's default.
    attributes: with `to`, {attribute of the node: the operator's name of it} where they differ.
    Raises LoopwrightError for an operator that is not defined.
    """
    if convert is not None and to is None:
        entry = _entry(since, convert)
    elif convert is None and to is not None:
        entry = _same_operator(since, to, attributes or {})
    else:
        what = f"the converter of {op_type} is a function, or an operator"
        raise LoopwrightError(explain(what, instead="give convert, or to="))
    origin = origin_of(convert)
    key = (domain, op_type, since)
    CONVERTERS.register(key, entry, origin=origin, override=True)
    return entry.convert


def converter(op_type: str, since: int = 1, *, domain: str) -> Callable[[Converter], Converter]:
    """`register_converter` as a decorator."""
    return lambda convert: register_converter(op_type, since, convert, domain=domain)


def all_required(convert: Converter) -> Converter:
    """A lambda as a converter of whose inputs none may be left out."""
    convert.__annotations__ = dict.fromkeys(inspect.signature(convert).parameters, "Value")
    return convert


def find_converter(op_type: str, opset: int, domain: str) -> Entry | None:
    """The converter that holds at this version of the domain, or None."""
    versions = _registered().get((domain, op_type), [])
    count = bisect_right(versions, opset)
    return CONVERTERS[domain, op_type, versions[count - 1]] if count else None


def supported_operators(domain: str) -> dict[str, list[int]]:
    """{operator: the versions from which its converters apply}."""
    return {
        name: versions
        for (where, name), versions in sorted(_registered().items())
        if where == domain
    }


def _registered() -> dict[tuple[str, str], list[int]]:
    load_group("loopwright.ops")  # a plug-in may bring converters, too
    return _versions(CONVERTERS.revision)


@lru_cache(maxsize=1)
def _versions(revision: int) -> dict[tuple[str, str], list[int]]:
    """(domain, operator) -> the versions from which its converters hold, in order."""
    versions: dict[tuple[str, str], list[int]] = {}
    for domain, name, since in sorted(CONVERTERS):
        versions.setdefault((domain, name), []).append(since)
    return versions


def _same_operator(since: int, name: str, renamed: Mapping[str, str]) -> Entry:
    """The converter for a node that is a Relax operator."""
    operator = find_operator(name)
    if operator is None:
        hint = f"{suggest(name, list(OPERATORS))}; define it before, by @op"
        raise LoopwrightError(explain("this operator is not defined", got=name, instead=hint))
    kinds = [p.kind for p in operator.graph_params]
    many = kinds[-1:] == ["Tensors"]
    if any(kind != "Tensor" for kind in kinds[: len(kinds) - many]):
        what = f"the inputs of {name} are not all tensors"
        hint = "write a converter: register_converter(op_type, since, f)"
        raise LoopwrightError(explain(what, got=str(operator.signature), instead=hint))
    own = {p.name: p.name for p in operator.attr_params}
    unknown = [attribute for attribute in renamed.values() if attribute not in own]
    if unknown:
        what = f"{name} has no attribute {unknown[0]}"
        raise LoopwrightError(explain(what, instead=f"it takes {operator.signature}"))
    own.update({attribute: alias for alias, attribute in renamed.items()})

    def convert(cx: Context, node: Node, *inputs: Value | None) -> RelaxCall:
        tensors: list[Any] = [None if x is None else x.expr for x in inputs]
        if many:
            tensors[len(kinds) - 1 :] = [tensors[len(kinds) - 1 :]]
        attrs = {
            attribute: node.attributes[alias] for attribute, alias in own.items() if node.has(alias)
        }
        node.skip(*own.values())
        return operator.builder(*tensors, **attrs)

    least = sum(not p.optional for p in operator.graph_params)
    names = tuple(p.name for p in operator.graph_params)
    optional = frozenset(p.name for p in operator.graph_params if p.optional)
    return Entry(since, convert, least, None if many else len(names), names, optional)


def _entry(since: int, convert: Converter) -> Entry:
    params = list(inspect.signature(convert).parameters.values())[2:]
    params = [p for p in params if p.kind is not p.KEYWORD_ONLY]  # of other converters, no inputs
    plain = [p for p in params if p.kind is not p.VAR_POSITIONAL]
    least = sum(p.default is p.empty for p in plain)
    most = len(plain) if len(plain) == len(params) else None
    optional = frozenset(
        p.name
        for p in params
        if "None" in str(p.annotation) or p.default is None or p.annotation is p.empty
    )
    return Entry(since, convert, least, most, tuple(p.name for p in params), optional)
