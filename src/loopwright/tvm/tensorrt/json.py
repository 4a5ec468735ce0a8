"""Each region of a graph as a network description for TensorRT, in JSON.

    trt = tensorrt(fp16=True)
    mod = relax.byoc.partition(mod, trt)
    mod = relax.transform.RunCodegen(backends=[trt])(mod)
    for network in mod.attrs["external_mods"][0].networks.values():
        network.save("out")           # out/NAME.json, out/NAME.npz

An example of a graph-level back end: the code generator is given the functions of its regions and
returns a module with a function for each. A description has the builder's options, the tensors and
weights by name, and layers with TensorRT's names and parameters; `network.LAYERS` lists them,
`network.Network` reads it back.

TensorRT itself is not included: the option `runner` is a function (description, weights) ->
function of the inputs that returns the results. `reference=True` selects one in numpy, for tests;
without either, calling a region raises an error.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain, suggest
from ...ir.dtype import DataType
from ...ir.expr import Extent
from ...ir.prim_expr import IntImm
from ...relax.byoc import Backend
from ...relax.dpl import is_const, is_op, is_tuple_get_item, wildcard
from ...relax.dpl.nodes import CallPattern
from ...relax.expr import Call, Constant, Expr, Function, PrimValue, Tuple, TupleGetItem, Var
from ...relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from ...relax.transform.fuse.fuse_ops_by_pattern import COMPOSITE, PatternCheckContext
from ...runtime.module import Module
from .network import FORMAT, Network

NAME = "tensorrt"
OPTIONS = {"fp16": False, "max_workspace": 1 << 30, "reference": False, "runner": None}
FLOATS = ("float32", "float16")

ACTIVATIONS = {
    "relax.nn.relu": "RELU",
    "relax.sigmoid": "SIGMOID",
    "relax.tanh": "TANH",
    "relax.nn.leakyrelu": "LEAKY_RELU",
    "relax.clip": "CLIP",
}
ELEMENTWISE = {
    "relax.add": "SUM",
    "relax.subtract": "SUB",
    "relax.multiply": "PROD",
    "relax.divide": "DIV",
    "relax.maximum": "MAX",
    "relax.minimum": "MIN",
    "relax.power": "POW",
}
UNARY = {f"relax.{n}": n.upper() for n in ("exp", "log", "sqrt", "abs", "floor", "ceil", "erf")}
UNARY["relax.negative"] = "NEG"
REDUCTIONS = {"relax.sum": "SUM", "relax.mean": "AVG", "relax.max": "MAX", "relax.min": "MIN"}
RESHAPES = ("relax.reshape", "relax.flatten", "relax.squeeze", "relax.expand_dims")
POOLING = {"relax.nn.max_pool2d": "MAX", "relax.nn.avg_pool2d": "AVERAGE"}


# ---------------------------------------------------------------------- matching


def patterns() -> list[Any]:
    """Larger patterns first, single operators last."""
    rows: list[Any] = []
    for tail in ACTIVATIONS:
        short = tail.rpartition(".")[2]
        rows.append((f"{NAME}.conv2d_bias_{short}", _activated(tail, _biased(_convolution()))))
        rows.append((f"{NAME}.matmul_bias_{short}", _activated(tail, _biased(_product()))))
        rows.append((f"{NAME}.conv2d_{short}", _activated(tail, _convolution())))
    rows.append((f"{NAME}.conv2d_bias", _biased(_convolution())))
    rows.append((f"{NAME}.matmul_bias", _biased(_product())))
    rows.append((f"{NAME}.conv2d", _convolution()))
    rows.append(
        (f"{NAME}.conv2d_transpose", is_op("relax.nn.conv2d_transpose")(wildcard(), is_const()))
    )
    normalized = is_op("relax.nn.batch_norm")(wildcard(), *(is_const() for _ in range(4)))
    rows.append((f"{NAME}.batch_norm", is_tuple_get_item(normalized, 0)))
    for op in EMIT:
        if op not in ("relax.nn.conv2d", "relax.nn.conv2d_transpose", "relax.nn.batch_norm"):
            short = op.rpartition(".")[2]
            rows.append((f"{NAME}.{short}", is_op(op)(varg_default_wildcard=True)))
    return [(name, pattern, {}, _is_supported) for name, pattern in rows]


def _activated(op: str, inner: CallPattern) -> Any:
    rest = [wildcard(), wildcard()] if op == "relax.clip" else []
    return is_op(op)(inner, *rest)


def _biased(inner: CallPattern) -> Any:
    return is_op("relax.add")(inner, is_const())


def _convolution() -> Any:
    return is_op("relax.nn.conv2d")(wildcard(), is_const())


def _product() -> Any:
    return is_op("relax.matmul")(wildcard(), wildcard())


def _is_supported(match: PatternCheckContext) -> bool:
    """Whether TensorRT has layers for everything matched: floats of known rank."""
    calls = [v for v in match.matched_bindings.values() if isinstance(v, Call)]
    return all(_takes(call) for call in calls) and _bias_fits(calls)


def _takes(call: Call) -> bool:
    infos = [t.struct_info for t in _tensors(call)] + [_result(call)]
    for info in infos:
        if not isinstance(info, TensorStructInfo) or str(info.dtype) not in FLOATS:
            return False
        if info.get_shape() is None:
            return False
    condition = CONDITIONS.get(call.op.name)
    return condition is None or condition(call)


def _result(call: Call) -> Any:
    """The type of a call's first result."""
    info = call.struct_info
    return info.fields[0] if isinstance(info, TupleStructInfo) else info


