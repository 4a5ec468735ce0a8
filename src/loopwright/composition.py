"""The composition root: fills the slots that layers declare for parts of higher layers.

A layer imports lower ones only. Where it needs a higher one (`repr` the printer, `te.build` the
compiler), or TVM has a name in it for a part of a higher layer (`relax.build`), it declares a `Slot` or
`late_names` of `base.late`; the tables here say what belongs there. Nothing is imported before its
first use. No other file names a module to be imported by a string.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from .base.late import Unready
from .base.registry import PACKAGE, being_imported

# Slot -> what fills it: "module:name", or "module" for the module itself.
SLOTS: dict[str, str] = {
    "arith.rewrite_simplify": "tvm.arith.rewrite:rewrite_simplify",
    "base.own_plugins": "composition:OWN_PLUGINS",
    "base.views": "explore.views",
    "frontend.compile": "driver:compile",
    "frontend.graph_store": "driver.graph_store",
    "frontend.tflite": "frontend.tflite",
    "frontend.torch_eager": "frontend.torch.eager:eager",
    "frontend.torch_program": "frontend.torch.importer:stateful",
    "frontend.nn_call_subroutine": "frontend.nn.subroutine:call_subroutine",
    "frontend.nn_export": "frontend.nn.exporter:export",
    "frontend.nn_jit": "frontend.nn.exporter:jit",
    "ir.definitions": "ops",
    "ir.printer": "script.printer:PRINTER",
    "relax.erase_to_params": "relax.relations:erase_to_params",
    "relax.is_base_of": "relax.relations:is_base_of",
    "relax.run_kernel": "backend.kernel:run_kernel",
    "relax.make_shape": "relax.expr:make_shape",
    "relay.graph": "tvm.relay.walk",
    "relay.text": "tvm.relay.text:text",
    "relax.measure": "driver.measure:measure",
    "runtime.check_machine": "base.host:check_machine",
    "runtime.c_library": "codegen.c.model:load_entries",
    "runtime.export_program": "runtime.library:export_program",
    "runtime.operator": "relax.interpreter:run_operator",
    "serve.compile": "driver:compile",
    "script.building": "script.ir_builder.relax:BUILDING",
    "tir.block_flags": "tir.schedule.machinery.flags:block_flags",
    "tir.lower_thread_allreduce": "tir.transform.gpu.lower_thread_allreduce:LowerThreadAllreduce",
    "tir.profiler": ("tvm.tir_transform.instrument_profile_intrinsics:InstrumentProfileIntrinsics"),
    "tir.tensor_intrin": "tvm.tensor_intrin",
    "tir.struct_info": "relax.relations:function_struct_info",
    "tir.buffer_access": "tir.stmt:ACCESS",
    # parts that need the compiler or a code generator: a cached model is loaded without them
    "base.wing": "tvm.compat:WING",
    "runtime.graph_runtime": "tvm.graph_executor:GraphRuntime",
    "codegen.overriding": "driver.steps:overriding",
    "codegen.export_library": "codegen.llvm.library:export_library",
    "codegen.pickling": "driver.pickling",
    "codegen.save_module": "codegen.llvm.llvm_files:save",
    "runtime.llvm_file": "codegen.llvm.llvm_files:load",
    "codegen.plan_of_module": "tir.memory_plan:plan_of_module",
    "codegen.timed_function": "codegen.llvm.profiling:TimedFunction",
    "driver.compile_steps": "driver.steps:compile_steps",
    "driver.lower_model": "driver.steps:lower",
    "driver.llm": "llm.program",
    "driver.te_schedules": "tvm.te.schedule",
    "tir.intrinsic_id": "codegen.llvm.intrinsics:llvm_lookup_intrinsic_id",
}

# Names of `testing` that need pytest, which a user of the rest may not have.
MARKS = """
    Requirement device_enabled enabled_targets exclude_targets known_failing_targets main
    parametrize_targets requires_aarch64 requires_aarch64_sme requires_aarch64_sve
    requires_adreno_opencl
    requires_aprofile_aem_fvp requires_arm_dot requires_arm_fp16
    requires_cublas requires_cuda requires_cuda_compute_version requires_cudagraph
    requires_cudnn requires_cutlass requires_gpu requires_hexagon requires_hipblas
    requires_libtorch requires_llvm requires_llvm_minimum_version requires_matrixcore
    requires_metal requires_mrvl requires_multi_gpu requires_nccl requires_nnapi
    requires_nvcc_version requires_nvptx requires_opencl requires_openclml requires_package
    requires_rocm requires_rpc requires_tensorcore requires_vulkan requires_x86 requires_x86_amx
    requires_x86_avx512 requires_x86_vnni skip_if_32bit skip_if_wheel_test slow
    uses_gpu
