"""Paths to what lies in a node."""

from __future__ import annotations

import pytest

from loopwright.ir import GlobalVar, get_first_structural_mismatch, object_path
from loopwright.ir.object_path import ObjectPath

ROOT = ObjectPath.root()


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        (ROOT, "<root>", object_path.RootPath),
        (ObjectPath.root("mod"), "mod", object_path.RootPath),
        (ROOT.attr("body"), "<root>.body", object_path.AttributeAccessPath),
        (ROOT.attr("a").array_index(2), "<root>.a[2]", object_path.ArrayIndexPath),
        (ROOT.array_index(-1), "<root>[-1]", object_path.ArrayIndexPath),
        (ROOT.map_value(GlobalVar("f")).attr("b"), "<root>[f].b", object_path.AttributeAccessPath),
        (ROOT.map_value("k e"), '<root>["k e"]', object_path.MapValuePath),
    ],
)
def test_text(path, text, kind):
    assert str(path) == text and type(path) is kind
    assert ObjectPath.parse(text) == path and hash(ObjectPath.parse(text)) == hash(path)


def test_prefixes():
    path = ROOT.attr("foo").array_index(5)
    assert len(path) == 3 and path.parent == ROOT.attr("foo") and ROOT.parent is None
    assert path.get_prefix(1) == ROOT and path.get_prefix(3) == path
    assert ROOT.is_prefix_of(path) and not path.is_prefix_of(ROOT)
    assert not ROOT.attr("bar").is_prefix_of(path)
    for length in (0, 4):
        with pytest.raises(IndexError):
            path.get_prefix(length)
    with pytest.raises(ValueError, match="not a path"):
        ObjectPath.parse("<root>..")


@pytest.mark.parametrize(
    ("a", "b", "left", "right"),
    [
        ([1, 2, 3], [1, 4, 3], "<root>[1]", "<root>[1]"),
        ([1, 3, 4], [1, 2, 3, 4], "<root>[1]", "<root>[1]"),
        ([1], [1, 2], "<root>[<missing element #1>]", "<root>[1]"),
        ({"a": 1}, {"a": 1, "c": 5}, "<root>[<missing entry>]", '<root>["c"]'),
    ],
)
def test_first_mismatch(a, b, left, right):
    assert [str(path) for path in get_first_structural_mismatch(a, b)] == [left, right]
    assert [str(path) for path in get_first_structural_mismatch(b, a)] == [right, left]
    assert get_first_structural_mismatch(a, a) is None


def test_steps_to_what_is_not_there():
    path = ROOT.attr("a").array_index(2)
    assert str(path.attr(None)) == "<root>.a[2].<unknown attribute>"
    assert [str(p.missing()) for p in (path, path.attr("b"), ROOT)] == [
        "<root>.a[<missing element #2>]",
        "<root>.a[2][<missing entry>]",
        "<root>",
    ]
    assert path.is_prefix_of(path) and path != str(path) and repr(path) == "ObjectPath(<root>.a[2])"
    pair = get_first_structural_mismatch([1], [2])
    assert (pair[0], pair[1]) == (pair.lhs_path, pair.rhs_path) == tuple(pair)
    assert ObjectPath.parse("<root>['k']") == ROOT.map_value("k")


def test_a_global_variable_as_a_key():
    assert str(ROOT.attr("functions").map_value(GlobalVar("f"))) == "<root>.functions[f]"
