"""Recurrent layers: the steps of RNN, GRU and LSTM over a sequence, in one loop whose cell is fused.

References: Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997; Gers and Schmidhuber, "Recurrent
Nets that Time and Count", 2000 (peepholes); Cho et al., "Learning Phrase Representations using RNN
Encoder-Decoder", 2014.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from .. import tir
from ..base.errors import explain
from ..ir.prim_expr import IntImm, PrimExpr
from ..ir.prim_op import cast, const
from ..tir.expr import BufferLoad
from .core import case, op
from .extents import extents_of, simplify
from .overlap import rows
from .params import Tensor, Tensors
from .statements import long, loops, written

LANES = 16  # of a block of the weight
_ROWS = 4  # of the batch that share one pass over the weight
GATES = {"rnn": 1, "gru": 3, "lstm": 4}
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def _zero(x: PrimExpr | np.ndarray[Any, Any]) -> Any:
    return const(0, x.dtype) if isinstance(x, tir.PrimExpr) else x * 0


def _both(expression: Callable[..., Any], numbers: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *a: (expression if isinstance(a[0], tir.PrimExpr) else numbers)(*a)


_exp, _log = _both(tir.exp, np.exp), _both(tir.log, np.log)
_tanh, _max = _both(tir.tanh, np.tanh), _both(tir.max, np.maximum)
_min, _abs = _both(tir.min, np.minimum), _both(tir.abs, np.abs)
_where = _both(tir.Select, np.where)
_sigmoid = _both(tir.sigmoid, lambda x: 1 / (1 + np.exp(-x)))

# (x, alpha, beta) -> y, and the defaults of alpha and beta; for expressions and for arrays.
ACTIVATIONS: dict[str, tuple[Callable[[Any, float, float], Any], float, float]] = {
    "Sigmoid": (lambda x, a, b: _sigmoid(x), 0, 0),
    "Tanh": (lambda x, a, b: _tanh(x), 0, 0),
    "Relu": (lambda x, a, b: _max(x, _zero(x)), 0, 0),
    "Affine": (lambda x, a, b: x * a + b, 1, 0),
    "LeakyRelu": (lambda x, a, b: _where(x >= 0, x, x * a), 0.01, 0),
    "ThresholdedRelu": (lambda x, a, b: _where(x > a, x, _zero(x)), 1, 0),
    "ScaledTanh": (lambda x, a, b: _tanh(x * b) * a, 1, 1),
    "HardSigmoid": (lambda x, a, b: _max(_min(x * a + b, _zero(x) + 1), _zero(x)), 0.2, 0.5),
    "Elu": (lambda x, a, b: _where(x >= 0, x, (_exp(x) - 1) * a), 1, 0),
    "Softsign": (lambda x, a, b: x / (_abs(x) + 1), 0, 0),
    "Softplus": (lambda x, a, b: _max(x, _zero(x)) + _log(_exp(-_abs(x)) + 1), 0, 0),
}
_COUNT = {"rnn": 1, "gru": 2, "lstm": 3}  # activations of one direction


def _by_bytes(x: np.ndarray) -> np.ndarray:
    """x rounded to bytes: its range, with 0, in 255 steps."""
    low, high = min(x.min(initial=0), 0), max(x.max(initial=0), 0)
    scale = x.dtype.type((high - low) / 255 if high > low else 1)
    zero = np.rint(-low / scale)
    return (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * scale


class _Cell:
    """One step of one element. The numbers are expressions or arrays."""

    def __init__(
        self, kind: str, activations: Sequence[str], alpha: Sequence[float], beta: Sequence[float],
        clip: float, tied: bool,
    ) -> None:  # fmt: skip
        self.kind, self.clip, self.tied = kind, clip, tied
        self.named = [
            (ACTIVATIONS[n][0], float(a), float(b))
            for n, a, b in zip(activations, alpha, beta, strict=True)
        ]

    def act(
        self, direction: int, n: int, x: PrimExpr | np.ndarray[Any, Any], clipped: bool = True
    ) -> Any:
        """The activation number n of a direction."""
        fn, a, b = self.named[direction * _COUNT[self.kind] + n]
        if self.clip > 0 and clipped:
            x = _max(_min(x, _zero(x) + self.clip), _zero(x) - self.clip)
        return fn(x, a, b)

    def lstm(
        self,
        direction: int,
        gates: np.ndarray[Any, Any] | Sequence[PrimExpr],
        cell: BufferLoad | np.ndarray[Any, Any],
        peep: np.ndarray[Any, Any] | Sequence[BufferLoad] | None,
    ) -> tuple[Any, Any]:
        """(hidden, cell) of the sums of the gates i, o, f, c, the cell before, and the weights by
        which i, o, f see it."""
        i, o, f, c = gates
        see = lambda gate, n, value: gate if peep is None else gate + peep[n] * value  # noqa: E731
        i = self.act(direction, 0, see(i, 0, cell))
        f = 1 - i if self.tied else self.act(direction, 0, see(f, 2, cell))
        new = f * cell + i * self.act(direction, 1, c)
        return self.act(direction, 0, see(o, 1, new)) * self.act(direction, 2, new, False), new

    def gru(
        self,
        direction: int,
        gates: Sequence[PrimExpr | np.ndarray[Any, Any]],
        hidden: BufferLoad | np.ndarray[Any, Any],
    ) -> Any:
        """The hidden state of the update's sum, the candidate's, and the state before."""
        z = self.act(direction, 0, gates[0])
        return (1 - z) * self.act(direction, 1, gates[1]) + z * hidden


class _Layer:
    """The statements of `recurrence`. dims: (length, directions, batch, size, blocks). late: the sum of the candidate
    needs another gate, so it follows the others."""

    def __init__(
        self, cell: _Cell, dims: tuple[Any, ...], flip: Sequence[bool], dtype: str, late: bool, rounded: bool,
        has_extra: bool,
    ) -> None:  # fmt: skip
        self.cell, self.flip, self.dtype, self.late, self.rounded = cell, flip, dtype, late, rounded
        self.has_extra, self.gates = has_extra, GATES[cell.kind]
        self.length, self.directions, self.batch, self.size, self.blocks = dims
        single = isinstance(self.batch, IntImm) and self.batch.value == 1
        self.group = 1 if single else _ROWS
        # Sums that do not wait for each other.
        number = self.blocks.value if isinstance(self.blocks, IntImm) else 1
        self.together = 1 if self.group > 1 else next(n for n in (4, 3, 2, 1) if number % n == 0)

    def write(self, ib, x, w, lens, h0, *others):
        """All directions and groups of rows of the batch, in parallel. x, w, lens, h0: the arguments of
        `recurrence`; others: its further ones, then its results."""
        self.ib, self.x, self.w, self.lens, self.h0 = ib, x, w, lens, h0
        left = iter(others)
        self.c0 = next(left) if self.cell.kind == "lstm" else None
        self.extra = next(left) if self.has_extra else None
        self.out, self.last, *self.last_cell = left
        parts = simplify((self.batch + (self.group - 1)) // self.group)
        with ExitStack() as stack:
            d, block = loops(ib, stack, [long(self.directions), parts], parallel=True)
            if self.directions == 1:
                self.run(d, 0, block)
            else:
                with ib.if_scope(d.equal(0)):
                    self.run(d, 0, block)
                with ib.else_scope():
                    self.run(d, 1, block)

    def run(self, d, side, block):
        """The whole sequence of a direction (its index, and as a number) and a group of rows."""
        ib, size, late = self.ib, self.size, self.late
        state, after = ib.allocate(self.dtype, [self.group, size], "state"), None
        sums = ib.allocate(self.dtype, [self.group, self.gates, self.blocks * LANES], "sums")
        reset = ib.allocate(self.dtype, [self.group, size], "reset") if late else None
        if self.cell.kind == "lstm":
            after = ib.allocate(self.dtype, [self.group, size], "cell")
        row = lambda m: tir.min(block * self.group + m, self.batch - 1)  # noqa: E731
        for m in range(self.group):
            with rows(ib, size, "j") as j:
                state[m, j] = self.h0[d, row(m), j]
                if after is not None and self.c0 is not None:
                    after[m, j] = self.c0[d, row(m), j]
        with rows(ib, self.length, "t") as t:
            self.weigh(state, 0, self.gates - 1 if late else self.gates, sums, d)
            at, active = [], []
            for m in range(self.group):
                count = ib.let("count", tir.min(cast("int64", self.lens[row(m)]), self.length))
                active.append(t < count)
                position = tir.Select(active[m], count - 1 - t, t) if self.flip[side] else t
                at.append(ib.let("at", position))
            part = lambda m, n, j: self.x[at[m], d, row(m), j + size * n]  # noqa: E731
            gate = lambda m, n, j: part(m, n, j) + sums[m, n, j]  # noqa: E731
            step = partial(self.step, d, side, part, gate, sums, state, after)
            if reset is not None:
                for m in range(self.group):

                    def opened(j, m=m):
                        reset[m, j] = self.cell.act(side, 0, gate(m, 1, j)) * state[m, j]

                    self.each(opened)
                self.weigh(reset, self.gates - 1, 1, sums, d)
            for m in range(self.group):
                exists = block * self.group + m < self.batch
                valid = [active[m]] if self.group == 1 else [active[m], exists]
                with ib.if_scope(tir.all(*valid)):
                    self.each(partial(step, m))
                    with rows(ib, size, "j") as j:
                        self.out[at[m], d, row(m), j] = state[m, j]
                with ib.else_scope(), ib.if_scope(exists), rows(ib, size, "j") as j:
                    self.out[t, d, row(m), j] = const(0, self.dtype)
        for m in range(self.group):
            exists = block * self.group + m < self.batch
            with ib.if_scope(exists), rows(ib, size, "j") as j:
                self.last[d, row(m), j] = state[m, j]
                if after is not None:
                    for buffer in self.last_cell:
                        buffer[d, row(m), j] = after[m, j]

    def step(self, d, side, part, gate, sums, state, after, m, j):
        """One step of element j of row m. part(m, gate, j): the inputs' part of a gate; gate: with the recurrent one."""
        cell = self.cell
        if cell.kind == "rnn":
            state[m, j] = cell.act(side, 0, gate(m, 0, j))
        elif cell.kind == "lstm":
            extra = self.extra
            peep = None if extra is None else [extra[d, j + self.size * n] for n in range(3)]
            h, c = cell.lstm(side, [gate(m, n, j) for n in range(4)], after[m, j], peep)
            state[m, j] = h  # the cell before is read by this, too
            after[m, j] = c
        else:
            candidate = gate(m, 2, j)
            if not self.late:
                inner = sums[m, 2, j] if self.extra is None else sums[m, 2, j] + self.extra[d, j]
                candidate = part(m, 2, j) + cell.act(side, 0, gate(m, 1, j)) * inner
            state[m, j] = cell.gru(side, [gate(m, 0, j), candidate], state[m, j])

    def weigh(self, state, first, count, sums, d):
        """sums[m, gate, :] = state[m, :] @ weight of `count` gates from `first` on."""
        ib, group = self.ib, range(self.group)
        state = self.by_bytes(state) if self.rounded else state
        blocks = self.blocks // self.together
        with rows(ib, long(count), "gate") as n, rows(ib, blocks, "block") as block:
            gate = n + first
            tiles = [
                (m, block * self.together + s, ib.allocate(self.dtype, LANES, f"tile{m}_{s}"))
                for m in group
                for s in range(self.together)
            ]
            for _, _, tile in tiles:
                with self.lanes() as v:
                    tile[v] = const(0, self.dtype)
            with rows(ib, self.size, "k") as k:
                for m, index, tile in tiles:
                    with self.lanes() as v:
                        tile[v] = tile[v] + state[m, k] * self.w[d, gate, index, k, v]
            for m, index, tile in tiles:
                with self.lanes() as v:
                    sums[m, gate, index * LANES + v] = tile[v]

    def by_bytes(self, state):
        """The state rounded to bytes, as `_by_bytes` does."""
        ib, dtype = self.ib, self.dtype
        rounded = ib.allocate(dtype, [self.group, self.size], "seen")
        ends = ib.allocate(dtype, [2], "ends")
        for m in range(self.group):
            for n in range(2):
                ends[n] = const(0, dtype)
            with rows(ib, self.size, "j") as j:
                ends[0] = tir.min(ends[0], state[m, j])
                ends[1] = tir.max(ends[1], state[m, j])
            apart = ib.let("apart", ends[1] - ends[0])
            scale = ib.let("scale", tir.Select(apart > 0, apart / 255.0, const(1, dtype)))
            zero = ib.let("zero", tir.round((0.0 - ends[0]) / scale))

            def near(j, m=m, scale=scale, zero=zero):
                byte = tir.round(state[m, j] / scale) + zero
                byte = tir.max(tir.min(byte, const(255, dtype)), const(0, dtype))
                rounded[m, j] = (byte - zero) * scale

            self.each(near)
        return rounded

    def each(self, body):
        """body(j) for all elements of a state, in vectors except for the rest."""
        whole = self.size // LANES
        with rows(self.ib, whole, "j") as j, self.lanes() as v:
            body(j * LANES + v)
        if not (isinstance(self.size, IntImm) and self.size.value % LANES == 0):
            with rows(self.ib, self.size - whole * LANES, "j") as j:
                body(whole * LANES + j)

    def lanes(self):
        """The loop over the elements of a vector."""
        return self.ib.for_range(0, LANES, "v", kind="vectorize")


