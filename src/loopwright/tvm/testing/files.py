"""Temporary folders, under the names of `tvm.contrib.utils`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


class TempDirectory:
    """A folder that is removed with this object (or at the end of a `with`)."""

    def __init__(self, custom_path: str | None = None, keep_for_debug: bool | None = None) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if custom_path is not None:
            os.mkdir(custom_path)
            self.temp_dir = custom_path
        elif keep_for_debug:
            self.temp_dir = tempfile.mkdtemp()
        else:
            self._folder = tempfile.TemporaryDirectory()
            self.temp_dir = self._folder.name

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.temp_dir)

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def relpath(self, name: str) -> str:
        """The path of a file in the folder."""
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        """The names in the folder."""
        return os.listdir(self.temp_dir)

    def remove(self) -> None:
        """Delete the folder (one that was given or is kept stays)."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def tempdir(custom_path: str | None = None, keep_for_debug: bool | None = None) -> TempDirectory:
    """A temporary folder."""
    return TempDirectory(custom_path, keep_for_debug)
