"""Every knob stands in one table, and the table stands in docs/knobs.md."""

from __future__ import annotations

import ast

from loopwright.base.config import ENVIRONMENT, PASS_OPTIONS
from tools.make_knobs import ACCEPTED, PAGE, REFUSED, page

from .source import forbid, sources


def test_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tools.make_knobs"


def test_every_variable_in_the_source_is_in_the_table():
    used = {
        node.value
        for source in sources()
        for node in source.nodes(ast.Constant)
        if isinstance(node.value, str)
        and node.value.startswith("LOOPWRIGHT_")
        and node.value.isupper()
        and node.value.isidentifier()
    }
    rule = "the variables that the source names are those of base.config.ENVIRONMENT"
    forbid(rule, used ^ set(ENVIRONMENT), "add to the table what it lacks, remove what is gone")


def test_the_environment_is_read_in_one_place():
    readers = {
        f"{source.path}:{node.lineno}"
        for source in sources()
        if "environ" in source.text or "getenv" in source.text
        for node in source.nodes(ast.Call, ast.Subscript)
        if ast.unparse(node).startswith(("os.environ", "os.getenv", "environ", "getenv"))
        and "'LOOPWRIGHT_" in ast.unparse(node)
    }
    rule = "the environment is read in one place"
    forbid(rule, readers, "read a knob with loopwright.base.config.knob")


def read_by(reader: str) -> set[str]:
    """The names that the source asks `reader` for, as texts or constants of the file."""
    names = set()
    for source in sources():
        texts = {
            target.id: node.value.value
            for node in source.tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in source.nodes(ast.Call):
            if node.args:
                called = node.func
                name = (
                    called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                )
                if name == reader and isinstance(node.args[0], ast.Constant):
                    names.add(node.args[0].value)
                elif name == reader and isinstance(node.args[0], ast.Name):
                    names.add(texts.get(node.args[0].id))
    return names


def test_every_variable_is_read():
    unread = set(ENVIRONMENT) - read_by("knob")
    forbid("every knob is read", unread, "read it with base.config.knob, or take it out")


def test_every_pass_option_is_read_or_has_a_reason():
    reasons = {
        name
        for name, option in PASS_OPTIONS.items()
        for start in (ACCEPTED, REFUSED)
        if option.doc.startswith(start) and len(option.doc) > len(start) + 5
    }
    refused = {name for name, option in PASS_OPTIONS.items() if option.refused}
    told = {n for n, option in PASS_OPTIONS.items() if option.doc.startswith(REFUSED)}
    rule = f"an option that is refused says so: its doc begins with {REFUSED!r}"
    forbid(rule, refused ^ told, "give it both, `refused` and the reason, or neither")
    rule = f"an option that nothing reads has a reason: {ACCEPTED!r} or {REFUSED!r}, and why"
    unread = set(PASS_OPTIONS) - read_by("option")
    forbid(rule, unread ^ reasons, "read it with PassContext.option, or say why nothing does")
