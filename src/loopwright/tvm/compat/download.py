"""TVM's `contrib.download`: files from the network, kept in a folder of the user's."""

from __future__ import annotations

import shutil
import urllib.request
from pathlib import Path


def download(
    url: str,
    path: str | Path,
    overwrite: bool = False,
    size_compare: bool = False,
    retries: int = 3,
) -> None:
    """Write the contents of an address to a file, unless it exists. size_compare: accepted for
    compatibility. Raises OSError where it cannot be read."""
    to = Path(path)
    if to.exists() and not overwrite:
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    part = to.with_name(f"{to.name}.part")
    for left in reversed(range(max(retries, 1))):
        try:
            with urllib.request.urlopen(url, timeout=60) as source, part.open("wb") as sink:
                shutil.copyfileobj(source, sink)
            break
        except OSError:
            if not left:
                raise
    part.replace(to)


def download_testdata(
    url: str, relpath: str, module: str | None = None, overwrite: bool = False
) -> str:
    """The path of a file that is downloaded to ~/.tvm_test_data, in the folder `module`."""
    to = Path.home() / ".tvm_test_data" / (module or "") / relpath
    download(url, to, overwrite)
    return str(to)
