"""Checks of functions, at compile time or at run time."""
