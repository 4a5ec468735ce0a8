"""The gallery: notebooks are their programs, cell by cell, and pictures show what is compiled."""

from __future__ import annotations

import json
import linecache
from xml.etree import ElementTree

import pytest

from loopwright import lower
from loopwright.script import from_source
from tools.gallery import EXAMPLES, MAIN, PICTURES, notebook, picture, recorded, source

from .source import forbid

MODULE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((32, 256), "float32"), y: R.Tensor((32, 256), "float32")):
        return R.nn.relu(R.add(x, y))
"""


def code_cells(stem: str) -> list[str]:
    return [c["source"] for c in json.loads(notebook(stem))["cells"] if c["cell_type"] == "code"]


@pytest.mark.parametrize("stem", EXAMPLES)
def test_the_cells_are_the_program(stem):
    cells = code_cells(stem)
    for cell in cells:
        compile(cell, stem, "exec")
    program = source(stem)[1].replace(f"{MAIN}\n    main()", "main()")
    assert "".join("".join(cells).split()) == "".join(program.split()) and len(cells) > 2


@pytest.mark.no_roundtrip
def test_a_notebook_runs(capsys, forgotten):
    """As IPython runs cells: their text is found by the name of a file that does not exist."""
    names: dict[str, object] = {"__name__": "__main__"}
    for n, cell in enumerate(code_cells("own_schedule_rule")):
        name = f"<cell {n}>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
        exec(compile(cell, name, "exec"), names)
    assert "right: True" in capsys.readouterr().out


def test_pictures():
    """Each is there, and is what `picture` draws: columns with boxes for calls and loops."""
    missing = [stem for stem in EXAMPLES if not (PICTURES / f"{stem}.svg").exists()]
    forbid("each example of the gallery has a picture", missing, "python -m tools.gallery STEM")
    with recorded() as records:
        lower(from_source(MODULE))
    drawn = ElementTree.fromstring(picture(records, "add and relu"))
    text = [node.text for node in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert text[:3] == ["the graph", "as kernels", "loops of fused_add_relu"]
    assert {"add", "nn.relu", "fused_add_relu"} <= set(text)
    assert any(line.startswith("vectorized ") for line in text)
