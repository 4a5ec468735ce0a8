"""Adds what training takes to a model: its loss, and gradients."""
