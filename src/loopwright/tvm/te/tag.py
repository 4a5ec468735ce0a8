"""Tags: a label for the operations created within a scope."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from ...base.errors import explain
from ...te.tensor import Operation


class TagScope:
    """A context, or decorator, that tags the operations created inside: see `te.tag_scope`.

    >>> te.TagScope("conv").tag
    'conv'
    """

    _open: ClassVar[TagScope | None] = None

    def __init__(self, tag: str) -> None:
        self.tag = tag

    @classmethod
    def get_current(cls) -> TagScope | None:
        """The open scope, or None."""
        return TagScope._open

    def __enter__(self) -> TagScope:
        if TagScope._open is not None:
            what, hint = "tag scopes do not nest", "leave the outer scope first"
            got = f"{self.tag!r} inside {TagScope._open.tag!r}"
            raise ValueError(explain(what, got=got, instead=hint))
        TagScope._open, Operation.scope_tag = self, self.tag
        return self

    def __exit__(self, *_: Any) -> None:
        TagScope._open = Operation.scope_tag = None

    def __call__(self, fn: Callable[..., Any]) -> Any:
        @functools.wraps(fn)
        def tagged(*args: Any, **kwargs: Any) -> Any:
            with TagScope(self.tag):
                return fn(*args, **kwargs)

        return tagged


def tag_scope(tag: str) -> TagScope:
    """A scope that tags the operations created within it.

    >>> with te.tag_scope("conv"):
    ...     te.compute((4,), lambda i: i).op.tag
    'conv'
    """
    return TagScope(tag)
