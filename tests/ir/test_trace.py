"""Traces: what ran, what it changed, why things were chosen."""

from __future__ import annotations

import time

import pytest

from loopwright.ir import GlobalVar, IRModule
from loopwright.ir.trace import PassRecord, Trace, active, note, trace
from loopwright.ir.transform import PassContext, Sequential, module_pass

from .little import Func

pytestmark = [pytest.mark.no_roundtrip, pytest.mark.no_verify]


@module_pass(name="Grow")
def grow(mod, ctx):
    note("legalize", "relax.add", rule="cpu", why="the key of the target")
    return mod.with_functions({v: f.replace(body=f.body + 1) for v, f in mod.functions.items()})


@module_pass(name="Keep")
def keep(mod, ctx):
    return mod


@module_pass(name="Rebuild")
def rebuild(mod, ctx):
    return mod.with_functions({v: f._make(*f.field_values()) for v, f in mod.functions.items()})


@module_pass(name="Fail")
def fail(mod, ctx):
    raise ValueError("no luck\nat all")


@pytest.fixture
def mod():
    return IRModule({"f": Func(body=1)})


def test_records(mod):
    start = time.perf_counter()
    with trace() as t:
        made = Sequential([grow, keep, grow, rebuild], name="pipeline")(mod)
    took = (time.perf_counter() - start) * 1e3
    assert t.names() == ["Grow", "Keep", "Grow", "Rebuild"]
    assert t.names(groups=True) == ["pipeline", "Grow", "Keep", "Grow", "Rebuild"]
    assert [r.depth for r in t] == [0, 1, 1, 1, 1]
    assert [r.changed for r in t] == [True, True, False, True, False]
    assert t["Grow"].before["f"] is mod["f"]
    assert t["Grow"].after["f"].body == 2
    assert t.last("Grow").after["f"].body == 3
    assert len(t.all("Grow")) == 2
    assert t["pipeline"].after["f"] is made["f"]
    assert t[0].name == "pipeline"
    assert all(0 <= r.ms <= took for r in t)
    assert "Keep" in t and "keep" not in t
    assert len(t) == 5


def test_unknown_names(mod):
    with trace() as t:
        grow(mod)
    with pytest.raises(KeyError) as error:
        t["Grwo"]
    assert error.value.args[0] == (
        "no pass of this name ran\n  got: Grwo\n  instead: did you mean Grow?"
    )
    with pytest.raises(KeyError):
        t.last("Keep")


def test_diff(mod):
    with trace() as t:
        keep(grow(mod))
    assert t["Keep"].diff() == ""
    lines = t["Grow"].diff().splitlines()
    assert lines[:2] == ["--- before Grow", "+++ after Grow"]
    assert {line[0] for line in lines[3:]} >= {"-", "+"}
    assert t["Grow"].changed_functions() == ["f"]


def test_table(mod, capsys):
    with trace() as t:
        Sequential([grow, keep], name="both")(mod)
    t.show()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(row[0], row[2]) for row in rows] == [
        ("pass", "changed"),
        ("both", "f"),
        ("Grow", "f"),
        ("Keep", "-"),
    ]


def test_what_the_table_says_of_a_change():
    many = IRModule({f"f{k}": Func(body=k) for k in range(5)})

    @module_pass(name="Marks")
    def marks(mod, ctx):
        return mod.with_attr("k", 1)

    @module_pass(name="Swaps")
    def swaps(mod, ctx):
        return mod.with_functions({GlobalVar("g"): Func(body=7)}, remove=["f0"])

    assert Trace().table() == "pass         ms  changed" and len(Trace()) == 0
    with trace() as t:
        grow(many)
        marks(grow(IRModule({name: Func(body=1) for name in "abc"})))
        swaps(many)
    rows = [line.split(maxsplit=2) for line in t.table().splitlines()[1:]]
    assert [(row[0], row[2]) for row in rows] == [
        ("Grow", "f0, f1, f2 and 2 more"),
        ("Grow", "a, b, c"),
        ("Marks", "yes"),
        ("Swaps", "f0, g"),
    ]
    assert t["Marks"].changed and t["Marks"].changed_functions() == []
    assert repr(t) == "<Trace of 4 passes and 2 decisions>"
    assert t["Swaps"].diff(context=0).count("\n") < t["Swaps"].diff().count("\n")
    t["Marks"].ms = 1.25
    assert repr(t["Marks"]) == "PassRecord(2: Marks, 1.25 ms, changed)"
    assert len({len(line.partition("  ")[0]) for line in t.table().splitlines()}) > 1


