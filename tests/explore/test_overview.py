"""The page's data: sentences of the overview, groups, colours, decisions, pairs. No browser."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.explore.explored import Explored
from loopwright.explore.groups import HUES, MOST, Group, grouped, hues, members
from loopwright.explore.machine import Machine
from loopwright.explore.overview import Run, listed, overview, plain
from loopwright.explore.page_data import PageData
from loopwright.explore.pair import (
    data_of_page,
    kernel_pairs,
    node_pairs,
    pair_data,
    pair_page,
)
from loopwright.explore.template import html_of
from loopwright.explore.work import trips_of
from loopwright.ir.trace import ModelNode
from loopwright.script import from_source

from ..programs import graph
from .test_explored import DIGITS, model, node

TIMES = {"fused_conv2d_relu": 60.0, "fused_conv2d1_relu1": 30.0, "fused_matmul_add": 10.0}
RUN = Run(
    profile={name: (us, 1) for name, us in TIMES.items()},
    sizes={"n": 64},
    inputs=[("image", "float32", (64, 1, 16, 16))],
    us=120.0,
    number=7,
    threads=2,
    machine=Machine(200.0, 40.0),
)


@pytest.fixture(scope="module")
def explored():
    return Explored.compiled(DIGITS)


@pytest.fixture(scope="module")
def digits(explored):
    return PageData(explored, RUN).data("digits.onnx")


def texts(data: Any, sentences: Any) -> list[str]:
    return [plain(sentence, data["nodes"]) for sentence in sentences]


# ---------------------------------------------------------------- the overview


@pytest.mark.no_roundtrip
def test_the_first_sentences_are_about_the_run(digits):
    made, inputs, took = texts(digits, digits["overview"]["run"])
    assert made.startswith(f"10 nodes became 7 kernels for {digits['target']}")
    assert inputs == "Inputs: image float32[64, 1, 16, 16] (n=64)."
    assert took == (
        "A run takes 120 µs with 2 threads, the median of 7 runs. "
        "Its kernels, each measured alone, take 100 µs together."
    )


@pytest.mark.no_roundtrip
def test_the_most_expensive_nodes_say_why(digits):
    costly = digits["overview"]["costly"]
    names = [[digits["nodes"][k]["name"] for k in row["nodes"]] for row in costly]
    assert names == [["/conv1"], ["/conv2"], ["/fc/MatMul"]]
    assert [row["us"] for row in costly] == sorted((r["us"] for r in costly), reverse=True)
    assert 0.5 < costly[0]["share"] < 0.6  # its kernel has 60 of 100 µs, its relu a part of them
    first = texts(digits, costly[0]["why"])
    work = next(k for k in digits["kernels"] if k["name"] == "fused_conv2d_relu")
    rate, each = work["bytes"] / 60 / 1e3, work["flops"] / work["bytes"]
    assert first[0] == (
        f"Memory bounds its kernel fused_conv2d_relu: it reaches {rate / 40:.0%} of this machine's "
        f"peak, {rate:.3g} of 40 GB/s. It does {each:.3g} operations a byte; below 5, memory is "
        "the limit."
    )
    assert "It is fused with /relu1." in first
    assert any(s.startswith("It is not fused with /pool1 after it: an oper") for s in first)
    assert any(s.startswith("Scheduled by “stages”: conv2d") for s in first)  # tiles of this CPU
    second = texts(digits, costly[1]["why"])
    assert second[0].startswith("Arithmetic bounds its kernel fused_conv2d1_relu1: it reaches ")


def bounds(us: float, flops: float, size: float, threads: int = 2) -> list[str]:
    row = {"name": "k", "us": us, "calls": 1, "graph": False, "shares": [(0, 1.0)]}
    row |= {"flops": flops, "bytes": size}
    trace = SimpleNamespace(notes=[], schedules={})
    seen: Any = SimpleNamespace(trace=trace, exe=None, steps=[])
    nodes = [{"name": "a", "op": "Conv", "to": []}]
    run = Run(profile={"k": (us, 1)}, machine=Machine(100.0, 10.0), threads=threads)
    (costly,) = overview(seen, nodes, [row], None, run)["costly"]
    return [plain(sentence, nodes) for sentence in costly["why"]]


def test_a_bound_is_what_the_machine_has_less_of():
    assert bounds(100.0, 5e6, 1e5)[0].startswith(
        "Arithmetic bounds its kernel k: it reaches 50% of"
    )
    assert bounds(100.0, 1e6, 5e5)[0].startswith("Memory bounds its kernel k: it reaches 50% of")
    assert "more than the 10 that memory has: caches help" in bounds(100.0, 1e6, 5e6)[0]
    assert "more than the 100 that multiply-adds of float32 do here" in bounds(1.0, 5e5, 1e3)[0]
    assert bounds(5.0, 1e3, 1e3)[1].startswith("A call takes only 5 µs")
    assert bounds(5.0, 0, 1e3) == [
        "Data bounds the loops of its kernel k, so its rate is not known."
    ]


@pytest.mark.no_roundtrip
def test_decisions_are_those_that_are_not_the_default(digits, monkeypatch, explored):
    said = texts(digits, digits["overview"]["decisions"])
    assert any(
        s.startswith("CanonicalizeBindings, BlockedLayout and FoldConstant chan") for s in said
    )
    assert "1 kernel is scheduled by “rows”: softmax." in said
    assert any(s.endswith(" if each had its own memory.") for s in said)
    assert not any("LOOPWRIGHT" in s for s in said if "NUM_THREADS" in s)
    monkeypatch.setenv("LOOPWRIGHT_NUM_THREADS", "3")
    again = PageData(explored).data("digits.onnx")["overview"]
    assert "LOOPWRIGHT_NUM_THREADS=3 is set" in plain(again["decisions"][0], [])


@pytest.mark.no_roundtrip
def test_without_times_nodes_are_compared_by_operations(explored):
    data = PageData(explored).data("digits.onnx")
    assert texts(data, data["overview"]["run"])[1].startswith("No run was timed")
    first = data["overview"]["costly"][0]
    assert data["nodes"][first["nodes"][0]]["name"] == "/conv2" and first["us"] == 0


@pytest.mark.no_roundtrip
def test_nodes_that_were_removed_are_said_once():
    w = [("w", np.eye(16, dtype="float32")), ("s", np.ones(16, "float32"))]
    nodes = [node("Identity", ["w"], "u", "same"), node("MatMul", ["x", "u"], "a", "product")]
    nodes += [node("Add", ["a", "s"], "y", "sum")]
    data = PageData(Explored.compiled(model(*nodes, weights=w))).data("m")
    said = texts(data, data["overview"]["decisions"])
    assert [s for s in said if "removed" in s] == ["The import removed 1 node: same."]


def test_references_in_a_list():
    assert "".join(listed(["a"])) == "a"
    assert "".join(listed("abc")) == "a, b and c"
    assert "".join(listed("abcde")) == "a, b, c and 2 more"


# ---------------------------------------------------------------- groups and colours


def chain(ops: list[str], names: list[str] | None = None) -> list[Group | int]:
    nodes = [
        ModelNode(n, op) for n, op in zip(names or map(str, range(len(ops))), ops, strict=False)
    ]
    return grouped(nodes, [[k + 1] if k + 1 < len(ops) else [] for k in range(len(ops))])


def test_scopes_are_groups_and_only_children_are_joined():
    names = ["onnx:/a/b/x", "onnx:/a/b/y", "onnx:/c/z", "onnx:w"]
    assert chain(["X", "Y", "Z", "W"], names) == [
        Group("a/b", [0, 1]),
        Group("c", [2]),
        3,
    ]


def test_blocks_that_repeat_are_groups():
    ops = ["Stem", *["Conv", "Relu", "Conv", "Add"] * 6, "Pool", "Gemm"]
    stem, blocks, pool, gemm = chain(ops)
    assert (stem, pool, gemm) == (0, 25, 26)
    assert isinstance(blocks, Group) and blocks.name == "6 × Conv, Relu, Add"
    assert [part.name for part in blocks.parts if isinstance(part, Group)][:2] == [
        "Conv, Relu, Add 1/6",
        "Conv, Relu, Add 2/6",
    ]
    assert list(members(blocks.parts[1])) == [5, 6, 7, 8]


def test_a_block_begins_where_fewest_values_cross():
    """Residual blocks: the sum reads what the block before made, so a cut within a block crosses two."""
    nodes, to = [], []
    for b in range(8):
        for k, op in enumerate(("Relu", "Conv", "Conv", "Add")):
            at = 4 * b + k + 1
            nodes.append(ModelNode(str(at), op))
            to.append([at + 1, at + 4] if k == 3 else [at + 1])
    nodes, to = [ModelNode("0", "Add"), *nodes], [[1, 4], *to]
    to = [[k for k in readers if k < len(nodes)] for readers in to]
    first, blocks = grouped(nodes, to)
    assert first == 0 and isinstance(blocks, Group)
    assert list(members(blocks.parts[0])) == [1, 2, 3, 4]


def test_constants_and_ranges_have_names():
    ops = [f"Op{k}" for k in range(30)] + ["Constant"] * 3
    constants, *ranges = chain(ops)
    assert constants == Group("constants", [30, 31, 32])
    assert all(isinstance(part, Group) for part in ranges) and len(ranges) == 3
    assert ranges[0].name == "0 … 9"


@given(some.lists(some.sampled_from(["Conv", "Relu", "Add", "Constant"]), max_size=120))
def test_each_node_is_in_one_group(ops):
    tree = chain(ops)
    assert sorted(k for part in tree for k in members(part)) == list(range(len(ops)))

    def check(parts: list[Group | int]) -> None:
        for part in parts:
            if isinstance(part, Group):
                assert part.name and part.parts
                check(part.parts)

    check(tree)


def test_a_long_chain_is_a_small_first_level():
    mixed = [f"Op{k * k % 97}" for k in range(2000)]
    for ops in (["Relu"] * 500, ["Conv", "Relu"] * 250, [f"Op{k % 7}" for k in range(500)], mixed):
        assert 1 <= len(chain(ops)) <= 3 * MOST


@given(some.lists(some.lists(some.integers(0, 30), max_size=5), max_size=12))
def test_nodes_that_are_seen_together_have_different_colours(together):
    found = hues(31, together)
    assert all(0 <= hue < HUES for hue in found)
    degree = [len({n for t in together if k in t for n in t}) for k in range(31)]
    for members_ in together:
        for a in set(members_):
            for b in set(members_) - {a}:
                assert found[a] != found[b] or max(degree[a], degree[b]) > HUES


@pytest.mark.no_roundtrip
def test_a_nodes_colour_is_its_own_in_every_text(digits):
    """Texts have sets of nodes, not colours: a node has one, so it is the same in all of them."""
    assert [row["hue"] for row in digits["nodes"]] == list(range(10))
    k = next(k for k, row in enumerate(digits["nodes"]) if row["name"] == "/fc/MatMul")
    kernel = next(row for row in digits["kernels"] if row["name"] == "fused_matmul_add")
    for kind in ("tir", "llvm", "asm"):
        lines = digits["texts"][kernel[kind]]["o"]
        assert any(k in digits["sets"][abs(number)] for number in lines), kind
    assert digits["tree"][0] == 0 and isinstance(digits["tree"][-1], int)


# ---------------------------------------------------------------- decisions, lines


@pytest.mark.no_roundtrip
def test_each_decision_is_said_once_at_its_node(digits):
    notes = [
        (n["kind"], n["subject"], n["text"], n["pass"], n["function"]) for n in digits["notes"]
    ]
    assert len(notes) == len(set(notes)) and all(n["kind"] != "group" for n in digits["notes"])
    at = {
        (n["kind"], n["subject"]): digits["nodes"][n["node"]]["name"]
        for n in digits["notes"]
        if n["node"] >= 0
    }
    assert at["schedule", "fused_matmul_add"] == "/fc/MatMul"
    assert at["fuse", "matmul"] == "/fc/MatMul" and ("fuse", "add") not in at
    for note in digits["notes"]:
        assert note["node"] < 0 or note["node"] in digits["sets"][note["set"]]


@pytest.mark.no_roundtrip
def test_a_line_has_its_loops_and_how_often_it_runs(digits, explored):
    kernel = next(row for row in digits["kernels"] if row["name"] == "fused_matmul_add")
    lines = digits["texts"][kernel["tir"]]["t"].split("\n")
    (outer,) = (k for k, text in enumerate(lines, 1) if "T.parallel(" in text)
    assert kernel["loops"][outer - 1] == 0 and kernel["runs"][outer - 1] == 1
    k = max(range(len(lines)), key=lambda k: kernel["runs"][k] if "matmul" in lines[k] else 0)
    around, at = [], kernel["loops"][k]
    while at:
        around.insert(0, at)
        at = kernel["loops"][at - 1]
    assert around[0] == outer and all("for " in lines[n - 1] for n in around)
    found = explored.where("fused_matmul_add", k + 1, {"n": 64})
    assert (found.loops, found.runs) == (around, kernel["runs"][k])
    assert f"runs: {found.runs:.10g} a call, in the loops of lines {outer}" in str(found)
    assert sum(kernel["work"]) == pytest.approx(1, abs=1e-2)


NESTED = """
@T.prim_func
def kernel(n: T.int64, A: T.handle("float32")):
    B = T.Buffer((64,), data=A)
    for i in range(n * T.int64(2)):
        B[i] = T.float32(0)
        for j in range(5):
            B[i] = B[i] + T.float32(1) * T.float32(j)
