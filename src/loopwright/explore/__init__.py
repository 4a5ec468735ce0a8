"""The explorer: everything that a compilation did, found from everything else, and as one page."""

from __future__ import annotations

from .explored import Explored, Origin, Where
from .exports import model_explorer, netron

__all__ = ["Explored", "Origin", "Where", "model_explorer", "netron"]
