"""Whether anything but the package itself has changed how models are compiled.

The registries' public functions (legalizations, schedule rules, converters, facts of operators)
call `note`; what the package's own modules register while they are imported does not count. A
compiled model is kept for other processes only while `count()` is 0.
"""

from __future__ import annotations

import sys

_PACKAGE = __name__.partition(".")[0]
_made = 0


def note() -> None:
    """Something was registered. Of the package's own making when its caller is a module of the
    package being imported."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name != _PACKAGE and not name.startswith(f"{_PACKAGE}."):
            break
        if frame.f_code.co_name == "<module>":
            return
        frame = frame.f_back
    global _made
    _made += 1


def count() -> int:
    """How many registrations came from outside the package."""
    return _made
