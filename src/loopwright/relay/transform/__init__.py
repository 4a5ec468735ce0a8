"""Passes on Relay."""

from __future__ import annotations

from .annotate_spans import AnnotateSpans
from .infer_type import InferType

__all__ = ["AnnotateSpans", "InferType"]
