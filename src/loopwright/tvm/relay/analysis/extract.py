"""Parts of a program as programs: kernels, intermediate values, the inputs and outputs of regions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....base.errors import LoopwrightError, explain
from ....ir.expr import BaseExpr, GlobalVar
from ....ir.structural import structural_hash
from ....ir.transform import IRModule, Sequential
from ....runtime.device import cpu
from ..build_module import create_executor
from ..expr import Call, Function, Tuple, TupleGetItem
from ..transform.fuse_ops import FuseOps
from ..transform.infer_type import InferType
from ..transform.inline import Inline
from ..transform.simplify_fc_transpose import transposed_weight
from ..transform.simplify_inference import SimplifyInference
from ..types import TupleType
from ..walk import post_order
from .counts import main_of


def extract_fused_functions(mod: IRModule) -> dict[str, Function]:
    """The kernels of `main` as functions, each once, by their hash."""
    fused = Sequential([SimplifyInference(), FuseOps(3)])(InferType()(mod))
    functions: dict[str, Function] = {}
    for node in post_order(fused["main"]):
        if isinstance(node, Function) and node.attrs.get("Primitive"):
            functions.setdefault(str(structural_hash(node)), node)
    return functions


def extract_intermdeiate_expr(mod: IRModule, expr_id: int) -> IRModule:
    """The module of the expression that line `%<expr_id>` of the text of `main` defines. Raises ValueError for a
    number that no line has."""
    body = main_of(mod).body
    lines = [n for n in post_order(body) if isinstance(n, (Call, Tuple, TupleGetItem))]
    if not 0 <= expr_id < len(lines):
        what = "main has no line of this number"
        raise ValueError(explain(what, got=f"{expr_id} of {len(lines)}"))
    return IRModule.from_expr(lines[expr_id])


def search_fc_transpose(expr: Function) -> list[str]:
    """The names of the variables `w` in `nn.dense(x, transpose(w))`."""
    weights = [weight for node in post_order(expr) if (weight := transposed_weight(node))]
    return list(dict.fromkeys(weight.name_hint for weight in weights))


def get_calibration_data(
    mod: IRModule, data: Mapping[str, Any]
) -> dict[GlobalVar, dict[str, list[Any]]]:
    """The inputs and outputs of the functions with the attribute "Compiler" while `main` runs.

    data: the arguments of `main` by name. Returns for each such function its "inputs" and "outputs"
    as tensors; a tuple of results is several outputs. Raises LoopwrightError for one that is called twice.
    """
    mod = InferType()(mod)
    values: list[Any] = []
    slots: dict[GlobalVar, tuple[int, int, int]] = {}
    for node in post_order(mod["main"]):
        func = mod.functions.get(node.op) if _calls_global(node) else None
        if isinstance(func, Function) and "Compiler" in func.attrs:
            if node.op in slots:
                what = "a function that is called twice has more than one value"
                raise LoopwrightError(explain(what, got=f"@{node.op.name_hint}"))
            results = _fields(node)
            slots[node.op] = (len(values), len(node.args), len(results))
            values += [*node.args, *results]
    if not slots:
        return {}
    funcs = {gvar: _plain(func) for gvar, func in mod.functions.items()}
    main = mod["main"]
    funcs[mod.get_global_var("main")] = Function(main.params, Tuple(values), None, main.type_params)
    run = create_executor("graph", mod=Inline()(IRModule(funcs)), device=cpu(0)).evaluate()
    outputs = run(**data)
    return {
        gvar: {
            "inputs": [outputs[i] for i in range(start, start + n_inputs)],
            "outputs": [outputs[i] for i in range(start + n_inputs, start + n_inputs + n_outputs)],
        }
        for gvar, (start, n_inputs, n_outputs) in slots.items()
    }


def _calls_global(node: BaseExpr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, GlobalVar)


def _fields(call: Call) -> list[Any]:
    """The results of a call."""
    kind = call.checked_type
    count = len(kind.fields) if isinstance(kind, TupleType) else 0
    return [TupleGetItem(call, i) for i in range(count)] or [call]


def _plain(func: Function) -> Any:
    """A function of a region as one that is put where it is called."""
    if not isinstance(func, Function) or "Compiler" not in func.attrs:
        return func
    return func.without_attr("Compiler").with_attr("Inline", 1)
