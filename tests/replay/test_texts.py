"""Programs as text: how they are printed with other options, and what is read, or why nothing is, where
one node of their syntax, or one token of Relay's, is changed."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loopwright import relay
from loopwright.ir.module import IRModule
from loopwright.ir.structural import assert_structural_equal
from loopwright.script import from_source
from tools.make_passes import level

from .stages import said
from .test_passes import documented
from .test_relay import PROGRAMS, typed

CHANGES = 20  # of each program
NUMBERS = (0, 1, -1, 2, 7, 2**31, 2**63, True, 0.5, None, "float32", "n")


def changed(rng: random.Random, text: str) -> str:
    """A text with one node that is another, is gone, or stands twice."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    ways = [way for node in nodes for way in _ways(rng, node, nodes)]
    rng.choice(ways)()
    return ast.unparse(ast.fix_missing_locations(tree))


def _ways(rng: random.Random, node: ast.AST, nodes: list[ast.AST]) -> Iterator[Callable[[], None]]:
    """What may be changed of a node itself."""

    def set_to(field: str, values: list[Any]) -> Callable[[], None]:
        return lambda: setattr(node, field, rng.choice(values))

    def move(items: list[Any], twice: Any = None) -> Iterator[Callable[[], None]]:
        """Leave out an item, repeat it, or exchange it with another."""
        if items:
            k, other = rng.randrange(len(items)), rng.randrange(len(items))
            yield lambda: items.pop(k)
            yield lambda: items.insert(other, items[k])

    if isinstance(node, ast.Constant):
        yield set_to("value", [*NUMBERS, *(n.value for n in nodes if isinstance(n, ast.Constant))])
    elif isinstance(node, ast.Name):
        yield set_to("id", [n.id for n in nodes if isinstance(n, ast.Name)])
    elif isinstance(node, ast.Attribute):
        yield set_to("attr", [n.attr for n in nodes if isinstance(n, ast.Attribute)])
    elif isinstance(node, ast.keyword):
        yield set_to("arg", [n.arg for n in nodes if isinstance(n, ast.keyword) if n.arg])
    elif isinstance(node, ast.BinOp):
        yield set_to("op", [ast.Add(), ast.Sub(), ast.Mult(), ast.FloorDiv(), ast.Mod(), ast.Div()])
    elif isinstance(node, ast.Compare):
        yield set_to("ops", [[ast.Lt()], [ast.Eq()], [ast.NotEq()], [ast.GtE()], [ast.In()]])
    elif isinstance(node, ast.Call):
        yield from move(node.args)
        yield from move(node.keywords)
    elif isinstance(node, (ast.Tuple, ast.List)):
        yield from move(node.elts)
    elif isinstance(node, ast.arguments):
        yield from move(node.args)
    if isinstance(node, (ast.FunctionDef, ast.For, ast.With, ast.If, ast.While, ast.ClassDef)):
        if len(node.body) > 1:
            yield from move(node.body)


def read(text: str, original: Any) -> str:
    """What is printed of the program of a text, and where it differs from the original."""
    made = from_source(text)
    return f"{made.script()}\n{said(assert_structural_equal, made, original)}"


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
@pytest.mark.filterwarnings("ignore")  # a result that is not what was said
@pytest.mark.parametrize("layer", ["relax", "tir"])
def test_changed_programs(layer: str, replay: Any) -> None:
    rows = {}
    for path, (_, mod) in documented().items():
        if level(path) == layer:
            rng = random.Random(path.stem)
            texts = [changed(rng, mod.script()) for _ in range(CHANGES)]
            rows[path.stem] = {str(k): f"{t}\n{said(read, t, mod)}" for k, t in enumerate(texts)}
    replay(f"texts/{layer}", rows)


OPTIONS: dict[str, dict[str, Any]] = {
    "long": {"syntax_sugar": False},
    "short": {"show_all_struct_info": False, "indent_spaces": 2},
    "types": {"int_dtype": "int64", "float_dtype": "float32", "buffer_dtype": "float16"},
    "names": {"module_alias": "", "ir_prefix": "i", "tir_prefix": "t", "relax_prefix": "r"},
    "other": {"name": "other", "verbose_expr": True},
    "lines": {"print_line_numbers": True},
}


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
def test_options(replay: Any) -> None:
    rows = {}
    for k, (path, (_, mod)) in enumerate(documented().items()):
        rows[path.stem] = {name: mod.script(**options) for name, options in OPTIONS.items()}
        function = next(iter(mod.functions.values()))
        rows[path.stem]["function"] = function.script(**[*OPTIONS.values()][k % len(OPTIONS)])
        places = {
            "path_to_underline": ["<root>.body"],
            "path_to_annotate": {"<root>.params[0]": "a"},
        }
        rows[path.stem]["marked"] = function.script(**places, num_context_lines=k % 3)
    replay("texts/options", rows)


TOKENS = re.compile(r'"[^"]*"|[%@]?[A-Za-z_][\w.]*|\d[\w.]*|->|\S')


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
def test_changed_relay(replay: Any) -> None:
    rows = {}
    for name, body in PROGRAMS["operators"]():
        mod = IRModule({"main": relay.Function(relay.analysis.free_vars(body), body)})
        text, rng = typed(mod), random.Random(name)
        tokens = list(TOKENS.finditer(text))
        rows[name] = {"": said(lambda text=text: relay.parse(text).astext())}
        for k in range(6):
            at, new = rng.choice(tokens), rng.choice(["", rng.choice(tokens)[0]])
            one = text[: at.start()] + new + text[at.end() :]
            rows[name][str(k)] = one + said(lambda one=one: relay.parse(one).astext())
    replay("texts/relay", rows)
