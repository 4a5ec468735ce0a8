"""Examples of many small functions as one table, appended to their docstrings.

    add_examples(globals(), "i = tir.Var('i', 'int32')", \"\"\"
        tir.floordiv(i, 4)  # i // 4
        Var: i.dtype  # 'int32'
    \"\"\")

A test runs them (`tests/house/test_docstrings.py`).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping


def add_examples(namespace: Mapping[str, object], setup: str, lines: str) -> None:
    """Append an example to the docstring of the function or class that each line calls, or names before a
    colon: the statements of `setup` (separated by ";") that define what it uses, the expression, and its result,
    which is behind "  # " in the line. Raises KeyError for a name that is not in the namespace."""
    statements = [s.strip() for s in setup.split(";") if s.strip()]
    for line in filter(None, map(str.strip, lines.splitlines())):
        call, _, result = line.partition("  # ")
        name, colon, expression = call.partition(": ")
        if not colon or not name.isidentifier():
            name, expression = call.partition("(")[0].rpartition(".")[2], call
        used: list[str] = []
        for statement in reversed(statements):  # a statement may use an earlier one
            target = statement.partition(" = ")[0].replace(", ", "|")
            if re.search(rf"\b({target})\b", " ".join([expression, *used])):
                used.insert(0, statement)
        value = namespace[name]
        code = "\n".join(f">>> {text}" for text in [*used, expression])
        doc = inspect.cleandoc(value.__doc__ or "")
        value.__doc__ = f"{doc}\n\n{code}\n{result}".rstrip()
