"""The object at a path such as `<root>.body.seq[1]`, as `ir.assert_structural_equal` names them."""

from __future__ import annotations

from typing import Any

from ...base.errors import explain
from ...ir.object_path import ArrayIndexPath, AttributeAccessPath, MapValuePath, ObjectPath


def resolve(root: Any, path: ObjectPath | str) -> Any:
    """The object at `path` below `root`. Raises ValueError if it does not exist."""
    whole = path if isinstance(path, ObjectPath) else ObjectPath.parse(path)
    here = root
    for step in whole.steps()[1:]:
        here = _follow(here, step)
    return here


def _follow(here: Any, step: ObjectPath) -> Any:
    try:
        if isinstance(step, AttributeAccessPath):
            return getattr(here, step.step[1:])
        if isinstance(step, ArrayIndexPath):
            return here[int(step.step[1:-1])]
        if isinstance(step, MapValuePath):
            key = step.step[1:-1].strip('"')
            if isinstance(here, dict):
                return {str(getattr(k, "name_hint", k)): v for k, v in here.items()}[key]
            return here[key]
    except (AttributeError, IndexError, KeyError, TypeError):
        pass
    raise ValueError(explain(f"the path {step} ends at {step.step}", got=type(here).__name__))
