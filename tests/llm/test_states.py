"""Sequences: random steps beside numpy, prefixes and pages that are shared, tokens that are guessed."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import llm
from loopwright.base.errors import LoopwrightError
from loopwright.llm.cache import PAGE, Guesses, Pages

from .models import config, evaluate, random_weights, write_folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    c = config("mistral", num_hidden_layers=1, sliding_window=25)
    weights = random_weights(c)
    path = write_folder(tmp_path_factory.mktemp("llm") / "m", c, weights)
    return c, weights, llm.load(path, context=900)


def test_steps_are_native(tiny):
    executable = tiny[2].executable
    assert set(executable.entries) == {"main", "layer"}
    assert not executable.machine


@pytest.mark.budget(10)
@pytest.mark.parametrize(("pages", "most"), [("float16", 1e-3), ("int8", 2e-2)])
def test_pages_of_fewer_bits(tiny, tmp_path, pages, most):
    c, weights, _ = tiny
    model = llm.load(write_folder(tmp_path / "m", c, weights), context=100, pages=pages)
    assert model.cache[0].dtype == pages
    ids = np.random.default_rng(0).integers(0, c["vocab_size"], 50).tolist()
    state = model.prefill(ids)
    model.decode(state, 9)
    twin = model.fork(state, 40)
    model.decode(twin, 7)
    for one in (state, twin):
        expected = evaluate(c, weights, one.ids)[-1]
        assert np.linalg.norm(one.logits - expected) < most * np.linalg.norm(expected)


@pytest.mark.parametrize("options", [{"context": 0}, {"pages": "int4"}])
def test_invalid_options(tiny, options, tmp_path):
    c, weights, _ = tiny
    with pytest.raises(ValueError, match="number of tokens, and pages"):
        llm.load(write_folder(tmp_path / "m", c, weights), **options)


def test_long_prompts_are_computed_in_pieces(tiny, monkeypatch):
    c, weights, model = tiny
    monkeypatch.setattr("loopwright.llm.model.CHUNK", 7)
    ids = np.random.default_rng(0).integers(0, c["vocab_size"], 50).tolist()
    np.testing.assert_allclose(model.prefill(ids).logits, evaluate(c, weights, ids)[-1], 1e-3, 1e-4)


@pytest.mark.budget(15)
def test_random_steps(tiny):
    """Prefill, decode, forks, removed tokens, dropped sequences: each time the logits of one that is computed alone."""
    c, weights, model = tiny
    rng, states = np.random.default_rng(3), []
    for _ in range(150):
        kind = rng.integers(6) if states else 0
        k = rng.integers(len(states)) if states else 0
        if kind == 0 and len(states) < 6:
            base = states[k].ids if states and rng.integers(2) else []
            count = rng.integers(1, 40)
            states.append(
                model.prefill([*base, *rng.integers(0, c["vocab_size"], count).tolist()][:90])
            )
        elif kind == 1 and len(states) < 6:
            states.append(model.fork(states[k], int(rng.integers(1, len(states[k]) + 1))))
        elif kind == 2 and len(states[k]) > 1:
            model.popn(states[k], int(rng.integers(1, len(states[k]))))
        elif kind == 3 and len(states) > 1:
            del states[k]
        else:
            some = [s for s in states if rng.integers(2)] or states[-1:]
            model.decode(some, rng.integers(0, c["vocab_size"], len(some)).tolist())
        for state in states[:: rng.integers(1, 4)]:
            if state.logits is not None:
                expected = evaluate(c, weights, state.ids)[-1]
                np.testing.assert_allclose(state.logits, expected, 1e-3, 1e-4)
    states.clear()
    state = some = None
    assert sum(model.pages.users) == 0
    assert len(model.pages.free) == len(model.pages.users)


def test_prefixes_are_shared(tiny):
    _, _, model = tiny
    ids = list(range(3 * PAGE + 5))
    first = model.prefill(ids)
    second = model.prefill([*ids[: 2 * PAGE], 9, 9])
    assert second.pages[:2] == first.pages[:2] != second.pages[2:]
    pages = first.pages[:]
    del first
    again = model.prefill(ids)  # from pages that are free, and still hold them
    assert again.pages[:3] == pages[:3]
    np.testing.assert_allclose(again.logits, model.prefill(ids).logits, 1e-5, 1e-5)


def test_a_page_that_is_written_again_holds_its_prefix_no_more():
    pages = Pages(4)
    state = llm.State(pages.take(2), list(range(2 * PAGE)))
    pages.keep(state)
    assert pages.find(state.ids) == state.pages
    pages.drop(state.pages[:], 0)
    assert not pages.is_shared(state.pages[1])
    assert pages.find(state.ids) == state.pages[:1]
    assert pages.find([5, *state.ids]) == []


@pytest.mark.parametrize("most", [1, 4, 9])
def test_guesses_change_nothing(tiny, most):
    _, _, model = tiny
    ids = [7, 8, 9, 10, 11, 7, 8, 9]
    expected = model.generate(ids, 60)
    assert model.generate(ids, 60, lookup=most) == expected
    end = expected[30]
    assert model.generate(ids, 60, stop=[end], lookup=most) == expected[: expected.index(end)]


def test_guesses_are_those_behind_the_last_occurrence():
    guesses = Guesses()
    assert guesses.after([1, 2, 3], 4) == []
    assert guesses.after([1, 2, 3, 4, 1, 2], 4) == [3, 4, 1, 2]
    assert guesses.after([1, 2, 3, 4, 1, 2, 3], 2) == [4, 1]
    assert guesses.after([1, 2, 3, 4, 1, 2, 3, 9, 2, 3], 1) == [9]


@pytest.mark.parametrize("count", [-1, 8])
def test_popn_out_of_range(tiny, count):
    _, _, model = tiny
    with pytest.raises(LoopwrightError, match="8 tokens"):
        model.popn(model.prefill(range(8)), count)


def test_a_step_takes_each_sequence_once(tiny):
    _, _, model = tiny
    one, other = model.prefill([1, 2]), model.prefill([3])
    for states, ids in (([one, other], [5]), ([one, one], [5, 6])):
        with pytest.raises(
            LoopwrightError, match="one token for each sequence, and each sequence once"
        ):
            model.decode(states, ids)
    assert (one.ids, other.ids) == ([1, 2], [3])
