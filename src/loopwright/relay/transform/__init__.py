"""Passes on Relay."""

from __future__ import annotations

from .infer_type import InferType

__all__ = ["InferType"]
