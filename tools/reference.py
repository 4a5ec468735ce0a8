"""The pages of the site that are made: the API reference, the gallery, the list of decisions.

The reference is made from the imported package, not from its source as mkdocstrings does: operators,
schedule primitives and TVMScript's names are entries of registries, which no source text shows.
"""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from loopwright.ops.core import OPERATORS, Case, Operator
from loopwright.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from tests.ops.matrix import make

ROOT = Path(__file__).parent.parent
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
SOURCE = f"{URLS['Source']}/blob/main"
# A page of the reference: its title, and the modules whose public names it describes.
REFERENCE = {
    "compile": ("Compile, run, look", ["loopwright", "loopwright.driver"]),
    "nn": ("Modules", ["loopwright.frontend.nn", "loopwright.frontend.nn.op"]),
    "importers": ("Importers", ["loopwright.frontend.onnx", "loopwright.frontend.tflite"]),
    "llm": ("Language models", ["loopwright.llm"]),
    "relax": ("Graphs: relax", ["loopwright.relax", "loopwright.relax.transform"]),
    "te": ("Tensor expressions: te", ["loopwright.te"]),
    "tir": ("Loops: tir", ["loopwright.tir", "loopwright.tir.transform"]),
    "ir": ("Modules, passes, targets: ir", ["loopwright.ir.module", "loopwright.ir.transform", "loopwright.ir.target"]),
    "sched": ("Schedule rules: sched", ["loopwright.sched"]),
    "serve": ("Engines: serve", ["loopwright.serve"]),
    "runtime": ("Tensors and devices: runtime", ["loopwright.runtime"]),
}  # fmt: skip
# What an operator's parameter takes, by the word in its definition.
KINDS = {
    "Tensor": "a tensor", "Scalar": "a tensor or a number", "Operand": "a tensor or a number",
    "Value": "a tensor or a number", "Tensors": "a tuple of tensors", "Shape": "a shape",
    "Prim": "an integer, may be symbolic", "Prims": "integers, may be symbolic", "Callee": "a function",
    "DType": "a dtype", "Axis": "an axis", "Axes": "an axis, axes, or None for all",
    "Ints": "an integer or several", "Sections": "a number of parts, or where they begin",
    "int": "an integer", "float": "a number", "bool": "True or False", "str": "a text",
}  # fmt: skip
EXAMPLES = {
    "see_every_step": "Every step of a compile",
    "own_pass": "A pass of one's own, of graphs and of loops",
    "own_legalization": "An operator lowered in another way",
    "own_schedule_rule": "A rule that schedules kernels",
    "onnx_decoder": "A language model's ONNX export, its caches written in place",
    "own_onnx_operator": "A converter for an ONNX operator",
    "nn_module": "A model in Python",
    "c_export": "A model as C source",
    "seed1_own_kernel": "A kernel written in TensorIR for an operator",
    "seed3_legalization_per_target": "A device with lowerings of its own",
    "seed4_c_codegen": "A code generator for parts of a graph",
    "seed0_relay_to_tir": "From Relay to TensorIR",
    "tutorial_relax": "TVM's tutorial on transforming Relax",
}


def anchor(name: str) -> str:
    return re.sub(r"[^\w.]+", "-", name)


def prose(text: str) -> str:
    """A docstring as Markdown: what looks like HTML outside of code is text."""
    lines = inspect.cleandoc(text).splitlines()
    return "\n".join(
        line if line.startswith("    ") else line.replace("<", "&lt;") for line in lines
    )


