"""From operators to calls of loops, and what makes the graph smaller on the way."""
