"""Fixed parts of the other searches: hostile files and texts, orders of passes, own faults."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

from loopwright.codegen.llvm.export import library_modules
from tools.fuzz import (
    backends,
    files,
    instrumented,
    kernels,
    mutants,
    passes,
    rounding,
    sanitizers,
    texts,
)
from tools.fuzz.case import Case
from tools.fuzz.hostile import CHANGES, HOSTILE
from tools.fuzz.onnx_model import to_onnx
from tools.fuzz.workers import Limits, Pool

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which judges cases")

pytestmark = [pytest.mark.no_roundtrip, pytest.mark.no_verify]
FINE = ("right", "error", "accepted", "doubt")


def bad(task, items, limits=None):
    """{item: outcome} of those that did not end as they should."""
    made = Pool(task, limits=limits or Limits()).run(items)
    return {item: outcome for item, outcome, _ in made if outcome.kind not in FINE}


def test_files_that_are_no_graphs():
    names = [n for n in HOSTILE if n in CHANGES or n.startswith("weights: ")]
    assert len(names) > 50
    assert bad(files.judge_file, names) == {}


@pytest.mark.slow
def test_some_changed_files():
    assert bad(files.judge_file, range(100, 140)) == {}


@pytest.mark.slow
def test_hostile_files():
    assert bad(files.judge_file, [*HOSTILE, *range(1000, 1400)], Limits(30, 4 << 30)) == {}


def test_some_texts():
    items = [("text", seed) for seed in range(70, 100)] + [
        ("target", seed) for seed in range(3, 18)
    ]
    assert bad(texts.judge_text, items) == {}


@pytest.mark.slow
def test_more_texts():
    items = [("text", seed) for seed in range(1000, 1600)]
    items += [("text", text) for text in texts.ESCAPES + texts.STATEMENTS]
    items += [("target", seed) for seed in range(1000, 1200)]
    assert bad(texts.judge_text, items, Limits(30, 4 << 30)) == {}


def test_some_orders_of_passes():
    assert bad(passes.run, [(seed, None) for seed in range(300, 330)]) == {}


def test_some_kernels():
    assert bad(kernels.judged, range(310600049, 310600064)) == {}


def test_some_back_ends():
    # 618: what two users share is folded for one; 2232, 8072: two back ends want the same call.
    saved = Path(__file__).parent.joinpath("backends").glob("*.json")
    before = [(int(path.stem), Case.load(path)) for path in sorted(saved)]
    assert len(before) == 4
    assert bad(backends.run, range(40)) == {}
    for outcome in (outcome for _, outcome, _ in Pool(backends.run).run(before)):
        assert outcome.kind in FINE, outcome


def test_a_pass_that_does_not_exist_is_noticed():
    (outcome,) = bad(passes.run, [(2, ("Simplify", "NoSuchPass"))]).values()
    assert (outcome.kind, outcome.stage) == ("raw", "NoSuchPass")


@pytest.mark.slow
def test_some_sanitized_programs():
    made = bad(sanitizers.judge_c, ["digits", *range(20, 26)], sanitizers.LIMITS)
    assert [o for o in made.values() if o.kind != "skipped"] == []


def judged_llvm(items, name):
    """{item: outcome} of what was not right; the test is skipped where tools are missing."""
    made = bad(sanitizers.judge_llvm, [(item, name) for item in items], sanitizers.LIMITS)
    for outcome in made.values():
        if outcome.stage == "tools":
            pytest.skip(outcome.message)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", instrumented.SANITIZERS)
def test_an_instrumented_library(name):
    assert judged_llvm(["digits"], name) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", instrumented.SANITIZERS)
def test_more_instrumented_libraries(name):
    assert judged_llvm(["mlp", "transformer", 101, *range(20, 30)], name) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        # The launcher no longer sees what the workers did before it goes on.
        (
            "thread",
            "ptr @lw.done, i32 %ran seq_cst",
            "ptr @lw.done, i32 %ran monotonic",
            "data race",
        ),
        ("address", "%bytes, 127", "%bytes, 124", "heap-buffer-overflow"),
    ],
)
def test_a_fault_in_support_code_is_noticed(name, old, new, words, monkeypatch):
    def changed(*args, **options):
        texts = library_modules(*args, **options)
        assert any(old in text for text in texts)
        return [text.replace(old, new).replace(*workers_do_all) for text in texts]

    # Else it would be up to the system whether a worker wakes before the launcher has done all tasks.
    workers_do_all = "%ran = call i32 @lw.run(i32 0)", "%ran = add i32 0, 0"
    monkeypatch.setattr(instrumented, "library_modules", changed)
    if name == "address":
        spare = [(o.replace(old, new), n.replace(" 64", " 60")) for o, n in instrumented._APART]
        monkeypatch.setattr(instrumented, "_APART", spare)
    assert words in str(judged_llvm(["digits"], name))


@pytest.mark.parametrize("path", ["", "old"])
def test_missing_tools_are_named(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    expected = "there is no opt on PATH; apt install llvm"
    if path:
        for tool in ("opt", "llc", "gcc"):
            (tmp_path / tool).write_text("#!/bin/sh\necho LLVM version 13.0.1\n")
            (tmp_path / tool).chmod(0o755)
        expected = "opt is of LLVM 13; LLVM 14 or newer reads our text"
    instrumented.runtime_of.cache_clear()
    instrumented._version.cache_clear()
    outcome = sanitizers.judge_llvm(("digits", "thread"), print)
    instrumented._version.cache_clear()
    assert (outcome.kind, outcome.message) == ("skipped", expected)


def test_every_fault_is_a_program_and_another_one():
    for name in ("arith/interval.py", "relax/transform/fuse/fuse_ops.py", "codegen/llvm/memory.py"):
        made = list(mutants.faults(mutants.ROOT, f"src/loopwright/{name}", mutants.KINDS["all"]))
        assert len(made) > 40
        before = ast.dump(ast.parse(made[0].before()))
        for mutant in made[::7]:
            assert ast.dump(ast.parse(mutant.text())) != before


def test_faults_of_a_seed():
    chosen = functools.partial(mutants.chosen, mutants.ROOT)
    assert chosen(3, 5) == chosen(3, 5) != chosen(4, 5)
    of_two = {m.path.split("/")[2] for m in chosen(3, 30, ["arith", "base"])}
    assert of_two == {"arith", "base"}
    new, old = (chosen(3, 5, ["base"], kind) for kind in ("new", "old"))
    assert set(new).isdisjoint(old)


def test_kinds_of_faults(tmp_path):
    text = """
