"""What of Relax exists only because TVM has it: patterns by name, analyses, rewriting by hand."""