"""


def test_trips_of_nested_loops():
    func = from_source(NESTED)
    trips = sorted(trips_of(func, {"n": 3}).values(), key=lambda trip: trip.runs)
    leaves = [trip for trip in trips if trip.work]
    assert [trip.runs for trip in leaves] == [6, 30]
    assert [leaf.loop.loop_var.name for leaf in leaves if leaf.loop] == ["i", "j"]
    assert leaves[1].work > 5 * leaves[0].work
    assert sorted(trip.runs for trip in trips_of(func, {}).values() if trip.work) == [2, 10]


@pytest.mark.no_roundtrip
def test_kernels_have_the_sizes_of_their_calls():
    """A kernel's own dimension is 2 n: its work is that of the shapes that it is called with."""
    nodes = [node("Concat", ["x", "x"], "a", "both", axis=0), node("Exp", ["a"], "y", "exp")]
    found = Explored.compiled(model(*nodes))
    kernels = {k: found.work(k, {"n": 8}) for k in found.kernels if not found.is_graph(k)}
    assert any(work.get("bytes", 0) >= 4 * (16 * 16 + 8 * 16) for work in kernels.values())
    shared = [node("Exp", ["x"], "a", "e"), node("Concat", ["a", "a"], "b", "c", axis=0)]
    both = Explored.compiled(model(*shared, node("Softmax", ["b"], "y", "s")))
    (name,) = both.origin("s").kernels
    assert [set(call.values()) for call in both.calls(name, {"n": 8})] == [{8, 16}]


