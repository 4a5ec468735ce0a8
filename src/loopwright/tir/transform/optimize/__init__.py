"""The same loops with less work: simpler indices, hoisted conditions and divisions, split tiles."""
