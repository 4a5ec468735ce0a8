"""A paged cache against lists of arrays: random steps, windows, trees, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.frontend.nn.llm import kv_cache as llm
from loopwright.ir import IRModule
from loopwright.runtime import ShapeTuple, get_global_func, tensor

HEADS, GROUPS, DIM, LAYERS, PAGE, ROOM = 4, 2, 8, 2, 4, 160
CACHE, STATE = "vm.builtin.attention_kv_cache_", "vm.builtin.kv_state_"


def built(func):
    return lw.compile(IRModule({"main": func}), "llvm").entry_func


@pytest.fixture(scope="module")
def kernels():
    """Of `paged_attention_kv_cache_create`, in its order."""
    form, scaling, dtype = (GROUPS, HEADS, DIM, "float32"), {}, "float32"
    paged = [
        of(*form, sliding, scaling, page_size=PAGE)
        for sliding in (False, True)
        for of in (llm._attention_prefill_cpu, llm._attention_decode_cpu)
    ]
    one = [
        llm._kv_cache_transpose_append(GROUPS, DIM, dtype, PAGE),
        llm.llama_rope_with_position_map(100, 1.0, DIM, HEADS, GROUPS, dtype, scaling),
        llm._copy_single_page_cpu(GROUPS, PAGE, DIM, dtype),
        llm._kv_cache_debug_get_kv(LAYERS, GROUPS, DIM, dtype),
        llm._compact_kv_copy_cpu(GROUPS, DIM, dtype, PAGE),
    ]
    append, split, copy, get, compact = map(built, one)
    ragged = built(llm._attention_prefill_ragged_cpu(GROUPS, HEADS, DIM, DIM, dtype, scaling))
    trees = built(llm.tree_attn_with_paged_kv_cache_cpu(*form, scaling, page_size=PAGE))
    ragged_trees = built(llm.tree_attn_cpu(*form, scaling))
    merge = built(llm._merge_state_inplace_cpu(dtype))
    attention = [["tirx", f] for f in (ragged, *map(built, paged), trees, ragged_trees)]
    return [append, None, *attention, [], [merge], split, copy, get, compact]


def made(kernels, mode=llm.RopeMode.NONE, slides=0, kinds=(0, 0), window=3):
    create = get_global_func("vm.builtin.paged_attention_kv_cache_create")
    room = ShapeTuple([6, ROOM, ROOM, PAGE, slides, window])
    sizes = (HEADS, GROUPS, DIM, DIM, ShapeTuple(kinds), 0, int(mode), 1.0, 100.0, None)
    like = tensor(np.zeros((), np.float32))
    return create(room, ShapeTuple([0, LAYERS]), *sizes, like, *kernels)


def state(cache, name, *args):
    return get_global_func(STATE + name)(cache, *args)


def of_cache(cache, name, *args):
    return get_global_func(CACHE + name)(cache, *args)


def turned(x, positions):
    half = DIM // 2
    angle = np.asarray(positions)[:, None] * 100.0 ** (-np.arange(half) * 2 / DIM)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def attention(q, k, v, seen):
    k, v = (np.repeat(x, HEADS // GROUPS, axis=1) for x in (k, v))
    scores = np.where(seen, np.einsum("ihc,jhc->hij", q, k) * DIM**-0.5, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hij,jhc->ihc", weights / weights.sum(-1, keepdims=True), v)


def causal(asked, count):
    return np.arange(count) <= np.arange(count - asked, count)[:, None]


class Model:
    """The same cache as arrays: of each sequence its tokens' (layer, token, key or value, group, channel)."""

    def __init__(self, rng, cache, inline=False):
        self.rng, self.cache, self.inline = rng, cache, inline
        self.tokens: dict[int, np.ndarray] = {}
        self.windows: dict[int, tuple[int, int]] = {}

    def add(self, number):
        state(self.cache, "add_sequence", number)
        self.tokens[number] = np.zeros((LAYERS, 0, 2, GROUPS, DIM), np.float32)

    def forward(self, batch, seen=None, parents=None):
        """Tokens of sequences: compare the results of all layers."""
        lengths = list(batch.values())
        args = (ShapeTuple(list(batch)), ShapeTuple(lengths))
        state(self.cache, "begin_forward", *args, *([ShapeTuple(parents)] if parents else []))
        shape = (LAYERS, sum(lengths), HEADS + 2 * GROUPS, DIM)
        given = self.rng.normal(size=shape).astype(np.float32)
        for layer in range(LAYERS):
            out = tensor(np.zeros((sum(lengths), HEADS, DIM), np.float32))
            of_cache(
                self.cache, "attention_with_fused_qkv", layer, DIM**-0.5, tensor(given[layer]), out
            )
            at = 0
            for number, asked in batch.items():
                q, k, v = np.split(given[layer, at : at + asked], [HEADS, HEADS + GROUPS], axis=1)
                old = self.tokens[number][layer]
                k, v = (np.concatenate([old[:, n], x]) for n, x in enumerate((k, v)))
                if self.inline:
                    k, q = turned(k, range(len(k))), turned(q, range(len(old), len(k)))
                mask = causal(asked, len(k)) if seen is None else seen(number, asked, len(k))
                if asked:
                    wanted = attention(q, k, v, mask)
                    np.testing.assert_allclose(out.numpy()[at : at + asked], wanted, atol=2e-5)
                at += asked
        state(self.cache, "end_forward")
        at = 0
        for number, asked in batch.items():
            new = given[:, at : at + asked, HEADS:].reshape(LAYERS, asked, 2, GROUPS, DIM)
            tokens = np.concatenate([self.tokens[number], new], axis=1)
            window, sink = self.windows.get(number, (0, 0))
            if window and tokens.shape[1] > window:
                tokens = np.concatenate([tokens[:, :sink], tokens[:, sink - window :]], axis=1)
            self.tokens[number] = tokens
            at += asked

    def check(self, number):
        """What the cache has of a sequence."""
        tokens = self.tokens[number]
        count = tokens.shape[1]
        if count:
            out = [tensor(np.zeros((LAYERS, count, GROUPS, DIM), np.float32)) for _ in range(2)]
            of_cache(self.cache, "debug_get_kv", number, 0, count, *out)
            np.testing.assert_array_equal(out[0].numpy(), tokens[:, :, 0])
            np.testing.assert_array_equal(out[1].numpy(), tokens[:, :, 1])

    def check_pages(self):
        """Every page is free, or in as many sequences as its count says."""
        pool = self.cache.pool
        used = np.bincount(
            [p for s in self.cache.sequences.values() for p in s.pages], minlength=self.cache.count
        )
        assert used.tolist() == pool.counts
        assert sorted(pool.free) == np.flatnonzero(used == 0).tolist()


