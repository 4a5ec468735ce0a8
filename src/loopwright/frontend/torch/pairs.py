"""Complex numbers: a tensor of them is a pair of tensors, the real and the imaginary parts.

At the border of the graph it is one tensor with a last axis of two, as `torch.view_as_real` has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import explain
from ...base.registry import Registry
from ...relax.expr import Expr
from ..graph.registry import Converter
from ..graph.values import Value
from .context import Arg, Term, TorchContext

# name of an operator -> its converter for complex arguments or results
COMPLEX: Registry[str, Converter] = Registry("converter of complex numbers", compiles=True)


class Pair(Value):
    """A tensor of complex numbers; Python's operators are theirs. A number or a real tensor next to it has an
    imaginary part of 0."""

    __slots__ = ("im", "re")
    _context: TorchContext

    def __init__(self, re: Term, im: Term) -> None:
        super().__init__(re._context)
        self.re, self.im = re, im

    def copy(self) -> Pair:
        return Pair(self.re, self.im)

    def leave_block(self) -> None:
        self.re.leave_block()
        self.im.leave_block()

    @property
    def output(self) -> Expr:
        """Both parts in one tensor."""
        return self.whole.output

    @property
    def whole(self) -> Term:
        return self._context.stack([self.re, self.im], self.re.ndim)

    @property
    def expr(self) -> Expr:
        raise ValueError(explain("this operator has no form for complex numbers"))

    @property
    def elements(self) -> None:
        return None

    @property
    def ndim(self) -> int:
        return self.re.ndim

    @property
    def shape(self) -> Any:
        return self.re.shape

    @property
    def part_dtype(self) -> str:
        return str(self.re.dtype)

    def each(self, do: Callable[[Term], Any]) -> Pair:
        """A function of each part."""
        return Pair(self._context.value(do(self.re)), self._context.value(do(self.im)))

    def _of(self, other: PairArg) -> Pair:
        return paired(self._context, other, self.part_dtype)

    def __add__(self, other: PairArg) -> Pair:
        b = self._of(other)
        return Pair(self.re + b.re, self.im + b.im)

    def __sub__(self, other: PairArg) -> Pair:
        b = self._of(other)
        return Pair(self.re - b.re, self.im - b.im)

    def __neg__(self) -> Pair:
        return Pair(-self.re, -self.im)

    def __mul__(self, other: PairArg) -> Pair:
        if not isinstance(other, (Pair, complex)):
            return Pair(self.re * other, self.im * other)
        b = self._of(other)
        return Pair(self.re * b.re - self.im * b.im, self.re * b.im + self.im * b.re)

    def __truediv__(self, other: PairArg) -> Pair:
        if isinstance(other, complex):
            return self * (1 / other)
        if not isinstance(other, Pair):
            return Pair(self.re / other, self.im / other)
        return self * other.inverse()

    def inverse(self) -> Pair:
        """1 / x, by parts that are divided by the larger one, so that no square overflows."""
        large = self.re.abs().maximum(self.im.abs())
        x, y = self.re / large, self.im / large
        square = (x * x + y * y) * large
        return Pair(x / square, -y / square)

    def conj(self) -> Pair:
        return Pair(self.re, -self.im)

    def absolute(self) -> Term:
        """The absolute value, by the ratio of the parts, whose square cannot overflow."""
        x, y = self.re.abs(), self.im.abs()
        most = x.maximum(y)
        ratio = x.minimum(y) / self._context.where(most.equal(0.0), 1.0, most)
        return most * (ratio * ratio + 1.0).sqrt()

    def exp(self) -> Pair:
        size = self.re.exp()
        return Pair(size * self.im.cos(), size * self.im.sin())

    def log(self) -> Pair:
        return Pair(self.absolute().log(), self.im.atan2(self.re))

    def sqrt(self) -> Pair:
        size = self.absolute()
        re, im = (((size + v).maximum(0.0) * 0.5).sqrt() for v in (self.re, -self.re))
        return Pair(re, self._context.where(self.im < 0.0, -im, im))


PairArg = Pair | complex | Arg


def opened(cx: TorchContext, whole: Term) -> Pair:
    """The pair of a tensor with a last axis of two."""
    last = whole.ndim - 1
    return Pair(*(cx.part(whole, last, k, k + 1).squeeze([last]) for k in (0, 1)))


def paired(cx: TorchContext, value: PairArg, dtype: str) -> Pair:
    """A tensor or number as a pair of a type."""
    if isinstance(value, Pair):
        return Pair(cx.tensor(value.re, dtype), cx.tensor(value.im, dtype))
    if isinstance(value, complex):
        return Pair(cx.tensor(value.real, dtype), cx.tensor(value.imag, dtype))
    re = cx.tensor(value, dtype)
    return Pair(re, cx.filled(re.shape, 0, dtype))


def has_pairs(args: object) -> bool:
    """Whether there is a pair, or a complex number, among arguments."""
    if isinstance(args, (list, tuple)):
        return any(map(has_pairs, args))
    return isinstance(args, (Pair, complex))


def part(args: Any, which: str) -> Any:
    """Arguments with the part "re" or "im" of each pair."""
    if isinstance(args, (list, tuple)):
        return [part(a, which) for a in args]
    if isinstance(args, complex):
        return args.real if which == "re" else args.imag
    return getattr(args, which) if isinstance(args, Pair) else args