# ---------------------------------------------------------------- pairs


@pytest.fixture(scope="module")
def other():
    """Digits for another CPU, with a slower first convolution."""
    run = Run(
        **{**RUN.__dict__, "profile": {**RUN.profile, "fused_conv2d_relu": (90.0, 1)}, "us": 150.0}
    )
    return PageData(Explored.compiled(DIGITS, "llvm -mcpu=core2"), run).data("digits.onnx")


def said(data: Any) -> list[str]:
    def name(part: Any) -> str:
        if isinstance(part, str):
            return part
        a, b = data["kernels"][part["pair"]]
        side = data["before"] if a >= 0 else data["after"]
        return side["kernels"][max(a, b) if a < 0 else a]["name"] + part.get("text", "")

    return ["".join(map(name, sentence)) for sentence in data["sentences"]]


@pytest.mark.parametrize("more, slower", [(0.2, False), (0.4, True)])
@pytest.mark.no_roundtrip
def test_less_than_a_clocks_reading_is_no_change(digits, more, slower):
    before, after = ({**digits, "us": 4.0} for _ in range(2))
    after["kernels"] = [{**k, "us": k["us"] + more} for k in digits["kernels"]]
    assert any("Slower" in row for row in said(pair_data(before, after))) == slower


@pytest.mark.no_roundtrip
def test_what_changed_in_sentences(digits, other):
    data = pair_data(digits, other)
    rows = said(data)
    assert rows[0] == "A run took 120 µs and takes 150 µs: 1.25 times as long."
    assert rows[1] == f"The target changed from {digits['target']} to {other['target']}."
    assert "Slower: fused_conv2d_relu (+30 µs)." in rows
    assert data["title"] == f"digits.onnx: {digits['target']} → {other['target']}"
    assert "-mcpu=core2" in data["title"]


