"""What ties modules together is seen: imports, registries, and one table of what reaches upward."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator

import pytest

from loopwright.base import plugins
from loopwright.composition import NAMES, OWN_PLUGINS, PASSES, SLOTS

from ..drawing import drawn
from .source import ROOT, Source, forbid, sources

ROOT_FILE = "composition.py"
# What imports a module of another package by a name that is not known before.
OTHERS = {"tvm/compat/__init__.py": "name", "tvm/rpc/session.py": "name"}

# Containers filled only by functions of their own file: their contents belong to this process.
PER_PROCESS = {
    "backend/byoc/onednn.py": {"_LEFT"},  # layouts of the kernels that were made
    "base/plugins.py": {"_LOADED", "_TOLD"},  # groups whose entry points were loaded
    "base/registry.py": {"_ALL"},  # the registries
    "serve/predictor.py": {"_LOADED"},  # models that predictors loaded
    "base/span.py": {"_SOURCES"},  # texts that spans show
    "codegen/llvm/jit.py": {"_immortal"},  # loaded code
    "codegen/llvm/intrinsics.py": {"_INTRINSICS"},  # names of numbers
    "codegen/llvm/types.py": {"_MEMORY", "_SCALARS", "_TYPES"},  # caches by dtype
    "codegen/llvm/workers.py": {"_idle"},  # processes
    "ir/dtype.py": {"_CACHE"},  # interned
    "ir/transform.py": {"_DUMPS"},  # folders being written
    "ops/lowering.py": {"_LOWERED"},  # cache by call
    "relax/byoc/partition.py": {"_MEASURED"},  # cache of timings
    "runtime/dlpack.py": {"_exported"},  # memory that others hold
    "runtime/ndarray_cache.py": {"_CACHE"},  # arrays that programs loaded
    "runtime/threads.py": {"_pools"},  # native pools
    "script/parser/source.py": {"_FILES"},  # cache by file
    "script/printer/core.py": {"_CHOSEN"},  # cache by node type
    "tir/interpreter/__init__.py": {"_CACHE"},  # cache by function
}
CONSTANTS = {"arith/poly.py": {"ZERO"}}

_FILLING = {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove"}
_FILLING |= {"setdefault", "update"}
_DISPLAYS = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)
_MAKERS = {"OrderedDict", "WeakKeyDictionary", "WeakValueDictionary", "defaultdict", "deque"}
_MAKERS |= {"dict", "list", "set"}


def module_of(source: Source) -> str:
    """The dotted name of a module."""
    parts = ("loopwright", *source.path.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules() -> dict[str, Source]:
    """All modules by name."""
    return {module_of(source): source for source in sources()}


# ---------------------------------------------------------------------- imports by name


def test_only_the_composition_root_imports_by_name():
    complaints = []
    for source in sources():
        path = source.path.as_posix()
        if path == ROOT_FILE:
            continue
        if not re.search(r"\bimport_module\b|\b__import__\b", source.text):
            continue
        calls = {id(n.func): n for n in source.nodes(ast.Call)}
        for node in source.nodes(ast.Name, ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name not in ("import_module", "__import__"):
                continue
            if isinstance(node, ast.Attribute) and "importlib" not in ast.unparse(node.value):
                continue
            call = calls.get(id(node))
            given = call.args[0] if call is not None and call.args else None
            literal = given.value if isinstance(given, ast.Constant) else ""
            foreign = literal and not re.match(r"\.|loopwright\b", literal)
            if not foreign and (given is None or ast.unparse(given) != OTHERS.get(path)):
                complaints.append(f"{path}:{node.lineno}: {ast.unparse(call or node)}")
    rule = "only composition.py imports modules by name"
    forbid(rule, complaints, "declare a base.late.Slot, filled in composition.SLOTS")


def layers() -> dict[str, int]:
    """The height of each layer, from the contract in pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (c for c in settings["tool"]["importlinter"]["contracts"] if c["id"] == "layers")
    rows = reversed(contract["layers"])
    return {name.strip(" ()"): height for height, row in enumerate(rows) for name in row.split("|")}


