"""Objects kept on disk: hits, damage, the bound, processes, and folders that are not used."""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from functools import cache
from unittest.mock import Mock

import pytest

from loopwright.codegen.llvm import jit
from loopwright.codegen.llvm.cache import ObjectCache, default_cache, object_key
from loopwright.codegen.llvm.machine import resolve
from loopwright.codegen.objects import is_sound

from .test_jit import INT, SQUARE, constant

KEY = object_key(SQUARE, *resolve(None, None, None), "short")


def test_the_cache_answers_and_survives_damage(tmp_path):
    store = ObjectCache(tmp_path)
    assert store.get(KEY) is None
    first = jit.compile_objects([SQUARE], cache=store)
    assert store.get(KEY) == first[0]
    (path,) = store.folder.glob("??/*.o")
    path.write_bytes(path.read_bytes()[:-1])
    assert store.get(KEY) is None and not path.exists(), "a torn entry is a miss, once"
    assert jit.compile_objects([SQUARE], cache=store) == first
    store.clear()
    assert not list(store.folder.glob("??/*"))


def test_the_cache_is_used(tmp_path):
    store = ObjectCache(tmp_path)
    other = jit.compile_object(constant(3))
    store.put(KEY, other)
    assert jit.compile_objects([SQUARE], cache=store) == [other]


def test_an_entry_belongs_to_its_key(tmp_path):
    store = ObjectCache(tmp_path)
    store.put(KEY, b"x")
    other = "0" * 40
    store._path(other).parent.mkdir()
    os.replace(store._path(KEY), store._path(other))
    assert store.get(other) is None and not store._path(other).exists()


@cache
def sound() -> bytes:
    return jit.compile_object(SQUARE)


