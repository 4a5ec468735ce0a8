"""Selects the calls that become one kernel, and the regions for external code generators."""
