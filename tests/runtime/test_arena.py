"""Sizes in bytes, and memory of a fixed size."""

from __future__ import annotations

import pytest

from loopwright.runtime.arena import Arena, as_arenas, format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (0, 0), ("0", 0), (7, 7), ("12b", 12), ("2kB", 2000), ("2 KiB", 2048), ("1.5MB", 1500000),
        ("1mib", 1 << 20), (" 3GB ", 3 * 10**9), ("1GiB", 1 << 30), ("0.5KiB", 512),
    ],
)  # fmt: skip
def test_sizes(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (True, TypeError, "not a size\n  got: True"),
        (1.5, TypeError, "not a size\n  got: 1.5"),
        (-1, ValueError, "not negative\n  got: -1"),
        ("-1", ValueError, "not a size"),
        ("3TB", ValueError, "not a size"),
        ("KiB", ValueError, "not a size"),
    ],
)
def test_what_is_no_size(size, error, message):
    with pytest.raises(error, match=message):
        parse_bytes(size)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0B"), (512, "512B"), (1023, "1023B"), (1024, "1KiB"), (1536, "1.5KiB"), (1025, "1025B"),
        (3 << 20, "3MiB"), (5 << 19, "2.5MiB"), (5 << 18, "1280KiB"), (1 << 30, "1GiB"),
        (3 << 29, "1.5GiB"), (1 << 29, "512MiB"), (3 << 31, "6GiB"), (7 << 20, "7MiB"),
    ],
)  # fmt: skip
def test_texts(size, text):
    assert format_bytes(size) == text and parse_bytes(text) == size


def test_arenas():
    assert as_arenas(None) == as_arenas("workspace") == (Arena("workspace"),)
    sram = Arena("sram", "1KiB", 1, "constant", "conv*")
    assert as_arenas([sram, "dram"]) == (sram, Arena("dram", None, 64)) and as_arenas(sram) == (
        sram,
    )
    assert (sram.limit, sram.kinds, sram.only) == (1024, ("constant",), ("conv*",))
    takes = [
        sram.takes(*what)
        for what in (("constant", "conv1"), ("tensor", "conv1"), ("constant", "x"))
    ]
    assert takes == [True, False, False] and Arena("a").takes("scratch", "x")
    assert not Arena("a").takes("constant", "x")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Arena("a b"), "identifier"),
        (lambda: Arena(3), "identifier"),
        (lambda: Arena("a", alignment=0), "a power of two\n  got: 0"),
        (lambda: Arena("a", alignment=24), "a power of two\n  got: 24"),
        (lambda: Arena("a", kinds=("tensor", "text")), "unknown kind of memory\n  got: text"),
        (lambda: as_arenas([]), "the list of arenas is empty"),
        (lambda: as_arenas([3]), "a list of Arena\n  got: int"),
        (lambda: as_arenas(["a", "b", Arena("a")]), "two arenas have one name\n  got: a"),
    ],
)
def test_what_is_no_arena(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
