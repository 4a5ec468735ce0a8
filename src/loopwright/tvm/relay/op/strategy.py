"""Implementations of a strategy from functions of topi: `wrap_compute_conv2d(topi.nn.conv2d_nchw)`.

The attributes of a call that a function takes, in their order, are a row of `TAKES`:
`relay.op.strategy.wrap_compute_<row>`. A word `name?option` is given only with that option.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .... import te
from ....base.errors import explain
from ....ir.target import Target
from ...generic_func import GenericFunc
from ..operators import ROWS
from ..strategy import STRATEGY, default_strategy

if TYPE_CHECKING:
    from ....ir.expr import Attrs
    from ....te.tensor import Tensor
    from ..types import Type

# "out_dtype": the result's dtype, the first argument's where the attribute is empty. "-": None.
TAKES: dict[str, str] = {
    "batch_matmul": "shape dtype?need_out_dtype transpose_a transpose_b",
    "conv1d": "strides padding dilation out_dtype",
    "conv1d_transpose": "strides padding out_dtype output_padding groups?has_groups",
    "conv2d": """strides padding dilation groups?has_groups data_layout?need_data_layout
        kernel_layout?need_kernel_layout out_layout?need_out_layout out_dtype""",
    "conv2d_transpose": """strides padding out_dtype output_padding data_layout?add_layout
        groups?has_groups""",
    "conv3d": "strides padding dilation groups data_layout?need_layout out_dtype",
    "conv3d_transpose": "strides padding out_dtype output_padding groups?has_groups",
    "deformable_conv2d": "strides padding dilation deformable_groups groups out_dtype",
    "dense": "- out_dtype",
    "dilation2d": "strides padding dilations data_layout?need_data_layout out_dtype",
    "group_conv1d": "strides padding dilation groups out_dtype",
    "matmul": "- out_dtype transpose_a transpose_b",
    "softmax": "axis",
}
# Options of TVM that request layouts found by its searches; Loopwright has no such layouts.
_SEARCHES = ("need_auto_scheduler_layout", "need_meta_schedule_layout")


def wrap_topi_compute(topi_compute: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the inputs alone as the compute of an implementation."""

    def compute(attrs: Attrs, inputs: Sequence[Any], out_type: Type) -> Any:
        return _results(topi_compute(*inputs))

    return compute


def wrap_topi_schedule(topi_schedule: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the results alone as the schedule of an implementation."""

    def schedule(attrs: Attrs, outs: Sequence[Tensor], target: Target) -> Any:
        with Target(target):
            return topi_schedule(outs)

    return schedule


def wrap_compute_concat(topi_compute: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a list of inputs and an axis as the compute of an implementation."""

    def compute(attrs: Attrs, inputs: Sequence[Any], out_type: Type) -> Any:
        return _results(topi_compute(list(inputs), attrs.axis))

    return compute


def _results(outputs: Tensor | Sequence[Tensor | int]) -> list[Any]:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _value_of(word: str, attrs: Attrs, inputs: Sequence[Any], out_type: Type) -> Any:
    """The value that a word of a row names."""
    if word == "-":
        return None
    if word in ("shape", "dtype"):
        return getattr(out_type, word)
    value = attrs[word]
    if word == "out_dtype" and value in ("", "same", None):
        return inputs[0].dtype
    return value


def _wrapper(name: str, row: str) -> Callable[..., Any]:
    words = [word.partition("?") for word in row.split()]
    option_names = [option for _, _, option in words if option]

    def wrap(
        topi_compute: Callable[..., Any], *positional: Any, **options: bool
    ) -> Callable[..., Any]:
        options = {**dict(zip(option_names, positional, strict=False)), **options}
        unknown = set(options) - {*option_names, *_SEARCHES}
        if unknown or len(positional) > len(option_names):
            what = f"wrap_compute_{name} has no option {sorted(unknown) or positional}"
            raise TypeError(explain(what, instead=f"it has {option_names}"))
        for option in _SEARCHES:
            if options.get(option):
                what = "layouts of searches are not supported"
                raise NotImplementedError(explain(what, got=option, instead="leave it out"))

        def compute(attrs: Attrs, inputs: Sequence[Any], out_type: Type) -> Any:
            args = list(inputs)
            for word, _, option in words:
                if option and not options.get(option):
                    args += [None] if word == "dtype" else []  # its place is kept
                    continue
                args.append(_value_of(word, attrs, inputs, out_type))
            return _results(topi_compute(*args))

        return compute

    wrap.__name__ = wrap.__qualname__ = f"wrap_compute_{name}"
    signature = ", ".join("None" if word == "-" else word for word, _, _ in words)
    wrap.__doc__ = (
        f"A function of the inputs and ({signature}) as the compute of an implementation."
    )
    return wrap


for _name, _row in TAKES.items():
    globals()[f"wrap_compute_{_name}"] = _wrapper(_name, _row)


# ---------------------------------------------------------------------- strategies of operators


def _schedule(attrs: Attrs, outs: Sequence[Tensor], target: Target) -> Any:
    """A schedule without steps: the default rules make it."""
    tensors = [outs] if isinstance(outs, te.Tensor) else list(outs)
    return te.create_schedule([out.op for out in tensors])


def _strategy(name: str) -> GenericFunc | None:
    """The strategy of the operator `name`, to which versions for targets can be registered. It is
    the operator's own if that is generic; else it becomes it, where the operator has none."""
    prefixes = ("nn.", "", "vision.", "image.", "nn.contrib_")
    row = next((ROWS[prefix + name] for prefix in prefixes if prefix + name in ROWS), None)
    if row is None:
        return None
    own = row.op.get_attr(STRATEGY)
    if isinstance(own, GenericFunc):
        return own
    generic = GenericFunc(f"{name}_strategy", lambda *about: default_strategy(row))
    if own is None:
        row.op.set_attr(STRATEGY, generic)
    return generic


def __getattr__(name: str) -> Any:
    """`dense_strategy`, `schedule_dense`: as the operators are called."""
    if name.startswith("schedule_"):
        return _schedule
    strategy = _strategy(name.removesuffix("_strategy")) if name.endswith("_strategy") else None
    if strategy is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return strategy