def walk(rng, kernels, steps, slides=False):
    """Random steps on a cache and its model."""
    mode = llm.RopeMode.INLINE if slides else llm.RopeMode.NONE
    model = Model(rng, made(kernels, mode, int(slides)), slides)
    for _ in range(steps):
        numbers = sorted(model.tokens)
        step = rng.choice(["add", "fork", "popn", "remove", "forward", "forward", "forward"])
        full = len(numbers) == 6
        number = int(rng.choice(numbers)) if numbers else None
        free = min(set(range(9)) - set(numbers))
        if step == "add" and not full:
            model.add(free)
            if slides:
                window = int(rng.integers(3, 12))
                model.windows[free] = window, int(rng.integers(0, window))
                args = (free, *model.windows[free])
                of_cache(model.cache, "enable_sliding_window_for_seq", *args)
        elif number is None:
            continue
        elif step == "fork" and not full:
            position = int(rng.integers(-1, model.tokens[number].shape[1] + 1))
            state(model.cache, "fork_sequence", number, free, position)
            whole = model.tokens[number]
            model.tokens[free] = whole if position < 0 else whole[:, :position]
            model.windows.pop(free, None)
        elif step == "popn":
            count = int(rng.integers(0, model.tokens[number].shape[1] + 1))
            state(model.cache, "popn", number, count)
            model.tokens[number] = model.tokens[number][:, : model.tokens[number].shape[1] - count]
        elif step == "remove":
            state(model.cache, "remove_sequence", number)
            del model.tokens[number]
            model.windows.pop(number, None)
        elif step == "forward":
            chosen = rng.permutation(numbers)[: rng.integers(1, 4)]
            single = rng.random() < 0.5
            batch = {int(n): 1 if single else int(rng.integers(0, 7)) for n in chosen}
            if sum(t.shape[1] + 7 for t in model.tokens.values()) <= ROOM:
                model.forward(batch)
        if number in model.tokens:
            model.check(number)
        model.check_pages()
    for number in sorted(model.tokens):
        model.check(number)
        state(model.cache, "remove_sequence", number)
    assert of_cache(model.cache, "empty")


