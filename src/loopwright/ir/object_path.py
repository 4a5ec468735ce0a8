"""Paths from a node to a part of it, step by step: `ObjectPath.root().attr("body").array_index(1)`.

The text of a path, "<root>.body[1]", appears in errors of `assert_structural_equal` and in options
of the printer; `ObjectPath.parse` reads it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..base.errors import explain

if TYPE_CHECKING:
    from .expr import GlobalVar


class ObjectPath:
    """A path: its prefix, and the text of its last step. Equal by text."""

    def __init__(self, parent: ObjectPath | None, step: str) -> None:
        self.parent = parent
        self.step = step

    @staticmethod
    def root(root_name: str | None = None) -> RootPath:
        """The path of no step."""
        return RootPath(None, "<root>" if root_name is None else root_name)

    @staticmethod
    def parse(text: str) -> ObjectPath:
        """The path of a text. Raises ValueError for a text that is not a path."""
        start = re.match(r"<root>|[^.\[]+", text)
        path: ObjectPath = ObjectPath.root(start[0] if start else None)
        at = start.end() if start else 0
        while at < len(text):
            step = _STEP.match(text, at)
            if step is None:
                what = "this is not a path"
                raise ValueError(explain(what, got=text, instead="write <root>.body.seq[0]"))
            if step["attr"] is not None:
                path = path.attr(step["attr"])
            elif step["index"] is not None:
                path = path.array_index(int(step["index"]))
            elif step["key"] is not None:
                path = path.map_value(step["key"])
            else:  # a variable by its name
                path = MapValuePath(path, step[0])
            at = step.end()
        return path

    def attr(self, attr_key: str | None) -> ObjectPath:
        """On to an attribute; None for one that is not known."""
        if attr_key is None:
            return UnknownAttributeAccessPath(self, ".<unknown attribute>")
        return AttributeAccessPath(self, f".{attr_key}")

    def array_index(self, index: int) -> ObjectPath:
        """On to an item of a list."""
        return ArrayIndexPath(self, f"[{int(index)}]")

    def missing_array_element(self, index: int) -> ObjectPath:
        """On to an item that a list is too short for."""
        return MissingArrayElementPath(self, f"[<missing element #{int(index)}>]")

    def map_value(self, key: GlobalVar | str) -> ObjectPath:
        """On to the value of a key."""
        text = json.dumps(key) if isinstance(key, str) else getattr(key, "name_hint", key)
        return MapValuePath(self, f"[{text}]")

    def missing_map_entry(self) -> ObjectPath:
        """On to the value of a key that is not there."""
        return MissingMapEntryPath(self, "[<missing entry>]")

    def missing(self) -> ObjectPath:
        """The path to the same place on the side where it is not there."""
        if self.parent is None:
            return self
        if isinstance(self, ArrayIndexPath):
            return self.parent.missing_array_element(int(self.step[1:-1]))
        return self.parent.missing_map_entry()

    def steps(self) -> list[ObjectPath]:
        """The paths on the way, the root first and this one last."""
        return [*(self.parent.steps() if self.parent is not None else ()), self]

    def get_prefix(self, length: int) -> ObjectPath:
        """The path of the first `length` steps, the root included. Raises IndexError."""
        if length < 1:
            raise IndexError("Prefix length must be at least 1")
        if length > len(self):
            raise IndexError("Attempted to get a prefix longer than the path itself")
        return self.steps()[length - 1]

    def is_prefix_of(self, other: ObjectPath) -> bool:
        """Whether `other` extends this path, or is equal to it."""
        return len(self) <= len(other) and other.get_prefix(len(self)) == self

    def __len__(self) -> int:
        return len(self.steps())

    def __str__(self) -> str:
        return "".join(path.step for path in self.steps())

    def __repr__(self) -> str:
        return f"ObjectPath({self})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class RootPath(ObjectPath):
    """Where a path begins."""


class AttributeAccessPath(ObjectPath):
    """`.name`"""


class UnknownAttributeAccessPath(ObjectPath):
    """An attribute of an unknown name."""


class ArrayIndexPath(ObjectPath):
    """`[2]`"""


class MissingArrayElementPath(ObjectPath):
    """An item that is not there."""


class MapValuePath(ObjectPath):
    """`["key"]`"""


class MissingMapEntryPath(ObjectPath):
    """A key that is not there."""


@dataclass(frozen=True)
class ObjectPathPair:
    """Where two nodes differ: the path in each."""

    lhs_path: ObjectPath
    rhs_path: ObjectPath

    def __iter__(self) -> Any:
        return iter((self.lhs_path, self.rhs_path))

    def __getitem__(self, index: Literal[0, 1]) -> ObjectPath:
        return (self.lhs_path, self.rhs_path)[index]


_STEP = re.compile(
    r"\.(?P<attr>[A-Za-z_]\w*)|\[(?P<index>-?\d+)\]|\[(?P<quote>['\"])(?P<key>.*?)(?P=quote)\]"
    r"|\[(?P<other>[^\]]*)\]"
)
