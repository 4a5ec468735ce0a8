"""Tokenizers from the keys of GGUF files, conversations, and text as it comes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from loopwright import llm
from loopwright.base.errors import LoopwrightError
from loopwright.llm.tokens import _SPLITS, Tokens, from_fields, from_folder

from .models import config, greedy, random_weights, write_folder, write_gguf

tokenizers = pytest.importorskip("tokenizers")
_TEXT = "The tensors' shapes: 12345 rows,\n\n  and naïve café déjà-vu — 東京 💡 I'LL go\tnow  "
_WORDS = [
    "low",
    "lower",
    "lowest",
    "newer",
    "wider",
    "rows",
    "row",
    "shape",
    "shapes",
    "tensor",
    "tensors",
    "the",
    "then",
    "there",
    "naïve",
    "café",
]


def _byte_level(split="llama-bpe"):
    """A trained byte-level tokenizer, and what a GGUF file says of it."""
    own = tokenizers.Tokenizer(tokenizers.models.BPE())
    own.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Split(tokenizers.Regex(_SPLITS[split]), "isolated"),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    own.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "</s>"],
        show_progress=False,
    )
    own.train_from_iterator([_TEXT, " ".join(_WORDS)] * 3, trainer)
    vocabulary = sorted(own.get_vocab(), key=own.get_vocab().get)
    merges = __import__("json").loads(own.to_str())["model"]["merges"]
    fields = {
        "model": "gpt2",
        "pre": split,
        "tokens": vocabulary,
        "merges": [" ".join(m) for m in merges],
        "token_type": [3, 3] + [1] * (len(vocabulary) - 2),
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    return own, {f"tokenizer.ggml.{k}": v for k, v in fields.items()}


@pytest.mark.parametrize("split", ["llama-bpe", "qwen2", "gpt-2", "gpt-4o"])
def test_byte_level(split):
    own, fields = _byte_level(split)
    tokens = from_fields(fields)
    ids = tokens.encode(_TEXT)
    assert ids == own.encode(_TEXT).ids
    assert tokens.decode(ids) == _TEXT
    assert tokens.encode("a</s>b") == [*own.encode("a").ids, 1, *own.encode("b").ids]
    assert from_fields({**fields, "tokenizer.ggml.add_bos_token": True}).encode("a")[0] == 0
    assert tokens.last == {1}


def _pieces(seed: int):
    rng = random.Random(seed)
    letters = sorted({c for w in _WORDS for c in w} | {"▁"})
    longer = sorted(
        {w[:k] for w in _WORDS for k in range(2, 6)} | {"▁" + w[:3] for w in _WORDS} | {"▁▁"}
    )
    data = ["<unk>", "<s>", "</s>", *(f"<0x{k:02X}>" for k in range(256)), *letters, *longer]
    scores = [-float(k) for k in range(len(data))]
    tail = scores[-len(longer) :]
    rng.shuffle(tail)
    types = [2, 3, 3] + [6] * 256 + [1] * (len(letters) + len(longer))
    return data, scores[: -len(longer)] + tail, types


def _merged(text: str, pieces: list[str], scores: list[float]) -> list[str]:
    """SentencePiece's rule: the union of adjacent pieces with the greatest score, the first of equal ones."""
    parts = list(text)
    score = dict(zip(pieces, scores, strict=True))
    while True:
        unions = [
            (-score[u], k) for k in range(len(parts) - 1) if (u := parts[k] + parts[k + 1]) in score
        ]
        if not unions:
            return parts
        k = min(unions)[1]
        parts[k : k + 2] = [parts[k] + parts[k + 1]]


@pytest.mark.parametrize("seed", range(5))
def test_pieces(seed):
    pieces, scores, types = _pieces(seed)
    names = {"model": "llama", "tokens": pieces, "scores": scores, "token_type": types}
    ids = {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}
    tokens = from_fields({f"tokenizer.ggml.{k}": v for k, v in {**names, **ids}.items()})
    rng = random.Random(seed)
    for _ in range(40):
        text = " ".join(rng.choice(_WORDS)[: rng.randint(1, 9)] for _ in range(rng.randint(1, 6)))
        got = [pieces[k] for k in tokens.encode(text)]
        assert got == ["<s>", *_merged("▁" + text.replace(" ", "▁"), pieces, scores)]
        assert tokens.decode(tokens.encode(text)) == text
    assert tokens.decode(tokens.encode("row 💡")) == "row 💡"  # by bytes


def test_stream_waits_for_whole_characters():
    _, fields = _byte_level()
    tokens = from_fields(fields)
    parts = list(tokens.stream(tokens.encode(_TEXT)))
    assert "".join(parts) == _TEXT
    assert len(parts) > 20
    assert not any("\ufffd" in part for part in parts)


def test_conversations():
    pytest.importorskip("jinja2")
    _, fields = _byte_level()
    template = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}"
    tokens = from_fields({**fields, "tokenizer.chat_template": template})
    ids = tokens.chat([{"role": "user", "content": "the row"}])
    assert tokens.decode(ids) == "[user] the row"
    unsafe = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    for text, message in (
        (unsafe, "SecurityError"),
        ("{{ raise_exception('no') }}", "no"),
        ("{%", "Syntax"),
    ):
        broken = Tokens(tokens.tokenizer, None, [], text)
        with pytest.raises(LoopwrightError, match=message):
            broken.chat([])
    with pytest.raises(LoopwrightError, match="no template"):
        from_fields(fields).chat([])


@pytest.mark.parametrize(
    ("change", "message"),
    [({"model": "bert"}, "not supported"), ({"pre": "other"}, "splits text by a rule"),
     ({"merges": ["zz qq"]}, "invalid"), ({"merges": ["x"]}, "invalid")],
)  # fmt: skip
def test_broken(change, message):
    _, fields = _byte_level()
    fields |= {f"tokenizer.ggml.{k}": v for k, v in change.items()}
    with pytest.raises(LoopwrightError, match=message):
        from_fields(fields)


@pytest.mark.budget(6)
def test_text_of_a_model(tmp_path):
    """From text to text, of a folder and a GGUF file; with stops, parts, and the last token."""
    own, fields = _byte_level()
    c = config(
        "llama",
        vocab_size=own.get_vocab_size(),
        num_hidden_layers=1,
        bos_token_id=0,
        eos_token_id=1,
    )
    weights = random_weights(c)
    folder = write_folder(tmp_path / "m", c, weights)
    own.save(str(folder / "tokenizer.json"))
    model = llm.load(folder, context=128)
    ids = own.encode("the row").ids
    new = greedy(c, weights, ids, 20)
    new = new[: new.index(1)] if 1 in new else new
    text = own.decode(new)
    assert model.generate("the row", max_new_tokens=20) == text
    assert "".join(model.generate("the row", 20, stream=True)) == text
    assert list(model.generate(ids, 20, stream=True)) == new
    stop = text[4:6]
    assert model.generate("the row", 20, stop=stop) == text[: text.index(stop)]
    token = new[5]
    assert model.generate(ids, 20, stop=[token]) == new[: new.index(token)]
    if pytest.importorskip("gguf"):
        path = write_gguf(tmp_path / "m.gguf", c, weights, fields=fields)
        assert llm.read(path).tokens.encode("the row") == ids
        assert from_folder(folder).encode("the row") == ids
    assert np.all(model.prefill(ids).logits == model.prefill(ids).logits)
