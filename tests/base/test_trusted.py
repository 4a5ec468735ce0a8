"""What others could change: owners, modes, links."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from loopwright.base.trusted import is_open, unpack, weakness


@pytest.fixture
def folder(tmp_path) -> Path:
    """Three folders in each other."""
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    return inner


def owned(path: Path, user: int) -> object:
    """As if a path belonged to another user."""
    real = os.lstat

    def lstat(at, **rest):
        state = real(at, **rest)
        if Path(at) != path:
            return state
        return SimpleNamespace(st_mode=state.st_mode, st_uid=user, st_gid=user)

    return patch("os.lstat", lstat), patch.object(Path, "lstat", lambda self: lstat(self))


def test_own_folders_are_closed(folder):
    assert weakness(folder) is None
    assert weakness(folder / "not" / "there") is None
    assert weakness(Path("/")) is None


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize(
    ("mode", "why"),
    [(0o777, "can be written by everybody"), (0o702, "can be written by everybody")],
)
def test_every_folder_on_the_way_counts(folder, level, mode, why):
    at = (folder, *folder.parents)[level]
    at.chmod(mode)
    assert weakness(folder) == f"{at} {why}"
    at.chmod(mode | 0o1000)
    assert weakness(folder) == (f"{at} {why}" if level == 0 else None), "as /tmp"


def test_groups(folder, monkeypatch):
    state = SimpleNamespace(st_mode=0o40770, st_uid=os.getuid(), st_gid=4711)
    assert is_open(state) == "can be written by its group"
    group = SimpleNamespace(gr_name="me", gr_mem=["me"])
    monkeypatch.setattr("grp.getgrgid", lambda _: group)
    monkeypatch.setattr("pwd.getpwuid", lambda _: SimpleNamespace(pw_name="me"))
    assert is_open(state) is None, "a group of one's own"
    group.gr_mem = ["me", "you"]
    assert is_open(state) == "can be written by its group"
    state.st_gid = 0
    assert is_open(state) is None


@pytest.mark.parametrize("level", [0, 1, 2])
def test_owners(folder, level):
    at = (folder, *folder.parents)[level]
    one, two = owned(at, os.getuid() + 4711)
    with one, two:
        assert weakness(folder) == f"{at} belongs to another user"
    if os.getuid():
        one, two = owned(at, 0)
        with one, two:
            assert weakness(folder) is None, "root may do everything"


def test_links(folder, tmp_path):
    link, open_ = tmp_path / "link", tmp_path / "open"
    link.symlink_to(folder.parent)
    assert weakness(link / "c") is None
    one, two = owned(link, os.getuid() + 4711)
    with one, two:
        assert weakness(link / "c") == f"the link {link} belongs to another user"
    folder.parent.chmod(0o777)
    assert weakness(link / "c") == f"{folder.parent} can be written by everybody"
    folder.parent.chmod(0o755)
    open_.mkdir()
    open_.chmod(0o777)
    (open_ / "link").symlink_to(folder)
    assert weakness(open_ / "link") == f"{open_} can be written by everybody"
    (folder / "up").symlink_to("../../../open")
    assert weakness(folder / "up") == f"{folder / '../../../open'} can be written by everybody"
    link.unlink()
    link.symlink_to(link)
    assert "circle" in str(weakness(link))


def test_text_is_not_simplified(folder, tmp_path):
    """`link/..` is the folder above the link's target."""
    outside = tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    outside.chmod(0o777)
    (folder / "link").symlink_to(outside / "inner")
    assert "outside" in str(weakness(folder / "link" / ".." / "cache"))


@pytest.mark.parametrize("filters", [True, False])  # False: Python 3.11.0 to 3.11.3
def test_an_archive_writes_below_its_folder_only(tmp_path, monkeypatch, filters):
    if not filters:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
        trusting = staticmethod(lambda member, path: member)  # 3.14 has another default
        monkeypatch.setattr(tarfile.TarFile, "extraction_filter", trusting, raising=False)
    (tmp_path / "a.txt").write_text("a")
    for name, kind in (
        ("below/a.txt", tarfile.REGTYPE),
        ("../a.txt", None),
        ("link", tarfile.SYMTYPE),
    ):
        with tarfile.open(tmp_path / "made.tar", "w") as made:
            entry = made.gettarinfo(tmp_path / "a.txt", name)
            if kind == tarfile.SYMTYPE:
                entry.type, entry.linkname, entry.size = kind, "../../a.txt", 0
            made.addfile(entry, None if kind == tarfile.SYMTYPE else io.BytesIO(b"a"))
        with tarfile.open(tmp_path / "made.tar") as archive:
            if name == "below/a.txt":
                unpack(archive, tmp_path / "new")
            else:
                with pytest.raises(tarfile.TarError):
                    unpack(archive, tmp_path / "new")
    assert (tmp_path / "new" / "below" / "a.txt").read_text() == "a"
    assert sorted(p.name for p in tmp_path.rglob("*")) == [
        "a.txt",
        "a.txt",
        "below",
        "made.tar",
        "new",
    ]
