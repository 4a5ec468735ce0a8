"""The docstring of an operator's builder, composed from the definition when it is read.

`help(relax.op.nn.conv2d)` shows the sentence of the definition, the parameters, a call of the test matrix
as TVMScript with the inferred type, and the errors of wrong operands. These come from trying them: the
same call with another dtype, rank, extent or value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import relax
from ..base.errors import LoopwrightError
from ..relax.block_builder import BlockBuilder
from ..relax.struct_info import TensorStructInfo

if TYPE_CHECKING:
    from .core import Case, Operator
    from .params import Param

# The values of a parameter, by the word in its definition.
KINDS = {
    "Tensor": "a tensor", "Scalar": "a tensor of rank 0, or a number", "Operand": "a tensor or a number",
    "Value": "any value", "Tensors": "tensors", "Shape": "a shape", "Prim": "a number",
    "Prims": "numbers", "Callee": "a function", "DType": "a dtype", "Axis": "an axis",
    "Axes": "an axis or axes", "Ints": "an integer or several",
    "Sections": "a number of parts, or the indices where they begin", "int": "an integer",
    "float": "a number", "bool": "True or False", "str": "a string",
}  # fmt: skip
# Parts of a definition besides its loops, by the attribute of its Op.
FACTS = {
    "FPrimalGradient": "a gradient",
    "FNumpy": "a numpy reference",
    "FRelaxInferLayout": "layouts",
}


def sample(operator: Operator) -> Case | None:
    """The first sample of the test matrix without symbolic sizes."""

    def is_static(value: object) -> bool:
        items = value if isinstance(value, (list, tuple)) else ()
        return not isinstance(value, str) and all(map(is_static, items))

    return next((case for case in operator.cases if is_static(case.args)), None)


def call(
    operator: Operator, case: Case, dtypes: dict[str, str], shapes: dict[str, Any], **attrs: Any
) -> relax.Function:
    """A function with one call of a sample; dtypes, shapes: by parameter, instead of the sample's.
    Raises as the builder and inference do."""
    has_dtype = any(p.name == "dtype" for p in operator.attr_params)  # then it is not the operands'
    params: list[relax.Var] = []

    def tensor(name: str, value: Any) -> relax.Expr:
        if isinstance(value, np.generic):
            return relax.const(np.asarray(value))
        if isinstance(value, relax.Constant):
            return value
        own = "float32" if has_dtype else case.dtype
        shape, dtype = (
            (value.shape, str(value.dtype)) if isinstance(value, np.ndarray) else (value, own)
        )
        info = TensorStructInfo(shapes.get(name, shape), dtypes.get(name, dtype))
        params.append(relax.Var(name, info))
        return params[-1]

    def argument(p: Param, value: Any) -> Any:
        if p.kind == "Tensors":
            return [tensor(f"{p.name}{i}", item) for i, item in enumerate(value)]
        return tensor(p.name, value) if p.kind == "Tensor" else value

    args = {p.name: argument(p, v) for p, v in zip(operator.graph_params, case.args, strict=False)}
    attrs = ({"dtype": case.dtype} if has_dtype else {}) | case.attrs | attrs
    built = BlockBuilder().normalize(operator.builder(**args, **attrs))
    return relax.Function(params, built, built.struct_info).with_attr("global_symbol", "main")


def example(operator: Operator) -> str:
    """The call of the sample as a function in TVMScript, with the inferred type."""
    case = sample(operator)
    text = "" if case is None else call(operator, case, {}, {}).script().partition("\n\n")[2]
    return "\n".join(map(_wrapped, text.strip().splitlines()))


def _wrapped(line: str) -> str:
    """A line of a program, broken in front of parameters."""
    head, arrow, result = line.partition(" -> ")
    more = line[: len(line) - len(line.lstrip())] + " " * 8
    head = re.sub(r" (?!(?!dtype=)\w+[:=])", "\0", head)  # spaces that stay
    filled = fill(head, 92, subsequent_indent=more, break_long_words=False, break_on_hyphens=False)
    return f"{filled}{arrow}{result}".replace("\0", " ")


def describe(operator: Operator) -> str:
    """The full docstring of an operator."""
    text = [operator.__doc__ or "", ""]
    text += [described(operator, p) for p in operator.params]
    case = sample(operator)
    if case is not None:
        text += ["", "Example::", "", indent(example(operator), "    "), ""]
        text += [*tried(operator, case), ""]
    has = [fact for key, fact in FACTS.items() if operator.op.has_attr(key)]
    dtypes = sorted({case.dtype for case in operator.cases})
    text.append(f"Tested with {', '.join(dtypes)}. Has {', '.join(has) or 'no gradient'}.")
    return "\n".join(text)


def described(operator: Operator, p: Param) -> str:
    """A parameter: what it takes, its default."""
    allowed = operator.choices.get(p.name)
    kind = f"one of {', '.join(map(repr, allowed))}" if allowed else KINDS.get(p.annotation)
    default = f", {p.default!r} by default" if p.optional else ""
    return f"{p.name}: {kind or 'a value'}{default}."


def tried(operator: Operator, case: Case) -> Iterator[str]:
    """The errors of a sample with wrong operands and values, a line for each."""
    shaped = {
        p.name: value
        for p, value in zip(operator.graph_params, case.args, strict=False)
        if p.kind == "Tensor" and isinstance(value, tuple)
    }
    other = "float32" if "int" in case.dtype else "int32"
    changes: list[tuple[str, dict[str, str], dict[str, Any], dict[str, str]]] = []
    if shaped:
        changes.append((f"operands of {other}", dict.fromkeys(shaped, other), {}, {}))
    for name, shape in shaped.items():
        changes.append((f"{name} of another rank", {}, {name: (*shape, 2)}, {}))
        if shape and len(shaped) > 1:
            wider = (*shape[:-1], shape[-1] + 1)
            changes.append((f"{name} of another extent", {}, {name: wider}, {}))
            changes.append((f"{name} of another dtype", {name: "float64"}, {}, {}))
    changes += [(f"another {name}", {}, {}, {name: "?"}) for name in operator.choices]
    seen: set[str] = set()
    for what, dtypes, shapes, attrs in changes:
        try:
            call(operator, case, dtypes, shapes, **attrs)
        except (ValueError, TypeError, LoopwrightError) as error:
            message = str(error).partition("\n")[0].removeprefix(f"{operator.name}: ")
            kind = next(k for k in (TypeError, ValueError, LoopwrightError) if isinstance(error, k))
            if message not in seen:
                yield f"Raises {kind.__name__} for {what}: {message}."
            seen.add(message)
