"""TVM's names that are in another module here: the one table of them.

`NAMES` says where a single name is; `ALSO`, which modules have further names of a module of TVM
(`tvm.tir.expr` holds all scalar expressions, which are in `tir` here). Both are keyed by TVM's
paths, below the package.
"""

from __future__ import annotations

from .paths import PATHS, target_name

# TVM's path -> the modules that have its other names, in this order.
ALSO: dict[str, str] = {
    "arith": "arith.int_set arith.interval tvm.arith",
    "arith.int_set": "arith arith.interval tvm.arith",
    "arith.iter_affine_map": "arith tvm.arith",
    "arith.pattern": "tvm.arith",
    "base": "base.errors",
    "error": "base.errors",
    "ffi": "runtime",
    "ir": "ir.structural base.span",
    "ir.base": "ir.serialize base.span ir",
    "ir.container": "ir",
    "ir.expr": "ir tir",
    "ir.type": "ir relax.types",
    "relax.expr": "relax",
    "relay.base": "tvm.relay",
    "runtime": "tvm.param_dict",
    "script.parser": "script",
    "script.parser.relax.entry": "script.relax",
    "script.printer.doc": "tvm.compat.doc",
    "target": "ir.target ir.target_kinds",
    "tir": "tir.schedule",
    "tir.analysis": "tvm.tir",
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
_GENERIC = (
    "GenericFunc",
    "generic_func",
    "get_native_generic_func",
    "override_native_generic_func",
)
# TVM's name -> what it is: "module:name", or a module.
NAMES: dict[str, str] = {
    **{f"ir.{name}": f"tvm.relay.types:{name}" for name in _RELAY_TYPES},
    **{f"target.{name}": f"tvm.generic_func:{name}" for name in _GENERIC},
    "arith._ffi_api.DomainTouched": "tvm.compat.predicates:domain_touched",
    "arith._ffi_api.NarrowPredicateExpression": "tvm.compat.predicates:narrow_predicate",
    "_ffi.base.py_str": "tvm.compat.ffi:py_str",
    "base._LIB": "tvm.compat.ffi:_LIB",
    "base.py_str": "tvm.compat.ffi:py_str",
    "container.Array": "tvm.compat.layout:Array",
    "container.Map": "tvm.compat.layout:Map",
    "driver.build": "driver.legacy_build:build",
    "driver.build_module.schedule_to_module": "tvm.te.schedule:schedule_to_module",
    "dlight.gpu": "tvm.compat.dlight_gpu",
    "Object": "ir.node:Node",
    "ir.Array": "tvm.compat.layout:Array",
    "ir.Map": "tvm.compat.layout:Map",
    "ir.container.Array": "tvm.compat.layout:Array",
    "ir.container.Map": "tvm.compat.layout:Map",
    "ffi.Object": "ir.node:Node",
    "ir.EnvFunc": "tvm.tir.env_func:EnvFunc",
    "ir.FuncType": "relax.types:FuncType",
    "ir.TupleType": "relax.types:TupleType",
    "ir.RelayExpr": "tvm.relay:RelayExpr",
    "ir.Type": "relax.types:Type",
    "metal": "runtime:metal",
    "nd.NDArray": "runtime:Tensor",
    "relax.backend.DispatchSortScan": "tvm.compat.dispatch:DispatchSortScan",
    "relax.expr._update_struct_info": "tvm.compat.layout:update_struct_info",
    "relax.args_converter": "tvm.compat.args_converter",
    "relax.DataflowBlockRewrite": "tvm.relax.binding_rewrite:DataflowBlockRewrite",
    "relax.analysis.estimate_memory_usage": "tvm.relax.memory:estimate_memory_usage",
    "relax.analysis.suggest_layout_transforms": "tvm.relax.layout_transforms:suggest_layout_transforms",
    "relax.ExprFunctor": "relax.expr_functor:ExprFunctor",
    "relax.Span": "base.span:Span",
    "relax.Type": "relax.types:Type",
    "relax.utils.args_converter": "tvm.compat.args_converter",
    "relay.transform.build_config": "ir.pass_context:PassContext",
    "relay.build_config": "ir.pass_context:PassContext",
    "relay.testing.enabled_targets": "tvm.testing:enabled_targets",
    "rocm": "runtime:rocm",
    "relay.op.const": "tvm.relay.expr:const",
    "relay.op.op": "tvm.relay.op",
    "runtime.ADT": "tvm.relay.backend.interpreter:ADT",
    "runtime.container.ADT": "tvm.relay.backend.interpreter:ADT",
    "runtime.DataType": "ir.dtype:DataType",
    "runtime.enabled": "tvm.compat.questions:enabled",
    "runtime.Executable": "tvm.compat.executable:Executable",
    "runtime.NDArray": "runtime:Tensor",
    "runtime.Object": "ir.node:Node",
    "runtime.ObjectPath": "ir.object_path:ObjectPath",
    "runtime.ObjectPathPair": "ir.object_path:ObjectPathPair",
    "runtime.String": "tvm.compat.layout:String",
    "runtime.container.String": "tvm.compat.layout:String",
    "script.parser.core.diagnostics.Source": "script.parser.source:ScriptText",
    "script.parser.core.error.ParserError": "base.errors:DiagnosticError",
    "tir.ProducerRealize": "tvm.te.producer:ProducerRealize",
    "tir.ProducerStore": "tvm.te.producer:ProducerStore",
    "target.VirtualDevice": "tvm.compat.layout:VirtualDevice",
    "runtime._ffi_api.CSourceModuleCreate": "runtime.linked:CSource",
    "target._ffi_api.llvm_cpu_has_feature": "tvm.target_info:llvm_cpu_has_features",
    "target._ffi_api.target_has_feature": "tvm.target_info:target_has_features",
    "tir.analysis.get_vtcm_compaction_passes": (
        "tvm.tir_transform.verify_vtcm_limit:get_vtcm_compaction_passes"
    ),
    "tir.Any": "tvm.relay.types:Any",
    "tir.analysis._ffi_api._identify_memcpy": "tvm.compat.predicates:identify_memcpy",
    "testing.check_bool_expr_is_true": "tvm.compat.predicates:check_bool_expr_is_true",
    "testing.check_int_constraints_trans_consistency": "tvm.compat.predicates:check_int_constraints_trans_consistency",
    "testing.disable_span_filling": "tvm.compat.layout:spans_as_they_are",
    "testing.enable_span_filling": "tvm.compat.layout:spans_as_they_are",
    "tir.get_default_tir_pipeline": "backend.pipeline:get_default_tir_pipeline",
    "tir.get_tir_pipeline": "tir.transform.pipeline:get_tir_pipeline",
    "tir.get_vscale_expr": "tir.op_target:get_vscale_expr",
    "tir.pipeline.get_default_tir_pipeline": "backend.pipeline:get_default_tir_pipeline",
    "tir.pipeline.finalize_host_passes": "tir.transform.pipeline:finalize",
    "tir.expr.EqualOp": "tvm.compat.layout:EqualOp",
    "tir.expr.IntImmEnum": "tvm.compat.layout:IntImmEnum",
    "tir.expr.NotEqualOp": "tvm.compat.layout:NotEqualOp",
    "topi.nn.conv2d_alter_layout": "tvm.relay.transform.alter_rules:conv2d_alter_layout",
    "topi.nn.dense_alter_layout": "tvm.relay.transform.alter_rules:dense_alter_layout",
    "topi.nn._get_workload": "tvm.compat.autotvm:get_workload",
    "topi.x86._fallback_schedule": "tvm.compat.autotvm:fallback_schedule",
    "topi.x86.dense_alter_op": "tvm.relay.transform.alter_rules",
    "relay.transform.alter_rules._alter_dense_layout": "tvm.relay.transform.alter_rules:dense_alter_layout",
    "vulkan": "runtime:vulkan",
    # newer spellings, of 0.22 and later
    "tir.SBlock": "tir:Block",
    "tir.SBlockRealize": "tir:BlockRealize",
    "tir.SBlockScope": "tir.schedule:BlockScope",
}


def named_modules() -> dict[str, list[str]]:
    """Modules of this package that have names in the tables, or modules below -> TVM's paths that they serve."""
    paths = dict.fromkeys([*ALSO, *(name.rpartition(".")[0] for name in (*NAMES, *PATHS))])
    served: dict[str, list[str]] = {}
    for path in paths:
        served.setdefault(target_name(path), []).append(path)
    return served
