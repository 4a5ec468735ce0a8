"""Pages of keys and values: which are free, which sequences share them, and which prefixes they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from ..base.errors import LoopwrightError, explain

PAGE = 16  # tokens


class State:
    """A sequence: its tokens, the pages with their keys and values, and the logits of the token behind the last.

    >>> len(llm.State(pages=[0], ids=[1, 5, 9]))
    3
    """

    def __init__(self, pages: list[int], ids: list[int], logits: Any = None) -> None:
        self.pages, self.ids, self.logits = pages, ids, logits

    def __len__(self) -> int:
        return len(self.ids)


class Pages:
    """A page is free where no sequence has it. It still holds its prefix of tokens then, until it is taken again."""

    def __init__(self, count: int) -> None:
        self.users = [0] * count
        self.free = dict.fromkeys(range(count))  # in the order in which they became free
        self.prefixes: dict[bytes, int] = {}
        self.names: dict[int, bytes] = {}

    def take(self, count: int) -> list[int]:
        """Raises LoopwrightError where fewer are free."""
        if count > len(self.free):
            what, hint = "all pages of the model are in use", "load(path, context=...) with more"
            got = f"{count} pages of {PAGE} tokens"
            raise LoopwrightError(explain(what, got=got, instead=hint))
        pages = list(self.free)[:count]
        for page in pages:
            self.forget(page)
        self.share(pages)
        return pages

    def forget(self, page: int) -> None:
        """It does not hold a prefix any more."""
        self.prefixes.pop(self.names.pop(page, b""), None)

    def is_shared(self, page: int) -> bool:
        """Whether other sequences have a page, too. If not, it will be written to."""
        if self.users[page] == 1:
            self.forget(page)
        return self.users[page] > 1

    def share(self, pages: Iterable[int]) -> None:
        for page in pages:
            self.users[page] += 1
            self.free.pop(page, None)

    def drop(self, pages: list[int], count: int = 0) -> None:
        """Drop all but the first `count` of a sequence's pages."""
        while len(pages) > count:
            page = pages.pop()
            self.users[page] -= 1
            if not self.users[page]:
                self.free[page] = None

    def find(self, ids: Sequence[int]) -> list[int]:
        """The pages that hold the longest prefix of some tokens, now shared by one sequence more."""
        pages: list[int] = []
        for name in _names(ids):
            if name not in self.prefixes:
                break
            pages.append(self.prefixes[name])
        self.share(pages)
        return pages

    def keep(self, state: State) -> None:
        """Note the prefixes that the full pages of a sequence hold."""
        for name, page in zip(_names(state.ids), state.pages, strict=False):
            if page not in self.names and name not in self.prefixes:
                self.prefixes[name], self.names[page] = page, name


def _names(ids: Sequence[int]) -> Iterable[bytes]:
    """A name for each prefix of whole pages."""
    name = b""
    for start in range(0, len(ids) - PAGE + 1, PAGE):
        name = blake2b(name + np.array(ids[start : start + PAGE], np.int32).tobytes()).digest()
        yield name


class Guesses:
    """What follows when a sequence repeats itself: the tokens behind the last place with the same two or three.

    After Saxena, "Prompt Lookup Decoding", 2023.
    """

    def __init__(self) -> None:
        self.ends: dict[tuple[int, ...], int] = {}  # of the last such tokens
        self.done = 0

    def after(self, ids: Sequence[int], most: int) -> list[int]:
        """At most that many tokens that may follow."""
        for end in range(max(self.done, 2), len(ids)):  # all but those at the end itself
            for size in (2, 3):
                self.ends[tuple(ids[max(end - size, 0) : end])] = end
        self.done = len(ids)
        for size in (3, 2):
            end = self.ends.get(tuple(ids[-size:]))
            if end is not None:
                return list(ids[end : end + most])
        return []