def _bias_fits(calls: Sequence[Call]) -> bool:
    """Whether a convolution's bias is one number per channel."""
    if calls[0].op.name != "relax.nn.conv2d" or len(calls) == 1 or calls[1].op.name != "relax.add":
        return True
    channels = _dims(calls[0].struct_info)[1]
    shape = _dims(calls[1].args[1].struct_info)
    return shape in ([1, channels, 1, 1], [channels, 1, 1])


CONDITIONS: dict[str, Callable[[Call], bool]] = {
    "relax.nn.conv2d": lambda c: (
        isinstance(c.args[1], Constant)
        and (c.attrs.data_layout, c.attrs.kernel_layout, c.attrs.out_layout)
        == ("NCHW", "OIHW", "NCHW")
    ),
    "relax.nn.conv2d_transpose": lambda c: (
        (c.attrs.data_layout, c.attrs.kernel_layout, c.attrs.out_layout) == ("NCHW", "IOHW", "NCHW")
        and not any(int(p) for p in c.attrs.output_padding)
    ),
    "relax.nn.batch_norm": lambda c: not c.attrs.training,
    "relax.matmul": lambda c: min(a.struct_info.ndim for a in c.args) >= 2 and _aligned(c),
    **dict.fromkeys(ELEMENTWISE, lambda c: _aligned(c)),
    **dict.fromkeys(RESHAPES, lambda c: _one_free(c.struct_info)),
    **dict.fromkeys(POOLING, lambda c: c.attrs.layout == "NCHW" and _ones(c.attrs.dilation)),
    "relax.nn.adaptive_avg_pool2d": lambda c: (
        c.attrs.layout == "NCHW" and _ones(c.attrs.output_size)
    ),
    "relax.clip": lambda c: all(math.isfinite(_number(a)) for a in c.args[1:]),
}


def _number(scalar: PrimValue) -> float:
    """The value of a scalar argument; NaN if it is not a number."""
    return float(getattr(scalar.value, "value", math.nan))


def _ones(values: Sequence[Extent]) -> bool:
    return all(int(v) == 1 for v in values or ())


