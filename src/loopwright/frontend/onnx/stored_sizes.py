"""Sizes of inputs that a model file has as metadata: `stored_sizes`.

ONNX: entries of `metadata_props` under the name of a symbolic size, and those that exporters of vision
models write: `batch`, and `imgsz`, the height and the width of images.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


def stored_sizes(path: Path, kinds: Mapping[str, str]) -> dict[str, int]:
    """The symbolic sizes that the file has numbers for. kinds: the kind of axis of each size, in the
    order of the inputs."""
    if path.suffix != ".onnx" or not path.is_file():
        return {}
    import onnx

    entries = onnx.load(path, load_external_data=False).metadata_props
    stored = {entry.key: _numbers(entry.value) for entry in entries}
    sizes = {name: stored[name][0] for name in kinds if len(stored.get(name, ())) == 1}
    for kind, key in (("batch", "batch"), ("image", "imgsz")):
        axes, values = [n for n, k in kinds.items() if k == kind], stored.get(key, [])
        if len(values) == 1:
            values = values * len(axes)
        sizes = {**dict(zip(axes, values, strict=False)), **sizes}
    return sizes


def _numbers(text: str) -> list[int]:
    """The positive whole numbers of a text that is one, or a list of them; else none."""
    try:
        value = json.loads(text)
    except ValueError:
        return []
    values = value if isinstance(value, list) else [value]
    return values if all(type(v) is int and v > 0 for v in values) else []
