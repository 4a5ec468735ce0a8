"""From scheduled blocks to flat loops over memory: each pass takes one construct away."""
