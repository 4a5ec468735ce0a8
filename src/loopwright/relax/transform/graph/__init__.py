"""From operators to kernel calls, with graph simplification on the way."""