""".split()  # noqa: SIM905
CASES = """
    fixture parameter parameters skip_parameterizations xfail_parameterizations
""".split()  # noqa: SIM905

# Names of `te` that are TVM's: module of the wing -> names.
TE = {
    "autodiff": "gradient",
    "scan": "ScanOp scan",
    "schedule": "Schedule build create_schedule lower",
    "specialize": "SpecializedCondition",
    "stage": "Stage",
    "tag": "TagScope tag_scope",
    "tensor_intrin": "TensorIntrin decl_tensor_intrin",
}
# Late name -> its object; without a dot, one of the front door's.
NAMES: dict[str, str] = {
    "backend.CompiledModel": "backend.base:CompiledModel",
    "backend.cpu": "backend.llvm",
    "backend.cpu_generic": "backend.llvm",
    "backend.get_pattern": "relax.byoc.patterns:get_pattern",
    "backend.get_patterns_with_prefix": "relax.byoc.patterns:get_patterns_with_prefix",
    "backend.TargetBackend": "backend.base:TargetBackend",
    "backend.named_apart": "codegen.lowered:named_apart",
    "driver.lower": "driver.steps:lower",
    "driver.relax_build": "driver.steps:relax_build",
    "driver.VirtualMachine": "runtime.vm:VirtualMachine",
    "frontend.nn": "frontend.nn",
    "frontend.torch.backend": "frontend.torch.compiling:backend",
    "frontend.torch.custom_op": "frontend.torch.operators:custom_op",
    "frontend.torch.dynamo_capture_subgraphs": "frontend.torch.dynamo:dynamo_capture_subgraphs",
    "frontend.torch.from_exported_program": "frontend.torch.importer:from_exported_program",
    "frontend.torch.from_fx": "frontend.torch.fx:from_fx",
    "frontend.torch.relax_dynamo": "frontend.torch.dynamo:relax_dynamo",
    "relax.backend": "backend",
    "relax.build": "driver.steps:relax_build",
    "relax.ExecBuilder": "runtime.vm:ExecBuilder",
    "relax.frontend": "frontend",
    "relax.get_default_pipeline": "backend.pipeline:get_default_pipeline",
    "relax.get_pipeline": "backend.pipeline:get_pipeline",
    "relax.pipeline": "backend.pipeline",
    "relax.register_pipeline": "backend.pipeline:register_pipeline",
    "relax.testing": "tvm.testing",
    "relax.VirtualMachine": "runtime.vm:VirtualMachine",
    "relax.VMExecutable": "runtime.vm:VMExecutable",
    "relax.VMInstrumentReturnKind": "runtime.vm:VMInstrumentReturnKind",
    "tvm.testing.dump_ast": "tvm.testing.ast_printer:dump_ast",
    "tvm.testing.CompareBeforeAfter": "tvm.testing.compare:CompareBeforeAfter",
    **{f"tvm.testing.{name}": f"tvm.testing.marks:{name}" for name in MARKS},
    **{f"tvm.testing.{name}": f"tvm.testing.cases:{name}" for name in CASES},
    "relax.transform.VMBuiltinLower": "relax.transform.lower.lower_runtime_builtin:LowerRuntimeBuiltin",
    "relax.transform.FusionPattern": "relax.transform.fuse.fuse_ops_by_pattern:FusionPattern",
    "relax.transform.PatternCheckContext": "relax.transform.fuse.fuse_ops_by_pattern:PatternCheckContext",
    "te.hybrid": "tvm.te.hybrid",
    **{f"te.{name}": f"tvm.te.{at}:{name}" for at, names in TE.items() for name in names.split()},
    "tir.build": "driver:compile",
    "tir.functor": "tvm.tir.functor",
    "tir.PyStmtExprMutator": "tvm.tir.functor:PyStmtExprMutator",
    "tir.PyStmtExprVisitor": "tvm.tir.functor:PyStmtExprVisitor",
    "tir.transform.HoistedConditionals": "tvm.tir_transform.hoist_expression:HoistedConditionals",
    "tir.transform.HoistedLetBindings": "tvm.tir_transform.hoist_expression:HoistedLetBindings",
    "tvm.topi.testing": "tvm.topi.testing",
    "Arena": "runtime:Arena",
    "bisect": "explore.bisect:bisect",
    "build": "driver.legacy_build:build",
    "CallError": "base.errors:CallError",
    "compile": "driver:compile",
    "cpu": "runtime:cpu",
    "cuda": "runtime:cuda",
    "DataType": "ir.dtype:DataType",
    "Device": "runtime:Device",
    "device": "runtime:device",
    "DiagnosticError": "base.errors:DiagnosticError",
    "error": "base.errors",
    "ExternLibrary": "runtime:ExternLibrary",
    "get_global_func": "runtime:get_global_func",
    "GlobalVar": "ir.expr:GlobalVar",
    "instrument": "ir.instrument",
    "IRModule": "ir.module:IRModule",
    "LoopwrightError": "base.errors:LoopwrightError",
    "lower": "driver.legacy_build:lower",
    "Module": "runtime:Module",
    "nd": "runtime",
    "Op": "ir.op:Op",
    "opencl": "runtime:opencl",
    "register_func": "runtime:register_func",
    "register_global_func": "runtime:register_func",
    "rpc": "tvm.rpc",
    "register_legalize": "relax:register_legalize",
    "relay": "tvm.relay",
    "Span": "base.span:Span",
    "target": "ir.target",
    "Target": "ir.target:Target",
    "Tensor": "runtime:Tensor",
    "trace": "ir.trace:trace",
    "transform": "ir.transform",
    "TVMError": "base.errors:TVMError",
}

# Entry points that come with the package: group -> name -> value.
OWN_PLUGINS = {
    "loopwright.backends": {
        "blas": f"{PACKAGE}.backend.byoc.blas:backend",
        "onednn": f"{PACKAGE}.backend.byoc.onednn:backend",
        "tensorrt": f"{PACKAGE}.tvm.tensorrt.json:backend",
    }
}

# Modules whose names are the passes of folders, one file each: those of the pipelines, and TVM's.
PASSES = {
    "relax.transform": (
        *(f"relax.transform.{room}" for room in ("fuse", "graph", "lower")),
        "tvm.relax_transform",
    ),
    "tir.transform": (
        *(f"tir.transform.{room}" for room in ("dtype", "gpu", "lower", "optimize", "verify")),
        "tvm.tir_transform",
    ),
}

# Module -> the modules it depends on; while one of these is being imported, it cannot be loaded.
_DEPENDS_ON = {"ops": ("relax", "script"), "script.printer": ("tir", "te", "relax")}


def fill(slot: str) -> Any:
    """The object that fills a slot. Raises Unready while its module is being imported."""
    return _load(SLOTS[slot])


def find_name(name: str) -> Any:
    """The object of a late name, or else the submodule of that name. Raises KeyError without either."""
    path, _, last = name.rpartition(".")
    if name in NAMES:
        return _load(NAMES[name])
    if path in PASSES and last in _passes(path):
        return _load(_passes(path)[last])
    module = find_module(name)
    if module is None:
        raise KeyError(name)
    return module


def find_entry(entry: str) -> Any:
    """The object of an entry ("module:name"). Raises KeyError where the module is missing, and
    AttributeError where it has no such name."""
    path, _, name = entry.partition(":")
    module = find_module(path)
    if module is None:
        raise KeyError(path)
    return getattr(module, name) if name else module


def names_of(folder: str) -> list[str]:
    """The late names of a module, "" for the front door."""
    named = [key.rpartition(".")[2] for key in NAMES if key.rpartition(".")[0] == folder]
    return [*named, *(_passes(folder) if folder in PASSES else ())]


# A pass: a class whose base is one, or a function that makes one.
_PASS = r"^(?:class (?=\w+\([^)]*Pass\b)|def )([A-Z]\w*)"


@cache
def _passes(package: str) -> dict[str, str]:
    """The passes of a module: name -> "module:name". They are read off the files, so that naming one
    loads no other."""
    passes: dict[str, str] = {}
    for folder in PASSES[package]:
        for file in sorted(Path(__file__).parent.joinpath(*folder.split(".")).glob("[!_]*.py")):
            names = re.findall(_PASS, file.read_text("utf-8"), re.MULTILINE)
            passes |= {name: f"{folder}.{file.stem}:{name}" for name in names}
    return passes


def _load(entry: str) -> Any:
    module, _, name = entry.partition(":")
    if any(being_imported(f"{PACKAGE}.{part}") for part in _DEPENDS_ON.get(module, ())):
        raise Unready(entry)
    loaded = import_module(f"{PACKAGE}.{module}")
    if being_imported(loaded.__name__) and name not in vars(loaded):
        raise Unready(entry)
    return getattr(loaded, name) if name else loaded


def find_module(path: str) -> ModuleType | None:
    """The module at a path below the package, None where it is missing."""
    full = f"{PACKAGE}.{path}" if path else PACKAGE
    try:
        return import_module(full)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{full}.".startswith(f"{error.name}."):
            raise
        return None
