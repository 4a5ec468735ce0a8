"""Patterns of what CUDA's libraries take. Their code generators need a GPU and are not here."""