@pytest.mark.parametrize("slides", [False, True])
def test_random_steps(rng, kernels, slides):
    walk(rng, kernels, 150, slides)


def test_a_fork_shares_pages_until_one_is_written(rng, kernels):
    model = Model(rng, made(kernels))
    model.add(0)
    model.forward({0: 10})
    before = of_cache(model.cache, "get_num_available_pages")
    state(model.cache, "fork_sequence", 0, 1, -1)
    assert of_cache(model.cache, "get_num_available_pages") == before
    model.tokens[1] = model.tokens[0]
    model.forward({1: 1, 0: 1})
    assert of_cache(model.cache, "get_num_available_pages") == before - 1
    assert of_cache(model.cache, "get_total_sequence_length") == 22
    model.check(0)
    model.check(1)


def test_a_full_cache_takes_nothing(rng, kernels):
    """A call that does not fit changes nothing."""
    model = Model(rng, made(kernels))
    model.add(0)
    model.add(1)
    model.forward({0: 5})
    with pytest.raises(ValueError, match="all pages of the cache are taken"):
        state(model.cache, "begin_forward", ShapeTuple([0, 1]), ShapeTuple([8, ROOM * 2]))
    model.check(0)
    model.check_pages()
    model.forward({0: 3, 1: 2})


def test_layers_that_slide(rng, kernels):
    made_with = llm._attention_prefill_cpu(
        GROUPS, HEADS, DIM, "float32", True, {}, page_size=PAGE, sliding_window_size=3
    )
    changed = list(kernels)
    changed[5] = ["tirx", built(made_with)]
    model = Model(rng, made(changed, kinds=(3, 3)))
    model.add(0)
    near = lambda asked, count: np.arange(count) > np.arange(count - asked, count)[:, None] - 3  # noqa: E731
    for asked in (9, 1, 4):
        model.forward({0: asked}, lambda _, n, count: causal(n, count) & near(n, count))


PARENTS = {0: [-1, 0, 0, 1, 1, 2, 2], 3: [-1, 0, -1, 2, 2]}


def ancestors(number, asked, count):
    tree, seen = PARENTS[number], np.zeros((asked, count), bool)
    seen[:, : count - asked] = True
    for node in range(asked):
        at = node
        while at >= 0:
            seen[node, count - asked + at] = True
            at = tree[at]
    return seen


