"""Tiny models of all families beside an evaluation in numpy: prefill, decode, batches, forks, both kinds of files."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import llm

from .models import CONFIGS, config, evaluate, greedy, random_weights, write_folder, write_gguf

IDS = [[5, 17, 3, 60, 2, 44, 80, 11, 29, 7, 9, 1, 33, 90], [12], [8] * 17]
_COUNT = 20


@pytest.mark.budget(20)
@pytest.mark.sample(3)
@pytest.mark.parametrize("family", CONFIGS)
def test_family(family, tmp_path):
    c = config(family)
    weights = random_weights(c)
    model = llm.load(write_folder(tmp_path / "model", c, weights), context=200)
    state = model.prefill(IDS[0])
    np.testing.assert_allclose(state.logits, evaluate(c, weights, IDS[0])[-1], 1e-3, 1e-4)
    expected = [greedy(c, weights, ids, _COUNT) for ids in IDS]
    assert model.generate(IDS[0], max_new_tokens=_COUNT) == expected[0]
    got: list[list[int]] = [[] for _ in IDS]
    for pairs in model.run(IDS, _COUNT, llm.Sampling()):
        for k, token in pairs:
            got[k].append(token)
    assert got == expected
    twin = model.fork(state)
    model.decode(state, 50)
    np.testing.assert_allclose(state.logits, evaluate(c, weights, [*IDS[0], 50])[-1], 1e-3, 1e-4)
    for token in expected[0]:
        assert twin.logits.argmax() == token
        model.decode(twin, token)
    del state, twin
    assert len(model.pages.free) == len(model.pages.users)


@pytest.mark.parametrize("family", CONFIGS)
def test_gguf_has_the_weights_of_the_folder(family, tmp_path):
    pytest.importorskip("gguf")
    c = config(family, tie_word_embeddings=family == "gemma2")  # whose files have no other head
    weights = random_weights(c)
    folder = llm.read(write_folder(tmp_path / "model", c, weights))
    file = llm.read(write_gguf(tmp_path / "model.gguf", c, weights))
    for (name, own), other in zip(
        vars(folder.config).items(), vars(file.config).values(), strict=True
    ):
        if "rope" in name:
            assert (own.rotary, own.theta) == (other.rotary, pytest.approx(other.theta))
        elif name not in ("family", "normalized"):
            assert own == pytest.approx(other), name
    for own, other in zip(folder.weights.arrays(), file.weights.arrays(), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-6)
