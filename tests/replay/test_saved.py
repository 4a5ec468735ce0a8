"""Programs as JSON, and read again."""

from __future__ import annotations

import re
from typing import Any

import pytest

import loopwright
from loopwright.ir.serialize import load_json, save_json
from loopwright.ir.structural import structural_equal, structural_hash

from .test_passes import documented

SPAN = re.compile(r',\s*"span": \{[^{}]*\}')


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
def test_saved_programs(replay: Any) -> None:
    rows = {}
    # Modules of its own: passes that other tests run give struct infos to calls of theirs.
    for path, (_, mod) in documented.__wrapped__().items():
        text = SPAN.sub("", save_json(mod))  # a literal's is that of its first use anywhere
        again = load_json(text)
        same = (structural_equal(mod, again), structural_hash(mod) == structural_hash(again))
        rows[path.stem] = {"json": text.replace(loopwright.__version__, ""), "same": str(same)}
    replay("saved", rows)