def _tensors(call: Call) -> list[Any]:
    """The tensor arguments of a call, including those in tuples."""
    flat = [f for a in call.args for f in (a.fields if isinstance(a, Tuple) else (a,))]
    return [a for a in flat if isinstance(a, (Var, Constant, Call, TupleGetItem))]


def _dims(info: StructInfo) -> list[Any]:
    """The extents of a tensor: numbers, and the names of symbolic ones."""
    return [d.value if isinstance(d, IntImm) else str(d) for d in info.get_shape()]


def _target(shape: Sequence[Any]) -> list[int]:
    """The target shape of a reshape: an extent known only at run time is -1."""
    return [d if isinstance(d, int) else -1 for d in shape]


def _one_free(*infos: StructInfo) -> bool:
    """Whether tensors can be reshaped: at most one extent of each is known only at run time."""
    return all(_target(_dims(info)).count(-1) <= 1 for info in infos)


def _aligned(call: Call) -> bool:
    """Whether the operands can be broadcast to the result's rank."""
    infos = [a.struct_info for a in call.args]
    return all(i.ndim == call.struct_info.ndim or _one_free(i) for i in infos)


# ---------------------------------------------------------------------- descriptions


class Describer:
    """Writes the description of one region, operator by operator."""

    def __init__(self, symbol: str, options: Mapping[str, Any], names: Mapping[Any, str]) -> None:
        self.symbol = symbol
        self.options = options
        self.names = names
        self.tensors: dict[str, dict[str, Any]] = {}
        self.weights: dict[str, np.ndarray] = {}
        self.layers: list[dict[str, Any]] = []
        self.local: dict[Var, Function] = {}

    def describe(self, func: Function) -> Network:
        """The network of a region's function."""
        args = [self.input(p.name_hint, p.struct_info) for p in func.params]
        result = self.body(func, args)
        outputs = [self.value(o) for o in (result if isinstance(result, list) else [result])]
        flags = ["FP16"] if self.options["fp16"] else []
        text = {
            **FORMAT,
            "name": self.symbol,
            "builder": {"flags": flags, "max_workspace": int(self.options["max_workspace"])},
            "inputs": [a for a in args if a is not None],
            "outputs": outputs,
            "tensors": self.tensors,
            "weights": {
                name: {"dtype": str(w.dtype), "shape": list(w.shape)}
                for name, w in self.weights.items()
            },
            "layers": self.layers,
        }
        return Network(text, self.weights)

    def body(self, func: Function, args: Sequence[Any]) -> Any:
        """Emit a function's operators; return the names of its results."""
        values: dict[Any, Any] = dict(zip(func.params, args, strict=True))
        biased = "conv2d_bias" in str(func.attrs.get(COMPOSITE, ""))

        def look(expr: Expr) -> Any:
            if isinstance(expr, Tuple):
                return [look(f) for f in expr.fields]
            if isinstance(expr, TupleGetItem):
                return look(expr.tuple_value)[expr.index]
            return values[expr] if isinstance(expr, Var) else expr

        for binding in (b for block in func.body.blocks for b in block.bindings):
            value = binding.value
            if isinstance(value, Function):
                self.local[binding.var] = value
            elif isinstance(value, Call) and value.op in self.local:
                values[binding.var] = self.body(self.local[value.op], [look(a) for a in value.args])
            elif isinstance(value, Call) and biased and value.op.name == "relax.add":
                values[binding.var] = self.bias(value)
            elif isinstance(value, Call):
                values[binding.var] = self.operator(value, [look(a) for a in value.args])
            else:
                values[binding.var] = look(value)
        return look(func.body.body)

    def operator(self, call: Call, args: list[Any]) -> Any:
        """Emit the layers of an operator; return the name of its result, or a list of names."""
        emit = EMIT.get(call.op.name)
        if emit is None:
            what = f"the back end {NAME} has no layer for {call.op.name}"
            hint = f"one of {', '.join(EMIT)}"
            raise LoopwrightError(explain(what, instead=hint, span=call.span))
        return emit(self, call, args)

    def layer(
        self,
        kind: str,
        inputs: list[str],
        dtype: DataType | str,
        shape: Sequence[Any],
        **params: str | float | Sequence[int] | None,
    ) -> str:
        """Emit a layer; return the name of its result."""
        name = f"{kind.lower()}_{len(self.layers)}"
        self.tensors[name] = {"dtype": str(dtype), "shape": list(shape)}
        fields = {"name": name, "type": kind, "inputs": inputs, "outputs": [name], "weights": {}}
        fields["precision"] = "float16" if self.options["fp16"] else str(dtype)
        self.layers.append({**fields, "params": params})
        return name

    def of(
        self, call: Call, kind: str, inputs: list[str], **params: str | float | Sequence[int] | None
    ) -> str:
        """Emit the layer of an operator; return the name of its result."""
        info = _result(call)
        name = self.layer(kind, inputs, info.dtype, _dims(info), **params)
        if call.span is not None:
            self.layers[-1]["source"] = str(call.span)
        return name

    def input(self, hint: str, info: StructInfo) -> str | None:
        """Declare an input and return its name; a shape argument is also in the shapes of
        tensors."""
        if not isinstance(info, TensorStructInfo):
            return None
        name = hint
        while name in self.tensors:
            name += "_"
        self.tensors[name] = {"dtype": str(info.dtype), "shape": _dims(info)}
        return name

    def weight(self, role: str, constant: Constant, shape: Sequence[int]) -> None:
        """Give the last layer the constant as a weight."""
        self.values(role, self.names[constant], constant.data.numpy().reshape(shape))

    def values(self, role: str, name: str, values: np.ndarray) -> None:
        """Give the last layer a weight with these values."""
        self.layers[-1]["weights"][role] = name
        self.weights[name] = values
        if self.options["fp16"] and values.size and np.abs(values).max() > 65504:
            self.layers[-1]["precision"] = "float32"  # it would overflow float16

    def bias(self, add: Call) -> str:
        """The bias of the convolution that an addition follows."""
        self.weight("bias", add.args[1], [-1])
        return self.layers[-1]["outputs"][0]

    def value(self, operand: Constant | str, rank: int = 0) -> str:
        """The tensor of an operand, its shape padded with leading ones to `rank`."""
        constant = isinstance(operand, Constant)
        shape = _dims(operand.struct_info) if constant else self.tensors[operand]["shape"]
        full = [1] * (rank - len(shape)) + shape
        if constant:
            name = self.layer("CONSTANT", [], operand.struct_info.dtype, full)
            self.weight("values", operand, full)
            return name
        if full == shape:
            return operand
        dtype = self.tensors[operand]["dtype"]
        params = {"first_transpose": None, "reshape": _target(full)}
        return self.layer("SHUFFLE", [operand], dtype, full, **params)


