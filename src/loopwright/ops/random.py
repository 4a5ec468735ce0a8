"""Random numbers from keys: the counter-based generator Threefry.

The state of a generator is 10 words of 64 bits: a key (4), a path (2) that distinguishes generators split
from one another, a counter (2), and the position (2) of the path's next bit. Reference: Salmon et al.,
"Parallel Random Numbers: As Easy as 1, 2, 3", 2011; the split of keys: Claessen and Palka, "Splittable
Pseudorandom Number Generators using Cryptographic Hashing", 2013.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tir
from ..base.errors import explain
from ..ir.prim_expr import IntImm, PrimExpr
from ..ir.prim_op import cast, const
from .core import case, op
from .extents import extents_of
from .overlap import rows
from .params import Shape, Tensor
from .statements import long, written

if TYPE_CHECKING:
    from ..tir.expr import BufferLoad
    from ..tir.ir_builder import BufferVar, IRBuilder

_WORDS, _ROUNDS, _STATE = 4, 20, 10
_ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
_PARITY = 0x1BD11BDAA9FC1A22
_ALL = 2**64 - 1


def threefry(
    key: list[Any],
    counter: list[Any],
    word: Callable[[int], Any],
    keep: Callable[[Any], Any] = lambda value: value,
) -> list[Any]:
    """The 4 random words of a key for a counter, as TVM computes them: without the last addition of
    the key that the reference has. They are expressions, or numpy's uint64. word(n) is the
    number n of that kind; keep(value) binds a value that is used several times to a name."""
    last = word(_PARITY)
    for part in key:
        last = last ^ part
    full = [*key, keep(last)]
    state = list(counter)
    for group in range(_ROUNDS // 4):
        state = [state[n] + full[(group + n) % (_WORDS + 1)] for n in range(_WORDS)]
        state[-1] = state[-1] + word(group)
        state = [keep(value) for value in state]
        for step in range(4):
            for pair, turn in enumerate(_ROTATIONS[(group * 4 + step) % 8]):
                a, b = state[2 * pair], state[2 * pair + 1]
                total = keep(a + b)
                rotated = (b << word(turn)) | (b >> word(64 - turn))
                state[2 * pair], state[2 * pair + 1] = total, keep(total ^ rotated)
            state = [state[n] for n in (0, 3, 2, 1)]
    return state


def _word(value: int) -> Any:
    return const(value, "uint64")


def _random(ib: IRBuilder, key: list[Any], counter: list[Any]) -> list[Any]:
    """`threefry` as statements."""
    return threefry(key, counter, _word, lambda value: ib.let("word", value))


def _half(
    high: BufferLoad, low: BufferLoad, choose: Callable[..., Any], word: Callable[[int], Any]
) -> list[Any]:
    """The position of the next bit of a path: the one after that of the words (high, low)."""
    moved = choose(high.equal(word(1)), word(1 << 63), word(0))  # from one word into the next
    return [high >> word(1), choose(high.equal(word(0)), low >> word(1), moved)]


def _put(out: BufferVar, values: list[Any], first: int = 0) -> None:
    for n, value in enumerate(values):
        out[first + n] = value


def _words(buffer: BufferVar, first: int, count: int) -> list[Any]:
    return [buffer[first + n] for n in range(count)]


def _length(shape: Sequence[PrimExpr]) -> int:
    total = 1
    for dim in shape:
        if not isinstance(dim, (int, IntImm)):
            what = "the shape of random numbers is known before the program runs"
            raise ValueError(explain(what, got=str(dim)))
        total *= int(dim)
    return total


@op("relax.random.threefry_generate", alone=True)
def threefry_generate(key: Tensor, shape: Shape):
    """The key for the next numbers, and random words (uint64) of a shape."""
    extents_of(key, "the key", _STATE)
    count = _length(shape)
    groups, left = divmod(count, _WORDS)

    def ready(ib, gen, state):
        """The state to count from: with a longer path, or a new key, where the counter is full."""
        with ib.if_scope(gen[7] < _word(_ALL) - _word(count)):
            _put(state, _words(gen, 0, 10))
        with ib.else_scope():
            with ib.if_scope(tir.all(gen[8].equal(_word(0)), gen[9].equal(_word(0)))):
                ones = _word(_ALL)
                counter = [ones, ones, *_words(gen, 6, 2)]
                _put(state, _random(ib, _words(gen, 0, 4), counter))
                # No path and no count yet; the next bit of the path is the first, the highest.
                _put(state, [_word(n) for n in (0, 0, 0, 0, 1 << 63, 0)], 4)
            with ib.else_scope():
                _put(state, _words(gen, 0, 4))
                path = [gen[4] | gen[8], gen[5] | gen[9], _word(0), _word(0)]
                _put(state, [*path, *_half(gen[8], gen[9], tir.if_then_else, _word)], 4)

    def write(ib, gen, new, out):
        state = ib.allocate("uint64", 10, "state")
        ready(ib, gen, state)
        if groups:
            with rows(ib, long(groups), "i") as i:
                counter = [v + cast("uint64", i) for v in _words(state, 4, 4)]
                _put_at(out, shape, _random(ib, _words(state, 0, 4), counter), i * _WORDS)
        if left:
            state[7] = state[7] + _word(groups * _WORDS)
            last = _random(ib, _words(state, 0, 4), _words(state, 4, 4))
            _put_at(out, shape, last[:left], long(groups * _WORDS))
        _put(new, _words(state, 0, 6))
        step = _WORDS if left else count
        _put(new, [_word(0), state[7] + _word(step), *_words(state, 8, 2)], 6)

    kinds = ["uint64", "uint64"]
    return list(written([(long(10),), tuple(shape)], [key], write, kinds, "threefry_generate"))


def _put_at(out: BufferVar, shape: list[Any], values: list[Any], first: PrimExpr) -> None:
    """Write words one after another from an index of the flat result."""
    for n, value in enumerate(values):
        at, rest = [], first + n
        for dim in reversed(list(shape)):
            at.append(rest % int(dim))
            rest = rest // int(dim)
        out[tuple(reversed(at))] = value


def _np_word(value: int) -> Any:
    return np.uint64(value)


@threefry_generate.numpy
def _(key, shape):
    count = int(np.prod(shape, dtype=np.int64))
    state = key.copy()
    if key[7] >= np.uint64(_ALL - count):
        if not key[8:].any():
            counter = [np.uint64(_ALL)] * 2 + list(key[6:8])
            state[:4] = threefry(list(key[:4]), counter, _np_word)
            state[4:] = np.array([0, 0, 0, 0, 1 << 63, 0], np.uint64)
        else:
            state[4:6] |= key[8:]
            state[6:8] = 0
            state[8:] = _np_half(key[8:])
    groups, left = divmod(count, _WORDS)
    more = np.arange(groups, dtype=np.uint64)
    parts = threefry(list(state[:4]), [v + more for v in state[4:8]], _np_word)
    values = np.stack(parts, -1).reshape(-1) if groups else np.zeros(0, np.uint64)
    if left:
        state[7] += np.uint64(groups * _WORDS)
        last = threefry(list(state[:4]), list(state[4:8]), _np_word)
        values = np.append(values, np.array(last[:left], np.uint64))
    state[6] = 0
    state[7] += np.uint64(_WORDS if left else count)
    return state, values.reshape(shape)


def _np_half(halves: np.ndarray) -> list[Any]:
    high, low = halves
    moved = np.uint64(1 << 63 if high == 1 else 0)
    return [high >> np.uint64(1), low >> np.uint64(1) if high == 0 else moved]


@op("relax.random.threefry_split", alone=True)
def threefry_split(key: Tensor):
    """Two keys whose numbers have nothing to do with each other."""
    extents_of(key, "the key", _STATE)

    def write(ib, gen, left, right):
        with ib.if_scope(tir.all(gen[8].equal(_word(0)), gen[9].equal(_word(0)))):
            words = _random(ib, _words(gen, 0, 4), _words(gen, 4, 4))
            for out, path in ((left, 0), (right, 1 << 63)):
                _put(out, words)
                _put(out, [_word(n) for n in (path, 0, 0, 0, 1 << 62, 0)], 4)
        with ib.else_scope():
            for out in (left, right):
                _put(out, _words(gen, 0, 8))
                _put(out, _half(gen[8], gen[9], tir.if_then_else, _word), 8)
            _put(right, [gen[4] | gen[8], gen[5] | gen[9]], 4)

    shapes = [(long(10),), (long(10),)]
    return list(written(shapes, [key], write, ["uint64", "uint64"], "threefry_split"))


@threefry_split.numpy
def _(key):
    left, right = key.copy(), key.copy()
    if not key[8:].any():
        words = threefry(list(key[:4]), list(key[4:8]), _np_word)
        for out, path in ((left, 0), (right, 1 << 63)):
            out[:4], out[4:] = words, np.array([path, 0, 0, 0, 1 << 62, 0], np.uint64)
        return left, right
    left[8:] = right[8:] = _np_half(key[8:])
    right[4:6] |= key[8:]
    return left, right


def first_key(seed: int) -> np.ndarray:
    """The state of a generator for a seed."""
    words = np.frombuffer(seed.to_bytes(32, "little"), np.uint64)
    return np.concatenate([words, np.array([0, 0, 0, 0, 1 << 63, 0], np.uint64)])


def _at(**words: int) -> np.ndarray:
    """A state with some words replaced."""
    key = first_key(7)
    for name, value in words.items():
        key[int(name[1:])] = value
    return key


threefry_generate.samples(
    case(first_key(0), [3, 5]),
    case(first_key(2**70 + 3), [8]),
    case(first_key(1), [3]),
    case(_at(w7=_ALL - 2), [2, 3]),
    case(_at(w7=_ALL - 2, w8=0), [2, 3]),
    case(_at(w7=_ALL - 2, w8=1), [4]),
)
threefry_split.samples(
    case(first_key(0)), case(_at(w8=0)), case(_at(w8=1)), case(_at(w8=0, w9=4, w4=9))
)
