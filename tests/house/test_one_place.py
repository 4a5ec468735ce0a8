"""All facts of a graph operator stand in one file of `ops/`."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from loopwright.ops import OPERATORS

from .source import Source, forbid, sources

# What tells a fact about an operator, by name, from outside its definition.
TELLERS = {"register_op_attr", "register_legalize", "register_op"}


def literal(call: ast.Call) -> str:
    """The first argument of a call, when it is a string."""
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    return ""


def name_of(call: ast.Call) -> str:
    """The called function's own name."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)


def defined_names(source: Source) -> Iterator[str]:
    """The operators that a file defines: "relax.NAME" given to a decorator, or to a call whose
    result is kept or dropped at the top of the file, as in `relu = unary("relax.nn.relu")`."""
    for node in source.tree.body:
        calls: list[ast.expr] = []
        if isinstance(node, ast.FunctionDef):
            calls += node.decorator_list
        elif isinstance(node, ast.Expr | ast.Assign | ast.AnnAssign) and node.value is not None:
            calls.append(node.value)
        for call in calls:
            if isinstance(call, ast.Call) and literal(call).startswith("relax."):
                if name_of(call) != "get":
                    yield literal(call)


def test_each_operator_is_defined_once():
    places = defaultdict(list)
    for source in sources():
        if source.layer == "ops":
            for name in defined_names(source):
                places[name].append(str(source.path))
    assert places, "no operator found: has the form of definitions changed?"
    twice = [f"{name}: {', '.join(where)}" for name, where in places.items() if len(where) > 1]
    rule = "an operator is defined once"
    forbid(rule, twice, "keep the definition where its family is, remove the other")


def test_no_other_layer_tells_facts_of_operators():
    found = [
        f"{source.path}:{node.lineno}: {literal(node)}"
        for source in sources()
        if source.layer != "ops"
        for node in source.nodes(ast.Call)
        if name_of(node) in TELLERS and literal(node).startswith("relax.")
    ]
    rule = "facts of operators are told in ops/, beside their definitions"
    forbid(rule, found, "move them to the operators' definitions")


# Files that may name many operators, and why that is no fact about these operators.
PATTERNS = {
    "backend/byoc/onednn.py": "what the library computes, as patterns and its primitives",
    "tvm/tensorrt/json.py": "what TensorRT's JSON format names",
    "tvm/relax/attention_pattern.py": "the shapes that attention has in models, as patterns",
    "tvm/relax/well_known.py": "TVM's ready-made patterns",
    "relax/transform/graph/byte_products.py": "how a quantized product is written, as a pattern",
    "relax/transform/graph/byte_tails.py": "how quantized sums become bytes again, as a pattern",
}


def test_passes_ask_operators_and_do_not_list_them():
    """A table of operators' names outside `ops/` is a fact about them in the wrong place: make it
    a hook or a fact of `Op`, which any operator can have. (`topi` is a view of `ops`.)"""
    listed = {}
    for source in sources():
        if source.layer in ("ops", "tvm.topi"):
            continue
        texts = {n.value for n in source.nodes(ast.Constant)}
        names = OPERATORS.keys() & {text for text in texts if isinstance(text, str)}
        if len(names) > 3:
            listed[source.path.as_posix()] = sorted(names)
    many = [f"{path}: {', '.join(names)}" for path, names in listed.items() if path not in PATTERNS]
    rule = "passes ask operators for facts and do not list their names"
    forbid(rule, many, "make it a hook or a fact of Op; a pattern goes to PATTERNS with its reason")
    rule = "PATTERNS names files that list operators"
    forbid(rule, PATTERNS.keys() - listed.keys(), "take out of the table what needs it no more")
