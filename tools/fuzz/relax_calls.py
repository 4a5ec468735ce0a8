"""How a random valid call of an operator is drawn, from what the operator says of itself.

- one tensor (or two that broadcast) and attributes: any tensor of its dtypes, attributes by their annotations;
- else a sample of the operator with other extents, and attributes of its other samples: inference says
  whether they go together, numpy's meaning whether the numbers do;
- operators whose arguments depend on each other in more ways say it in a function of `relax_moves` or `relax_nn`.

So a new operator is drawn as soon as it has a sample.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np

from loopwright import relax
from loopwright.ops.core import OPERATORS, Case, Operator
from loopwright.ops.params import Param
from loopwright.relax.struct_info import TensorStructInfo, TupleStructInfo

from .build import FLOATS, INTS, NUMBERS, SMALL, Dim, NotHere, Value
from .relax_build import MAKERS, RelaxBuilder
from .varied import Variation, varied

# Not drawn: an index map is a Python function, and random matrices are ill-conditioned. Channels are packed
# where it is known whether there is one, which is then repeated.
LEFT_OUT = {"layout_transform", "linalg.inv"}
LEFT_OUT.add("nn.pack_channels")
LEFT_OUT.add("nn.append_paged")  # overwrites its argument, which other nodes may read
LEFT_OUT |= {f"linalg.{n}" for n in ("lu_factor", "cholesky", "solve_triangular", "qr_factor")}
LEFT_OUT |= {f"linalg.{n}" for n in ("eigh", "svd", "reflect", "permutation", "check")}
LEFT_OUT |= {
    n.removeprefix("relax.") for n in OPERATORS if n.startswith("relax.ccl.")
}  # need others
ANY = [*NUMBERS, "bool", "uint8", "int8"]
# The dtypes of operators that take others than floats.
_ROWS: dict[str, list[str]] = {
    "abs negative square sum prod max min": [*FLOATS, *INTS],
    "cumsum cumprod sort argsort argmax argmin nonzero": ["float32", "float64", *INTS],
    "add subtract multiply maximum minimum": [*NUMBERS, *SMALL],
    "equal not_equal less less_equal greater greater_equal": [*NUMBERS, *SMALL],
    "floor_divide mod floor_mod": ["float32", *INTS, *SMALL],
    "logical_and logical_or logical_xor logical_not": ["bool"],
    "bitwise_and bitwise_or bitwise_xor bitwise_not left_shift right_shift": [*INTS, *SMALL],
    "flip repeat flatten tril triu zeros_like ones_like": ANY,
    "meshgrid outer": NUMBERS,
    "eye_like": ANY,
    "variance std mean": ["float32", "float32", "float64", "float16"],
}
TAKES = {name: dtypes for names, dtypes in _ROWS.items() for name in names.split()}
# The numbers that a second operand is drawn from.
SECOND: dict[str, tuple[int, int]] = dict.fromkeys(("floor_divide", "mod", "floor_mod"), (1, 7))
SECOND |= {"power": (-2, 3), "left_shift": (0, 7), "right_shift": (0, 7)}
# Values of attributes and numbers beside those of samples.
VALUES: dict[str, list[Any]] = {
    "nn.leakyrelu.alpha": [0.1, 0.0, 2.0],
    **{f"{name}.dtype": INTS for name in ("argsort", "multinomial_from_uniform")},
    "wrap_param.dtype": ["float32", "float64"],
    "repeat.repeats": [1, 2, 3],
    "k": [-3, -2, -1, 0, 1, 2, 9],
    **{f"{n}.dtype": [*NUMBERS, "bool"] for n in ("zeros_like", "ones_like", "eye", "eye_like")},
}
# Steps of a result of floats: a rounding of what is before must not decide on which side it falls.
STEPS = {"floor", "ceil", "round", "trunc", "sign", "floor_divide", "mod", "floor_mod"}
# A pole is on one side.
STEPS |= {n.removeprefix("relax.") for n in OPERATORS if n.startswith("relax.special.")}
FILLED = {"max", "min", "argmax", "argmin"}  # nothing is the greatest of none
RANKS = {"tril": (2, 4), "triu": (2, 4), "eye_like": (2, 2)}
SHAPED = {"linalg.det", "quantize_scale", "random.threefry_split", "ml.couple_pairs"}
SHAPED |= {"nn.pack_weight"}
AS_THEY_ARE = {
    "nn.matmul_packed"
}  # takes the sums of its rows, which numpy's meaning adds up itself
FIXED = {"grad.nll_loss_backward.reduction"}  # it decides the rank of the gradient that comes in
# Annotations of attributes that have values of their own, or of samples.
DERIVED = {"bool", "Axis", "Axes", "DType", "float", "str"}


def draw(g: RelaxBuilder, name: str) -> None:
    """Add a call of an operator. Raises NotHere where this graph has no place for it, and Refused where a
    call that is valid was refused."""
    operator = OPERATORS[f"relax.{name}"]
    kinds = [p.kind for p in operator.graph_params]
    if name in MAKERS:
        MAKERS[name](g)
    elif operator.takes_scalars and len(kinds) == 2:
        _of_two(g, name, operator)
    elif kinds[0] == "Tensor" and set(kinds[1:]) <= {"Prim"} and name not in SHAPED and all(
        p.annotation in DERIVED or f"{name}.{p.name}" in VALUES or p.name == "axis"
        for p in operator.attr_params
    ):  # fmt: skip
        _of_one(g, name, operator)
    else:
        whole = name in AS_THEY_ARE
        varied(g, lambda share: _Varied(g, name, operator, 0 if whole else share).add())


@functools.cache
def _jumps(name: str, operator: Operator) -> bool:
    """Whether floats before a call must be exact: the result is of whole numbers, or has steps."""
    x = relax.Var("x", TensorStructInfo([2, 3], TAKES.get(name, FLOATS)[0]))
    arguments = [x for p in operator.graph_params if p.kind == "Tensor"]
    attrs = {p.name: _said(name, operator, p)[0] for p in operator.attr_params if not p.optional}
    info = relax.BlockBuilder().normalize(operator.builder(*arguments, **attrs)).struct_info
    infos = info.fields if isinstance(info, TupleStructInfo) else [info]
    return name in STEPS or any(i.dtype.is_integer or i.dtype.is_bool for i in infos)


def _of_two(g: RelaxBuilder, name: str, operator: Operator) -> None:
    """Of two tensors that broadcast."""
    exact, second = _jumps(name, operator), SECOND.get(name)
    v = g.pick(TAKES.get(name, FLOATS), exact=exact, finite=name == "power")
    if second is None:
        pair = [v, g.mate(v)]
        g.rng.shuffle(pair)
    else:
        zeros = name in STEPS and v.dtype in INTS and g.rng.random() < 0.3  # the result is 0
        pair = [v, g.mate(v, low=-2 if zeros else second[0], high=second[1])]
    if exact and not all(v.exact for v in pair):
        raise NotHere
    g.call(name, *pair)


def _of_one(g: RelaxBuilder, name: str, operator: Operator) -> None:
    """Of one tensor of any rank, with attributes by their annotations."""
    an_axis = any("Ax" in p.annotation or p.name == "axis" for p in operator.attr_params)
    v = g.pick(
        TAKES.get(name, FLOATS),
        RANKS.get(name, (int(an_axis), 4)),
        exact=_jumps(name, operator),
        least=int(name in FILLED),
        # A checkpoint marks no constant.
        where=lambda v: "checkpoint" not in name or v.name not in g.case.weights,
    )
    more = [{"dims": g.rng.choice(VALUES[p.name])} for p in operator.graph_params[1:]]
    attrs = {p.name: _attribute(g, name, operator, p, v.rank) for p in operator.attr_params}
    g.call(name, v, *more, **attrs)


def _said(name: str, operator: Operator, p: Param) -> list[Any]:
    """The values of an attribute that samples have, and its default."""
    said = [c.attrs[p.name] for c in operator.cases if p.name in c.attrs]
    if p.name == "dtype":
        said += [c.dtype for c in operator.cases]
    plain = json.loads(json.dumps([*said, *([p.default] if p.optional else [])], default=str))
    return [v for k, v in enumerate(plain) if v not in plain[:k]]


def _attribute(g: RelaxBuilder, name: str, operator: Operator, p: Param, rank: int) -> Any:
    """A value of an attribute: any that its type has, or one of the samples."""
    listed = VALUES.get(f"{name}.{p.name}", _said(name, operator, p))
    if p.annotation == "bool":
        return g.rng.random() < 0.5
    if p.annotation == "Axes" and p.default is None:
        axes = g.rng.sample(range(rank), g.rng.randint(1, rank))
        some = [a - rank if g.rng.random() < 0.4 else a for a in axes]
        return None if g.rng.random() < 0.2 else some
    if p.annotation == "Axis" or p.name == "axis":
        flat = None in listed and g.rng.random() < 0.3
        return None if flat else g.rng.randrange(-rank, rank)
    return g.rng.choice(listed)


class _Varied(Variation):
    """A call like a sample of an operator."""

    def __init__(self, g: RelaxBuilder, name: str, operator: Operator, share: float) -> None:
        super().__init__(g, share)
        self.graph, self.name, self.operator = g, name, operator
        self.seen: set[Dim] = set()  # extents of tensors
        self.case: Case = g.rng.choice(operator.cases)
        self.attribute = any(p.name == "dtype" for p in operator.attr_params)
        self.dtype = "float32" if self.attribute else self.case.dtype
        if name in TAKES and self.changes():
            self.dtype = g.rng.choice(TAKES[name])

    def add(self) -> None:
        params = self.operator.graph_params
        args = [self.argument(p, a) for p, a in zip(params, self.case.args, strict=False)]
        attrs = {**({"dtype": self.case.dtype} if self.attribute else {}), **self.case.attrs}
        rank = args[0].rank if args and isinstance(args[0], Value) else 0
        for p in self.operator.attr_params:
            fixed = f"{self.name}.{p.name}" in FIXED
            if not fixed and self.changes() and (rank or "Ax" not in p.annotation):
                attrs[p.name] = _attribute(self.graph, self.name, self.operator, p, rank)
        self.graph.call(self.name, *args, **json.loads(json.dumps(attrs)))

    def argument(self, p: Param, given: Any) -> Any:
        if given is None:
            return None
        if p.kind in ("Tensor", "Tensors"):
            made = [self.tensor(t) for t in (given if p.kind == "Tensors" else [given])]
            self.seen |= {d for v in made if isinstance(v, Value) for d in v.shape}
            return made if p.kind == "Tensors" else made[0]
        if p.kind == "Shape":
            shape = [self.extent(d) for d in given]
            if any(len(set(d)) > 1 and d not in self.seen for d in shape):
                raise NotHere  # no tensor has this extent
            return {"dims": [self.g.text(d) for d in shape]}
        if p.kind == "Prim" and self.changes():
            position = self.operator.graph_params.index(p)
            said = [c.args[position] for c in self.operator.cases if len(c.args) > position]
            given = self.g.rng.choice(said)
        return {"dims": given}

    def tensor(self, given: Any) -> Any:
        """A tensor of the sample: given by its numbers, or by a shape."""
        if isinstance(given, (np.ndarray, np.generic)):
            return self.array(np.asarray(given))
        low, high = self.case.low, self.case.high
        if (low, high) != (-2.0, 2.0):
            return self.g.new(self.dtype, [*map(self.extent, given)], low=low, high=high)
        return self.taken(given, self.dtype) or self.g.new(self.dtype, [*map(self.extent, given)])
