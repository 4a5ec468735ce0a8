"""All facts of an operator stand in one file of `ops/`."""

from __future__ import annotations

import ast
from collections import defaultdict

from .source import Source, sources


def defined_names(source: Source) -> list[str]:
    """The operators that a file of `ops/` defines: string arguments "relax.NAME" of calls that
    decorate or stand alone, as in `@op("relax.add")` or `unary("relax.exp")`."""
    calls: list[ast.expr] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef):
            calls += node.decorator_list
        elif isinstance(node, ast.Expr | ast.Assign) and node.value is not None:
            calls.append(node.value)
    return [
        call.args[0].value
        for call in calls
        if isinstance(call, ast.Call)
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and str(call.args[0].value).startswith("relax.")
        and not (isinstance(call.func, ast.Attribute) and call.func.attr == "get")
    ]


def test_each_operator_is_defined_once():
    places = defaultdict(list)
    for source in sources():
        if source.layer == "ops":
            for name in defined_names(source):
                places[name].append(str(source.path))
    assert len(places) > 50
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert not twice