def test_the_width_of_the_first_column_is_that_of_the_longest_name():
    t = Trace()
    outer = t.begin("Outer", IRModule())
    t.end(t.begin("Longer", IRModule()), IRModule(), 2.0)
    t.end(outer, None, 12.345, "ValueError: no")
    assert t.table().splitlines() == [
        "pass             ms  changed",
        "Outer         12.35  failed: ValueError: no",
        "  Longer       2.00  -",
    ]
    assert not outer.changed and outer.diff() == "" and outer.group and not t[1].group
    assert repr(outer) == "PassRecord(0: Outer, 12.35 ms, failed: ValueError: no)"
    assert repr(t[1]) == "PassRecord(1: Longer, 2.00 ms, same)"


def test_later_changes_in_place_do_not_reach_the_trace(mod):
    with trace() as t:
        made = grow(mod)
    made["f"] = Func(body=99)
    mod["g"] = Func()
    assert t["Grow"].after["f"].body == 2
    assert "g" not in t["Grow"].before


def test_a_pass_that_changes_its_module_in_place_is_seen(mod):
    @module_pass(name="InPlace")
    def in_place(mod, ctx):
        mod["f"] = Func(body=7)
        return mod

    with trace() as t:
        in_place(mod)
    assert t["InPlace"].changed
    assert t["InPlace"].before["f"].body == 1


def test_failures_are_recorded(mod):
    with trace() as t, pytest.raises(ValueError, match="no luck"):
        Sequential([keep, fail], name="both")(mod)
    assert t["Fail"].error == "ValueError: no luck"
    assert t["Fail"].after is None
    assert t["both"].error == "ValueError: no luck"
    assert "failed: ValueError: no luck" in t.table()
    with trace() as t:
        keep(mod)
    assert t["Keep"].depth == 0


def test_notes(mod):
    with trace() as t:
        Sequential([grow], name="both")(mod)
        note("tune", "f", cost=3)
    (found,) = t.explain("relax.add")
    assert (found.kind, found.facts["rule"], found.passes) == ("legalize", "cpu", ("both", "Grow"))
    assert str(found) == "legalize relax.add (in Grow): rule: cpu, why: the key of the target"
    assert t.explain("relax.add", kind="schedule") == []
    assert str(t.notes[1]) == "tune f: cost: 3"


def test_off_by_default(mod):
    assert active() is None
    note("legalize", "nobody listens")
    with trace() as outer:
        assert PassContext.current().trace is outer
        with trace() as inner:
            keep(mod)
        assert active() is outer
    assert (len(outer), len(inner)) == (0, 1)
    assert PassContext.current().trace is None


def test_an_operators_explanation_follows_what_became_of_it():
    t = Trace()
    t.note("pattern", "lv", pattern="lib.conv", of=["x.conv"], refused="too small")
    t.note(
        "legalize", "x.conv", winner="default", losers=["target npu (no)", "map (no)"], kernel="c"
    )
    t.note(
        "legalize", "x.conv", winner="default", losers=["target npu (no)", "map (no)"], kernel="c1"
    )
    t.note("legalize", "x.add", winner="default", kernel="add")
    t.note("fuse", "c", group=["c", "add"])
    t.note("group", "fused_c_add", of=["c", "add"])
    t.note("schedule", "fused_c_add", rule="stages", refused="")
    t.note("schedule", "add", rule="stages")
    t.note("offload", "lib.conv", offloaded=True)
    assert str(t.explain("x.conv")) == "\n".join(
        [
            "pattern lv",
            "    pattern: lib.conv",
            "    of: x.conv",
            "    refused: too small",
            "legalize x.conv, 2 times",
            "    kernel: c, c1",
            "    winner: default",
            "    losers: target npu (no)",
            "    losers: map (no)",
            "fuse c",
            "    group: c, add",
            "group fused_c_add",
            "    of: c, add",
            "schedule fused_c_add",
            "    rule: stages",
        ]
    )
    assert [n.kind for n in t.explain("x.conv", "schedule")] == ["schedule"]
    assert [n.subject for n in t.explain("fused_c_add")] == ["fused_c_add", "fused_c_add"]


class Text:
    """What has a text of lines."""

    def __init__(self, *lines):
        self.lines = lines

    def script(self):
        return "\n".join(self.lines)


def test_a_difference_is_shown_with_three_lines_around():
    before, after = Text(*"123456789"), Text(*"1234x6789")
    record = PassRecord(0, "Edit", 0, before, after, _changed=True)
    shown = ["--- before Edit", "+++ after Edit", "@@ -2,7 +2,7 @@"]
    assert record.diff().splitlines() == [*shown, " 2", " 3", " 4", "-5", "+x", " 6", " 7", " 8"]
    assert record.diff(1).splitlines()[2:] == ["@@ -4,3 +4,3 @@", " 4", "-5", "+x", " 6"]
    gone = PassRecord(0, "Edit", 0, Text("1"), None, _changed=True)
    assert gone.diff().splitlines()[2:] == ["@@ -1 +0,0 @@", "-1"]