@pytest.mark.no_roundtrip
def test_a_model_against_itself(digits):
    rows = said(pair_data(digits, digits))
    count = sum(not kernel["graph"] for kernel in digits["kernels"])
    assert pair_data(digits, digits)["title"] == "digits.onnx, before and after"
    assert pair_data(digits, {**digits, "title": "x"})["title"] == "digits.onnx → x"
    assert rows == [
        "A run took 120 µs and takes 120 µs: no change beyond the noise of a measurement.",
        f"{count} kernels have a counterpart: {count} with equal loops.",
    ]


def test_nodes_belong_together_by_name_then_by_order():
    before = [{"name": n, "op": op} for n, op in ("aA", "bB", "cC", "dB")]
    after = [{"name": n, "op": op} for n, op in ("aA", "xB", "yB", "cD")]
    assert node_pairs(before, after) == [(0, 0), (1, 1), (2, -1), (3, 2), (-1, 3)]


def test_kernels_belong_together_by_their_nodes():
    def data(*kernels: tuple[str, int], sets: Any) -> Any:
        rows = [{"name": n, "set": s, "graph": n == "main"} for n, s in kernels]
        return {"kernels": rows, "sets": sets}

    before = data(("f", 1), ("g", 2), ("main", 0), sets=[[], [0, 1], [2]])
    after = data(("h", 1), ("f", 2), ("main", 0), ("new", 3), sets=[[], [0], [2], [3]])
    pairs = kernel_pairs(before, after, [(0, 0), (1, 1), (2, 2), (-1, 3)])
    assert pairs == [(0, 0), (1, 1), (2, 2), (-1, 3)]