@op("relax.nn.recurrence", alone=True, choices={"kind": GATES, "direction": DIRECTIONS})
def recurrence(
    gates: Tensor, weight: Tensor, lengths: Tensor, states: Tensors, extra: Tensor | None = None,
    kind: str = "lstm", direction: str = "forward", activations: Any = ("Sigmoid", "Tanh", "Tanh"),
    alpha: Any = (0.0, 0.0, 0.0), beta: Any = (0.0, 0.0, 0.0), clip: float = 0.0,
    input_forget: bool = False, linear_before_reset: bool = False, rounded: bool = False,
):  # fmt: skip
    """The steps of a recurrent layer: (states (length, directions, batch, size), the last state
    (directions, batch, size), and for "lstm" the last cell).

    gates (length, directions, batch, gates * size): the inputs' part of the gates, with the biases, in ONNX's
    order (i o f c; z r h). weight (directions, gates, blocks, size, 16): the recurrent one, whose columns, filled
    up with zeros, are in blocks of 16. lengths (batch): of the sequences; states after the end are 0. states: before the first
    step, (directions, batch, size); for "lstm" the cell, too. extra: an LSTM's peepholes (directions, 3 * size), of i,
    o and f; with `linear_before_reset` the bias (directions, size) of the recurrent part of a GRU's candidate.
    activations, with their numbers
    `alpha` and `beta`: those of each direction. clip: the greatest absolute value of their inputs, except for the
    cell that an LSTM outputs, as onnxruntime has it; 0 for any. rounded: the state is rounded to bytes before the
    product with the weight, as in a product of quantized numbers.
    """
    directions, many, flip = len(DIRECTIONS[direction]), GATES[kind], DIRECTIONS[direction]
    length, _, batch, _ = extents_of(gates, "gates", None, directions, None, None)
    _, _, blocks, size, _ = extents_of(weight, "weight", directions, many, None, None, LANES)
    extents_of(weight, "weight", None, None, simplify((size + (LANES - 1)) // LANES), None, None)
    extents_of(gates, "gates", None, None, None, simplify(size * many))
    extents_of(lengths, "lengths", batch)
    dims = (long(directions), batch, size)
    for state in states:
        extents_of(state, "a state", *dims)
    if len(states) != 1 + (kind == "lstm"):
        raise ValueError(explain("an LSTM has two states, others one", got=len(states)))
    if extra is not None:
        extents_of(extra, "extra", directions, simplify(size * (3 if kind == "lstm" else 1)))
    cell = _Cell(kind, activations, alpha, beta, clip, input_forget)
    late = kind == "gru" and not linear_before_reset
    layer = _Layer(cell, (length, directions, batch, size, blocks), flip, str(gates.dtype), late, rounded,
                   extra is not None)  # fmt: skip
    shapes = [(length, long(directions), batch, size), *[dims] * len(states)]
    inputs = [gates, weight, lengths, *states, *([] if extra is None else [extra])]
    return list(written(shapes, inputs, layer.write, [layer.dtype] * len(shapes), "recurrence"))


@recurrence.build
def _(**arguments):
    count = _COUNT[arguments["kind"]] * len(DIRECTIONS[arguments["direction"]])
    names, a, b = (list(arguments[n]) for n in ("activations", "alpha", "beta"))
    if len(names) != count or len(a) != count or len(b) != count:
        what = f"there are {count} activations, each with alpha and beta"
        raise ValueError(explain(what, got=f"{names}, {a} and {b}"))
    unknown = [n for n in names if n not in ACTIVATIONS]
    if unknown:
        hint = ", ".join(ACTIVATIONS)
        raise ValueError(explain("unknown activation", got=unknown[0], instead=hint))
    return arguments


@recurrence.numpy
def _(
    gates, weight, lengths, states, extra=None, kind="lstm", direction="forward",
    activations=("Sigmoid", "Tanh", "Tanh"), alpha=(0.0, 0.0, 0.0), beta=(0.0, 0.0, 0.0), clip=0.0,
    input_forget=False, linear_before_reset=False, rounded=False,
):  # fmt: skip
    flip, (many, blocks, size) = DIRECTIONS[direction], weight.shape[1:4]
    weight = weight.transpose(0, 3, 1, 2, 4).reshape(-1, size, many, blocks * LANES)
    step_of = _Cell(kind, activations, alpha, beta, clip, input_forget)
    see = _by_bytes if rounded else lambda state: state
    out = np.zeros((*gates.shape[:3], size), gates.dtype)
    last, last_cell = np.array(states[0]), np.array(states[-1])
    for d, b in np.ndindex(*last.shape[:2]):
        h, c = last[d, b], last_cell[d, b]
        peep = extra[d].reshape(3, size) if kind == "lstm" and extra is not None else None
        count = min(int(lengths[b]), len(gates))
        for t in range(count - 1, -1, -1) if flip[d] else range(count):
            inputs = gates[t, d, b].reshape(many, size)
            sums = np.einsum("k,kgj->gj", see(h), weight[d, :, :, :size])
            if kind == "rnn":
                h = step_of.act(d, 0, inputs[0] + sums[0])
            elif kind == "lstm":
                h, c = step_of.lstm(d, inputs + sums, c, peep)
            else:
                opened = step_of.act(d, 0, inputs[1] + sums[1])
                if linear_before_reset:
                    inner = opened * (sums[2] + (0 if extra is None else extra[d]))
                else:
                    inner = see(opened * h) @ weight[d, :, 2, :size]
                h = step_of.gru(d, [inputs[0] + sums[0], inputs[2] + inner], h)
            out[t, d, b] = h
        last[d, b], last_cell[d, b] = h, c
    return (out, last, last_cell) if kind == "lstm" else (out, last)


def _packed(directions: int, size: int, many: int) -> np.ndarray:
    rng = np.random.default_rng(7)
    blocks = -(-size // LANES)
    weight = np.zeros((directions, many, size, blocks * LANES), np.float32)
    weight[..., :size] = rng.uniform(-0.5, 0.5, (directions, many, size, size))
    cut = weight.reshape(directions, many, size, blocks, LANES)
    return np.ascontiguousarray(cut.transpose(0, 1, 3, 2, 4))


_LENGTHS = np.array([4, 1, 3, 0, 2])
_TWICE: dict[str, Any] = {"alpha": [0.0] * 6, "beta": [0.0] * 6, "direction": "bidirectional"}
_GRU: dict[str, Any] = {"kind": "gru", "activations": ["Sigmoid", "Tanh"]}
_GRU |= {"alpha": [0.0] * 2, "beta": [0.0] * 2}
_RNN: dict[str, Any] = {"kind": "rnn", "activations": ["Tanh"], "alpha": [0.0], "beta": [0.0]}
recurrence.samples(
    case((4, 1, 5, 12), _packed(1, 3, 4), _LENGTHS, [(1, 5, 3), (1, 5, 3)]),
    case((4, 2, 1, 80), _packed(2, 20, 4), _LENGTHS[:1], [(2, 1, 20), (2, 1, 20)], (2, 60),
         activations=["Sigmoid", "Tanh", "Tanh"] * 2, clip=0.4, input_forget=True, **_TWICE),
    case((4, 1, 5, 48), _packed(1, 16, 3), _LENGTHS, [(1, 5, 16)], direction="reverse", **_GRU),
    case((4, 1, 5, 9), _packed(1, 3, 3), _LENGTHS, [(1, 5, 3)], (1, 3), linear_before_reset=True,
         **_GRU),
    case(("n", 1, 5, 6), _packed(1, 6, 1), _LENGTHS % 3, [(1, 5, 6)], **_RNN),
    case((4, 1, 5, 80), _packed(1, 20, 4), _LENGTHS, [(1, 5, 20), (1, 5, 20)], rounded=True),
)  # fmt: skip