def test_trees_of_tokens(rng, kernels):
    model = Model(rng, made(kernels))
    for number in (0, 3):
        model.add(number)
    model.forward({0: 6, 3: 37})
    batch = {number: len(tree) for number, tree in PARENTS.items()}
    parents = [p for tree in PARENTS.values() for p in tree]
    model.forward(batch, ancestors, parents)
    np.testing.assert_array_equal(
        of_cache(model.cache, "get_query_positions").numpy(),
        [6, 7, 7, 8, 8, 8, 8, 37, 38, 37, 38, 38],
    )
    with pytest.raises(ValueError, match="not committed"):
        state(model.cache, "begin_forward", ShapeTuple([0]), ShapeTuple([1]))
    commit = "commit_accepted_token_tree_nodes"
    with pytest.raises(ValueError, match="has 7 nodes"):
        of_cache(model.cache, commit, ShapeTuple([0]), ShapeTuple([7]))
    of_cache(model.cache, commit, ShapeTuple([0, 3]), ShapeTuple([5, -1]))
    tokens = model.tokens
    tokens[0] = tokens[0][:, [*range(6), 6, 8, 11]]
    tokens[3] = tokens[3][:, :37]
    model.check(0)
    model.check(3)
    model.forward({0: 1, 3: 1})


def test_results_of_two_parts_are_merged(rng, kernels):
    """Attention to pages without a mask and to the rows themselves, as trees and as ragged rows."""
    ragged, merge, trees = kernels[2][-1], kernels[10][0], kernels[8][-1]
    asked, table = [3, 2], lambda *x: tensor(np.int32(x))
    q, k, v = (rng.normal(size=(5, h, DIM)).astype(np.float32) for h in (HEADS, GROUPS, GROUPS))
    more = [rng.normal(size=(7, GROUPS, DIM)).astype(np.float32) for _ in "kv"]
    numbers = (0, 1.0, 100.0, DIM**-0.5)

    def called(kernel, keys, values, starts, *others):
        out, log = tensor(np.zeros_like(q)), tensor(np.zeros((5, HEADS), np.float32))
        of = map(tensor, (keys, values))
        kernel(
            tensor(q),
            table(0, 3, 5),
            *of,
            table(*starts),
            table(*range(5)),
            *others,
            out,
            log,
            *numbers,
        )
        return out, log

    with_numbers = lambda *args: ragged(*args[:-4], 1, *args[-4:])  # noqa: E731
    everything = lambda *args: ragged(*args[:-4], 0, *args[-4:])  # noqa: E731
    own, own_log = called(with_numbers, k, v, (0, 3, 5), table(0, 0))
    other, other_log = called(everything, *more, (0, 5, 7), table(0, 0))
    merge(own, own_log, other, other_log)
    for n, (rows, past) in enumerate(((slice(0, 3), slice(0, 5)), (slice(3, 5), slice(5, 7)))):
        seen = np.concatenate(
            [np.ones((asked[n], past.stop - past.start), bool), causal(asked[n], asked[n])], 1
        )
        keys, values = (
            np.concatenate([m[past], x[rows]]) for m, x in zip(more, (k, v), strict=True)
        )
        np.testing.assert_allclose(
            own.numpy()[rows], attention(q[rows], keys, values, seen), atol=2e-5
        )
    mask = tensor(np.int32([[0, 3], [1, 2], [2, 3], [0, 1], [1, 2]]))
    got, _ = called(trees, k, v, (0, 3, 5), table(0, 3, 5), mask)
    seen = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1]], bool)
    np.testing.assert_allclose(got.numpy()[:3], attention(q[:3], k[:3], v[:3], seen), atol=2e-5)
    roots = np.eye(2, dtype=bool)
    np.testing.assert_allclose(got.numpy()[3:], attention(q[3:], k[3:], v[3:], roots), atol=2e-5)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda c: state(c, "fork_sequence", 0, 1, 9), "has 0 tokens"),
        (lambda c: state(c, "popn", 0, 1), "1 to take off"),
        (lambda c: state(c, "begin_forward", ShapeTuple([0, 0]), ShapeTuple([1, 1])), "distinct"),
        (lambda c: of_cache(c, "enable_sliding_window_for_seq", 0, 4, 1), "do not slide"),
    ],
)
def test_what_the_cache_refuses(kernels, call, text):
    cache = made(kernels)
    state(cache, "add_sequence", 0)
    with pytest.raises(ValueError, match=text):
        call(cache)
