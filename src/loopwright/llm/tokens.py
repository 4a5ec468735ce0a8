"""Text to tokens and back, by the library `tokenizers`: of a folder its tokenizer.json, of a GGUF file an
equal tokenizer from its vocabulary.

Supported in GGUF: byte-level BPE ("gpt2") with the splits of _SPLITS, and SentencePiece's BPE ("llama").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..base.errors import LoopwrightError, explain, suggest
from .folder import read_json

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{%s}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# The expressions that split text before BPE, published in the models' tokenizer.json; by tokenizer.ggml.pre.
_SPLITS = {
    "default": _GPT2,
    "gpt-2": _GPT2,
    "llama-bpe": _CL100K % "1,3",
    "llama3": _CL100K % "1,3",
    "smaug-bpe": _CL100K % "1,3",
    "dbrx": _CL100K % "1,3",
    "qwen2": _CL100K % "1",
    "gpt-4o": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}
_NORMAL, _UNKNOWN, _BYTE = 1, 2, 6  # types of tokens; others are matched as they are


class Tokens:
    """A tokenizer with its special tokens. first: the token before each text; last: those that end one."""

    def __init__(
        self, tokenizer: Any, first: int | None, last: Iterable[int], template: str | None
    ) -> None:
        self.tokenizer, self.first, self.last = tokenizer, first, frozenset(last)
        self.template = template

    def encode(self, text: str, special: bool = True) -> list[int]:
        """The tokens of a text; special: behind the first token of all texts, if there is one."""
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        return [self.first, *ids] if special and self.first is not None else ids

    def decode(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(list(ids), skip_special_tokens=True)

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        """The text of tokens as they come; a character's last token brings all of it."""
        seen: list[int] = []
        shown = ""
        for token in ids:
            seen.append(token)
            text = self.decode(seen)
            if not text.endswith("\ufffd") and len(text) > len(shown):
                yield text[len(shown) :]
                shown = text
                if text.endswith("\n"):
                    seen, shown = [], ""
        if text := self.decode(seen)[len(shown) :]:
            yield text

    def chat(self, messages: Sequence[Mapping[str, str]], **options: Any) -> list[int]:
        """The tokens of a conversation ({"role": "user", "content": "Hello"}, ...) by the template of the model.
        Raises LoopwrightError where it has none, or its template fails."""
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        if self.template is None:
            what = "the model has no template of conversations"
            raise LoopwrightError(explain(what, instead="generate from a text"))
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)

        def refuse(text: str) -> None:
            raise TemplateError(text)

        names = {"bos_token": self.first, "eos_token": min(self.last, default=None)}
        texts = {
            n: self.tokenizer.id_to_token(t) if t is not None else "" for n, t in names.items()
        }
        values = {"add_generation_prompt": True, "raise_exception": refuse, **texts, **options}
        try:
            text = environment.from_string(self.template).render(messages=messages, **values)
        except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as err:
            what = "the template of conversations fails"
            raise LoopwrightError(explain(what, got=f"{type(err).__name__}: {err}")) from err
        first = texts["bos_token"]
        return self.encode(text, special=not (first and text.startswith(first)))


def _installed() -> bool:
    return find_spec("tokenizers") is not None


def from_folder(path: Path) -> Tokens | None:
    """The tokenizer of a folder; None where it has none, or the library is missing. Raises LoopwrightError for a
    broken file."""
    if not (path / "tokenizer.json").exists() or not _installed():
        return None
    from tokenizers import Tokenizer

    config: dict[str, Any] = {}
    for name in ("config.json", "tokenizer_config.json", "generation_config.json"):
        if (path / name).exists():
            config |= read_json(path / name)
    try:
        tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    except Exception as err:  # of a class of its own
        what = "tokenizer.json is not a valid tokenizer"
        raise LoopwrightError(explain(what, got=str(err)[:200])) from err
    first = config.get("bos_token_id")
    if config.get("bos_token") is None or config.get("add_bos_token") is False:
        first = None
    last = config.get("eos_token_id")
    template = config.get("chat_template")
    if (path / "chat_template.jinja").exists():
        template = (path / "chat_template.jinja").read_text(encoding="utf-8")
    ends = last if isinstance(last, list) else [last]
    return Tokens(
        tokenizer,
        first if isinstance(first, int) else None,
        [t for t in ends if isinstance(t, int)],
        template if isinstance(template, str) else None,
    )


