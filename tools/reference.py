"""The pages of the site that are made: the API reference, the gallery, the list of decisions.

The reference is made from the imported package, not from its source as mkdocstrings does: operators,
schedule primitives and TVMScript's names are entries of registries, which no source text shows.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from loopwright.ops.core import OPERATORS, Operator
from tools.gallery import EXAMPLES
from tools.gallery import source as example_source

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


def anchor(name: str) -> str:
    return re.sub(r"[^\w.]+", "-", name)


def prose(text: str) -> str:
    """A docstring as Markdown: parameters and errors are lists, examples code, "<" is text."""
    made, before = [], ""
    for block in re.split(r"\n(?=\n|>>> )", inspect.cleandoc(text)):
        if block.lstrip("\n").startswith(">>> "):
            same = before.startswith(">>> ") and not block.startswith("\n")
            made[-1:] = [made[-1].removesuffix("\n```")] if same else [*made[-1:], "\n```python"]
            made.append(block.lstrip("\n") + "\n```")
        else:
            for line in block.splitlines():
                line = re.sub(r"^((?:[a-z_]\w*(?:, )?)+): ", r"\n- `\1`: ", line)
                line = re.sub(r"^Raises (\w+) for", r"\n- Raises `\1` for", line)
                code = line.startswith("    ")
                made.append(line if code else re.sub("::$", ":", line).replace("<", "&lt;"))
        before = block.lstrip("\n")
    return re.sub(r"(?m)(^- .*)\n\n(?=- )", r"\1\n", "\n".join(made))


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


def definition(thing: Any) -> Iterator[str]:
    """A link to the source."""
    with contextlib.suppress(TypeError, OSError):
        thing = inspect.unwrap(thing)
        path = Path(inspect.getsourcefile(thing) or "")
        if ROOT in path.parents:
            line = inspect.getsourcelines(thing)[1]
            yield f"[source]({SOURCE}/{path.relative_to(ROOT)}#L{line})\n"


def entry(name: str, thing: Any, level: int = 3) -> Iterator[str]:
    """The description of a function, a class with its methods, or a value."""
    yield f"{'#' * level} `{name}` {{#{anchor(name)}}}\n"
    if callable(thing):
        yield f"```python\n{name.rpartition('.')[2]}{signature(thing)}\n```\n"
    own = not isinstance(thing, type) and not callable(thing)
    yield (f"`{thing!r:.200}`" if own else prose(inspect.getdoc(thing) or "")) + "\n"
    if callable(thing):
        yield from definition(getattr(getattr(thing, "operator", None), "body", thing))
    if isinstance(thing, type):
        for key in sorted(vars(thing)):
            function = getattr(thing, key, None)
            if not key.startswith("_") and callable(function) and inspect.getdoc(function):
                yield f"**`{key}{signature(function)}`**{{#{anchor(f'{name}.{key}')}}}\n"
                yield ":   " + prose(inspect.getdoc(function) or "").replace("\n", "\n    ") + "\n"


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public names of a module that are ours."""
    for name in sorted(getattr(module, "__all__", dir(module))):
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
            text += entry(f"relax.op.{operator.name.removeprefix('relax.')}", operator.builder)
    return "\n".join(text)


def gallery_page() -> str:
    text = [
        "---\nhide: [navigation]\n---\n\n# Gallery\n",
        "Programs of `examples/`, which run in the tests. A picture shows what the program compiles: its first graph, the graph as "
        "kernels, and the loops of one of these.\n",
    ]
    for stem, title in EXAMPLES.items():
        docstring, code = example_source(stem)
        about = prose(re.sub(r"\n*python examples/.*", "", docstring))
        alt = f"{title}: the graph, its kernels, the loops of one"
        text += [f"## {title}\n", f"{about}\n", f"![{alt}](pictures/gallery/{stem}.svg)\n"]
        text += [f'[Download the notebook](gallery/{stem}.ipynb){{ download="{stem}.ipynb" }}\n']
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
