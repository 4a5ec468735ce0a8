"""Paths such as `<root>.body.seq[1]`, as `ir.assert_structural_equal` names them."""

from __future__ import annotations

import re
from typing import Any

from ...base.errors import explain

_STEP = re.compile(
    r"\.(?P<attr>[A-Za-z_]\w*)|\[(?P<index>-?\d+)\]|\[(?P<quote>['\"])(?P<key>.*?)(?P=quote)\]"
)


def resolve(root: Any, path: Any) -> Any:
    """The object at `path` below `root`. Raises ValueError when there is none."""
    text = str(path).removeprefix("<root>")
    here, at = root, 0
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            what = "this is not a path"
            raise ValueError(explain(what, got=str(path), instead="write <root>.body.seq[0]"))
        here = _follow(here, step, str(path))
        at = step.end()
    return here


def _follow(here: Any, step: re.Match[str], path: str) -> Any:
    try:
        if step["attr"] is not None:
            return getattr(here, step["attr"])
        if step["index"] is not None:
            return here[int(step["index"])]
        if isinstance(here, dict):
            named = {getattr(k, "name_hint", k): v for k, v in here.items()}
            return named[step["key"]]
        return here[step["key"]]
    except (AttributeError, IndexError, KeyError, TypeError):
        what = f"the path {path} ends at {step[0]}"
        raise ValueError(explain(what, got=type(here).__name__)) from None
