"""Build and try a release: python -m tools.release [--python PYTHON]...

- wheel and sdist, twice, from the commit's date: the bytes must be the same; `twine check` reads their texts;
- each is installed in an empty environment outside of the checkout, on each Python: the bundled model is
  compiled and run there, and `loopwright --version` is the one of pyproject.toml;
- CHANGELOG.md must have a section of this version.

What was tried is printed as a table; the exit status is 1 where something failed. It tags and uploads nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
TRIED = """
import sys
from pathlib import Path
import loopwright as lw, numpy as np
data = Path(lw.__file__).parent / "driver/data"
assert Path(sys.prefix) in data.parents, data
exe = lw.compile(str(data / "digits.onnx"))
found = exe.run({"image": np.load(data / "digits.npz")["image"]})["probability"].numpy()
assert list(found.argmax(axis=1)) == list(range(10)), found
"""


def run(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, cwd=tempfile.gettempdir(),
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | environment,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> dict[str, str]:
    """Wheel and sdist of this commit in a folder; the digest of each by its name."""
    date = run("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, SOURCE_DATE_EPOCH=date)
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def tried(python: str, package: Path, version: str) -> str:
    """A row of the table: the package installed in an empty environment, and used."""
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", folder)
        own = Path(folder, "bin/python")
        started = time.perf_counter()
        run(own, "-m", "pip", "install", "--quiet", f"{package}[onnx]")
        took = time.perf_counter() - started
        run(own, "-c", TRIED, LOOPWRIGHT_CACHE="0")
        said = run(Path(folder, "bin/loopwright"), "--version")
        assert version in said, said
    size = package.stat().st_size / 1e6
    number = run(python, "-V").split()[1]
    return f"| {number} | {package.suffixes[-1]} | {size:.2f} MB | {took:.0f} s |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", action="append", help="by default each of 3.11 to 3.14 on PATH")
    pythons = parser.parse_args().python or [
        p for v in VERSIONS if (p := shutil.which(f"python{v}"))
    ]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]
    if f"\n## {version} " not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        raise SystemExit(
            f"CHANGELOG.md has no section of {version}; instead: ## {version} - YEAR-MONTH-DAY"
        )
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as again:
        first, second = build(DIST), build(Path(again))
    if first != second:
        raise SystemExit(f"two builds of a commit differ\n  got: {first}\n  and: {second}")
    packages = sorted(DIST.iterdir())
    print(run(sys.executable, "-m", "twine", "check", "--strict", *packages).strip())
    print("| Python | package | size | installed in |\n| --- | --- | ---: | ---: |")
    for python in pythons:
        for package in packages:
            print(tried(python, package, version), flush=True)
    print("\n".join(f"{digest}  {name}" for name, digest in first.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
