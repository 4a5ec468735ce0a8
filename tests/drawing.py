"""Random inputs that depend on nothing but a name: not on what was drawn, or which tests ran, before.

Tests draw from the fixture `rng`, which is seeded by their name; tables of cases at module level from
`drawn("name")`.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

import numpy as np


def seeded(name: str) -> np.random.Generator:
    """A generator that the name seeds."""
    return np.random.default_rng(zlib.crc32(name.encode()))


class _OfTables(np.random.Generator):
    def __getattribute__(self, name: str) -> Any:
        if "PYTEST_CURRENT_TEST" in os.environ:
            raise AssertionError(
                "a test draws from the generator of a table, which others draw from, too\n"
                "  instead: the fixture rng, given on to helpers"
            )
        return super().__getattribute__(name)


def drawn(name: str) -> np.random.Generator:
    """What tables of cases at module level are drawn from. Within a test it raises AssertionError."""
    return _OfTables(seeded(name).bit_generator)
