"""Pictures in files: `relax.run.decode_image`."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from .builtins import builtin, view_of
from .values import VMValueError, arrive


@builtin("relax.run.decode_image")
def decode_image(data: Any, pixels: str) -> Any:
    """The picture in a file's bytes, uint8 (height, width, channels). pixels: "RGB", "BGR" or
    "Grayscale"."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        what = "decoding pictures needs the package Pillow"
        raise LoopwrightError(explain(what, instead="pip install pillow")) from error
    try:
        picture = Image.open(io.BytesIO(view_of(data).tobytes()))
        array = np.array(picture.convert("L" if pixels == "Grayscale" else "RGB"))
    except (UnidentifiedImageError, OSError) as error:
        raise VMValueError(explain("the bytes are not a picture", got=str(error))) from error
    array = array[..., None] if pixels == "Grayscale" else array
    return arrive(np.ascontiguousarray(array[..., ::-1] if pixels == "BGR" else array))
