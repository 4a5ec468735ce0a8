"""A pass outside `gpu/` and the wing of TVM is run by this package, and what is run needs none of
those."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from loopwright.backend import c, cpu
from loopwright.ir.transform import Pass
from tools.make_passes import pass_files

from .source import forbid, sources

ASIDE = {"gpu", "tvm"}
# Passes that are run outside the targets' pipelines, and the file that runs them.
RUN_BY = {
    "BindParams": "driver/steps.py",
    "EliminateCommonSubexpr": "relax/dpl/rewrite.py",
    "FillNewMemory": "explore/running.py",
    "FuseOpsByPattern": "relax/byoc/partition.py",
    "MergeCompositeFunctions": "relax/byoc/partition.py",
    "MergeLayoutChanges": "relax/byoc/lower.py",
    "SinkPermutes": "frontend/tflite/importer.py",
}


def in_pipelines() -> set[str]:
    """The names of all passes in the pipelines of the targets."""
    pipelines = [
        make(arenas=arenas)
        for target in (c, cpu)
        for make in (target.graph_pipeline, target.loop_pipeline)
        for arenas in ((), ("memory",))
    ]
    return {name for pipeline in pipelines for name in pipeline.names()}


@pytest.mark.parametrize(
    "path",
    [path for path in pass_files() if path.parent.name not in {"gpu"} and path.parts[0] != "tvm"],
    ids=str,
)
def test_a_pass_of_the_way_down_is_run(path: Path) -> None:
    module = importlib.import_module(".".join(("loopwright", *path.with_suffix("").parts)))
    passes = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Pass)
        and value.__module__ == module.__name__
    ]
    assert passes, "a file of this folder holds a pass"
    elsewhere = {p.__name__ for p in passes} & RUN_BY.keys()
    assert elsewhere or {p.name for p in passes} & in_pipelines(), "move it to tvm/ or gpu/"


@pytest.mark.parametrize("name", RUN_BY)
def test_a_pass_outside_pipelines_is_run_where_the_table_says(name: str) -> None:
    (source,) = (s for s in sources() if s.path == Path(RUN_BY[name]))
    calls = [node.func for node in source.nodes(ast.Call)]
    names = {c.attr if isinstance(c, ast.Attribute) else getattr(c, "id", "") for c in calls}
    rule = f"the file of RUN_BY runs the pass: {RUN_BY[name]}"
    forbid(rule, {name} - names, "name the file that runs it, or move the pass to tvm/ or gpu/")


def test_the_way_down_imports_nothing_aside() -> None:
    wrong = [
        f"{source.path}:{statement.lineno}: {'.'.join(module)}"
        for source in sources()
        if not ASIDE.intersection(source.path.parts)
        for statement, module, _ in source.imports()
        if "transform" in module and ASIDE.intersection(module)
    ]
    rule = "what is run needs no pass of gpu/ or tvm/"
    forbid(rule, wrong, "move what they share to the folder that needs it")
