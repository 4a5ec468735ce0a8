"""Where TVM's module paths are found here: the one table of them."""

from __future__ import annotations

# Paths below the package whose place differs here; the longest match counts.
PATHS: dict[str, str] = {
    "autotvm": "compat.autotvm",
    "autotvm.task": "compat.autotvm",
    "autotvm.task.space": "compat.autotvm",
    "autotvm.tophub": "compat.autotvm",
    "backend.cpu": "backend.llvm",
    "backend.cpu_generic": "backend.llvm",
    "backend.cpu_generic.pipeline": "backend.llvm",
    "backend.pattern_registry": "relax.byoc.patterns",
    "backend.patterns": "relax.dpl.well_known",
    "contrib.cblas": "compat.external",
    "contrib.cc": "compat.contrib",
    "contrib.clang": "compat.contrib",
    "contrib.cudnn": "compat.questions",
    "contrib.dnnl": "compat.external",
    "contrib.mkl": "compat.external",
    "contrib.nvcc": "compat.questions",
    "contrib.pickle_memoize": "compat.contrib",
    "contrib.popen_pool": "compat.popen_pool",
    "contrib.random": "compat.external",
    "contrib.tvmjs": "runtime.ndarray_cache",
    "contrib.utils": "testing.files",
    "dlight": "sched",
    "driver.build_module": "driver.build",
    "error": "base.errors",
    "ir.attrs": "ir.expr",
    "ir.base": "ir.structural",
    "ir.container": "ir",
    "ir.global_info": "ir.module",
    "meta_schedule.testing": "testing",
    "meta_schedule.testing.te_workload": "testing.workloads",
    "nd": "runtime",
    "relax.backend.cpu_generic": "backend.llvm",
    "relax.backend.cpu_generic.pipeline": "backend.llvm",
    "relax.backend": "backend",
    "relax.exec_builder": "runtime.vm",
    "relax.frontend": "frontend",
    "relax.frontend.onnx.onnx_frontend": "frontend.onnx",
    "relax.ir": "relax",
    "relax.pipeline": "backend.pipeline",
    "relax.testing": "testing",
    "relax.ty": "relax.types",
    "relax.vm_build": "driver.vm_build",
    "runtime.container": "runtime",
    "runtime.executable": "compat.executable",
    "runtime.ndarray": "runtime",
    "runtime.object_generic": "ir.node",
    "runtime.object_path": "ir.object_path",
    "runtime.profiling": "runtime.profiler",
    "runtime.script_printer": "script.printer.config",
    "script.highlight": "script.printer.highlight",
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
    "script.printer.doc_printer": "compat.doc",
    "target": "ir.target",
    "target._ffi_api": "codegen.llvm.target_info",
    "target.codegen": "codegen.llvm.target_info",
    "target.datatype": "ir.datatype",
    "target.target": "ir.target",
    "target.tag": "ir.target",
    "testing.utils": "testing",
    "tir.block_dependence_info": "tir.schedule",
    "tir.block_scope": "tir.schedule",
    "tir.generic": "tir.op",
    "tir.pipeline": "tir.transform.pipeline",
    "tir.schedule._type_checker": "compat.type_checker",
    "tir.schedule.state": "tir.schedule.machinery.state",
    "tir.schedule.testing": "tir.schedule.trace_roundtrip",
    "tir.schedule.trace": "tir.schedule.machinery.trace",
    "tir.schedule.transform": "tir.schedule.tensorize_mapping",
    "tir.transform.function_pass": "tir.transform.prim_func_pass",
    **{f"topi.{name}": "compat.topi_cpu" for name in ("arm_cpu", "generic", "x86")},
    **{
        f"topi.{name}": "compat.topi_gpu"
        for name in ("adreno", "bifrost", "cuda", "gpu", "hls", "intel_graphics", "mali", "rocm")
    },
    "transform": "ir.transform",
    # newer spellings, of 0.22 and later
    "s_tir": "tir",
    "s_tir.dlight": "sched",
    "s_tir.sblock_dependence_info": "tir.schedule",
    "s_tir.sblock_scope": "tir.schedule",
    "script.ir_builder.tirx": "script.ir_builder.tir",
    "script.parser.tirx": "script.tir",
    "script.tirx": "script.tir",
    "tirx": "tir",
}

# What is a folder of files in TVM and one module here: "topi.reduction" is "topi".
MERGED = frozenset(
    {
        "arith",
        "compat.topi_cpu",
        "compat.topi_gpu",
        "ir",
        "relax.analysis",
        "relax.op",
        "relax.op.builtin",
        "relax.op.image",
        "relax.op.memory",
        "relax.op.nn",
        "relax.op.vm",
        "relax.transform",
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
        "topi",
        "topi.image",
        "topi.nn",
    }
)


def target_name(path: str) -> str:
    """The module here that serves `path` (both below the package): "relax.frontend.nn.op" gives
    "frontend.nn.op"."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        target = PATHS.get(".".join(parts[:cut]))
        if target is not None:
            return ".".join([target, *parts[cut:]])
    return path
