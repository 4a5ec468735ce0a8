"""Schedules of several steps that are no primitives."""

from .tensorize_mapping import tile_with_tensor_intrin as tile_with_tensor_intrin
