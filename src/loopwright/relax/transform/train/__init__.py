"""Passes that prepare a model for training: they add its loss, and gradients."""
