"""Pages in headless Chromium: fixtures of the tests that need one."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest

from loopwright.explore.explored import Explored
from loopwright.explore.page import page, page_data
from loopwright.explore.pair import data_of_page, pair_page
from tools.zoo import MODELS, RegistryError, fetch

from .browser import Browser, missing
from .models import large

ROOT = Path(__file__).resolve().parents[2]
DIGITS = str(ROOT / "src/loopwright/driver/data/digits.onnx")


@pytest.fixture(scope="session")
def browser():
    if lacks := missing():
        pytest.skip(f"no {lacks}: `make browser` installs what this test needs")
    made = Browser()
    yield made
    made.driver.quit()


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """The page of a model, made once."""
    made: dict[str, Path] = {}

    def write(name: str) -> Path:
        if name not in made:
            model, feeds = model_of(name)
            path = tmp_path_factory.mktemp("pages") / f"{name}.html"
            explored = Explored.compiled(model)
            path.write_text(page(explored, feeds, title=name, number=2), encoding="utf-8")
            made[name] = path
        return made[name]

    return write


def model_of(name):
    rng = np.random.default_rng(0)
    if name == "digits":
        return DIGITS, {"image": rng.standard_normal((8, 1, 16, 16)).astype("float32")}
    if name == "large":
        return large(), {"x": rng.standard_normal((4, 16)).astype("float32")}
    try:
        model = fetch(name)
    except RegistryError as error:
        pytest.skip(f"{name}: {error}")
    return model, MODELS[name].feeds()


@pytest.fixture
def shown(browser, written):
    """A page, open and checked."""

    def show(name: str, address: str = "") -> Browser:
        browser.open(f"file://{written(name)}{address or '#view=panes'}")
        return browser

    return show


@pytest.fixture(scope="session")
def two(written, tmp_path_factory):
    """The page of digits for this CPU and for another one."""
    model, feeds = model_of("digits")
    after = page_data(
        Explored.compiled(model, "llvm -mcpu=haswell"), feeds, title="digits", number=2
    )
    file = tmp_path_factory.mktemp("pairs") / "pair.html"
    file.write_text(pair_page(data_of_page(written("digits")), after), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """The script of axe-core, from the npm registry."""
    folder = tmp_path_factory.mktemp("axe")
    command = ["npm", "pack", "--silent", "axe-core@4.14.1"]
    if shutil.which("npm") is None or subprocess.run(command, cwd=folder, check=False).returncode:
        pytest.skip("npm cannot fetch axe-core")
    (packed,) = folder.glob("*.tgz")
    with tarfile.open(packed) as files:
        file = files.extractfile("package/axe.min.js")
        assert file is not None
        return file.read().decode()
