"""Optimizations that change a function's parameters together with their values."""

from __future__ import annotations

from . import simplify_fc_transpose
