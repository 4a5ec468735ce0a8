"""Fixed parts of the other searches: hostile files and texts, orders of passes, own faults."""

from __future__ import annotations

import ast

import pytest

from tools.fuzz import files, mutants, passes, sanitizers, texts
from tools.fuzz.hostile import CHANGES, HOSTILE
from tools.fuzz.workers import Limits, Pool

pytestmark = [pytest.mark.no_roundtrip, pytest.mark.no_verify]
FINE = ("right", "error", "accepted")


def bad(task, items, limits=None):
    """{item: outcome} of those that did not end as they should."""
    made = Pool(task, limits=limits or Limits()).run(items)
    return {item: outcome for item, outcome, _ in made if outcome.kind not in FINE}


def test_files_that_are_no_graphs():
    names = [n for n in HOSTILE if n in CHANGES or n.startswith("weights: ")]
    assert len(names) > 50
    assert bad(files.judge_file, [n for n in names if "1 MB" not in n]) == {}


def test_some_changed_files():
    assert bad(files.judge_file, range(100, 140)) == {}


@pytest.mark.slow
@pytest.mark.xfail(reason="faults that are known and open; the search prints them", strict=False)
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


def test_a_pass_that_does_not_exist_is_noticed():
    (outcome,) = bad(passes.run, [(2, ("Simplify", "NoSuchPass"))]).values()
    assert (outcome.kind, outcome.stage) == ("raw", "NoSuchPass")


def test_some_sanitized_programs():
    made = bad(sanitizers.judge_c, range(20, 26), Limits(60, 1 << 46))
    assert [o for o in made.values() if o.kind != "invalid"] == []


def test_every_fault_is_a_program_and_another_one():
    for path in ("arith/bound.py", "relax/transform/fuse/fuse_ops.py", "codegen/llvm/memory.py"):
        file = mutants.ROOT / "src/loopwright" / path
        made = list(mutants.faults(file))
        assert len(made) > 10
        for mutant in made:
            assert ast.dump(ast.parse(mutant.text())) != ast.dump(ast.parse(file.read_text()))


def test_faults_of_a_seed():
    assert mutants.chosen(3, 5) == mutants.chosen(3, 5) != mutants.chosen(4, 5)
    layers = {mutants.tests_of(m.file)[-1].parent.name for m in mutants.chosen(0, 40)}
    assert layers == {"tests"}
