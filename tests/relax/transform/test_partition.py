"""Which operators share a kernel: kinds, paths, sizes, targets, and the reasons against it."""

from __future__ import annotations

import pytest

from loopwright.relax.transform.fuse._partition import Graph, Partition

KINDS = {
    "E": 0,
    "B": 1,
    "I": 2,
    "R": 3,
    "F": 4,
    "T": 7,
    "O": 8,
}  # of nodes and edges, see OpPattern


def partitioned(kinds: str, edges: str, most: int = 9, escapes: str = "", targets: str = ""):
    """The groups, "01 2", and the reasons; edges are written "01E": node 1 uses 0 so."""
    graph = Graph()
    for n in range(len(kinds)):
        graph.add(str(n) in escapes)
    graph.kinds = [KINDS[k] for k in kinds]
    graph.targets = [p.strip("-") for p in targets or "-" * len(kinds)]
    for source, user, kind in edges.split():
        graph.users[int(source)].append((int(user), KINDS[kind]))
    partition = Partition(graph, most)
    partition.run()
    groups: dict[int, str] = {}
    for n in range(len(kinds)):
        root = partition.root(n)
        groups[root] = groups.get(root, "") + str(n)
    return " ".join(sorted(groups.values())), partition.why


@pytest.mark.parametrize(
    ("kinds", "edges", "groups"),
    [
        ("EEE", "01E 12E", "012"),
        ("EBI", "01B 12I", "012"),
        # What comes behind a product works on its elements one by one.
        ("FEB", "01E 12E", "012"),
        ("FEB", "01E 12B", "01 2"),
        ("FE", "01B", "0 1"),
        ("FI", "01E", "0 1"),
        ("FR", "01E", "0 1"),
        # What comes before one, or before a sum.
        ("EF", "01I", "01"),
        ("BF", "01I", "01"),
        ("IF", "01I", "0 1"),
        ("EF", "01F", "0 1"),
        ("ER", "01R", "01"),
        ("BR", "01R", "01"),
        ("IR", "01R", "0 1"),
        ("RE", "01E", "0 1"),
        ("EO", "01O", "0 1"),
        ("OE", "01E", "0 1"),
        ("II", "01I", "01"),
        ("IE", "01E", "01"),
        # A tuple goes with what it is made for, and with nothing that is put into it.
        ("ITI", "01I 12I", "0 12"),
        # Paths that meet again, all of which are simple enough.
        ("EEEE", "01E 02E 13E 23E", "0123"),
        ("EIBE", "01I 02E 13E 23E", "0123"),
        ("EEOE", "01E 02O 13E 23E", "0 13 2"),
        ("ERBE", "01R 02E 13E 23E", "0 1 23"),
        ("FEBE", "01E 02E 13E 23E", "0123"),
        ("FEBE", "01E 02B 13E 23E", "0 123"),
        ("FEIE", "01E 02E 13E 23E", "0 123"),
        # Those that do not meet, at any depth.
        ("EEE", "01E 02E", "0 1 2"),
        ("EEEE", "01E 02E 13E", "0 13 2"),
        ("EEEEE", "01E 13E 34E 02E 24E", "01234"),
    ],
)
def test_kinds(kinds, edges, groups):
    assert partitioned(kinds, edges)[0] == groups


def test_sizes():
    chain = "01E 12E 23E"
    assert partitioned("EEEE", chain, most=4) == ("0123", {3: "its users do not meet again"})
    groups, why = partitioned("EEEE", chain, most=3)
    assert (groups, why[2]) == ("012 3", "the group would have more than 3 operators")


def test_results_and_targets():
    groups, why = partitioned("EEE", "01E 12E", escapes="1")
    assert (groups, why[1]) == ("01 2", "is a result")
    for targets, wanted in (("aa-", "012"), ("a-b", "01 2"), ("-a-", "012"), ("ab-", "0 12")):
        groups, why = partitioned("EEE", "01E 12E", targets=targets)
        assert groups == wanted
        assert ("its users are for another target" in why.values()) == (wanted != "012")


def test_reasons():
    assert (
        partitioned("FE", "01B")[1][0]
        == "an out ewise fusable cannot be fused with a broadcast use"
    )
    assert partitioned("IR", "01R")[1][0] == "the part after an injective is too complex"
    assert partitioned("RE", "01E")[1][0] == "a comm reduce cannot be fused with an elemwise use"
    assert partitioned("OE", "01E")[1][0] == "opaque"
