"""Models of language: load one, then generate text, or take single steps.

model = llm.load("tiny-llama")
for piece in model.generate("Once upon a time", max_new_tokens=50, stream=True): ...
sequence = model.prefill([1, 15043])              # sequence.logits: of the token behind
twin = model.fork(sequence)                       # shares its pages
logits = model.decode([sequence, twin], [3186, 920])
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import LoopwrightError, explain
from ..driver.front import compile
from ..runtime.tensor import Tensor, aligned_zeros
from .block import Options, build_steps
from .cache import PAGE, Guesses, Pages, State
from .config import Config, from_gguf, from_json
from .folder import read_folder, read_json
from .gguf import read_gguf
from .integers import read_integers
from .sampling import Sampler, Sampling
from .tokens import Tokens, from_fields, from_folder
from .weights import Weights, assemble

CHUNK = 512  # tokens of a call of prefill, which bounds the memory of its intermediate tensors


class Model:
    """A decoder with its weights, its cache and its compiled step; see the module. threads: see `compile`.

    A sequence's pages are free again when it is not referenced any more. Raises ValueError for invalid options.

    >>> model = llm.load("tiny-llama", context=64, threads=1)
    >>> len(model.generate([1, 5, 9], max_new_tokens=4))
    4
    """

    def __init__(
        self, checkpoint: Checkpoint, options: Options, threads: int | None = None
    ) -> None:
        if options.context < 1 or options.pages not in ("float32", "float16", "int8"):
            what = "context is a number of tokens, and pages float32, float16 or int8"
            raise ValueError(explain(what, got=options))
        config, weights = checkpoint.config, checkpoint.weights
        self.config, self.tokens = config, checkpoint.tokens
        module, arrays = build_steps(config, weights, options)
        self.executable = compile(module, threads=threads)
        count = -(-options.context // PAGE) + 1
        forms = options.shapes(config, count) * config.layers
        self.cache = [aligned_zeros(shape, np.dtype(dtype)) for shape, dtype in forms]
        self.pages = Pages(count)
        self.bound = [Tensor(array) for array in (*self.cache, *arrays)]

    # -- steps --------------------------------------------------------------------------------

    def prefill(self, ids: Sequence[int]) -> State:
        """A new sequence of these tokens, with the logits of the next. Pages that hold its prefix are shared.
        Raises LoopwrightError for tokens that are not in the vocabulary, none, or more than there are free pages for."""
        ids = self.checked(ids)
        pages = self.pages.find(ids[:-1])
        state = self.owner(State(pages, ids[: len(pages) * PAGE]))
        for start in range(len(state), len(ids), CHUNK):
            state.logits = self.step([state], [ids[start : start + CHUNK]])[0]
        return state

    def owner(self, state: State) -> State:
        """The sequence, whose pages are dropped when it is not referenced any more."""
        weakref.finalize(state, self.pages.drop, state.pages)
        return state

    def decode(self, states: State | Sequence[State], ids: int | Sequence[int]) -> np.ndarray:
        """Append a token to each sequence; the logits of the next, (vocabulary) or for a list
        (sequences, vocabulary)."""
        if isinstance(states, State):
            states.logits = self.step([states], [self.checked([ids])])[0]
            return states.logits
        tokens = self.checked(ids)
        if len(tokens) != len(states) or len(set(map(id, states))) != len(states):
            what = "decode takes one token for each sequence, and each sequence once"
            raise LoopwrightError(explain(what, got=f"{len(tokens)} for {len(states)} sequences"))
        logits = self.step(list(states), [[token] for token in tokens])
        for state, row in zip(states, logits, strict=True):
            state.logits = row
        return logits

    def fork(self, state: State, length: int | None = None) -> State:
        """A new sequence that begins with the tokens of another, up to a length; full pages are shared."""
        length = len(state) if length is None else length
        if not 0 < length <= len(state):
            raise LoopwrightError(explain(f"the sequence has {len(state)} tokens", got=length))
        pages = state.pages[: -(-length // PAGE)]
        self.pages.share(pages)
        logits = state.logits if length == len(state) else None
        twin = self.owner(State(pages, state.ids[:length], logits))
        self.unshare(twin)
        return twin

    def popn(self, state: State, count: int) -> None:
        """Remove the last tokens of a sequence. Raises LoopwrightError unless one remains."""
        if not 0 <= count < len(state):
            raise LoopwrightError(explain(f"the sequence has {len(state)} tokens", got=count))
        if count:
            del state.ids[len(state) - count :]
            state.logits = None
            self.pages.drop(state.pages, -(-len(state) // PAGE))
            self.unshare(state)

    def unshare(self, state: State) -> None:
        """Make the page that the next token is written to the sequence's own."""
        if len(state) % PAGE and self.pages.is_shared(state.pages[-1]):
            (own,) = self.pages.take(1)
            for part in self.cache:
                part[own] = part[state.pages[-1]]
            self.pages.drop(state.pages, len(state.pages) - 1)
            state.pages.append(own)

    def checked(self, ids: Any) -> list[int]:
        """Tokens of the vocabulary. Raises LoopwrightError for others."""
        values = np.asarray(ids)
        if values.ndim != 1 or not values.size or values.dtype.kind not in "iu":
            what = "a sequence is a list of one token or more"
            raise LoopwrightError(explain(what, got=str(ids)[:80]))
        if values.min() < 0 or values.max() >= self.config.vocabulary:
            what = f"the vocabulary has {self.config.vocabulary} tokens"
            raise LoopwrightError(explain(what, got=str(values.max())))
        return values.tolist()

    def step(
        self, states: Sequence[State], new: Sequence[list[int]], every: bool = False
    ) -> np.ndarray:
        """Append tokens to sequences, at least one to each; the logits of the last row of each sequence, or of
        every row. One native call."""
        logits = self.executable["main"](*self.inputs(states, new, every)).numpy()
        for state, ids in zip(states, new, strict=True):
            if len(state) % PAGE < len(ids):
                self.pages.keep(state)
        return logits

    def inputs(
        self, states: Sequence[State], new: Sequence[list[int]], every: bool = False
    ) -> list[Any]:
        """The arguments of the step that appends tokens to sequences."""
        starts, counts = [*map(len, states)], [*map(len, new)]
        for state, ids in zip(states, new, strict=True):
            self.reserve(state, len(ids))
        for state, ids in zip(states, new, strict=True):
            state.ids += ids
        runs = zip(states, starts, counts, strict=True)
        rows = [(state, at) for state, start, n in runs for at in range(start, start + n)]
        ends = [0, *accumulate(counts)]
        # Lists: behind a step, whose weights fill the caches, a call of numpy takes 10 us.
        ints = (
            [token for tokens in new for token in tokens],
            [at for _, at in rows],
            range(ends[-1]) if every else [end - 1 for end in ends[1:]],
            ends,
            [0, *accumulate(len(state.pages) for state in states)],
            [page for state in states for page in state.pages],
            [*map(len, states)],
            [state.pages[at // PAGE] * PAGE + at % PAGE for state, at in rows],
        )
        return [*(np.array(i, np.int32) for i in ints), *self.bound]

    def reserve(self, state: State, count: int) -> None:
        """Take the pages that a sequence needs for more tokens."""
        need = -(-(len(state) + count) // PAGE) - len(state.pages)
        if need > 0:
            state.pages += self.pages.take(need)

    # -- generation ---------------------------------------------------------------------------

    def run(
        self, prompts: Sequence[Sequence[int]], max_new_tokens: int, sampling: Sampling,
        stops: Collection[int] = (),
    ) -> Iterator[list[tuple[int, int]]]:  # fmt: skip
        """Continue several sequences; each step yields pairs of a sequence's index and its new token."""
        states = [self.prefill(ids) for ids in prompts]
        sampler = Sampler(sampling, self.config.vocabulary, len(states))
        alive, news = list(range(len(states))), [state.ids[:] for state in states]
        for count in range(max_new_tokens):
            logits = np.stack([states[k].logits for k in alive])
            tokens = sampler(logits, alive, [news[k] for k in alive])
            pairs = list(zip(alive, tokens, strict=True))
            yield pairs
            pairs = [(k, token) for k, token in pairs if token not in stops]
            if not pairs or count == max_new_tokens - 1:
                return
            alive = [k for k, _ in pairs]
            news = {k: [token] for k, token in pairs}
            self.decode([states[k] for k in alive], [token for _, token in pairs])

    def generate(
        self, prompt: str | Sequence[int] | Sequence[Mapping[str, str]], max_new_tokens: int = 128,
        stream: bool = False, stop: str | Iterable[str] = (), lookup: int = 0, **sampling: Any,
    ) -> Any:  # fmt: skip
        """Continue a text, a conversation (see `Tokens.chat`), or a list of tokens.

        The result is a text, for tokens a list of tokens; with stream=True an iterator of its parts.
        stop: texts (for tokens: tokens) before which it ends, besides the model's own last tokens.
        lookup: how many tokens are guessed where the sequence repeats itself, and checked in one step (greedy only).
        sampling: the fields of `Sampling`; greedy by default. Raises LoopwrightError for a text where the model
        has no tokenizer.
        """
        stops = {stop} if isinstance(stop, str) else set(stop)
        ends = frozenset(s for s in stops if not isinstance(s, str))
        if self.tokens is not None:
            ends |= self.tokens.last
        texts = isinstance(prompt, str) or any(isinstance(part, Mapping) for part in prompt)
        ids: Any = self.encoded(prompt) if texts else prompt
        new: Iterator[Any] = self.continued(ids, max_new_tokens, lookup, ends, Sampling(**sampling))
        if self.tokens is not None and texts:
            new = _until(self.tokens.stream(new), [s for s in stops if isinstance(s, str)])
        return new if stream else "".join(new) if texts else list(new)

    def encoded(self, prompt: Any) -> list[int]:
        """The tokens of a text or a conversation. Raises LoopwrightError where the model has no tokenizer."""
        if self.tokens is None:
            what = "the model has no tokenizer, or the package tokenizers is not installed"
            hint = "pip install 'loopwright[llm]', or pass a list of tokens"
            raise LoopwrightError(explain(what, instead=hint))
        return self.tokens.encode(prompt) if isinstance(prompt, str) else self.tokens.chat(prompt)

    def continued(
        self, ids: Sequence[int], count: int, lookup: int, ends: frozenset[int], options: Sampling
    ) -> Iterator[int]:
        """The tokens after those of one sequence, without the one that ends it."""
        if lookup and options.is_plain:
            yield from self.guessed(ids, count, lookup, ends)
            return
        for ((_, token),) in self.run([ids], count, options, ends):
            if token not in ends:
                yield token

    def guessed(
        self, ids: Sequence[int], count: int, most: int, ends: frozenset[int]
    ) -> Iterator[int]:
        """The tokens of `continued` by greedy choice, some of them guessed."""
        state, guesses = self.prefill(ids), Guesses()
        token = int(state.logits.argmax())
        while count > 0 and token not in ends:
            guess = guesses.after([*state.ids, token], min(most, count - 1))
            best = self.step([state], [[token, *guess]], every=True).argmax(1).tolist()
            right = next((k for k, g in enumerate(guess) if g != best[k]), len(guess))
            self.popn(state, len(guess) - right)
            for own in (token, *guess[:right]):
                if own in ends:
                    return
                yield own
            count, token = count - 1 - right, best[right]


def _until(texts: Iterable[str], stops: list[str]) -> Iterator[str]:
    """Parts of a text before the first of the stops in it."""
    rest, most = "", max(map(len, stops), default=0)
    for text in texts:
        rest += text
        ends = [at for at in (rest.find(stop) for stop in stops) if at >= 0]
        if ends:
            yield rest[: min(ends)]
            return
        ready = max(len(rest) - most + 1, 0) if most else len(rest)
        if ready:
            yield rest[:ready]
            rest = rest[ready:]
    if rest:
        yield rest


class Checkpoint(NamedTuple):
    """The contents of a model's files.

    >>> checkpoint = llm.read("tiny-llama")
    >>> checkpoint.config.layers, checkpoint.tokens
    (2, None)
    """

    config: Config
    weights: Weights
    tokens: Tokens | None


def _config(read: Callable[[], Config]) -> Config:
    """A configuration. Raises LoopwrightError for one with values of other types."""
    try:
        return read()
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as err:
        what = "the configuration of the model is invalid"
        raise LoopwrightError(explain(what, got=f"{type(err).__name__}: {err}"[:200])) from err


def read(path: Path | str) -> Checkpoint:
    """Read a GGUF file, or a folder of Hugging Face's with config.json and safetensors.

    Raises LoopwrightError for a file that is broken or of a model that is not supported, and OSError.

    >>> llm.read("tiny-llama").config.layers
    2
    """
    path = Path(path)
    if path.is_dir():
        options = read_json(path / "config.json")
        config, tokens = _config(lambda: from_json(options)), from_folder(path)
        tensors = read_folder(path, config.family.post_norms)
        if isinstance(method := options.get("quantization_config"), dict):
            tensors = read_integers(tensors, method)
        weights = assemble(config, tensors, False, config.family.offset)
    else:
        fields, tensors = read_gguf(path)
        config, tokens = _config(lambda: from_gguf(fields, tensors)), from_fields(fields)
        weights = assemble(config, tensors, config.family.interleaved, 0.0)
    return Checkpoint(config, weights, tokens)


def load(
    path: Path | str, context: int | None = None, threads: int | None = None, **options: Any
) -> Model:
    """A compiled model of the files that `read` reads.

    context: the most tokens of all sequences together, by default 4096 or the model's own. threads: see `compile`.
    options: exact, pages; see `Options`. Raises as `read`, and ValueError for invalid options.

    >>> llm.load("tiny-llama", context=64, pages="bytes")
    Traceback (most recent call last):
    ValueError: ...
    """
    checkpoint = read(path)
    context = min(checkpoint.config.context, 4096) if context is None else context
    return Model(checkpoint, Options(context, **options), threads)
