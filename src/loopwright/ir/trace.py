"""Traces: every pass that ran, with the module before and after it, and why rules, schedules and
libraries were chosen.

    with lw.trace() as t:
        mod = pipeline(mod)
    t.show()                    # a table of the passes
    t["FuseOps"].diff()         # what it changed, as text
    print(t.explain("relax.nn.conv2d"))

A trace keeps references to immutable functions; text is made only on request. When no trace is
active a pass reads one context variable, nothing else.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..base.errors import UnknownName, explain, suggest
from ..base.late import VIEWS
from .structural import structural_equal

if TYPE_CHECKING:
    from .function import BaseFunc
    from .module import IRModule

_ACTIVE: ContextVar[Trace | None] = ContextVar("active trace", default=None)


@dataclass
class PassRecord:
    """One run of a pass. `depth` counts the passes around it; `group` says it ran others."""

    index: int
    name: str
    depth: int
    before: Any
    after: Any = None
    ms: float = 0.0
    group: bool = False
    error: str = ""
    _changed: bool | None = None

    @property
    def changed(self) -> bool:
        """Whether the module differs: by identity of its functions, then structurally."""
        if self._changed is None:
            self._changed = self.after is not None and not _equal(self.before, self.after)
        return self._changed

    def changed_functions(self) -> list[str]:
        """Names of the functions that were changed, added or removed, sorted."""
        old, new = _named(self.before), _named(self.after)
        names = [n for n in {**old, **new} if old.get(n) is not new.get(n)]
        differ = (n for n in names if n not in old or n not in new or not _same(old[n], new[n]))
        return sorted(differ)

    def diff(self, context: int = 3, **options: Any) -> str:
        """Unified diff of the module's text before and after ("" when nothing changed)."""
        if not self.changed:
            return ""
        old = self.before.script(**options).splitlines()
        new = self.after.script(**options).splitlines() if self.after is not None else []
        title = self.name
        lines = difflib.unified_diff(
            old, new, f"before {title}", f"after {title}", lineterm="", n=context
        )
        return "\n".join(lines)

    def __repr__(self) -> str:
        state = f"failed: {self.error}" if self.error else "changed" if self.changed else "same"
        return f"PassRecord({self.index}: {self.name}, {self.ms:.2f} ms, {state})"


@dataclass
class Note:
    """Something that was decided: its kind ("legalize"), its subject (an op's or function's
    name), the facts (rule=..., why=...), and the passes that were running, outermost first."""

    kind: str
    subject: str
    facts: dict[str, Any] = field(default_factory=dict)
    passes: tuple[str, ...] = ()

    def __str__(self) -> str:
        facts = ", ".join(f"{name}: {value}" for name, value in self.facts.items())
        where = f" (in {self.passes[-1]})" if self.passes else ""
        return (
            f"{self.kind} {self.subject}{where}: {facts}"
            if facts
            else f"{self.kind} {self.subject}"
        )


@dataclass(frozen=True)
class ModelNode:
    """A node of the model's file: its name in spans, its operator, the values it reads and makes."""

    name: str
    op: str
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()


# Facts that name what became of a note's subject, and those that name what it was made of.
_INTO, _OF = ("kernel", "pattern", "into"), "of"


class Explanation(list[Note]):
    """The notes about something, in order; as text, each with its facts, same ones once."""

    def __str__(self) -> str:
        kernels: dict[str, list[str]] = {}
        for note in self:
            kernels.setdefault(_indented(note), []).append(str(note.facts.get("kernel") or ""))
        lines = []
        for text, names in kernels.items():
            head, line, facts = text.partition("\n")
            times = f", {len(names)} times" if len(names) > 1 else ""
            into = ", ".join(dict.fromkeys(name for name in names if name))
            lines.append(
                f"{head}{times}{f'{chr(10)}    kernel: {into}' if into else ''}{line}{facts}"
            )
        return "\n".join(lines)

    def follow(self, note: Note, names: set[str]) -> None:
        """Take a note about one of the names, or about what was made of one; what became of its
        subject is one of the names from then on."""
        made_of = note.facts.get(_OF) or ()
        if note.subject not in names and names.isdisjoint(made_of):
            return
        self.append(note)
        if note.facts.get("refused"):
            return
        names.add(note.subject)
        names.update(str(note.facts[key]) for key in _INTO if note.facts.get(key))


def _indented(note: Note) -> str:
    """A note with its facts but the kernel on lines of their own."""
    where = f" (in {note.passes[-1]})" if note.passes else ""
    lines = [f"{note.kind} {note.subject}{where}"]
    for name, value in note.facts.items():
        items = value if isinstance(value, (list, tuple)) else [value]
        words = [str(item) for item in items if item not in (None, "")]
        if name != "kernel" and words:
            plain = not any(" " in word for word in words)
            lines += [f"    {name}: {text}" for text in ([", ".join(words)] if plain else words)]
    return "\n".join(lines)


