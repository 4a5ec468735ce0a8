"""The explorer of a compilation: its nodes, passes, kernels and lines, linked with each other, and as a page."""

from __future__ import annotations

from .explored import Explored, Origin, Where
from .exports import model_explorer, netron