def f(a: int, b: int, c: str, self: int):
    low = min(a, -b)
    both = [x.max for x in c if all(x.any())] + list("int8")
    g(a, low)(*both, a)
    return isinstance(f"uint8{low}", h(b, c, c))
"""
    (tmp_path / "a.py").write_text(text)
    found = {
        kind: [
            str(fault).split(": ", 1)[1].partition(" in ")[0].replace("`", "")
            for fault in mutants.faults(tmp_path, "a.py", [kind])
        ]
        for kind in mutants.KINDS["new"]
    }
    assert found == {
        "names": [
            *("a -> b", "b -> a", "c -> low", "a -> b", "low -> both"),
            *("both -> low", "a -> b", "low -> both", "b -> a", "c -> both", "c -> both"),
        ],
        "arguments": ["a -> -b", "-b -> a", "a -> low", "low -> a", "b -> c"],
        "functions": ["min -> max", "all -> any", "any -> all"],
        "texts": ['"int8" -> "uint8"'],
        "signs": ["- -> "],
    }


@pytest.mark.slow
def test_a_fault_is_tried_on_the_tests_that_run_its_line(tmp_path):
    lines = {
        "src/loopwright/__init__.py": "",
        "src/loopwright/arith/half.py": "def half(x):\n    return x // 2\n\n\ndef free(x):\n    return x + 1\n\n\ndef bare(x):\n    return x + 1\n\n\ndef never(x):\n    return x + 1\n",
        "tests/arith/test_half.py": "from loopwright.arith.half import half\n\n\ndef test_half():\n    assert half(1) == 0\n",
        "src/loopwright/arith/table.py": "SIZE = 3\n",
        "tests/conftest.py": "import gc\n\n\ndef pytest_collection_finish():\n    gc.freeze()\n\n\n"  # as ours
        "def pytest_addoption(parser):\n    parser.addoption('--texts')\n    parser.addoption('--against')\n",
        "tests/replay/test_all.py": "from pathlib import Path\n\nfrom loopwright.arith.half import bare\n\n\n"
        "def test_all(request):\n    texts, known = request.config.option.texts, request.config.option.against\n"
        "    if texts:\n        Path(texts).write_text(str(bare(1)))\n"
        "    else:\n        assert Path(known).read_text() == str(bare(1))\n",
        "tests/arith/test_none.py": "def test_none():\n    pass\n",
        "tests/ir/test_uses.py": "from loopwright.arith.half import free\nfrom loopwright.arith.table import SIZE\n\n\n"
        "def test_free():\n    assert free(2) == SIZE\n",
    }
    for name, text in lines.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    tests = mutants.Tests(tmp_path / "covered", tmp_path / "tree")
    tree, replay = mutants.copy(tests.tree, tmp_path / "one"), mutants.Replay(tests.tree)

    def verdicts(name):
        made = list(mutants.faults(tests.tree, f"src/loopwright/arith/{name}.py"))
        tried = {t.mutant: t.verdict for t in mutants.tried(made, tests, tree, replay)}
        return [tried[m] for m in made]

    elsewhere, frozen, never = (
        [verdict] * 2 for verdict in ("found elsewhere", "only by replay", "not run")
    )
    assert verdicts("half") == ["found", "missed", *elsewhere, *frozen, *never]
    assert verdicts("table") == ["found elsewhere"]
    results = tests.tree / "coverage"
    (results / "ir.xml").unlink()  # the search was stopped before it was written
    kept = (results / "arith.xml").stat().st_mtime_ns
    assert mutants.Tests(tests.tree).seconds.keys() == tests.seconds.keys()
    assert (results / "arith.xml").stat().st_mtime_ns == kept


def test_messages_samples_and_overloads_have_no_faults(tmp_path):
    text = """