def from_fields(fields: Mapping[str, Any]) -> Tokens | None:
    """The tokenizer of a GGUF file's keys; None where it has none, or the library is missing. Raises LoopwrightError
    for a kind that is not supported, or a broken one."""
    get = lambda name: fields.get(f"tokenizer.ggml.{name}")  # noqa: E731
    tokens, kind = get("tokens"), get("model")
    if kind is None or tokens is None or not _installed():
        return None
    if kind not in _KINDS:
        what = "the file's kind of tokenizer is not supported"
        raise LoopwrightError(explain(what, got=kind, instead=suggest(kind, _KINDS)))
    from tokenizers import AddedToken

    vocabulary = {token: k for k, token in enumerate(tokens)}
    try:
        own = get("token_type")
        types = [_NORMAL] * len(tokens) if own is None else [*own]
        tokenizer = _KINDS[kind](get, vocabulary, types)
    except LoopwrightError:
        raise
    except Exception as err:  # `tokenizers` raises Exception itself
        what = "the file's tokenizer is invalid"
        raise LoopwrightError(explain(what, got=f"{type(err).__name__}: {str(err)[:200]}")) from err
    special = [t for t, k in zip(tokens, types, strict=False) if k not in (_NORMAL, _BYTE)]
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in special if t])
    ids = {n: get(f"{n}_token_id") for n in ("bos", "eos", "eot", "eom")}
    ids = {n: int(t) for n, t in ids.items() if isinstance(t, int) and 0 <= t < len(tokens)}
    begins = get("add_bos_token")
    first = ids.get("bos") if (kind == "llama" if begins is None else begins) else None
    template = fields.get("tokenizer.chat_template")
    last = [t for n, t in ids.items() if n != "bos"]
    return Tokens(tokenizer, first, last, template if isinstance(template, str) else None)


def _byte_level(get: Any, vocabulary: dict[str, int], types: list[int]) -> Any:
    """GPT-2's: merges of pieces of text as bytes, split before by an expression."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    split = get("pre") or "default"
    if split not in _SPLITS:
        what = "the file's tokenizer splits text by a rule that is not supported"
        raise LoopwrightError(explain(what, got=split, instead=suggest(split, _SPLITS)))
    merges = [tuple(merge.split(" ", 1)) for merge in get("merges") or ()]
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, ignore_merges="llama" in split)
    )
    parts = [
        pre_tokenizers.Split(Regex(_SPLITS[split]), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _pieces(get: Any, vocabulary: dict[str, int], types: list[int]) -> Any:
    """SentencePiece's BPE: of two adjacent pieces those are merged whose union has the greatest score."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    scores = list(get("scores"))
    merges = []
    for piece, k in vocabulary.items():
        if types[k] == _NORMAL:
            pairs = ((piece[:at], piece[at:]) for at in range(1, len(piece)))
            own = [p for p in pairs if p[0] in vocabulary and p[1] in vocabulary]
            own.sort(key=lambda p: (vocabulary[p[0]], vocabulary[p[1]]))
            merges += [(-scores[k], p) for p in own]
    merges.sort(key=lambda m: m[0])
    unknown = next((t for t, k in vocabulary.items() if types[k] == _UNKNOWN), None)
    tokenizer = Tokenizer(
        models.BPE(
            vocab=vocabulary, merges=[m for _, m in merges], unk_token=unknown, fuse_unk=True,
            byte_fallback=True,
        )
    )  # fmt: skip
    prefix = get("add_space_prefix") is not False
    spaces = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = (
        normalizers.Sequence([normalizers.Prepend("▁"), spaces]) if prefix else spaces
    )
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] * prefix)
    return tokenizer


_KINDS = {"gpt2": _byte_level, "llama": _pieces}
