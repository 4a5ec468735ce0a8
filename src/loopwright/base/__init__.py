"""Errors, source positions, knobs: the base of every other layer."""

__version__ = "0.2.0"
