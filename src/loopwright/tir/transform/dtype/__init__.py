"""Lowers types that memory or the machine does not have to types that it has."""
