"""The choice of tokens beside a plain evaluation in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.llm import sampling
from loopwright.llm.sampling import Sampler, Sampling

_VOCABULARY = 40


def _allowed(logits: np.ndarray, o: Sampling, seen: list[int]) -> np.ndarray:
    """The chances of tokens of one sequence, after all rules."""
    x = logits.astype(np.float64)
    seen = sorted(set(seen))
    x[seen] = np.where(x[seen] < 0, x[seen] * o.repetition_penalty, x[seen] / o.repetition_penalty)
    p = np.exp(x / o.temperature)
    order = np.argsort(-p)[: o.top_k or _VOCABULARY]
    chances = p[order] / p[order].sum()
    within = (np.cumsum(chances) - chances < o.top_p) & (chances >= o.min_p * chances[0])
    out = np.zeros(_VOCABULARY)
    out[order[within]] = chances[within] / chances[within].sum()
    return out


@pytest.mark.sample(2)
@pytest.mark.budget(8)
@pytest.mark.parametrize("few", [4, 256])  # the first: most nuclei are larger than that
@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.7},
        {"temperature": 1.5, "top_k": 5},
        {"temperature": 1.0, "top_p": 0.6},
        {"temperature": 1.0, "top_k": 1},
        {"temperature": 0.5, "top_p": 0.9, "min_p": 0.01},
        {"temperature": 1.0, "min_p": 0.2},
        {"temperature": 1.2, "top_k": 20, "top_p": 0.8, "min_p": 0.05, "repetition_penalty": 1.7},
    ],
    ids=str,
)
def test_frequencies(options, few, monkeypatch):
    monkeypatch.setattr(sampling, "_FEW", few)
    logits = np.random.default_rng(1).standard_normal((2, _VOCABULARY)).astype(np.float32) * 2
    o, seen = Sampling(**options), [[3, 5, 5], [int(logits[1].argmax())]]
    count = 3000
    sampler = Sampler(o, _VOCABULARY, 2 * count)
    rows = [k % 2 for k in range(2 * count)]
    tokens = np.array(sampler(logits[rows], list(range(2 * count)), [seen[k] for k in rows]))
    for k in range(2):
        expected = _allowed(logits[k], o, seen[k])
        got = np.bincount(tokens[k::2], minlength=_VOCABULARY) / count
        assert not got[expected == 0].any()
        np.testing.assert_allclose(got, expected, atol=5 * np.sqrt(0.25 / count))


def test_greedy_and_penalty():
    logits = np.float32([[1, 3, 2.9, -1]])
    assert Sampler(Sampling(), 4, 1)(logits, [0], [[1]]) == [1]
    sampler = Sampler(Sampling(repetition_penalty=1.5), 4, 1)
    assert [sampler(logits, [0], [[token]])[0] for token in (0, 1, 2)] == [1, 2, 1]


def test_seeds():
    logits = np.zeros((3, 1000), np.float32)

    def draw(seed: int) -> list[int]:
        return Sampler(Sampling(temperature=1.0, seed=seed), 1000, 3)(logits, [0, 1, 2], [[0]] * 3)

    assert draw(1) == draw(1) != draw(2)
    assert len(set(draw(1))) == 3  # each sequence has random numbers of its own


@pytest.mark.parametrize("name", ["temperature", "top_p", "min_p", "top_k"])
def test_numbers_out_of_range(name):
    with pytest.raises(ValueError, match=f"{name} is from 0"):
        Sampling(**{name: -1})