DAMAGED = {
    "nothing": lambda: b"",
    "no object": lambda: b"not an object",
    "torn": lambda: sound()[:200],
    "only a header": lambda: sound()[:64] + bytes(range(255, 0, -1)) * 4,
    "another function's": lambda: jit.compile_object(constant(3)),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_a_signed_entry_that_cannot_be_loaded_is_compiled_again(tmp_path, data):
    store = ObjectCache(tmp_path)
    store.put(KEY, data())
    objects = jit.compile_objects([SQUARE], cache=store)
    library = jit.load_objects(objects, exports=["square"])
    assert INT(library["square"])(5) == 25
    assert store.get(KEY) == sound()


def test_what_is_missing_is_named_for_damaged_objects_too():
    with pytest.raises(jit.CompileError, match="cannot link the compiled objects"):
        jit.load_objects([DAMAGED["torn"]()], exports=["square"])


def test_sound_objects():
    assert is_sound(sound())
    assert is_sound(jit.compile_object(SQUARE, "aarch64-linux-gnu"))
    assert is_sound(jit.compile_object(SQUARE, "s390x-linux-gnu")), "the other byte order"
    assert is_sound(jit.compile_object(SQUARE, "armv7-linux-gnueabihf")), "32 bits"
    assert is_sound(jit.compile_object(SQUARE, "arm64-apple-macos")), "another format"
    assert not any(is_sound(sound()[:size]) for size in range(5, len(sound())))


def test_keys_tell_everything_apart():
    base = ("text", "triple", "cpu", "+a", "short")
    keys = {object_key(*base)}
    for i in range(5):
        changed = list(base)
        changed[i] += "x"
        keys.add(object_key(*changed))
    assert len(keys) == 6


def test_the_oldest_entries_go_first(tmp_path):
    store = ObjectCache(tmp_path)
    keys = [f"{i:02d}" * 20 for i in range(4)]
    for age, key in enumerate(keys):
        store.put(key, bytes(1000))
        os.utime(store._path(key), (age, age))
    os.utime(store._path(keys[0]), (10, 10))
    store.max_bytes = 3000
    store.evict(0)
    assert [store._path(k).exists() for k in keys] == [True, False, False, True]


def test_the_bound_is_the_whole_folder_s(tmp_path):
    mine = tmp_path / "objects" / "ab" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(bytes(50_000))
    stores = [ObjectCache(tmp_path, 40_000, kind) for kind in ("objects", "executables")]
    for i in range(40):
        stores[i % 2].put(f"{i:040x}"[::-1], bytes(3000))
        sizes = [path.stat().st_size for path in tmp_path.glob("*/??/*.o")]
        assert sum(sizes) <= 40_000, "after each write"
    assert len(sizes) > 8 and stores[1].get(f"{39:040x}"[::-1]) is not None
    stores[0].put("f" * 40, bytes(10_001))
    assert stores[0].get("f" * 40) is None, "more than a quarter"
    assert mine.exists(), "what is not the cache's stays"


def test_small_entries_have_the_folder_looked_through_now_and_then(tmp_path, monkeypatch):
    looks = Mock(side_effect=ObjectCache(tmp_path, 1 << 15).evict)
    monkeypatch.setattr(ObjectCache, "evict", lambda self, room: looks(room))
    for i in range(600):  # 104 bytes each, one look in about 512
        ObjectCache(tmp_path, 1 << 15).put(hashlib.sha1(b"%d" % i).hexdigest(), bytes(80))
    assert 60 < looks.call_count < 240
    assert sum(path.stat().st_size for path in tmp_path.glob("*/??/*.o")) <= 1 << 15


def test_the_largest_entry_takes_a_quarter_of_the_bound(tmp_path):
    store = ObjectCache(tmp_path, 4000)
    store.put(KEY, bytes(store.largest))
    assert store._path(KEY).stat().st_size == 1000
    store.put("0" * 40, bytes(store.largest + 1))
    assert store.get("0" * 40) is None


def test_nothing_is_left_of_writes_that_fail_or_are_killed(tmp_path, monkeypatch):
    store = ObjectCache(tmp_path)
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(os, "replace", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        store.put(KEY, b"x")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    (left,) = store.folder.glob("??/*.tmp")
    with tempfile.NamedTemporaryFile(dir=left.parent, suffix=".tmp") as written:
        fcntl.flock(written, fcntl.LOCK_EX)
        store.evict(0)
        assert not left.exists() and os.path.exists(written.name), "that process lives"
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", Mock(side_effect=OSError("no room")))
        store.put("a" * 40, b"x")
    assert [path for path in store.folder.glob("??/*") if path.suffix != ".o"] == []


def test_what_stands_in_the_place_of_an_entry(tmp_path):
    store = ObjectCache(tmp_path)
    store.put(KEY, b"x")
    path = store._path(KEY)
    path.chmod(0o666)
    assert store.get(KEY) is None and not path.exists(), "others could write it"
    store.put(KEY, b"x")
    aside = tmp_path / "aside"
    os.replace(path, aside)
    path.symlink_to(aside)
    assert store.get(KEY) is None, "a link is not followed"
    store.put(KEY, b"y")
    assert store.get(KEY) == b"y" and not path.is_symlink()
    path.unlink()
    os.mkfifo(path)
    assert store.get(KEY) is None, "it does not wait for a writer"
    store.put(KEY, b"x")
    path.parent.chmod(0o777)
    assert store.get(KEY) is None
    path.parent.chmod(0o700)
    path.unlink(missing_ok=True)
    path.mkdir()
    store.put(KEY, b"x")
    assert store.get(KEY) is None and list(path.parent.iterdir()) == [path]


def test_processes_share_a_folder(tmp_path):
    code = f"""
from pathlib import Path
from loopwright.codegen.llvm.cache import ObjectCache
for turn in range(30):
    store = ObjectCache(Path({str(tmp_path)!r}), 40_000)  # looks through the folder, as a process does
    for i in range(8):
        key = f"{{i:040x}}"[::-1]
        assert store.get(key) in (None, bytes([i]) * 3000)
        store.put(key, bytes([i]) * 3000)
"""
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen(command, env=environment) for _ in range(4)]
    assert [process.wait(120) for process in running] == [0] * 4
    assert not list(tmp_path.glob("*/??/*.tmp"))


def test_knobs_of_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_CACHE", "1")
    monkeypatch.setenv("LOOPWRIGHT_CACHE_DIR", str(tmp_path))
    assert default_cache().folder.is_relative_to(tmp_path)
    monkeypatch.setenv("LOOPWRIGHT_CACHE", "0")
    assert default_cache().folder is None
    blocked = ObjectCache(tmp_path / "file" / "below")
    (tmp_path / "file").write_text("in the way")
    blocked.put("k" * 40, b"x")
    assert blocked.get("k" * 40) is None


def test_a_folder_of_others_is_not_used(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("LOOPWRIGHT_CACHE", "1")
    monkeypatch.setenv("LOOPWRIGHT_CACHE_DIR", str(folder))
    with pytest.warns(RuntimeWarning) as told:
        assert default_cache().folder is None
    (warning,) = told
    assert str(warning.message) == (
        f"the cache folder {folder} is not used: {folder} can be written by everybody, "
        "and cached code is executed\n"
        "  instead: restrict it with `chmod 700`, or set LOOPWRIGHT_CACHE_DIR to a folder of yours"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert default_cache("executables").folder is None, "told once"
        assert jit.compile_objects([SQUARE]) == [sound()]
    assert list(folder.iterdir()) == []


def test_the_folder_is_made_for_its_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_CACHE", "1")
    monkeypatch.delenv("LOOPWRIGHT_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "not" / "there"))
    old = os.umask(0)
    try:
        default_cache().put(KEY, b"x")
    finally:
        os.umask(old)
    assert default_cache().get(KEY) == b"x"
    made = [tmp_path / "not", *(tmp_path / "not").rglob("*")]
    assert {oct(p.stat().st_mode & 0o77) for p in made} == {"0o0"}
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr(os.path, "expanduser", lambda text: text)
    assert default_cache().folder is None, "a user without a home"
