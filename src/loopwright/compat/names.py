"""TVM's names whose place differs here: the one table of them.

`NAMES` says where a single name is; `ALSO`, which modules have what a module of TVM's has besides
(`tvm.tir.expr` holds all scalar expressions, which are in `tir` here). Both are keyed by TVM's
paths, below the package.
"""

from __future__ import annotations

from .paths import PATHS, target_name

# TVM's path -> the modules that have its other names, in this order.
ALSO: dict[str, str] = {
    "arith": "arith.int_set arith.interval",
    "arith.int_set": "arith arith.interval",
    "arith.iter_affine_map": "arith",
    "base": "base.errors",
    "error": "base.errors",
    "ffi": "runtime",
    "ir": "ir.structural base.span",
    "ir.base": "ir.serialize base.span ir",
    "ir.container": "ir",
    "ir.expr": "ir tir",
    "ir.type": "ir relax.types",
    "relax.expr": "relax",
    "relay.base": "relay",
    "script.parser": "script",
    "script.parser.relax.entry": "script.relax",
    "script.printer.doc": "compat.doc",
    "target": "ir.target ir.target_kinds",
    "tir": "tir.schedule",
    "tir.block_scope": "tir.schedule",
    "tir.expr": "tir",
    "tir.function": "tir",
    "tir.op": "tir script.tir",
    "tir.stmt": "tir",
    "tir.tensor_intrin.arm_cpu": "tir.tensor_intrin",
}

_RELAY_TYPES = (
    *("GlobalTypeVar", "IncompleteType", "RelayRefType", "TensorType", "TypeCall"),
    *("TypeConstraint", "TypeKind", "TypeRelation", "TypeVar"),
)
# TVM's name -> what it is: "module:name", or a module.
NAMES: dict[str, str] = {
    **{f"ir.{name}": f"relay.types:{name}" for name in _RELAY_TYPES},
    "arith._ffi_api.DomainTouched": "compat.predicates:domain_touched",
    "arith._ffi_api.NarrowPredicateExpression": "compat.predicates:narrow_predicate",
    "_ffi.base.py_str": "compat.ffi:py_str",
    "base._LIB": "compat.ffi:_LIB",
    "base.py_str": "compat.ffi:py_str",
    "container.Array": "compat.layout:Array",
    "container.Map": "compat.layout:Map",
    "driver.build_module.schedule_to_module": "te.schedule:schedule_to_module",
    "Object": "ir.node:Node",
    "ir.Array": "compat.layout:Array",
    "ir.Map": "compat.layout:Map",
    "ir.container.Array": "compat.layout:Array",
    "ir.container.Map": "compat.layout:Map",
    "ffi.Object": "ir.node:Node",
    "ir.EnvFunc": "tir.env_func:EnvFunc",
    "ir.FuncType": "relax.types:FuncType",
    "ir.TupleType": "relax.types:TupleType",
    "ir.RelayExpr": "relay:RelayExpr",
    "ir.Type": "relax.types:Type",
    "metal": "runtime:metal",
    "nd.NDArray": "runtime:Tensor",
    "relax.backend.DispatchSortScan": "compat.dispatch:DispatchSortScan",
    "relax.expr._update_struct_info": "compat.layout:update_struct_info",
    "relax.args_converter": "compat.args_converter",
    "relax.DataflowBlockRewrite": "relax.binding_rewrite:DataflowBlockRewrite",
    "relax.ExprFunctor": "relax.expr_functor:ExprFunctor",
    "relax.Span": "base.span:Span",
    "relax.Type": "relax.types:Type",
    "relax.utils.args_converter": "compat.args_converter",
    "relay.transform.build_config": "ir.pass_context:PassContext",
    "relay.build_config": "ir.pass_context:PassContext",
    "relay.testing.enabled_targets": "testing:enabled_targets",
    "rocm": "runtime:rocm",
    "relay.op.const": "relay.expr:const",
    "relay.op.op": "relay.op",
    "runtime.ADT": "relay.backend.interpreter:ADT",
    "runtime.container.ADT": "relay.backend.interpreter:ADT",
    "runtime.DataType": "ir.dtype:DataType",
    "runtime.enabled": "compat.questions:enabled",
    "runtime.Executable": "compat.executable:Executable",
    "runtime.NDArray": "runtime:Tensor",
    "runtime.Object": "ir.node:Node",
    "runtime.ObjectPath": "ir.object_path:ObjectPath",
    "runtime.ObjectPathPair": "ir.object_path:ObjectPathPair",
    "runtime.String": "compat.layout:String",
    "runtime.container.String": "compat.layout:String",
    "script.parser.core.diagnostics.Source": "script.parser.source:ScriptText",
    "script.parser.core.error.ParserError": "base.errors:DiagnosticError",
    "tir.ProducerRealize": "te.producer:ProducerRealize",
    "tir.ProducerStore": "te.producer:ProducerStore",
    "target.VirtualDevice": "compat.layout:VirtualDevice",
    "target._ffi_api.llvm_cpu_has_feature": "codegen.llvm.target_info:llvm_cpu_has_features",
    "target._ffi_api.target_has_feature": "codegen.llvm.target_info:target_has_features",
    "tir.Any": "relay.types:Any",
    "tir.analysis._ffi_api._identify_memcpy": "compat.predicates:identify_memcpy",
    "testing.check_bool_expr_is_true": "compat.predicates:check_bool_expr_is_true",
    "testing.check_int_constraints_trans_consistency": "compat.predicates:check_int_constraints_trans_consistency",
    "testing.disable_span_filling": "compat.layout:spans_as_they_are",
    "testing.enable_span_filling": "compat.layout:spans_as_they_are",
    "tir.get_default_tir_pipeline": "backend.pipeline:get_default_tir_pipeline",
    "tir.get_tir_pipeline": "tir.transform.pipeline:get_tir_pipeline",
    "tir.get_vscale_expr": "tir.op_target:get_vscale_expr",
    "tir.pipeline.get_default_tir_pipeline": "backend.pipeline:get_default_tir_pipeline",
    "tir.pipeline.finalize_host_passes": "tir.transform.pipeline:finalize",
    "tir.expr.EqualOp": "compat.layout:EqualOp",
    "tir.expr.IntImmEnum": "compat.layout:IntImmEnum",
    "tir.expr.NotEqualOp": "compat.layout:NotEqualOp",
    "topi.nn.conv2d_alter_layout": "relay.transform.alter_rules:conv2d_alter_layout",
    "topi.nn.dense_alter_layout": "relay.transform.alter_rules:dense_alter_layout",
    "topi.nn._get_workload": "compat.autotvm:get_workload",
    "topi.x86._fallback_schedule": "compat.autotvm:fallback_schedule",
    "topi.x86.dense_alter_op": "relay.transform.alter_rules",
    "relay.transform.alter_rules._alter_dense_layout": "relay.transform.alter_rules:dense_alter_layout",
    "vulkan": "runtime:vulkan",
    # newer spellings, of 0.22 and later
    "tir.SBlock": "tir:Block",
    "tir.SBlockRealize": "tir:BlockRealize",
    "tir.SBlockScope": "tir.schedule:BlockScope",
}


def named_modules() -> dict[str, list[str]]:
    """Our modules with names in the tables, or modules below -> TVM's paths that they serve."""
    paths = dict.fromkeys([*ALSO, *(name.rpartition(".")[0] for name in (*NAMES, *PATHS))])
    served: dict[str, list[str]] = {}
    for path in paths:
        served.setdefault(target_name(path), []).append(path)
    return served
