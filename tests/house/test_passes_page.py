"""docs/passes.md is what the docstrings say."""

from __future__ import annotations

from tools.make_passes import PAGE, page


def test_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tools.make_passes"
