"""Make the type stubs of the modules that registries fill: python -m tools.make_stubs

A stub (`.pyi`) stands beside its module and tells editors and type checkers the names that are
looked up or installed when the program runs. A name is
- a function that the module defines or a table installs: its signature and what it does;
- something whose home is another module: imported from there;
- an instance (a decorator, a constant): its type;
- in TVMScript, a dtype or a struct info, which annotations name: a class.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import pkgutil
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any

import loopwright
import loopwright.ops  # fills the views
from loopwright import te
from loopwright.composition import names_of
from loopwright.ir.op import Op
from loopwright.relax import op as relax_op
from loopwright.script.parser.tir_values import DTYPES

SRC = Path(loopwright.__file__).parent.parent
VIEWS = sorted(m.__name__ for m in vars(relax_op).values() if isinstance(m, relax_op._View))
MODULES = [
    "loopwright.tir.op",
    "loopwright.tir.op_target",
    "loopwright",
    "loopwright.backend",
    "loopwright.driver",
    "loopwright.relax",
    "loopwright.relax.op",
    *VIEWS,
    "loopwright.script.relax",
    "loopwright.script.tir",
    "loopwright.relax.transform",
    "loopwright.te",
    "loopwright.tir",
    "loopwright.tir.transform",
    "loopwright.tvm.testing",
    "loopwright.tvm.topi",
    "loopwright.tvm.topi.nn",
]
# What an operator's parameter takes, by its word in the definition: in the graph, in topi.
PARAMETERS = {
    "Tensor": ("TensorLike", "Tensor"),
    "Scalar": ("TensorLike", "Tensor | PrimExpr | float"),
    "Tensors": ("Expr | Sequence[Expr]", "Sequence[Tensor]"),
    "Shape": ("ShapeLike", "Sequence[int | PrimExpr]"),
    "Prim": ("PrimLike", "PrimExpr | float"),
    "Prims": ("Expr | Sequence[PrimLike]", "Sequence[PrimExpr | float]"),
    "Callee": ("Expr", "Any"),
    "DType": ("str | DataType | None",) * 2,
    "Axis": ("int | None",) * 2,
    "Axes": ("int | Sequence[int] | None",) * 2,
    "Ints": ("int | Sequence[int] | None",) * 2,
    "Sections": ("int | Sequence[int]",) * 2,
}
WORDS = {
    "Any": "typing",
    "Buffer": "loopwright.tir.buffer",
    "Call": "loopwright.relax.expr",
    "DataType": "loopwright.ir.dtype",
    "Expr": "loopwright.relax.expr",
    "PrimExpr": "loopwright.ir.prim_expr",
    "PrimLike": "loopwright.relax.expr",
    "ScalarLike": "loopwright.ir.prim_expr",
    "Sequence": "collections.abc",
    "ShapeLike": "loopwright.relax.expr",
    "StructInfoProxy": "loopwright.script.parser.proxies",
    "Tensor": "loopwright.te.tensor",
    "TensorLike": "loopwright.relax.expr",
    "Var": "loopwright.ir.prim_expr",
}
# Callables that annotations name, so that they are classes to a type checker: their bases.
CLASSES = {
    "loopwright.script.tir": {"Buffer": "Buffer", "handle": "Var", "Ptr": "Var"}
    | dict.fromkeys([*DTYPES, "bool", "boolean", "void"], "PrimExpr"),
    "loopwright.script.relax": dict.fromkeys(
        ("Callable", "Object", "Prim", "Shape", "Tensor", "Tuple"), "Expr, StructInfoProxy"
    ),
}
# What a module uses and does not offer: errors, and the parser without what stands behind T and R.
TOOLS = ("loopwright.base.errors", "loopwright.base.late", "loopwright.base.registry")
TOOLS += ("loopwright.script.parser",)
VECTORS = (
    "bfloat16",
    "boolean",
    "float16",
    "float32",
    "float64",
    "int16",
    "int32",
    "int64",
    "int8",
)
VECTORS += ("uint16", "uint32", "uint64", "uint8")
ANY = ("typing", "Any")
HIDDEN = ("dtype_constructor", "dtype_text", "intrinsic", "load_definitions", "name_value")
HIDDEN += ("OPERATORS", "plain_argument", "with_regions")
# Whose names another one takes all.
STARS = {"loopwright.script.relax": ("loopwright.relax.op", "loopwright.relax.op.base")}
OFFERED = ("tir_blocks", "tir_buffers", "tir_values", "proxies")


class Stub:
    """The stub of one module."""

    def __init__(self, module: ModuleType, shown: dict[int, tuple[str, str]]) -> None:
        self.module = module
        self.shown = shown  # what a stub made before defines: id of the value -> module, name
        self.classes = CLASSES.get(module.__name__, {})
        self.public = dict(_public(module))
        self.imports: dict[str, set[str]] = {}
        self.words: dict[str, str] = {}
        self.body: list[str] = []

    def text(self) -> str:
        """The whole file."""
        for name, value in self.public.items():
            self.add(name, value)
        if self.module.__name__ == "loopwright.script.tir":
            self.a_class("_Dtype", self.module.float32, "PrimExpr")
            for name in VECTORS:
                self.body.append("".join(f"{name}x{n} = " for n in (2, 4, 8, 16, 32, 64)) + name)
        lines = [f'"""{_doc(self.module)}\n\nMade by `python -m tools.make_stubs`.\n"""\n']
        for home, names in sorted(self.imports.items()):
            lines += _import(home, sorted(names))
        return "\n".join([*lines, *([""] if self.body else []), *self.body, ""])

    def add(self, name: str, value: Any) -> None:
        """One name of the module."""
        home = _home(value) or self.shown.get(id(value))
        if name in self.classes:
            self.a_class(name, value, self.classes[name])
        elif home is not None and (
            isinstance(value, ModuleType) or home != (self.module.__name__, name)
        ):
            if home[0] in STARS.get(self.module.__name__, ()) and name == home[1]:
                self.imports.setdefault(home[0], set()).add("*")
            elif name == home[1]:
                self.imports.setdefault(home[0], set()).add(f"{name} as {name}")
            else:
                self.body.append(f"{name} = {self.word(*home)}")
        elif isinstance(value, type):
            bases = getattr(value, "__orig_bases__", value.__bases__)
            named = {inspect.formatannotation(b, "builtins") for b in bases if b is not object}
            self.a_class(name, value, ", ".join(sorted(named)))
        elif callable(value) and hasattr(value, "__name__"):
            self.body.append(self.function(name, value))
        else:
            self.body.append(f"{name}: {self.word(*(_home(type(value)) or ANY))}")
        self.shown.setdefault(id(value), (self.module.__name__, name))

    def a_class(self, name: str, value: Any, bases: str) -> None:
        """A class with the methods that it has itself; for a callable, with its parameters."""
        scope = {**sys.modules, **vars(self.module), **WORDS}
        bases = self.annotation(f"({bases},)", scope)[1:-1].rstrip(",") if bases else ""
        methods = {"__init__": value}
        if isinstance(value, type):
            own = {n: f for n, f in vars(value).items() if n[0] != "_" or n == "__init__"}
            own = {"__init__": own.get("__init__")} if name in self.classes else own
            methods = {n: getattr(f, "fget", f) for n, f in own.items()}
            methods = {n: f for n, f in methods.items() if inspect.isfunction(f)}
        elif name in (*DTYPES, "bool", "boolean"):
            bases, methods = "_Dtype, init=False", {}
        bases = f"({bases})" if bases else ""
        head = f"class {name}{bases}:"
        doc = f'"""{_doc(value)}"""'
        self.body += [head, f"    {doc}"] if methods else [f"{head} {doc}"]
        for method, fn in methods.items():
            if isinstance(inspect.getattr_static(value, method, None), property):
                self.body.append("    @property")
            self.body.append("    " + self.function(method, fn, is_init=method == "__init__"))

    def function(self, name: str, fn: Any, is_init: bool = False) -> str:
        """`def name(a: int = 1) -> Call: ...`, with the first paragraph of its text."""
        operator = fn if hasattr(fn, "graph_params") else getattr(fn, "operator", None)
        scope, kinds = getattr(inspect.unwrap(fn), "__globals__", {}), {}
        scope = {**_for_checkers(scope.get("__name__", "")), **scope}
        signature = inspect.signature(fn) if operator is None else operator.signature
        if operator is not None:
            scope = {**WORDS, "te": te}
            kinds = {p.name: p.annotation for p in operator.params}
        parts = []
        for p in signature.parameters.values():
            text = "Any" if p.annotation is p.empty else str(p.annotation)
            if p.name in kinds:
                text = PARAMETERS.get(kinds[p.name], (text,) * 2)[operator is fn]
                unsaid = p.default is None and "None" not in text and text != "Any"
                text += " | None" * unsaid
            new = p.replace(annotation=_Text(self.annotation(text, scope)))
            if p.default is not p.empty:
                new = new.replace(default=_Text(_default(p.default)))
            parts.append(new if p.name != "self" else new.replace(annotation=p.empty))
        if is_init and (not parts or parts[0].name != "self"):
            parts.insert(0, inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD))
        result = signature.return_annotation
        returns = "Any" if result is signature.empty or operator is fn else str(result)
        returns = "None" if is_init else "Call" if operator not in (None, fn) else returns
        doc = f'"""{_doc(fn)}"""' if _doc(fn) else "..."
        arguments = inspect.Signature(parts)
        return f"def {name}{arguments} -> {self.annotation(returns, scope)}: {doc}"

    def annotation(self, text: str, scope: Mapping[str, Any]) -> str:
        """An annotation in the words of the stub, which imports what it names."""
        return ast.unparse(_Words(self, scope).visit(ast.parse(text, mode="eval").body))

    def word(self, home: str, name: str) -> str:
        """What the stub calls `name` of the module `home`, for its own use."""
        offered = name in self.public and name not in self.classes
        if home == self.module.__name__ or (offered and _home(self.public[name]) == (home, name)):
            return name
        if home == "builtins":
            if name not in self.public:
                return name
            self.imports.setdefault("", set()).add("builtins as _py")
            return f"_py.{name}"
        alias = f"_{name}"
        if self.words.setdefault(alias, home) != home:
            alias = f"_{home.rpartition('.')[2]}{alias}"
        self.imports.setdefault(home, set()).add(f"{name} as {alias}")
        return alias


class _Words(ast.NodeTransformer):
    """Replaces the names of an annotation by those of a stub."""

    def __init__(self, stub: Stub, scope: Mapping[str, Any]) -> None:
        self.stub, self.scope = stub, scope

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.scope.get(node.id, vars(builtins).get(node.id))
        return self.resolved(WORDS.get(node.id) if isinstance(value, UnionType) else value, node.id)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self.resolved(eval(ast.unparse(node), dict(self.scope)), node.attr)

    def resolved(self, value: Any, name: str) -> ast.expr:
        home = (value, name) if isinstance(value, str) else _home(value) or ANY
        return ast.parse(self.stub.word(*home), mode="eval").body


class _Text(str):
    """A piece of source in a signature."""

    __slots__ = ()
    __repr__ = str.__str__


@cache
def _for_checkers(name: str) -> dict[str, Any]:
    """What a module imports for type checkers only, under `if TYPE_CHECKING`."""
    module = sys.modules.get(name)
    if not name.startswith("loopwright") or module is None:
        return {}
    found: dict[str, Any] = {}
    for block in ast.parse(inspect.getsource(module)).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in block.body:
                if isinstance(node, ast.ImportFrom):
                    home = "." * node.level + (node.module or "")
                    source = importlib.import_module(home, module.__package__)
                    found |= {a.asname or a.name: getattr(source, a.name) for a in node.names}
    return found


def _home(value: Any) -> tuple[str, str] | None:
    """The module and the name under which a value is imported; None where there is none."""
    if isinstance(value, ModuleType):
        home, _, leaf = value.__name__.rpartition(".")
        return home, leaf
    for thing in (value, getattr(value, "__wrapped__", None)):
        where, name = getattr(thing, "__module__", None), getattr(thing, "__name__", None)
        if where and name and getattr(sys.modules.get(where), name, None) is thing:
            return where, name
    return None


def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    source = inspect.getsource(module) if getattr(module, "__file__", None) else ""
    later = {*getattr(module, "__all__", ())}
    later |= set(getattr(module, "_PARTS", ()))
    if "__getattr__" in vars(module):
        place = module.__name__.partition(".")[2]
        late = set(names_of(place))
        # A package without imports of its own offers its modules.
        parts = () if "from ." in source.replace("from ..", "") else module.__path__
        later |= late | {part.name for part in pkgutil.iter_modules(parts) if late}
    if module.__name__ == "loopwright.script.tir":
        later |= {n[4:] for n in Op.list_op_names() if n.startswith("tir.")}
    if module.__name__ == "loopwright.script.relax":
        later |= {name for name, _ in _public(relax_op)}
    for name in sorted({*vars(module), *later}):
        if name[0] == "_" or name == "annotations":
            continue
        value = getattr(module, name)
        by_import = isinstance(value, ModuleType) and not isinstance(value, relax_op._View)
        if by_import and name not in later and not re.search(rf"import .*\b{name}\b", source):
            continue  # a submodule that something else imported
        home = value if isinstance(value, ModuleType) else sys.modules.get(_module_of(value))
        where = home.__name__ if home is not None else ""
        instance = not isinstance(value, ModuleType) and not hasattr(value, "__name__")
        tool = not instance and where.startswith(TOOLS) and not where.endswith(OFFERED)
        if (name in later and where != "builtins") or (
            where.startswith("loopwright") and not tool and name not in HIDDEN
        ):
            yield name, value


def _module_of(value: Any) -> str:
    found = getattr(value, "__module__", None) if callable(value) else None
    return found if isinstance(found, str) else type(value).__module__


def _import(home: str, names: list[str]) -> list[str]:
    if not home:
        return [f"import {name}" for name in names]
    line = f"from {home} import {', '.join(names)}"
    if len(line) <= 100:
        return [line]
    glued = ", ".join(names).replace(" as ", "~as~") + ","
    wrapped = textwrap.wrap(
        glued, 96, break_on_hyphens=False, initial_indent="    ", subsequent_indent="    "
    )
    return [f"from {home} import (", *(text.replace("~", " ") for text in wrapped), ")"]


def _doc(value: Any) -> str:
    """The first paragraph of a docstring on one line."""
    text = inspect.cleandoc(getattr(value, "__doc__", None) or "").split("\n\n")[0]
    return " ".join(text.split()).replace("\\", "\\\\").rstrip('"')


def _default(value: Any) -> str:
    items = value if isinstance(value, (tuple, list)) else [value]
    plain = all(isinstance(v, (int, str, float, type(None))) and v == v for v in items)
    return repr(value) if plain and "inf" not in repr(value) else "..."


def pages() -> dict[Path, str]:
    """The text of every stub by its path."""
    texts: dict[Path, str] = {}
    shown: dict[int, tuple[str, str]] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        path = SRC.joinpath(*name.split("."))
        path = path / "__init__.pyi" if path.is_dir() else path.with_suffix(".pyi")
        texts[path] = Stub(module, shown).text()
    return texts


def main(check: bool) -> bool:
    """Write the stubs that differ, or only name them. Returns whether there were any."""
    texts = pages()
    known = {path: path.read_text("utf-8") for path in (SRC / "loopwright").rglob("*.pyi")}
    stale = sorted(p for p in {*texts, *known} if texts.get(p) != known.get(p))
    for path in stale:
        print(path.relative_to(SRC))
        if not check and path in texts:
            path.write_text(texts[path], encoding="utf-8")
        elif not check:
            path.unlink()
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv) and "--check" in sys.argv)
