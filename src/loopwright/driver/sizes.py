"""Sizes of inputs that a model leaves open, and the source of each.

In this order: `--shape image=1,3,224,224`, `--dims height=224`, the model file's own metadata (of TFLite
the shapes next to its signatures), else the typical size of this kind of axis
(`frontend.common.typical_sizes`: batch 1, image 224, sequence 128).
"""

from __future__ import annotations

import ast
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import LoopwrightError, UnknownName, explain, suggest
from ..base.names import as_identifier
from ..frontend.common import typical_sizes
from ..frontend.onnx.stored_sizes import stored_sizes
from ..frontend.tflite.reader import stated_shapes

Described = tuple[str, str, Sequence[Any]]  # an input: name, dtype, shape
BATCH = "batch"
_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True)
class Size:
    """A size and where it is from. is_default: whether neither the user nor the file has it."""

    value: int
    source: str
    is_default: bool = False

    def __str__(self) -> str:
        return f"{self.value} ({self.source})"


def read_dims(text: str, dims: Iterable[str]) -> dict[str, int]:
    """The sizes of a text such as "n=4,height=32", or "4" for all of `dims`. Raises LoopwrightError
    for a text that is not a size, and for an unknown name."""
    names, values = list(dict.fromkeys(dims)), {}
    for part in filter(None, text.split(",")):
        name, equals, number = (word.strip() for word in part.rpartition("="))
        if not number.isdecimal():
            hint = "--dims n=1,height=32, or one number for all"
            raise LoopwrightError(explain("a size is a whole number", got=part, instead=hint))
        for size in [name] if equals else names:
            if size not in names:
                what = "the model has no symbolic size of this name"
                hint = suggest(size, names, "it has:") if names else "all of its sizes are fixed"
                raise UnknownName(explain(what, got=size, instead=hint))
            values[size] = int(number)
    return values


def read_shapes(texts: Iterable[str], inputs: Sequence[Described]) -> dict[str, int]:
    """The sizes that texts such as "image=1,3,224,224" set. Raises LoopwrightError for a text that is
    not a shape, an unknown input, and a shape that the input does not have."""
    values: dict[str, int] = {}
    shapes = {name: shape for name, _, shape in inputs}
    for text in texts:
        name, equals, numbers = text.rpartition("=")
        if not equals and len(inputs) == 1:
            name = inputs[0][0]
        sizes = [n.strip() for n in numbers.strip("[] ").replace("x", ",").split(",")]
        if not name or not all(n.isdecimal() for n in sizes):
            hint = "--shape image=1,3,224,224"
            raise LoopwrightError(explain("this is not a shape", got=text, instead=hint))
        name = find_input(name, shapes)
        shape, got = shapes[name], [int(n) for n in sizes]
        fits = len(shape) == len(got)
        for dim, size in zip(shape, got, strict=False):
            fits = fits and (isinstance(dim, str) or dim == size)
            if isinstance(dim, str) and dim.isidentifier():
                fits = fits and values.setdefault(dim, size) == size
        if not fits:
            what = f"the input {name} does not have this shape"
            hint = f"one of the form {', '.join(map(str, shape))}"
            raise LoopwrightError(explain(what, got=text, instead=hint))
    return values


def find_input(name: str, names: Iterable[str]) -> str:
    """The input of that name, or of the identifier that is made of it: input.1 is input_1. Raises
    UnknownName."""
    same = {as_identifier(n): n for n in names}
    if as_identifier(name) not in same:
        what = "the model has no input of this name"
        raise UnknownName(explain(what, got=name, instead=suggest(name, same.values(), "it has:")))
    return same[as_identifier(name)]


def open_sizes(inputs: Sequence[Described]) -> dict[str, str]:
    """The kind of axis ("batch", "image", "sequence") of each symbolic size of the inputs."""
    return {name: kind for name, (kind, _) in typical_sizes(inputs).items() if name.isidentifier()}


def resolved(
    inputs: Sequence[Described],
    shapes: Iterable[str] = (),
    dims: str = "",
    model: str | os.PathLike[str] | None = None,
) -> dict[str, Size]:
    """Every symbolic size of the inputs. model: the file, for its metadata. Raises LoopwrightError for
    texts that are not sizes of this model."""
    kinds, sizes = open_sizes(inputs), dict[str, Size]()
    for source, values in (
        ("--shape", read_shapes(shapes, inputs)),
        ("--dims", read_dims(dims, kinds)),
    ):
        for name, value in values.items():
            sizes.setdefault(name, Size(value, source))
    if model is not None and kinds.keys() - sizes.keys():
        sizes = {**_stored(Path(model), inputs, kinds), **sizes}
    typical = dict(typical_sizes(inputs).values())
    for name, kind in kinds.items():
        sizes.setdefault(name, Size(typical[kind], f"default of {kind} axes", True))
    return {name: sizes[name] for name in kinds}


def _stored(path: Path, inputs: Sequence[Described], kinds: Mapping[str, str]) -> dict[str, Size]:
    """The sizes that a model file has numbers for. TFLite's converters write 1 for any size without a
    number, so only a batch may be of one."""
    if path.suffix != ".tflite":
        stored = stored_sizes(path, kinds).items()
        return {name: Size(value, "the file's metadata") for name, value in stored}
    pairs = (
        pair
        for (*_, shape), stated in zip(inputs, stated_shapes(path), strict=False)
        for pair in zip(shape, stated, strict=False)
    )
    return {
        dim: Size(number, "the file's shape")
        for dim, number in pairs
        if dim in kinds and number > (kinds[dim] != BATCH)
    }


def fixed(shape: Iterable[int | str], sizes: Mapping[str, int]) -> list[int]:
    """A shape with numbers in place of sizes, and of expressions of them such as "n * 2"."""
    return [
        d if isinstance(d, int) else _value(ast.parse(d, mode="eval").body, sizes) for d in shape
    ]


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, sizes), _value(node.right, sizes))
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name) and node.id in sizes:
        return sizes[node.id]
    what = "this size is not computed from others"
    raise LoopwrightError(explain(what, got=ast.unparse(node), instead="--feeds FILE.npz"))
