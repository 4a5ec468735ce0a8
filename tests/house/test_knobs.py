"""Every knob stands in one table, and the table stands in docs/knobs.md."""

from __future__ import annotations

import ast

from loopwright.base.config import ENVIRONMENT
from tools.make_knobs import PAGE, page

from .source import sources


def test_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tools.make_knobs"


def test_every_variable_in_the_source_is_in_the_table():
    used = {
        node.value
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("LOOPWRIGHT_")
        and node.value.isupper()
        and node.value.isidentifier()
    }
    assert used == set(ENVIRONMENT)


def test_the_environment_is_read_in_one_place():
    readers = {
        f"{source.path}:{node.lineno}"
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call | ast.Subscript)
        and ast.unparse(node).startswith(("os.environ", "os.getenv", "environ", "getenv"))
        and "'LOOPWRIGHT_" in ast.unparse(node)
    }
    assert not readers, "read a knob with loopwright.base.config.knob"
