"""Passes that TVM's users call by name. No pipeline of this package runs them."""
