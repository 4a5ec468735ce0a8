"""Every step from an ONNX file to machine code, as text.

python examples/see_every_step.py
"""

from __future__ import annotations

import difflib
import itertools
from pathlib import Path

import loopwright as lw

MODEL = Path(lw.__file__).parent / "driver/data/digits.onnx"


def head(text: str, lines: int = 12) -> str:
    """The first lines of a text, cut at the width of a page."""
    return "\n".join(line[:110] for line in text.splitlines()[:lines])


def main() -> None:
    trace = lw.lower(MODEL)

    print("# every pass, its time, and what it changed")
    trace.show()

    print("\n# the graph as imported, and which node of the file each line is from")
    graph = trace[0].before
    for binding in graph["main"].body.blocks[0].bindings:
        print(f"{binding.var.name_hint:4} {binding.span or binding.value.span}")

    print("\n# what one pass changed")
    record = trace["BlockedLayout"]
    print(f"{record.name} changed {record.changed_functions()} in {record.ms:.1f} ms")
    print(head(record.diff(context=0)))

    print("\n# why: the rule that lowered softmax, what conv2d was fused with, who scheduled it")
    for subject in ("relax.nn.softmax", "conv2d", "fused_conv2d_relu"):
        for note in trace.explain(subject):
            print(head(str(note), 1))

    print("\n# one kernel through the passes on loops: lines of its text, and how many changed")
    old: list[str] = []
    for record in trace:
        if record.group or record.after is None or "fused_conv2d_relu" not in record.after:
            continue
        new = record.after["fused_conv2d_relu"].script().splitlines()
        changed = [d for d in difflib.ndiff(old, new) if d[0] in "+-"] if old != new else []
        if changed:
            print(f"{record.name:45} {len(new):4} lines, {len(changed):4} changed")
        old = new

    exe = lw.compile(MODEL)
    print("\n# its loops as the code generator read them")
    print(head(exe.lowered["fused_conv2d_relu"].script()))
    print("\n# its LLVM; comments name the nodes of the file that the lines after them compute")
    code = exe.program.text("fused_conv2d_relu").splitlines()
    for line, following in itertools.pairwise(code):
        if "; onnx:" in line:
            print(head(f"{line}\n{following}"))
    print("\n# its assembly: multiply-adds of whole vectors")
    code = exe.program.assembly("fused_conv2d_relu").splitlines()
    print("\n".join([line for line in code if "vfmadd" in line][:4]))


if __name__ == "__main__":
    main()
