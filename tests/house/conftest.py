"""What the tests of the house rules share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .source import sources


@pytest.fixture(autouse=True, scope="module")
def sources_of_one_file() -> Iterator[None]:
    """Syntax trees are forgotten at a file's end: collections of garbage in later tests visit them, too."""
    yield
    sources.cache_clear()
