"""The front door: lower, compile, run."""
