"""Targets: one file each, with its pipelines and what it does in its own way."""
