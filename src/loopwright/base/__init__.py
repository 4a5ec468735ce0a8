"""Errors, source positions, knobs: what every other layer stands on."""
