"""The gallery of the site: programs of examples/ as notebooks, and a picture of what each compiles.

python -m tools.gallery         # draw docs/pictures/gallery/*.svg anew; the zoo's models are fetched

A notebook has the program's statements as cells; it is made when the site is built and not stored. A picture shows
the first graph that the program compiles, the graph as kernels, and the loops of one of these.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import os
import re
import runpy
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

import loopwright as lw
from loopwright import relax, tir
from loopwright.ir.trace import PassRecord, Trace

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs/pictures/gallery"
EXAMPLES = {
    "see_every_step": "Every step of a compile",
    "own_pass": "A pass of one's own, of graphs and of loops",
    "own_legalization": "An operator lowered in another way",
    "own_schedule_rule": "A rule that schedules kernels",
    "own_onnx_operator": "A converter for an ONNX operator",
    "nn_module": "A model in Python",
    "c_export": "A model as C source",
    "seed1_own_kernel": "A kernel written in TensorIR for an operator",
    "seed3_legalization_per_target": "A device with lowerings of its own",
    "seed4_c_codegen": "A code generator for parts of a graph",
    "toy_dialect": "A front end for another format",
    "tutorial_relax": "TVM's tutorial on transforming Relax",
}
IMPORTS = (ast.Import, ast.ImportFrom)
MAIN = 'if __name__ == "__main__":'


def source(stem: str) -> tuple[str, str]:
    """(the docstring, the code below it) of an example."""
    text = (ROOT / f"examples/{stem}.py").read_text(encoding="utf-8")
    docstring = ast.parse(text).body[0]
    code = "\n".join(text.splitlines()[docstring.end_lineno :])
    return inspect.cleandoc(ast.get_docstring(ast.parse(text)) or ""), code.strip() + "\n"


def cells(code: str) -> list[str]:
    """The code in parts, which begin where a statement, other than an import, is after an empty line."""
    lines, starts = code.splitlines(keepends=True), [0]
    for statement in ast.parse(code).body:
        first = min(n.lineno for n in (statement, *getattr(statement, "decorator_list", ()))) - 1
        while lines[first - 1].startswith("#"):
            first -= 1
        if first and not lines[first - 1].strip() and not isinstance(statement, IMPORTS):
            starts.append(first)
    return ["".join(lines[a:b]) for a, b in zip(starts, [*starts[1:], len(lines)], strict=True)]


def notebook(stem: str) -> str:
    """An example as a notebook (nbformat 4.5)."""
    docstring, code = source(stem)
    about = re.sub(r"\n*python examples/.*", "", docstring)
    needs = "`pip install 'loopwright[onnx]'`"
    if re.search(r"^from (tools|toy_cg)", code, re.MULTILINE):
        needs = "It needs a checkout: `import sys; sys.path += ['CHECKOUT', 'CHECKOUT/examples']`."
    text = f"# {EXAMPLES[stem]}\n\n{about}\n\n{needs}"
    code = code.replace(f"{MAIN}\n    main()", "main()")
    made = [{"cell_type": "markdown", "id": "about", "metadata": {}, "source": text}]
    for n, cell in enumerate(cells(code)):
        made.append({
            "cell_type": "code", "id": f"cell{n}", "metadata": {}, "source": cell.strip("\n"),
            "execution_count": None, "outputs": [],
        })  # fmt: skip
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    meta = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return json.dumps(
        {"cells": made, "metadata": meta, "nbformat": 4, "nbformat_minor": 5}, indent=1
    )


# ---------------------------------------------------------------- pictures

WIDTH, LOOPS, ROW, MOST = 250, 340, 20, 14  # of columns and a line, in pixels; lines of a graph
FILL = {
    "op": "#dbe7f3",
    "kernel": "#fbe3c4",
    "parallel": "#cfe8d5",
    "vectorized": "#f6d3cf",
    "unrolled": "#eadcf4",
}


def label(binding: relax.Binding) -> tuple[str, str]:
    """(what a binding computes, its kind)."""
    value = getattr(binding, "value", None)
    if not isinstance(value, relax.Call):
        return binding.var.name_hint, "op"
    for callee in (value.op, *value.args[:1]):
        if isinstance(callee, lw.GlobalVar):
            return callee.name_hint, "kernel"
    return str(getattr(value.op, "name", value.op)).removeprefix("relax."), "op"


def written(text: str, x: int, y: int, width: int) -> str:
    """A line of text, cut where it does not fit; integers without their types."""
    text = re.sub(r"T\.int64\((\d+)\)", r"\1", text).strip()
    room = (width - 10) // 7
    text = text if len(text) <= room else text[: room - 1] + "…"
    return f'<text x="{x}" y="{y + 14}">{escape(text)}</text>'


def graph(func: relax.Function, x: int) -> tuple[list[str], int]:
    """A graph as a list of boxes, an arc for each value that skips some; (its parts, its height)."""
    bindings = [b for block in func.body.blocks for b in block.bindings]
    calls = [b for b in bindings if isinstance(getattr(b, "value", None), relax.Call)]
    shown, parts = calls[:MOST], []
    at = {b.var: n for n, b in enumerate(shown)}
    for n, binding in enumerate(shown):
        text, kind = label(binding)
        y = 30 + n * (ROW + 8)
        parts.append(
            f'<rect x="{x + 24}" y="{y}" width="{WIDTH - 44}" height="{ROW}" rx="4" fill="{FILL[kind]}"/>'
        )
        parts.append(written(text, x + 32, y, WIDTH - 52))
        for used in {v for v in relax.analysis.free_vars(binding.value) if v in at}:
            above = 30 + at[used] * (ROW + 8) + ROW
            if at[used] == n - 1:
                parts.append(f'<path d="M{x + 60} {above}V{y}"/>')
            else:
                bend = x + 4 if n - at[used] < 4 else x - 4
                parts.append(
                    f'<path d="M{x + 24} {above - 6}C{bend} {above},{bend} {y},{x + 24} {y + 6}"/>'
                )
    left = len(calls) - len(shown)
    if left:
        parts.append(f'<text x="{x + 32}" y="{44 + len(shown) * (ROW + 8)}">and {left} more</text>')
    return parts, 30 + (len(shown) + bool(left)) * (ROW + 8)


def nest(node: tir.Stmt, x: int, y: int, width: int) -> tuple[list[str], int]:
    """A loop nest as boxes in boxes; (its parts, the y below it)."""
    if isinstance(node, tir.SeqStmt):
        parts: list[str] = []
        for part in node.seq:
            more, y = nest(part, x, y, width)
            parts += more
        return parts, y
    if isinstance(node, tir.For):
        kind = node.kind.name.lower()
        inner, bottom = nest(node.body, x + 8, y + ROW, width - 16)
        size = (
            f'width="{width}" height="{bottom - y + 4}" rx="4" fill="{FILL.get(kind, "#f3f3f3")}"'
        )
        text = f"{'' if kind == 'serial' else kind} {node.loop_var.name} < {node.extent}"
        box = f'<rect x="{x}" y="{y}" {size} stroke="#bbb"/>'
        return [box, written(text, x + 6, y, width), *inner], bottom + 8
    if isinstance(node, tir.BufferStore):
        return [written(f"{node.buffer.name} = {node.value}", x + 6, y, width)], y + ROW
    if isinstance(node, tir.BlockRealize):
        return nest(node.block.body, x, y, width)
    body = getattr(node, "body", None)
    return nest(body, x, y, width) if body is not None else ([], y)


@contextlib.contextmanager
def recorded() -> Iterator[list[PassRecord]]:
    """All passes that run, whatever trace they belong to."""
    records: list[PassRecord] = []
    own = Trace.end

    def end(self: Trace, record: PassRecord, *args: object) -> None:
        own(self, record, *args)
        records.append(record)

    Trace.end = end
    try:
        with lw.trace():
            yield records
    finally:
        Trace.end = own


def columns(records: list[PassRecord]) -> Iterator[tuple[str, list[str], int]]:
    """(title, parts, height) of each column: the graph, the graph as kernels, the loops of a kernel."""
    graphs = [
        (r.name, mod[g])
        for r in records if not r.group
        for mod in (r.before, r.after) if mod is not None
        for g in mod.get_global_vars()
        if g.name_hint in ("main", "forward") and isinstance(mod[g], relax.Function)
    ]  # fmt: skip
    if graphs:
        yield "the graph", *graph(graphs[0][1], 0)
        fused = [f for name, f in graphs if name == "FuseTIR"]
        if fused:
            yield "as kernels", *graph(fused[1], WIDTH)
    kernels = {
        g.name_hint: record.after[g]
        for record in records
        if record.name == "ApplyDefaultSchedule" and record.after is not None
        for g in record.changed_functions() and record.after.get_global_vars()
        if isinstance(record.after[g], tir.PrimFunc)
    }
    drawn = {name: nest(f.body, 2 * WIDTH + 10, 30, LOOPS) for name, f in kernels.items()}
    fitting = {name: d for name, d in drawn.items() if d[1] < 460} or drawn
    if fitting:
        name = max(fitting, key=lambda name: fitting[name][1])
        yield f"loops of {name[:36]}", *fitting[name]


def picture(records: list[PassRecord], title: str) -> str:
    made = list(columns(records))
    height = max(h for _, _, h in made) + 10
    width = 2 * WIDTH + LOOPS + 20
    heads = [
        f'<text x="{(24, WIDTH + 24, 2 * WIDTH + 10)[n]}" y="18" font-weight="bold">{escape(head)}</text>'
        for n, (head, _, _) in enumerate(made)
    ]
    parts = [part for _, column, _ in made for part in column]
    style = 'font-family="monospace" font-size="11" fill="#222"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" {style}>'
        f"<title>{escape(title)}</title><style>path{{fill:none;stroke:#789}}</style>"
        f'<rect width="{width}" height="{height}" rx="6" fill="#fff"/>'
        + "".join([*heads, *parts])
        + "</svg>\n"
    )


def main() -> None:
    os.environ["LOOPWRIGHT_CACHE"] = "0"
    sys.path.append(str(ROOT / "examples"))
    for stem in sys.argv[1:] or EXAMPLES:
        with recorded() as records, contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(ROOT / f"examples/{stem}.py"), run_name="__main__")
        text = picture(records, EXAMPLES[stem])
        (PICTURES / f"{stem}.svg").write_text(text, encoding="utf-8")
        print(stem, len(text))


if __name__ == "__main__":
    main()
