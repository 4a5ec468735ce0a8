"""The table of converters: (domain, operator, version) -> a function.

    @converter("LeakyRelu", 6)
    def leaky_relu(cx, node, x):
        return op.nn.leakyrelu(x.expr, node.real("alpha", 0.01))

A converter holds from its version of the domain until the next one registered. It gets the
`Context`, the `Node` and a `Value` for each input (None for one left out), and gives the outputs: a
Relax expression, a Value, or a list of them.
"""

from __future__ import annotations

import inspect
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...base import customised
from .reader import domain_name

Converter = Callable[..., Any]


@dataclass(frozen=True)
class Entry:
    """A converter, the version it holds from, and how many inputs it takes."""

    since: int
    convert: Converter
    least: int
    most: int | None  # None: any number
    names: tuple[str, ...]


_TABLE: dict[tuple[str, str], list[Entry]] = {}


def register_converter(op_type: str, since: int, convert: Converter, domain: str = "") -> Converter:
    """Make `convert` the converter of an operator from version `since` of its domain on.

    It replaces one registered for the same version, so a model's own operators and other meanings
    of the known ones come in the same way.
    """
    customised.note()
    entries = _TABLE.setdefault((domain_name(domain), op_type), [])
    entries[:] = [e for e in entries if e.since != since]
    entries.append(_entry(since, convert))
    entries.sort(key=lambda e: e.since)
    return convert


def converter(op_type: str, since: int = 1, domain: str = "") -> Callable[[Converter], Converter]:
    """`register_converter` as a decorator."""
    return lambda convert: register_converter(op_type, since, convert, domain)


def find_converter(op_type: str, opset: int, domain: str = "") -> Entry | None:
    """The converter that holds at this version of the domain, or None."""
    entries = _TABLE.get((domain, op_type), [])
    place = bisect_right([e.since for e in entries], opset)
    return entries[place - 1] if place else None


def supported_operators(domain: str = "") -> dict[str, list[int]]:
    """{operator: the versions from which its converters hold}."""
    return {
        name: [e.since for e in entries]
        for (where, name), entries in sorted(_TABLE.items())
        if where == domain_name(domain)
    }


def _entry(since: int, convert: Converter) -> Entry:
    params = list(inspect.signature(convert).parameters.values())[2:]
    plain = [p for p in params if p.kind is not p.VAR_POSITIONAL]
    least = sum(p.default is p.empty for p in plain)
    most = len(plain) if len(plain) == len(params) else None
    return Entry(since, convert, least, most, tuple(p.name for p in params))
