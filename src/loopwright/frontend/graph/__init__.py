"""What importers of graphs share, whatever the file: the walk, values, converters by operator."""
