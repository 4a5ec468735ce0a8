"""Patterns for CUDA's libraries. The matching code generators need a GPU and are not included."""
