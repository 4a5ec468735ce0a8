"""Iteration maps: what is recognised, what is refused, and that the forms mean the same."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.arith import (
    Analyzer,
    detect_iter_map,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
    subspace_divide,
)
from loopwright.ir.prim_expr import LT, And, Range, Var
from loopwright.ir.variables import substitute
from tests.arith.test_int_set import text
from tests.arith.test_simplify import evaluate

i, j, k, n = Var("i"), Var("j"), Var("k"), Var("n")


def ranges(**extents):
    return {v: Range(0, extents[v.name]) for v in (i, j, k, n) if v.name in extents}


def test_fuse_and_split():
    fused = i * 8 + j
    (found,) = detect_iter_map([fused], ranges(i=4, j=8))
    assert text(normalize_iter_map_to_expr(found)) == "((i * 8) + j)"
    pair = detect_iter_map([fused // 4, fused % 4], ranges(i=4, j=8), check_level="bijective")
    assert len(pair) == 2, pair.errors
    assert len(detect_iter_map([i // 2, i % 2, j], ranges(i=4, j=8))) == 3


@pytest.mark.parametrize(
    ("indices", "level"),
    [
        ([i, i], "surjective"),
        ([i // 2, i], "surjective"),
        ([i * 9 + j], "surjective"),
        ([i * j], "surjective"),
        ([i // 3, i % 3], "surjective"),
        ([j + j // 4 * 3 + j % 6], "surjective"),
        ([i // 2, j], "bijective"),
        ([i], "bijective"),
    ],
)
def test_refused(indices, level):
    found = detect_iter_map(indices, ranges(i=4, j=8), check_level=level)
    assert not found.indices and found.errors


def test_symbolic_extents():
    dom = {i: Range(0, n), j: Range(0, 8)}
    assert len(detect_iter_map([i * 8 + j], dom)) == 1
    assert len(detect_iter_map([(i * 8 + j) // 8, (i * 8 + j) % 8], dom)) == 2


def test_predicate_bounds_a_fusion():
    fused = i * 8 + j
    found = detect_iter_map([fused], ranges(i=4, j=8), LT(fused, Range(0, 29).extent))
    assert len(found) == 1, found.errors
    assert not detect_iter_map([i], ranges(i=4, j=8), And(i < j, i < 3)).indices
    assert len(detect_iter_map([n, i], ranges(i=4), n < 3)) == 2  # of no iterator


def test_simplify_by_the_map():
    dom = ranges(i=4, j=8, k=2)
    made = iter_map_simplify([((i * 8 + j) * 2 + k) // 4 % 4], dom)
    ana = Analyzer()
    for v, d in dom.items():
        ana.bind(v, d)
    assert ana.can_prove_equal(made[0], (j * 2 + k) // 4)


def test_subspace():
    made = subspace_divide([i * 8 + j, k], ranges(i=4, j=8, k=2), [j])
    (outer, inner), (other, none), _ = made
    assert [text(normalize_iter_map_to_expr(m)) for m in (outer, inner, other)] == ["i", "j", "k"]
    assert inner.extent.value == 8 and none.extent.value == 1
    assert subspace_divide([j * 4 + i], ranges(i=4, j=8), [j]) == []


def test_no_sum():
    with pytest.raises(ValueError, match="not a sum of splits"):
        normalize_to_iter_sum(i * j, ranges(i=4, j=8))
    assert len(normalize_to_iter_sum(i * 3 + j, ranges(i=4, j=8)).args) == 2


factors = st.lists(st.sampled_from([2, 3, 4]), min_size=1, max_size=3)


@settings(max_examples=150, deadline=None)
@given(factors, factors, st.randoms(use_true_random=False))
def test_random_reshapes_are_bijective(a, b, random):
    """Loops a fused row-major, then taken apart by b: found bijective, and inverted."""
    total = 1
    for e in a:
        total *= e
    loops = [Var(f"v{x}") for x in range(len(a))]
    dom = {v: Range(0, e) for v, e in zip(loops, a, strict=True)}
    fused = loops[0]
    for v, e in zip(loops[1:], a[1:], strict=True):
        fused = fused * e + v
    indices, rest = [], fused
    size = total
    for e in b:
        if size % e:
            break
        indices.append(rest % e)
        rest, size = rest // e, size // e
    indices.append(rest)
    random.shuffle(indices)
    found = detect_iter_map(indices, dom, check_level="bijective")
    assert found.indices, found.errors
    outputs = [Var(f"o{x}") for x in range(len(indices))]
    back = inverse_affine_iter_map(found.indices, outputs)
    seen = set()
    for point in itertools.product(*map(range, a)):
        env = dict(zip([v.name for v in loops], point, strict=True))
        values = tuple(evaluate(x, env) for x in indices)
        seen.add(values)
        assert values == tuple(evaluate(normalize_iter_map_to_expr(s), env) for s in found)
        known = {o.name: value for o, value in zip(outputs, values, strict=True)}
        for v, e in zip(loops, a, strict=True):
            if e > 1:
                assert evaluate(back[v], known) == env[v.name]
    assert len(seen) == total


small = st.integers(1, 6)


@settings(max_examples=400, deadline=None)
@given(st.tuples(small, small), small, st.integers(0, 9), st.tuples(small, small), st.data())
def test_what_is_found_surjective_has_all_values(extents, stride, offset, divisors, data):
    """Sums that overlap, quotients with incomplete ends, predicates on both sides: where a map is
    found, its indices together have each combination of the values that they say."""
    whole = i * stride + j
    c, d = divisors
    shifted = whole + offset
    choices = [whole, shifted // c, shifted % c, shifted // c % d, shifted // (c * d), i, j]
    indices = data.draw(st.lists(st.sampled_from(choices), min_size=1, max_size=2))
    low, high = data.draw(st.integers(0, 8)), data.draw(st.integers(1, 30))
    predicate = data.draw(st.sampled_from([True, whole < high, And(low <= whole, whole < high)]))
    dom = ranges(i=extents[0], j=extents[1])
    points = [dict(zip("ij", p, strict=True)) for p in itertools.product(*map(range, extents))]
    points = [p for p in points if predicate is True or evaluate(predicate, p)]
    found = detect_iter_map(indices, dom, predicate)
    if not found.indices or not points:
        return
    claimed = []
    for one in found:
        base, scale, extent = one.base, 1, 1
        for arg in one.args:
            scale, extent = arg.scale.value, arg.extent.value
        claimed.append({base.value + scale * n for n in range(extent)})
        assert len(one.args) <= 1
    seen = {tuple(evaluate(index, p) for index in indices) for p in points}
    assert seen == set(itertools.product(*claimed))
    for one, index in zip(found, indices, strict=True):
        plain = normalize_iter_map_to_expr(one)
        assert all(evaluate(plain, p) == evaluate(index, p) for p in points)


@pytest.mark.parametrize(
    ("index", "predicate", "want"),
    [
        (i * 7 + j, True, (0, 29, 1)),  # overlapping
        (i * 8 + j, i * 8 + j >= 6, (6, 26, 1)),
        (i * 8 + j, And(And(i >= 1, i < 3), i * 8 + j < 20), (8, 12, 1)),
        ((i * 8 + j + 5) // 12, True, (0, 4, 1)),  # incomplete at both ends
        ((i * 8 + j + 5) % 12, True, (0, 12, 1)),
        (i * 16 + j * 2, True, (0, 32, 2)),
        (n * 19 + i * 8 + j, True, ("n * 19", 32, 1)),
        ((j % 4 + 2) // 3, True, (0, 2, 1)),  # incomplete ends of a remainder
    ],
)
def test_an_index_is_one_split(index, predicate, want):
    found = detect_iter_map([index], ranges(i=4, j=8), predicate)
    assert len(found) == 1, found.errors
    (split,) = found[0].args
    got = (found[0].base, split.extent, split.scale)
    assert tuple(map(str, got)) == tuple(map(str, want))


@pytest.mark.parametrize("index", [i + n % 4, i + n, n * 3 - 1 + i * 2, i + (n + k) // 2, n % 4])
def test_what_no_loop_moves_is_the_base(index):
    (made,) = detect_iter_map([index], {i: Range(0, 8)})
    ana = Analyzer()
    assert ana.can_prove_equal(normalize_iter_map_to_expr(made), index)
    assert ana.can_prove_equal(made.base, substitute(index, {i: 0}))


def test_a_sum_below_a_division_is_one_iterator_where_only_that_fits():
    """A polynomial writes (i * 12 + ...) // 4 as i * 3 + ..., which the bound of the whole sum does not
    meet any more."""
    rows = i * 4 + j  # of which there are 6
    cells = rows * 3 + k  # and of these 16
    dom = {i: Range(0, 2), j: Range(0, 4), k: Range(0, 3)}
    found = detect_iter_map([cells // 4, cells % 4], dom, And(rows < 6, cells < 16), "bijective")
    assert [one.args[0].extent.value for one in found] == [4, 4], found.errors
    points = [
        dict(zip("ijk", p, strict=True)) for p in itertools.product(range(2), range(4), range(3))
    ]
    held = [p for p in points if evaluate(rows, p) < 6 and evaluate(cells, p) < 16]
    for one, index in zip(found, (cells // 4, cells % 4), strict=True):
        assert all(evaluate(normalize_iter_map_to_expr(one), p) == evaluate(index, p) for p in held)


def test_the_inverse_of_a_split_that_is_fused_and_split_again():
    turned = i % 16 * 4 + i // 16
    index = turned % 8 * 8 + turned // 8
    found = detect_iter_map([index], {i: Range(0, 64)}, check_level="bijective")
    inverse = inverse_affine_iter_map(found.indices, [n])[i]
    assert [evaluate(inverse, {"n": evaluate(index, {"i": v})}) for v in range(64)] == list(
        range(64)
    )


def test_iterators_of_one_value_stay_where_that_is_asked_for():
    dom = ranges(i=1, j=16)
    assert text(iter_map_simplify([i * 16 + j], dom)[0]) == "j"
    kept = iter_map_simplify([i * 16 + j], dom, simplify_trivial_iterators=False)
    assert text(kept[0]) == "((i * 16) + j)"
    outer, inner = subspace_divide([i * 16 + j], dom, [j], simplify_trivial_iterators=False)[0]
    assert [text(normalize_iter_map_to_expr(m)) for m in (outer, inner)] == ["i", "j"]
    assert detect_iter_map([j], dom, True, "bijective", simplify_trivial_iterators=False).indices


def test_the_predicate_of_a_divided_space():
    dom = ranges(i=5, j=4, k=3)
    index = (i * 4 + j) * 3 + k
    (outer, inner), (first, second) = subspace_divide([index], dom, [k], i * 4 + j < 18)
    assert (outer.extent, inner.extent) == (18, 3)
    assert (str(first.extent), str(second.extent)) == ("i * 4 + j < 18", "T.bool(True)")
    assert not subspace_divide([index], dom, [k], index < 20)  # of both sides together