def check(x):
    if x > 1:
        what = f"{x + 1} is more"
        raise ValueError(what)
    if x < -1:
        y = x + 2
        return y
    return explain(x + 3)

@typing.overload
def scale(x, by=1): ...

def scale(x, by=1):
    return x * by

scale.samples(case(1 + 2))
"""
    (tmp_path / "a.py").write_text(text)
    lines = {m.line for m in mutants.faults(tmp_path, "a.py")}
    assert lines == {3, 6, 7, 14, 15}


def test_feeds_by_which_a_quotient_is_a_number():
    """0 / 0 as a byte, and the sign of 1 / 0, are each engine's own."""
    ports = [("scale", "float32", ()), ("x", "float16", ("n", 3)), ("i", "int64", (2,))]
    scale, x, i = files.feed([*ports, ("b", "bool", ())])[:3]
    assert (scale.shape, scale, x.dtype, x.shape) == ((), 1, np.float16, (2, 3))
    assert x.all() and not i.any()


def test_a_file_s_difference_that_rounding_makes_is_a_doubt(tmp_path, monkeypatch):
    """A quotient by what is left of the last number of a window."""
    case = Case.load(Path(__file__).parent / "doubts" / "onnx-1024976.json")
    path = tmp_path / "model.onnx"
    path.write_bytes(to_onnx(case).SerializeToString())
    assert files.judge_file(str(path), print).kind == "doubt"
    monkeypatch.setattr(rounding, "unit", lambda kind: 0.0)
    assert files.judge_file(str(path), print).kind == "wrong"


def test_the_axes_of_what_a_loop_gathers_without_a_turn_are_open(tmp_path):
    """onnxruntime gives one where the body declares no shape; the carried value has more."""
    text = """<ir_version: 8, opset_import: ["": 13]> g (float[3] x) => (float[] y, float[] z)
        <int64 turns = {-1}> {
          y, z = Loop (turns, "", x) <body: graph = b (int64 i, bool on, float[] v)
            => (bool go, float[] w, float[] u) { go = Identity(on) w = Abs(v) u = Neg(v) }>
        }"""
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    assert files.judge_file(str(path), print).kind == "doubt"


@pytest.mark.parametrize(("apart", "kind"), [(1e-5, "doubt"), (1e-2, "wrong")])
def test_a_file_s_difference_that_the_last_bit_of_an_operand_makes_is_a_doubt(
    apart, kind, tmp_path, monkeypatch
):
    text = """<ir_version: 8, opset_import: ["": 13]> g (float[3] x) => (float[3] z)
        <float w = {60}> { y = Add(x, w)  z = Exp(y) }"""
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    theirs = files.reference_of
    off = lambda *given: [[a * np.float32(1 + apart) for a in run] for run in theirs(*given)]  # noqa: E731
    monkeypatch.setattr(files, "reference_of", off)
    monkeypatch.setattr(files, "of_rounding", lambda *given: False)
    assert files.judge_file(str(path), print).kind == kind
