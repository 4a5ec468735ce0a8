"""From scheduled blocks to flat loops over memory: each pass removes one construct."""
