"""Tags: a label for the operations created within a scope."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

from ..base.errors import explain


class TagScope:
    """`with te.tag_scope("conv"): ...` tags the operations created inside; also a decorator."""

    _current: ClassVar[TagScope | None] = None

    def __init__(self, tag: str) -> None:
        self.tag = tag

    @classmethod
    def get_current(cls) -> TagScope | None:
        """The open scope, or None."""
        return TagScope._current

    def __enter__(self) -> TagScope:
        if TagScope._current is not None:
            what, hint = "tag scopes do not nest", "leave the outer scope first"
            got = f"{self.tag!r} inside {TagScope._current.tag!r}"
            raise ValueError(explain(what, got=got, instead=hint))
        TagScope._current = self
        return self

    def __exit__(self, *_: Any) -> None:
        TagScope._current = None

    def __call__(self, fn: Any) -> Any:
        @functools.wraps(fn)
        def tagged(*args: Any, **kwargs: Any) -> Any:
            with TagScope(self.tag):
                return fn(*args, **kwargs)

        return tagged


def tag_scope(tag: str) -> TagScope:
    """A scope that tags the operations created within it."""
    return TagScope(tag)


def current_tag(tag: str) -> str:
    """`tag`, or the open scope's if it is empty."""
    scope = TagScope._current
    if scope is None:
        return tag
    if tag:
        what = "an operation has its own tag inside a tag scope"
        raise ValueError(explain(what, got=f"{tag!r} in scope {scope.tag!r}", instead="drop one"))
    return scope.tag
