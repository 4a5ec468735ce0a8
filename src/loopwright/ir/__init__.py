"""Node machinery, dtypes, operators, modules, targets and passes."""
