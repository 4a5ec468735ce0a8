"""Models of language on CPUs: a GGUF file, or a folder of Hugging Face's, to tokens.

from loopwright import llm
model = llm.load("tiny-llama")
print(model.generate("Once upon a time", max_new_tokens=50))
"""

from __future__ import annotations

from .block import Options
from .cache import State
from .config import FAMILIES, Config
from .model import Checkpoint, Model, load, read
from .sampling import Sampling

__all__ = [
    "FAMILIES",
    "Checkpoint",
    "Config",
    "Model",
    "Options",
    "Sampling",
    "State",
    "load",
    "read",
]
