"""Instruments: order of calls, skipping, timing, printing, dumping, verifying."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from loopwright.ir import IRModule, instrument, pass_context
from loopwright.ir.instrument import (
    DumpIR,
    PassInstrument,
    PassPrintingInstrument,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    VerifyInstrument,
    pass_instrument,
)
from loopwright.ir.transform import PassContext, Sequential, code_span, module_pass

from .little import Func

pytestmark = [pytest.mark.no_roundtrip, pytest.mark.no_verify]


@module_pass(name="First")
def first(mod, ctx):
    return mod.with_attr("first", 1)


@module_pass(name="Second")
def second(mod, ctx):
    return mod.with_attr("second", 2)


@pass_instrument
class Log:
    """Writes down what it sees."""

    def __init__(self, log, skip=()):
        self.log, self.skip = log, skip

    def enter_pass_ctx(self):
        self.log.append("enter")

    def exit_pass_ctx(self):
        self.log.append("exit")

    def should_run(self, mod, info):
        return info.name not in self.skip

    def run_before_pass(self, mod, info):
        self.log.append(f"before {info.name} {mod.attrs.keys()}")

    def run_after_pass(self, mod, info):
        self.log.append(f"after {info.name} {mod.attrs.keys()}")


@pytest.fixture
def mod():
    return IRModule({"f": Func()})


def test_order(mod):
    log = []
    with PassContext(instruments=[Log(log)]):
        Sequential([first, second], name="both")(mod)
    assert log == [
        "enter",
        "before both []",
        "before First []",
        "after First ['first']",
        "before Second ['first']",
        "after Second ['first', 'second']",
        "after both ['first', 'second']",
        "exit",
    ]


def test_skip(mod):
    log = []
    with PassContext(instruments=[Log(log, skip=["First"])]):
        assert first(mod) is mod
    assert log == ["enter", "exit"]
    with PassContext(required_pass=["First"], instruments=[Log(log, skip=["First"])]):
        assert first(mod).attrs.keys() == ["first"]


def test_decorator():
    assert isinstance(Log([]), PassInstrument)
    assert Log.__doc__ == "Writes down what it sees."
    with pytest.raises(TypeError, match="Nothing has none of an instrument's methods: enter_pass"):

        @pass_instrument
        class Nothing:
            pass

    @pass_instrument()
    class Some:
        def run_before_pass(self, mod, info):
            pass

    assert Some().should_run(None, None)


def test_plain_objects_will_do(mod):
    class Counter:
        count = 0

        def run_after_pass(self, mod, info):
            self.count += 1

    counter = Counter()
    with PassContext(instruments=[counter]):
        first(mod)
    assert counter.count == 1


@pytest.mark.parametrize("hook", ["should_run", "run_before_pass", "run_after_pass"])
def test_an_exception_names_the_instrument(mod, hook):
    class Bad(PassInstrument):
        pass

    def fail(self, mod, info):
        raise KeyError("inside")

    setattr(Bad, hook, fail)
    with pytest.raises(KeyError) as error, PassContext(instruments=[Bad()]):
        first(mod)
    assert error.value.__notes__ == [f"raised by instrument Bad.{hook} of pass 'First'"]
    assert PassContext.current() is pass_context._DEFAULT_CONTEXT


def test_an_exception_on_entering():
    log = []

    class Bad(PassInstrument):
        def enter_pass_ctx(self):
            raise ValueError("inside")

    ctx = PassContext(instruments=[Log(log), Bad(), Log(log)])
    with pytest.raises(ValueError, match="inside") as error, ctx:
        log.append("never")
    assert error.value.__notes__ == ["raised by instrument Bad.enter_pass_ctx"]
    assert log == ["enter", "exit"]
    assert ctx.instruments == []
    assert PassContext.current() is not ctx


def test_override(mod):
    old, new = [], []
    with PassContext(instruments=[Log(old)]) as ctx:
        ctx.override_instruments([Log(new)])
        first(mod)
        assert old == ["enter", "exit"]
        assert new[0] == "enter"
    assert new[-1] == "exit"
    PassContext.current().override_instruments(None)


def test_timing(mod):
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        Sequential([first, second], name="both")(mod)
    lines = timing.render().splitlines()
    number = r"\d+\.\d{3} ms"
    shares = r"\(\d+\.\d\d%; \d+\.\d\d%\)"
    expected = [rf"both: {number} {shares}", rf"  First: {number} {shares}"]
    expected += [rf"  Second: {number} {shares}", rf"total: {number}"]
    assert len(lines) == len(expected)
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(pattern, line)
    assert "(100.00%; 100.00%)" in lines[0]


def test_times_are_parts_of_the_whole_and_of_the_pass_around(monkeypatch):
    clock = iter([0, 1, 2, 4, 4, 5, 9, 10, 12])  # entered; both, First, Second in both; First
    monkeypatch.setattr(instrument, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    timing = PassTimingInstrument()
    assert timing.render() == "total: 0.000 ms"
    before, after = timing.run_before_pass, timing.run_after_pass
    before(None, both := SimpleNamespace(name="both"))
    for one in (first.info, second.info):
        before(None, one)
        after(None, one)
    after(None, both)
    before(None, first.info)
    after(None, first.info)
    assert timing.render().splitlines() == [
        "both: 8000.000 ms (80.00%; 80.00%)",
        "  First: 2000.000 ms (20.00%; 25.00%)",
        "  Second: 1000.000 ms (10.00%; 12.50%)",
        "First: 2000.000 ms (20.00%; 20.00%)",
        "total: 10000.000 ms",
    ]


def test_what_was_timed_before_an_error_is_kept(mod):
    timing = PassTimingInstrument()

    @module_pass(name="Bad")
    def bad(mod, ctx):
        raise ValueError

    for _ in range(2):  # anew in each context
        with pytest.raises(ValueError), PassContext(instruments=[timing]):
            Sequential([first, bad], name="both")(mod)
        timing.run_before_pass(mod, second.info)  # beside, not inside of what failed
        timing.run_after_pass(mod, second.info)
        names = [line.partition(":")[0] for line in timing.render().splitlines()]
        assert names == ["both", "  First", "  Bad", "Second", "total"]


def test_printing(mod, capsys):
    with PassContext(instruments=[PrintBeforeAll()]):
        first(mod)
    assert capsys.readouterr().out == (
        f"# Before Running Pass: pass name: First, opt_level: 0, required passes: []\n{mod.script()}\n"
    )
    with PassContext(instruments=[PrintAfterAll()]):
        made = first(mod)
    assert capsys.readouterr().out == (
        f"# After Running Pass: pass name: First, opt_level: 0, required passes: []\n{made.script()}\n"
    )
    with PassContext(instruments=[PassPrintingInstrument(["Second"], ["First"])]):
        second(first(mod))
    out = capsys.readouterr().out
    assert out.index("# After Running Pass: pass name: First,") < out.index(
        "# Before Running Pass: pass name: Second,"
    )
    assert "# Before Running Pass: pass name: First," not in out
    assert "# after Second" not in out


def test_dump(mod, tmp_path):
    folder = tmp_path / "dump"
    dump = DumpIR(folder)
    for _ in range(2):
        with PassContext(instruments=[dump]):
            Sequential([first, second], name="a/b")(mod)
        names = sorted(p.name for p in folder.iterdir())
        assert names == ["000_First.py", "001_Second.py", "002_a_b.py"]
    assert (folder / "000_First.py").read_text() == first(mod).script() + "\n"


def test_a_dump_that_keeps_earlier_ones(mod, tmp_path):
    for name in ("007_Old.py", "notes.py"):
        (tmp_path / name).touch()
    with PassContext(instruments=[DumpIR(tmp_path, refresh=False)]):
        first(mod)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000_First.py", "007_Old.py", "notes.py"]
    with PassContext(instruments=[DumpIR(str(tmp_path))]):
        second(mod)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000_Second.py", "notes.py"]


def test_dump_by_environment(mod, tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_DUMP", str(tmp_path))
    second(first(mod))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000_First.py", "001_Second.py"]


def test_verify(mod):
    def check(mod):
        if "second" in mod.attrs:
            raise ValueError("no second, please")

    with (
        pytest.raises(ValueError, match="no second, please") as error,
        PassContext(instruments=[VerifyInstrument(check)]),
    ):
        second(first(mod))
    assert error.value.__notes__[0] == "the module is not valid after pass 'Second'"


def test_a_class_that_is_an_instrument_stays_itself():
    assert (
        pass_instrument(DumpIR) is DumpIR
        and pass_instrument()(VerifyInstrument) is VerifyInstrument
    )


def test_where_a_function_is_written():
    assert code_span(len) is None
    span = code_span(test_verify)
    assert span is not None and "def test_verify" in span.render()
