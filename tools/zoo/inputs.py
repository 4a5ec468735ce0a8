"""Synthetic inputs that look like the real thing: photos, rendered text, speech, token ids."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]

# A 5x7 font, five column bytes a glyph, lowest bit on top; letters that look alike are left out.
_CODES = "0123456789ABCDEFGHIKLMNOPRSTUX"
_COLUMNS = """
3E5149453E 00427F4000 7249494946 2141494D33 1814127F10 2745454539 3C4A494931 4121110907 3649494936
464949291E 7C1211127C 7F49494936 3E41414122 7F4141413E 7F49494941 7F09090901 3E41415173 7F0808087F
00417F4100 7F08142241 7F40404040 7F021C027F 7F0408107F 3E4141413E 7F09090906 7F09192946 2649494932
03017F0103 3F4040403F 6314081463
"""
GLYPH_HEIGHT, GLYPH_WIDTH = 7, 5


def _glyph(columns: str) -> NDArray[np.bool_]:
    bits = np.frombuffer(bytes.fromhex(columns), dtype=np.uint8)
    return np.unpackbits(bits[:, None], axis=1, bitorder="little")[:, :GLYPH_HEIGHT].T.astype(bool)


FONT: dict[str, NDArray[np.bool_]] = {
    code: _glyph(columns) for code, columns in zip(_CODES, _COLUMNS.split())
}


def generator(seed: int) -> np.random.Generator:
    """The random numbers of one input: the same everywhere for the same seed."""
    return np.random.default_rng(seed)


def photo(height: int, width: int, *, seed: int = 0) -> F32:
    """A photo-like image (1, 3, height, width) in [0, 1]: gradients, boxes, stripes, mild noise."""
    rng = generator(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    waves = [
        0.5 + 0.4 * np.sin(x / width * (2 + c) * 3.1) * np.cos(y / height * (3 - c) * 2.7)
        for c in range(3)
    ]
    image = np.stack(waves, axis=-1)
    for _ in range(8):
        top, left = rng.integers(0, height), rng.integers(0, width)
        tall, wide = rng.integers(4, max(5, height // 3)), rng.integers(4, max(5, width // 3))
        image[top : top + tall, left : left + wide] = rng.random(3)
    for stripe in range(3):
        top = height * (stripe + 1) // 4
        image[top : top + max(2, height // 20)][:, rng.random(width) > 0.6] = 0.05
    image = np.clip(image + rng.normal(0, 0.02, image.shape), 0, 1)
    return np.ascontiguousarray(image.transpose(2, 0, 1)[None], dtype=np.float32)


def blur(image: NDArray[np.floating]) -> NDArray[np.floating]:
    """The mean over each 3x3 neighbourhood of a (height, width) image."""
    height, width = image.shape
    padded = np.pad(image, 1, mode="edge")
    return sum(padded[i : i + height, j : j + width] for i in range(3) for j in range(3)) / 9


def _write(image: NDArray[np.floating], text: str, top: int, scale: int) -> None:
    left = scale
    for char in text:
        if left + GLYPH_WIDTH * scale > image.shape[1]:
            return
        if char in FONT:
            ink = np.kron(FONT[char], np.ones((scale, scale), dtype=bool))
            image[top : top + ink.shape[0], left : left + ink.shape[1]][ink] = 0.1
        left += (GLYPH_WIDTH + 1) * scale


def text(
    height: int,
    width: int,
    line: str | None = None,
    *,
    rows: int = 1,
    batch: int = 1,
    scale: int | None = None,
    seed: int = 0,
) -> F32:
    """Dark text on a light, uneven ground: (batch, 3, height, width) in [-1, 1].

    OCR networks really read it. `line` is the text of the first image when there is one row; all
    other text is random.
    """
    rng = generator(seed)
    images = []
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    row_height = height // rows
    scale = scale or max(1, int(row_height * 0.62) // GLYPH_HEIGHT)
    letters = max(1, (width - 2 * scale) // ((GLYPH_WIDTH + 1) * scale))
    for index in range(batch):
        image = 0.85 + 0.08 * np.sin(x / width * 3 + index) * np.cos(y / height * 2)
        for row in range(rows):
            given = line if rows == 1 and index == 0 else None
            words = given or "".join(rng.choice(list(FONT), letters))
            top = row * row_height + (row_height - GLYPH_HEIGHT * scale) // 2
            _write(image, words, top, scale)
        image = blur(image)
        images.append(np.clip(image + rng.normal(0, 0.01, image.shape), 0, 1))
    gray = np.stack(images)[:, None].astype(np.float32)
    return np.repeat((gray - 0.5) / 0.5, 3, axis=1)


def speech(samples: int, rate: int = 16000, *, seed: int = 0) -> F32:
    """Speech-like sound (samples,): harmonics of a moving pitch, syllables, a noise floor."""
    time = np.arange(samples) / rate
    pitch = 140 + 30 * np.sin(2 * np.pi * 0.7 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = sum(np.sin(k * phase) / k for k in range(1, 12))
    syllables = (0.5 + 0.5 * np.sin(2 * np.pi * 3 * time)) ** 2
    noise = generator(seed).normal(size=samples)
    return (0.12 * voice * syllables + 0.003 * noise).astype(np.float32)


def tokens(length: int, vocabulary: int) -> I64:
    """Word ids (1, length) between BERT's start (101) and end (102) marks."""
    ids = generator(0).integers(min(1000, vocabulary // 2), vocabulary, (1, length))
    ids[0, 0], ids[0, -1] = 101, 102
    return ids.astype(np.int64)
