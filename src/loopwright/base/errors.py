"""Errors that say what, got, and what to do instead, with the place they speak of."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

from .span import Span


class LoopwrightError(RuntimeError):
    """Base of the errors that are not a plain ValueError or TypeError of the user's call.

    >>> lw.compile("model.onnx", target="cuda")
    Traceback (most recent call last):
    LoopwrightError: ...
    """


TVMError = LoopwrightError


class UnknownName(LoopwrightError, KeyError):
    """A name that a table does not have: a KeyError whose text is shown as it is, not quoted."""

    __str__ = Exception.__str__


class InternalError(LoopwrightError):
    """Loopwright broke one of its own rules: please report it. (Derived ones, which bear TVM's name,
    are the caller's.)"""


class NoContext(InternalError, ValueError):
    """A call that needs a `with` around it, or the argument in its place."""


class DiagnosticError(LoopwrightError):
    """A located error in a user's program: the text shows the source line with carets.

    span: the place; what: the text without it.

    >>> from loopwright.script import from_source
    >>> from_source("@T.prim_func\\ndef f():\\n    x = unknown")
    Traceback (most recent call last):
    DiagnosticError: ...
    """

    def __init__(self, text: str, span: Span | None = None) -> None:
        super().__init__(text)
        self.span = span

    @property
    def what(self) -> str:
        text = str(self)
        return text if self.span is None else text.partition(f"\n{self.span.render()}")[0]


class CallError(LoopwrightError):
    """A call of an operator, or of a compiled function, with arguments that it does not take; it is a
    ValueError or a TypeError as well.

    >>> relax.op.add(1, "x")
    Traceback (most recent call last):
    CallTypeError: ...
    """


class CallValueError(CallError, ValueError):
    """A call of an operator with values that do not fit."""


class CallTypeError(CallError, TypeError):
    """A call of an operator with arguments of wrong types."""


def call_error(err: ValueError | TypeError, text: str | None = None) -> CallError:
    """The error of an operator's call for what its definition raised, with another text."""
    if isinstance(err, CallError):
        return err
    kind = CallTypeError if isinstance(err, TypeError) else CallValueError
    return kind(str(err) if text is None else text)


def with_signature(error: CallError, signature: str) -> CallError:
    """The error of a call, whose text then has the function's signature, once."""
    text = str(error)
    if "\n  expected: " not in text:
        error.args = (Explanation(f"{text}\n  expected: {signature}"),)
    return error


class OpError(LoopwrightError):
    """Base of what an importer of models says about an operator of the model."""


class OpNotImplemented(OpError, NotImplementedError):
    """An operator that is not imported."""


class OpAttributeRequired(OpError, AttributeError):
    """An operator without an attribute that it must have."""


class OpAttributeInvalid(OpError, AttributeError):
    """An operator whose attribute has a wrong value."""


class OpAttributeUnImplemented(OpError, NotImplementedError):
    """An operator with an attribute that is not imported."""


class DivisionByZero(LoopwrightError, ZeroDivisionError):
    """A division by the literal 0 in a program."""


class Explanation(str):
    """The text of an error that was raised to be read, by `explain`."""

    __slots__ = ()


def is_explained(error: BaseException) -> bool:
    """Whether the text of an error explains its cause: one of Loopwright's own classes, or one raised
    with an `Explanation`; not an error of an operation that failed."""
    return isinstance(error, LoopwrightError) or any(isinstance(a, Explanation) for a in error.args)


def explain(
    what: str,
    *,
    got: object = None,
    instead: str | None = None,
    span: Span | None = None,
    tvm: str | None = None,
) -> Explanation:
    """The text of an error: the fault, what was got, what to do instead, and where.

    tvm: what TVM says there, for programs and people that look for it.

    >>> print(explain("matmul needs equal inner dims", got="4 and 5", instead="transpose one"))
    matmul needs equal inner dims
      got: 4 and 5
      instead: transpose one
    """
    lines = [what]
    if got is not None:
        lines.append(f"  got: {got}")
    if instead is not None:
        lines.append(f"  instead: {instead}")
    if tvm is not None:
        lines.append(f"  in TVM: {tvm}")
    if span is not None:
        lines.append(span.render())
    return Explanation("\n".join(lines))


def suggest(name: object, choices: Iterable[str], otherwise: str = "one of") -> str:
    """The hint for an unknown name: close ones among `choices`, else all of them.

    >>> suggest("FuseOp", ["FuseOps", "FoldConstant"])
    'did you mean FuseOps?'
    >>> suggest("xyz", ["FuseOps", "FoldConstant"], "it has:")
    'it has: FuseOps, FoldConstant'
    """
    names = list(dict.fromkeys(choices))
    ratios = {n: SequenceMatcher(None, str(name).lower(), n.lower()).ratio() for n in names}
    best = max(ratios.values(), default=0.0)
    if best >= 0.6:
        close = sorted((n for n in names if ratios[n] >= best - 0.05), key=lambda n: -ratios[n])
        return f"did you mean {', '.join(close[:3])}?"
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"{otherwise} {', '.join(names[:20])}{more}"
