"""From values to planned storage and one native function."""