# ---------------------------------------------------------------------- operators


def _conv2d(net: Describer, call: Call, args: list[Any]) -> str:
    kernel, attrs = call.args[1], call.attrs
    transposed = call.op.name == "relax.nn.conv2d_transpose"
    name = net.of(
        call,
        "DECONVOLUTION" if transposed else "CONVOLUTION",
        [net.value(args[0])],
        maps=_dims(call.struct_info)[1],
        kernel_size=_dims(kernel.struct_info)[2:],
        stride=_ints(attrs.strides),
        pre_padding=_ints(attrs.padding)[:2],
        post_padding=_ints(attrs.padding)[2:],
        dilation=_ints(attrs.dilation),
        groups=int(attrs.groups),
    )
    net.weight("kernel", kernel, _dims(kernel.struct_info))
    return name


def _batch_norm(net: Describer, call: Call, args: list[Any]) -> list[Any]:
    """Its statistics are constants: emitted as a scale and a shift computed here."""
    gamma, beta, mean, var = (a.data.numpy().astype("float64") for a in call.args[1:])
    gamma = gamma if call.attrs.scale else np.ones_like(gamma)
    beta = beta if call.attrs.center else np.zeros_like(beta)
    scale = gamma / np.sqrt(var + float(call.attrs.epsilon))
    rank = _result(call).ndim
    name = net.of(call, "SCALE", [net.value(args[0])], axis=int(call.attrs.axis) % rank)
    for role, values in (("scale", scale), ("shift", beta - mean * scale)):
        net.values(role, f"{net.symbol}_{name}_{role}", values.astype(str(_result(call).dtype)))
    return [name, None, None]