def test_no_string_names_a_module_above():
    height, groups = layers(), set(plugins.TAKERS) | {"loopwright.backends", "loopwright.passes"}
    groups.add("loopwright.targets")
    complaints = []
    for source in sources():
        if source.layer not in height:
            continue
        for node in source.nodes(ast.Constant):
            if not isinstance(node.value, str):
                continue
            if not re.fullmatch(r"loopwright(\.\w+)+(:\w+)?", node.value) or node.value in groups:
                continue
            layer = node.value.partition(":")[0].split(".")[1]
            if layer != source.layer and height.get(layer, -1) >= height[source.layer]:
                complaints.append(f"{source.path}:{node.lineno}: {node.value}")
    rule = "no string names a module of a layer above"
    forbid(rule, complaints, "declare a base.late.Slot or a registry that the layer above fills")


def test_slots_and_late_names_are_those_of_the_composition_root():
    declared = {
        node.args[0].value
        for source in sources()
        for node in source.nodes(ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "Slot"
        if node.args and isinstance(node.args[0], ast.Constant)
    }
    late = {
        module_of(source).partition(".")[2]
        for source in sources()
        if re.search(r"^__getattr__ = _?late_names\(", source.text, re.MULTILINE)
    }
    rule = "the slots of the source are those of composition.SLOTS"
    forbid(rule, declared ^ set(SLOTS), "add to the table what it lacks, remove what is gone")
    named = {name.rpartition(".")[0] for name in NAMES if "." in name} | set(PASSES)
    rule = "the modules with late names are those of composition.NAMES"
    forbid(rule, named ^ late, "add to the table what it lacks, remove what is gone")


# ---------------------------------------------------------------------- containers


def containers(source: Source) -> dict[str, bool]:
    """The containers at the top of a module: whether each starts empty."""
    known = {}
    for node in source.tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            value = node.value
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if isinstance(value, _DISPLAYS):
                empty = ast.unparse(value) in ("{}", "[]")
            elif isinstance(value, ast.Call) and ast.unparse(value.func) in _MAKERS:
                empty = not value.args
            else:
                continue
            known |= {t.id: empty for t in targets if isinstance(t, ast.Name)}
    return known


def filled(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """(name, line) of what is changed in place: `name[key] = value`, `name.append(value)`."""
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            place = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            place = node.func.value if node.func.attr in _FILLING else None
        else:
            place = None
        if isinstance(place, ast.Name):
            yield place.id, place.lineno


def local_names(function: ast.AST) -> set[str]:
    """What a function binds itself."""
    names = {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
    stored = (n for n in ast.walk(function) if isinstance(n, ast.Name))
    return names | {n.id for n in stored if isinstance(n.ctx, ast.Store)}


def test_what_modules_share_is_a_registry():
    """A container that starts empty, or that functions fill, is a Registry, or listed above."""
    complaints = []
    for source in sources():
        path, known = source.path.as_posix(), containers(source)
        listed = PER_PROCESS.get(path, set()) | CONSTANTS.get(path, set())
        open_ones = {name for name, empty in known.items() if empty}
        for function in source.nodes(ast.FunctionDef) if known else ():
            changed = {name for name, _ in filled(ast.walk(function)) if name in known}
            open_ones |= changed - local_names(function) if changed else changed
        open_ones.discard("__all__")
        complaints += [f"{path}: {name}" for name in sorted(open_ones - listed)]
        complaints += [f"{path}: {name} is listed in vain" for name in sorted(listed - open_ones)]
    rule = "a container of a module that is filled later is a base.registry.Registry"
    forbid(rule, complaints, "make it one, or list here why it belongs to this process alone")


def test_no_module_fills_anothers_container():
    complaints, by_name = [], modules()
    for source in sources():
        taken = {}
        for statement, module, _ in source.imports():
            if isinstance(statement, ast.ImportFrom) and ".".join(module) in by_name:
                theirs = containers(by_name[".".join(module)])
                for alias in statement.names:
                    if alias.name in theirs:
                        taken[alias.asname or alias.name] = ".".join(module)
        for name, line in filled(source.nodes(ast.Subscript, ast.Call)):
            if name in taken:
                complaints.append(f"{source.path}:{line}: {name} of {taken[name]}")
    rule = "no module fills a container of another one"
    forbid(rule, complaints, "call a function of that module, or register in a Registry")


# ---------------------------------------------------------------------- random numbers

_GENERATORS = re.compile(
    r"(np\.|numpy\.)?random\.(default_rng|Generator|RandomState|Random)|default_rng"
)
_GLOBAL = re.compile(r"((np|numpy)\.)?random\.(?!default_rng|Generator|RandomState|Random|seed)\w+")
# As TVM's tutorials are written; the test that runs them sets the seed.
_SCRIPTS = ROOT / "tests" / "tir" / "schedule" / "tutorials"


def dotted(node: ast.expr) -> str:
    """The name that a chain of attributes spells, "" for another expression."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def shared_draws(tree: ast.Module) -> Iterator[int]:
    """The lines at which a module keeps a generator, or draws from that of the process."""
    modules = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            if _GENERATORS.fullmatch(dotted(node.value.func)):
                yield node.lineno
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = dotted(node.func)
            if _GLOBAL.fullmatch(name) and name.partition(".")[0] in modules:
                yield node.lineno


def test_no_draw_depends_on_another():
    """A generator at the top of a module gives each test what those before it have left."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in ("src/loopwright/ops", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "random" in (text := path.read_text(encoding="utf-8")) and path.parent != _SCRIPTS
        for line in shared_draws(ast.parse(text))
    ]
    hint = "in a test the fixture rng, given on to helpers; for tables at module level drawn('name') of "
    hint += "tests/drawing.py; in ops/ one that is made where it is used"
    forbid("no draw depends on which others were made before", found, hint)


def test_shared_draws_are_seen():
    kept = "import random\nimport numpy as np\nA = np.random.default_rng(0)\nB = random.Random(1)\n"
    kept += "def f():\n    np.random.rand(3)\n    return random.choice([1])\n"
    assert sorted(shared_draws(ast.parse(kept))) == [3, 4, 6, 7]
    fresh = "import numpy as np\nA = np.random.default_rng(0).random(3)\n"
    fresh += "def f(random):\n    np.random.seed(0)\n    return random.choice([1])\n"
    assert not list(shared_draws(ast.parse(fresh)))
    with pytest.raises(AssertionError, match="instead: the fixture rng"):
        drawn("a table").random()


# ---------------------------------------------------------------------- circles


def arrows() -> dict[str, set[str]]:
    """Module -> the modules that it imports, at the top, in functions, for annotations, and by the
    strings of the composition root."""
    graph: dict[str, set[str]] = {}
    by_name = modules()
    for name, source in by_name.items():
        targets = graph[name] = set()
        for _, module, names in source.imports():
            base = ".".join(module)
            below = {f"{base}.{n}" for n in names}
            targets |= below.intersection(by_name)
            if below.difference(by_name) or not names:
                targets.add(base)
        targets.intersection_update(by_name)
        targets.discard(name)
    own = [value for group in OWN_PLUGINS.values() for value in group.values()]
    places = [f"loopwright.{place}" for place in (*SLOTS.values(), *NAMES.values())] + own
    graph["loopwright.composition"] |= {place.partition(":")[0] for place in places}
    graph["loopwright.composition"].discard("loopwright.composition")
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    parts: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            cut = stack.index(node)
            part, stack[cut:] = stack[cut:], []
            if len(part) > 1:
                parts.append(sorted(part))

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return parts


def test_no_circle_of_more_than_three_modules():
    large = [part for part in circles(arrows()) if len(part) > 3]
    rule = "no more than three modules import one another in a circle"
    forbid(rule, map(", ".join, large), "move what they share to a module below, or use a Slot")


def test_circles_are_seen():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"d", "e"}, "d": {"a"}, "e": set()}
    assert circles(graph) == [["a", "b", "c", "d"]]