class Trace:
    """The passes that ran, in order of their start, the notes they made, and by kernel the steps of the
    schedule that a default rule has chosen (a `tir.schedule.Trace`, which prints as Python)."""

    def __init__(self) -> None:
        self.records: list[PassRecord] = []
        self.notes: list[Note] = []
        self.nodes: dict[str, ModelNode] = {}
        self.schedules: dict[str, Any] = {}
        self._open: list[PassRecord] = []

    # ------------------------------------------------------------------ recording

    def begin(self, name: str, mod: IRModule) -> PassRecord:
        """A pass starts on `mod`."""
        if self._open:
            self._open[-1].group = True
        record = PassRecord(len(self.records), name, len(self._open), _snapshot(mod))
        self.records.append(record)
        self._open.append(record)
        return record

    def end(self, record: PassRecord, mod: IRModule | None, ms: float, error: str = "") -> None:
        """That pass has ended with `mod` (None after an error)."""
        record.after = None if mod is None else _snapshot(mod)
        record.ms, record.error = ms, error
        del self._open[self._open.index(record) :]

    def note(
        self, kind: str, subject: str, /, **facts: str | float | Sequence[str | int] | None
    ) -> None:
        """Remember a decision."""
        running = tuple(record.name for record in self._open)
        self.notes.append(Note(kind, subject, facts, running))

    # ------------------------------------------------------------------ reading

    def names(self, groups: bool = False) -> list[str]:
        """The passes' names in the order in which they ran; with those that ran others, too."""
        return [r.name for r in self.records if groups or not r.group]

    def __repr__(self) -> str:
        return f"<Trace of {len(self.records)} passes and {len(self.notes)} decisions>"

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[PassRecord]:
        return iter(self.records)

    def __contains__(self, name: object) -> bool:
        return any(r.name == name for r in self.records)

    def __getitem__(self, key: str | int) -> PassRecord:
        """The first run of the pass of that name, or the record of that index.

        Raises KeyError naming close names when no such pass ran.
        """
        if isinstance(key, int):
            return self.records[key]
        for record in self.records:
            if record.name == key:
                return record
        names = list(dict.fromkeys(self.names(groups=True)))
        raise UnknownName(
            explain("no pass of this name ran", got=key, instead=suggest(key, names, "ran:"))
        )

    def all(self, name: str) -> list[PassRecord]:
        """Every run of the pass of that name."""
        return [r for r in self.records if r.name == name]

    def last(self, name: str) -> PassRecord:
        """The last run of the pass of that name."""
        records = self.all(name)
        return records[-1] if records else self[name]

    def explain(self, subject: str, kind: str | None = None) -> Explanation:
        """The decisions about an operator ("relax.nn.conv2d"), a function ("fused_conv2d_relu") or a
        node of the model ("/conv1"), in order; print it.

        An operator's or a node's are: who lowered it and who did not, the pattern that took it, and
        what became of its kernels: what they were fused with, who scheduled them.
        """
        if subject in self.nodes or f"onnx:{subject}" in self.nodes:
            about = VIEWS.get().Explored(self).subjects(subject)
            subject_notes = (
                n for n in self.notes if n.subject in about or n.facts.get("kernel") in about
            )
            return Explanation(n for n in subject_notes if kind in (None, n.kind))
        notes, names = Explanation(), {subject}
        for note in self.notes:
            if "." in subject:
                notes.follow(note, names)
            elif note.subject == subject:
                notes.append(note)
        return Explanation(n for n in notes if kind in (None, n.kind))

    def html(self, file: str | None = None, title: str = "") -> str:
        """One page, written to `file` if it is given, that shows all passes, the model's graph and
        what came from what; it needs no network."""
        return VIEWS.get().page_of_trace(self, file, title)

    def _repr_html_(self) -> str:
        """The table of passes in a notebook; a row opens to show the changes of the pass."""
        return VIEWS.get().notebook_trace(self)

    def table(self) -> str:
        """The passes as text: name, milliseconds, and which functions changed."""
        width = max([len(r.name) + 2 * r.depth for r in self.records], default=4)
        lines = [f"{'pass':<{width}}  {'ms':>9}  changed"]
        for r in self.records:
            names = [] if r.error else r.changed_functions()
            shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
            state = f"failed: {r.error}" if r.error else shown or ("yes" if r.changed else "-")
            lines.append(f"{'  ' * r.depth + r.name:<{width}}  {r.ms:>9.2f}  {state}")
        return "\n".join(lines)

    def show(self) -> None:
        """Print the table of passes."""
        print(self.table())


@contextmanager
def trace() -> Iterator[Trace]:
    """Record every pass that runs inside.

    >>> with lw.trace() as recorded:
    ...     mod = relax.transform.DeadCodeElimination()(lw.IRModule({}))
    >>> [step.name for step in recorded]
    ['DeadCodeElimination']
    """
    recorded = Trace()
    token = _ACTIVE.set(recorded)
    try:
        yield recorded
    finally:
        _ACTIVE.reset(token)


def active() -> Trace | None:
    """The trace that records now, or None."""
    return _ACTIVE.get()


def note(kind: str, subject: str, /, **facts: str | int | Sequence[str | int] | None) -> None:
    """Remember a decision in the active trace: `note("legalize", "relax.add", rule="cpu")`."""
    recording = _ACTIVE.get()
    if recording is not None:
        recording.note(kind, subject, **facts)


def _snapshot(mod: IRModule) -> Any:
    """A module object is updated in place by users, so the trace keeps one of its own."""
    return mod.frozen_copy()


def _named(mod: IRModule) -> dict[str, Any]:
    return {} if mod is None else {gvar.name_hint: func for gvar, func in mod.functions.items()}


def _same(a: BaseFunc, b: BaseFunc) -> bool:
    return a is b or structural_equal(a, b)


def _equal(a: IRModule, b: IRModule) -> bool:
    old, new = _named(a), _named(b)
    if old.keys() != new.keys() or any(not _same(f, new[name]) for name, f in old.items()):
        return False
    return structural_equal([a.attrs, a.global_infos], [b.attrs, b.global_infos])