@pytest.mark.no_roundtrip
def test_a_page_that_was_written_is_one_of_a_pair(digits, other, tmp_path):
    file = tmp_path / "old.html"
    file.write_text(html_of(digits), encoding="utf-8")
    assert data_of_page(file) == json.loads(json.dumps(digits))
    text = pair_page(data_of_page(file), other)
    assert "<title>digits.onnx: " in text and "http://" not in text.split("<script")[0]
    pair = tmp_path / "pair.html"
    pair.write_text(text, encoding="utf-8")
    for wrong in (pair, tmp_path / "none.html"):
        wrong.touch()
        with pytest.raises(LoopwrightError, match="this file is not a page of a model"):
            data_of_page(wrong)


@pytest.mark.no_roundtrip
def test_an_executable_is_shown_against_another(tmp_path):
    mod, old = graph("y = R.exp(x)", x=(4,)), tmp_path / "old.html"
    exe, narrow = lw.compile(mod), lw.compile(mod, "llvm -mcpu=haswell")
    single = narrow.html(old)
    assert "new Page(" in single and "new Pair(" not in single
    for before in (old, narrow):
        text = exe.html(tmp_path / "pair.html", against=before)
        assert "new Pair(" in text and "-mcpu=haswell → llvm" in text.partition("</title>")[0]


@pytest.mark.slow
@pytest.mark.no_roundtrip
def test_the_command_writes_a_pair(tmp_path):
    from typer.testing import CliRunner

    from loopwright.driver.cli import app

    old, out = tmp_path / "old.html", tmp_path / "pair.html"
    old.write_text(lw.lower(DIGITS).html(), encoding="utf-8")
    for against in (str(old), "llvm -mcpu=haswell"):
        command = ["explore", DIGITS, "-o", str(out), "--number", "0", "--against", against]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        assert "new Pair(data)" in out.read_text(encoding="utf-8")
    for missing in ("none.onnx", "none.html"):
        done = CliRunner().invoke(app, ["explore", DIGITS, "--against", missing])
        assert done.exit_code == 1 and missing in done.output and "target" not in done.output