class Words(str):
    """An annotation, which prints without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def signature(thing: Any) -> str:
    """How it is called, a line for each parameter where one line is too long."""
    try:
        given = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""

    def plain(annotation: Any) -> Any:
        return Words(annotation) if isinstance(annotation, str) else annotation

    params = [p.replace(annotation=plain(p.annotation)) for p in given.parameters.values()]
    given = given.replace(parameters=params, return_annotation=plain(given.return_annotation))
    text = str(given).replace("loopwright.", "")
    if len(text) < 80:
        return text
    end = text[text.rindex(")") :]
    return "(\n" + "".join(f"    {p},\n" for p in params).replace("loopwright.", "") + end


def entry(name: str, thing: Any, level: int = 3) -> Iterator[str]:
    """The description of a function, a class with its methods, or a value."""
    yield f"{'#' * level} `{name}` {{#{anchor(name)}}}\n"
    if isinstance(thing, Operator) or hasattr(thing, "operator"):
        yield from operator_entry(getattr(thing, "operator", thing))
        return
    if callable(thing):
        yield f"```python\n{name.rpartition('.')[2]}{signature(thing)}\n```\n"
    own = not isinstance(thing, type) and not callable(thing)
    yield (f"`{thing!r:.200}`" if own else prose(inspect.getdoc(thing) or "")) + "\n"
    if isinstance(thing, type):
        for key in sorted(vars(thing)):
            function = getattr(thing, key, None)
            if not key.startswith("_") and callable(function) and inspect.getdoc(function):
                yield f"**`{key}{signature(function)}`**{{#{anchor(f'{name}.{key}')}}}\n"
                yield ":   " + prose(inspect.getdoc(function) or "").replace("\n", "\n    ") + "\n"


def typed(info: StructInfo) -> str:
    """`float32[n, 3]`, for a struct info."""
    if isinstance(info, TupleStructInfo):
        return f"({', '.join(map(typed, info.fields))})"
    dims = info.get_shape() if isinstance(info, TensorStructInfo) else None
    if dims is None:
        return str(info).removeprefix("R.")
    return f"{info.dtype}[{', '.join(str(getattr(d, 'value', d)) for d in dims)}]"


def example(operator: Operator, case: Case) -> str:
    """A call of the test matrix: from which types, with which attributes, to which type."""
    call = make(operator, case).call
    given = [typed(arg.struct_info) for arg in call.args]
    attrs = [f"{k}={v!r}" for k, v in case.attrs.items()]
    return f"{operator.name.rpartition('.')[2]}({', '.join([*given, *attrs])}) -> {typed(call.struct_info)}"


def operator_entry(operator: Operator) -> Iterator[str]:
    """All that the definition of an operator says."""
    short = operator.name.removeprefix("relax.")
    yield f"```python\nrelax.op.{short}{signature(operator.builder)}\n```\n"
    yield prose(operator.__doc__ or "") + "\n"
    rows = []
    for p in operator.params:
        kind = KINDS.get(p.annotation, p.annotation)
        allowed = operator.choices.get(p.name)
        kind = f"one of {', '.join(map(repr, allowed))}" if allowed else kind
        default = f", default `{p.default!r}`" if p.optional else ""
        rows.append(f"- `{p.name}`: {kind}{default}")
    yield "\n".join(rows) + "\n"
    has = operator.op.has_attr
    facts = {
        "gradient": "FPrimalGradient",
        "numpy reference": "FNumpy",
        "layouts": "FRelaxInferLayout",
    }
    has_facts = [fact for fact, key in facts.items() if has(key)]
    file, line = inspect.getsourcefile(operator.body), operator.body.__code__.co_firstlineno
    if file and ROOT in Path(file).parents:
        path = Path(file).relative_to(ROOT)
        has_facts.append(f"[definition]({SOURCE}/{path}#L{line})")
    yield "Has: " + ", ".join(has_facts) + ".\n" if has_facts else ""
    lines = "\n".join(example(operator, case) for case in operator.cases[:2])
    yield f"```text\n{lines}\n```\n" if lines else ""


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public names of a module that are ours."""
    for name in sorted(dir(module)):
        thing = getattr(module, name, None)
        home = getattr(thing, "__module__", None) or ""
        described = callable(thing) and str(home).startswith("loopwright")
        if not name.startswith("_") and described and not isinstance(thing, ModuleType):
            yield name, thing


def reference_page(title: str, modules: Iterable[str]) -> str:
    text = [f"# {title}\n"]
    seen: set[int] = set()
    for path in modules:
        module = importlib.import_module(path)
        text += [f"## {path}\n", prose(module.__doc__ or "") + "\n"]
        for name, thing in public(module):
            if id(thing) not in seen:
                seen.add(id(thing))
                text += entry(
                    f"{path.removeprefix('loopwright.')}.{name}".removeprefix("loopwright."), thing
                )
    return "\n".join(text)


def operators_page() -> str:
    """All operators of the graph, by their views."""
    text = [
        "# Operators: relax.op\n",
        "An operator is defined once, in `src/loopwright/ops`: its loops, from which shapes, its kernel, its fusion and the "
        "text of TVMScript follow. `R.NAME` in TVMScript is `relax.op.NAME`.\n",
    ]
    groups: dict[str, list[Operator]] = {}
    for operator in sorted(OPERATORS.values(), key=lambda operator: operator.name):
        if hasattr(operator, "builder"):
            short = operator.name.removeprefix("relax.")
            groups.setdefault(short.rpartition(".")[0], []).append(operator)
    for group, operators in sorted(groups.items()):
        text.append(f"## relax.op{'.' + group if group else ''}\n")
        for operator in operators:
            text += entry(operator.name.removeprefix("relax."), operator)
    return "\n".join(text)


def gallery_page() -> str:
    text = ["# Gallery\n", "Programs of `examples/`, all of which run in the tests.\n"]
    for stem, title in EXAMPLES.items():
        code = (ROOT / f"examples/{stem}.py").read_text(encoding="utf-8")
        docstring = inspect.cleandoc(re.match(r'"""(.*?)"""', code, re.DOTALL).group(1))  # type: ignore[union-attr]
        text += [f"## {title}\n", prose(docstring) + "\n"]
        text += [f'??? example "examples/{stem}.py"\n', "    ```python"]
        text += ["    " + line for line in code.splitlines()] + ["    ```\n"]
    return "\n".join(text)


def decisions_page() -> str:
    text = ["# Decisions\n", "Where the design changed, and why.\n"]
    for path in sorted((ROOT / "docs/decisions").glob("*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        text.append(f"- [{title}]({path.name})")
    return "\n".join(text)


def pages() -> dict[str, str]:
    """The text of each page, by its name in the site."""
    made = {f"reference/{key}.md": reference_page(*row) for key, row in REFERENCE.items()}
    made |= {"reference/operators.md": operators_page(), "gallery.md": gallery_page()}
    return made | {"decisions/index.md": decisions_page()}
