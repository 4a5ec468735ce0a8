"""Names that Relay has in TVM and not here: an error says which part of Relay is left out, and what to use
instead."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from functools import cache

from ...base.errors import explain

# Part of Relay -> its names.
_PARTS: dict[str, str] = {
    "algebraic data types": """Constructor TypeData Match Clause Pattern PatternConstructor
        PatternTuple PatternVar PatternWildcard prelude Prelude adt type extern match
        StaticTensorArrayOps TensorArrayOps unmatched_cases count make_nat_expr make_nat_value""",
    "references": """RefCreate RefRead RefWrite RefCreateWithFields RefReadWithFields
        RefWriteWithFields RefValue ref ref_read ref_write""",
    "quantization": """quantize qnn attach_simulated_quantize QAnnotateKind
        FakeQuantizationToInteger list_fake_quantized_op_freqs register_fake_quantization_to_integer
        register_optional_fake_quantization_to_integer""",
    "functions as values": """Defunctionalization EtaExpand LambdaLift PartialEvaluate ToCPS to_cps
        un_cps""",
    "own passes for memory and devices": """ManifestLifetimes PlanDevices MemoryPlan LiftConstants
        StorageInfo StaticMemoryPlan alloc_storage alloc_tensor invoke_tvm_op reshape_tensor
        shape_func flatten_tuple_type from_tuple_type to_tuple_type""",
    "searches for sparse weights": "DenseToSparse Conv2dToSparse Conv2dToSparse2 process_params",
    "importers other than ONNX": """from_caffe from_caffe2 from_coreml from_darknet from_keras
        from_mxnet from_oneflow from_paddle from_pytorch from_tensorflow""",
    "searches for partitions": "CollagePartition",
    "differentiation": "gradient FirstOrderGradient LazyGradientInit",
    "loops by recursion": "loops while_loop",
}
# Part of Relay -> its replacement, where it is not `_OTHERWISE`.
_INSTEAD: dict[str, str] = {
    "own passes for memory and devices": "relay.build, which plans memory; one device runs a program",
    "searches for partitions": "AnnotateTarget, MergeCompilerRegions and PartitionGraph",
    "importers other than ONNX": "export the model to ONNX, then relay.frontend.from_onnx",
    "quantization": "quantize the model before it is imported",
    "differentiation": "relax.transform.Gradient, on a program in Relax",
}
_OTHERWISE = "tuples and functions of tensors, or a program in Relax"
LEFT_OUT: dict[str, str] = {name: part for part, names in _PARTS.items() for name in names.split()}


def refusal(name: str) -> tuple[str, str]:
    """What to say about a name of `LEFT_OUT`, and what to use instead."""
    part = LEFT_OUT[name]
    return f"left out of Loopwright: Relay's {part}", _INSTEAD.get(part, _OTHERWISE)


@cache
def refusing(name: str) -> type:
    """A placeholder for a name that is left out but may be imported: calling it raises an error."""

    def refuse(self: object, *args: object, **options: object) -> None:
        what, instead = refusal(name)
        raise NotImplementedError(explain(what, got=f"relay: {name}", instead=instead))

    return type(name, (), {"__init__": refuse, "__doc__": "Left out."})


def served(module: str) -> Callable[[str], type]:
    """The `__getattr__` of a module in which TVM has names that are left out."""

    def get(name: str) -> type:
        if name not in LEFT_OUT:
            close = difflib.get_close_matches(name, vars(sys.modules[module]), 3)
            what = f"module {module!r} has no attribute {name!r}"
            hint = f"did you mean {', '.join(close)}?" if close else None
            raise AttributeError(explain(what, instead=hint))
        return refusing(name)

    return get


# What TVM's `relay.prelude`, `relay.adt` and `relay.loops` have.
__getattr__ = served(__name__)


def refused(name: str) -> AttributeError:
    """The error for a name of `relay` that is left out."""
    what, instead = refusal(name)
    return AttributeError(explain(what, got=f"relay.{name}", instead=instead))
