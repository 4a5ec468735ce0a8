"""Whether files are a user's own: code is loaded only from where no other user can write, and
archives write nowhere else."""

from __future__ import annotations

import os
import stat
import sys
import tarfile
from pathlib import Path

from .errors import explain

if sys.platform != "win32":
    import fcntl
    import grp
    import pwd

_MOST_LINKS = 40  # symbolic links on one path, as in Linux


def weakness(path: Path, links: int = 0) -> str | None:
    """How another user could change the contents of a path, now or later; None if none can.

    Every folder on the way, and every symbolic link with the folders of its target, has to belong
    to this user or root and be closed to others' writing. Only folders above `path` may be open to
    all if they are sticky, as /tmp is. What does not exist yet is not looked at.
    """
    path = path.absolute()  # ".." stays: behind a link it is not the parent in the text
    for part in (*reversed(path.parents), path):
        try:
            state = part.lstat()
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(state.st_mode):
            if is_open(state, sticky=True):
                return f"the link {part} belongs to another user"
            if links == _MOST_LINKS:
                return f"the link {part} leads in a circle"
            target = part.parent / os.readlink(part)
            return weakness(target / path.relative_to(part), links + 1)
        sticky = part != path and bool(state.st_mode & stat.S_ISVTX)
        why = is_open(state, sticky=sticky)
        if why:
            return f"{part} {why}"
    return None


def is_open(state: os.stat_result, *, sticky: bool = False) -> str | None:
    """How others can change a file or folder of this state; None if they cannot, and on Windows,
    where a user's folders are closed to others."""
    if sys.platform == "win32":
        return None
    if state.st_uid not in (0, os.getuid()):
        return "belongs to another user"
    if sticky:
        return None
    if state.st_mode & stat.S_IWOTH:
        return "can be written by everybody"
    if state.st_mode & stat.S_IWGRP and not _is_private(state.st_gid):
        return "can be written by its group"
    return None


def _is_private(group: int) -> bool:
    """Whether a group is root's, or this user's own, which many systems give each user."""
    if sys.platform == "win32":
        return True
    try:
        members, user = grp.getgrgid(group), pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return group == 0
    return group == 0 or (members.gr_name == user and set(members.gr_mem) <= {user})


def lock(file: int) -> None:
    """Lock an open file until it is closed. Raises OSError where another process holds the lock;
    does nothing on Windows, where an open file cannot be removed anyway."""
    if sys.platform != "win32":
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive below a folder, as the standard library's filter "data" does, which Python lacks
    before 3.11.4. Raises tarfile.TarError for what would be written elsewhere."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
        return
    root = folder.resolve()
    for member in archive.getmembers():
        below = (root / member.name).resolve().is_relative_to(root)
        if not below or not (member.isreg() or member.isdir()):
            what = f"{archive.name} holds more than files below its folder"
            raise tarfile.TarError(explain(what, got=member.name, instead="unpack it by hand"))
    archive.extractall(folder)
