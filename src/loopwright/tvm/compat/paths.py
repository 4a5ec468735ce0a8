"""Where TVM's module paths are found here: the one table of them."""

from __future__ import annotations

from ...base.doors import DOORS

# Modules of te that are TVM's.
TE = ("autodiff", "hybrid", "schedule", "tag", "tensor_intrin")

# Processors with tensor intrinsics that have no code generator here.
TENSOR_INTRIN = ("cuda", "hexagon", "rocm")

# Paths below the package whose place differs here; the longest match counts.
PATHS: dict[str, str] = {
    **{door: f"tvm.{door}" for door in DOORS},
    **{f"te.{name}": f"tvm.te.{name}" for name in TE},
    "backend.byoc.network": "tvm.tensorrt.network",
    "backend.byoc.tensorrt_json": "tvm.tensorrt.json",
    "backend.cuda": "tvm.cuda",
    "arith._ffi_api": "tvm.compat.predicates",
    "auto_scheduler": "tvm.compat.autotvm",
    "autotvm": "tvm.compat.autotvm",
    "autotvm.task": "tvm.compat.autotvm",
    "autotvm.task.space": "tvm.compat.autotvm",
    "autotvm.tophub": "tvm.compat.autotvm",
    "autotvm.tuner": "tvm.compat.autotvm",
    "backend.cpu": "backend.llvm",
    "backend.cpu_generic": "backend.llvm",
    "backend.cpu_generic.pipeline": "backend.llvm",
    "backend.pattern_registry": "relax.byoc.patterns",
    "backend.patterns": "tvm.relax.well_known",
    "contrib.cblas": "tvm.compat.external",
    "contrib.cc": "tvm.compat.contrib",
    "contrib.clang": "tvm.compat.contrib",
    "contrib.cudnn": "tvm.compat.questions",
    "contrib.dlpack": "tvm.compat.questions",
    "contrib.debugger": "tvm.compat.debug_executor",
    "contrib.debugger.debug_executor": "tvm.compat.debug_executor",
    "contrib.dnnl": "tvm.compat.external",
    "contrib.download": "tvm.compat.download",
    "contrib.graph_executor": "tvm.graph_executor",
    "contrib.mkl": "tvm.compat.external",
    "contrib.nvcc": "tvm.compat.questions",
    "contrib.pickle_memoize": "tvm.compat.contrib",
    "contrib.popen_pool": "tvm.compat.popen_pool",
    "contrib.random": "tvm.compat.external",
    "contrib.tar": "tvm.compat.contrib",
    "contrib.thrust": "tvm.compat.questions",
    "contrib.tvmjs": "runtime.ndarray_cache",
    "contrib.utils": "tvm.testing.files",
    "dlight": "sched",
    "dlight.gpu": "tvm.compat.dlight_gpu",
    "driver.build_module": "driver.steps",
    "_ffi.base": "base.errors",
    "container": "ir",
    "error": "base.errors",
    "ffi": "tvm.compat.ffi",
    "ffi.container": "tvm.compat.ffi",
    "ffi.registry": "tvm.compat.ffi",
    "ir.attrs": "ir.expr",
    "ir.base": "ir.structural",
    "ir.container": "ir",
    "ir.global_info": "ir.module",
    "meta_schedule.testing": "tvm.testing",
    "meta_schedule.testing.te_workload": "tvm.testing.workloads",
    "nd": "runtime",
    "relax.backend.cpu_generic": "backend.llvm",
    "relax.backend.cpu_generic.pipeline": "backend.llvm",
    "relax.backend": "backend",
    "relax.binding_rewrite": "tvm.relax.binding_rewrite",
    "relax.dpl.well_known": "tvm.relax.well_known",
    "relax.exec_builder": "runtime.vm",
    "relax.instrument": "tvm.relax.instrument",
    "relax.ir.instrument": "tvm.relax.instrument",
    "relax.training": "tvm.training",
    "relax.frontend": "frontend",
    "relax.frontend.onnx.onnx_frontend": "frontend.onnx",
    "parser": "tvm.relay.parser",
    "relay.adt": "tvm.relay.left_out",
    "relay.backend.executor": "tvm.relay.backend.config",
    "relay.backend.runtime": "tvm.relay.backend.config",
    "relay.base": "base.span",
    "relay.function": "tvm.relay.expr",
    "relay.frontend.onnx": "tvm.relay.frontend",
    **{f"relay.op.{name}.{name}": f"tvm.relay.op.{name}" for name in ("annotation", "image", "nn")},
    **{
        f"relay.op.vision.{name}": "tvm.relay.op.vision"
        for name in ("multibox", "nms", "rcnn", "yolo")
    },
    **{
        f"relay.op.{name}_make": f"tvm.relay.op.{name}".rstrip(".")
        for name in ("", "image.", "nn.")
    },
    "relay.op.contrib.register": "tvm.relay.op.contrib",
    "relay.op.random.kernel": "tvm.relay.op.random",
    **{
        f"relay.op.strategy.{name}": "tvm.relay.op.strategy"
        for name in ("arm_cpu", "generic", "x86")
    },
    "relay.loops": "tvm.relay.left_out",
    "relay.param_dict": "tvm.param_dict",
    "relay.prelude": "tvm.relay.left_out",
    "relay.quantize": "tvm.relay.left_out",
    "relay.quantize._annotate": "tvm.relay.left_out",
    "relay.ty": "tvm.relay.types",
    "relay.transform.infer_layout_utils": "tvm.relay.operators.layouts",
    "relay.vm": "tvm.relay.backend.vm",
    "relax.ir": "relax",
    "relax.pipeline": "backend.pipeline",
    "relax.testing": "tvm.testing",
    "relax.ty": "relax.types",
    "relax.vm_build": "driver.vm_build",
    "runtime._ffi_api": "runtime",
    "runtime.container": "runtime",
    "runtime.param_dict": "tvm.param_dict",
    "runtime.executable": "tvm.compat.executable",
    "runtime.executor": "tvm.graph_executor",
    "runtime.executor.aot_executor": "tvm.graph_executor",
    "runtime.name_transforms": "tvm.relay.backend.name_transforms",
    "runtime.ndarray": "runtime",
    "runtime.object_generic": "ir.node",
    "runtime.object_path": "ir.object_path",
    "runtime.profiling": "runtime.profiler",
    "runtime.script_printer": "script.printer.config",
    "script.highlight": "script.printer.highlight",
    "script.parser.core.doc_core": "tvm.compat.doc_core",
    "script.parser.core.diagnostics": "ir.diagnostics",
    "script.parser.core.error": "base.errors",
    "script.parser.core.evaluator": "script.parser.evaluator",
    "script.parser.core.parser": "script.parser.core",
    "script.parser.core.utils": "script.parser.source",
    "script.parser.core.entry": "script.parser.entry",
    "script.parser.ir": "script.ir",
    "script.parser.relax": "script.relax",
    "script.parser.relax.entry": "script.parser.proxies",
    "script.parser.tir": "script.tir",
    "script.printer.doc_printer": "tvm.compat.doc",
    "support": "tvm.compat.questions",
    "target": "ir.target",
    "target._ffi_api": "tvm.target_info",
    "target.codegen": "tvm.target_info",
    "target.datatype": "ir.datatype",
    "target.target": "ir.target",
    "target.tag": "ir.target",
    "testing.tir": "tvm.testing.workloads",
    "testing.utils": "tvm.testing",
    "tir.analysis._ffi_api": "tvm.compat.predicates",
    "tir.block_dependence_info": "tir.schedule",
    "te.hybrid.runtime": "tvm.te.hybrid_runtime",
    "tir.block_scope": "tir.schedule",
    "tir.generic": "tir.op",
    "tir.pipeline": "tir.transform.pipeline",
    "tir.functor": "tvm.tir.functor",
    "tir.schedule._type_checker": "tvm.compat.type_checker",
    "tir.schedule.analysis": "tvm.tir.schedule_analysis",
    "tir.schedule.state": "tir.schedule.machinery.state",
    "tir.schedule.testing": "tvm.tir.trace_roundtrip",
    "tir.schedule.trace": "tir.schedule.machinery.trace",
    "tir.schedule.transform": "tvm.tir.tensorize_mapping",
    **{f"tir.tensor_intrin.{name}": f"tvm.tensor_intrin.{name}" for name in TENSOR_INTRIN},
    "tir.transform.function_pass": "tir.transform.prim_func_pass",
    **{f"topi.{name}": "tvm.compat.topi_cpu" for name in ("arm_cpu", "generic", "x86")},
    **{
        f"topi.{name}": "tvm.compat.topi_gpu"
        for name in ("adreno", "bifrost", "cuda", "gpu", "hls", "intel_graphics", "mali", "rocm")
    },
    # its files that are attributes, too
    **{
        f"topi.{name}": "tvm.topi"
        for name in ("broadcast", "math", "reduction", "tensor", "transform")
    },
    "transform": "ir.transform",
    # newer spellings, of 0.22 and later
    "s_tir": "tir",
    "s_tir.dlight": "sched",
    "s_tir.dlight.gpu": "tvm.compat.dlight_gpu",
    "s_tir.sblock_dependence_info": "tir.schedule",
    "s_tir.sblock_scope": "tir.schedule",
    "script.ir_builder.tirx": "script.ir_builder.tir",
    "script.parser.tirx": "script.tir",
    "script.tirx": "script.tir",
    "tirx": "tir",
}

# Folders of files in TVM that are one module here: "topi.reduction" is "topi".
MERGED = frozenset(
    {
        "arith",
        "tvm.compat.topi_cpu",
        "tvm.compat.topi_gpu",
        "ir",
        "relax.analysis",
        "relax.op",
        "relax.op.builtin",
        "relax.op.image",
        "relax.op.memory",
        "relax.op.nn",
        "relax.op.vm",
        "relax.transform",
        "tvm.relay.analysis",
        "tvm.relay.op",
        "tvm.relay.transform",
        "runtime",
        "script.ir",
        "script.ir_builder.ir",
        "script.ir_builder.relax",
        "script.ir_builder.tir",
        "script.relax",
        "script.tir",
        "sched",
        "tir.analysis",
        "tir.schedule",
        "tir.transform",
        "tvm.topi",
        "tvm.topi.image",
        "tvm.topi.nn",
    }
)


def target_name(path: str) -> str:
    """The module here that serves `path` (both below the package): "relax.frontend.nn.op" is
    "frontend.nn.op"."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        target = PATHS.get(".".join(parts[:cut]))
        if target is not None:
            return ".".join([target, *parts[cut:]])
    return path
