"""python -m tools.make_assets: the JavaScript libraries of the explorer's page, from the npm registry.

Each file goes into src/loopwright/explore/assets with its licence. They are committed, and part of
the wheel; a new version is a change of the table here.
"""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from functools import partial
from pathlib import Path

ASSETS = Path(__file__).parent.parent / "src" / "loopwright" / "explore" / "assets"

# package -> file in it, licence files, name here.
LIBRARIES = {
    "@dagrejs/dagre@3.1.3": (
        "dist/dagre.min.js",
        ("LICENSE", "dist/dagre.min.js.LEGAL.txt"),
        "dagre",
    ),
    "diff@9.0.0": ("dist/diff.min.js", ("LICENSE",), "diff"),
}


def _read(packed: tarfile.TarFile, path: str) -> str:
    file = packed.extractfile(f"package/{path}")
    assert file is not None
    return file.read().decode()


def main() -> None:
    """Fetch all of them. Raises CalledProcessError where npm cannot."""
    with tempfile.TemporaryDirectory() as folder:
        for package, (script, licences, name) in LIBRARIES.items():
            command = ["npm", "pack", "--silent", package]
            done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
            with tarfile.open(Path(folder) / done.stdout.split()[-1]) as packed:
                read = partial(_read, packed)
                lines = [
                    line for line in read(script).splitlines() if "sourceMappingURL" not in line
                ]
                licence = "".join(map(read, licences))
            (ASSETS / f"{name}.min.js").write_text("\n".join(lines) + "\n", encoding="utf-8")
            (ASSETS / f"{name}.LICENSE").write_text(licence, encoding="utf-8")
            print(f"{name}: {package}")


if __name__ == "__main__":
    main()