def _matmul(net: Describer, call: Call, args: list[Any]) -> str:
    rank = len(_dims(call.struct_info))
    a, b = (net.value(x, rank) for x in args)
    return net.of(call, "MATRIX_MULTIPLY", [a, b], op0="NONE", op1="NONE")


def _activation(net: Describer, call: Call, args: list[Any]) -> str:
    alpha = beta = 0.0
    if call.op.name == "relax.nn.leakyrelu":
        alpha = float(call.attrs.alpha)
    if call.op.name == "relax.clip":
        alpha, beta = map(_number, call.args[1:])
    kind = ACTIVATIONS[call.op.name]
    return net.of(call, "ACTIVATION", [net.value(args[0])], op=kind, alpha=alpha, beta=beta)


def _elementwise(net: Describer, call: Call, args: list[Any]) -> str:
    rank = len(_dims(call.struct_info))
    operands = [net.value(a, rank) for a in args]
    return net.of(call, "ELEMENTWISE", operands, op=ELEMENTWISE[call.op.name])


def _unary(net: Describer, call: Call, args: list[Any]) -> str:
    return net.of(call, "UNARY", [net.value(args[0])], op=UNARY[call.op.name])


def _pooling(net: Describer, call: Call, args: list[Any]) -> str:
    attrs = call.attrs
    return net.of(
        call,
        "POOLING",
        [net.value(args[0])],
        op=POOLING[call.op.name],
        window=_ints(attrs.pool_size),
        stride=_ints(attrs.strides),
        pre_padding=_ints(attrs.padding)[:2],
        post_padding=_ints(attrs.padding)[2:],
        round="UP" if attrs.ceil_mode else "DOWN",
        exclude_padding=not attrs.count_include_pad,
    )


def _global_average(net: Describer, call: Call, args: list[Any]) -> str:
    return net.of(call, "REDUCE", [net.value(args[0])], op="AVG", axes=[2, 3], keep_dims=True)


def _reduce(net: Describer, call: Call, args: list[Any]) -> str:
    x = net.value(args[0])
    rank = len(net.tensors[x]["shape"])
    axes = range(rank) if call.attrs.axis is None else [int(a) % rank for a in call.attrs.axis]
    kind, keep = REDUCTIONS[call.op.name], bool(call.attrs.keepdims)
    return net.of(call, "REDUCE", [x], op=kind, axes=sorted(axes), keep_dims=keep)


def _softmax(net: Describer, call: Call, args: list[Any]) -> str:
    rank = len(_dims(call.struct_info))
    return net.of(call, "SOFTMAX", [net.value(args[0])], axis=int(call.attrs.axis) % rank)


def _concat(net: Describer, call: Call, args: list[Any]) -> str:
    rank = len(_dims(call.struct_info))
    fields = [net.value(f) for f in args[0]]
    axis = 0 if call.attrs.axis is None else int(call.attrs.axis) % rank
    return net.of(call, "CONCATENATION", fields, axis=axis)


def _reshape(net: Describer, call: Call, args: list[Any]) -> str:
    shape = _target(_dims(call.struct_info))
    return net.of(call, "SHUFFLE", [net.value(args[0])], first_transpose=None, reshape=shape)


