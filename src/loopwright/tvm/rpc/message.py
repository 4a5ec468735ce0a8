"""What crosses between machines: messages of a JSON head and raw bytes.

A message is four bytes with the head's length, the head, and blobs, whose sizes the head lists.
Values of calls are JSON: None, bools, numbers and texts as they are, all else as an object with one
key: {"tensor": 3}, {"function": 5}, {"list": [...]}, {"shape": [...]}.
"""

from __future__ import annotations

import json
from typing import Any

from ...base.errors import LoopwrightError, explain

LIMIT = 64 << 20  # bytes of a message; more is refused by who receives it
CHUNK = 16 << 20  # bytes of a part of an array or a file
_HEAD_LIMIT = 4 << 20  # bytes of JSON that a peer parses


class PeerError(LoopwrightError):
    """The other side is not there, is not what it should be, or sent what cannot be."""


def pack(head: dict[str, Any], *blobs: bytearray | memoryview | bytes) -> bytes:
    """A message. Raises ValueError for one that the other side would refuse."""
    sizes = [len(blob) for blob in blobs]
    text = json.dumps({**head, "sizes": sizes}).encode()
    if len(text) > _HEAD_LIMIT or len(text) + sum(sizes) > LIMIT - 4:
        what = "a message between machines is too large"
        hint = f"at most {_HEAD_LIMIT >> 20} MiB of numbers and texts; pass arrays as tensors"
        raise ValueError(explain(what, got=f"{len(text)} bytes", instead=hint))
    return b"".join([len(text).to_bytes(4, "little"), text, *blobs])


def unpack(data: str | bytes) -> tuple[dict[str, Any], list[memoryview]]:
    """(head, blobs) of a message. Raises PeerError for invalid data."""
    if not isinstance(data, bytes) or len(data) < 4:
        raise PeerError(explain("this is not a message", got=repr(data[:40])))
    end = 4 + int.from_bytes(data[:4], "little")
    if end > min(len(data), _HEAD_LIMIT + 4):
        raise PeerError(explain("a message's head is longer than the message", got=f"{end} bytes"))
    head = parse(data[4:end])
    sizes, blobs, at = head.get("sizes"), [], end
    if not isinstance(sizes, list) or not all(isinstance(n, int) and n >= 0 for n in sizes):
        raise PeerError(explain("a message lists the sizes of its blobs", got=sizes))
    for size in sizes:
        blobs.append(memoryview(data)[at : at + size])
        at += size
    if at != len(data):
        got = f"{len(data)} bytes, not {at}"
        raise PeerError(explain("a message has another length than its head says", got=got))
    return head, blobs


def parse(text: str | bytes) -> dict[str, Any]:
    """A JSON object. Raises PeerError for other texts."""
    try:
        head = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PeerError(explain(f"a message's head is not JSON: {error}")) from None
    if not isinstance(head, dict):
        raise PeerError(explain("a message's head is a JSON object", got=type(head).__name__))
    return head
