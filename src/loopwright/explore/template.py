"""Pages as text: the assets of this folder, and data that a page unpacks."""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

_STYLES = ("page.css",)
_SCRIPTS = ("dagre.min.js", "diff.min.js", "model.js", "texts.js")
_SCRIPTS += ("graph.js", "charts.js", "overview.js", "page.js")
_LICENCES = ("dagre.LICENSE", "diff.LICENSE")


def html_of(data: dict[str, Any], scripts: Sequence[str] = _SCRIPTS, kind: str = "page") -> str:
    """A page of data, with these scripts and the body of this kind."""
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0)
    assert __package__ is not None
    asset = files(__package__) / "assets"
    read = lambda name: (asset / name).read_text(encoding="utf-8")  # noqa: E731
    parts = {
        "KIND": kind,
        "BODY": read(f"{kind}.html"),
        "TITLE": html.escape(data["title"]),
        "STYLE": "\n".join(map(read, _STYLES)),
        "LICENCES": "\n".join(map(read, _LICENCES)).replace("--", "- -"),
        "DATA": base64.b64encode(packed).decode(),
        "SCRIPT": "\n".join(map(read, scripts)).replace("</script", "<\\/script"),
    }
    text = read("frame.html")
    for name, value in parts.items():
        text = text.replace(f"@{name}@", value, 1)
    return text