def _permute(net: Describer, call: Call, args: list[Any]) -> str:
    x = net.value(args[0])
    rank = len(net.tensors[x]["shape"])
    axes = [int(a) % rank for a in call.attrs.axes or reversed(range(rank))]
    return net.of(call, "SHUFFLE", [x], first_transpose=axes, reshape=None)


def _ints(values: Sequence[Extent]) -> list[int]:
    return [int(v) for v in values]


EMIT: dict[str, Callable[[Describer, Call, list[Any]], Any]] = {
    "relax.nn.conv2d": _conv2d,
    "relax.nn.conv2d_transpose": _conv2d,
    "relax.nn.batch_norm": _batch_norm,
    "relax.matmul": _matmul,
    **dict.fromkeys(ACTIVATIONS, _activation),
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(UNARY, _unary),
    **dict.fromkeys(POOLING, _pooling),
    "relax.nn.adaptive_avg_pool2d": _global_average,
    **dict.fromkeys(REDUCTIONS, _reduce),
    "relax.nn.softmax": _softmax,
    "relax.concat": _concat,
    **dict.fromkeys(RESHAPES, _reshape),
    "relax.permute_dims": _permute,
}


# ---------------------------------------------------------------------- registration


class Described(Module):
    """The functions of the regions, and the networks that describe them; `get_source("json")` is
    all descriptions, `get_source(symbol)` is one."""

    networks: Mapping[str, Network] = MappingProxyType({})


def codegen(
    functions: Sequence[Function], options: Mapping[str, Any], names: Mapping[Any, str]
) -> list[Described]:
    """A module with a function for each region."""
    unknown = [o for o in options if o not in OPTIONS]
    if unknown:
        what = f"the back end {NAME} has no option {unknown[0]}"
        raise LoopwrightError(explain(what, instead=suggest(unknown[0], OPTIONS)))
    settings = {**OPTIONS, **options}
    regions: dict[str, Callable[..., Any]] = {}
    networks: dict[str, Network] = {}
    for func in functions:
        symbol = str(func.attrs["global_symbol"])
        networks[symbol] = Describer(symbol, settings, names).describe(func)
        regions[symbol] = _runnable(networks[symbol], settings)
    texts = {symbol: network.text() for symbol, network in networks.items()}
    whole = "[\n" + ",\n".join(texts.values()) + "\n]\n"
    module = Described(regions, kind=NAME, sources={"json": whole, **texts})
    module.networks = networks
    return [module]


def _runnable(network: Network, options: Mapping[str, Any]) -> Callable[..., None]:
    """The packed function of a region: its arguments are the inputs, then the results to fill."""
    runner = options["runner"]
    if runner is not None:
        run = runner(network.description, network.weights)
    elif options["reference"]:
        run = network.run
    else:
        run = None

    def call(*args: Any) -> None:
        if run is None:
            what = (
                f"the region {network.description['name']} needs TensorRT, which is not installed"
            )
            hint = "tensorrt(runner=...) to build and run it, tensorrt(reference=True) to run it in numpy"
            raise LoopwrightError(explain(what, instead=hint))
        arrays = [np.from_dlpack(a) for a in args if hasattr(a, "__dlpack__")]  # not the shapes
        count = len(network.description["inputs"])
        results = run(*arrays[:count])
        results = results if isinstance(results, (list, tuple)) else [results]
        for out, result in zip(arrays[count:], results, strict=True):
            np.copyto(out, result)

    return call


BACKEND = Backend(NAME, patterns, codegen=codegen, needs="tensorrt(runner=...) in Python")


def backend() -> Backend:
    """The back end: the entry point of `loopwright.backends`."""
    return BACKEND


def tensorrt(**options: int | Callable[..., Any]) -> Backend:
    """The back end with options, for `compile(backends=[...])`, `partition` and `RunCodegen`.

    fp16: the builder may use float16, except in layers whose weights overflow it.
    max_workspace: bytes that the builder may use.
    reference: run in numpy. runner: runs a description; see the file's docstring.
    """
    return dataclasses.replace(BACKEND, options=options)
