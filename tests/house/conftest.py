"""What the house rules share."""

from __future__ import annotations

import ast

import pytest

from .source import sources


@pytest.fixture(autouse=True, scope="session")
def read() -> None:
    """Reads all modules before any rule asks: it is the cost of no test."""
    for source in sources():
        source.nodes(ast.Call)
