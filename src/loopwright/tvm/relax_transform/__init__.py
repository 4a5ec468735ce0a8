"""Passes that TVM users call by name. No pipeline of this package runs them."""
