"""Errors, source positions, knobs: what every other layer stands on."""

__version__ = "0.1.0"
